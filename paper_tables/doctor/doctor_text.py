"""Renders a diagnosis for a terminal: findings with evidence, cost and fix; then every check; at most 100 columns.

Before a training a file of commands has one screen for each training, a line a difference: the line of the file, what,
here, the paper's, the cost in BLEU with the number of its source (`?`: only suspected), and what to change.
"""

import textwrap
from collections.abc import Iterable, Iterator, Sequence

from aiayn.terminal import titled, wrapped
from analysis.doctor.types import CAUSE_BY_CHECK, Answer, Diagnosis, Missing
from analysis.findings import Cost, Evidence, Finding
from paper_tables.doctor.costs import PAPER_CORPORA

LABEL = 11  # columns of the labels of a finding
CHECK_COLUMN = 40
NEXT_STEP = "What a BLEU means beside the paper's, with no run at all: `aiayn explain --bleu 26.9 --system base`."
COMMANDS_WIDTH = 120
_TITLES = ("line", "what", "here", "paper's", "cost in BLEU", "change")
_MAX_WIDTHS = (5, 18, 34, 24, 24)  # of all but the last


def render_diagnosis(diagnosis: Diagnosis) -> str:
    """Return the whole answer as lines of at most `WIDTH` columns, each ended by LF; paths are never broken."""
    claim = f"system {diagnosis.system} of scale {diagnosis.scale}, corpus {diagnosis.corpus}"
    title = f"{diagnosis.name}: is it {claim}?"
    lines = [*wrapped(title), titled(title)[1], ""]
    for kind, path in diagnosis.files.items():
        lines += wrapped(f"{kind:<14}{path}", "  ", " " * 16)
    lines += ["", *wrapped(headline(diagnosis))]
    if diagnosis.missing is not None:
        lines += wrapped(words_of_missing(diagnosis.missing))
    for number, finding in enumerate(diagnosis.findings, 1):
        lines += ["", *_finding_lines(number, finding)]
    lines += ["", "Checks, in the order of the ranked causes", ""]
    for outcome in diagnosis.outcomes:
        lines += _outcome_lines(outcome)
    return "\n".join([*lines, "", *wrapped(NEXT_STEP), ""])


def headline(diagnosis: Diagnosis) -> str:
    """Return in a sentence how many causes and symptoms were found, and how many checks could not be made."""
    num_symptoms = sum(finding.is_symptom for finding in diagnosis.findings)
    num_causes = len(diagnosis.findings) - num_symptoms
    num_missing = sum(bool(outcome.missing) for outcome in diagnosis.outcomes)
    found = "No difference from the claim is found"
    if diagnosis.findings:
        found = f"Found: {_count(num_causes, 'cause')}" + (
            f", {_count(num_symptoms, 'symptom')}" if num_symptoms else ""
        )
    made = f"{len(diagnosis.outcomes) - num_missing} of {len(diagnosis.outcomes)} checks could be made"
    return f"{found}; {made}."


def words_of_missing(missing: Missing) -> str:
    """Return in a sentence what is missing, which the costs of the causes share."""
    if not missing.is_known:
        return f"Missing: {missing.words}; costs add up to no more."
    if missing.high <= 0:
        return f"Nothing is missing: {missing.words}."
    low = "" if missing.low == missing.high else f"{max(missing.low, 0):.2f} to "
    return f"Missing: {low}{missing.high:.2f} BLEU ({missing.words}); costs add up to no more."


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


def _finding_lines(number: int, finding: Finding) -> Iterator[str]:
    yield from wrapped(f"{number}. {finding.title}", "", "   ")
    shown_place = ""
    for evidence in finding.evidence:
        if place_of(evidence) != shown_place:
            shown_place = place_of(evidence)
            yield from _labelled("evidence", shown_place)
        yield from _labelled("", f"{evidence.what}: {evidence.found}; expected {evidence.expected}")
    for cost in finding.costs:
        likelihood = f"{finding.likelihood}: " if finding.likelihood in ("likely", "possible", "unlikely") else ""
        yield from _labelled("cost", f"{likelihood}{words_of_cost(cost)}")
    yield from _labelled("fix", finding.fix)


def place_of(evidence: Evidence) -> str:
    """Return file and line, as an editor takes them."""
    return evidence.path if evidence.line is None else f"{evidence.path}:{evidence.line}"


def words_of_cost(cost: Cost) -> str:
    """Return a cost with its source: `1.0 to 1.1 BLEU, confirmed: <source>`, or what it adds."""
    if cost.low is None:
        return cost.words
    how_sure = "".join(f", {words}" for words in (cost.words, cost.certainty) if words)
    return f"{amount_of(cost)} BLEU{how_sure}: {cost.source}"


