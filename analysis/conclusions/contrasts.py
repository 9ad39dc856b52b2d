"""Decides whether a row of Table 3 differs from its control, by the rule of decision 0009.

The rule of decision 0009 was fixed before seeds 5 and above of scale multi30k were trained, and
after the results of seeds 1 to 4 had been seen.

A contrast compares a row of Table 3, or big, with its control, which is base and has more seeds
than a row. The primary quantity is bits a subword on dev: log2 of each seed's perplexity, then the
mean over seeds. A difference of bits is a ratio of perplexities, so a row that learns little does
not weigh more than the others. BLEU is secondary.

The difference d is the mean of the row over its n1 seeds minus the mean of the control over its n2
seeds. The control of a contrast must have two seeds or more. The standard deviation sd is pooled
over all systems of the test set and metric that have two seeds or more, with df degrees of freedom.
The standard error of the difference is e = sd sqrt(1/n1 + 1/n2). The reach of a contrast is half of
its 95 % interval: t(0.975, df) e. For each pair of systems, the paper concludes either a direction
(one is better) or an equivalence. Equivalent means that the difference is within a margin: 0.10
bits, about what a single head costs in the paper, or 0.5 BLEU. A call is the answer for a contrast
by this rule:

| call | of a direction, if | of an equivalence, if |
|---|---|---|
| holds here | abs(d) > the reach, with the paper's sign | abs(d) + t(0.95, df) e < the margin |
| reversed | abs(d) > the reach, with the opposite sign | abs(d) - the reach > the margin |
| too close to call | anything else | anything else |

Each call has a p-value. The p-value of a direction is the two-sided p-value of no difference. The
p-value of an equivalence is from the two one-sided tests if abs(d) is within the margin. If abs(d)
is above the margin, the p-value of an equivalence is the two-sided p-value of a difference within
the margin. Holm's correction is applied to all primary contrasts together. A second column of the
table has the calls after this correction (Holm 1979): if the corrected p-value is not below 0.05,
the call is *too close to call*. A primary contrast (in bits, with a conclusion in the paper's text)
is decided if its call is *holds here* or *reversed*. If half of a row's 95 % interval, from the
pooled sd, is larger than MAX_REACH_BITS, all rows get a third seed.

A model with normalisation after each sub-layer (post-norm) may fail to start to learn, or start
late. Until a model starts to learn, its cross-attention gives all source tokens the same weight. A
run *did not start* if the head with the lowest entropy in every decoder layer has an entropy over
log S above 0.98 (S source tokens), and if making all its weights of cross-attention equal costs
less than 0.05 bits a subword. A row of Table 3 with a seed that did not start is marked and gets no
call. If a seed of a row did not start, the row's difference and the sd are computed from the runs
that started. If any run did not start, a further column of the table has the calls over all runs,
with the sd over all runs. If a seed of the control did not start, no row gets a call, and a
different scale must be chosen. A run *started late* if its first validation below STARTED_BITS came
after 30 % of the updates, or never. Runs that started late count like other runs, and are marked.

The learning rate of equation (3) does not depend on the total number of updates, so the first part
of a run is the same as a shorter run. The difference of two systems is shown after 60, 80 and 100 %
of each system's updates. A system with more updates than its control, such as big, is also compared
after the control's number of updates. Decision 0012 adds six answers
(`analysis.conclusions.answers`) and a test of the slopes of validation curves, which finds the
differences that are *still moving* at the end of training. This module still uses the rule of
decision 0009.
"""

import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import StrEnum

import msgspec

from aiayn.scoring.verdict import ALPHA, MARGIN_BLEU, PooledSd, holm_adjusted, pool_sd, tail
from analysis.conclusions.answers import Estimate, Relation, estimate_difference

# The limits down to UNIFORM_BITS are from decision 0009.
MARGIN_BITS = 0.10  # one head instead of eight costs log2(5.29 / 4.92) = 0.105 bits as printed
MAX_REACH_BITS = 0.06
STARTED_BITS = 4.5  # bits a subword on dev, from probes with the vocabulary of scale multi30k
LATE_SHARE = 0.30  # of the updates
SHARES = (0.6, 0.8, 1.0)  # of the updates, at which an effect is looked at
# A training failed to start if its decoder attends to all source tokens equally: the lowest entropy
# of any cross-attention head, over log S, is above the first limit, and making all weights of the
# cross-attention equal costs fewer bits a subword than the second limit.
UNIFORM_ENTROPY = 0.98
UNIFORM_BITS = 0.05
VALIDATION_SHARE = 0.05  # a run has 20 validations: an older validation is too far from the share
SLOPE_FROM = 0.6  # of a run's updates: the slope is taken over the last 40 % (decision 0012)
NUM_LAST_VALIDATIONS = 3  # the primary quantity of decision 0013 is their mean
MIN_CONTROL_SEEDS = 2  # with one seed, the luck of this seed would shift every contrast
NUM_NAMED_SDS = 3


