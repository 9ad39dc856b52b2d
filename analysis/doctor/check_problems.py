"""Turns problems into findings of the doctor. A problem is a setting or a line of a log that is not
as expected. Problems with the same cause become one finding. The cause has the same name as in the
table of published costs.

`aiayn.known_good` finds the problems, by its rules about settings and log lines. `aiayn tables
--from-logs` shows the same problems.
"""

from collections.abc import Collection, Sequence

from aiayn.facts.symbols import SYMBOL_RULES
from aiayn.facts.trainings import Problem
from aiayn.facts.types import Value, real
from aiayn.paths import num_averaged
from analysis.doctor.types import KNOWN_FINDINGS, Case, Checked, Cost, Finding

# Within these limits, the target tokens of a whole training count as equal to the expected number.
MIN_RATIO, MAX_RATIO = 0.95, 1.05
RATE_QUANTITIES = ("warmup_steps", "schedule", "peak_learning_rate", "wrong_rates")
# The published costs of these causes depend on the ratio to the expected value. The costs of all
# other causes depend on the value itself.
RATIO_CAUSES = ("tokens_per_update", "updates", "peak_learning_rate", "warmup_steps", "train_pairs")
# This maps the quantity of a problem to its name in the column `what` of published/costs.csv.
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
# These quantities often differ only as a consequence: with 4 heads instead of 8, d_k doubles.
LEADERS = {
    "d_k": ("num_heads", "d_model"),
    "d_v": ("num_heads", "d_model", "d_k"),
    "parameters_of_arguments": ("num_dictionaries",),
}
FIX_OF_SETTING = "use the expected value, or report this setting together with the BLEU"
FIX_OF_STATEMENT = "look for the cause in the log; `aiayn tables` leaves this number out of its row"


def check_problems(case: Case) -> Checked:
    """Return a finding for each cause that may change the BLEU: a wrong setting, or a line of a log
    that is not as expected.
    """
    stated = [problem for problem in case.problems if concerns_bleu(problem) and problem.is_stated]
    # The cause of a problem depends on the other problems, as in LEADERS.
    names = {problem.quantity for problem in stated}
    problems_by_cause: dict[str, list[Problem]] = {}
    for problem in stated:
        problems_by_cause.setdefault(cause_of(problem, names), []).append(problem)
    return [_finding(case, cause, listed) for cause, listed in problems_by_cause.items()]


def concerns_bleu(problem: Problem) -> bool:
    """Return whether a problem may change the BLEU, and not only a perplexity or a training
    cost.
    """
    # A note keeps out nothing. The empty tuple is a subset, so a note does not concern BLEU either.
    return not {"ppl", "cost"}.issuperset(problem.keeps_out)


def cause_of(problem: Problem, names: Collection[str]) -> str:
    """Return the cause of a problem. `names` are the quantities (settings) with a problem in the
    same run, because a problem may be the consequence of a different problem.
    """
    quantity, value = problem.quantity, problem.value
    for leader in LEADERS.get(quantity, ()):
        if leader in names:
            return CAUSES.get(leader, leader)
    if quantity in RATE_QUANTITIES:
        # In equation (3) the peak follows from the warm-up. Two problems are one wrong schedule.
        return "schedule" if sum(name in names for name in RATE_QUANTITIES) > 1 else quantity
    if isinstance(value, str) and " and " in value and quantity in SYMBOL_RULES:
        # A value such as `post and pre` means that encoder and decoder differ. The published costs
        # are for a change of both, so they do not apply.
        return f"{quantity} of one side"
    return CAUSES_OF_VALUES.get((quantity, value), CAUSES.get(quantity, quantity))


def _finding(case: Case, cause: str, listed: Sequence[Problem]) -> Finding:
    # The setting comes before its consequences, so that the title shows the setting.
    evidence = sorted(listed, key=_order_in_cause)
    first = evidence[0]
    title, fix = f"{first.label}, expected {first.expected}", FIX_OF_STATEMENT
    known = KNOWN_FINDINGS.get(first.quantity) or KNOWN_FINDINGS.get(cause)
    if known is not None:
        # The fix may be a flag, which takes 26000 and not `about 26,000`.
        expected = first.expected.removeprefix("about ").replace(",", "")
        title, fix = known.title or title, known.fix.format(expected=expected)
    elif first.quantity.startswith(("train.", "generate.")):
        fix = FIX_OF_SETTING
    amount = amount_of(case, cause, listed)
    cost = None
    # `amount_of` returns 1 if the updates differ but the data does not: fewer updates of larger
    # batches, or the reverse.
    if cause == "updates" and amount is not None and MIN_RATIO <= amount <= MAX_RATIO:
        cost = Cost(words="none is expected: as many target tokens in updates of a different size")
    return Finding(
        cause=cause, title=title, fix=fix, evidence=tuple(evidence), amount=amount, cost=cost
    )


def _order_in_cause(problem: Problem) -> int:
    """Return a sort key for problems with the same cause. A setting comes before the settings that
    follow from it, such as the number of heads before d_k.
    """
    order = ("num_heads", "d_model", "tokens_per_update", "num_scored", *RATE_QUANTITIES)
    return order.index(problem.quantity) if problem.quantity in order else len(order)


def amount_of(case: Case, cause: str, listed: Sequence[Problem]) -> float | None:
    """Return the size of a difference as published/costs.csv measures it: the value of the setting,
    or its ratio to the expected value. Return None if the size is unknown.
    """
    value = listed[0].value
    # The costs of averages are published by the number of checkpoints: `last5` is 5.
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
    # The number of updates is a fault only if updates and target tokens differ in the same
    # direction. Fewer updates of more tokens each are not too few. As many updates of fewer tokens
    # each are a small batch, which is a cause of its own.
    both = ratio, ratio * (tokens_ratio(case) or 1.0)
    if max(both) < MIN_RATIO or min(both) > MAX_RATIO:
        return both[1]
    return 1.0


def tokens_ratio(case: Case) -> float | None:
    """Return the ratio of the number of tokens in an update to the expected number. Return None if
    the number of tokens or the expected number is unknown.

    The number of tokens is the number of target tokens in the log. If the log does not have this
    number, the number of tokens is the maximum that the training's arguments allow.
    """
    expected = expected_number(case, "tokens_per_update")
    if case.training is None or not expected:
        return None
    # Printed tokens are real tokens. The product of the arguments (tokens of a batch, number of
    # GPUs, accumulated batches) includes padding.
    value_by_quantity = {fact.quantity: fact.value for fact in case.training.facts}
    tokens = real(value_by_quantity.get("target_tokens")) or real(
        value_by_quantity.get("tokens_per_update")
    )
    return tokens / expected if tokens else None


def expected_number(case: Case, quantity: str) -> float | None:
    """Return the expected value of a setting, or None if this value is not a single number."""
    value = case.claim.target.values.get(quantity)
    # A tuple lists several allowed values.
    return None if isinstance(value, tuple) else real(value)
