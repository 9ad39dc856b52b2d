"""Draws into a folder the figures that the wings (optional packages) register, in the order of the
page.
"""

import importlib
import logging
from collections.abc import Mapping
from pathlib import Path

from aiayn.wings import present_wings, registered
from paper_tables.frame import Frame
from paper_tables.render.chapters import place_of_figure
from paper_tables.render.drawn import INSTALL_COMMAND, DrawnFigure

logger = logging.getLogger(__name__)


def has_figures() -> bool:
    """Return whether the optional dependencies `figures` (Altair and vl-convert) are installed."""
    try:
        # The import is tried, because vl-convert is a binary module that may be installed and still
        # not load.
        for name in ("altair", "vl_convert"):
            importlib.import_module(name)
    # OSError: a library that the binary module needs is missing or damaged.
    except (ImportError, OSError):
        return False
    return True


def draw_figures(
    folder: Path,
    frame: Frame,
    log_path_by_run: Mapping[str, Path] | None,
    attention_folder: Path | None,
) -> list[DrawnFigure] | None:
    """Let each wing (optional package) draw its figures of a scale into `folder`. Return the
    figures in the order in which the page shows them.

    `aiayn.wings.Wing.scale_figures` documents the arguments. The list is empty if no wing draws a
    figure. If the optional dependencies `figures` are not installed, the result is None, and a line
    is logged.
    """
    # The folder is an output of the rule `tables`, so Snakemake expects it even if nothing is
    # drawn.
    folder.mkdir(parents=True, exist_ok=True)
    # Without a wing that draws, nobody needs the extra, so nothing is said about it.
    if not any(wing.scale_figures for wing in present_wings().values()):
        return []
    if not has_figures():
        logger.info(f"no figures: the extra is not installed; {INSTALL_COMMAND}")
        return None
    # Imported after the check above, because the import loads Altair, which may be missing. Each
    # `make` below loads it, too.
    from paper_tables.render.figure import Drawable, write_figures

    figures: list[Drawable] = []
    for make in registered("scale_figures"):
        figures += make(frame, log_path_by_run, attention_folder)
    logger.info(f"drawing {len(figures)} figures, each takes some seconds")
    figures.sort(key=lambda drawable: place_of_figure(drawable[0].name))
    return write_figures(figures, folder)
