"""Judges our mean against a printed number by a rule that was fixed beforehand.

The rule is a margin of 0.5 BLEU and two one-sided t-tests at 0.05. The printed number is treated as
a constant, because the paper does not state a spread. A system has few seeds, so the standard
deviation (sd) is pooled over the systems of a scale and definition. The seeds of one system may
vary more than the seeds of the others. So the rule takes the larger of the pooled sd and the
system's own sd, with the degrees of freedom of the larger sd (decision 0014). The former rule
always took the pooled sd. Its outcome is kept as `outcome_by_pooled_sd`.

A verdict has three p-values. Let d be the difference, e its standard error and t a Student variable
with the degrees of freedom of the sd:

| p | null hypothesis | value |
|---|---|---|
| `p_difference` | the true difference is 0 (two-sided) | 2 P(t > abs(d) / e) |
| `p_equivalent` | it is the margin or more | P(t > (0.5 - abs(d)) / e) |
| `p_outside` | it is within the margin (two-sided) | 2 P(t > (abs(d) - 0.5) / e), at most 1 |

`p_equivalent` is the larger p of Schuirmann's two tests. REPRODUCED means `p_equivalent` below
alpha, NOT REPRODUCED means `p_outside` below alpha. A small `p_difference` is not a verdict,
because with enough seeds every true difference becomes significant.

The printed number is itself a single run. The verdict also says whether this run could be a further
run of ours, that is, whether it is in the 95 % prediction interval, mean +- t(0.975, df) sd sqrt(1
+ 1/n), with the df of the sd and n the seeds of this cell. A printed number inside the interval
cannot be distinguished from a run of ours. Such a number does not count as REPRODUCED, because few
seeds make a wide interval.

Each verdict is tested at alpha, so a table of k verdicts is wrong somewhere more often. In the
worst case every true difference equals the margin. If the cells were independent, at least 1 wrong
REPRODUCED would then occur with probability 1 - (1 - alpha)^k. The shared standard deviation makes
this probability smaller, and it is at most k alpha. With Holm's step-down correction (1979) the
probability is at most alpha for the whole table, under any dependence.
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
    """The outcome for a printed number."""

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
    """A standard deviation over seeds, pooled over systems.

    `smallest_sd` and `largest_sd` are the smallest and the largest sd of a single system.
    `bartlett_p` is the p-value of Bartlett's test that all systems have the same variance. It is
    None for a single system or if an sd is 0.
    """

    sd: float
    degrees_of_freedom: int
    num_systems: int
    smallest_sd: float
    largest_sd: float
    bartlett_p: float | None


class Verdict(msgspec.Struct, frozen=True, kw_only=True):
    """An outcome with its reason in one sentence. Differences are our number minus the printed
    number, in BLEU.

    The p-values are explained above. They are None if the rule was not applied, because the numbers
    are not comparable or the seeds too few. `pooled` is the sd over all systems, `judging` the sd
    that the rule uses. `outcome_by_pooled_sd` is the outcome by the former rule, which always used
    `pooled`, or None if no rule was applied. `largest_equivalent_difference` is the largest
    difference that these seeds could have called equivalent (None: no difference).
    `num_seeds_to_decide` is the total number of seeds that would decide if mean and sd did not
    change (None: MAX_SEEDS_ADVISED would not). `prediction_interval` is the 95 % interval of a
    further run of ours, in BLEU, and `prediction_half_width` is half its width. Both are None
    without an sd or if the numbers are not comparable.
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
        """Whether the printed number is in the prediction interval, or None without an interval."""
        if self.difference is None or self.prediction_half_width is None:
            return None
        return abs(self.difference) <= self.prediction_half_width


class Conditions(msgspec.Struct, frozen=True, kw_only=True):
    """The conditions of a measured number. `metric` is its definition."""

    scale: str
    corpus: str
    testset: str
    metric: str


def pool_sd(
    values_by_system: Mapping[str, Sequence[float]], *, with_bartlett: bool = True
) -> PooledSd | None:
    """Return the standard deviation pooled over the systems with at least 2 seeds.

    The df are the sum of (n - 1). Returns None if no system has 2 seeds. Each system may appear
    only once, because two evaluations of the same trainings are not independent. Bartlett's test
    does not affect verdicts. Without it, the function takes a tenth of the time.
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
    """Describe the first difference between our conditions and the printed number's, or None."""
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
    """Return the verdict on our number if it cannot be compared with the printed number."""
    return Verdict(outcome=Outcome.NOT_COMPARABLE, reason=f"{reason}.", num_seeds=num_seeds)


