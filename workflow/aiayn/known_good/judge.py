"""Decides whether a number fills its row: the only rule about settings and statements.

A number fills its row if every fact that it needs is stated and allowed. `tables` shows numbers
without problems, and the problems of the others. `doctor` sorts the same problems by their cost.
"""

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from aiayn.facts.types import Fact, Value
from aiayn.known_good.table import Rule, TargetValue, allowed_by, read_table, show, show_allowed
from aiayn.known_good.targets import Target

RULES = read_table()
# Only what tells rows apart is compared with every target.
ROW_RULES = {name: rule for name, rule in RULES.items() if "row" in rule.needed_by}
NO_RULE = "no fairseq from 0.6 to 0.12 has it: changed code, whose effect is not known"


class Problem(msgspec.Struct, frozen=True, kw_only=True):
    """A fact that keeps a number out of its row, or that a number needs and no line states.

    `value` is None and `line` 0 if the fact is not stated.
    """

    quantity: str
    value: Value
    is_stated: bool
    expected: str
    why: str
    path: str = ""
    line: int = 0

    @property
    def place(self) -> str:
        """File and line, as an editor takes them; '' if no line states the fact."""
        return f"{self.path}:{self.line}" if self.path else ""

    @property
    def label(self) -> str:
        """The quantity and its value, in a few words."""
        return f"{self.quantity} {show(self.value) if self.is_stated else 'not stated'}"

    @property
    def text(self) -> str:
        """The whole sentence."""
        if not self.is_stated:
            return f"{self.quantity} is not stated; expected {self.expected} ({self.why})"
        return (
            f"{self.place}: {self.quantity} {show(self.value)}, expected {self.expected}"
            f" ({self.why})"
        )


def problems(
    facts: Iterable[Fact],
    target: Mapping[str, TargetValue],
    number: str,
    rules: Mapping[str, Rule] = RULES,
) -> list[Problem]:
    """Return why a number does not fill the row of a target, each fact once; empty if it does."""
    found: dict[tuple[str, str], Problem] = {}
    stated: set[str] = set()
    for fact in facts:
        rule = rules.get(fact.quantity)
        if fact.value is not None:
            stated.add(fact.quantity)
        if rule is None:
            is_pairs = fact.quantity.startswith("pairs_")  # of any split; named ones are derived
            if not is_pairs and fact.value is not None:
                key = (fact.quantity, str(fact.value))
                found.setdefault(key, _problem(fact, "none", NO_RULE))
            continue
        if number in rule.needed_by and allowed_by(fact.value, rule.allowed, target) is None:
            expected = show_allowed(rule.allowed, target)
            found.setdefault((fact.quantity, str(fact.value)), _problem(fact, expected, rule.why))
    for rule in rules.values():
        if number in rule.required_by and rule.quantity not in stated:
            expected = show_allowed(rule.allowed, target)
            problem = Problem(
                quantity=rule.quantity, value=None, is_stated=False, expected=expected, why=rule.why
            )
            found[rule.quantity, ""] = problem
    return list(found.values())


def _problem(fact: Fact, expected: str, why: str) -> Problem:
    return Problem(
        quantity=fact.quantity,
        value=fact.value,
        is_stated=True,
        expected=expected,
        why=why,
        path=fact.path,
        line=fact.line,
    )


def notes(
    facts: Iterable[Fact], target: Mapping[str, TargetValue], rules: Mapping[str, Rule] = RULES
) -> list[Problem]:
    """Return what is unusual and keeps no number out: facts that no number needs, and values that
    only a later alternative allows.
    """
    found: dict[tuple[str, str], Problem] = {}
    for fact in facts:
        rule = rules.get(fact.quantity)
        if rule is None or rule.allowed == "any" or fact.value is None:
            continue
        alternative = allowed_by(fact.value, rule.allowed, target)
        is_later = alternative is not None and alternative > 0
        is_unneeded = alternative is None and not rule.numbers
        if is_later or is_unneeded:
            expected = show_allowed(rule.allowed, target)
            found.setdefault((fact.quantity, str(fact.value)), _problem(fact, expected, rule.why))
    return list(found.values())


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """The target whose row a training has. Without any, `nearest` has the fewest problems."""

    target: Target | None
    nearest: Target | None
    problems: tuple[Problem, ...] = ()


def find_row(facts: Sequence[Fact], targets: Sequence[Target]) -> Row:
    """Return the only target whose row a training fits. If two fit, there is no row; if none fits,
    the nearest is the first with the fewest problems.
    """
    if not targets:
        return Row(target=None, nearest=None)
    telling = [fact for fact in facts if fact.quantity in ROW_RULES]
    found = [(problems(telling, target.values, "row", ROW_RULES), target) for target in targets]
    fitting = [target for differing, target in found if not differing]
    if len(fitting) == 1:
        return Row(target=fitting[0], nearest=fitting[0])
    differing, nearest = min(found, key=lambda one: len(one[0]))
    return Row(target=None, nearest=nearest, problems=tuple(differing))
