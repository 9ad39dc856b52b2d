"""Gives readable names to systems, corpora and test sets: the name of system `table3_a_h1` is "one
head".
"""

import functools
import re
from collections.abc import Sequence

import msgspec

from aiayn.printed import PUBLISHED_FOLDER, read_rows

# Matches a key in a sentence: `table3_a_h1` in "(table3_a_h1)," or in "of table3_a_h1's runs".
# Before the key there must be a blank, a bracket or the beginning of the text, so that paths such
# as `runs/demo_en_de` and files such as `a_b.tsv` do not match.
KEY = re.compile(r"(?<![^\s(])\w+_\w+(?=[,;.:)']*(?:s?\s|$))")


class Name(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The name of a system, a corpus or a test set. `change` describes how a system differs from
    base, and is '' for a corpus or a test set.
    """

    key: str
    name: str
    change: str


@functools.cache
def _names() -> dict[str, Name]:
    return {name.key: name for _, name in read_rows(PUBLISHED_FOLDER / "names.csv", Name)}


def name_of_key(key: str) -> str:
    """Return the readable name of a key (of a system, a corpus or a test set). A key without a
    readable name is returned without its underscores.
    """
    entry = _names().get(key)
    return entry.name if entry else key.replace("_", " ")


def change_of_system(system: str) -> str:
    """Return a few words that describe how a system differs from base."""
    entry = _names().get(system)
    return entry.change if entry else name_of_key(system)


def with_names(text: str) -> str:
    """Replace keys in a text by readable names: "table3_a_h4 minus base" becomes "four heads minus
    base". Only keys with an underscore are replaced, because `base` or `big` may be ordinary words
    in the text.
    """

    def name(word: re.Match[str]) -> str:
        # A word with an underscore may also be a metric or a symbol such as d_model. These stay as
        # they are.
        entry = _names().get(word[0])
        return entry.name if entry else word[0]

    return KEY.sub(name, text)


def joined(names: Sequence[str]) -> str:
    """Join names as in an English sentence: "one, two and three"."""
    *first, last = names
    return f"{', '.join(first)} and {last}" if first else last
