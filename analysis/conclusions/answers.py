"""Answers two questions about each contrast: is there a difference, is it smaller than a margin.

The rule is in decision 0012. An estimate is a difference with its standard error and degrees of
freedom. With the paper's relation and its printed effect, both in bits a subword, the answer is

| answer | if |
|---|---|
| as printed, reversed | the 95 % interval excludes 0, with or against the printed sign |
| differs | the paper prints the two as equal, and the interval excludes 0 |
| as printed | printed as equal, the interval includes 0, the effect is within the margin |
| absent | the interval includes 0, not the printed effect; the effect is within the margin |
| too small to tell | the interval includes both; the effect is within the margin |
| undecided | anything else |

The effect is within the margin if two one-sided t-tests at ALPHA reject an effect of the margin or
more. The smallest margin that would pass is the larger absolute end of the 90 % interval. It is a
bound and is never tested.
"""

import math
from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Literal

import msgspec
from scipy import special  # type: ignore[import-untyped, unused-ignore]

from aiayn.scoring.verdict import ALPHA, PooledSd, holm_adjusted, tail

# In bits a subword; chosen after the runs of decision 0009 were seen (decision 0012).
MARGIN_OF_ABSENCE = 0.05

Relation = Literal["above", "below", "equivalent"]


class ContrastAnswer(StrEnum):
    """The six answers, in the order that pages list them."""

    AS_PRINTED = "as printed"
    REVERSED = "reversed"
    DIFFERS = "differs"
    ABSENT = "absent"
    TOO_SMALL = "too small to tell"
    UNDECIDED = "undecided"


class Estimate(msgspec.Struct, frozen=True, kw_only=True):
    """A difference between a row and its control, with its standard error and the error's degrees
    of freedom.
    """

    difference: float
    standard_error: float
    degrees_of_freedom: float

    @property
    def reach(self) -> float:
        """Half of the 95 % interval."""
        return self._quantile(1 - ALPHA / 2)

    @property
    def p_difference(self) -> float:
        """The two-sided p-value of no difference."""
        p_above = tail(abs(self.difference), self.standard_error, self.degrees_of_freedom)
        return min(1.0, 2 * p_above)

    def p_within(self, margin: float) -> float:
        """Return the p-value of the two one-sided tests: small if the effect is smaller than the
        margin.
        """
        return tail(margin - abs(self.difference), self.standard_error, self.degrees_of_freedom)

    def smallest_margin(self, num_tests: int = 1) -> float:
        """Return the smallest margin that would pass at ALPHA, corrected for `num_tests`
        contrasts.
        """
        return abs(self.difference) + self._quantile(1 - ALPHA / num_tests)

    def includes(self, effect: float) -> bool:
        """Return whether the 95 % interval includes an effect."""
        return abs(self.difference - effect) <= self.reach

    def _quantile(self, probability: float) -> float:
        return self.standard_error * float(special.stdtrit(self.degrees_of_freedom, probability))


class Answered(msgspec.Struct, frozen=True, kw_only=True):
    """The answer for a contrast, and the numbers that are shown next to it.

    `holm_difference` and `holm_within` are the p-values of difference and of equivalence, each
    corrected by Holm over the contrasts that were answered together. The two smallest margins, in
    bits a subword, are those with which the test of equivalence would still pass. The second is
    corrected for the number of these contrasts.
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
        """Whether the corrected p-value still rejects equality."""
        return self.holm_difference < ALPHA


def estimate_difference(
    difference: float, pooled: PooledSd, num_seeds: int, num_control_seeds: int
) -> Estimate:
    """Return the estimate of a difference of means by an sd that is pooled over systems."""
    return Estimate(
        difference=difference,
        standard_error=pooled.sd * math.sqrt(1 / num_seeds + 1 / num_control_seeds),
        degrees_of_freedom=pooled.degrees_of_freedom,
    )


def estimate_welch(
    difference: float, numbers: Sequence[int], pooled_rows: PooledSd, pooled_control: PooledSd
) -> Estimate:
    """Return the estimate by two variances, with the degrees of freedom of Welch and Satterthwaite.

    `numbers` are the seeds of the row and of the control.
    """
    row_part, control_part = pooled_rows.sd**2 / numbers[0], pooled_control.sd**2 / numbers[1]
    variance = row_part + control_part
    spread = row_part**2 / pooled_rows.degrees_of_freedom
    spread += control_part**2 / pooled_control.degrees_of_freedom
    return Estimate(
        difference=difference,
        standard_error=math.sqrt(variance),
        degrees_of_freedom=variance**2 / spread if spread else pooled_rows.degrees_of_freedom,
    )


def answer_contrast(
    relation: Relation, printed_effect: float, estimate: Estimate
) -> ContrastAnswer:
    """Return the answer of one contrast. Effect and estimate are in bits a subword."""
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
    """Return the answers of contrasts that are corrected together.

    `asked` maps a contrast's name to the paper's relation, the printed effect and our estimate.
    """
    p_within, p_difference = [], []
    for _, _, estimate in asked.values():
        p_within.append(estimate.p_within(MARGIN_OF_ABSENCE))
        p_difference.append(estimate.p_difference)
    # Two families: each question is corrected apart, as decision 0012 has it.
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
