"""Decides whether a row of Table 3 differs from its control, by the rule of decision 0009.

The rule was fixed before seeds 5 and above of scale multi30k were trained. Its seeds 1 to 4 had
been looked at.

A contrast compares a row of Table 3, or big, with its control, which is base and has more seeds
than a row. The primary quantity is bits a subword on dev: log2 of each seed's perplexity, then the
mean over seeds. A difference of bits is a ratio of perplexities, so a row that learns little does
not weigh more than the others. BLEU is secondary.

d is the mean of the row over its n1 seeds minus the mean of the control over its n2 seeds (two or
more, else nothing is called). sd is pooled over all systems of the test set and metric that have
two seeds or more, with df degrees of freedom. The standard error is e = sd sqrt(1/n1 + 1/n2), and
the reach, half of the 95 % interval, is t(0.975, df) e. The paper concludes either a direction, or
that two systems are equivalent: within a margin of 0.10 bits, about what a single head costs as
printed, or of 0.5 BLEU.

| call | of a direction, if | of an equivalence, if |
|---|---|---|
| holds here | d in the paper's direction > the reach | abs(d) + t(0.95, df) e < the margin |
| reversed | d in the other direction > the reach | abs(d) - the reach > the margin |
| too close to call | anything else | anything else |

Each call has a p-value: two-sided, of no difference; for an equivalence, of the tests on d's side
of the margin. A second column of calls corrects one family, the primary contrasts, by Holm (1979):
a call that its corrected p-value does not support is too close. The primary contrasts that hold or
are reversed are decided. If the pooled sd gives a row a reach above MAX_REACH_BITS, all rows get a
third seed.

A post-norm model may fail to start, or start late: until then its cross-attention reads all source
tokens alike. *Did not start*: the lowest head of every decoder layer has an entropy over log S
above 0.98, and making all weights equal costs less than 0.05 bits a subword. A row with such a seed
is not called, and says so. Its difference is taken over the seeds that started. The sd is taken
over the runs that started. Where a run did not, another column calls with all runs in, by the sd of
all. If a seed of the control did not start, nothing is called: the scale must be chosen anew.
*Started late*: the first validation below STARTED_BITS came after 30 % of the updates, or never.
Late runs count like others, and are marked.

Equation (3) has no horizon, so each run contains all shorter runs: the effect is looked at after
60, 80 and 100 % of each system's updates. A row with more updates than its control, as big, is also
looked at after the control's number of updates. Decision 0012 adds six answers
(`analysis.conclusions.answers`). Its test of slopes tells which contrasts are *still moving*. The
calls of this module stay as decision 0009 has them.
"""

import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import StrEnum

import msgspec

from aiayn.scoring.start import UNIFORM_BITS, UNIFORM_ENTROPY
from aiayn.scoring.verdict import ALPHA, MARGIN_BLEU, PooledSd, holm_adjusted, pool_sd, tail
from analysis.conclusions.answers import Estimate, Relation, estimate_difference

MARGIN_BITS = 0.10
MAX_REACH_BITS = 0.06
STARTED_BITS = 4.5  # bits a subword on dev; for scale multi30k's vocabulary, from its probes
LATE_SHARE = 0.30  # of the updates
SHARES = (0.6, 0.8, 1.0)  # of the updates, at which an effect is looked at
VALIDATION_SHARE = 0.05  # a run has 20 validations: an older validation is too far from the share
SLOPE_FROM = 0.6  # of a run's updates: the slope is taken over the last 40 % (decision 0012)
NUM_LAST_VALIDATIONS = 3
MIN_CONTROL_SEEDS = 2
NUM_NAMED_SDS = 3


class Call(StrEnum):
    """The conclusion about a contrast."""

    HOLDS = "holds here"
    REVERSED = "reversed"
    TOO_CLOSE = "too close to call"
    NOT_STARTED = "did not start"
    CONTROL_NOT_STARTED = "the control did not start"
    FEW_CONTROLS = "cannot be called: the control has fewer than two seeds"
    NOT_ASKED = "not called"  # the paper concludes nothing from the two rows


