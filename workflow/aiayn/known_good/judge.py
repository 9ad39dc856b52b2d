"""Decides whether a number of a log may be entered in a row of the paper's tables. No other module
compares the settings in a log with the paper's settings.

A fact is a quantity and its value in a log, such as `d_model` 512. A target is a row of the tables
with the values that a log must have for this row. A number is entered in its row (the number
"fills" the row) if all facts that the number depends on are in the log and have allowed values.
`table.py` explains the allowed values and the kinds of numbers.

A problem is a fact with a value that is not allowed, or a required fact that the log lacks. Each
problem lists the numbers that must be left out of the row because of this problem. `aiayn tables`
shows the numbers without problems, and the problems of all other numbers. `aiayn doctor` sorts the
same problems by their cost in BLEU.
"""

from collections.abc import Iterable, Mapping, Sequence

from aiayn.facts.trainings import ANY, Problem, Target, TargetValue
from aiayn.facts.types import Fact
from aiayn.known_good.table import Rule, allowed_by, read_table, show_allowed

RULES = read_table()
# The quantities by which rows differ. Only these are compared with every target.
ROW_RULES = {name: rule for name, rule in RULES.items() if "row" in rule.needed_by}
# The kinds of numbers in the log of a training, and in the log of fairseq-generate.
OF_TRAININGS, OF_GENERATIONS = ("row", "train", "ppl", "cost"), ("bleu",)
NO_RULE = "no fairseq from 0.6 to 0.12 has it: changed code, whose effect is not known"


def judge(
    facts: Iterable[Fact],
    target: Mapping[str, TargetValue],
    numbers: Sequence[str],
    rules: Mapping[str, Rule] = RULES,
) -> list[Problem]:
    """Return the problems of a log: first the facts because of which a number must be left out of
    the target's table row, in the order of `numbers`, then the notes.

    A note is an unusual value with which all numbers may still be entered in the table: no number
    depends on the quantity, or the value is allowed, but is not the usual value. Each fact appears
    once.
    """
    problem_by_fact: dict[tuple[str, str], Problem] = {}
    stated_quantities: set[str] = set()
    for fact in facts:
        # Several lines may state the same value. The problem has the place of the first line.
        key = fact.quantity, str(fact.value)
        if fact.value is not None:
            stated_quantities.add(fact.quantity)
        if key not in problem_by_fact:
            problem = _problem(fact, rules.get(fact.quantity), target, numbers)
            if problem is not None:
                problem_by_fact[key] = problem
    # If a number requires a quantity that no line states, the problem does not have a place.
    for rule in rules.values():
        if not rule.required_by or rule.quantity in stated_quantities:
            continue
        keeps_out = tuple(number for number in numbers if number in rule.required_by)
        if keeps_out:
            problem_by_fact[rule.quantity, ""] = Problem(
                quantity=rule.quantity,
                value=None,
                expected=show_allowed(rule.allowed, target),
                why=rule.why,
                words=rule.words,
                is_stated=False,
                keeps_out=keeps_out,
            )

    def first_number(problem: Problem) -> int:
        """Return the position in `numbers` of the first number (such as the BLEU) that must not be
        entered in the table row because of a problem. Return the length of `numbers` for a note.
        """
        return numbers.index(problem.keeps_out[0]) if problem.keeps_out else len(numbers)

    return sorted(problem_by_fact.values(), key=first_number)


def _problem(
    fact: Fact, rule: Rule | None, target: Mapping[str, TargetValue], numbers: Sequence[str]
) -> Problem | None:
    """Return a problem if the fact's value is not allowed or its quantity is unknown, a note if the
    value is unusual, and None if the value is as expected.
    """
    expected, why, words, keeps_out = "none", NO_RULE, "", tuple(numbers)
    if rule is None:
        # `pairs_train` and similar facts do not have rules, because other facts with rules are
        # derived from them.
        if fact.value is None or fact.quantity.startswith("pairs_"):
            return None
    elif rule.allowed == ANY:
        return None
    else:
        # The table is closed: a value is allowed only if it is listed.
        alternative = allowed_by(fact.value, rule.allowed, target)
        if alternative is None:
            keeps_out = tuple(number for number in numbers if number in rule.needed_by)
        else:
            keeps_out = ()
        # The first alternative is the usual value, which does not need a note. Neither does a wrong
        # value that matters only to kinds of numbers that are not in `numbers`.
        is_needed_elsewhere = alternative is None and bool(rule.numbers)
        if not keeps_out and (alternative == 0 or is_needed_elsewhere or fact.value is None):
            return None
        expected, why, words = show_allowed(rule.allowed, target), rule.why, rule.words
    return Problem(
        quantity=fact.quantity,
        value=fact.value,
        expected=expected,
        path=fact.path,
        line=fact.line,
        why=why,
        words=words,
        keeps_out=keeps_out,
    )


def find_row(facts: Sequence[Fact], targets: Sequence[Target]) -> tuple[Target | None, bool]:
    """Return (target, True) if a training's facts fit exactly one table row. If the facts fit no
    table row or several rows, return (nearest target, False). The nearest target is the table row
    with the fewest mismatches.
    """
    # The row is found first. Whether the numbers may be entered in it is decided afterwards.
    telling = [fact for fact in facts if fact.quantity in ROW_RULES]
    counts = [len(judge(telling, target.values, ("row",), ROW_RULES)) for target in targets]
    if not counts:
        return None, False
    # A training that fits two rows, such as two names of one system, does not get a row, because
    # its numbers would be in both.
    return targets[counts.index(min(counts))], counts.count(0) == 1
