"""Names systems for people: `table3_a_h1` is "one head"."""

import functools
import re
from collections.abc import Sequence

import msgspec

from aiayn.printed import PUBLISHED_FOLDER, read_rows


class SystemName(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The name of a system, and in words what it has instead of base's, or '' for base itself."""

    system: str
    name: str
    change: str


@functools.cache
def _names() -> dict[str, SystemName]:
    rows = read_rows(PUBLISHED_FOLDER / "names.csv", SystemName)
    return {name.system: name for _, name in rows}


def name_of_system(system: str) -> str:
    """Return the name of a system for people. Its own name, without underscores, if it has no
    other.
    """
    known = _names().get(system)
    return known.name if known else system.replace("_", " ")


def change_of_system(system: str) -> str:
    """Return in words what a system has instead of base's."""
    known = _names().get(system)
    return known.change if known else name_of_system(system)


def with_names(text: str) -> str:
    """Return a text with the names for people in place of systems' own names that are whole words
    with an underscore: "table3_a_h4 minus base" becomes "four heads minus base".
    """

    def name(word: re.Match[str]) -> str:
        known = _names().get(word[0])
        return known.name if known else word[0]

    return re.sub(r"(?<!\S)\w+_\w+(?![^\s,;.])", name, text)


def joined(names: Sequence[str]) -> str:
    """Return names as a sentence has them: "one, two and three"."""
    *first, last = names
    return f"{', '.join(first)} and {last}" if first else last
