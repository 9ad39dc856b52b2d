"""Compares bigger models with base at 16,000 updates: whether "bigger is better" outlives 8,000
(decision 0012).

Equation (3) has no horizon, so a longer run contains the shorter run. A system that `begins_from`
another continues its runs from their last update; the curve joins both runs. Big needs no such
system, because its own file has 16,000 updates.
"""

import statistics
from collections.abc import Mapping, Sequence

import msgspec

from aiayn.printed import COMPARED_AVERAGE, REFERENCE_SYSTEM
from aiayn.scoring.scores import BITS_METRIC
from aiayn.scoring.verdict import PooledSd, pool_sd
from analysis.conclusions.answers import Estimate, estimate_difference
from paper_tables.frame import Frame, Number, Run

HORIZON_UPDATES = 16_000
SHOWN_UPDATES = (8_000, 10_400, 12_800, 15_200, 16_000)  # at which both base and big are validated
CONFIRMATORY_SEEDS = {
    "base": (11, 12, 13),
    "table3_c_dmodel1024": (7, 8),
    "big": (6,),
}  # decision 0012
READING_SEEDS = {"big": (5,)}  # seen before decision 0012 was written
PREDICTED_BITS = {
    "table3_c_dmodel1024": -0.11,
    "big": -0.12,
}  # row minus base at 16,000 updates, decision 0012
CONFIRMATORY, READING = "confirmatory", "reading: seen before"


class LongRun(msgspec.Struct, frozen=True, kw_only=True):
    """A run to the horizon: bits on dev of its last checkpoint and by update, and the number that
    it belongs to.
    """

    seed: int
    bits: float
    bits_by_update: Mapping[int, float]
    number: Number | None = None


class HorizonContrast(msgspec.Struct, frozen=True, kw_only=True):
    """A row against base at the horizon; `estimate` is None without an sd."""

    system: str
    kind: str
    seeds: tuple[int, ...]
    control_seeds: tuple[int, ...]
    difference: float
    estimate: Estimate | None
    best_difference: float
    difference_by_update: Mapping[int, float]
    numbers: tuple[Number, ...] = ()


def long_runs(frame: Frame) -> dict[str, list[LongRun]]:
    """Return the finished runs to the horizon by system, in order of seed."""
    corpus = frame.corpus_by_pair["en-de"]
    run_by_key = {
        (run.system, run.seed): run
        for run in (*frame.runs, *frame.later_runs)
        if run.corpus == corpus
    }
    found: dict[str, dict[int, LongRun]] = {}
    for (key, metric), number in (*frame.numbers.items(), *frame.later_numbers.items()):
        is_dev = (key.corpus, key.average, key.role) == (corpus, COMPARED_AVERAGE, "dev")
        if not is_dev or metric != BITS_METRIC:
            continue
        spec = frame.system_by_name.get(key.system)
        system = spec.begins_from if spec and spec.begins_from else key.system
        for run, value in number.values:
            if (
                run.seed is not None
                and run.train is not None
                and run.train.updates == HORIZON_UPDATES
            ):
                curve = {**_curve_of(run_by_key.get((system, run.seed))), **run.bits_by_update}
                found.setdefault(system, {})[run.seed] = LongRun(
                    seed=run.seed, bits=value, bits_by_update=curve, number=number
                )
    return {
        system: [by_seed[seed] for seed in sorted(by_seed)] for system, by_seed in found.items()
    }


def _curve_of(run: Run | None) -> Mapping[int, float]:
    return {} if run is None else run.bits_by_update


def compare_at_horizon(runs_by_system: Mapping[str, Sequence[LongRun]]) -> list[HorizonContrast]:
    """Return the contrasts of decision 0012 that have a run on both sides, then those of seeds that
    were seen before.

    A side with one seed takes the sd of the other systems. If no system has two seeds, no
    interval is given.
    """
    confirmatory = {
        system: [run for run in runs_by_system.get(system, []) if run.seed in seeds]
        for system, seeds in CONFIRMATORY_SEEDS.items()
    }
    pooled = pool_sd({system: [run.bits for run in runs] for system, runs in confirmatory.items()})
    controls = confirmatory[REFERENCE_SYSTEM]
    contrasts = []
    for system in PREDICTED_BITS:
        seen = [
            run
            for run in runs_by_system.get(system, [])
            if run.seed in READING_SEEDS.get(system, ())
        ]
        for kind, runs in ((CONFIRMATORY, confirmatory[system]), (READING, seen)):
            if runs and controls:
                contrasts.append(_contrast(system, kind, runs, controls, pooled))
    return contrasts


def _contrast(
    system: str,
    kind: str,
    runs: Sequence[LongRun],
    controls: Sequence[LongRun],
    pooled: PooledSd | None,
) -> HorizonContrast:
    difference = _difference([run.bits for run in runs], [run.bits for run in controls])
    sides = (*runs, *controls)
    shown = [
        update for update in SHOWN_UPDATES if all(update in run.bits_by_update for run in sides)
    ]
    best = [
        [min(run.bits_by_update.values()) for run in side if run.bits_by_update]
        for side in (runs, controls)
    ]
    return HorizonContrast(
        system=system,
        kind=kind,
        seeds=tuple(run.seed for run in runs),
        control_seeds=tuple(run.seed for run in controls),
        difference=difference,
        estimate=None
        if pooled is None
        else estimate_difference(difference, pooled, len(runs), len(controls)),
        best_difference=_difference(*best) if all(best) else difference,
        difference_by_update={
            update: _difference(
                [run.bits_by_update[update] for run in runs],
                [run.bits_by_update[update] for run in controls],
            )
            for update in shown
        },
        numbers=tuple(run.number for run in (runs[0], controls[0]) if run.number is not None),
    )


def _difference(values: Sequence[float], control_values: Sequence[float]) -> float:
    return statistics.mean(values) - statistics.mean(control_values)