def amount_of(cost: Cost) -> str:
    """Return the bounds of a cost in BLEU, `adds` before them if it raises the score; `unknown` without any."""
    if cost.low is None:
        return "unknown"
    is_gain = cost.low <= 0 and (cost.high or 0) <= 0 and (cost.low, cost.high) != (0, 0)
    bounds = [cost.low, cost.high] if not is_gain else [abs(cost.high or 0.0), abs(cost.low)]
    texts = ["all" if bound is None else f"{bound:.1f}" for bound in bounds]
    amount = texts[0] if texts[0] == texts[1] else " to ".join(texts)
    return f"{'adds ' if is_gain else ''}{amount}"


def _outcome_lines(outcome: Answer) -> Iterator[str]:
    words = CAUSE_BY_CHECK[outcome.check].words
    if outcome.findings:
        mark, text = "FOUND", "; ".join(finding.title for finding in outcome.findings)
    elif outcome.missing:
        mark, text = "-", f"not checked: {outcome.missing}"
    else:
        mark, text = "ok", outcome.seen
    yield from wrapped(f"{mark:<7}{words:<{CHECK_COLUMN - 9}}{text}", "  ", " " * CHECK_COLUMN)


def _labelled(label: str, text: str) -> Iterable[str]:
    return wrapped(f"{label:<{LABEL}}{text}", "   ", " " * (LABEL + 3))


def render_commands(diagnoses: Sequence[Diagnosis]) -> str:
    """Return one screen for each training of a file, ended by LF."""
    return "\n".join(_render(diagnosis) for diagnosis in diagnoses)


def headline_of_commands(diagnoses: Sequence[Diagnosis]) -> str:
    """Return in a sentence how many differences there are."""
    number = sum(len(diagnosis.findings) for diagnosis in diagnoses)
    where = "" if len(diagnoses) == 1 else f" in {len(diagnoses)} trainings"
    return f"{number} difference{'' if number == 1 else 's'} from the paper{where}"


def _render(diagnosis: Diagnosis) -> str:
    pair = {"en-de": "En-De", "en-fr": "En-Fr"}.get(PAPER_CORPORA.get(diagnosis.corpus, ""), "En-De")
    number = len(diagnosis.findings)
    lines = [
        f"{diagnosis.name}: nearest to the paper's {diagnosis.system} ({pair}), "
        f"{number or 'no'} difference{'' if number == 1 else 's'}"
    ]
    if diagnosis.missing is not None and diagnosis.missing.is_known:
        lines += _wrapped(words_of_missing(diagnosis.missing))
    sources: list[str] = []
    rows = [_row(finding, sources) for finding in diagnosis.findings]
    if rows:
        lines += ["", *_table([_TITLES, *rows])]
    if diagnosis.harmless:
        lines.append("")
        words = [
            f"{one.evidence[0].what} {one.evidence[0].found} for {one.evidence[0].expected} "
            f"[{_number(_source(one.costs[0]), sources)}]"
            for one in diagnosis.harmless
        ]
        lines += _wrapped(f"Costs nothing in published runs: {', '.join(words)}.")
    if diagnosis.notes:
        lines.append("")
        for note in diagnosis.notes:
            lines += _wrapped(note)
    if sources:
        lines.append("")
        for place, source in enumerate(sources, 1):
            lines += _wrapped(f"[{place}] {source}", "    ")
    return "\n".join([*lines, ""])


def _row(finding: Finding, sources: list[str]) -> tuple[str, ...]:
    evidence, cost = finding.evidence[0], finding.costs[0] if finding.costs else None
    line = "" if evidence.line is None else str(evidence.line)
    return (line, evidence.what, evidence.found, evidence.expected, _cost(finding, cost, sources), finding.fix)


def _cost(finding: Finding, cost: Cost | None, sources: list[str]) -> str:
    if cost is None or cost.low is None:
        return "cost unknown"
    doubt = " ?" if cost.certainty == "suspected" else ""
    unlikely = "unlikely: " if finding.likelihood == "unlikely" else ""
    amount = amount_of(cost)
    if cost.words:  # as much as what is missing allows
        published = cost.words.removeprefix("published: ")
        amount = published if unlikely else f"{amount} of {published}"
    return f"{unlikely}{amount}{doubt} [{_number(_source(cost), sources)}]"


def _source(cost: Cost) -> str:
    return f"{cost.certainty}: {cost.source}" if cost.certainty else cost.source


def _number(source: str, sources: list[str]) -> int:
    if source not in sources:
        sources.append(source)
    return sources.index(source) + 1


def _table(rows: Sequence[Sequence[str]]) -> list[str]:
    widths = [min(limit, max(len(row[place]) for row in rows)) for place, limit in enumerate(_MAX_WIDTHS)]
    lines = []
    for row in rows:
        cells = [cell.ljust(width) for cell, width in zip(row, widths, strict=False)]
        lines.append("  ".join([*cells, row[-1]]).rstrip())
    return lines


def _wrapped(text: str, indent: str = "") -> list[str]:
    return textwrap.wrap(
        text, COMMANDS_WIDTH, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False,
    )  # fmt: skip
