"""Decides by a fixed rule whether the mean of our scores reproduces a BLEU printed in the paper.

The rule for verdicts tests equivalence within a margin of 0.5 BLEU, by two one-sided t-tests at
alpha 0.05. The paper's number is treated as a constant, because the paper does not state a spread.
A system has few seeds, so the standard deviation (sd) is pooled over all systems with the same
scale and definition of BLEU. The scores of one system may vary more over its seeds than the scores
of the other systems. The rule for verdicts therefore takes the larger of the pooled sd and the
system's own sd, with the degrees of freedom of the larger sd (decision 0014). An earlier version of
the rule always took the pooled sd. The verdict by the earlier rule is kept as
`outcome_by_pooled_sd`.

A verdict has three p-values. Let d be the difference between our mean and the paper's number, e the
standard error of d, and t a Student variable with the degrees of freedom of the sd:

| p | null hypothesis | value |
|---|---|---|
| `p_difference` | the true difference is 0 (two-sided) | 2 P(t > abs(d) / e) |
| `p_equivalent` | the true difference is the margin or more | P(t > (0.5 - abs(d)) / e) |
| `p_outside` | the true difference is within the margin | 2 P(t > (abs(d) - 0.5) / e), at most 1 |

The p-value `p_equivalent` is the larger p of Schuirmann's two one-sided tests. The verdict is
REPRODUCED if the difference is significantly within the margin (`p_equivalent` below alpha), and
NOT REPRODUCED if it is significantly outside (`p_outside` below alpha). A difference that is
significantly different from 0 (small `p_difference`) does not affect the verdict, because with
enough seeds every true difference becomes significant.

The paper's number comes from a single run. The verdict also says whether the paper's number is in
the 95 % prediction interval for a further run of ours, mean +- t(0.975, df) sd sqrt(1 + 1/n), where
df are the degrees of freedom of the sd and n is the number of our seeds. A number inside the
prediction interval cannot be distinguished from a run of ours. Being inside the prediction interval
is not enough for REPRODUCED, because few seeds make a wide interval.

Each verdict is tested at the level alpha, so the probability of a wrong verdict anywhere in a table
of k verdicts is larger. The worst case is that every true difference equals the margin. If the
verdicts were independent, at least one wrong REPRODUCED would occur in the worst case with
probability 1 - (1 - alpha)^k. The standard deviation that the verdicts share makes this probability
smaller, and the probability is at most k alpha. With Holm's step-down correction (1979) of the
p-values, the probability of a wrong verdict is at most alpha for the whole table, under any
dependence.
"""

import bisect
import enum
import math
import statistics
from collections.abc import Mapping, Sequence

import msgspec
from scipy import special, stats  # type: ignore[import-untyped, unused-ignore]

MARGIN_BLEU = 0.5  # a smaller difference counts as equivalent
ALPHA = 0.05  # for each of the two one-sided tests, and for the two-sided interval
MIN_SEEDS = 3
MAX_SEEDS_ADVISED = 1000
ROUNDING = 1e-9  # two sds that differ by less than this fraction are equal


class Outcome(enum.StrEnum):
    """The possible verdicts on a number printed in the paper."""

    REPRODUCED = "REPRODUCED"
    NOT_REPRODUCED = "NOT REPRODUCED"
    UNDECIDED = "UNDECIDED"
    NOT_COMPARABLE = "NOT COMPARABLE"


REASON_BY_OUTCOME = {
    Outcome.REPRODUCED: (
        f"Equivalent: both one-sided tests reject a difference of {MARGIN_BLEU} BLEU or more."
    ),
    Outcome.NOT_REPRODUCED: (
        f"The 95 % interval of the difference lies outside the margin of {MARGIN_BLEU} BLEU."
    ),
    Outcome.UNDECIDED: (
        f"Neither equivalent within {MARGIN_BLEU} BLEU nor outside it: the seeds leave both open."
    ),
}
TOO_FEW_SEEDS = f"Too few seeds: the rule asks for {MIN_SEEDS} or more."


