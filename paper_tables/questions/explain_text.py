"""Renders an explanation for a terminal: four numbered parts, aligned tables, at most 100 columns."""

from collections.abc import Sequence

from aiayn.terminal import command_lines, sections, table, titled, wrapped
from paper_tables.questions.explain import SEED_NOISE, Explanation, Reading
from paper_tables.questions.reference import PublishedCause, PublishedGap, counted_alike

INDENT = "  "
NOT_STATED = "-"
EDITION_WORDS = {
    "both": "both editions",
    "neurips2017": "NeurIPS 2017",
    "arxiv": "arXiv v5 and later",
}


def render_explanation(explanation: Explanation) -> str:
    """Return the whole answer as lines of at most `WIDTH` columns, each ended by LF."""
    question = explanation.question
    title = f"{question.bleu:g} {question.metric}: {question.system}, {question.language_pair}, {question.testset}"
    nearest = f"3. Published replications nearest to it: {question.system}, same test set and definition"
    return sections(
        ("", [*titled(title), *wrapped(explanation.taken)]),
        ("1. How the paper's number reads in this definition", reading_lines(explanation)),
        ("2. Where the number lies", [line for one in explanation.readings for line in wrapped(one.sentence, INDENT)]),
        (nearest, _replication_lines(explanation)),
        ("4. What to check next", _cause_lines(explanation)),
        ("", ["For your own run or log, `aiayn doctor RUN` checks these causes one by one."]),
    )


def aligned(headings: Sequence[str], rows: Sequence[Sequence[str]], widths: Sequence[int]) -> list[str]:
    """Return a table; cells longer than their column's width wrap, columns of numbers are aligned to the right."""
    right = [index for index, cells in enumerate(zip(*rows, strict=True)) if all(map(_is_number, cells))]
    return table([headings, *rows], right=right, widths=widths, num_headings=1, indent=INDENT)


def _is_number(text: str) -> bool:
    return text.lstrip("+-").replace(".", "", 1).replace(" to ", "", 1).replace(".", "", 1).isdigit()


def _range(low: str, high: str) -> str:
    return low if low == high else f"{low} to {high}"


def _with_sources(
    headings: Sequence[str], widths: Sequence[int], rows: Sequence[Sequence[str]], sources: Sequence[str]
) -> list[str]:
    """Return a table with the number of each row's source in its last column, and below it the sources by number."""
    number_by_source = {source: index for index, source in enumerate(dict.fromkeys(sources), start=1)}
    marked = [(*row, f"[{number_by_source[source]}]") for row, source in zip(rows, sources, strict=True)]
    lines = aligned((*headings, ""), marked, (*widths, 3))
    for source, number in number_by_source.items():
        lines += wrapped(source, f"{INDENT}[{number}] ", f"{INDENT}    ")
    return lines


def reading_lines(explanation: Explanation) -> list[str]:
    """Return how the printed number reads in the question's definition, with the gaps and their sources."""
    metric = explanation.question.metric
    rows = [
        (EDITION_WORDS[one.edition], f"{one.printed} {one.printed_metric}", _reads(one, metric))
        for one in explanation.readings
    ]
    lines = aligned(("printed in", "printed", "reads as"), rows, (20, 40, 36))
    if all(one.printed_metric in counted_alike(metric) for one in explanation.readings):
        text = "The number is in the definition in which the paper's was printed: no gap is needed."
        lines += ["", *wrapped(text, INDENT)]
    elif explanation.gaps:
        heading = "Gaps that make the range: one output, its value in a paper-style definition minus the other's."
        lines += ["", *_gap_lines(heading, explanation.gaps)]
    else:
        lines += ["", *wrapped(f"No published gap leads to {metric}, so no range is made.", INDENT)]
    if explanation.other_gaps:
        lines += ["", *_gap_lines("Published too, but no range is made from them:", explanation.other_gaps)]
    if explanation.caveats:
        lines += ["", *(line for caveat in explanation.caveats for line in wrapped(caveat, INDENT))]
    return lines


def _reads(reading: Reading, metric: str) -> str:
    """Return the range with as many decimals as are printed."""
    if reading.low is None or reading.high is None:
        return "no published gap"
    decimals = len(reading.printed.partition(".")[2])
    return f"{_range(f'{reading.low:.{decimals}f}', f'{reading.high:.{decimals}f}')} {metric}"


def _gap_lines(heading: str, gaps: Sequence[PublishedGap]) -> list[str]:
    rows = [
        (
            _range(gap.low, gap.high),
            gap.value_from or NOT_STATED,
            gap.value_to or NOT_STATED,
            gap.printed_from,
            "; ".join(filter(None, (gap.who, gap.note))),
        )
        for gap in gaps
    ]
    headings, widths = ("gap", "from", "to", "'from' is", "who"), (12, 5, 5, 30, 31)
    return [*wrapped(heading, INDENT), *_with_sources(headings, widths, rows, [gap.source for gap in gaps])]


def _replication_lines(explanation: Explanation) -> list[str]:
    metric = explanation.question.metric
    elsewhere = f"{explanation.num_replications_elsewhere} more are in other definitions or on other test sets."
    if not explanation.replications:
        return wrapped(f"None is published in {metric} on {explanation.question.testset}. {elsewhere}", INDENT)
    rows = []
    for near in explanation.replications:
        one = near.replication
        printed_as = "; ".join(filter(None, (one.definition, one.remarks)))
        rows.append((one.value, f"{near.difference:+.2f}", one.who, one.conditions or NOT_STATED, printed_as))
    headings = ("BLEU", "differs by", "who", "steps, batch, hardware", "as printed; remarks")
    sources = [near.replication.source for near in explanation.replications]
    shown = f"The nearest {len(rows)} of {explanation.num_replications} in {metric}; {elsewhere}"
    return [*_with_sources(headings, (5, 10, 18, 23, 27), rows, sources), "", *wrapped(shown, INDENT)]


def _cause_lines(explanation: Explanation) -> list[str]:
    if explanation.amount is None and not explanation.is_low:
        return wrapped(
            "Without a range no amount is known to be missing. Score the hypotheses in every definition: "
            f"aiayn score --hypotheses FILE --testset {explanation.question.testset} "
            f"--language-pair {explanation.question.language_pair}",
            INDENT,
        )
    if not explanation.causes:
        return wrapped("Nothing is missing.", INDENT)
    if explanation.is_low:
        lead = (
            "Below 10 BLEU a model is not trained yet, or something is broken on the way. Check in this order; each is "
            "a published cause, and the first ones may occur together:"
        )
    else:
        low, high = (f"{amount:g}" for amount in explanation.amount or (0, 0))
        lead = f"{_range(low, high)} BLEU "
        lead += "may be missing. " if explanation.direction == "lowers" else "more than the paper's number reads. "
        lead += (
            f"Causes that alone explain that amount, up to {SEED_NOISE} for the seed, in their rank:"
            if explanation.is_amount_matched
            else "No single published cause explains that; two may add up. The nearest ones:"
        )
    return [*wrapped(lead, INDENT), *(line for cause in explanation.causes for line in ("", *_one_cause(cause)))]


def _one_cause(cause: PublishedCause) -> list[str]:
    label = f"{INDENT}{cause.rank:<3} {_range(cause.cost_low, cause.cost_high):<11} "
    body = " " * len(label)
    lines = wrapped(cause.cause, label, body)
    lines += wrapped(f"seen: {cause.evidence} [{cause.source}]", body)
    lines += wrapped(f"check: {cause.check}", body)
    return lines + command_lines(cause.command.split(), f"{body}$ ", f"{body}    ")
