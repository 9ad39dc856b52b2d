"""Reads the figures of a page from the files that `draw` wrote: a page needs no plotting library to
show them.
"""

import csv
from pathlib import Path
from typing import NamedTuple

FIGURES_FOLDER = "figures"
INDEX_NAME = "figures.tsv"  # what was drawn in a folder, and why not
INSTALL_COMMAND = "pip install -e '.[figures]'"


class DrawnFigure(NamedTuple):
    """A figure from its folder: its SVG, or in a sentence why there is none."""

    name: str
    title: str
    caption: str
    reason: str
    svg: str
    folder_name: str


def read_drawn(folder: Path) -> list[DrawnFigure] | None:
    """Return the figures in a folder, in their order; None if none were drawn there."""
    index_path = folder / INDEX_NAME
    if not index_path.exists():
        return None
    drawn = []
    with index_path.open(encoding="utf-8", newline="") as lines:
        for line in csv.DictReader(lines, delimiter="\t"):
            path = folder / f"{line['name']}.svg"
            svg = path.read_text(encoding="utf-8") if not line["reason"] else ""
            drawn.append(
                DrawnFigure(
                    line["name"],
                    line["title"],
                    line["caption"],
                    line["reason"],
                    svg,
                    folder_name=folder.name,
                )
            )
    return drawn
