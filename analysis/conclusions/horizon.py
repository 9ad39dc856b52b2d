"""Compares bigger models with base at 16,000 updates: whether "bigger is better" outlives 8,000.

Decision 0012 fixed the seeds, the quantity and the predictions.

Equation (3) has no horizon, so a longer run contains the shorter run. A system that `begins_from`
another continues its runs from their last update; the curve joins both runs. Big needs no such
system, because its own file has 16,000 updates.
"""

import statistics
from collections.abc import Callable, Mapping, Sequence

import msgspec

from aiayn.printed import COMPARED_AVERAGE, REFERENCE_SYSTEM
from aiayn.scoring.scores import BITS_METRIC
from aiayn.scoring.verdict import PooledSd, pool_sd
from analysis.conclusions.answers import Estimate, estimate_difference
from paper_tables.frame import Frame, Number

HORIZON_UPDATES = 16_000
SHOWN_UPDATES = (8_000, 10_400, 12_800, 15_200, 16_000)  # at which both base and big are validated
CONFIRMATORY_SEEDS = {"base": (11, 12, 13), "table3_c_dmodel1024": (7, 8), "big": (6,)}
READING_SEEDS = {"big": (5,)}  # seen before decision 0012 was written
PREDICTED_BITS = {"table3_c_dmodel1024": -0.11, "big": -0.12}  # row minus base at 16,000 updates
CONFIRMATORY, READING = "confirmatory", "reading: seen before"


class LongRun(msgspec.Struct, frozen=True, kw_only=True):
    """A run to the horizon: bits on dev by its last checkpoint and by update.

    `number` is the number that the run belongs to.
    """

    seed: int
    bits: float
    bits_by_update: Mapping[int, float]
    number: Number


class HorizonContrast(msgspec.Struct, frozen=True, kw_only=True):
    """The runs of a row and of base to the horizon; `pooled` is None without an sd."""

    system: str
    kind: str
    runs: Sequence[LongRun]
    controls: Sequence[LongRun]
    pooled: PooledSd | None

    def minus(self, value_of: Callable[[LongRun], float]) -> float:
        """Return the mean of a quantity over the row's runs, minus the mean over base's."""
        control_mean = statistics.mean(map(value_of, self.controls))
        return statistics.mean(map(value_of, self.runs)) - control_mean

    @property
    def difference(self) -> float:
        """The difference in bits by the last checkpoints."""
        return self.minus(lambda run: run.bits)

    @property
    def best_difference(self) -> float:
        """The difference of each run's best validation; of the last bits if a run has no curve."""
        if not all(run.bits_by_update for run in (*self.runs, *self.controls)):
            return self.difference
        return self.minus(lambda run: min(run.bits_by_update.values()))

    def difference_after(self, update: int) -> float | None:
        """Return the difference after an update; None unless every run was validated there."""
        if not all(update in run.bits_by_update for run in (*self.runs, *self.controls)):
            return None
        return self.minus(lambda run: run.bits_by_update[update])

    @property
    def estimate(self) -> Estimate | None:
        """The difference with its standard error; None without an sd."""
        if self.pooled is None:
            return None
        numbers = len(self.runs), len(self.controls)
        return estimate_difference(self.difference, self.pooled, *numbers)


def long_runs(frame: Frame) -> dict[str, list[LongRun]]:
    """Return the finished runs to the horizon by system, in order of seed."""
    corpus = frame.corpus_by_pair["en-de"]
    curves: dict[tuple[str, int | None], Mapping[int, float]] = {}
    for run in (*frame.runs, *frame.later_runs):
        if run.corpus == corpus:
            curves[run.system, run.seed] = run.bits_by_update
    found: dict[str, dict[int, LongRun]] = {}
    for (key, metric), number in (*frame.numbers.items(), *frame.later_numbers.items()):
        is_dev = (key.corpus, key.average, key.role) == (corpus, COMPARED_AVERAGE, "dev")
        if not is_dev or metric != BITS_METRIC:
            continue
        spec = frame.system_by_name.get(key.system)
        system = spec.begins_from if spec and spec.begins_from else key.system
        for run, value in number.values:
            updates = 0 if run.train is None else run.train.updates
            if run.seed is None or updates != HORIZON_UPDATES:
                continue
            # The curve begins with the run that was continued.
            curve = {**curves.get((system, run.seed), {}), **run.bits_by_update}
            found.setdefault(system, {})[run.seed] = LongRun(
                seed=run.seed, bits=value, bits_by_update=curve, number=number
            )
    runs_by_system = {}
    for system, run_by_seed in found.items():
        runs_by_system[system] = sorted(run_by_seed.values(), key=lambda run: run.seed)
    return runs_by_system


def compare_at_horizon(runs_by_system: Mapping[str, Sequence[LongRun]]) -> list[HorizonContrast]:
    """Return the contrasts of decision 0012 that have a run on both sides.

    For each system, the contrast of seeds that had been seen before follows. A side with one seed
    takes the sd of the other systems. If no system has two seeds, no interval is given.
    """
    confirmatory, values = {}, {}
    for system, seeds in CONFIRMATORY_SEEDS.items():
        confirmatory[system] = _with_seeds(runs_by_system, system, seeds)
        values[system] = [run.bits for run in confirmatory[system]]
    pooled = pool_sd(values)
    controls = confirmatory[REFERENCE_SYSTEM]
    contrasts = []
    for system in PREDICTED_BITS:
        seen = _with_seeds(runs_by_system, system, READING_SEEDS.get(system, ()))
        for kind, runs in ((CONFIRMATORY, confirmatory[system]), (READING, seen)):
            if runs and controls:
                contrast = HorizonContrast(
                    system=system, kind=kind, runs=runs, controls=controls, pooled=pooled
                )
                contrasts.append(contrast)
    return contrasts


def _with_seeds(
    runs_by_system: Mapping[str, Sequence[LongRun]], system: str, seeds: Sequence[int]
) -> list[LongRun]:
    return [run for run in runs_by_system.get(system, []) if run.seed in seeds]
