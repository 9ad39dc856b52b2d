"""Our own study of Multi30k: decision 0012's readings, longer trainings, other learning rates, and
the printed differences of Table 3 next to public seed noise.

The script reads the pack next to it, the shipped probes and the public seeds. It writes five
files: readings.csv, horizon.csv, rates.csv, one_run.csv and seed_noise.csv. README.md describes
them. The script needs the wing `conclusions`. From the root of the checkout:

    python -m paper_tables.measured.study.study_multi30k FOLDER
"""

import math
import operator
import statistics
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from typing import NamedTuple

import msgspec
from scipy import stats

from aiayn.paths import CellKey
from aiayn.printed import (
    COMPARED_AVERAGE,
    METRIC_BY_PAIR,
    REFERENCE_SYSTEM,
    printed_number,
    read_table,
)
from aiayn.runs.log import read_training_bits
from aiayn.scoring.scores import BITS_METRIC
from aiayn.scoring.verdict import ALPHA, PooledSd, holm_adjusted, pool_sd
from analysis.conclusions.answers import Estimate, estimate_difference, estimate_welch
from analysis.conclusions.contrasts import (
    SHARES,
    SeedRun,
    known_values,
    mean_of_last_validations,
    started_runs,
)
from analysis.conclusions.published import read_conclusions
from analysis.conclusions.rates import PRINTED_RATE, RateProbes, read_rate_probes
from analysis.conclusions.runs import runs_by_system, seed_runs
from analysis.conclusions.scale_contrasts import PrintedContrast, draw_contrasts
from paper_tables.frame import Frame, Number, Numbers, Run
from paper_tables.layout import (
    Cell,
    Field,
    Item,
    Table,
    columns_of,
    compact,
    label_field,
    our_field,
    printed_field,
    rows_of,
)
from paper_tables.make_frame import make_frame
from paper_tables.public_seeds import (
    ALGOPERF,
    MLPERF,
    PublicSeed,
    Quantity,
    SeedNoise,
    published_means,
    seed_noise,
    values_of,
)
from paper_tables.render.render import render_csv
from paper_tables.rounding import BITS, BLEU, with_reach
from paper_tables.scale_results import gather_from_records
from paper_tables.tables.ours import complete

MEASURED = Path(__file__).resolve().parents[1]
SCALE = "multi30k"
BLEU_METRIC = METRIC_BY_PAIR["en-de"]
MIN_CONTROL_SEEDS = 2  # as decision 0009 has it

# Readings (decision 0012): the question of difference, asked again with one change.

ValuesBySystem = Mapping[str, Mapping[int, float]]  # by system, then by seed
STAR = "*"  # marks an analysis that changes the sign of the effect


class Direction(StrEnum):
    """What an interval says about a row: better or worse than its control, or neither."""

    BETTER = "better"
    WORSE = "worse"
    NEITHER = "no difference"


class StudyReading(NamedTuple):
    """One reading of all contrasts: an estimate by row, each against base.

    `kind` says what is changed. `holm_by_row` has the p-values of a reading with Holm's correction.
    `place` is the test set and the metric of a reading that takes other numbers than bits on dev.
    """

    kind: str
    name: str
    estimate_by_row: Mapping[str, Estimate]
    holm_by_row: Mapping[str, float] | None = None
    place: tuple[str, str] | None = None

    @property
    def is_in_bits(self) -> bool:
        """Whether the quantity is in bits, so that less is better. The others are BLEU."""
        return self.place is None or self.place[1] == BITS_METRIC

    def direction(self, row: str) -> Direction | None:
        """Return what the reading says about a row, or None without an estimate."""
        estimate = self.estimate_by_row.get(row)
        if estimate is None:
            return None
        is_rejected = self.holm_by_row is None or self.holm_by_row[row] < ALPHA
        return (
            direction_of(estimate, is_in_bits=self.is_in_bits) if is_rejected else Direction.NEITHER
        )


def direction_of(estimate: Estimate, *, is_in_bits: bool) -> Direction:
    """Return better or worse if the 95 % interval excludes 0, else no difference."""
    if estimate.includes(0.0):
        return Direction.NEITHER
    return Direction.BETTER if (estimate.difference < 0) == is_in_bits else Direction.WORSE


def read_pooled(
    kind: str,
    name: str,
    values: ValuesBySystem,
    rows: Iterable[str],
    place: tuple[str, str] | None = None,
) -> StudyReading:
    """Return the reading of a quantity by decision 0009's sd, pooled over all systems."""
    pooled = _pooled(values)
    return StudyReading(
        kind, name, _estimates(values, rows, pooled, estimate_difference), place=place
    )


def read_welch(values: ValuesBySystem, rows: Iterable[str]) -> StudyReading:
    """Return the reading by two variances: base's own, and one pooled over all other systems."""
    other_values = dict(values)
    reference_sd = _pooled({REFERENCE_SYSTEM: other_values.pop(REFERENCE_SYSTEM, {})})

    def estimate(difference: float, pooled: PooledSd, *numbers: int) -> Estimate:
        assert reference_sd is not None  # base with two seeds has an sd
        return estimate_welch(difference, numbers, pooled, reference_sd)

    return StudyReading(
        "variance", "Welch", _estimates(values, rows, _pooled(other_values), estimate)
    )


