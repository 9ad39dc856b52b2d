"""Answers two questions about each pair of systems: do they differ, and is the difference below a
margin.

A contrast is the difference between two systems: a row of Table 3 minus its control, usually base.
The rule for the answers is in decision 0012. An estimate is a difference in bits a subword with its
standard error and degrees of freedom. From the paper come the direction of its conclusion and the
printed effect (the difference in the paper), converted to bits a subword. The effect is our
difference. The answer is

| answer | the 95 % interval of our effect | whether the effect is within the margin |
|---|---|---|
| as printed | the interval excludes 0, and the effect has the paper's sign | yes or no |
| reversed | the interval excludes 0, and the effect has the opposite sign | yes or no |
| differs | the interval excludes 0, but the two systems are equal in the paper | yes or no |
| as printed | the interval includes 0, and the two systems are equal in the paper | yes |
| absent | the interval includes 0 and excludes the paper's effect | yes |
| too small to tell | the interval includes 0 and the paper's effect | yes |
| undecided | the interval includes 0 | no |

"Within the margin" means that two one-sided t-tests at ALPHA reject an effect of the margin or
more. The smallest margin that the t-tests would accept is the end of the 90 % interval that is
farther from 0. The smallest margin is only shown, never tested.
"""

import math
from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Literal

import msgspec
from scipy import special  # type: ignore[import-untyped, unused-ignore]

from aiayn.scoring.verdict import ALPHA, PooledSd, holm_adjusted, tail

# The margin in bits a subword. Decision 0012 chose it after the runs of decision 0009 had been
# seen.
MARGIN_OF_ABSENCE = 0.05

Relation = Literal["above", "below", "equivalent"]


class ContrastAnswer(StrEnum):
    """The six possible answers for a contrast, in the order that pages list them."""

    AS_PRINTED = "as printed"
    REVERSED = "reversed"
    DIFFERS = "differs"
    ABSENT = "absent"
    TOO_SMALL = "too small to tell"
    UNDECIDED = "undecided"


class Estimate(msgspec.Struct, frozen=True, kw_only=True):
    """The difference between a system and its control, with the standard error and its degrees of
    freedom.
    """

    difference: float
    standard_error: float
    degrees_of_freedom: float

    @property
    def reach(self) -> float:
        """Half of the width of the 95 % interval of the difference."""
        return self._quantile(1 - ALPHA / 2)

    @property
    def p_difference(self) -> float:
        """The two-sided p-value of the test that the two systems do not differ."""
        # The t-distribution is symmetric, so both sides together are twice the upper tail.
        p_above = tail(abs(self.difference), self.standard_error, self.degrees_of_freedom)
        return min(1.0, 2 * p_above)

    def p_within(self, margin: float) -> float:
        """Return the p-value of the two one-sided t-tests. A small p-value means that the effect is
        smaller than the margin.
        """
        # The larger of the two p-values is from the test on the side of the difference. `abs`
        # selects this side.
        return tail(margin - abs(self.difference), self.standard_error, self.degrees_of_freedom)

    def smallest_margin(self, num_tests: int = 1) -> float:
        """Return the smallest margin with which the test of equivalence would pass at ALPHA.

        The margin is corrected for `num_tests` contrasts.
        """
        # The quantile is for ALPHA and not for ALPHA / 2, because each of the two tests is
        # one-sided. This gives the 90 % interval. The correction is Bonferroni's, as in decision
        # 0012: Holm's steps depend on the other p-values, so they do not give one margin for each
        # contrast.
        return abs(self.difference) + self._quantile(1 - ALPHA / num_tests)

    def includes(self, effect: float) -> bool:
        """Return whether the 95 % interval of our difference includes an effect."""
        return abs(self.difference - effect) <= self.reach

    def _quantile(self, probability: float) -> float:
        # stdtrit is the inverse of Student's distribution, and takes fractional degrees of freedom,
        # as Welch's formula gives them.
        return self.standard_error * float(special.stdtrit(self.degrees_of_freedom, probability))


