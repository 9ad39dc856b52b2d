"""Lists pairs of beam size and alpha to try on a dev set (section 6.1), and tabulates their scores.

The paper's pair, beam 4 and alpha 0.6, was "chosen after experimentation on the development set".
This module repeats that experiment. No other table uses its results.
"""

import itertools
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
    """The score of a pair: `value` in percent, and the signatures of score and search."""

    beam_size: int
    alpha: float
    value: float
    sentences_per_second: float
    hypotheses_sha256: str
    signature: str


class SearchTable(msgspec.Struct, frozen=True, kw_only=True):
    """The scores of all pairs: a single metric, test set and checkpoint."""

    run: str
    average: str
    testset: str
    num_lines: int
    metric: str
    cells: list[SearchCell]

    @property
    def best(self) -> list[SearchCell]:
        """The cells with the highest value: several if they are equal."""
        highest = max(cell.value for cell in self.cells)
        return [cell for cell in self.cells if cell.value == highest]


def pairs_to_try(
    decoding: DecodingSpec, beam_sizes: Sequence[int], alphas: Sequence[float]
) -> list[DecodingSpec]:
    """Return a search for each pair, beam by beam; everything else is as in `decoding`.

    Raises:
        UsageError: if a value is invalid, or occurs twice.
    """
    for flag, values, least in (("--beam-sizes", beam_sizes, 1), ("--alphas", alphas, 0)):
        if not values or len(set(values)) != len(values):
            raise UsageError(
                f"{flag} is {list(values)}; expected one or more different values; correct the flag"
            )
        for value in values:
            if not value >= least:
                raise UsageError(
                    f"{flag} has {value!r}; expected {least} or more; correct the flag"
                )
    searches = []
    for size, alpha in itertools.product(beam_sizes, alphas):
        pair = {"beam_size": size, "length_penalty_alpha": alpha}
        searches.append(msgspec.structs.replace(decoding, **pair))
    return searches


def common_signature(table: SearchTable) -> str:
    """Return the signature of all cells, with ROW and COLUMN in place of beam and alpha.

    Raises:
        ScoreError: if they differ in anything else, so that their values cannot be compared.
    """
    signatures = set()
    for cell in table.cells:
        without_alpha = re.sub(r"\|alpha:[^|]+", "|alpha:COLUMN", cell.signature)
        signatures.add(re.sub(r"\|beam:[^|]+", "|beam:ROW", without_alpha))
    if len(signatures) != 1:
        raise ScoreError(
            f"{table.run}: {len(signatures)} definitions in one table:"
            f" {', '.join(sorted(signatures))}; expected a single definition; score all pairs in"
            " the same way"
        )
    return signatures.pop()


def render_markdown(table: SearchTable) -> str:
    """Return the table for a terminal or a file: beams down, alphas across.

    The best values are bold, the paper's choice is in brackets.
    """
    texts_by_beam: dict[int, list[str]] = {}
    best_alphas_by_beam: dict[int, list[str]] = {}
    beam_size, alpha = PAPERS_CHOICE
    choice = f"the paper's choice, beam {beam_size} and alpha {alpha:g}, was not tried"
    for cell in table.cells:
        text = f"{cell.value:.2f}"
        if cell in table.best:
            text = f"**{text}**"
            best_alphas_by_beam.setdefault(cell.beam_size, []).append(f"{cell.alpha:g}")
        if _is_papers(cell):
            text = f"[{text}]"
            loss = table.best[0].value - cell.value
            choice = f"[] the paper's choice (section 6.1): {loss:.2f} below the best"
        texts_by_beam.setdefault(cell.beam_size, []).append(text)
    alphas = dict.fromkeys(f"alpha {cell.alpha:g}" for cell in table.cells)
    rows = [[str(size), *texts] for size, texts in texts_by_beam.items()]
    grid = tabulate(rows, ["beam", *alphas], "pipe", stralign="right", disable_numparse=True)
    pairs = [f"beam {size}, alpha {', '.join(best)}" for size, best in best_alphas_by_beam.items()]
    return (
        f"## Beam size and alpha on {table.testset}\n\n{table.metric} (percent) on {table.testset},"
        f" {table.num_lines} lines; {table.run}, {table.average}\n\n{grid}\n\n- bold is best:"
        f" {'; '.join(pairs)}\n- {choice}\n\nSignature: `{common_signature(table)}`\n"
    )


def render_csv(table: SearchTable) -> str:
    """Return a line for each pair, unrounded."""
    common_signature(table)
    lines = []
    for cell in table.cells:
        marks = {"is_best": cell in table.best, "is_papers_choice": _is_papers(cell)}
        lines.append(msgspec.structs.asdict(table) | msgspec.structs.asdict(cell) | marks)
    return pd.DataFrame(lines, columns=list(CSV_COLUMNS)).to_csv(index=False, lineterminator="\n")


def _is_papers(cell: SearchCell) -> bool:
    return (cell.beam_size, cell.alpha) == PAPERS_CHOICE
