"""Defines the chapters of the page, and finds the place of each table and figure in them."""

from typing import NamedTuple

from aiayn.errors import ConfigError
from aiayn.wings import PACKAGE, WingFigure, WingTable, wing_figures, wing_tables


class Chapter(NamedTuple):
    """A part of the page: the name of its anchor, and its title."""

    name: str
    title: str


CHAPTERS = (
    Chapter("results", "Results"),
    Chapter("variations", "Variations on the model"),
    Chapter("trainings", "Trainings"),
    Chapter("model", "The model"),
    Chapter("claims_of_others", "What others say"),
    Chapter("printed", "Printed alone"),
    Chapter("further", "Further"),  # tables and figures without a place
)
_INDEX_BY_CHAPTER = {chapter.name: index for index, chapter in enumerate(CHAPTERS)}

# Chapter and place of each table of the core. Wings register theirs in `analysis/<wing>/wing.py`,
# with numbers in between.
CORE_PLACES = {
    "table2": ("results", 10),
    "replications": ("results", 30),
    "baselines": ("results", 50),
    "verdicts": ("results", 60),
    "table3": ("variations", 10),
    "runs": ("trainings", 20),
    "logs": ("trainings", 30),
    "table4": ("printed", 10),
}


Place = tuple[int, int]  # the index of a chapter, then a number within the chapter
FURTHER: Place = (len(CHAPTERS) - 1, 0)


def place_of_table(name: str) -> Place:
    """Return the place of a table of the core or of a wing.

    Raises:
        ConfigError: if a wing names an unknown chapter.
    """
    if name in CORE_PLACES:
        chapter, place = CORE_PLACES[name]
        return _INDEX_BY_CHAPTER[chapter], place
    return next((_place(table) for table in wing_tables() if table.name == name), FURTHER)


def place_of_figure(name: str) -> Place:
    """Return the place of the registered figure whose name is the longest beginning of `name`.

    Raises:
        ConfigError: if a wing names an unknown chapter.
    """
    beginnings = [figure for figure in wing_figures() if name.startswith(figure.name)]
    return _place(max(beginnings, key=lambda figure: len(figure.name))) if beginnings else FURTHER


def _place(registered: WingTable | WingFigure) -> Place:
    if registered.chapter not in _INDEX_BY_CHAPTER:
        raise ConfigError(
            f"{PACKAGE}: a wing places {registered.name} in chapter {registered.chapter!r},"
            f" expected one of {', '.join(_INDEX_BY_CHAPTER)}; correct its wing.py"
        )
    return _INDEX_BY_CHAPTER[registered.chapter], registered.place