def _pooled(values: ValuesBySystem) -> PooledSd | None:
    lists = {system: list(by_seed.values()) for system, by_seed in values.items()}
    return pool_sd(lists, with_bartlett=False)


def _estimates(
    values: ValuesBySystem,
    rows: Iterable[str],
    pooled: PooledSd | None,
    estimate: Callable[[float, PooledSd, int, int], Estimate],
) -> dict[str, Estimate]:
    """Return the estimate of each row that has values. The result is empty without an sd, or with
    one control.
    """
    controls = values.get(REFERENCE_SYSTEM, {})
    estimates: dict[str, Estimate] = {}
    if pooled is None or len(controls) < MIN_CONTROL_SEEDS:
        return estimates
    for row in rows:
        if values.get(row):
            difference = statistics.mean(values[row].values()) - statistics.mean(controls.values())
            estimates[row] = estimate(difference, pooled, len(values[row]), len(controls))
    return estimates


def correct_by_holm(reading: StudyReading, name: str) -> StudyReading:
    """Return a reading with Holm's correction over all of its contrasts."""
    estimates = reading.estimate_by_row
    p_values = holm_adjusted([estimate.p_difference for estimate in estimates.values()])
    return reading._replace(name=name, holm_by_row=dict(zip(estimates, p_values, strict=True)))


def leave_seeds_out(values: ValuesBySystem, rows: Sequence[str]) -> list[StudyReading]:
    """Return a reading for each seed of base, without that seed."""
    readings = []
    for left_out in values.get(REFERENCE_SYSTEM, {}):
        kept_seeds = dict(values[REFERENCE_SYSTEM])
        del kept_seeds[left_out]
        name = f"without {REFERENCE_SYSTEM} {left_out}"
        readings.append(
            read_pooled("seeds of base", name, {**values, REFERENCE_SYSTEM: kept_seeds}, rows)
        )
    return readings


def make_readings(frame: Frame, rows: Sequence[str]) -> list[StudyReading]:
    """Return all readings of some systems, each against base, on the En-De corpus.

    As in decision 0009, runs that are known not to have started are left out.
    """
    runs = _started_by_system(frame, frame.numbers)
    bits = _values(runs, lambda run: run.value)
    welch = read_welch(bits, rows)
    readings = [
        correct_by_holm(read_pooled("variance", "", bits, rows), "Holm"),
        welch,
        correct_by_holm(welch, "Welch with Holm"),
        *leave_seeds_out(bits, rows),
    ]

    # The later seeds of decision 0012 join those of the tables.
    all_bits = {system: dict(by_seed) for system, by_seed in bits.items()}
    later_bits = _values(_started_by_system(frame, frame.later_numbers), lambda run: run.value)
    for system, by_seed in all_bits.items():
        by_seed.update(later_bits.get(system, {}))
    if all_bits != bits:
        name = "all seeds (added after a look)"
        readings.append(read_pooled("seeds of base", name, all_bits, rows))

    keys = _keys_by_testset(frame)
    dev, *further = keys
    for testset in further:
        values = _numbers_on(frame, keys[testset], BITS_METRIC, runs)
        testset_and_metric = (testset, BITS_METRIC)
        readings.append(
            read_pooled("another text", f"bits on {testset}", values, rows, testset_and_metric)
        )
    last = _values(runs, lambda run: run.mean_of_last)
    readings.append(read_pooled("another metric", "mean of the last three validations", last, rows))
    for testset in (dev, *further):
        values = _numbers_on(frame, keys[testset], BLEU_METRIC, runs)
        testset_and_metric = (testset, BLEU_METRIC)
        readings.append(
            read_pooled("another metric", f"BLEU on {testset}", values, rows, testset_and_metric)
        )
    for share in SHARES:
        values = _values(runs, operator.methodcaller("bits_at", share))
        name = f"{share * 100:.0f} % of the updates"
        readings.append(read_pooled("updates", name, values, rows))
    readings.append(_reading_at_horizon(frame, rows))
    return [reading for reading in readings if reading.estimate_by_row]


def _reading_at_horizon(frame: Frame, rows: Sequence[str]) -> StudyReading:
    """Return the reading at 16,000 updates, for the rows with such a run next to base's."""
    estimates: dict[str, Estimate] = {}
    for contrast in compare_at_horizon(long_runs(frame)):  # confirmatory seeds come first
        estimate = contrast.estimate(bits_of)
        if contrast.system in rows and estimate is not None:
            estimates.setdefault(contrast.system, estimate)
    return StudyReading("updates", f"{HORIZON_UPDATES:,} updates", estimates)