def judge(printed: float, values: Sequence[float], pooled: PooledSd | None) -> Verdict:
    """Judge seeds measured under the printed number's own conditions.

    `pooled` comes from `pool_sd` over the systems of this scale and definition, including this
    system if it has 2 seeds. If it is None or smaller than the sd of this system, the sd of this
    system is used. With fewer than MIN_SEEDS values, the verdict is UNDECIDED.
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
    """Return the sd, in BLEU, above which a mean over these seeds can never be called REPRODUCED.

    At this sd the reach of the one-sided test equals the margin even if the difference is 0.
    """
    reach, _ = reaches(1 / math.sqrt(num_seeds), degrees_of_freedom)
    return MARGIN_BLEU / reach


def tail(distance: float, standard_error: float, degrees_of_freedom: float) -> float:
    """Return P(t > distance / standard_error).

    If the standard error is 0, return 0, 0.5 or 1, depending on the distance's sign.
    """
    if standard_error == 0:
        return 0.5 if distance == 0 else float(distance < 0)
    # `stdtr` is P(t < x). The distribution is symmetric, so the upper tail is its value at -x.
    return float(special.stdtr(degrees_of_freedom, -distance / standard_error))


def reaches(standard_error: float, degrees_of_freedom: int) -> tuple[float, float]:
    """Return the reach of a one-sided test and half the width of the two-sided interval.

    Both are quantiles of t times the standard error.
    """
    # stats.t.ppf calls stdtrit and takes 0.1 ms more, too much for the millions of a simulation.
    one_sided = float(special.stdtrit(degrees_of_freedom, 1 - ALPHA))
    two_sided = float(special.stdtrit(degrees_of_freedom, 1 - ALPHA / 2))
    return one_sided * standard_error, two_sided * standard_error


def outcome_of(distance: float, reach: float, half_width: float) -> Outcome:
    """Return the outcome for a distance from the printed number and the two `reaches`."""
    # Both one-sided tests at ALPHA reject exactly if the 90 % interval is inside the margin. Being
    # outside is tested with the 95 % interval.
    if distance + reach < MARGIN_BLEU:
        return Outcome.REPRODUCED
    return Outcome.NOT_REPRODUCED if distance - half_width > MARGIN_BLEU else Outcome.UNDECIDED


def fewest_seeds_to_decide(difference: float, num_seeds: int, pooled: PooledSd) -> int | None:
    """Return the smallest number of seeds that would decide if mean and sd did not change.

    The df grow with the seeds. Returns None if MAX_SEEDS_ADVISED seeds do not decide.
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
    """A verdict's p-values after Holm's correction over its family, and their outcome."""

    p_equivalent: float
    p_outside: float
    outcome: Outcome


class Family(msgspec.Struct, frozen=True, kw_only=True):
    """The verdicts of a table, corrected for their number. The rule was applied to `num_judged`
    verdicts.

    `chance_wrongly_reproduced` is the probability of at least 1 wrong REPRODUCED if all true
    differences equal the margin and the cells are independent. `chance_wrongly_not_reproduced` is
    the same for NOT REPRODUCED, where only one side can be wrong. `corrected` has an entry for each
    verdict, in the given order. It is None if the rule was not applied.
    """

    num_judged: int
    chance_wrongly_reproduced: float
    chance_wrongly_not_reproduced: float
    corrected: tuple[Corrected | None, ...]


def chance_of_any(chance: float, num_cells: int) -> float:
    """Return the probability that at least 1 of `num_cells` independent events happens."""
    return 1 - (1 - chance) ** num_cells


def holm_adjusted(p_values: Sequence[float]) -> list[float]:
    """Return the p-values after Holm's step-down correction, in the given order.

    Compare them with the alpha of the family.
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
    correction.

    The tests of equivalence and the tests of being outside the margin are two families, because a
    cell can be wrong in only one of the two ways.
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
