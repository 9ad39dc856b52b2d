"""Defines the chapters of the results page, and finds the place of each table and figure in the
chapters.
"""

from typing import NamedTuple

from aiayn.errors import ConfigError
from aiayn.wings import PACKAGE, WingFigure, WingTable, wing_figures, wing_tables


class Chapter(NamedTuple):
    """A chapter of the results page: the name of its anchor, and its title."""

    name: str
    title: str


CHAPTERS = (
    Chapter("results", "Results"),
    Chapter("variations", "Variations on the model"),
    Chapter("trainings", "Trainings"),
    Chapter("model", "The model"),
    Chapter("claims_of_others", "What others say"),
    Chapter("further", "Further"),  # tables and figures without a place
)
_INDEX_BY_CHAPTER = {chapter.name: index for index, chapter in enumerate(CHAPTERS)}

TABLES = "paper_tables.tables"
# The name, function, chapter and place of each table of the core. Wings register theirs in the same
# way in `analysis/<wing>/wing.py`. Places are multiples of ten, so that a wing can put a table in
# between.
CORE_TABLES = (
    WingTable("table2", f"{TABLES}.table2:lay_out_table2", "results", 10, is_always_packed=True),
    WingTable("replications", f"{TABLES}.verdicts:lay_out_replications", "results", 30),
    WingTable("baselines", f"{TABLES}.further:lay_out_baselines", "results", 50),
    WingTable("verdicts", f"{TABLES}.verdicts:lay_out_verdicts", "results", 60),
    WingTable("table3", f"{TABLES}.table3:lay_out_table3", "variations", 10, is_always_packed=True),
    WingTable("runs", f"{TABLES}.further:lay_out_runs", "trainings", 20),
)
LOGS_TABLE = "logs"  # is laid out on pages of logs only
LOGS_PLACE = ("trainings", 30)


Place = tuple[int, int]  # the index of a chapter, then a number within the chapter
FURTHER: Place = (len(CHAPTERS) - 1, 0)


def scale_tables() -> tuple[WingTable, ...]:
    """Return the tables that the page of a scale may have. The core's tables come before the tables
    of the wings (optional packages).
    """
    return (*CORE_TABLES, *wing_tables())


def place_of_table(name: str) -> Place:
    """Return the place of a table on the results page. The place is registered by the core or by a
    wing (optional package).

    Raises:
        ConfigError: if a wing puts a table into an unknown chapter.
    """
    # This table is registered nowhere, because only pages of logs have it.
    if name == LOGS_TABLE:
        chapter, position = LOGS_PLACE
        return _INDEX_BY_CHAPTER[chapter], position
    for table in scale_tables():
        if table.name == name:
            return _place(table)
    # A table that no list contains is still shown, at the end of the page.
    return FURTHER


def place_of_figure(name: str) -> Place:
    """Return the place of a figure on the results page.

    A place is registered for all figures whose names have the same beginning. If several registered
    beginnings fit, the longest counts.

    Raises:
        ConfigError: if a wing puts a figure into an unknown chapter.
    """
    # A scale has one figure of attention for each run and layer, such as
    # `attention_lines_<run>_<layer>`. All of them are registered as `attention`.
    beginnings = [figure for figure in wing_figures() if name.startswith(figure.name)]
    return _place(max(beginnings, key=lambda figure: len(figure.name))) if beginnings else FURTHER


def _place(registered: WingTable | WingFigure) -> Place:
    if registered.chapter not in _INDEX_BY_CHAPTER:
        raise ConfigError(
            f"{PACKAGE}: a wing places {registered.name} in chapter {registered.chapter!r},"
            f" expected one of {', '.join(_INDEX_BY_CHAPTER)}; correct its wing.py"
        )
    return _INDEX_BY_CHAPTER[registered.chapter], registered.place