def _keys_by_testset(frame: Frame) -> dict[str, list[CellKey]]:
    """Return the last checkpoints' cells of the En-De corpus by test set, dev first."""
    corpus = frame.corpus_by_pair["en-de"]
    keys_by_testset: dict[str, list[CellKey]] = {}
    for role in ("dev", "further"):
        for key in frame.keys:
            if (key.corpus, key.average, key.role) == (corpus, COMPARED_AVERAGE, role):
                keys_by_testset.setdefault(key.testset, []).append(key)
    return keys_by_testset


def _started_by_system(frame: Frame, numbers: Numbers) -> dict[str, list[SeedRun]]:
    """Return the runs of every system with their bits per subword on dev. Runs that did not start
    to learn are left out.
    """
    corpus = frame.corpus_by_pair["en-de"]
    runs = {}
    for (key, metric), number in numbers.items():
        is_dev = (key.corpus, key.average, key.role) == (corpus, COMPARED_AVERAGE, "dev")
        if is_dev and metric == BITS_METRIC and number.values:
            runs[key.system] = started_runs(seed_runs(frame, number, numbers))
    return runs


def _values(
    runs_of_systems: Mapping[str, Sequence[SeedRun]], value_of: Callable[[SeedRun], float | None]
) -> dict[str, dict[int, float]]:
    """Return a quantity by system and seed, or empty if a seed of the system lacks a value."""
    values = {}
    for system, runs in runs_of_systems.items():
        seeds = [run.seed for run in runs]
        values[system] = dict(zip(seeds, known_values(runs, value_of), strict=False))
    return values


def _numbers_on(
    frame: Frame, keys: Sequence[CellKey], metric: str, runs: Mapping[str, Sequence[SeedRun]]
) -> ValuesBySystem:
    """Return a metric of some cells by system and seed, for the runs that started."""
    values: dict[str, dict[int, float]] = {}
    for key in keys:
        by_seed = frame.numbers[key, metric].value_by_seed
        values[key.system] = {}
        for run in runs.get(key.system, []):
            if run.seed in by_seed:
                values[key.system][run.seed] = by_seed[run.seed]
    return values


def read_training_batches(frame: Frame, rows: Sequence[str]) -> StudyReading:
    """Return the bits per subword on training batches, for rows that have base's dropout and label
    smoothing.

    These values are exploratory: they are neither tested nor counted.
    """
    corpus = frame.corpus_by_pair["en-de"]
    base = frame.system_by_name[REFERENCE_SYSTEM].training
    values: dict[str, dict[int, float]] = {}
    for (run_corpus, system), runs in frame.runs_by_system.items():
        spec = frame.system_by_name[system].training
        if run_corpus != corpus or (spec.p_drop, spec.eps_ls) != (base.p_drop, base.eps_ls):
            continue
        values[system] = {}
        for run in runs:
            bits = mean_of_last_fifth(run)
            if run.seed is not None and bits is not None:
                values[system][run.seed] = bits
    return read_pooled("another metric", "bits on training batches", values, rows)


def lay_out_readings(frame: Frame) -> Table:
    """Return a row for each reading and a column for each answered contrast."""
    answered = [contrast for contrast in draw_contrasts(frame).primary if contrast.answered]
    rows = [contrast.numbers[0].key.system for contrast in answered]
    readings = make_readings(frame, rows)
    on_training_batches = read_training_batches(frame, rows)

    def num_other(reading: StudyReading) -> str:
        if reading is on_training_batches:
            return "not counted"
        return str(sum(differs(reading, contrast) for contrast in answered))

    def contrast_field(contrast: PrintedContrast) -> Field[StudyReading]:
        system = contrast.numbers[0].key.system

        def cell(reading: StudyReading) -> Cell | None:
            estimate = reading.estimate_by_row.get(system)
            if estimate is None:
                return None
            decimals = BITS if reading.is_in_bits else BLEU
            text = _with_reach(estimate.difference, estimate, decimals)
            if reading is not on_training_batches and differs(reading, contrast):
                text += f" {STAR}"
            shows = _numbers_of(frame, contrast, reading)
            return Cell(text, "ours", contrast.numbers[0].marks, numbers=shows)

        return our_field(system, contrast.statement, cell)

    fields: list[Field[StudyReading]] = [
        label_field("kind", "", lambda reading: reading.kind),
        label_field("reading", "", lambda reading: reading.name),
        label_field("num_other", "", num_other),
        *(contrast_field(contrast) for contrast in answered),
    ]
    lines = [*readings, on_training_batches]
    return _table(frame, "readings", fields, lines)


def differs(reading: StudyReading, contrast: PrintedContrast) -> bool:
    """Return whether an alternative analysis changes the sign of a contrast's estimated effect."""
    assert contrast.answered is not None
    own_direction = direction_of(contrast.answered.estimate, is_in_bits=True)
    return reading.direction(contrast.numbers[0].key.system) not in (None, own_direction)


def _numbers_of(
    frame: Frame, contrast: PrintedContrast, reading: StudyReading
) -> tuple[Number, ...]:
    """Return the numbers behind an alternative analysis: bits on dev, or the same runs on a
    different test set or in a different metric.
    """
    if reading.place is None:
        return contrast.numbers
    testset, metric = reading.place
    numbers = []
    for number in contrast.numbers:
        role = number.key.role if number.key.testset == testset else "further"
        key = msgspec.structs.replace(number.key, testset=testset, role=role)
        numbers.append(frame.numbers[key, metric])
    return tuple(numbers)


