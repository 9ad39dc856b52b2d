"""Reads what the paper concludes from pairs of printed cells, and what other authors found on the
same questions.
"""

from pathlib import Path

import msgspec

from aiayn.printed import Edition, Text, read_rows
from analysis.conclusions.answers import Relation

DATA_FOLDER = Path(__file__).parent  # README.md there describes the files


class PublishedConclusion(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A conclusion from two cells of one column: how `row`'s number compares with `reference`'s.

    `sentence` is the paper's own sentence, shortened. `statement` applies it to the two rows.
    `reference` is the row that `row` is compared with.
    """

    name: Text
    section: Text
    sentence: Text
    statement: Text
    table: int
    row: Text
    reference: Text
    column: Text
    edition: Edition
    relation: Relation


class PublishedFinding(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The result of other authors who varied the same setting as a row of Table 3, at their own
    scale.

    `source` is the publication, `place` the section or table in it.
    """

    row: Text
    finding: Text
    source: Text
    place: Text


def read_conclusions(folder: Path = DATA_FOLDER) -> list[PublishedConclusion]:
    """Return the conclusions that sections 5.4, 6.1 and 6.2 draw from pairs of printed cells.

    The list was fixed before any training.
    """
    # A misspelt row or column is found when the cell is looked up (`_find_cell`).
    rows = read_rows(folder / "conclusions.csv", PublishedConclusion)
    return [conclusion for _, conclusion in rows]


def read_findings(folder: Path = DATA_FOLDER) -> dict[str, PublishedFinding]:
    """Return what others found, by row of Table 3."""
    rows = read_rows(folder / "elsewhere.csv", PublishedFinding)
    return {finding.row: finding for _, finding in rows}