DECIDED = (Call.HOLDS, Call.REVERSED)
CALLED = (*DECIDED, Call.TOO_CLOSE)


class SeedRun(msgspec.Struct, frozen=True, kw_only=True):
    """One seed of a system: its value, and how it learnt by its records and its log.

    `lowest_entropy` is the lowest entropy over log S of all layers and heads. It and `bits_lost`
    are None where they were not recorded. `bits_by_update` holds the validations on dev. It is
    empty without a log. `device` is the name of the GPU that it was trained on, or CPU.
    """

    value: float
    seed: int = 0
    lowest_entropy: float | None = None
    bits_lost: float | None = None
    bits_by_update: Mapping[int, float] = {}
    updates: int = 0
    device: str = "CPU"

    @property
    def has_started(self) -> bool | None:
        """Return whether the cross-attention is useful, or None if this is not known."""
        if self.lowest_entropy is None or self.bits_lost is None:
            return None
        return self.lowest_entropy <= UNIFORM_ENTROPY or self.bits_lost >= UNIFORM_BITS

    @property
    def is_late(self) -> bool:
        """Whether the run started to learn late, by its log. A run that never started is not
        counted as late.
        """
        if not self.bits_by_update or self.has_started is False:
            return False
        for update, bits in sorted(self.bits_by_update.items()):
            if bits < STARTED_BITS:
                return update > LATE_SHARE * self.updates
        return True

    def bits_at(self, share: float) -> float | None:
        """Return the newest validation's bits per subword at a share of the updates, or None if
        unknown.
        """
        # An older validation than this would show the effect at a different time.
        last = round(share * self.updates)
        first = last - VALIDATION_SHARE * self.updates
        updates = [update for update in self.bits_by_update if first < update <= last]
        return self.bits_by_update[max(updates)] if updates else None

    @property
    def mean_of_last(self) -> float | None:
        """The mean of the last three validations, or None if there are fewer."""
        return mean_of_last_validations(self.bits_by_update)

    @property
    def slope_at_end(self) -> float | None:
        """The least-squares slope of the validations over the last 40 % of the updates, in bits per
        length of the whole run. None if there are fewer than three validations in that part.
        """
        late_shares, late_bits = [], []
        for update, bits in self.bits_by_update.items():
            if update >= SLOPE_FROM * self.updates:
                late_shares.append(update / self.updates)
                late_bits.append(bits)
        if len(late_bits) < NUM_LAST_VALIDATIONS:
            return None
        return statistics.linear_regression(late_shares, late_bits).slope


class Spread(msgspec.Struct, frozen=True, kw_only=True):
    """The pooled sds of one test set and metric, each None if no system has two seeds.

    `everything` is pooled over all runs, `started` without the runs that failed to start,
    `punctual` without the systems with a seed that failed to start or started late. `unstarted`
    and `late` name these systems. `largest` has the three systems with the largest sds, over all
    runs.
    """

    started: PooledSd | None
    everything: PooledSd | None
    punctual: PooledSd | None
    unstarted: tuple[str, ...]
    late: tuple[str, ...]
    largest: tuple[tuple[str, float], ...]