# Horizon (decision 0012): whether "bigger is better" outlives 8,000 updates. Equation (3) has no
# horizon, so a longer run contains the shorter run. A system that `begins_from` another continues
# its runs from their last update. Big's own file has 16,000 updates.

HORIZON_UPDATES = 16_000
SHOWN_UPDATES = (8_000, 10_400, 12_800, 15_200, 16_000)  # at which both base and big are validated
CONFIRMATORY_SEEDS = {"base": (11, 12, 13), "table3_c_dmodel1024": (7, 8), "big": (6,)}
SEEN_SEEDS = {"big": (5,)}  # before decision 0012 was written
PREDICTED_BITS = {"table3_c_dmodel1024": -0.11, "big": -0.12}  # row minus base at 16,000 updates
TRAINING_SHARE = 0.8  # bits on training batches are the mean over the last fifth of a run
CONFIRMATORY = "confirmatory"
SEEN_BEFORE = "reading: seen before"


class LongRun(msgspec.Struct, frozen=True, kw_only=True):
    """A training to HORIZON_UPDATES: its bits per subword on dev, by the last checkpoint and by
    update.

    `number` is the table entry that contains this run. `bleu_by_testset` has the BLEU of the last
    checkpoint. `training_bits` is None if the run has no log.
    """

    seed: int
    bits: float
    bits_by_update: Mapping[int, float]
    number: Number
    bleu_by_testset: Mapping[str, float] = {}
    training_bits: float | None = None

    @property
    def mean_of_last(self) -> float | None:
        """The mean of the last three validations, or None without a curve."""
        return mean_of_last_validations(self.bits_by_update)

    @property
    def best_bits(self) -> float | None:
        """The best validation, or None without a curve."""
        return min(self.bits_by_update.values(), default=None)


QuantityOfRun = Callable[[LongRun], float | None]


def bits_of(run: LongRun) -> float | None:
    """Return the bits by the last checkpoint: the quantity that decision 0012 fixed."""
    return run.bits


class HorizonContrast(msgspec.Struct, frozen=True, kw_only=True):
    """The runs of a row and of base to the horizon.

    `confirmatory` has the runs by system over which the sd of a quantity is pooled.
    """

    system: str
    kind: str
    runs: Sequence[LongRun]
    controls: Sequence[LongRun]
    confirmatory: Mapping[str, Sequence[LongRun]]

    def minus(self, value_of: QuantityOfRun) -> float | None:
        """Return the mean over the row's runs minus the mean over base's runs, or None if a value
        is missing.
        """
        row = _known(self.runs, value_of)
        control = _known(self.controls, value_of)
        return statistics.mean(row) - statistics.mean(control) if row and control else None

    def estimate(self, value_of: QuantityOfRun) -> Estimate | None:
        """Return the difference with its standard error, or None without a value or an sd."""
        difference = self.minus(value_of)
        values = {system: _known(runs, value_of) for system, runs in self.confirmatory.items()}
        pooled = pool_sd(values, with_bartlett=False)
        if difference is None or pooled is None:
            return None
        return estimate_difference(difference, pooled, len(self.runs), len(self.controls))


def _known(runs: Sequence[LongRun], value_of: QuantityOfRun) -> list[float]:
    """Return a quantity of each run. The list is empty if a value of one run is missing."""
    values = [value for run in runs if (value := value_of(run)) is not None]
    return values if len(values) == len(runs) else []


def long_runs(frame: Frame) -> dict[str, list[LongRun]]:
    """Return the finished runs to the horizon by system, in order of seed."""
    corpus = frame.corpus_by_pair["en-de"]
    curves: dict[tuple[str, int | None], Mapping[int, float]] = {}
    for run in (*frame.runs, *frame.later_runs):
        if run.corpus == corpus:
            curves[run.system, run.seed] = run.bits_by_update
    bleu = _bleu_by_testset(frame)
    run_by_seed_by_system: dict[str, dict[int, LongRun]] = {}
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
            run_by_seed_by_system.setdefault(system, {})[run.seed] = LongRun(
                seed=run.seed,
                bits=value,
                bits_by_update=curve,
                number=number,
                bleu_by_testset=bleu.get((key.system, run.seed), {}),
                training_bits=mean_of_last_fifth(run),
            )
    sorted_runs = {}
    for system, run_by_seed in run_by_seed_by_system.items():
        sorted_runs[system] = sorted(run_by_seed.values(), key=lambda run: run.seed)
    return sorted_runs


