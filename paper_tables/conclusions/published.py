"""Reads what the paper concludes from pairs of printed cells, and what others found of the same."""

from pathlib import Path
from typing import Literal

import msgspec

from aiayn.errors import TableError
from aiayn.printed import PUBLISHED_FOLDER, Edition, Text, read_cells, read_rows, require_unique


class PublishedConclusion(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What the paper concludes from the cells of two rows in one column: how `row`'s number lies to `reference`'s.

    `sentence` is the paper's own, shortened; `statement` says it of the two rows.
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
    relation: Literal["above", "below", "equivalent"]


class PublishedFinding(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What others found of what a row of Table 3 varies, who, and where in their text; at other scales than ours."""

    row: Text
    finding: Text
    source: Text
    place: Text


def read_conclusions(folder: Path = PUBLISHED_FOLDER) -> list[PublishedConclusion]:
    """Return what sections 5.4, 6.1 and 6.2 conclude from pairs of printed cells, fixed before anything is run.

    Raises:
        TableError: the file is malformed, a name is repeated, or a number is not printed or not joined in cells.csv.
    """
    placed = read_rows(folder / "conclusions.csv", PublishedConclusion)
    joined = {(join.table, join.row, join.column, join.edition) for join in read_cells(folder)}
    require_unique((place, (conclusion.name,)) for place, conclusion in placed)
    for place, conclusion in placed:
        for row in (conclusion.row, conclusion.reference):
            cell = (conclusion.table, row, conclusion.column)
            if joined.isdisjoint({(*cell, conclusion.edition), (*cell, "both")}):
                raise TableError(
                    f"{place}: Table {conclusion.table}, row {row}, column {conclusion.column} is not joined for "
                    f"edition {conclusion.edition}; expected a line of cells.csv with these"
                )
    return [conclusion for _, conclusion in placed]


def read_findings(folder: Path = PUBLISHED_FOLDER) -> dict[str, PublishedFinding]:
    """Return what others found, by row of Table 3.

    Raises:
        TableError: the file is malformed, a row is repeated, or the paper concludes nothing of it.
    """
    placed = read_rows(folder / "elsewhere.csv", PublishedFinding)
    require_unique((place, (finding.row,)) for place, finding in placed)
    concluded = {conclusion.row for conclusion in read_conclusions(folder)}
    for place, finding in placed:
        if finding.row not in concluded:
            raise TableError(f"{place}: the paper concludes nothing of row {finding.row}; expected one of "
                             f"conclusions.csv: {', '.join(sorted(concluded))}")  # fmt: skip
    return {finding.row: finding for _, finding in placed}
