"""Reads known_good.csv, the table of the settings with which a log's number is comparable with the
paper's. A row of the file has a quantity, its allowed values, the kinds of numbers that depend on
the quantity, the reason, and the name of the quantity in messages, if it differs.

The column `allowed` has alternatives, separated by ` or `:

* `any`: every value is allowed. The column `why` says which other quantity would show a wrong
  value.
* `[0, null]`: a JSON list of allowed values. With an empty list, every value is a problem.
* `{d_model}`: the value of the target, which is a table row. `{train_pairs~0.15}` allows values
  within 15 % of the target's value.
* `0.5..1.05`, `256..`, `..1e-05`: a range. An end of a range may be a value of the target:
  `{low}..{high}`.

The column `numbers` lists the kinds of numbers that need an allowed value of the quantity: `row`
(which row a training is in), `train` (all numbers of a training), `ppl` (perplexity), `cost`
(training cost) and `bleu` (BLEU of translations). `+bleu` means that the BLEU is left out, too, if
the log does not state the quantity. If the column is empty, a value that is not allowed gives only
a note.
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

from aiayn.facts.trainings import ANY, TargetValue
from aiayn.facts.types import Value, show

TABLE_PATH = Path(__file__).with_name("known_good.csv")
NUMBERS = ("row", "train", "ppl", "cost", "bleu")
# A value of the target, such as `{d_model}` or `{train_pairs~0.15}`.
_TARGET = re.compile(r"\{(\w+)(?:~([\d.]+))?\}")


class Rule(msgspec.Struct, frozen=True, dict=True):
    """A row of known_good.csv: a quantity and its allowed values."""

    quantity: str
    allowed: str
    numbers: str
    why: str
    words: str = ""

    @functools.cached_property
    def needed_by(self) -> frozenset[str]:
        """The kinds of numbers (BLEU, perplexity, ...) that need an allowed value of
        this quantity.
        """
        return frozenset(self.numbers.replace("+", "").split())

    @functools.cached_property
    def required_by(self) -> frozenset[str]:
        """The kinds of numbers (BLEU, perplexity, ...) that are left out if no log line states this
        quantity.
        """
        return frozenset(word[1:] for word in self.numbers.split() if word.startswith("+"))


def read_table(path: Path = TABLE_PATH) -> dict[str, Rule]:
    """Return the rules of known_good.csv by quantity.

    Raises:
        ValueError: if a quantity appears twice, or a row has an unknown kind of number.
    """
    rules: dict[str, Rule] = {}
    with path.open(encoding="utf-8", newline="") as lines:
        for row in csv.DictReader(lines):
            rule = Rule(**row)
            # A misspelt kind of number would silently let wrong values pass.
            unknown = rule.needed_by - set(NUMBERS)
            if rule.quantity in rules or unknown:
                raise ValueError(
                    f"{path}: {rule.quantity}: twice, or for unknown numbers {unknown}"
                )
            rules[rule.quantity] = rule
    return rules


def allowed_by(value: Value, allowed: str, target: Mapping[str, TargetValue]) -> int | None:
    """Return the index of the first alternative in `allowed` that allows a value, or None."""
    for number, alternative in enumerate(allowed.split(" or ")):
        if _is_allowed(value, alternative, target):
            return number
    return None


def _is_allowed(value: Value, alternative: str, target: Mapping[str, TargetValue]) -> bool:
    if ".." in alternative:
        low, high = _ends(alternative, target)
        # A text or a switch is not a number. True would be in the range 0..2, because it is 1 in
        # Python.
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        return ANY in (low, high) or (is_number and bool(low <= value <= high))
    values, tolerance = _values(alternative, target)
    return ANY in values or any(are_equal(value, expected, tolerance) for expected in values)


def _values(text: str, target: Mapping[str, TargetValue]) -> tuple[tuple[Value, ...], float]:
    """Return the allowed values of an alternative, from its JSON list or from the target, and their
    relative tolerance. If the target lacks the quantity, no value is allowed.
    """
    if text.startswith("["):
        return _listed(text), 0.0
    match = _TARGET.fullmatch(text)
    # Only the word `any` is left.
    if match is None:
        return (text,), 0.0
    expected = target.get(match[1], ())
    return expected if isinstance(expected, tuple) else (expected,), float(match[2] or 0.0)


@functools.cache
def _listed(text: str) -> tuple[Value, ...]:
    """Return the values of a JSON list."""
    return tuple(json.loads(text))


def _ends(text: str, target: Mapping[str, TargetValue]) -> tuple[Any, Any]:
    """Return the lowest and the highest value of a range such as `0.5..1.05` or `{low}..{high}`. If
    the target does not have the quantity `low` or `high`, the limit is NaN, so that no value is in
    the range.
    """
    low, _, high = text.partition("..")
    return _end(low, target, -math.inf), _end(high, target, math.inf)


def _end(text: str, target: Mapping[str, TargetValue], default: float) -> Any:
    match = _TARGET.fullmatch(text)
    if match:
        return target.get(match[1], math.nan)
    return float(text) if text else default


def are_equal(value: Value, expected: Value, tolerance: float = 0.0) -> bool:
    """Return whether two values are equal. Numbers may differ by a relative tolerance."""
    # 1 and True are equal in Python, but they are different values of an argument.
    if isinstance(value, bool) or isinstance(expected, bool):
        return value is expected
    if value is None or expected is None or isinstance(value, str) or isinstance(expected, str):
        return value == expected
    return math.isclose(value, expected, rel_tol=max(tolerance, 1e-9), abs_tol=1e-15)


def show_allowed(allowed: str, target: Mapping[str, TargetValue]) -> str:
    """Return the allowed values as a text, such as `0.1`, `3,003` or `0.5 to 1.05`. Of a list of
    allowed values, only the first is shown.
    """
    # The first alternative is the usual value. Later alternatives are exceptions.
    first = allowed.split(" or ", maxsplit=1)[0]
    if ".." in first:
        low, high = _ends(first, target)
        if low == -math.inf or high == math.inf:
            return f"at most {show(high)}" if low == -math.inf else f"at least {show(low)}"
        return f"{show(low)} to {show(high)}"
    values, tolerance = _values(first, target)
    # None in a list allows that an old version lacks the argument. It is not shown as expected.
    texts = [show(value) for value in values if value is not None] or ["none"]
    text = texts[0] if first.startswith("[") else " or ".join(texts)
    return f"about {text}" if tolerance else text