class Call(StrEnum):
    """The possible answers for a contrast by the rule of decision 0009."""

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
    """One seed of a system: its value in a metric, and how it learnt, from its records and its log.

    `lowest_entropy` is the lowest entropy of all heads of all decoder layers, divided by log S for
    S source tokens. `bits_lost` is the number of bits a subword that the model loses if its
    cross-attention is made uniform. `lowest_entropy` and `bits_lost` are None if they were not
    recorded. `bits_by_update` has the bits a subword on dev of each validation in the log, and is
    empty if there is no log. `device` is the name of the GPU that trained the run, or CPU.
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
        """Whether the decoder learnt to attend to its source. None if its attention was not
        recorded.
        """
        if self.lowest_entropy is None or self.bits_lost is None:
            return None
        # A run failed to start only if both limits say so. Nearly uniform attention that the model
        # cannot do without has started.
        return self.lowest_entropy <= UNIFORM_ENTROPY or self.bits_lost >= UNIFORM_BITS

    @property
    def is_late(self) -> bool:
        """Whether the run started to learn late, by the validations in its log. A run that never
        started to learn is not counted as late.
        """
        # Without validations lateness is unknown. The run then counts as in time.
        if not self.bits_by_update or self.has_started is False:
            return False
        for update, bits in sorted(self.bits_by_update.items()):
            # The first validation below the limit decides, also if the bits rise again later.
            if bits < STARTED_BITS:
                return update > LATE_SHARE * self.updates
        return True

    def bits_at(self, share: float) -> float | None:
        """Return the bits per subword at the last validation before a share of the updates is done.
        Return None if the last validation was long before the share was done.
        """
        # A validation before `first` would show the effect at a different time.
        last = round(share * self.updates)
        first = last - VALIDATION_SHARE * self.updates
        updates = [update for update in self.bits_by_update if first < update <= last]
        return self.bits_by_update[max(updates)] if updates else None

    @property
    def mean_of_last(self) -> float | None:
        """The mean bits per subword of the last three validations, or None if there are fewer than
        three, or if the last one was long before the end of the training.
        """
        # A cut log, and a run that diverged at its end, lack the last validations.
        last = sorted(self.bits_by_update)[-NUM_LAST_VALIDATIONS:]
        if len(last) < NUM_LAST_VALIDATIONS or self.bits_at(1.0) is None:
            return None
        return statistics.mean(self.bits_by_update[update] for update in last)

    @property
    def slope_at_end(self) -> float | None:
        """The least-squares slope of the validation curve over the last 40 % of the updates, in
        bits per whole run. None if fewer than three validations are in the last 40 % of the
        updates.
        """
        late_shares, late_bits = [], []
        for update, bits in self.bits_by_update.items():
            if update >= SLOPE_FROM * self.updates:
                # The times are shares of the run, so that the slopes of big (16,000 updates) and of
                # base (8,000) can be compared.
                late_shares.append(update / self.updates)
                late_bits.append(bits)
        if len(late_bits) < NUM_LAST_VALIDATIONS:
            return None
        return statistics.linear_regression(late_shares, late_bits).slope


class Spread(msgspec.Struct, frozen=True, kw_only=True):
    """The pooled standard deviations (sds) of one test set and metric, each None if no system has
    two seeds.

    The sd `everything` is pooled over all runs. `started` leaves out the runs that failed to start.
    `punctual` leaves out every system with a seed that failed to start or started late. `unstarted`
    lists the systems with a seed that failed to start, `late` the systems with a seed that started
    late. `largest` has the three systems with the largest sds, computed over all runs.
    """

    started: PooledSd | None
    everything: PooledSd | None
    punctual: PooledSd | None
    unstarted: tuple[str, ...]
    late: tuple[str, ...]
    largest: tuple[tuple[str, float], ...]


class Contrast(msgspec.Struct, frozen=True, kw_only=True):
    """A row of Table 3 compared with its control. `difference`, in the metric's unit, is computed
    from the runs that started to learn.

    `estimate` is None if there is no sd. `p_value` is None if the row gets no call (answer).
    `corrected` is the call after Holm's correction, None for a contrast that is not in the family
    of the correction. `with_all` is the call over all runs, None if all runs of all systems started
    to learn. `effects` are the differences in bits after the SHARES of the updates. An effect is
    None for BLEU, and if a seed has no validation shortly before this share.
    `effect_at_control_updates` is None unless the row has more updates than its control.
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
        """Half of the width of the 95 % interval of the difference."""
        return None if self.estimate is None else self.estimate.reach

    @property
    def interval(self) -> tuple[float, float] | None:
        """The 95 % interval of the difference between row and control."""
        if self.reach is None:
            return None
        return self.difference - self.reach, self.difference + self.reach


