"""Searches over beam size and alpha on a dev set (section 6.1): the pairs to try, and the table of their scores.

The paper's pair, beam 4 and alpha 0.6, was "chosen after experimentation on the development set". This is that
experiment: a table to be looked at, which feeds no other.
"""

import re
from collections.abc import Sequence

import msgspec
import pandas as pd

from aiayn import terminal
from aiayn.errors import ScoreError, UsageError
from aiayn.spec.system import DecodingSpec
from aiayn.spec.training import check_decoding

PAPERS_CHOICE = (4, 0.6)  # section 6.1
FLAG_BY_KEY = {"beam_size": "--beam-sizes", "length_penalty_alpha": "--alphas"}
CSV_COLUMNS = (
    "beam_size", "alpha", "value", "is_best", "is_papers_choice", "sentences_per_second", "metric", "testset",
    "num_lines", "run", "average", "hypotheses_sha256", "signature",
)  # fmt: skip


class SearchCell(msgspec.Struct, frozen=True, kw_only=True):
    """What one pair scored: `value` in percent, `signature` that of the score and of the search."""

    beam_size: int
    alpha: float
    value: float
    sentences_per_second: float
    hypotheses_sha256: str
    signature: str


class SearchTable(msgspec.Struct, frozen=True, kw_only=True):
    """All pairs, scored under one metric on one test set, by the hypotheses of one checkpoint."""

    run: str
    average: str
    testset: str
    num_lines: int
    metric: str
    cells: list[SearchCell]

    @property
    def beam_sizes(self) -> list[int]:
        """The rows, in the order given."""
        return list(dict.fromkeys(cell.beam_size for cell in self.cells))

    @property
    def alphas(self) -> list[float]:
        """The columns, in the order given."""
        return list(dict.fromkeys(cell.alpha for cell in self.cells))

    @property
    def best(self) -> list[SearchCell]:
        """The cell of the highest value; several, if they are equal."""
        highest = max(cell.value for cell in self.cells)
        return [cell for cell in self.cells if cell.value == highest]

    def cell_of(self, beam_size: int, alpha: float) -> SearchCell:
        """Return the cell of a pair."""
        return next(cell for cell in self.cells if (cell.beam_size, cell.alpha) == (beam_size, alpha))


def pairs_to_try(decoding: DecodingSpec, beam_sizes: Sequence[int], alphas: Sequence[float]) -> list[DecodingSpec]:
    """Return a search for each pair, beam by beam; all else as `decoding` has it.

    Raises:
        UsageError: if a value is invalid, or occurs twice.
    """
    for key, values in (("beam_size", list(beam_sizes)), ("length_penalty_alpha", list(alphas))):
        if not values or len(set(values)) != len(values):
            raise UsageError(f"{FLAG_BY_KEY[key]} is {values}; expected one or more different values; correct the flag")

    def check(key: str, is_right: bool, expected: str) -> None:
        if not is_right:
            value = getattr(tried, key)
            raise UsageError(f"{FLAG_BY_KEY.get(key, key)} has {value!r}; expected {expected}; correct the flag")

    searches = []
    for beam_size in beam_sizes:
        for alpha in alphas:
            tried = msgspec.structs.replace(decoding, beam_size=beam_size, length_penalty_alpha=alpha)
            check_decoding(tried, check)
            searches.append(tried)
    return searches


def common_signature(table: SearchTable) -> str:
    """Return the signature of all cells, with ROW and COLUMN in place of beam and alpha.

    Raises:
        ScoreError: if they differ in anything else, so that their values are not to be compared.
    """
    signatures = {
        re.sub(r"\|beam:[^|]+", "|beam:ROW", re.sub(r"\|alpha:[^|]+", "|alpha:COLUMN", cell.signature))
        for cell in table.cells
    }
    if len(signatures) != 1:
        raise ScoreError(
            f"{table.run}: {len(signatures)} definitions in one table: {', '.join(sorted(signatures))}; expected one; "
            "score all pairs in the same way"
        )
    return signatures.pop()


def render_text(table: SearchTable) -> str:
    """Return the table for a terminal: beams down, alphas across, `*` at the best, brackets around the paper's."""
    rows = _rows(table, "*")
    lines = terminal.table(rows, right=range(len(rows[0])))
    lines = [_heading(table), "", *lines, "", *_explanations(table, "*"), f"signature: {common_signature(table)}"]
    return "\n".join(lines) + "\n"


def render_markdown(table: SearchTable) -> str:
    """Return the same table in Markdown, the best in bold."""
    header, *rows = (f"| {' | '.join(row)} |" for row in _rows(table, "**"))
    lines = [f"## Beam size and alpha on {table.testset}", "", _heading(table), ""]
    lines += [header, "|---:" * (1 + len(table.alphas)) + "|", *rows, ""]
    lines += [*(f"- {line}" for line in _explanations(table, "**")), "", f"Signature: `{common_signature(table)}`"]
    return "\n".join(lines) + "\n"


def _rows(table: SearchTable, best_mark: str) -> list[list[str]]:
    """Return the header, and a row a beam size."""
    rows = [["beam", *(f"alpha {alpha:g}" for alpha in table.alphas)]]
    for beam_size in table.beam_sizes:
        cells = (table.cell_of(beam_size, alpha) for alpha in table.alphas)
        rows.append([str(beam_size), *(_marked(table, cell, best_mark) for cell in cells)])
    return rows


def render_csv(table: SearchTable) -> str:
    """Return a line a pair, nothing rounded."""
    common_signature(table)
    shared = {key: getattr(table, key) for key in ("metric", "testset", "num_lines", "run", "average")}
    marks = [{"is_best": cell in table.best, "is_papers_choice": _is_papers(cell)} for cell in table.cells]
    lines = [shared | msgspec.structs.asdict(cell) | of_it for cell, of_it in zip(table.cells, marks, strict=True)]
    return pd.DataFrame(lines, columns=list(CSV_COLUMNS)).to_csv(index=False, lineterminator="\n")


def _is_papers(cell: SearchCell) -> bool:
    return (cell.beam_size, cell.alpha) == PAPERS_CHOICE


def _marked(table: SearchTable, cell: SearchCell, best_mark: str) -> str:
    text = f"{cell.value:.2f}"
    if cell in table.best:
        text = f"{best_mark}{text}{best_mark if best_mark == '**' else ''}"
    return f"[{text}]" if _is_papers(cell) else text


def _heading(table: SearchTable) -> str:
    return f"{table.metric} (percent) on {table.testset}, {table.num_lines} lines; {table.run}, {table.average}"


def _explanations(table: SearchTable, best_mark: str) -> list[str]:
    """Return what the marks mean, and how far the paper's choice is from the best."""
    best = table.best
    alphas_by_beam = {size: [f"{cell.alpha:g}" for cell in best if cell.beam_size == size] for size in table.beam_sizes}
    pairs = "; ".join(f"beam {size}, alpha {', '.join(alphas)}" for size, alphas in alphas_by_beam.items() if alphas)
    lines = [f"{'bold is' if best_mark == '**' else best_mark} best: {pairs}"]
    papers = next((cell for cell in table.cells if _is_papers(cell)), None)
    if papers is None:
        lines.append(f"the paper's choice, beam {PAPERS_CHOICE[0]} and alpha {PAPERS_CHOICE[1]:g}, was not tried")
    else:
        lines.append(f"[] the paper's choice (section 6.1): {best[0].value - papers.value:.2f} below the best")
    return lines