def _bleu_by_testset(frame: Frame) -> dict[tuple[str, int], dict[str, float]]:
    """Return the BLEU of the last checkpoint by system and seed, then by test set."""
    corpus = frame.corpus_by_pair["en-de"]
    bleu_by_run: dict[tuple[str, int], dict[str, float]] = {}
    for (key, name), number in (*frame.numbers.items(), *frame.later_numbers.items()):
        is_last = (key.corpus, key.average, name) == (corpus, COMPARED_AVERAGE, BLEU_METRIC)
        if is_last and key.role in ("dev", "further"):
            for seed, value in number.value_by_seed.items():
                bleu_by_run.setdefault((key.system, seed), {})[key.testset] = value
    return bleu_by_run


def mean_of_last_fifth(run: Run) -> float | None:
    """Return the mean of a finished run's training bits over its last fifth, or None without a
    log.
    """
    if run.train is None:
        return None
    first = TRAINING_SHARE * run.train.updates
    bits_by_update = read_training_bits(run.train.log_path)
    late = [bits for update, bits in bits_by_update.items() if update > first]
    return sum(late) / len(late) if late else None


def compare_at_horizon(runs_of_systems: Mapping[str, Sequence[LongRun]]) -> list[HorizonContrast]:
    """Return the contrasts of decision 0012 that have a run on both sides.

    For each system, the contrast of seeds that had been seen before follows. A side with one seed
    takes the sd of the other systems. If no system has two seeds, no interval is given.
    """
    confirmatory = {}
    for system, seeds in CONFIRMATORY_SEEDS.items():
        confirmatory[system] = _with_seeds(runs_of_systems, system, seeds)
    controls = confirmatory[REFERENCE_SYSTEM]
    contrasts = []
    for system in PREDICTED_BITS:
        seen = _with_seeds(runs_of_systems, system, SEEN_SEEDS.get(system, ()))
        for kind, runs in ((CONFIRMATORY, confirmatory[system]), (SEEN_BEFORE, seen)):
            if runs and controls:
                contrast = HorizonContrast(
                    system=system,
                    kind=kind,
                    runs=runs,
                    controls=controls,
                    confirmatory=confirmatory,
                )
                contrasts.append(contrast)
    return contrasts


def _with_seeds(
    runs_of_systems: Mapping[str, Sequence[LongRun]], system: str, seeds: Sequence[int]
) -> list[LongRun]:
    return [run for run in runs_of_systems.get(system, []) if run.seed in seeds]


def lay_out_horizon(frame: Frame) -> Table:
    """Return a row for each contrast at 16,000 updates, next to decision 0012's predictions."""
    contrasts = compare_at_horizon(long_runs(frame))
    fields: list[Field[HorizonContrast]] = [
        label_field("row", "", lambda contrast: contrast.system),
        label_field("kind", "", lambda contrast: contrast.kind),
        label_field("seeds", "", _seeds_words),
        printed_field("predicted", "", lambda line: f"{PREDICTED_BITS[line.system]:+.2f}"),
        our_field("ours", "", _horizon_cell),
        our_field("outlives", "", _outlives_cell),
        _quantity_field("last_three", lambda run: run.mean_of_last),
        _quantity_field("best", lambda run: run.best_bits),
    ]
    testsets: dict[str, None] = {}
    for contrast in contrasts:
        for run in contrast.runs:
            testsets.update(dict.fromkeys(run.bleu_by_testset))
    for testset in testsets:
        fields.append(_quantity_field(f"bleu_{testset}", _bleu_on(testset), BLEU))
    fields.append(our_field("training_bits", "", _training_cell))
    fields += [_update_field(update) for update in SHOWN_UPDATES]
    return _table(frame, "horizon", fields, contrasts)


def _seeds_words(contrast: HorizonContrast) -> str:
    sides = []
    for runs in (contrast.runs, contrast.controls):
        sides.append(", ".join(str(run.seed) for run in runs))
    return "; ".join(sides)


def _bleu_on(testset: str) -> QuantityOfRun:
    return lambda run: run.bleu_by_testset.get(testset)


def _quantity_field(
    name: str, value_of: QuantityOfRun, decimals: int = BITS
) -> Field[HorizonContrast]:
    """Return the column of a second quantity: the difference with half of its 95 % interval."""

    def cell(contrast: HorizonContrast) -> Cell | None:
        difference = contrast.minus(value_of)
        if difference is None:
            return None
        return Cell(_with_reach(difference, contrast.estimate(value_of), decimals), "ours")

    return our_field(name, "", cell)


def _training_cell(contrast: HorizonContrast) -> Cell | None:
    """Return the mean bits on training batches of row and control. The cell is blank if a run has
    no log.
    """
    means = []
    for runs in (contrast.runs, contrast.controls):
        bits = [run.training_bits for run in runs if run.training_bits is not None]
        if len(bits) < len(runs):
            return None
        means.append(f"{statistics.mean(bits):.2f}")
    return Cell("; ".join(means), "ours")


def _horizon_cell(contrast: HorizonContrast) -> Cell:
    """Return the difference in bits with its interval."""
    difference = contrast.minus(bits_of) or 0.0
    text = f"{difference:+.{BITS}f}"
    estimate = contrast.estimate(bits_of)
    if estimate is not None:
        low = difference - estimate.reach
        high = difference + estimate.reach
        text += f" ({low:+.{BITS}f} to {high:+.{BITS}f})"
    row = contrast.runs[0].number
    return Cell(text, "ours", row.marks, numbers=(row, contrast.controls[0].number))


