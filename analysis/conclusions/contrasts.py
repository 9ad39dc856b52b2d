"""Decides which differences between two systems of ours hold, by one rule for all of them.

The rule was fixed before seeds 5 and above of scale multi30k were trained; its seeds 1 to 4 had
been looked at.

A contrast is a row of Table 3, or big, against its control, which is base and has more seeds than a
row. The primary quantity is bits a subword on dev: log2 of each seed's perplexity, then the mean
over seeds. A difference of bits is a ratio of perplexities, so a row that learns little does not
weigh more than others. BLEU is secondary.

d is the mean of a row over its n1 seeds minus that of the control over its n2 (two or more, else
nothing is called). sd is pooled over all systems of the test set and metric that have two seeds or
more, with df degrees of freedom; the standard error is e = sd sqrt(1/n1 + 1/n2), and the reach,
half of the 95 % interval, t(0.975, df) e. The paper concludes a direction, or that two systems are
equivalent: within a margin of 0.10 bits, about what a single head costs as printed, or of 0.5 BLEU.

| call | of a direction, if | of an equivalence, if |
|---|---|---|
| holds here | d in the paper's direction > the reach | abs(d) + t(0.95, df) e < the margin (two one-sided tests) |
| reversed | d in the other direction > the reach | abs(d) - the reach > the margin |
| too close to call | anything else | anything else |

What is called has a p-value: two-sided, of no difference; of an equivalence, of the tests on the
side of the margin on which d lies. A second column of calls corrects one family, the primary
contrasts, by Holm (1979): a call that its corrected p-value does not support is too close. The
primary contrasts that hold or are reversed are decided. If a row's reach by the pooled sd alone is
above MAX_REACH_BITS, all rows get a third seed.

A post-norm model may fail to start, or start late: until then its cross-attention reads all source
tokens alike. *Did not start*: the lowest head of every decoder layer has an entropy over log S
above 0.98, and making all weights equal costs less than 0.05 bits a subword. A row of which a seed
did not start is not called but says so; its difference is that of the seeds that started. The sd is
of the runs that started; where any did not, another column calls with all runs in, by the sd of
all. If a seed of the control did not start, nothing is called: the scale is to be chosen anew.
*Started late*: the first validation below STARTED_BITS came after 30 % of the updates, or never.
Late runs count like others, and are marked.

Equation (3) has no horizon, so each run contains its shorter ones: the effect is looked at after
60, 80 and 100 % of each system's updates. A row of more updates than its control, as big, is also
looked at after as many as that one's. Decision 0012 adds six answers
(`analysis.conclusions.answers`) and further readings (`analysis.conclusions.readings`); its test of
slopes tells which contrasts are *still moving*. The calls of this module stay as decision 0009 has
them.
"""  # noqa: E501

import math
import statistics
from collections.abc import Mapping, Sequence
from enum import StrEnum

import msgspec

from aiayn.scoring.start import UNIFORM_BITS, UNIFORM_ENTROPY
from aiayn.scoring.verdict import (
    ALPHA,
    MARGIN_BLEU,
    Outcome,
    PooledSd,
    holm_adjusted,
    outcome_of,
    pool_sd,
    reaches,
    tail,
)
from analysis.conclusions.answers import Relation

MARGIN_BITS = 0.10
MAX_REACH_BITS = 0.06
STARTED_BITS = 4.5  # of dev, a subword; of the vocabulary of scale multi30k, from its probes
LATE_SHARE = 0.30  # of the updates
SHARES = (0.6, 0.8, 1.0)  # of the updates, at which an effect is looked at
VALIDATION_SHARE = 0.05  # 20 validations a run: an older one is not of the share that is asked for
SLOPE_FROM = 0.6  # of a run's updates: the slope is that of its last 40 % (decision 0012)
NUM_LAST_VALIDATIONS = 3
MIN_CONTROL_SEEDS = 2
NUM_NAMED_SDS = 3


