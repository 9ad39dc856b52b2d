"""Judges our mean against a printed number by a rule fixed beforehand: margin 0.5 BLEU, two
one-sided t-tests at 0.05.

The printed number is a constant: the paper gives no spread. Seeds of one system are few, so their
standard deviation is pooled over the systems of one scale and definition, which have about the same
one.

A verdict has three p-values, with d the difference, e its standard error and t a Student variable
with the pooled degrees of freedom:

| p | null hypothesis | value |
|---|---|---|
| `p_difference` | the true difference is 0 (two-sided) | 2 P(t > abs(d) / e) |
| `p_equivalent` | it is the margin or more: the larger p of Schuirmann's two tests | P(t > (0.5 - abs(d)) / e) |
| `p_outside` | it is within the margin (two-sided) | 2 P(t > (abs(d) - 0.5) / e), at most 1 |

REPRODUCED is `p_equivalent` below alpha, NOT REPRODUCED `p_outside` below alpha. A small
`p_difference` is no verdict: with enough seeds every true difference has one.

The printed number is itself a single run. Beside the verdict stands whether it could be one more
run of ours, that is whether it lies in the 95 % prediction interval, mean +- t(0.975, df) sd sqrt(1
+ 1/n), with the df of the sd used and n the seeds of this cell. Inside says that one run cannot be
told from ours. It is no REPRODUCED: few seeds make a wide interval.

Each verdict of a table is tested at its own alpha, so a table of k of them is wrong somewhere more
often: if every true difference lay on the margin, the worst case, and the cells were independent,
at least one wrong REPRODUCED would be in it with chance 1 - (1 - alpha)^k. The standard deviation
that the cells share makes it less, and nothing makes it more than k alpha. Holm's step-down
correction (1979) holds that chance at alpha for the whole table, under any dependence.
"""  # noqa: E501

import bisect
import enum
import math
import statistics
from collections.abc import Callable, Mapping, Sequence

import msgspec
from scipy import special, stats  # type: ignore[import-untyped, unused-ignore]

MARGIN_BLEU = 0.5  # a smaller difference is called no difference
ALPHA = 0.05  # of each of the two one-sided tests, and of the two-sided interval
MIN_SEEDS = 3
MAX_SEEDS_ADVISED = 1000  # more seeds than that are not advised


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
    """A standard deviation over seeds, pooled over systems; `smallest_sd` to `largest_sd` is their
    range.

    `bartlett_p` tests that the systems share one variance (small: they do not); None with one
    system or a zero sd.
    """

    sd: float
    degrees_of_freedom: int
    num_systems: int
    smallest_sd: float
    largest_sd: float
    bartlett_p: float | None


class Verdict(msgspec.Struct, frozen=True, kw_only=True):
    """An outcome with its reason in a sentence; differences are ours minus printed, in BLEU.

    The p-values are the module's; None where the rule was not applied: not comparable, or too few
    seeds. `largest_equivalent_difference` is what these seeds could at most have called equivalent
    (None: nothing); `num_seeds_to_decide` is the total that would decide if mean and sd stayed as
    they are (None: no number would). `prediction_interval` is the 95 % interval of one further run
    of ours, in BLEU, `prediction_half_width` its half; None without an sd, or where not comparable.
    """

    outcome: Outcome
    reason: str
    num_seeds: int
    mean: float | None = None
    difference: float | None = None
    interval: tuple[float, float] | None = None
    pooled: PooledSd | None = None
    p_difference: float | None = None
    p_equivalent: float | None = None
    p_outside: float | None = None
    largest_equivalent_difference: float | None = None
    num_seeds_to_decide: int | None = None
    prediction_interval: tuple[float, float] | None = None
    prediction_half_width: float | None = None

    @property
    def is_printed_predicted(self) -> bool | None:
        """Whether the printed number lies in the prediction interval; None without one."""
        if self.difference is None or self.prediction_half_width is None:
            return None
        return abs(self.difference) <= self.prediction_half_width


class Conditions(msgspec.Struct, frozen=True, kw_only=True):
    """The conditions of a measured number; `metric` is its definition."""

    scale: str
    corpus: str
    testset: str
    metric: str