def _outlives_cell(contrast: HorizonContrast) -> Cell:
    estimate = contrast.estimate(bits_of)
    if estimate is None:
        return Cell("no interval: no system has two seeds", "state")
    return Cell("no" if estimate.includes(0.0) else "yes", "ours")


def _update_field(update: int) -> Field[HorizonContrast]:
    def cell(contrast: HorizonContrast) -> Cell | None:
        value = contrast.minus(lambda run: run.bits_by_update.get(update))
        return None if value is None else Cell(f"{value:+.{BITS}f}", "ours")

    return our_field(f"at_{update}", "", cell)


# Rates: each probe is one training at half or twice the peak of equation (3). Probes and our own
# seeds are compared after the probes' number of updates.


class RateEffects(NamedTuple):
    """Bits of a row and of base, by the ratio of the peak rate to equation (3)'s. The ratio 1.0 has
    the tables' own seeds.
    """

    system: str
    row: Mapping[float, float]
    base: Mapping[float, float]

    @property
    def by_times_peak(self) -> dict[float, float]:
        """The row minus base, by times of the peak, where both were trained."""
        common = sorted(self.row.keys() & self.base.keys())
        return {times: self.row[times] - self.base[times] for times in common}

    @property
    def at_best(self) -> float:
        """The row minus base, each at the best of the rates that were tried."""
        return min(self.row.values()) - min(self.base.values())

    def holds_only_at_this_rate(self, final: float) -> bool:
        """Return whether the sign of the effect changes when row and base each train at the
        learning rate that was best for them.

        `final` is the effect at the end of the trainings, at the printed learning rate. It must
        have the sign that the shorter probes have at that rate.
        """
        at_printed_rate = self.by_times_peak[PRINTED_RATE]
        return at_printed_rate * self.at_best < 0 and final * self.at_best < 0


def effects_at_rates(
    system: str, runs_of_systems: Mapping[str, Sequence[SeedRun]], probes: RateProbes
) -> RateEffects | None:
    """Return the effects of a row, at each learning rate at which both the row and base were
    trained.

    An effect is None if row or base was not trained at the rate, or if a seed was not validated
    after the probes' number of updates.
    """
    sides = []
    for name in (system, REFERENCE_SYSTEM):
        runs = runs_of_systems.get(name, [])
        bits = known_values(runs, lambda run: run.bits_by_update.get(probes.updates))
        if name not in probes.bits_by_system or not bits:
            return None
        sides.append({**probes.bits_by_system[name], PRINTED_RATE: statistics.mean(bits)})
    return RateEffects(system, *sides)


def lay_out_rates(frame: Frame, probes: RateProbes) -> Table:
    """Return the difference of each probed row to base at each rate, in bits."""
    lines = []
    finals: dict[str, float] = {}
    for contrast in draw_contrasts(frame).primary:
        if contrast.ours is not None:
            runs = runs_by_system(frame, contrast.numbers)
            effects = effects_at_rates(contrast.numbers[0].key.system, runs, probes)
            if effects is not None:
                lines.append(effects)
                finals[effects.system] = contrast.ours.difference
    fields: list[Field[RateEffects]] = [label_field("row", "", lambda effects: effects.system)]
    for times in sorted({times for effects in lines for times in effects.by_times_peak}):
        fields.append(_rate_field(times))
    fields += [
        label_field("at_best", "", lambda effects: f"{effects.at_best:+.{BITS}f}"),
        label_field(
            "only_at_this_rate",
            "",
            lambda line: "yes" if line.holds_only_at_this_rate(finals[line.system]) else "no",
        ),
    ]
    return _table(frame, "rates", fields, lines)


def _rate_field(times: float) -> Field[RateEffects]:
    def words(effects: RateEffects) -> str:
        bits = effects.by_times_peak.get(times)
        return "" if bits is None else f"{bits:+.{BITS}f}"

    return label_field(f"at_{times:g}", "", words)


# One run a row: each row of Table 3 is a single run. At a given noise, two single runs of one
# system differ by more than t(1 - alpha / 2, df) sd sqrt(2) with chance alpha. The authors' own
# noise was not published, so this says nothing about what they knew.

YES = "yes"
NO = "no"
ONLY_PLAIN = "plain only"  # distinguishable without the correction for the number of rows


class PrintedDifference(NamedTuple):
    """A printed row of Table 3 minus base, and the smallest size that rounding allows."""

    row: str
    bits: float
    smallest_bits: float
    bleu: float
    smallest_bleu: float


class Noise(NamedTuple):
    """A standard deviation over seeds in one quantity. `name` says where it comes from."""

    name: str
    sd: float
    degrees_of_freedom: int

    def reach(self, num_comparisons: int = 1) -> float:
        """Return the reach of one run against one run, by Bonferroni's correction."""
        quantile = stats.t.ppf(1 - ALPHA / num_comparisons / 2, self.degrees_of_freedom)
        return float(quantile) * self.sd * math.sqrt(2)


