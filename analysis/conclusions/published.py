"""Reads what the paper concludes from pairs of printed cells, and what others found of the same."""

from pathlib import Path
from typing import Literal

import msgspec

from aiayn.printed import PUBLISHED_FOLDER, Edition, Text, read_rows


class PublishedConclusion(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What the paper concludes from the cells of two rows in one column: how `row`'s number lies to
    `reference`'s.

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
    """What others found of what a row of Table 3 varies, who, and where in their text; at other
    scales than ours.
    """

    row: Text
    finding: Text
    source: Text
    place: Text


def read_conclusions(folder: Path = PUBLISHED_FOLDER) -> list[PublishedConclusion]:
    """Return what sections 5.4, 6.1 and 6.2 conclude from pairs of printed cells, fixed before
    anything is run.
    """
    return [
        conclusion for _, conclusion in read_rows(folder / "conclusions.csv", PublishedConclusion)
    ]


def read_findings(folder: Path = PUBLISHED_FOLDER) -> dict[str, PublishedFinding]:
    """Return what others found, by row of Table 3."""
    return {
        finding.row: finding for _, finding in read_rows(folder / "elsewhere.csv", PublishedFinding)
    }