class Contrast(msgspec.Struct, frozen=True, kw_only=True):
    """A row compared with its control. `difference`, in the metric's unit, covers the runs that
    started.

    `estimate` is None without an sd. `p_value` is None where nothing is called. `corrected` is the
    call after Holm's correction, None outside the family. `with_all` is the call with all runs in,
    None if all runs of all systems started. `effects` are the differences in bits at SHARES of the
    updates. An effect is None in BLEU, and if a seed was not validated there. A row with more
    updates than its control has `effect_at_control_updates`.
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
    estimate: Estimate | None = None
    p_value: float | None = None
    corrected: Call | None = None
    with_all: Call | None = None
    effects: tuple[float | None, ...] = (None,) * len(SHARES)
    effect_at_control_updates: float | None = None

    @property
    def reach(self) -> float | None:
        """Half of the 95 % interval."""
        return None if self.estimate is None else self.estimate.reach

    @property
    def interval(self) -> tuple[float, float] | None:
        """The 95 % interval of the difference."""
        if self.reach is None:
            return None
        return self.difference - self.reach, self.difference + self.reach


def measure_spread(runs_by_system: Mapping[str, Sequence[SeedRun]]) -> Spread:
    """Return the standard deviations of one test set and metric."""
    everything, started, punctual = {}, {}, {}
    unstarted, late, sds = [], [], []
    for system, runs in runs_by_system.items():
        everything[system] = _values(runs)
        started[system] = _values(started_runs(runs))
        if len(started[system]) < len(runs):
            unstarted.append(system)
        if any(run.is_late for run in runs):
            late.append(system)
        if system not in (*unstarted, *late):
            punctual[system] = everything[system]
        if len(runs) > 1:
            sds.append((system, statistics.stdev(everything[system])))
    sds.sort(key=lambda named: -named[1])
    return Spread(
        started=pool_sd(started),
        everything=pool_sd(everything),
        punctual=pool_sd(punctual),
        unstarted=tuple(unstarted),
        late=tuple(late),
        largest=tuple(sds[:NUM_NAMED_SDS]),
    )


def mean_of_last_validations(bits_by_update: Mapping[int, float]) -> float | None:
    """Return the mean of the last three validations, or None if there are fewer."""
    last = sorted(bits_by_update)[-NUM_LAST_VALIDATIONS:]
    if len(last) < NUM_LAST_VALIDATIONS:
        return None
    return statistics.mean(bits_by_update[update] for update in last)


def started_runs(runs: Sequence[SeedRun]) -> list[SeedRun]:
    """Return the runs, without the runs that are known not to have started to learn."""
    return [run for run in runs if run.has_started is not False]


def known_values(
    runs: Iterable[SeedRun], value_of: Callable[[SeedRun], float | None]
) -> list[float]:
    """Return a quantity of each of a system's runs. The list is empty if a value of one run is
    missing.
    """
    values = []
    for run in runs:
        value = value_of(run)
        if value is None:
            return []
        values.append(value)
    return values


def draw_contrast(
    relation: Relation | None,
    runs: Sequence[SeedRun],
    control_runs: Sequence[SeedRun],
    spread: Spread,
    *,
    is_in_bits: bool,
) -> Contrast:
    """Return the contrast of a row's seeds, one or more, with its control's.

    Values are bits a subword, or BLEU. `spread` comes from `measure_spread` over all systems of the
    test set and metric. Without a `relation` the contrast is not called. If no seed of a side
    started, the difference is taken over all its seeds.
    """
    margin = MARGIN_BITS if is_in_bits else MARGIN_BLEU
    compared = started_runs(runs) or runs
    controls = started_runs(control_runs) or control_runs
    estimate = _estimate(compared, controls, spread.started or spread.everything)
    call, p_value = _call(relation, estimate, margin)
    # Decision 0009: a row with a seed that did not start has a difference, but no call.
    num_unstarted = len(runs) - len(started_runs(runs))
    num_unstarted_controls = len(control_runs) - len(started_runs(control_runs))
    if call in CALLED and num_unstarted + num_unstarted_controls:
        call = Call.CONTROL_NOT_STARTED if num_unstarted_controls else Call.NOT_STARTED
        p_value = None
    with_all = None
    if spread.unstarted:
        of_all_runs = _estimate(runs, control_runs, spread.everything)
        with_all, _ = _call(relation, of_all_runs, margin)
    contrast = Contrast(
        call=call,
        difference=_difference(_values(compared), _values(controls)),
        num_seeds=len(runs),
        num_control_seeds=len(control_runs),
        num_compared=len(compared),
        num_compared_controls=len(controls),
        num_unstarted=num_unstarted,
        num_unstarted_controls=num_unstarted_controls,
        num_unknown=sum(run.has_started is None for run in runs),
        num_late=sum(run.is_late for run in runs),
        estimate=estimate,
        p_value=p_value,
        with_all=with_all,
    )
    if not is_in_bits:
        return contrast
    # A row that trained for longer than its control, as big, is also compared at equal updates.
    control_share = controls[0].updates / max(1, compared[0].updates)
    return msgspec.structs.replace(
        contrast,
        effects=tuple(_effect(compared, controls, share, share) for share in SHARES),
        effect_at_control_updates=(
            _effect(compared, controls, control_share, 1.0) if control_share < 1 else None
        ),
    )


def _values(runs: Sequence[SeedRun]) -> list[float]:
    return [run.value for run in runs]


def _difference(values: Sequence[float], control_values: Sequence[float]) -> float:
    return statistics.mean(values) - statistics.mean(control_values)


def _effect(
    runs: Sequence[SeedRun], control_runs: Sequence[SeedRun], share: float, control_share: float
) -> float | None:
    """Return the difference in bits at shares of the updates, or None if a seed was not validated
    there.
    """
    values = known_values(runs, lambda run: run.bits_at(share))
    control_values = known_values(control_runs, lambda run: run.bits_at(control_share))
    if not values or not control_values:
        return None
    return _difference(values, control_values)


def reach_of(pooled: PooledSd, num_seeds: int, num_control_seeds: int) -> float:
    """Return the reach for these numbers of seeds. It does not depend on the difference, so it is
    known before a difference is.
    """
    return estimate_difference(0.0, pooled, num_seeds, num_control_seeds).reach


def _estimate(
    runs: Sequence[SeedRun], control_runs: Sequence[SeedRun], pooled: PooledSd | None
) -> Estimate | None:
    """Return the estimate of the difference, or None without an sd, or with too few controls."""
    if pooled is None or len(control_runs) < MIN_CONTROL_SEEDS:
        return None
    difference = _difference(_values(runs), _values(control_runs))
    return estimate_difference(difference, pooled, len(runs), len(control_runs))


def _call(
    relation: Relation | None, estimate: Estimate | None, margin: float
) -> tuple[Call, float | None]:
    """Return the call of a difference, and its p-value."""
    if estimate is None:
        return Call.FEW_CONTROLS, None
    if relation is None:
        return Call.NOT_ASKED, None
    distance = abs(estimate.difference)
    if relation == "equivalent":
        error, degrees_of_freedom = estimate.standard_error, estimate.degrees_of_freedom
        p_outside = min(1.0, 2 * tail(distance - margin, error, degrees_of_freedom))
        p_value = estimate.p_within(margin) if distance <= margin else p_outside
        holds = estimate.smallest_margin() < margin
        is_reversed = distance - estimate.reach > margin
    else:
        p_value = estimate.p_difference
        is_as_printed = (estimate.difference > 0) == (relation == "above")
        holds = distance > estimate.reach and is_as_printed
        is_reversed = distance > estimate.reach and not is_as_printed
    if holds:
        return Call.HOLDS, p_value
    return (Call.REVERSED if is_reversed else Call.TOO_CLOSE), p_value


def correct_family(contrasts: Sequence[Contrast]) -> list[Contrast]:
    """Return the contrasts of one family with calls corrected by Holm. Contrasts without a call do
    not enter the correction.
    """
    p_values = [contrast.p_value for contrast in contrasts if contrast.p_value is not None]
    adjusted = iter(holm_adjusted(p_values))
    corrected = []
    for contrast in contrasts:
        if contrast.p_value is None:
            corrected.append(contrast)
            continue
        call = contrast.call if next(adjusted) < ALPHA else Call.TOO_CLOSE
        corrected.append(msgspec.structs.replace(contrast, corrected=call))
    return corrected