def printed_differences() -> list[PrintedDifference]:
    """Return the rows of Table 3 that the paper's text draws a conclusion from, each minus base."""
    text_by_place = {(cell.row, cell.column): cell.value for cell in read_table(3)}
    differences = {}
    for conclusion in read_conclusions():
        if conclusion.table == 3:
            row = conclusion.row
            differences[row] = _printed_difference(row, conclusion.reference, text_by_place)
    return list(differences.values())


def _printed_difference(
    row: str, reference: str, text_by_place: Mapping[tuple[str, str], str]
) -> PrintedDifference:
    """Return the printed difference of two rows. A printed 4.92 may be 4.915 to 4.925."""
    row_ppl = text_by_place[row, "ppl_dev"]
    row_bleu = text_by_place[row, "bleu_dev"]
    reference_ppl = text_by_place[reference, "ppl_dev"]
    reference_bleu = text_by_place[reference, "bleu_dev"]
    bits = math.log2(printed_number(row_ppl) / printed_number(reference_ppl))
    bleu = printed_number(row_bleu) - printed_number(reference_bleu)
    higher, lower = (row_ppl, reference_ppl) if bits > 0 else (reference_ppl, row_ppl)
    smallest_higher = printed_number(higher) - half_unit(higher)
    largest_lower = printed_number(lower) + half_unit(lower)
    return PrintedDifference(
        row=row,
        bits=bits,
        smallest_bits=max(0.0, math.log2(smallest_higher / largest_lower)),
        bleu=bleu,
        smallest_bleu=max(0.0, abs(bleu) - half_unit(row_bleu) - half_unit(reference_bleu)),
    )


def half_unit(text: str) -> float:
    """Return half a unit of the last printed digit: 0.005 for 4.92."""
    _, _, decimals = text.partition(".")
    return 0.5 * 10.0 ** -len(decimals)


def bits_noises() -> list[Noise]:
    """Return AlgoPerf's noise in bits a subword: pooled, and its noisiest setting."""
    return _algoperf_noises("bits_dev")


def bleu_noises() -> list[Noise]:
    """Return the noises in BLEU: AlgoPerf's, its noisiest setting, and MLPerf's."""
    pooled = seed_noise(MLPERF).pooled("bleu_test")
    mlperf = [] if pooled is None else [Noise("MLPerf", pooled.sd, pooled.degrees_of_freedom)]
    return [*_algoperf_noises("bleu_test"), *mlperf]


def _algoperf_noises(quantity: Quantity) -> list[Noise]:
    """Return AlgoPerf's pooled noise, and its noisiest setting by its own degrees of freedom."""
    noise = seed_noise(ALGOPERF)
    pooled = noise.pooled(quantity)
    if pooled is None:
        return []
    settings = [values_of(runs, quantity) for runs in noise.runs_by_setting.values()]
    noisiest = max((values for values in settings if len(values) > 1), key=statistics.stdev)
    return [
        Noise("AlgoPerf", pooled.sd, pooled.degrees_of_freedom),
        Noise("AlgoPerf's noisiest setting", statistics.stdev(noisiest), len(noisiest) - 1),
    ]


def is_distinguishable(smallest: float, noise: Noise, num_comparisons: int) -> str:
    """Return whether a difference is above the reach, corrected and plain."""
    if smallest > noise.reach(num_comparisons):
        return YES
    return ONLY_PLAIN if smallest > noise.reach() else NO


def lay_out_one_run(frame: Frame) -> Table:
    """Return a row for each printed contrast. No number of ours is in it."""
    lines = printed_differences()

    def noise_field(noise: Noise, quantity: str) -> Field[PrintedDifference]:
        name = noise.name.lower().replace("'s ", "_").replace(" ", "_")
        smallest_of = operator.attrgetter(f"smallest_{quantity}")
        return label_field(
            f"{name}_{quantity}",
            "",
            lambda line: is_distinguishable(smallest_of(line), noise, len(lines)),
        )

    fields: list[Field[PrintedDifference]] = [
        label_field("row", "", lambda line: line.row),
        label_field("bits", "", lambda line: f"{line.bits:+.{BITS}f}"),
        label_field("smallest_bits", "", lambda line: f"{line.smallest_bits:.{BITS}f}"),
        *(noise_field(noise, "bits") for noise in bits_noises()),
        label_field("bleu", "", lambda line: f"{line.bleu:+.1f}"),
        label_field("smallest_bleu", "", lambda line: f"{line.smallest_bleu:.1f}"),
        *(noise_field(noise, "bleu") for noise in bleu_noises()),
    ]
    return _table(frame, "one_run", fields, lines)


# Seed noise: how much public trainings at WMT's scale vary over seeds. AlgoPerf's settings differ
# in the fourth decimal of a bit.

NOISE_DECIMALS = BITS + 1
AVERAGED_WORDS = {"yes": "averaged", "no": "one checkpoint", "not_stated": "not stated"}


