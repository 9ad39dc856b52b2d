"""Turns the judge's problems into findings: problems with the same cause become one finding, under
the name that the published costs use.

`aiayn tables --from-logs` shows the same problems. The rules about settings and log lines are in
`aiayn.known_good`.
"""

from collections.abc import Collection, Sequence

from aiayn.facts.symbols import SYMBOL_RULES
from aiayn.facts.trainings import Problem
from aiayn.facts.types import Value, real
from aiayn.paths import num_averaged
from analysis.doctor.types import (
    KNOWN_FINDINGS,
    Answer,
    Case,
    Cost,
    Finding,
)

NO_LOG = "no log of a training was given"
NO_TRANSLATIONS = "no translations were given"
MIN_RATIO, MAX_RATIO = 0.95, 1.05  # of the target tokens of a training to the system's
RATE_QUANTITIES = ("warmup_steps", "schedule", "peak_learning_rate", "wrong_rates")
# Published costs of these depend on the ratio to the system's value, others on the value itself.
RATIO_CAUSES = ("tokens_per_update", "updates", "peak_learning_rate", "warmup_steps", "train_pairs")
# The names of these quantities in the column of causes of published/costs.csv.
CAUSES = {
    "target_tokens": "tokens_per_update",
    "num_dictionaries": "vocabulary",
    "other_dictionary": "dictionary",
    "num_scored": "testset",
    "reference_tokens": "testset",
    "translates": "language_pair",
    "limit_of_20_tokens": "max_len_b",
    "limit_of_100_tokens": "max_len_b",
}
CAUSES_OF_VALUES: dict[tuple[str, Value], str] = {
    ("wmt_year", 17): "wmt17",
    ("counts", "pieces"): "pieces_on_both_sides",
}
# Quantities that differ because a quantity before them does.
LEADERS = {
    "d_k": ("num_heads", "d_model"),
    "d_v": ("num_heads", "d_model", "d_k"),
    "parameters_of_arguments": ("num_dictionaries",),
}
FIX_OF_SETTING = "use the expected value, or state yours next to the number"
FIX_OF_STATEMENT = "read the line; `aiayn tables --from-logs` sets the number apart by it"


def check_training(case: Case) -> Answer:
    """Report the problems of the training's log."""
    return _answer(case, "training", NO_LOG if case.training is None else "")


def check_translation(case: Case) -> Answer:
    """Report the problems of translations: average, search, test set, and statements of a log."""
    return _answer(case, "translation", "" if case.translation_paths else NO_TRANSLATIONS)


def _answer(case: Case, subject: str, missing: str) -> Answer:
    """Return the outcome of a check. A quantity that is not stated was not checked."""
    findings = _findings(case, subject)
    unstated = unstated_quantities(case, subject)
    if findings:
        return Answer(findings=tuple(findings))
    if missing or unstated:
        return Answer(missing=missing or f"not stated: {shorten(unstated)}")
    return Answer(seen="each fact is allowed")


def number_of(problem: Problem) -> str:
    """Return the number that is left out of the tables because of a problem, '' for the BLEU of a
    test set.
    """
    return {"ppl": "the perplexity", "cost": "the training cost"}.get(problem.keeps_out[0], "")


def unstated_quantities(case: Case, subject: str, number: str = "") -> list[str]:
    """Return the quantities that a number depends on and that neither a log nor a record states."""
    unstated = [problem for problem in case.problems.get(subject, ()) if not problem.is_stated]
    return list(
        dict.fromkeys(problem.quantity for problem in unstated if number_of(problem) == number)
    )


def shorten(names: Sequence[str], limit: int = 6) -> str:
    """Return names with commas; those after the limit are counted."""
    more = len(names) - limit
    return ", ".join([*names[:limit], *([f"and {more} more"] if more > 0 else [])])


def _findings(case: Case, subject: str) -> list[Finding]:
    by_number: dict[str, list[Problem]] = {}
    for problem in case.problems.get(subject, ()):
        if problem.is_stated and problem.keeps_out:
            by_number.setdefault(number_of(problem), []).append(problem)
    findings = []
    for number, problems in by_number.items():
        names = {problem.quantity for problem in problems}
        groups: dict[str, list[Problem]] = {}
        for problem in problems:
            groups.setdefault(cause_of(problem, names), []).append(problem)
        findings += [_finding(case, number, *group) for group in groups.items()]
    return findings


