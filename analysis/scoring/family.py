"""Corrects many verdicts for multiple testing: the chance that one is wrong, and which survive Holm's correction.

Each verdict is tested at its own alpha, so a table of k of them is wrong somewhere more often: if every true difference
lay on the margin, the worst case, and the cells were independent, at least one wrong REPRODUCED would be in it with
chance 1 - (1 - alpha)^k. The standard deviation that the cells share makes it less, and nothing makes it more than
k alpha. Holm's step-down correction (1979) holds that chance at alpha for the whole table, under any dependence.
"""

from collections.abc import Sequence

import msgspec

from analysis.scoring.verdict import ALPHA, Outcome, Verdict


class Corrected(msgspec.Struct, frozen=True, kw_only=True):
    """A verdict's p-values by Holm over its family, and the outcome that they would give."""

    p_equivalent: float
    p_outside: float
    outcome: Outcome


class Family(msgspec.Struct, frozen=True, kw_only=True):
    """All verdicts of a table to which the rule was applied: `num_judged` of them.

    `chance_wrongly_reproduced` is that of at least one wrong REPRODUCED if all true differences were the margin, the
    cells independent; `chance_wrongly_not_reproduced` the same of NOT REPRODUCED, of which one side alone can be wrong.
    `corrected` has an entry a verdict, in the order given; None for those that the rule was not applied to.
    """

    num_judged: int
    chance_wrongly_reproduced: float
    chance_wrongly_not_reproduced: float
    corrected: tuple[Corrected | None, ...]


def chance_of_any(chance: float, num_cells: int) -> float:
    """Return the chance that at least one of so many independent events of the same chance happens."""
    return 1 - (1 - chance) ** num_cells


def holm_adjusted(p_values: Sequence[float]) -> list[float]:
    """Return the p-values by Holm's step-down correction, in the order given: compare them with the family's alpha."""
    order = sorted(range(len(p_values)), key=p_values.__getitem__)
    adjusted = [0.0] * len(p_values)
    largest = 0.0
    for rank, index in enumerate(order):
        largest = max(largest, min(1.0, (len(p_values) - rank) * p_values[index]))  # never below a smaller p's
        adjusted[index] = largest
    return adjusted


def judge_family(verdicts: Sequence[Verdict]) -> Family:
    """Return the chances of error and the corrected verdicts of one table.

    The tests of equivalence are one family, those of being outside the margin another: a cell can be wrong in one of
    the two only.
    """
    judged = [index for index, verdict in enumerate(verdicts) if verdict.p_equivalent is not None]
    equivalent = holm_adjusted([verdicts[index].p_equivalent or 0.0 for index in judged])
    outside = holm_adjusted([verdicts[index].p_outside or 0.0 for index in judged])
    corrected: list[Corrected | None] = [None] * len(verdicts)
    for index, p_equivalent, p_outside in zip(judged, equivalent, outside, strict=True):
        outcome = _corrected_outcome(p_equivalent, p_outside)
        corrected[index] = Corrected(p_equivalent=p_equivalent, p_outside=p_outside, outcome=outcome)
    return Family(
        num_judged=len(judged),
        chance_wrongly_reproduced=chance_of_any(ALPHA, len(judged)),
        chance_wrongly_not_reproduced=chance_of_any(ALPHA / 2, len(judged)),
        corrected=tuple(corrected),
    )


def _corrected_outcome(p_equivalent: float, p_outside: float) -> Outcome:
    if p_equivalent < ALPHA:
        return Outcome.REPRODUCED
    return Outcome.NOT_REPRODUCED if p_outside < ALPHA else Outcome.UNDECIDED