class NoiseLine(NamedTuple):
    """A source, a setting of it, or a published mean. `first` is a training of the line."""

    source: str
    first: PublicSeed
    setting: str
    num_runs: int
    degrees_of_freedom: int
    sd_bits: str
    sd_bleu: str


def noise_lines() -> list[NoiseLine]:
    """Return a line for each source, then AlgoPerf's settings, and published means."""
    lines = []
    for source in (ALGOPERF, MLPERF):
        noise = seed_noise(source)
        bits = noise.pooled("bits_dev")
        bleu = noise.pooled("bleu_test")
        first, *_ = next(iter(noise.runs_by_setting.values()))
        lines.append(
            NoiseLine(
                source=source,
                first=first,
                setting=f"all {len(noise.runs_by_setting)} settings",
                num_runs=noise.num_runs,
                degrees_of_freedom=bleu.degrees_of_freedom if bleu else 0,
                sd_bits=_sd_words(bits, NOISE_DECIMALS, with_range=True),
                sd_bleu=_sd_words(bleu, BLEU, with_range=True),
            )
        )
        if source == ALGOPERF:
            for name, runs in noise.runs_by_setting.items():
                lines.append(_setting_line(name, runs))
    for mean in published_means():
        lines.append(
            NoiseLine(
                source=mean.source,
                first=mean,
                setting=f"{mean.system}, {mean.setting}",
                num_runs=mean.num_seeds,
                degrees_of_freedom=mean.num_seeds - 1,
                sd_bits="",
                sd_bleu=f"{mean.bleu_sd:.{BLEU}f}",
            )
        )
    return lines


def _setting_line(name: str, runs: list[PublicSeed]) -> NoiseLine:
    """Return the table line for one AlgoPerf setting. The runs of a setting differ in the seed
    only.
    """
    noise = SeedNoise(ALGOPERF, {name: runs})
    return NoiseLine(
        source=ALGOPERF,
        first=runs[0],
        setting=f"{runs[0].system}, {runs[0].setting}",
        num_runs=len(runs),
        degrees_of_freedom=len(runs) - 1,
        sd_bits=_sd_words(noise.pooled("bits_dev"), NOISE_DECIMALS),
        sd_bleu=_sd_words(noise.pooled("bleu_test"), BLEU),
    )


def _sd_words(pooled: PooledSd | None, decimals: int, *, with_range: bool = False) -> str:
    """Return a pooled sd, and its range over settings, or "" where the quantity is not
    published.
    """
    if pooled is None:
        return ""
    sd_text = f"{pooled.sd:.{decimals}f}"
    if with_range:
        sd_text += f" ({pooled.smallest_sd:.{decimals}f} to {pooled.largest_sd:.{decimals}f})"
    return sd_text


def lay_out_seed_noise(frame: Frame) -> Table:
    """Return a line for each source, AlgoPerf's settings, and published means. None are ours."""
    fields: list[Field[NoiseLine]] = [
        label_field("source", "", lambda line: line.source),
        label_field("task", "", lambda line: line.first.task),
        label_field("setting", "", lambda line: line.setting),
        printed_field("runs", "", lambda line: str(line.num_runs)),
        printed_field("df", "", lambda line: str(line.degrees_of_freedom)),
        printed_field("sd_bits", "", lambda line: line.sd_bits),
        printed_field("sd_bleu", "", lambda line: line.sd_bleu),
        label_field("definition", "", lambda line: line.first.definition),
        label_field("averaged", "", lambda line: AVERAGED_WORDS[line.first.averaged]),
    ]
    return _table(frame, "seed_noise", fields, noise_lines())


def _with_reach(difference: float, estimate: Estimate | None, decimals: int) -> str:
    """Return a difference with half of its 95 % interval, if it has an interval."""
    return with_reach(difference, None if estimate is None else estimate.reach, decimals)


def _table(frame: Frame, name: str, fields: Sequence[Field[Item]], lines: Sequence[Item]) -> Table:
    """Return a table with the marks that its numbers need. The files have no headings."""
    table = Table(
        name=name,
        title="",
        caption="",
        columns=columns_of(fields),
        cells=rows_of(fields, lines, "ours"),
    )
    return compact(complete(frame, table, has_states=False))


def make_study() -> list[Table]:
    """Return the tables of the study, made of the pack, the probes and the public seeds."""
    frame = make_frame(gather_from_records(SCALE, [MEASURED]).results)
    probes = read_rate_probes(SCALE)
    assert probes is not None  # they are shipped
    return [
        lay_out_readings(frame),
        lay_out_horizon(frame),
        lay_out_rates(frame, probes),
        lay_out_one_run(frame),
        lay_out_seed_noise(frame),
    ]


def main() -> None:
    """Write the tables as CSV files into the folder that the command line gives (default: this
    file's folder).
    """
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).resolve().parent
    folder.mkdir(parents=True, exist_ok=True)
    for table in make_study():
        (folder / f"{table.name}.csv").write_text(render_csv(table), encoding="utf-8", newline="\n")


if __name__ == "__main__":
    main()
