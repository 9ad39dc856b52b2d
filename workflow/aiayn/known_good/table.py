"""Reads known_good.csv: for each quantity the allowed values, the numbers that need it, and why.

`allowed` has alternatives, separated by ` or `:

* `any`: nothing is compared. The reason says which other quantity would show a wrong value.
* `[0, null]`: a JSON list of values. An empty list allows no value: the fact is always a problem.
* `{d_model}`: the value of the target. `{train_pairs~0.15}` is within 15 % of it.
* `0.5..1.05`, `256..`, `..1e-05`: a range. An end may be a value of the target: `{low}..{high}`.

`numbers` has words of `NUMBERS`. `+bleu` means that a log must state the quantity, or its BLEU is
set apart. A quantity that no number needs gives a note.
"""

import csv
import functools
import json
import math
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from aiayn.facts.types import Value

TABLE_PATH = Path(__file__).with_name("known_good.csv")
NUMBERS = ("row", "train", "ppl", "cost", "bleu")
ANY = "any"  # a target's value where its scale does not fix one
TargetValue = Value | tuple[Value, ...]
_TARGET = re.compile(r"\{(\w+)(?:~([\d.]+))?\}")


class Rule(msgspec.Struct, frozen=True, dict=True):
    """One line of the table."""

    quantity: str
    allowed: str
    numbers: str
    why: str

    @functools.cached_property
    def needed_by(self) -> frozenset[str]:
        """The numbers that need an allowed value."""
        return frozenset(self.numbers.replace("+", "").split())

    @functools.cached_property
    def required_by(self) -> frozenset[str]:
        """The numbers that need the quantity to be stated."""
        return frozenset(word[1:] for word in self.numbers.split() if word.startswith("+"))


def read_table(path: Path = TABLE_PATH) -> dict[str, Rule]:
    """Return the rules by quantity.

    Raises:
        ValueError: if a quantity is there twice, or a number is not known.
    """
    rules: dict[str, Rule] = {}
    with path.open(encoding="utf-8", newline="") as lines:
        for row in csv.DictReader(lines):
            rule = Rule(**row)
            others = rule.needed_by - set(NUMBERS)
            if rule.quantity in rules or others:
                raise ValueError(f"{path}: {rule.quantity}: twice, or for unknown numbers {others}")
            rules[rule.quantity] = rule
    return rules


def allowed_by(value: Value, allowed: str, target: Mapping[str, TargetValue]) -> int | None:
    """Return the number of the first alternative that allows a value; None if none does."""
    for number, alternative in enumerate(allowed.split(" or ")):
        if _is_allowed(value, alternative, target):
            return number
    return None


def _is_allowed(value: Value, alternative: str, target: Mapping[str, TargetValue]) -> bool:
    if alternative.startswith("["):
        return any(are_equal(value, expected) for expected in _listed(alternative))
    if ".." in alternative:
        return _is_within(value, alternative, target)
    found = _TARGET.fullmatch(alternative)
    if found is None or found[1] not in target:
        return alternative == "any"  # a target without the value allows nothing
    expected = target[found[1]]
    values = expected if isinstance(expected, tuple) else (expected,)
    tolerance = float(found[2] or 0.0)
    return expected == ANY or any(are_equal(value, one, tolerance) for one in values)


@functools.cache
def _listed(text: str) -> tuple[Value, ...]:
    """Return the values of a JSON list."""
    return tuple(json.loads(text))


def _is_within(value: Value, text: str, target: Mapping[str, TargetValue]) -> bool:
    """Return whether a value is in a range."""
    low, _, high = text.partition("..")
    ends = _end(low, target, -math.inf), _end(high, target, math.inf)
    if ANY in ends:
        return True
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    return bool(ends[0] <= value <= ends[1])


def _end(text: str, target: Mapping[str, TargetValue], default: float) -> Any:
    """Return an end of a range; NaN, which allows nothing, if the target does not have it."""
    if not text:
        return default
    if found := _TARGET.fullmatch(text):
        return target.get(found[1], math.nan)
    return float(text)


def are_equal(value: Value, expected: Value, tolerance: float = 0.0) -> bool:
    """Return whether two values are equal; numbers may differ by a relative tolerance."""
    if isinstance(value, bool) or isinstance(expected, bool):
        return value is expected
    if value is None or expected is None or isinstance(value, str) or isinstance(expected, str):
        return value == expected
    return math.isclose(value, expected, rel_tol=max(tolerance, 1e-9), abs_tol=1e-15)


def show_allowed(allowed: str, target: Mapping[str, TargetValue]) -> str:
    """Return allowed values in words: `0.1`, `3,003`, `0.5 to 1.05`, `no such line`."""
    first = allowed.split(" or ", maxsplit=1)[0]
    if first.startswith("["):
        values = [one for one in json.loads(first) if one is not None] or [None]
        return show(values[0]) if json.loads(first) else "none"
    if ".." in first:
        low, _, high = first.partition("..")
        ends = [show(_end(text, target, math.nan)) for text in (low, high)]
        if not low or not high:
            return f"at most {ends[1]}" if not low else f"at least {ends[0]}"
        return f"{ends[0]} to {ends[1]}"
    found = _TARGET.fullmatch(first)
    if found is None:
        return first
    expected = target.get(found[1])
    if isinstance(expected, tuple):
        return " or ".join(show(one) for one in expected)
    return f"{'about ' if found[2] else ''}{show(expected)}"


def show(value: object) -> str:
    """Return a value as it is read: thousands with commas, a rate with three digits."""
    if value is None:
        return "none"
    if isinstance(value, bool | str):
        return str(value)
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        if value.is_integer() and abs(value) < 1e15:
            return f"{value:,.0f}"
        return f"{value:.3g}" if abs(value) < 1 else f"{value:,.2f}"
    return str(value)
