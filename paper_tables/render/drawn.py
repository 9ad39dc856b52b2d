"""Defines the form in which a page gets its figures after they were drawn. This module works
without a plotting library.
"""

from typing import NamedTuple

from aiayn.paths import install_command
from aiayn.spec.system import IS_CHECKOUT

FIGURES_FOLDER = "figures"
INSTALL_COMMAND = "make core" if IS_CHECKOUT else install_command("figures").strip("`")


class DrawnFigure(NamedTuple):
    """A figure that was drawn, with its SVG, or one sentence that says why it was not drawn.

    `folder_name` is '' on a page that is a single file, which does not link to the files of the
    figure.
    """

    name: str
    title: str
    caption: str
    reason: str
    svg: str
    folder_name: str