class PooledSd(msgspec.Struct, frozen=True, kw_only=True):
    """A standard deviation (sd) of scores over seeds, pooled over several systems.

    The smallest and the largest sd of a single system are `smallest_sd` and `largest_sd`. The
    p-value of Bartlett's test that all systems have the same variance is `bartlett_p`. Bartlett's
    p-value is None if there is only one system or if the sd of a system is 0.
    """

    sd: float
    degrees_of_freedom: int
    num_systems: int
    smallest_sd: float
    largest_sd: float
    bartlett_p: float | None


class Verdict(msgspec.Struct, frozen=True, kw_only=True):
    """A verdict on a number of the paper: the outcome, its reason in one sentence, and the
    statistics behind it. Differences are our mean minus the paper's number, in BLEU.

    The p-values are explained in the docstring of this module. The p-values are None if the rule
    was not applied, because the numbers are not comparable or the seeds too few. The standard
    deviation over all systems is `pooled`, the standard deviation that the rule used is `judging`.
    The verdict by an earlier rule, which always used the sd over all systems, is
    `outcome_by_pooled_sd` (None if no rule was applied). The field `largest_equivalent_difference`
    is the largest difference with which these seeds would still give REPRODUCED (None if no
    difference would). The field `num_seeds_to_decide` is the total number of seeds with which the
    outcome would be REPRODUCED or NOT REPRODUCED if mean and sd did not change (None if more than
    MAX_SEEDS_ADVISED seeds would be needed). The 95 % interval for a further run of ours, in BLEU,
    is `prediction_interval`, and half its width is `prediction_half_width`. The interval and its
    half width are None if no sd is known or if the numbers are not comparable.
    """

    outcome: Outcome
    reason: str
    num_seeds: int
    mean: float | None = None
    difference: float | None = None
    interval: tuple[float, float] | None = None
    pooled: PooledSd | None = None
    judging: PooledSd | None = None
    outcome_by_pooled_sd: Outcome | None = None
    p_difference: float | None = None
    p_equivalent: float | None = None
    p_outside: float | None = None
    largest_equivalent_difference: float | None = None
    num_seeds_to_decide: int | None = None
    prediction_interval: tuple[float, float] | None = None
    prediction_half_width: float | None = None

    @property
    def is_printed_predicted(self) -> bool | None:
        """Whether the paper's number is in the prediction interval of a further run of ours, None
        if there is no interval.
        """
        if self.difference is None or self.prediction_half_width is None:
            return None
        return abs(self.difference) <= self.prediction_half_width


class Conditions(msgspec.Struct, frozen=True, kw_only=True):
    """The conditions under which a number was measured. The field `metric` is the definition of
    BLEU.
    """

    scale: str
    corpus: str
    testset: str
    metric: str


def pool_sd(
    values_by_system: Mapping[str, Sequence[float]], *, with_bartlett: bool = True
) -> PooledSd | None:
    """Return the standard deviation of scores over seeds, pooled over the systems with at least 2
    seeds.

    The degrees of freedom are the sum of (n - 1) over the systems, for n seeds of a system. Returns
    None if no system has 2 seeds. `values_by_system` must have each system only once, because two
    evaluations of the same trainings are not independent. Bartlett's test (equal variances) does
    not affect verdicts. Without Bartlett's test, this function takes a tenth of the time.
    """
    groups = [values for values in values_by_system.values() if len(values) >= 2]
    if not groups:
        return None
    sds = [statistics.stdev(values) for values in groups]
    degrees_of_freedom = sum(len(values) - 1 for values in groups)
    # Weighted by degrees of freedom: a system with many seeds knows its spread better.
    squares = math.fsum((len(values) - 1) * sd**2 for values, sd in zip(groups, sds, strict=True))
    # Bartlett's statistic takes the logarithm of each variance, so no sd may be 0.
    can_test = with_bartlett and len(groups) > 1 and min(sds) > 0
    return PooledSd(
        sd=math.sqrt(squares / degrees_of_freedom),
        degrees_of_freedom=degrees_of_freedom,
        num_systems=len(groups),
        smallest_sd=min(sds),
        largest_sd=max(sds),
        bartlett_p=float(stats.bartlett(*groups).pvalue) if can_test else None,
    )