def pool_sd(
    values_by_system: Mapping[str, Sequence[float]], *, with_bartlett: bool = True
) -> PooledSd | None:
    """Return the standard deviation pooled over systems with 2 seeds or more, df = sum of (n - 1);
    None without any.

    A system appears once: two evaluations of the same trainings are not independent. Without
    Bartlett's test, which decides nothing, it takes a tenth of the time.
    """
    groups = [values for values in values_by_system.values() if len(values) >= 2]
    if not groups:
        return None
    sds = [statistics.stdev(values) for values in groups]
    degrees_of_freedom = sum(len(values) - 1 for values in groups)
    squares = math.fsum((len(values) - 1) * sd**2 for values, sd in zip(groups, sds, strict=True))
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
    """Return the first condition in which ours differs from the printed number's, in words; None if
    all are equal.
    """
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
    """Return the verdict on a number of ours that cannot be compared with the printed one."""
    return Verdict(outcome=Outcome.NOT_COMPARABLE, reason=f"{reason}.", num_seeds=num_seeds)


def judge(printed: float, values: Sequence[float], pooled: PooledSd | None) -> Verdict:
    """Judge seeds measured under the printed number's own conditions.

    `pooled` comes from `pool_sd` over the systems of this scale and definition, this one among them
    if it has two seeds; None takes this system's own. No value, or fewer than MIN_SEEDS, is
    UNDECIDED.
    """
    num_seeds = len(values)
    if num_seeds == 0:
        return Verdict(outcome=Outcome.UNDECIDED, num_seeds=0, reason=TOO_FEW_SEEDS)
    pooled = pooled if pooled is not None else pool_sd({"own": values})
    mean = statistics.mean(values)
    difference = mean - printed
    predicted = None
    if pooled is not None:
        _, predicted = reaches(pooled.sd * math.sqrt(1 + 1 / num_seeds), pooled.degrees_of_freedom)
    undecided = Verdict(
        outcome=Outcome.UNDECIDED,
        reason=TOO_FEW_SEEDS,
        num_seeds=num_seeds,
        mean=mean,
        difference=difference,
        pooled=pooled,
        prediction_interval=None if predicted is None else (mean - predicted, mean + predicted),
        prediction_half_width=predicted,
        num_seeds_to_decide=(
            None if pooled is None else fewest_seeds_to_decide(difference, num_seeds, pooled)
        ),
    )
    return (
        undecided
        if num_seeds < MIN_SEEDS or pooled is None
        else _decided(undecided, difference, pooled)
    )


def _decided(undecided: Verdict, difference: float, pooled: PooledSd) -> Verdict:
    """Return a verdict of enough seeds with the rule applied to it."""
    num_seeds, degrees_of_freedom = undecided.num_seeds, pooled.degrees_of_freedom
    standard_error = pooled.sd / math.sqrt(num_seeds)
    reach, half_width = reaches(standard_error, degrees_of_freedom)
    outcome = outcome_of(abs(difference), reach, half_width)
    from_zero, to_margin, beyond_margin = (
        tail(distance, standard_error, degrees_of_freedom)
        for distance in (
            abs(difference),
            MARGIN_BLEU - abs(difference),
            abs(difference) - MARGIN_BLEU,
        )
    )
    return msgspec.structs.replace(
        undecided,
        outcome=outcome,
        reason=REASON_BY_OUTCOME[outcome],
        interval=(difference - half_width, difference + half_width),
        p_difference=min(1.0, 2 * from_zero),
        p_equivalent=to_margin,
        p_outside=min(1.0, 2 * beyond_margin),
        largest_equivalent_difference=None if reach >= MARGIN_BLEU else MARGIN_BLEU - reach,
    )


def tail(distance: float, standard_error: float, degrees_of_freedom: float) -> float:
    """Return P(t > distance / standard_error); without any spread it is 0, 0.5 or 1 by the
    distance's sign.
    """
    if standard_error == 0:
        return 0.5 if distance == 0 else float(distance < 0)
    return float(special.stdtr(degrees_of_freedom, -distance / standard_error))


def reaches(standard_error: float, degrees_of_freedom: int) -> tuple[float, float]:
    """Return the reach of one one-sided test, and half the width of the two-sided interval: t
    quantiles times it.
    """
    # stdtrit is what stats.t.ppf calls, without its tenth of a millisecond: a simulation asks for
    # millions.
    one_sided, two_sided = (
        float(special.stdtrit(degrees_of_freedom, p)) for p in (1 - ALPHA, 1 - ALPHA / 2)
    )
    return one_sided * standard_error, two_sided * standard_error


