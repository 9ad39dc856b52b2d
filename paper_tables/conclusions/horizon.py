"""Lays out what longer trainings say about "bigger is better": table `horizon`, at 16,000 updates (decision 0012).

Equation (3) has no horizon, so a longer run contains the shorter run. A system that `begins_from`
another continues its runs from their last update; the curve joins both runs. Big needs no such
system, because its own file has 16,000 updates.
"""

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import replace

import msgspec

from aiayn.printed import COMPARED_AVERAGE, REFERENCE_SYSTEM
from analysis.conclusions.answers import Estimate, estimate_difference
from analysis.scoring.scores import BITS_METRIC
from analysis.scoring.verdict import PooledSd, pool_sd
from paper_tables.frame import Frame, Number, Run
from paper_tables.layout import (
    BITS_DECIMALS,
    Cell,
    Field,
    Note,
    Table,
    blank_cell,
    columns_of,
    label_field,
    our_field,
    printed_field,
    rows_of,
    text_cell,
)
from paper_tables.tables.ours import complete, difference_provenance

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
NOTES = (
    "Each line is a row minus base in bits a subword on dev, after equal numbers of updates. The "
    "confirmatory seeds, the quantity and the predictions were fixed in decision 0012 before any of "
    "these runs was started. The sd is pooled over the confirmatory systems with two seeds or more.",
    "Best validation: each run at the validation where it is best, as a larger model may over-fit.",
    "Bigger is better outlives the horizon if the 95 % interval at 16,000 updates excludes 0.",
)


class LongRun(msgspec.Struct, frozen=True, kw_only=True):
    """A run to the horizon: bits on dev of its last checkpoint and by update, and the number that it belongs to."""

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
    run_by_key = {(run.system, run.seed): run for run in (*frame.runs, *frame.later_runs) if run.corpus == corpus}
    found: dict[str, dict[int, LongRun]] = {}
    for (key, metric), number in (*frame.numbers.items(), *frame.later_numbers.items()):
        is_dev = (key.corpus, key.average, key.role) == (corpus, COMPARED_AVERAGE, "dev")
        if not is_dev or metric != BITS_METRIC:
            continue
        spec = frame.system_by_name.get(key.system)
        system = spec.begins_from if spec and spec.begins_from else key.system
        for run, value in number.values:
            if run.seed is not None and run.train is not None and run.train.updates == HORIZON_UPDATES:
                curve = {**_curve_of(run_by_key.get((system, run.seed))), **run.bits_by_update}
                found.setdefault(system, {})[run.seed] = LongRun(
                    seed=run.seed, bits=value, bits_by_update=curve, number=number
                )
    return {system: [by_seed[seed] for seed in sorted(by_seed)] for system, by_seed in found.items()}


def _curve_of(run: Run | None) -> Mapping[int, float]:
    return {} if run is None else run.bits_by_update


def compare_at_horizon(runs_by_system: Mapping[str, Sequence[LongRun]]) -> list[HorizonContrast]:
    """Return the contrasts of decision 0012 that have a run on both sides, then those of seeds that were seen before.

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
        seen = [run for run in runs_by_system.get(system, []) if run.seed in READING_SEEDS.get(system, ())]
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
    shown = [update for update in SHOWN_UPDATES if all(update in run.bits_by_update for run in sides)]
    best = [[min(run.bits_by_update.values()) for run in side if run.bits_by_update] for side in (runs, controls)]
    return HorizonContrast(
        system=system,
        kind=kind,
        seeds=tuple(run.seed for run in runs),
        control_seeds=tuple(run.seed for run in controls),
        difference=difference,
        estimate=None if pooled is None else estimate_difference(difference, pooled, len(runs), len(controls)),
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


def lay_out_horizon(frame: Frame) -> Table | None:
    """Return a row for each contrast at 16,000 updates; None as long as base has no such run."""
    runs = long_runs(frame)
    contrasts = compare_at_horizon(runs)
    if not contrasts:
        return None
    updates = sorted({update for contrast in contrasts for update in contrast.difference_by_update})
    fields: list[Field[HorizonContrast]] = [
        label_field("row", "row minus base", lambda contrast: contrast.system),
        label_field("kind", "kind", lambda contrast: contrast.kind),
        label_field("seeds", "seeds of row; of base", _seeds_words),
        printed_field("predicted", "predicted", lambda contrast: f"{PREDICTED_BITS[contrast.system]:+.2f}"),
        our_field("ours", f"at {HORIZON_UPDATES:,} updates", _estimate_cell),
        our_field("outlives", "excludes 0", _outlives_cell),
        our_field("best", "best validation", lambda contrast: _bits_cell(contrast.best_difference)),
    ]
    fields += [_update_field(update) for update in updates]
    table = Table(
        name="horizon",
        title="Longer trainings",
        caption=f"Whether bigger models stay better than base when all train to {HORIZON_UPDATES:,} updates.",
        columns=columns_of(fields),
        rows=rows_of(fields, contrasts, "ours"),
        notes=(
            *(Note("", text) for text in NOTES),
            *(Note("", text) for text in _missing_words(runs)),
        ),
    )
    return complete(frame, table, has_states=False)


def _seeds_words(contrast: HorizonContrast) -> str:
    return "; ".join(", ".join(map(str, seeds)) for seeds in (contrast.seeds, contrast.control_seeds))


def _bits_cell(value: float) -> Cell:
    return text_cell(f"{value:+.{BITS_DECIMALS}f}", "ours")


def _estimate_cell(contrast: HorizonContrast) -> Cell:
    if contrast.estimate is None:
        return replace(_bits_cell(contrast.difference), shows=contrast.numbers)
    ends = (
        contrast.difference - contrast.estimate.reach,
        contrast.difference + contrast.estimate.reach,
    )
    interval = " to ".join(f"{end:+.{BITS_DECIMALS}f}" for end in ends)
    text = f"{contrast.difference:+.{BITS_DECIMALS}f} ({interval})"
    marks = contrast.numbers[0].marks if contrast.numbers else ()
    provenance = difference_provenance(contrast.numbers[0], contrast.numbers[1]) if len(contrast.numbers) > 1 else None
    return replace(text_cell(text, "ours", *marks), provenance=provenance, shows=contrast.numbers)


def _outlives_cell(contrast: HorizonContrast) -> Cell:
    if contrast.estimate is None:
        return text_cell("no interval: no system has two seeds", "state")
    return text_cell("no" if contrast.estimate.includes(0.0) else "yes", "ours")


def _update_field(update: int) -> Field[HorizonContrast]:
    def cell(contrast: HorizonContrast) -> Cell:
        value = contrast.difference_by_update.get(update)
        return blank_cell() if value is None else _bits_cell(value)

    return our_field(f"at_{update}", f"after {update:,}", cell)


def _missing_words(runs_by_system: Mapping[str, Sequence[LongRun]]) -> list[str]:
    """Return a sentence that names the seeds of decision 0012 that do not reach the horizon; none if all do."""
    missing = []
    for system, seeds in CONFIRMATORY_SEEDS.items():
        finished = {run.seed for run in runs_by_system.get(system, [])}
        missing += [f"{system} seed {seed}" for seed in seeds if seed not in finished]
    return [f"No run to {HORIZON_UPDATES:,} updates yet: {', '.join(missing)}."] if missing else []