def find_condition_mismatch(ours: Conditions, printed: Conditions) -> str | None:
    """Describe the first difference between the conditions of our number and those of the paper's
    number, or return None.
    """
    # Only the first difference is reported, so the widest condition comes first.
    for field, name in (
        ("scale", "scale"),
        ("corpus", "corpus"),
        ("testset", "test set"),
        ("metric", "definition"),
    ):
        our_value, printed_value = getattr(ours, field), getattr(printed, field)
        if our_value != printed_value:
            return f"Another {name}: ours is {our_value}, the printed number's {printed_value}"
    return None


def not_comparable(reason: str, num_seeds: int) -> Verdict:
    """Return the verdict NOT COMPARABLE for a number of ours that cannot be compared with the
    paper's number.
    """
    return Verdict(outcome=Outcome.NOT_COMPARABLE, reason=f"{reason}.", num_seeds=num_seeds)


def judge(printed: float, values: Sequence[float], pooled: PooledSd | None) -> Verdict:
    """Return the verdict for our scores over seeds, measured under the same conditions as the
    paper's number.

    The argument `pooled` is the pooled standard deviation (from `pool_sd`) of all systems with the
    same scale and definition of BLEU, including this system if it has 2 seeds. If `pooled` is None
    or smaller than the standard deviation of this system, the standard deviation of this system is
    used. With fewer than MIN_SEEDS values, the verdict is UNDECIDED.
    """
    num_seeds = len(values)
    undecided = Verdict(outcome=Outcome.UNDECIDED, num_seeds=num_seeds, reason=TOO_FEW_SEEDS)
    if num_seeds == 0:
        return undecided
    # None for a single seed, which has no spread. Then only the sd of the other systems is known.
    own_pooled = pool_sd({"own": values})
    pooled = pooled if pooled is not None else own_pooled
    mean = statistics.mean(values)
    difference = mean - printed
    undecided = msgspec.structs.replace(undecided, mean=mean, difference=difference, pooled=pooled)
    # No system of this scale and definition has two seeds, so the spread is not known.
    if pooled is None:
        return undecided
    # A system that spreads more than the others must not borrow their smaller sd. Values that are
    # equal but for rounding do not count as larger.
    is_own_larger = own_pooled is not None and own_pooled.sd > pooled.sd * (1 + ROUNDING)
    judging = own_pooled if own_pooled is not None and is_own_larger else pooled
    degrees_of_freedom = judging.degrees_of_freedom
    # The printed number is one more run. Its variance adds to that of our mean, hence 1 + 1 / n.
    _, predicted = reaches(judging.sd * math.sqrt(1 + 1 / num_seeds), degrees_of_freedom)
    undecided = msgspec.structs.replace(
        undecided,
        judging=judging,
        prediction_interval=(mean - predicted, mean + predicted),
        prediction_half_width=predicted,
        num_seeds_to_decide=fewest_seeds_to_decide(difference, num_seeds, judging),
    )
    if num_seeds < MIN_SEEDS:
        return undecided
    # The margin is the same in both directions, so the sign of the difference does not matter.
    distance = abs(difference)
    standard_error = judging.sd / math.sqrt(num_seeds)
    reach, half_width = reaches(standard_error, degrees_of_freedom)
    outcome = outcome_of(distance, reach, half_width)
    # The verdict by the pooled sd only, for readers who doubt the system's own sd.
    pooled_reaches = reaches(pooled.sd / math.sqrt(num_seeds), pooled.degrees_of_freedom)
    p_above = tail(distance, standard_error, degrees_of_freedom)
    # Doubled below: the interval is two-sided, so a number may be outside on either side.
    p_outside = tail(distance - MARGIN_BLEU, standard_error, degrees_of_freedom)
    return msgspec.structs.replace(
        undecided,
        outcome=outcome,
        outcome_by_pooled_sd=outcome_of(distance, *pooled_reaches),
        reason=REASON_BY_OUTCOME[outcome],
        interval=(difference - half_width, difference + half_width),
        p_difference=min(1.0, 2 * p_above),
        p_equivalent=tail(MARGIN_BLEU - distance, standard_error, degrees_of_freedom),
        p_outside=min(1.0, 2 * p_outside),
        largest_equivalent_difference=None if reach >= MARGIN_BLEU else MARGIN_BLEU - reach,
    )