def outcome_of(
    distance: float, reach: float, half_width: float, margin: float = MARGIN_BLEU
) -> Outcome:
    """Return what follows for a distance from the printed number, by the two `reaches` of its
    standard error.
    """
    if distance + reach < margin:
        return Outcome.REPRODUCED
    return Outcome.NOT_REPRODUCED if distance - half_width > margin else Outcome.UNDECIDED


def fewest_seeds_to_decide(difference: float, num_seeds: int, pooled: PooledSd) -> int | None:
    """Return the least number of seeds of this system that decides, mean and sd staying; its df
    grows with it.
    """
    others_df = pooled.degrees_of_freedom - (num_seeds - 1)

    def decides(wanted: int) -> bool:
        reach, half_width = reaches(pooled.sd / math.sqrt(wanted), others_df + wanted - 1)
        return outcome_of(abs(difference), reach, half_width) is not Outcome.UNDECIDED

    return fewest_seeds(max(MIN_SEEDS, num_seeds), decides)


def fewest_seeds(first: int, decides: Callable[[int], bool]) -> int | None:
    """Return the least number of seeds, from `first` to MAX_SEEDS_ADVISED, that decides; None if
    none does.
    """
    numbers = range(first, MAX_SEEDS_ADVISED + 1)
    index = bisect.bisect_left(numbers, True, key=decides)  # reaches only shrink as seeds are added
    return numbers[index] if index < len(numbers) else None


class Corrected(msgspec.Struct, frozen=True, kw_only=True):
    """A verdict's p-values by Holm over its family, and the outcome that they would give."""

    p_equivalent: float
    p_outside: float
    outcome: Outcome


class Family(msgspec.Struct, frozen=True, kw_only=True):
    """All verdicts of a table to which the rule was applied: `num_judged` of them.

    `chance_wrongly_reproduced` is that of at least one wrong REPRODUCED if all true differences
    were the margin, the cells independent; `chance_wrongly_not_reproduced` the same of NOT
    REPRODUCED, of which one side alone can be wrong. `corrected` has an entry a verdict, in the
    order given; None for those that the rule was not applied to.
    """

    num_judged: int
    chance_wrongly_reproduced: float
    chance_wrongly_not_reproduced: float
    corrected: tuple[Corrected | None, ...]


def chance_of_any(chance: float, num_cells: int) -> float:
    """Return the chance that at least one of `num_cells` independent events of the same chance
    happens.
    """
    return 1 - (1 - chance) ** num_cells


def holm_adjusted(p_values: Sequence[float]) -> list[float]:
    """Return the p-values by Holm's step-down correction, in the order given: compare them with the
    family's alpha.
    """
    order = sorted(range(len(p_values)), key=p_values.__getitem__)
    adjusted = [0.0] * len(p_values)
    largest = 0.0
    for rank, index in enumerate(order):
        largest = max(
            largest, min(1.0, (len(p_values) - rank) * p_values[index])
        )  # never below a smaller p's
        adjusted[index] = largest
    return adjusted


def judge_family(verdicts: Sequence[Verdict]) -> Family:
    """Return the chances of error and the corrected verdicts of one table.

    The tests of equivalence are one family, those of being outside the margin another: a cell can
    be wrong in one of the two only.
    """
    judged = [index for index, verdict in enumerate(verdicts) if verdict.p_equivalent is not None]
    equivalent = holm_adjusted([verdicts[index].p_equivalent or 0.0 for index in judged])
    outside = holm_adjusted([verdicts[index].p_outside or 0.0 for index in judged])
    corrected: list[Corrected | None] = [None] * len(verdicts)
    for index, p_equivalent, p_outside in zip(judged, equivalent, outside, strict=True):
        outcome = Outcome.NOT_REPRODUCED if p_outside < ALPHA else Outcome.UNDECIDED
        outcome = Outcome.REPRODUCED if p_equivalent < ALPHA else outcome
        corrected[index] = Corrected(
            p_equivalent=p_equivalent, p_outside=p_outside, outcome=outcome
        )
    return Family(
        num_judged=len(judged),
        chance_wrongly_reproduced=chance_of_any(ALPHA, len(judged)),
        chance_wrongly_not_reproduced=chance_of_any(ALPHA / 2, len(judged)),
        corrected=tuple(corrected),
    )
