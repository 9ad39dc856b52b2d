"""Renders a paired comparison of two systems for a terminal, and as one object."""

import msgspec

from aiayn.terminal import titled, wrapped
from analysis.questions.significance import ALPHA, PairedComparison
from paper_tables.layout import format_difference, format_interval, format_value
from paper_tables.tables.verdicts import format_p

WORDS_BY_METHOD = {"bootstrap": "paired bootstrap resampling", "randomisation": "approximate randomisation"}
OF_SENTENCES = (
    "This tests the choice of sentences alone, not the choice of a seed: for that, train several seeds and "
    "read the intervals of the tables."
)


class NamedComparison(msgspec.Struct, frozen=True, kw_only=True):
    """A comparison of two system outputs: their names, digests, and the search of a run ('' for a file)."""

    testset: str
    baseline_name: str
    baseline_sha256: str
    baseline_search: str
    system_name: str
    system_sha256: str
    system_search: str
    comparison: PairedComparison


def render_comparison(named: NamedComparison) -> str:
    """Return the answer as lines of text."""
    comparison = named.comparison
    width = max(len(named.baseline_name), len(named.system_name), len("system - baseline"))
    interval = ""
    if comparison.interval is not None:
        interval = f"   95 % interval {format_interval(comparison.interval)}"
    own_p = []
    if comparison.sacrebleu_p_value != comparison.p_value:
        p_value = _equal_or_below(comparison.sacrebleu_p_value)
        own_p = [f"  sacreBLEU itself prints p {p_value}, which counts one tail or no ties"]
    title = f"{comparison.metric}: {named.testset}, {comparison.num_segments:,} segments"
    lines = [
        *titled(title),
        f"  baseline    {named.baseline_name:<{width}}  {format_value(comparison.baseline, comparison.metric):>6}",
        f"  system      {named.system_name:<{width}}  {format_value(comparison.system, comparison.metric):>6}",
        f"  difference  {'system - baseline':<{width}}  {format_difference(comparison.difference):>6}{interval}",
        "",
        f"  p {_equal_or_below(comparison.p_value)}: {WORDS_BY_METHOD[comparison.method]}, two-sided, "
        f"{comparison.num_resamples:,} resamples, seed {comparison.seed}",
        *own_p,
        f"  {comparison.num_differing:,} of {comparison.num_segments:,} segments have different counts",
        "",
        *wrapped(_conclusion(comparison), "  "),
        *wrapped(OF_SENTENCES, "  "),
        "",
        f"  signature   {comparison.signature}",
    ]
    searches = {"baseline": named.baseline_search, "system": named.system_search}
    lines += [f"  {side + ' by':<12}{search}" for side, search in searches.items() if search]
    return "\n".join(lines) + "\n"


def _equal_or_below(p_value: float) -> str:
    text = format_p(p_value)
    return text.replace("<", "< ") if text.startswith("<") else f"= {text}"


def _conclusion(comparison: PairedComparison) -> str:
    if comparison.num_differing == 0:
        return "Both score alike in every segment: there is no difference to test."
    if comparison.is_significant:
        direction = "better" if comparison.difference > 0 else "worse"
        return (
            f"The system is {direction} than the baseline, by more than the choice of sentences explains (at {ALPHA})."
        )
    return (
        f"No difference is shown: the choice of sentences explains one as large (at {ALPHA}). A difference may "
        "still exist."
    )
