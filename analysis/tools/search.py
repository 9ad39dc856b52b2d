"""Searches over beam size and alpha on a dev set (section 6.1): the pairs to try, and the table of
their scores.

The paper's pair, beam 4 and alpha 0.6, was "chosen after experimentation on the development set".
This is that experiment: a table to be looked at, which feeds no other.
"""

import re
from collections.abc import Sequence

import msgspec
import pandas as pd
from tabulate import tabulate

from aiayn.errors import ScoreError, UsageError
from aiayn.spec.system import DecodingSpec

PAPERS_CHOICE = (4, 0.6)  # section 6.1
CSV_COLUMNS = (
    "beam_size",
    "alpha",
    "value",
    "is_best",
    "is_papers_choice",
    "sentences_per_second",
    "metric",
    "testset",
    "num_lines",
    "run",
    "average",
    "hypotheses_sha256",
    "signature",
)


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
        return next(
            cell for cell in self.cells if (cell.beam_size, cell.alpha) == (beam_size, alpha)
        )


def pairs_to_try(
    decoding: DecodingSpec, beam_sizes: Sequence[int], alphas: Sequence[float]
) -> list[DecodingSpec]:
    """Return a search for each pair, beam by beam; all else as `decoding` has it.

    Raises:
        UsageError: if a value is invalid, or occurs twice.
    """
    for flag, values, least in (
        ("--beam-sizes", list(beam_sizes), 1),
        ("--alphas", list(alphas), 0),
    ):
        if not values or len(set(values)) != len(values):
            raise UsageError(
                f"{flag} is {values}; expected one or more different values; correct the flag"
            )
        for value in values:
            if not value >= least:
                raise UsageError(
                    f"{flag} has {value!r}; expected {least} or more; correct the flag"
                )
    return [
        msgspec.structs.replace(decoding, beam_size=beam_size, length_penalty_alpha=alpha)
        for beam_size in beam_sizes
        for alpha in alphas
    ]


def common_signature(table: SearchTable) -> str:
    """Return the signature of all cells, with ROW and COLUMN in place of beam and alpha.

    Raises:
        ScoreError: if they differ in anything else, so that their values are not to be compared.
    """
    signatures = {
        re.sub(
            r"\|beam:[^|]+", "|beam:ROW", re.sub(r"\|alpha:[^|]+", "|alpha:COLUMN", cell.signature)
        )
        for cell in table.cells
    }
    if len(signatures) != 1:
        raise ScoreError(
            f"{table.run}: {len(signatures)} definitions in one table:"
            f" {', '.join(sorted(signatures))}; expected one; score all pairs in the same way"
        )
    return signatures.pop()


def render_markdown(table: SearchTable) -> str:
    """Return the table, for a terminal as for a file: beams down, alphas across, the best bold, the
    paper's in [].
    """
    rows = [["beam", *(f"alpha {alpha:g}" for alpha in table.alphas)]]
    for size in table.beam_sizes:
        rows.append(
            [str(size), *(_marked(table, table.cell_of(size, alpha)) for alpha in table.alphas)]
        )
    grid = tabulate(rows[1:], rows[0], "pipe", stralign="right", disable_numparse=True)
    best, papers = table.best, next((cell for cell in table.cells if _is_papers(cell)), None)
    alphas_by_beam = {
        size: [f"{cell.alpha:g}" for cell in best if cell.beam_size == size]
        for size in table.beam_sizes
    }
    pairs = "; ".join(
        f"beam {size}, alpha {', '.join(alphas)}"
        for size, alphas in alphas_by_beam.items()
        if alphas
    )
    choice = (
        f"the paper's choice, beam {PAPERS_CHOICE[0]} and alpha {PAPERS_CHOICE[1]:g}, was not tried"
    )
    if papers is not None:
        choice = (
            f"[] the paper's choice (section 6.1): {best[0].value - papers.value:.2f} below the"
            " best"
        )
    return (
        f"## Beam size and alpha on {table.testset}\n\n{table.metric} (percent) on {table.testset},"
        f" {table.num_lines} lines; {table.run}, {table.average}\n\n{grid}\n\n- bold is best:"
        f" {pairs}\n- {choice}\n\nSignature: `{common_signature(table)}`\n"
    )


def render_csv(table: SearchTable) -> str:
    """Return a line a pair, nothing rounded."""
    common_signature(table)
    shared = {
        key: getattr(table, key) for key in ("metric", "testset", "num_lines", "run", "average")
    }
    marks = [
        {"is_best": cell in table.best, "is_papers_choice": _is_papers(cell)}
        for cell in table.cells
    ]
    lines = [
        shared | msgspec.structs.asdict(cell) | of_it
        for cell, of_it in zip(table.cells, marks, strict=True)
    ]
    return pd.DataFrame(lines, columns=list(CSV_COLUMNS)).to_csv(index=False, lineterminator="\n")


def _is_papers(cell: SearchCell) -> bool:
    return (cell.beam_size, cell.alpha) == PAPERS_CHOICE


def _marked(table: SearchTable, cell: SearchCell) -> str:
    text = f"**{cell.value:.2f}**" if cell in table.best else f"{cell.value:.2f}"
    return f"[{text}]" if _is_papers(cell) else text
