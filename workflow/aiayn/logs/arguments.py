"""Parses the arguments that fairseq prints at its start into a flat mapping; it evaluates no code.

Two forms are read (fairseq_cli/train.py of each version): `Namespace(adam_eps=1e-09, arch='transformer', ...)` up to
0.10, and `{'_name': None, 'common': {'seed': 1, ...}, 'model': Namespace(...), ...}` after it. Groups are flattened;
where a key occurs in several the first wins, and the `_name` of a group is the group's value: `lr_scheduler` is the
`_name` of that group. Below a hydra model's `encoder` and `decoder`, `embed_dim` becomes `encoder_embed_dim`.
"""

import hashlib
import re
from pathlib import Path
from typing import Literal

import msgspec

from aiayn.logs.types import Argument
from aiayn.printed import read_rows

ARGUMENTS_PATH = Path(__file__).parent / "arguments.csv"


class KnownArgument(msgspec.Struct, frozen=True):
    """An argument of fairseq's or ours: whether logs keep it, and whether it tells only where and how a run is.

    `plain` are the values, in JSON, at which it `changes` neither the architecture, the training nor the search beside
    the paper's. Without the argument a log is taken to have such a value: older versions lack some, and print others.
    """

    key: str
    is_kept: Literal["yes", "no"]
    is_place: Literal["yes", "no"]
    changes: Literal["architecture", "training", "search", ""]
    plain: str


KNOWN_ARGUMENTS = tuple(row for _, row in read_rows(ARGUMENTS_PATH, KnownArgument))
KEPT_KEYS = frozenset(one.key for one in KNOWN_ARGUMENTS if one.is_kept == "yes")
PLACE_KEYS = frozenset(one.key for one in KNOWN_ARGUMENTS if one.is_place == "yes")
_MAX_ARGUMENT_CHARACTERS = 200  # of one value; `data` may be a long list of shards

# One step of the scanner: a key with a value or with what opens a group, what closes or opens one, or a bare string.
# Strings are taken whole, so that a key inside one ('{"beam": 5}') is none of ours.
_STRING = r"""'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*\""""
_STEP = re.compile(
    rf"""['"]?(\w+)['"]?\s*[:=]\s*(?:({_STRING}|(?>[^\s,(){{}}\[\]'"<]+)(?!\()|\[[^\[\]]*\]|\([^()]*\)|<[^<>]*>)|(\w*\(|\{{))"""
    rf"""|([}})])|([{{(])|(?:{_STRING})"""
)
_SIDES = ("encoder", "decoder")


def plain_values(changes: str) -> dict[str, list[Argument]]:
    """Return, by key, the values at which arguments do not change the architecture, the training or the search."""
    return {one.key: msgspec.json.decode(one.plain) for one in KNOWN_ARGUMENTS if one.changes == changes}


class ParsedArguments(dict[str, Argument]):
    """The kept arguments; `digest` is over all keys that can decide a result."""

    digest: str = ""


def is_open(text: str) -> bool:
    """Return whether more brackets open than close: the arguments go on in the next line, or were cut."""
    return text.count("(") + text.count("{") + text.count("[") > text.count(")") + text.count("}") + text.count("]")


def parse_arguments(text: str) -> ParsedArguments:
    """Return the flat arguments of a printed Namespace or config."""
    value_by_key: dict[str, str] = {}
    groups: list[str] = []
    for step in _STEP.finditer(text):
        key, value, opened, closed, bare = step.groups()
        if value is not None:
            flat_key = _flat_key(key, groups)
            if flat_key:
                value_by_key.setdefault(flat_key, value)
        elif closed is not None:
            if groups:
                groups.pop()
        elif opened is not None or bare is not None:
            groups.append(key or "")
    parsed = ParsedArguments({key: parse_value(value) for key, value in value_by_key.items() if key in KEPT_KEYS})
    deciding = "\n".join(f"{key}={value_by_key[key]}" for key in sorted(value_by_key.keys() - PLACE_KEYS))
    parsed.digest = hashlib.blake2b(deciding.encode(), digest_size=8).hexdigest()
    return parsed


def _flat_key(key: str, groups: list[str]) -> str:
    group = groups[-1] if groups else ""
    if key == "_name":
        return {"model": "arch"}.get(group, group)
    return f"{group}_{key}" if group in _SIDES else key


def parse_value(text: str) -> Argument:
    """Return a printed Python value, or hydra's; a list or tuple of one is that one, others stay text."""
    if text.lower() in ("none", "null", "true", "false"):
        return {"true": True, "false": False}.get(text.lower())
    if text[:1] in ("'", '"'):
        inner = text[1:-1]
        return {"True": True, "False": False}.get(inner, inner[:_MAX_ARGUMENT_CHARACTERS])
    if text[:1] in ("[", "("):
        items = [item.strip() for item in text[1:-1].split(",") if item.strip()]
        return parse_value(items[0]) if len(items) == 1 else text[:_MAX_ARGUMENT_CHARACTERS]
    for convert in (int, float):
        try:
            return convert(text)
        except ValueError:
            continue
    return text[:_MAX_ARGUMENT_CHARACTERS]