def largest_reproducible_sd(num_seeds: int, degrees_of_freedom: int) -> float:
    """Return the standard deviation, in BLEU, above which the verdict on a mean over `num_seeds`
    seeds can never be REPRODUCED.

    At this standard deviation the half width of the interval of the one-sided test equals the
    margin, so even a difference of 0 is not REPRODUCED.
    """
    reach, _ = reaches(1 / math.sqrt(num_seeds), degrees_of_freedom)
    return MARGIN_BLEU / reach


def tail(distance: float, standard_error: float, degrees_of_freedom: float) -> float:
    """Return the probability P(t > distance / standard_error) for a Student variable t.

    If the standard error is 0, the probability is 0, 0.5 or 1, depending on the sign of the
    distance.
    """
    if standard_error == 0:
        return 0.5 if distance == 0 else float(distance < 0)
    # `stdtr` is P(t < x). The distribution is symmetric, so the upper tail is its value at -x.
    return float(special.stdtr(degrees_of_freedom, -distance / standard_error))


def reaches(standard_error: float, degrees_of_freedom: int) -> tuple[float, float]:
    """Return half the widths of two intervals of the mean: the 90 % interval (for the one-sided
    tests) and the 95 % interval.

    Each half width is a quantile of Student's t times the standard error.
    """
    # stats.t.ppf calls stdtrit and takes 0.1 ms more, too much for the millions of a simulation.
    one_sided = float(special.stdtrit(degrees_of_freedom, 1 - ALPHA))
    two_sided = float(special.stdtrit(degrees_of_freedom, 1 - ALPHA / 2))
    return one_sided * standard_error, two_sided * standard_error


def outcome_of(distance: float, reach: float, half_width: float) -> Outcome:
    """Return the verdict for the distance between our mean and the paper's number, and the two half
    widths that `reaches` returns.
    """
    # Both one-sided tests at ALPHA reject exactly if the 90 % interval is inside the margin. Being
    # outside is tested with the 95 % interval.
    if distance + reach < MARGIN_BLEU:
        return Outcome.REPRODUCED
    return Outcome.NOT_REPRODUCED if distance - half_width > MARGIN_BLEU else Outcome.UNDECIDED


def fewest_seeds_to_decide(difference: float, num_seeds: int, pooled: PooledSd) -> int | None:
    """Return the smallest number of seeds that would give a verdict other than UNDECIDED, if mean
    and standard deviation did not change.

    The degrees of freedom grow with the number of seeds. Returns None if even MAX_SEEDS_ADVISED
    seeds would give UNDECIDED.
    """
    # The df that do not come from this system. Its own grow with each further seed.
    others_df = pooled.degrees_of_freedom - (num_seeds - 1)

    def decides(number: int) -> bool:
        reach, half_width = reaches(pooled.sd / math.sqrt(number), others_df + number - 1)
        return outcome_of(abs(difference), reach, half_width) is not Outcome.UNDECIDED

    numbers = range(max(MIN_SEEDS, num_seeds), MAX_SEEDS_ADVISED + 1)
    # Bisection works because reaches shrink as seeds are added.
    index = bisect.bisect_left(numbers, True, key=decides)
    return numbers[index] if index < len(numbers) else None


