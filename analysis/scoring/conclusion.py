"""Decides whether a difference between two systems in the paper holds for ours, by a rule fixed beforehand.

d is the mean of a system over its n1 seeds minus the mean of its reference over n2. sd is the standard deviation over
seeds, pooled over the systems of one scale, test set and metric that have 2 seeds or more (df = sum of n - 1). The
standard error of d is sd sqrt(1/n1 + 1/n2).

A direction (one number lies above or below the other):

| call | if |
|---|---|
| holds here | d in the paper's direction is more than t(0.975, df) standard errors |
| reversed | d in the other direction is more than that |
| too close to call | anything else |

An equivalence (one system is as good as the other), in BLEU with the verdicts' margin of 0.5, two one-sided t-tests at
0.05 (Schuirmann):

| call | if |
|---|---|
| holds here | abs(d) plus t(0.95, df) standard errors is less than the margin |
| reversed | abs(d) minus t(0.975, df) standard errors is more than the margin |
| too close to call | anything else |

Without any system of 2 seeds there is no sd, and nothing can be called. One seed on either side is enough, as the sd is
pooled. An equivalence is in BLEU alone: nothing gives a margin of perplexity.
"""

import enum
import math
from collections.abc import Sequence
from typing import Literal

import msgspec

from analysis.scoring.seeds import sample_mean
from analysis.scoring.verdict import Outcome, PooledSd, outcome_of, reaches

Relation = Literal["above", "below", "equivalent"]


class Call(enum.StrEnum):
    """The outcome for a conclusion of the paper's, tested on our systems alone."""

    HOLDS = "holds here"
    REVERSED = "reversed"
    TOO_CLOSE = "too close to call"
    NO_SEEDS = "cannot be called: no seeds"


_CALL_BY_OUTCOME = {
    Outcome.REPRODUCED: Call.HOLDS, Outcome.NOT_REPRODUCED: Call.REVERSED, Outcome.UNDECIDED: Call.TOO_CLOSE,
}  # fmt: skip


class Conclusion(msgspec.Struct, frozen=True, kw_only=True):
    """A call with what it follows from; `difference` is system minus reference, in the metric's unit.

    `reach` is the half-width that the rule adds or subtracts: t(0.975, df) standard errors, for an equivalence
    t(0.95, df); None without a pooled sd.
    """

    call: Call
    difference: float
    num_seeds: int
    num_reference_seeds: int
    reach: float | None = None
    pooled: PooledSd | None = None


def draw_conclusion(
    relation: Relation, values: Sequence[float], reference_values: Sequence[float], pooled: PooledSd | None
) -> Conclusion:
    """Call a relation between two systems from their seeds' values, one or more each; `pooled` comes from `pool_sd`."""
    difference = sample_mean(values) - sample_mean(reference_values)
    uncalled = Conclusion(
        call=Call.NO_SEEDS,
        difference=difference,
        num_seeds=len(values),
        num_reference_seeds=len(reference_values),
    )
    if pooled is None:
        return uncalled
    standard_error = pooled.sd * math.sqrt(1 / len(values) + 1 / len(reference_values))
    one_sided, two_sided = reaches(standard_error, pooled.degrees_of_freedom)
    if relation == "equivalent":
        call, reach = _CALL_BY_OUTCOME[outcome_of(abs(difference), one_sided, two_sided)], one_sided
    else:
        call, reach = _direction(difference if relation == "above" else -difference, two_sided), two_sided
    return msgspec.structs.replace(uncalled, call=call, reach=reach, pooled=pooled)


def _direction(signed_difference: float, reach: float) -> Call:
    if signed_difference > reach:
        return Call.HOLDS
    return Call.REVERSED if -signed_difference > reach else Call.TOO_CLOSE
