"""Decides whether a number belongs into a row of the paper's tables. No other module judges
settings.

A number fills its row if every fact that it depends on is stated and has an allowed value. One pass
over the facts finds the problems, each with the numbers that must be left out because of it.
`tables` shows numbers without problems, and the problems of all other numbers. `doctor` sorts the
same problems by their cost in BLEU.
"""

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from aiayn.facts.types import Fact, Value
from aiayn.known_good.table import (
    ANY,
    Rule,
    TargetValue,
    allowed_by,
    read_table,
    show,
    show_allowed,
)
from aiayn.known_good.targets import Target

RULES = read_table()
# Only what tells rows apart is compared with every target.
ROW_RULES = {name: rule for name, rule in RULES.items() if "row" in rule.needed_by}
OF_TRAININGS, OF_TRANSLATIONS = ("row", "train", "ppl", "cost"), ("bleu",)  # numbers of a log
NO_RULE = "no fairseq from 0.6 to 0.12 has it: changed code, whose effect is not known"


class Problem(msgspec.Struct, frozen=True):
    """A difference: a quantity, its value, the expected value, and where it is stated.

    `keeps_out` has the numbers that it keeps out of their row; none for a note. With `is_stated`
    False no line states the quantity.
    """

    quantity: str
    value: Value
    expected: str
    path: str = ""
    line: int = 0
    why: str = ""
    is_stated: bool = True
    keeps_out: tuple[str, ...] = ()

    @property
    def place(self) -> str:
        """File and line, as an editor takes them, or '' if no line states the quantity."""
        return f"{self.path}:{self.line}" if self.line else self.path

    @property
    def label(self) -> str:
        """The quantity and its value, in a few words."""
        return f"{self.quantity} {show(self.value) if self.is_stated else 'not stated'}"

    @property
    def text(self) -> str:
        """The whole sentence."""
        if not self.is_stated:
            return f"{self.quantity} is not stated; expected {self.expected} ({self.why})"
        return f"{self.place}: {self.label}, expected {self.expected} ({self.why})"


def judge(
    facts: Iterable[Fact],
    target: Mapping[str, TargetValue],
    numbers: Sequence[str],
    rules: Mapping[str, Rule] = RULES,
) -> list[Problem]:
    """Return why some numbers do not fill the row of a target, in the order of the numbers, and
    then notes: facts that no number needs, and values that only a later alternative allows.

    Each fact is there once.
    """
    found: dict[tuple[str, str], Problem] = {}
    stated: set[str] = set()
    for fact in facts:
        key = fact.quantity, str(fact.value)
        if fact.value is not None:
            stated.add(fact.quantity)
        if key not in found:
            problem = _problem(fact, rules.get(fact.quantity), target, numbers)
            if problem is not None:
                found[key] = problem
    for rule in rules.values():
        if not rule.required_by or rule.quantity in stated:
            continue
        keeps_out = tuple(number for number in numbers if number in rule.required_by)
        if keeps_out:
            found[rule.quantity, ""] = Problem(
                quantity=rule.quantity,
                value=None,
                expected=show_allowed(rule.allowed, target),
                why=rule.why,
                is_stated=False,
                keeps_out=keeps_out,
            )

    def first_number(problem: Problem) -> int:
        """Return the position of the first number that a problem keeps out; notes are last."""
        return numbers.index(problem.keeps_out[0]) if problem.keeps_out else len(numbers)

    return sorted(found.values(), key=first_number)


def _problem(
    fact: Fact, rule: Rule | None, target: Mapping[str, TargetValue], numbers: Sequence[str]
) -> Problem | None:
    """Return the problem of a fact, or a note if it is unusual. Return None if the fact is as
    expected.
    """
    expected, why, keeps_out = "none", NO_RULE, tuple(numbers)
    if rule is None:
        # The number of pairs of a split: the facts that matter are derived under other names.
        if fact.value is None or fact.quantity.startswith("pairs_"):
            return None
    elif rule.allowed == ANY:
        return None
    else:
        alternative = allowed_by(fact.value, rule.allowed, target)
        if alternative is None:
            keeps_out = tuple(number for number in numbers if number in rule.needed_by)
        else:
            keeps_out = ()
        # The first alternative is the usual value. A value that no number asked for here needs, but
        # a different one does, is not worth a note.
        is_needed_elsewhere = alternative is None and bool(rule.numbers)
        if not keeps_out and (alternative == 0 or is_needed_elsewhere or fact.value is None):
            return None
        expected, why = show_allowed(rule.allowed, target), rule.why
    return Problem(
        quantity=fact.quantity,
        value=fact.value,
        expected=expected,
        path=fact.path,
        line=fact.line,
        why=why,
        keeps_out=keeps_out,
    )


def find_row(facts: Sequence[Fact], targets: Sequence[Target]) -> tuple[Target | None, bool]:
    """Return (target, True) if a training fits exactly one table row. Otherwise return (nearest
    target, False). The nearest target has the fewest problems.
    """
    telling = [fact for fact in facts if fact.quantity in ROW_RULES]
    found = [
        (len(judge(telling, target.values, ("row",), ROW_RULES)), target) for target in targets
    ]
    if not found:
        return None, False
    num_problems = [number for number, _ in found]
    return min(found, key=lambda one: one[0])[1], num_problems.count(0) == 1