class Corrected(msgspec.Struct, frozen=True, kw_only=True):
    """A verdict's p-values after Holm's correction over all verdicts of a table, and the outcome by
    the corrected p-values.
    """

    p_equivalent: float
    p_outside: float
    outcome: Outcome


class Family(msgspec.Struct, frozen=True, kw_only=True):
    """The verdicts of a table, corrected for the number of verdicts. `num_judged` is the number of
    verdicts to which the rule of this module was applied.

    The probability of at least one wrong REPRODUCED in the table is `chance_wrongly_reproduced`, if
    all true differences equal the margin and the verdicts are independent. The same probability for
    NOT REPRODUCED is `chance_wrongly_not_reproduced`, which is smaller because a true difference at
    the margin can be found outside on one side only. The tuple `corrected` has an entry for each
    verdict, in the given order. An entry is None if the rule was not applied to the verdict.
    """

    num_judged: int
    chance_wrongly_reproduced: float
    chance_wrongly_not_reproduced: float
    corrected: tuple[Corrected | None, ...]


def chance_of_any(chance: float, num_cells: int) -> float:
    """Return the probability that at least one of `num_cells` independent events happens, each of
    probability `chance`.
    """
    return 1 - (1 - chance) ** num_cells


def holm_adjusted(p_values: Sequence[float]) -> list[float]:
    """Return the p-values after Holm's step-down correction, in the given order.

    Corrected p-values are compared with the alpha that holds for all tests together.
    """
    order = sorted(range(len(p_values)), key=p_values.__getitem__)
    adjusted = [0.0] * len(p_values)
    largest = 0.0
    # Holm multiplies the smallest p-value by the number of tests, the next by one less, and so on.
    for rank, index in enumerate(order):
        # An adjusted p-value is not below the adjusted value of a smaller p-value.
        largest = max(largest, min(1.0, (len(p_values) - rank) * p_values[index]))
        adjusted[index] = largest
    return adjusted


def judge_family(verdicts: Sequence[Verdict]) -> Family:
    """Return the error probabilities of a table of verdicts, and the verdicts after Holm's
    correction of their p-values.

    Holm's correction is applied separately to the p-values for REPRODUCED and to those for NOT
    REPRODUCED, because a verdict can be wrongly REPRODUCED or wrongly NOT REPRODUCED, but not both.
    """
    judged_indices = [
        index for index, verdict in enumerate(verdicts) if verdict.p_equivalent is not None
    ]
    # `or 0.0` is for the type checker only: each verdict in `judged_indices` has both p-values.
    equivalent = holm_adjusted([verdicts[index].p_equivalent or 0.0 for index in judged_indices])
    outside = holm_adjusted([verdicts[index].p_outside or 0.0 for index in judged_indices])
    corrected: list[Corrected | None] = [None] * len(verdicts)
    for index, p_equivalent, p_outside in zip(judged_indices, equivalent, outside, strict=True):
        # A difference is inside or outside the margin, so at most one of the two p-values is small.
        outcome = Outcome.NOT_REPRODUCED if p_outside < ALPHA else Outcome.UNDECIDED
        outcome = Outcome.REPRODUCED if p_equivalent < ALPHA else outcome
        corrected[index] = Corrected(
            p_equivalent=p_equivalent, p_outside=p_outside, outcome=outcome
        )
    return Family(
        num_judged=len(judged_indices),
        chance_wrongly_reproduced=chance_of_any(ALPHA, len(judged_indices)),
        # The interval is two-sided: each side has half of ALPHA. A true difference at the margin
        # can be found outside on its own side only.
        chance_wrongly_not_reproduced=chance_of_any(ALPHA / 2, len(judged_indices)),
        corrected=tuple(corrected),
    )