class Call(StrEnum):
    """What follows for a contrast."""

    HOLDS = "holds here"
    REVERSED = "reversed"
    TOO_CLOSE = "too close to call"
    NOT_STARTED = "did not start"
    CONTROL_NOT_STARTED = "the control did not start"
    FEW_CONTROLS = "cannot be called: the control has fewer than two seeds"
    NOT_ASKED = "not called"  # the paper concludes nothing of it


DECIDED = (Call.HOLDS, Call.REVERSED)
CALLED = (*DECIDED, Call.TOO_CLOSE)
_CALL_BY_OUTCOME = {
    Outcome.REPRODUCED: Call.HOLDS,
    Outcome.NOT_REPRODUCED: Call.REVERSED,
    Outcome.UNDECIDED: Call.TOO_CLOSE,
}


class SeedRun(msgspec.Struct, frozen=True, kw_only=True):
    """One seed of a system: its value, and what its records and its log say of how it learnt.

    `lowest_entropy` is the least over layers and heads of the entropy over log S; None, as
    `bits_lost`, where it was not recorded. `bits_by_update` are the validations on dev, empty
    without a log.
    """

    value: float
    seed: int = 0
    lowest_entropy: float | None = None
    bits_lost: float | None = None
    bits_by_update: Mapping[int, float] = {}
    updates: int = 0

    @property
    def has_started(self) -> bool | None:
        """Whether its cross-attention is of any use; None if that is not known."""
        if self.lowest_entropy is None or self.bits_lost is None:
            return None
        return self.lowest_entropy <= UNIFORM_ENTROPY or self.bits_lost >= UNIFORM_BITS

    @property
    def is_late(self) -> bool:
        """Whether it started, or may have, and late; a run without a log does not show it."""
        below = (
            update for update, bits in sorted(self.bits_by_update.items()) if bits < STARTED_BITS
        )
        is_late = next(below, math.inf) > LATE_SHARE * self.updates
        return bool(self.bits_by_update) and is_late and self.has_started is not False

    def bits_at(self, share: float) -> float | None:
        """Return the newest validation at a share of the updates; None if that is not known."""
        last = round(share * self.updates)
        updates = [
            one
            for one in self.bits_by_update
            if last - VALIDATION_SHARE * self.updates < one <= last
        ]
        return self.bits_by_update[max(updates)] if updates else None

    @property
    def mean_of_last(self) -> float | None:
        """The mean of the last three validations; None if there are fewer."""
        last = sorted(self.bits_by_update)[-NUM_LAST_VALIDATIONS:]
        if len(last) < NUM_LAST_VALIDATIONS:
            return None
        return statistics.mean(self.bits_by_update[update] for update in last)

    @property
    def slope_at_end(self) -> float | None:
        """The least-squares slope of the validations over the last 40 % of the updates, in bits for
        each whole run.

        None with fewer than three validations there.
        """
        late = [update for update in self.bits_by_update if update >= SLOPE_FROM * self.updates]
        if len(late) < NUM_LAST_VALIDATIONS:
            return None
        shares = [update / self.updates for update in late]
        return statistics.linear_regression(
            shares, [self.bits_by_update[update] for update in late]
        ).slope


class Spread(msgspec.Struct, frozen=True, kw_only=True):
    """The standard deviations of one test set and metric, each None if no system has two seeds.

    `started` is of the runs that did not fail to start, `everything` of all; `punctual` leaves out
    the systems of which a seed did not start or was late, which `unstarted` and `late` name.
    `largest` are the three largest, of all runs.
    """

    started: PooledSd | None
    everything: PooledSd | None
    punctual: PooledSd | None
    unstarted: tuple[str, ...]
    late: tuple[str, ...]
    largest: tuple[tuple[str, float], ...]


