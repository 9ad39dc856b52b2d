"""Figures of a page, as files in a folder: a wing draws them, and the page needs no plotting library to show them."""

import csv
import importlib
import logging
from pathlib import Path
from typing import Any, Literal, NamedTuple

from aiayn.wings import find_target, load, registered

logger = logging.getLogger(__name__)
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


def has_figures() -> bool:
    """Return whether the extra `figures` is installed: Altair, and vl-convert, which draws without a browser."""
    try:
        for name in ("altair", "vl_convert"):
            importlib.import_module(name)
    except ImportError:
        return False
    return True


def draw_figures(
    kind: Literal["scale_figures", "logs_figures"], folder: Path, *arguments: Any
) -> list[DrawnFigure] | None:
    """Have the figures of a kind, as the wings make them of the arguments, written into a folder, and return them.

    The list is empty if no wing draws; without the extra that draws it is None, and a line is logged.
    """
    folder.mkdir(parents=True, exist_ok=True)  # rule tables declares it, also where nothing is drawn
    if not (writer := find_target("write_figures")):
        return []
    if not has_figures():
        logger.info(f"no figures: the extra is not installed; {INSTALL_COMMAND}")
        return None
    load(writer)((figure for make in registered(kind) for figure in make(*arguments)), folder)
    return read_drawn(folder)


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
                DrawnFigure(line["name"], line["title"], line["caption"], line["reason"], svg, folder_name=folder.name)
            )
    return drawn
