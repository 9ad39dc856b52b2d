"""Renders what differs in a training's command from the paper's configuration: one screen, a line a difference.

Columns are the line of the file, what, here, the paper's, the cost in BLEU with the number of its source, and what to
change; a `?` follows a cost that was only suspected. Sources are below by their numbers.
"""

import textwrap
from collections.abc import Sequence

from analysis.doctor.types import Diagnosis
from analysis.findings import Cost, Finding
from paper_tables.answers.layout_doctor import amount_of, words_of_missing
from paper_tables.costs import PAPER_CORPORA

WIDTH = 120
_TITLES = ("line", "what", "here", "paper's", "cost in BLEU", "change")
_MAX_WIDTHS = (5, 18, 34, 24, 24)  # of all but the last
_GAP = "  "


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
        lines.append(_GAP.join([*cells, row[-1]]).rstrip())
    return lines


def _wrapped(text: str, indent: str = "") -> list[str]:
    return textwrap.wrap(
        text, WIDTH, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False,
    )  # fmt: skip