class Contrast(msgspec.Struct, frozen=True, kw_only=True):
    """A row against its control; `difference` is in the metric's unit, of the runs compared: those
    that started.

    `reach` is half of the 95 % interval, None if there is no sd. `p_value` is None where nothing is
    called. `corrected` is the call by Holm, None outside the family; `with_all` that with all runs
    in, None if all systems started. `effects` are at SHARES of the updates; None where a seed has
    no validation there, and of BLEU. `effect_at_control_updates` is that of a row of more updates
    than its control, after as many as that one's.
    """

    call: Call
    difference: float
    num_seeds: int
    num_control_seeds: int
    num_compared: int
    num_compared_controls: int
    num_unstarted: int = 0
    num_unstarted_controls: int = 0
    num_unknown: int = 0
    num_late: int = 0
    reach: float | None = None
    p_value: float | None = None
    corrected: Call | None = None
    with_all: Call | None = None
    effects: tuple[float | None, ...] = (None,) * len(SHARES)
    effect_at_control_updates: float | None = None

    @property
    def interval(self) -> tuple[float, float] | None:
        """The 95 % interval of the difference."""
        return (
            None
            if self.reach is None
            else (self.difference - self.reach, self.difference + self.reach)
        )


def measure_spread(runs_by_system: Mapping[str, Sequence[SeedRun]]) -> Spread:
    """Return the standard deviations of one test set and metric; a system appears once."""
    unstarted = tuple(
        system for system, runs in runs_by_system.items() if len(started_runs(runs)) < len(runs)
    )
    late = tuple(
        system for system, runs in runs_by_system.items() if any(run.is_late for run in runs)
    )
    values = {system: [run.value for run in runs] for system, runs in runs_by_system.items()}
    sds = {system: statistics.stdev(some) for system, some in values.items() if len(some) > 1}
    return Spread(
        started=pool_sd(
            {
                system: [run.value for run in started_runs(runs)]
                for system, runs in runs_by_system.items()
            }
        ),
        everything=pool_sd(values),
        punctual=pool_sd(
            {system: some for system, some in values.items() if system not in (*unstarted, *late)}
        ),
        unstarted=unstarted,
        late=late,
        largest=tuple(sorted(sds.items(), key=lambda one: -one[1])[:NUM_NAMED_SDS]),
    )


def started_runs(runs: Sequence[SeedRun]) -> list[SeedRun]:
    """Return the runs except those that are known not to have started."""
    return [run for run in runs if run.has_started is not False]


def draw_contrast(
    relation: Relation | None,
    runs: Sequence[SeedRun],
    control_runs: Sequence[SeedRun],
    spread: Spread,
    *,
    is_in_bits: bool,
) -> Contrast:
    """Return the contrast of a row's seeds, one or more, with those of its control; no `relation`:
    it is not called.

    Values are bits a subword, or BLEU. `spread` comes from `measure_spread` over all systems of the
    test set and metric. Where no seed of a side started, the difference is that of all of them.
    """
    margin = MARGIN_BITS if is_in_bits else MARGIN_BLEU
    kept, kept_controls = started_runs(runs) or runs, started_runs(control_runs) or control_runs
    difference, numbers = (
        _difference(_values(kept), _values(kept_controls)),
        (len(kept), len(kept_controls)),
    )
    pooled = spread.started or spread.everything
    call, reach, p_value = _call(relation, difference, numbers, pooled, margin)
    num_unstarted, num_unstarted_controls = (
        len(some) - len(started_runs(some)) for some in (runs, control_runs)
    )
    if call not in (Call.FEW_CONTROLS, Call.NOT_ASKED) and num_unstarted + num_unstarted_controls:
        call, p_value = (
            Call.CONTROL_NOT_STARTED if num_unstarted_controls else Call.NOT_STARTED,
            None,
        )
    part = kept_controls[0].updates / max(1, kept[0].updates)
    with_all = None
    if spread.unstarted:
        of_all = _difference(_values(runs), _values(control_runs)), (len(runs), len(control_runs))
        with_all = _call(relation, *of_all, spread.everything, margin)[0]
    return Contrast(
        call=call,
        difference=difference,
        num_seeds=len(runs),
        num_control_seeds=len(control_runs),
        num_compared=len(kept),
        num_compared_controls=len(kept_controls),
        num_unstarted=num_unstarted,
        num_unstarted_controls=num_unstarted_controls,
        num_unknown=sum(run.has_started is None for run in runs),
        num_late=sum(run.is_late for run in runs),
        reach=reach,
        p_value=p_value,
        with_all=with_all,
        effects=tuple(
            _effect(kept, kept_controls, share, share) if is_in_bits else None for share in SHARES
        ),
        effect_at_control_updates=(
            _effect(kept, kept_controls, part, 1.0) if is_in_bits and part < 1 else None
        ),
    )


