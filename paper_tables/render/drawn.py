"""Describes drawn figures for a page, which needs no plotting library to show them."""

from typing import NamedTuple

from aiayn.paths import install_command
from aiayn.spec.system import IS_CHECKOUT

FIGURES_FOLDER = "figures"
INSTALL_COMMAND = "make core" if IS_CHECKOUT else install_command("figures").strip("`")


class DrawnFigure(NamedTuple):
    """A figure in its folder: its SVG, or the reason, in a sentence, why it is not drawn.

    `folder_name` is '' if the page has no files next to it to link to.
    """

    name: str
    title: str
    caption: str
    reason: str
    svg: str
    folder_name: str
