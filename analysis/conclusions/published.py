"""Reads two tables: what the paper concludes from pairs of cells of its tables, and what other
authors found on the same questions.
"""

from pathlib import Path

import msgspec

from aiayn.printed import Edition, Text, read_rows
from analysis.conclusions.answers import Relation

DATA_FOLDER = Path(__file__).parent  # README.md there describes the files


class PublishedConclusion(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A conclusion of the paper from two cells in a column of its tables: how the number of `row`
    compares with the number of `reference`.

    `sentence` is the sentence in which the paper states the conclusion, shortened. `statement`
    states the same conclusion about the two rows of the table.
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
    """The result of other authors who varied the same setting as a row of Table 3, on their own
    data and models.

    `source` is the publication of the result, `place` the section or table in this publication.
    """

    row: Text
    finding: Text
    source: Text
    place: Text


def read_conclusions(folder: Path = DATA_FOLDER) -> list[PublishedConclusion]:
    """Return the conclusions that sections 5.4, 6.1 and 6.2 of the paper draw from pairs of cells
    of its tables.

    The list of conclusions was fixed before any system was trained.
    """
    # A misspelt row or column is found when the cell is looked up (`_find_cell`).
    rows = read_rows(folder / "conclusions.csv", PublishedConclusion)
    return [conclusion for _, conclusion in rows]


def read_findings(folder: Path = DATA_FOLDER) -> dict[str, PublishedFinding]:
    """Return what other authors found, by the row of Table 3 that varies the same setting."""
    rows = read_rows(folder / "elsewhere.csv", PublishedFinding)
    return {finding.row: finding for _, finding in rows}