def _values(runs: Sequence[SeedRun]) -> list[float]:
    return [run.value for run in runs]


def _difference(values: Sequence[float], control_values: Sequence[float]) -> float:
    return statistics.mean(values) - statistics.mean(control_values)


def _effect(
    runs: Sequence[SeedRun], control_runs: Sequence[SeedRun], share: float, control_share: float
) -> float | None:
    """Return the difference in bits at shares of the updates; None if a seed has no validation
    there.
    """
    bits, control_bits = (
        [run.bits_at(share) for run in runs],
        [run.bits_at(control_share) for run in control_runs],
    )
    known, known_controls = (
        [value for value in some if value is not None] for some in (bits, control_bits)
    )
    is_known = len(known) == len(runs) and len(known_controls) == len(control_runs)
    return _difference(known, known_controls) if is_known else None


def reach_of(pooled: PooledSd, num_seeds: int, num_control_seeds: int) -> float:
    """Return the reach of a row's seeds against its control's by their numbers, before any
    difference is looked at.
    """
    standard_error = pooled.sd * math.sqrt(1 / num_seeds + 1 / num_control_seeds)
    return reaches(standard_error, pooled.degrees_of_freedom)[1]


def _call(
    relation: Relation | None,
    difference: float,
    numbers: tuple[int, int],
    pooled: PooledSd | None,
    margin: float,
) -> tuple[Call, float | None, float | None]:
    """Return the call of a difference, its reach and its p-value; `numbers` are the seeds of row
    and control.
    """
    if pooled is None or numbers[1] < MIN_CONTROL_SEEDS:
        return Call.FEW_CONTROLS, None, None
    df, standard_error = (
        pooled.degrees_of_freedom,
        pooled.sd * math.sqrt(1 / numbers[0] + 1 / numbers[1]),
    )
    one_sided, reach = reaches(standard_error, df)
    if relation is None:
        return Call.NOT_ASKED, reach, None
    if relation == "equivalent":
        distance = abs(difference)
        call = _CALL_BY_OUTCOME[outcome_of(distance, one_sided, reach, margin)]
        p_inside, p_outside = (
            tail(some, standard_error, df) for some in (margin - distance, distance - margin)
        )
        return call, reach, p_inside if distance <= margin else min(1.0, 2 * p_outside)
    p_value = min(1.0, 2 * tail(abs(difference), standard_error, df))
    if abs(difference) <= reach:
        return Call.TOO_CLOSE, reach, p_value
    return (
        Call.HOLDS if (difference > 0) == (relation == "above") else Call.REVERSED,
        reach,
        p_value,
    )


def correct_family(contrasts: Sequence[Contrast]) -> list[Contrast]:
    """Return the contrasts of one family with their calls by Holm; those that are not called have
    no part in it.
    """
    tested = [index for index, contrast in enumerate(contrasts) if contrast.p_value is not None]
    corrected = list(contrasts)
    for index, p_value in zip(
        tested, holm_adjusted([contrasts[i].p_value or 0.0 for i in tested]), strict=True
    ):
        call = contrasts[index].call if p_value < ALPHA else Call.TOO_CLOSE
        corrected[index] = msgspec.structs.replace(contrasts[index], corrected=call)
    return corrected