class Answered(msgspec.Struct, frozen=True, kw_only=True):
    """The answer for a contrast, and the numbers that are shown next to the answer.

    `holm_difference` and `holm_within` are the p-values of the test of difference and of the test
    of equivalence, each after Holm's correction over the contrasts that were answered together.
    `smallest_margin`, in bits a subword, is the smallest margin with which the test of equivalence
    would pass. `corrected_smallest_margin` is this margin after the correction for the number of
    contrasts.
    """

    answer: ContrastAnswer
    estimate: Estimate
    is_within_margin: bool
    holm_difference: float
    holm_within: float
    smallest_margin: float
    corrected_smallest_margin: float

    @property
    def has_difference_by_holm(self) -> bool:
        """Whether the two systems differ significantly, also after Holm's correction of the
        p-value.
        """
        return self.holm_difference < ALPHA


def estimate_difference(
    difference: float, pooled: PooledSd, num_seeds: int, num_control_seeds: int
) -> Estimate:
    """Return a difference of means with its standard error, from an sd that is pooled over
    systems.
    """
    return Estimate(
        difference=difference,
        standard_error=pooled.sd * math.sqrt(1 / num_seeds + 1 / num_control_seeds),
        degrees_of_freedom=pooled.degrees_of_freedom,
    )


def estimate_welch(
    difference: float, numbers: Sequence[int], pooled_rows: PooledSd, pooled_control: PooledSd
) -> Estimate:
    """Return a difference with its standard error, from a variance for each side, with the degrees
    of freedom of Welch and Satterthwaite.

    `numbers` are the numbers of seeds of the system and of its control.
    """
    # A part is the variance of one side's mean. The parts add up, because the sides share no run.
    row_part, control_part = pooled_rows.sd**2 / numbers[0], pooled_control.sd**2 / numbers[1]
    variance = row_part + control_part
    spread = row_part**2 / pooled_rows.degrees_of_freedom
    spread += control_part**2 / pooled_control.degrees_of_freedom
    # Without any spread the degrees of freedom are 0 / 0. Their value does not matter then: a
    # standard error of 0 gives p-values of 0, 0.5 or 1.
    return Estimate(
        difference=difference,
        standard_error=math.sqrt(variance),
        degrees_of_freedom=variance**2 / spread if spread else pooled_rows.degrees_of_freedom,
    )


def answer_contrast(
    relation: Relation, printed_effect: float, estimate: Estimate
) -> ContrastAnswer:
    """Return the answer of one contrast, the difference between two systems. `printed_effect` and
    `estimate` are in bits a subword.
    """
    is_within = estimate.p_within(MARGIN_OF_ABSENCE) < ALPHA
    if not estimate.includes(0.0):
        if relation == "equivalent":
            return ContrastAnswer.DIFFERS
        is_as_printed = (estimate.difference > 0) == (relation == "above")
        return ContrastAnswer.AS_PRINTED if is_as_printed else ContrastAnswer.REVERSED
    # From here on the interval includes 0: the answer depends on the size that can be excluded.
    if not is_within:
        return ContrastAnswer.UNDECIDED
    if relation == "equivalent":
        return ContrastAnswer.AS_PRINTED
    return ContrastAnswer.TOO_SMALL if estimate.includes(printed_effect) else ContrastAnswer.ABSENT


def answer_family(asked: Mapping[str, tuple[Relation, float, Estimate]]) -> dict[str, Answered]:
    """Return the answers of several contrasts, with one Holm correction over all of them.

    `asked` maps a contrast's name to the paper's relation (above, below or equivalent), the paper's
    effect and our estimate.
    """
    p_within, p_difference = [], []
    for _, _, estimate in asked.values():
        p_within.append(estimate.p_within(MARGIN_OF_ABSENCE))
        p_difference.append(estimate.p_difference)
    # Decision 0012 corrects the two questions separately, as two families.
    holm_difference, holm_within = holm_adjusted(p_difference), holm_adjusted(p_within)
    answers = {}
    for index, (name, (relation, printed_effect, estimate)) in enumerate(asked.items()):
        answers[name] = Answered(
            answer=answer_contrast(relation, printed_effect, estimate),
            estimate=estimate,
            is_within_margin=p_within[index] < ALPHA,
            holm_difference=holm_difference[index],
            holm_within=holm_within[index],
            smallest_margin=estimate.smallest_margin(),
            corrected_smallest_margin=estimate.smallest_margin(len(asked)),
        )
    return answers
