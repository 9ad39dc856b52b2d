"""Judges logs by the rules of `rules/*.yaml`, after MLPerf's compliance checker: a check, a message, a next step.

A rule is `of` one training, one generation, or all trainings of one line of a table. Severity `error` keeps a number
out of the tables, `apart` gives it a line of its own, on which nothing else is averaged, `note` is said beside it.
Messages are filled with facts by name, and with `found` and `expected`.
"""

import itertools
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Literal, NamedTuple

import msgspec

from aiayn.errors import ConfigError
from aiayn.strict_yaml import convert, read_document
from analysis.logs.facts import Fact, Facts
from analysis.logs.symbols import Symbol, Symbols, are_equal

RULES_FOLDER = Path(__file__).parent / "rules"
Severity = Literal["error", "apart", "note"]
MAX_OTHERS = 3  # logs that are named in a message about several
Subject = Literal["training", "generation", "line"]


Fault = tuple[Fact, Fact] | None  # (found, expected), or nothing


class Evidence(NamedTuple):
    """What a check looks at: facts, the symbols of the log, and those of its row ({} without one)."""

    facts: Mapping[str, Fact]
    found: Symbols
    expected: Symbols


class _Check(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="kind"):
    """Base of all checks."""

    def fault(self, evidence: Evidence) -> Fault:
        """Return what was found and what expected, if the check fails; nothing if it holds or does not apply."""
        raise NotImplementedError

    def untold(self, evidence: Evidence) -> str:
        """Return the name of what the log would have to tell for the check to look; '' if it could, or need not."""
        return ""


class Known(_Check, frozen=True, kw_only=True, tag="known"):
    """The fact is told, whatever its value: 0 is one."""

    fact: str

    def fault(self, evidence: Evidence) -> Fault:
        """As `_Check.fault`."""
        value = evidence.facts[self.fact]
        return (None, "told") if value is None else None


class Holds(_Check, frozen=True, kw_only=True, tag="holds"):
    """The fact is there and true, or above 0; unknown is a fault, unless `if_known`."""

    fact: str
    if_known: bool = False

    def fault(self, evidence: Evidence) -> Fault:
        """As `_Check.fault`."""
        value = evidence.facts[self.fact]
        return None if value or (value is None and self.if_known) else (value, True)


class IsZero(_Check, frozen=True, kw_only=True, tag="is_zero"):
    """The fact is 0."""

    fact: str

    def fault(self, evidence: Evidence) -> Fault:
        """As `_Check.fault`."""
        value = evidence.facts[self.fact]
        return (value, 0) if value else None


class AtLeast(_Check, frozen=True, kw_only=True, tag="at_least"):
    """The fact is not below another; where either is unknown, nothing is said."""

    fact: str
    than: str

    def fault(self, evidence: Evidence) -> Fault:
        """As `_Check.fault`."""
        value, other = evidence.facts[self.fact], evidence.facts[self.than]
        if not isinstance(value, int | float) or not isinstance(other, int | float) or value >= other:
            return None
        return value, other


class Near(_Check, frozen=True, kw_only=True, tag="near"):
    """The fact is another's value, within a relative tolerance; where it is unknown that is said, unless `if_known`."""

    fact: str
    to: str
    tolerance: float = 0.0
    if_known: bool = False

    def fault(self, evidence: Evidence) -> Fault:
        """As `_Check.fault`."""
        value, other = evidence.facts[self.fact], evidence.facts[self.to]
        return None if value is None or other is None or are_equal(value, other, self.tolerance) else (value, other)

    def untold(self, evidence: Evidence) -> str:
        """As `_Check.untold`."""
        is_asked = evidence.facts[self.to] is not None and not self.if_known
        return self.fact if is_asked and evidence.facts[self.fact] is None else ""


class AsInRow(_Check, frozen=True, kw_only=True, tag="as_in_row"):
    """A symbol is that of the row's system (workflow/config/systems/), within a tolerance; an unknown one is said."""

    symbol: str
    tolerance: float = 0.0

    def fault(self, evidence: Evidence) -> Fault:
        """As `_Check.fault`."""
        found, expected = evidence.found.get(self.symbol), evidence.expected.get(self.symbol)
        if found is None or expected is None or are_equal(found, expected, self.tolerance):
            return None
        return found, expected

    def untold(self, evidence: Evidence) -> str:
        """As `_Check.untold`."""
        return self.symbol if self.symbol in evidence.expected and self.symbol not in evidence.found else ""


class OneValue(_Check, frozen=True, kw_only=True, tag="one_value"):
    """All trainings of a line have the same value of a fact; `broken_together` looks."""

    fact: str


class Distinct(_Check, frozen=True, kw_only=True, tag="distinct"):
    """No two trainings of a line have the same value of a fact; `broken_together` looks."""

    fact: str


Check = Known | Holds | IsZero | AtLeast | Near | AsInRow | OneValue | Distinct


