"""Types of a comparison: the judgement on one quantity, and which quantities a number needs."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Literal

import msgspec

from aiayn.facts.symbols import Group, Symbol
from aiayn.logs.evidence import LoggedTraining, file_of
from aiayn.logs.types import GenerationLog
from aiayn.printed import read_rows

# `different`: another value. `contradictory`: two places of a log exclude each other, or a value is
# impossible.
Verdict = Literal["equal", "harmless", "different", "contradictory", "not stated"]
TRAINING_GROUPS: tuple[Group, ...] = (
    "model",
    "GPUs",
    "batch",
    "rate",
    "updates",
    "pairs",
    "dictionaries",
)
DECODING_GROUPS: tuple[Group, ...] = ("search", "scoring", "average")
MAX_NAMED = 3  # quantities in a label


class Quantity(msgspec.Struct, frozen=True, kw_only=True):
    """A quantity, its name in messages, the system's value, why a difference matters, its source,
    and the next step.
    """

    quantity: str
    group: Group
    words: str = ""
    expected: str
    reason: str = ""
    source: str = ""
    fix: str = ""


# The quantities that are neither symbols (symbols.csv) nor arguments (arguments.csv).
QUANTITIES = {
    row.quantity: row for _, row in read_rows(Path(__file__).with_name("quantities.csv"), Quantity)
}


class Judgement(Quantity, frozen=True, kw_only=True):
    """Compares one quantity of the evidence with the system: both values, a place, and a verdict.

    `reason` says why a difference is harmless, or which statements contradict each other; `source`
    is its publication. `value` is the value of the evidence, as a number if it is numeric. `ratio`
    divides a batch, a rate or a number of updates by the system's; costs are published for such
    ratios.
    """

    verdict: Verdict
    found: str
    path: str
    line: int | None = None
    value: Symbol | None = None
    ratio: float | None = None

    @property
    def is_good(self) -> bool:
        """Whether the quantity is equal, or different in a harmless way."""
        return self.verdict in ("equal", "harmless")

    @property
    def differs(self) -> bool:
        """Whether the quantity has another value, or values that exclude each other."""
        return self.verdict in ("different", "contradictory")

    @property
    def label(self) -> str:
        """The quantity and its value, in a few words."""
        return f"{self.quantity} {'not stated' if self.verdict == 'not stated' else self.found}"

    @property
    def place(self) -> str:
        """File and line, as an editor takes them."""
        return f"{self.path}:{self.line}" if self.line else self.path

    @property
    def statement(self) -> str:
        """The quantity with both values, the verdict, and why."""
        name = self.words or self.quantity
        text = f"{name} {self.found}, the system's {self.expected}: {self.verdict}"
        if self.verdict == "not stated":
            text = f"{name} is not stated; the system's is {self.expected}"
        details = "; ".join(part for part in (self.reason, self.source) if part)
        return f"{text} ({details})" if details else text

    @property
    def text(self) -> str:
        """The whole message: place, statement, and the next step."""
        return f"{self.place}: {self.statement} [{self.quantity}]" + (
            f"; {self.fix}" if self.fix else ""
        )


def judge(
    logged: LoggedTraining | GenerationLog,
    quantity: str,
    verdict: Verdict,
    found: str,
    **fields: Any,
) -> Judgement:
    """Return a judgement on a quantity of quantities.csv, whose line is the log's first. `fields`
    replace what the table says. The table has the reason of a difference only.
    """
    known = msgspec.structs.asdict(QUANTITIES[quantity])
    if verdict not in ("different", "contradictory"):
        known["reason"] = ""
    if verdict in ("equal", "harmless"):
        known["fix"] = ""
    values = known | {"line": logged.first_line} | fields
    return Judgement(verdict=verdict, found=found, path=file_of(logged), **values)


def verdict_of(value: Symbol | None, expected: Symbol) -> Verdict:
    """Return whether a value is stated, and whether it equals the expected value exactly."""
    if value is None:
        return "not stated"
    return "equal" if value == expected else "different"


def apart(judgements: Iterable[Judgement], groups: Sequence[str]) -> tuple[Judgement, ...]:
    """Return the judgements of some groups that keep a number out of its system's row."""
    return tuple(one for one in judgements if one.group in groups and not one.is_good)


def unjudged(judgements: Iterable[Judgement], groups: Sequence[Group]) -> tuple[Group, ...]:
    """Return the groups without a judgement, or with a quantity that is not stated."""
    verdicts_by_group: dict[str, set[Verdict]] = {}
    for one in judgements:
        verdicts_by_group.setdefault(one.group, set()).add(one.verdict)
    return tuple(
        group for group in groups if "not stated" in verdicts_by_group.get(group, {"not stated"})
    )


def label_of_texts(labels: Iterable[str]) -> str:
    """Return the first three labels of differing quantities, then `+n` for the others; '' without
    any.
    """
    distinct = list(dict.fromkeys(labels))
    more = [f"+{len(distinct) - MAX_NAMED}"] if len(distinct) > MAX_NAMED else []
    return "; ".join([*distinct[:MAX_NAMED], *more])


def show(value: Symbol | None) -> str:
    """Return a value as it is read: thousands with commas, a rate with three digits."""
    if value is None:
        return ""
    if isinstance(value, bool | str):
        return str(value)
    if isinstance(value, int):
        return f"{value:,}"
    return f"{value:.3g}" if 0 < abs(value) < 0.001 else f"{value:g}"