def measure_spread(runs_by_system: Mapping[str, Sequence[SeedRun]]) -> Spread:
    """Return the pooled standard deviations over seeds for one test set and metric."""
    everything, started, punctual = {}, {}, {}
    unstarted, late, sds = [], [], []
    for system, runs in runs_by_system.items():
        everything[system] = _values(runs)
        # A run that did not start is far from the other seeds of its system. It would widen the
        # interval of every contrast.
        started[system] = _values(started_runs(runs))
        if len(started[system]) < len(runs):
            unstarted.append(system)
        if any(run.is_late for run in runs):
            late.append(system)
        if system not in (*unstarted, *late):
            punctual[system] = everything[system]
        # An sd needs two seeds. `pool_sd` itself leaves out systems with a single seed.
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


def started_runs(runs: Sequence[SeedRun]) -> list[SeedRun]:
    """Return the given runs, without the runs that are known not to have started to learn."""
    return [run for run in runs if run.has_started is not False]


def known_values(
    runs: Iterable[SeedRun], value_of: Callable[[SeedRun], float | None]
) -> list[float]:
    """Return the value that `value_of` computes for each run of a system. The list is empty if the
    value of any run is None.
    """
    # If a value is missing, a mean over some of the seeds would be compared with a mean over all
    # seeds.
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
    """Return the contrast between the runs of a row and the runs of its control, one or more each.

    The values of the runs are bits a subword, or BLEU. `spread` comes from `measure_spread` over
    all systems of the test set and metric. Without a `relation` (the paper's conclusion) the
    contrast gets no call. If no seed of a system started to learn, the difference is taken over all
    its seeds.
    """
    # MARGIN_BLEU is also the margin of the verdicts on printed numbers.
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
    # The sd over all runs differs from the other sd as soon as any system has an unstarted run. So
    # every contrast then has a second call, not only the rows with such a run.
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
    # Logs have validations in bits only, so BLEU has no effects at earlier updates.
    if not is_in_bits:
        return contrast
    # A row that trained for longer than its control, such as big, is also compared at equal
    # updates.
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
    """Return the difference in bits after these shares of the updates, or None if a seed has no
    validation shortly before them.
    """
    values = known_values(runs, lambda run: run.bits_at(share))
    control_values = known_values(control_runs, lambda run: run.bits_at(control_share))
    if not values or not control_values:
        return None
    return _difference(values, control_values)


def reach_of(pooled: PooledSd, num_seeds: int, num_control_seeds: int) -> float:
    """Return half of the 95 % interval for these numbers of seeds. The length of the interval does
    not depend on the difference, so it can be computed before any difference is looked at.
    """
    return estimate_difference(0.0, pooled, num_seeds, num_control_seeds).reach


def _estimate(
    runs: Sequence[SeedRun], control_runs: Sequence[SeedRun], pooled: PooledSd | None
) -> Estimate | None:
    """Return the estimate of the difference, or None if there is no sd, or if the control has too
    few seeds.
    """
    if pooled is None or len(control_runs) < MIN_CONTROL_SEEDS:
        return None
    difference = _difference(_values(runs), _values(control_runs))
    return estimate_difference(difference, pooled, len(runs), len(control_runs))


def _call(
    relation: Relation | None, estimate: Estimate | None, margin: float
) -> tuple[Call, float | None]:
    """Return the call of a contrast (its answer by decision 0009), and its p-value."""
    if estimate is None:
        return Call.FEW_CONTROLS, None
    # Without a relation the paper concludes nothing from the row, so there is no call.
    if relation is None:
        return Call.NOT_ASKED, None
    distance = abs(estimate.difference)
    if relation == "equivalent":
        error, degrees_of_freedom = estimate.standard_error, estimate.degrees_of_freedom
        # The p-value is doubled, because `is_reversed` uses the reach of a two-sided interval: a
        # difference may leave the margin on either side.
        p_outside = min(1.0, 2 * tail(distance - margin, error, degrees_of_freedom))
        p_value = estimate.p_within(margin) if distance <= margin else p_outside
        # This is the same as p_within(margin) < ALPHA: the 90 % interval is inside the margin.
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
    """Return contrasts with their calls after one Holm correction over all of them. Contrasts
    without a call (answer) do not enter the correction.
    """
    # Each tested contrast makes the correction stricter, so contrasts without a call must not
    # count.
    p_values = [contrast.p_value for contrast in contrasts if contrast.p_value is not None]
    adjusted = iter(holm_adjusted(p_values))
    corrected = []
    for contrast in contrasts:
        if contrast.p_value is None:
            corrected.append(contrast)
            continue
        # The correction can take a decided call back. It never changes the direction of a call.
        call = contrast.call if next(adjusted) < ALPHA else Call.TOO_CLOSE
        corrected.append(msgspec.structs.replace(contrast, corrected=call))
    return corrected