class Rule(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One rule. `scales` are those at which it applies; it is not asked where the rule `after` is broken already."""

    id: str
    of: Subject
    severity: Severity
    check: Check
    message: str
    next_step: str
    after: str = ""
    scales: list[str] = msgspec.field(default_factory=lambda: ["paper", "multi30k", "demo"])


class RuleFile(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A file of rules."""

    rules: list[Rule]


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """A rule that is broken: by which line of the file (0: by none), and what is to be said."""

    rule: str
    severity: Severity
    line: int
    message: str
    next_step: str
    label: str = ""  # what sets a line apart, in a few words

    def text(self, path: str) -> str:
        """Return the whole message: place, what is wrong, next step."""
        place = f"{path}:{self.line}" if self.line else path
        return f"{place}: {self.message} [{self.rule}]; {self.next_step}"


def read_rules(folder: Path = RULES_FOLDER) -> list[Rule]:
    """Return all rules, files in order of name.

    Raises:
        ConfigError: with file and line, if a key or value is wrong; or naming a rule that stands twice, or asks what
            its check cannot tell.
    """
    rules: list[Rule] = []
    for path in sorted(folder.glob("*.yaml")):
        for rule in convert(read_document(path), RuleFile).rules:
            if rule.id in (known.id for known in rules):
                raise ConfigError(f"{path}: rule {rule.id!r} stands twice; give one of them another id")
            if rule.after and rule.after not in (known.id for known in rules):
                raise ConfigError(
                    f"{path}: rule {rule.id!r} comes after {rule.after!r}, which does not stand before it"
                )
            if (rule.of == "line") != isinstance(rule.check, OneValue | Distinct):
                raise ConfigError(
                    f"{path}: rule {rule.id!r}: one_value and distinct are checks of a line, others are not"
                )
            rules.append(rule)
    if not rules:
        raise ConfigError(f"{folder}: no rules; restore them from the repository")
    return rules


def broken_rules(
    rules: list[Rule], of: Subject, facts: Facts, *, scale: str, found: Symbols, expected: Symbols
) -> list[Finding]:
    """Return the rules that one training or generation breaks; `expected` are its row's symbols, {} without a row."""
    findings: dict[str, Finding] = {}
    evidence = Evidence(facts.value_by_name, found, expected)
    not_asked: set[str] = set()
    for rule in rules:
        if rule.of != of or scale not in rule.scales:
            continue
        if rule.after in findings or rule.after in not_asked:
            not_asked.add(rule.id)
            continue
        fault = rule.check.fault(evidence)
        if fault is not None:
            findings[rule.id] = _finding(rule, facts, *fault)
    return list(findings.values())


def untold_finding(
    rules: list[Rule], of: Subject, facts: Facts, *, scale: str, found: Symbols, expected: Symbols
) -> list[Finding]:
    """Return the note on what the log does not tell, so that rules about it could not look; [] if all is told."""
    evidence = Evidence(facts.value_by_name, found, expected)
    asked = (rule for rule in rules if rule.of == of and scale in rule.scales)
    names = dict.fromkeys(name for rule in asked if (name := rule.check.untold(evidence)))
    if not names:
        return []
    message = f"the log does not tell {', '.join(names)}: taken for the row's, without looking"
    return [Finding(rule="untold", severity="note", line=0, message=message, next_step="look them up elsewhere")]


def broken_together(rule: Rule, facts_by_path: Mapping[str, Facts]) -> dict[str, Finding]:
    """Return the trainings (by path) that break a rule of a whole line together, each with its finding.

    Of those that are one training (severity error) the first counts, and is not at fault.
    """
    check = rule.check
    if not isinstance(check, OneValue | Distinct):
        raise ConfigError(f"rule {rule.id!r}: check {check} is of one training; a line takes one_value or distinct")
    value_by_path = {
        path: value
        for path, facts in facts_by_path.items()
        if (value := facts.value_by_name.get(check.fact)) is not None
    }
    num_by_value = Counter(value_by_path.values())
    is_distinct = isinstance(check, Distinct)
    findings, seen = {}, set()
    for path, value in value_by_path.items():
        is_odd = num_by_value[value] > 1 if is_distinct else len(num_by_value) > 1
        if is_odd and (rule.severity != "error" or value in seen):
            others = (other for other, its in value_by_path.items() if other != path and (its == value) == is_distinct)
            findings[path] = _finding(rule, facts_by_path[path], value, _some(others))
        seen.add(value)
    return findings


def _some(names: Iterator[str]) -> str:
    """Return the first few names in words."""
    first = list(itertools.islice(names, MAX_OTHERS + 1))
    return ", ".join(first[:MAX_OTHERS]) + (" and others" if len(first) > MAX_OTHERS else "")


def _finding(rule: Rule, facts: Facts, found: Fact, expected: Fact) -> Finding:
    words = {name: show(value) for name, value in facts.value_by_name.items()}
    words |= {"found": show(found), "expected": show(expected)}
    fact = getattr(rule.check, "fact", "")
    name = fact if rule.of == "line" else getattr(rule.check, "symbol", rule.id)
    return Finding(
        rule=rule.id,
        severity=rule.severity,
        line=facts.line_by_name.get(fact, 0),
        message=rule.message.format_map(words),
        next_step=rule.next_step.format_map(words),
        label=f"{name} {show(found)}",
    )


def show(value: Symbol | None) -> str:
    """Return a value as it is read: thousands with commas, a rate with three digits."""
    if value is None:
        return "unknown"
    if isinstance(value, bool | str):
        return str(value)
    if isinstance(value, int):
        return f"{value:,}"
    return f"{value:.3g}" if 0 < abs(value) < 0.001 else f"{value:g}"