def cause_of(problem: Problem, names: Collection[str]) -> str:
    """Return the cause of a problem, next to all quantities with a problem."""
    quantity, value = problem.quantity, problem.value
    for leader in LEADERS.get(quantity, ()):
        if leader in names:
            return CAUSES.get(leader, leader)
    if quantity in RATE_QUANTITIES:
        # The peak of a rate follows from its warm-up.
        return "schedule" if sum(name in names for name in RATE_QUANTITIES) > 1 else quantity
    if isinstance(value, str) and " and " in value and quantity in SYMBOL_RULES:
        # Encoder and decoder differ: published costs are for a change of both.
        return f"{quantity} of one side"
    return CAUSES_OF_VALUES.get((quantity, value), CAUSES.get(quantity, quantity))


def _finding(case: Case, number: str, cause: str, listed: Sequence[Problem]) -> Finding:
    evidence = sorted(listed, key=_order_in_cause)
    first = evidence[0]
    texts = KNOWN_FINDINGS.get(cause)
    fix = FIX_OF_STATEMENT
    if first.quantity.startswith(("train.", "generate.")):
        fix = FIX_OF_SETTING
    if first.quantity in SYMBOL_RULES:
        value = first.expected.removeprefix("about ").replace(",", "")
        fix = SYMBOL_RULES[first.quantity].flags.format(value)
    amount = None if number else amount_of(case, cause, listed)
    cost = Cost(words=f"no BLEU of a test set: it concerns {number}") if number else None
    if cause == "updates" and amount is not None and MIN_RATIO <= amount <= MAX_RATIO:
        cost = Cost(words="none is expected: as many target tokens in updates of a different size")
    return Finding(
        cause=cause,
        title=texts.title if texts else f"{first.label}, expected {first.expected}",
        fix=texts.fix if texts else fix,
        evidence=tuple(evidence),
        amount=amount,
        cost=cost,
        concerns=number,
    )


def _order_in_cause(problem: Problem) -> int:
    """Return a key that sorts the problems of one cause: settings before their consequences."""
    order = ("num_heads", "d_model", "tokens_per_update", "num_scored", *RATE_QUANTITIES)
    return order.index(problem.quantity) if problem.quantity in order else len(order)


def amount_of(case: Case, cause: str, listed: Sequence[Problem]) -> float | None:
    """Return the size of a difference as published/costs.csv states it: the value, or its ratio to
    the system's.
    """
    value = listed[0].value
    if cause == "average":
        return float(num_averaged(str(value))) or None
    if cause == "tokens_per_update":
        return tokens_ratio(case)
    number, expected = real(value), expected_number(case, cause)
    if cause not in RATIO_CAUSES or number is None:
        return number
    ratio = number / expected if expected else None
    if cause != "updates" or ratio is None:
        return ratio
    # Fewer updates of more tokens each are not too few; as many updates of fewer tokens each are a
    # small batch.
    both = ratio, ratio * (tokens_ratio(case) or 1.0)
    if max(both) < MIN_RATIO or min(both) > MAX_RATIO:
        return both[1]
    return 1.0


def tokens_ratio(case: Case) -> float | None:
    """Return the ratio of an update's tokens to the system's. They are the printed target tokens
    or, if not printed, the positions in the arguments. Return None if both are unknown.
    """
    expected = expected_number(case, "tokens_per_update")
    if case.training is None or not expected:
        return None
    value_by_quantity = {fact.quantity: fact.value for fact in case.training.facts}
    tokens = real(value_by_quantity.get("target_tokens")) or real(
        value_by_quantity.get("tokens_per_update")
    )
    return tokens / expected if tokens else None


def expected_number(case: Case, quantity: str) -> float | None:
    """Return the system's value of a quantity, or None if it is not a number."""
    value = case.claim.target.values.get(quantity)
    return None if isinstance(value, tuple) else real(value)
