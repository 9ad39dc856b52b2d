"""Our own study of Multi30k. The study compares each row of Table 3 with base in several analyses
(the readings of decision 0012), in longer trainings and at other learning rates. The study also
compares the differences in the paper's Table 3 with the seed noise of public trainings.

The study also repeats decision 0013's comparison of model readings (interpretations of the paper's
model) without the system whose seeds differ most.

The script reads the packs next to it (the measured runs), the shipped probes (short trial runs at
other learning rates) and the public seeds. The script writes six files: readings.csv, horizon.csv,
rates.csv, model_readings.csv, one_run.csv and seed_noise.csv. README.md in the folder of the script
describes these files. The script needs the wing `conclusions`, an optional package. From the root
of the checkout:

    python -m paper_tables.measured.study.study_multi30k FOLDER
"""

import math
import statistics
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import pandas as pd
from scipy import stats

from aiayn.printed import (
    COMPARED_AVERAGE,
    METRIC_BY_PAIR,
    REFERENCE_SYSTEM,
    printed_number,
    read_table,
)
from aiayn.records import TrainRecord
from aiayn.runs.log import read_training_bits
from aiayn.scoring.scores import BITS_METRIC
from aiayn.scoring.verdict import ALPHA, PooledSd, holm_adjusted, pool_sd
from analysis.conclusions.answers import Estimate, estimate_difference, estimate_welch
from analysis.conclusions.contrasts import (
    SHARES,
    SeedRun,
    started_runs,
)
from analysis.conclusions.fresh import (
    MODEL_READINGS,
    ComparedContrast,
    FreshFamily,
    compare_family,
    fresh_runs,
)
from analysis.conclusions.published import read_conclusions
from analysis.conclusions.rates import PRINTED_RATE, RateProbes, read_rate_probes
from analysis.conclusions.runs import runs_by_system, seed_runs
from analysis.conclusions.scale_contrasts import draw_contrasts
from paper_tables.frame import Frame, Numbers, Run
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
from paper_tables.rounding import BITS, BLEU, rounded, with_reach
from paper_tables.scale_results import gather_from_records

MEASURED = Path(__file__).resolve().parents[1]
SCALE = "multi30k"
BLEU_METRIC = METRIC_BY_PAIR["en-de"]
CsvRow = dict[str, str]  # a line of a file, by the name of the column

# The known values of a run, by the name of the quantity. `bits_<testset>` and `bleu_<testset>` are
# scores of the last checkpoint. All other quantities follow from the log.
Quantities = dict[str, float]
RunsOfSystems = dict[str, dict[int, Quantities]]  # by system, then by seed
NAME_BY_METRIC = {BITS_METRIC: "bits", BLEU_METRIC: "bleu"}
# Bits on training batches are the mean over the last fifth of a run.
TRAINING_SHARE = 0.8


def collect(frame: Frame, numbers: Numbers) -> RunsOfSystems:
    """Return all measured quantities (bits, BLEU, ...) of each finished run on the En-De corpus, by
    system and seed.
    """
    corpus = frame.corpus_by_pair["en-de"]
    runs: RunsOfSystems = {}
    for (key, metric), number in numbers.items():
        # `further` is the role of a test set that the sheet lists by its name: both Flickr test
        # sets. `last1` is the last checkpoint without averaging, as in Table 3.
        is_last = (key.corpus, key.average) == (corpus, COMPARED_AVERAGE)
        if not is_last or key.role not in ("dev", "further") or metric not in NAME_BY_METRIC:
            continue
        for run, value in number.values:
            if run.seed is None or run.train is None:
                continue
            # The log is read once per run, and each metric adds its score.
            by_seed = runs.setdefault(key.system, {})
            if run.seed not in by_seed:
                by_seed[run.seed] = _quantities_of_log(run, run.train)
            by_seed[run.seed][f"{NAME_BY_METRIC[metric]}_{key.testset}"] = value
    return runs


def _quantities_of_log(run: Run, train: TrainRecord) -> Quantities:
    """Return the quantities that are computed from the log of a run, such as the bits after a
    number of updates.
    """
    # Only the curve is needed here. The value of the metric is added by `collect`.
    curve = SeedRun(value=0.0, bits_by_update=run.bits_by_update, updates=train.updates)
    values: dict[str, float | None] = {"updates": train.updates, "last_three": curve.mean_of_last}
    for update, bits in run.bits_by_update.items():
        values[f"at_{update}"] = bits
    for share in SHARES:
        values[f"share_{share}"] = curve.bits_at(share)
    # Single batches vary, so the mean over the last fifth is taken.
    late = []
    for update, bits in read_training_bits(train.log_path).items():
        if update > TRAINING_SHARE * train.updates:
            late.append(bits)
    values["training_bits"] = sum(late) / len(late) if late else None
    return {name: value for name, value in values.items() if value is not None}


def dev_and_further(frame: Frame) -> list[str]:
    """Return the test sets of the En-De corpus, dev first."""
    corpus = frame.corpus_by_pair["en-de"]
    testsets = []
    for role in ("dev", "further"):
        for key in frame.keys:
            if (key.corpus, key.average, key.role) == (corpus, COMPARED_AVERAGE, role):
                testsets.append(key.testset)
    return list(dict.fromkeys(testsets))


# Readings (decision 0012): the test for a difference to base is repeated, each time with one change
# of the analysis.

ValuesBySystem = Mapping[str, Mapping[int, float]]  # by system, then by seed
# Marks a reading in which a row has a different sign than in the answer.
STAR = "*"


class Reading(NamedTuple):
    """A reading: one analysis of all rows, each compared with base. `kind` says how this analysis
    differs from the main analysis.

    `p_by_row` has the p-values after Holm's correction, and is empty for a reading without
    correction. For bits (`is_in_bits`) lower values are better, for BLEU higher values are better.
    """

    kind: str
    name: str
    estimate_by_row: Mapping[str, Estimate]
    p_by_row: Mapping[str, float] = {}
    is_in_bits: bool = True

    def sign(self, row: str) -> int | None:
        """Return -1 if a row of Table 3 is better than base, 1 if it is worse, 0 if no difference
        is found, and None if the difference could not be estimated.
        """
        estimate = self.estimate_by_row.get(row)
        if estimate is None:
            return None
        # `p_by_row` is empty without correction. Then only the interval decides.
        if self.p_by_row.get(row, 0.0) >= ALPHA:
            return 0
        sign = sign_of(estimate)
        return sign if self.is_in_bits else -sign


def sign_of(estimate: Estimate) -> int:
    """Return the sign of a difference, or 0 if the 95 % interval of the difference includes 0."""
    if estimate.includes(0.0):
        return 0
    return 1 if estimate.difference > 0 else -1


def read_pooled(
    kind: str, name: str, values: ValuesBySystem, rows: Iterable[str], *, is_in_bits: bool = True
) -> Reading:
    """Return the reading (analysis of all rows) of a quantity with the sd of decision 0009, which
    is pooled over all systems.
    """
    estimates = _estimates(values, rows, _pooled(values), estimate_difference)
    return Reading(kind, name, estimates, is_in_bits=is_in_bits)


def read_welch(values: ValuesBySystem, rows: Iterable[str]) -> Reading:
    """Return the reading (analysis of all rows) with two variances: the variance of base, and the
    variance pooled over all other systems.
    """
    # Base has more seeds than any row, and is the control of every contrast.
    other_values = dict(values)
    reference_sd = _pooled({REFERENCE_SYSTEM: other_values.pop(REFERENCE_SYSTEM)})

    def estimate(difference: float, pooled: PooledSd, *numbers: int) -> Estimate:
        return estimate_welch(difference, numbers, pooled, reference_sd)

    return Reading("variance", "Welch", _estimates(values, rows, _pooled(other_values), estimate))


def _pooled(values: ValuesBySystem) -> PooledSd:
    # Bartlett's test does not enter the study.
    lists = {system: list(by_seed.values()) for system, by_seed in values.items()}
    pooled = pool_sd(lists, with_bartlett=False)
    assert pooled is not None  # base has several seeds
    return pooled


def _estimates(
    values: ValuesBySystem,
    rows: Iterable[str],
    pooled: PooledSd,
    estimate: Callable[[float, PooledSd, int, int], Estimate],
) -> dict[str, Estimate]:
    """Return the estimated difference to base of each row that has values."""
    controls = values[REFERENCE_SYSTEM]
    estimates: dict[str, Estimate] = {}
    for row in rows:
        if values.get(row):
            difference = statistics.mean(values[row].values()) - statistics.mean(controls.values())
            estimates[row] = estimate(difference, pooled, len(values[row]), len(controls))
    return estimates


def correct_by_holm(reading: Reading, name: str) -> Reading:
    """Return a reading (analysis of all rows) with Holm's correction over all of its contrasts."""
    estimates = reading.estimate_by_row
    # The family of the correction is all rows of the reading.
    p_values = holm_adjusted([estimate.p_difference for estimate in estimates.values()])
    return reading._replace(name=name, p_by_row=dict(zip(estimates, p_values, strict=True)))


def leave_seeds_out(values: ValuesBySystem, rows: Sequence[str]) -> list[Reading]:
    """Return for each seed of base an analysis of all rows that leaves this seed out."""
    readings = []
    for left_out in values[REFERENCE_SYSTEM]:
        other_seeds = dict(values[REFERENCE_SYSTEM])
        del other_seeds[left_out]
        name = f"without {REFERENCE_SYSTEM} {left_out}"
        without = {**values, REFERENCE_SYSTEM: other_seeds}
        readings.append(read_pooled("seeds of base", name, without, rows))
    return readings


def make_readings(frame: Frame, rows: Sequence[str]) -> list[Reading]:
    """Return all readings (alternative analyses) of the given rows, each compared with base, on the
    En-De corpus.

    As in decision 0009, runs that are known not to have started to learn are left out.
    """
    runs = _started(frame, frame.numbers)
    # The order of the readings is their order in readings.csv.
    dev, *further = dev_and_further(frame)
    bits = values_of_runs(runs, f"bits_{dev}")
    welch = read_welch(bits, rows)
    readings = [
        correct_by_holm(read_pooled("variance", "", bits, rows), "Holm"),
        welch,
        correct_by_holm(welch, "Welch with Holm"),
        *leave_seeds_out(bits, rows),
    ]

    # The later seeds of decision 0012 are added to the seeds of the tables.
    all_bits = {system: dict(by_seed) for system, by_seed in bits.items()}
    later_bits = values_of_runs(_started(frame, frame.later_numbers), f"bits_{dev}")
    for system, by_seed in all_bits.items():
        by_seed.update(later_bits.get(system, {}))
    name = "all seeds (added after a look)"
    readings.append(read_pooled("seeds of base", name, all_bits, rows))

    # Each line: what is changed, the name of the reading, and its quantity.
    changes = [("another text", f"bits on {testset}", f"bits_{testset}") for testset in further]
    changes.append(("another metric", "mean of the last three validations", "last_three"))
    for testset in (dev, *further):
        changes.append(("another metric", f"BLEU on {testset}", f"bleu_{testset}"))
    for share in SHARES:
        changes.append(("updates", f"{share * 100:.0f} % of the updates", f"share_{share}"))
    # Only the quantities `bleu_<testset>` are not in bits.
    for kind, name, quantity in changes:
        values = values_of_runs(runs, quantity)
        is_in_bits = not quantity.startswith("bleu_")
        readings.append(read_pooled(kind, name, values, rows, is_in_bits=is_in_bits))
    readings.append(_reading_at_horizon(frame, rows))
    return readings


def _reading_at_horizon(frame: Frame, rows: Sequence[str]) -> Reading:
    """Return the reading (analysis) after 16,000 updates, for the rows with a run of this
    length.
    """
    estimates: dict[str, Estimate] = {}
    dev_bits = f"bits_{dev_and_further(frame)[0]}"
    # Confirmatory seeds come first, and `setdefault` keeps them.
    for contrast in compare_at_horizon(long_runs(frame)):
        if contrast.system in rows:
            estimates.setdefault(contrast.system, contrast.estimate(dev_bits))
    return Reading("updates", f"{HORIZON_UPDATES:,} updates", estimates)


def _started(frame: Frame, numbers: Numbers) -> RunsOfSystems:
    """Return all measured quantities of the runs, without the runs that are known not to have begun
    to learn.
    """
    corpus = frame.corpus_by_pair["en-de"]
    runs = collect(frame, numbers)
    started: RunsOfSystems = {}
    for (key, metric), number in numbers.items():
        is_dev = (key.corpus, key.average, key.role) == (corpus, COMPARED_AVERAGE, "dev")
        if is_dev and metric == BITS_METRIC and number.values:
            seeds = [run.seed for run in started_runs(seed_runs(frame, number, numbers))]
            started[key.system] = {seed: runs[key.system][seed] for seed in seeds}
    return started


def values_of_runs(runs: RunsOfSystems, quantity: str) -> dict[str, dict[int, float]]:
    """Return one measured quantity of the runs by system and seed. If any run of a system lacks the
    quantity, all values of the system are left out.
    """
    # A mean over the remaining seeds would be a mean of selected seeds.
    values: dict[str, dict[int, float]] = {}
    for system, by_seed in runs.items():
        values[system] = {}
        if all(quantity in run for run in by_seed.values()):
            values[system] = {seed: run[quantity] for seed, run in by_seed.items()}
    return values


def read_training_batches(frame: Frame, rows: Sequence[str]) -> Reading:
    """Return the reading (analysis) of the bits per subword on training batches, for rows with
    base's dropout and label smoothing.

    The bits on training batches are exploratory: they are neither tested nor counted.
    """
    # Dropout and smoothing change the loss itself, so only rows with base's are comparable.
    base = frame.system_by_name[REFERENCE_SYSTEM].training
    alike: RunsOfSystems = {}
    for system, runs in collect(frame, frame.numbers).items():
        spec = frame.system_by_name[system].training
        if (spec.p_drop, spec.eps_ls) == (base.p_drop, base.eps_ls):
            alike[system] = runs
    values = values_of_runs(alike, "training_bits")
    return read_pooled("another metric", "bits on training batches", values, rows)


def reading_rows(frame: Frame) -> list[CsvRow]:
    """Return the lines of readings.csv: a line for each reading, with a column for each contrast (a
    row minus base) that has an answer.
    """
    # Each reading is compared with the answers of decision 0012.
    own_signs = {}
    for contrast in draw_contrasts(frame).primary:
        if contrast.answered is not None:
            own_signs[contrast.numbers[0].key.system] = sign_of(contrast.answered.estimate)
    systems = list(own_signs)
    lines = []
    for reading in make_readings(frame, systems):
        # `None` means that the reading cannot say anything about the row, which is no disagreement.
        cells, num_other = {}, 0
        for system, own_sign in own_signs.items():
            cells[system] = _reading_text(reading, system)
            if reading.sign(system) not in (None, own_sign):
                cells[system] += f" {STAR}"
                num_other += 1
        lines.append({"kind": reading.kind, "reading": reading.name, "num_other": str(num_other)})
        lines[-1] |= cells
    batches = read_training_batches(frame, systems)
    lines.append({"kind": batches.kind, "reading": batches.name, "num_other": "not counted"})
    lines[-1] |= {system: _reading_text(batches, system) for system in systems}
    return lines


def _reading_text(reading: Reading, system: str) -> str:
    estimate = reading.estimate_by_row.get(system)
    if estimate is None:
        return ""
    return _with_reach(estimate, BITS if reading.is_in_bits else BLEU)


def _with_reach(estimate: Estimate, decimals: int) -> str:
    """Return a difference with half of its 95 % interval as text."""
    return with_reach(estimate.difference, estimate.reach, decimals)


# Horizon (decision 0012): does "bigger is better" also hold after 16,000 updates? The learning rate
# of equation (3) does not depend on the total number of updates, so a longer run contains the
# shorter run. A system with `begins_from` continues the runs of a different system from their last
# update. Big has 16,000 updates in its own file.

HORIZON_UPDATES = 16_000
# Both base and big were validated after these updates.
SHOWN_UPDATES = (8_000, 10_400, 12_800, 15_200, 16_000)
CONFIRMATORY_SEEDS = {"base": (11, 12, 13), "table3_c_dmodel1024": (7, 8), "big": (6,)}
# The results of these seeds had been seen before decision 0012 was written.
SEEN_SEEDS = {"big": (5,)}
# The predictions of decision 0012: a row minus base after 16,000 updates.
PREDICTED_BITS = {"table3_c_dmodel1024": -0.11, "big": -0.12}
CONFIRMATORY = "confirmatory"
SEEN_BEFORE = "reading: seen before"


class HorizonContrast(NamedTuple):
    """The runs of a row of Table 3 and of base that reach the horizon (16,000 updates), by seed.

    `confirmatory` has the runs by system from which the pooled sd of a quantity is computed.
    """

    system: str
    kind: str
    runs: Mapping[int, Quantities]
    controls: Mapping[int, Quantities]
    confirmatory: RunsOfSystems

    def minus(self, quantity: str) -> float:
        """Return the mean of a quantity over the row's runs minus its mean over base's runs."""
        return mean_of(self.runs, quantity) - mean_of(self.controls, quantity)

    def estimate(self, quantity: str) -> Estimate:
        """Return the difference between row and base with its standard error."""
        pooled = _pooled(values_of_runs(self.confirmatory, quantity))
        return estimate_difference(self.minus(quantity), pooled, len(self.runs), len(self.controls))


def mean_of(runs: Mapping[int, Quantities], quantity: str) -> float:
    """Return the mean of a quantity over runs."""
    return statistics.mean(run[quantity] for run in runs.values())


def long_runs(frame: Frame) -> RunsOfSystems:
    """Return the finished runs of HORIZON_UPDATES updates, by system and in order of seed.

    A run that continues an earlier run also has the validations of the earlier run.
    """
    # Both the seeds of the tables and later seeds may reach the horizon.
    runs = collect(frame, frame.numbers)
    for system, later_runs in collect(frame, frame.later_numbers).items():
        runs.setdefault(system, {}).update(later_runs)
    runs_of_systems: RunsOfSystems = {}
    for name, by_seed in runs.items():
        # `updates16000_base` continues the runs of `base` and is listed under `base`.
        system = frame.system_by_name[name].begins_from or name
        for seed, quantities in sorted(by_seed.items()):
            if quantities["updates"] == HORIZON_UPDATES:
                # The earlier run has the validations up to 8,000 updates. Where both have a
                # quantity, the later run counts.
                joined = {**runs.get(system, {}).get(seed, {}), **quantities}
                joined["best"] = min(joined[name] for name in joined if name.startswith("at_"))
                runs_of_systems.setdefault(system, {})[seed] = joined
    return runs_of_systems


def compare_at_horizon(runs_of_systems: RunsOfSystems) -> list[HorizonContrast]:
    """Return the contrasts of decision 0012 in which row and base both have a run of
    HORIZON_UPDATES updates.

    A system has up to two contrasts: over the confirmatory seeds, and over the seeds whose results
    had been seen before. The sd is pooled over the systems with two seeds or more, and is also used
    for a system with one seed.
    """
    confirmatory = {}
    for system, seeds in CONFIRMATORY_SEEDS.items():
        confirmatory[system] = _with_seeds(runs_of_systems, system, seeds)
    # Seeds of base that had been seen before are never used as a control.
    controls = confirmatory[REFERENCE_SYSTEM]
    contrasts = []
    for system in PREDICTED_BITS:
        seen = _with_seeds(runs_of_systems, system, SEEN_SEEDS.get(system, ()))
        for kind, runs in ((CONFIRMATORY, confirmatory[system]), (SEEN_BEFORE, seen)):
            if runs:
                contrasts.append(HorizonContrast(system, kind, runs, controls, confirmatory))
    return contrasts


def _with_seeds(
    runs_of_systems: RunsOfSystems, system: str, seeds: Sequence[int]
) -> dict[int, Quantities]:
    runs = runs_of_systems.get(system, {})
    return {seed: run for seed, run in runs.items() if seed in seeds}


def horizon_rows(frame: Frame) -> list[CsvRow]:
    """Return the lines of horizon.csv: a line for each contrast at 16,000 updates, with the
    prediction of decision 0012.
    """
    testsets = dev_and_further(frame)
    dev_bits = f"bits_{testsets[0]}"  # the quantity that decision 0012 fixed
    lines = []
    for contrast in compare_at_horizon(long_runs(frame)):
        estimate = contrast.estimate(dev_bits)
        # The interval is written out only for the primary quantity. The others have half of its
        # width.
        low = estimate.difference - estimate.reach
        high = estimate.difference + estimate.reach
        line = {
            "row": contrast.system,
            "kind": contrast.kind,
            "seeds": "; ".join(
                ", ".join(map(str, runs)) for runs in (contrast.runs, contrast.controls)
            ),
            "predicted": f"{PREDICTED_BITS[contrast.system]:+.2f}",
            "ours": f"{estimate.difference:+.{BITS}f} ({low:+.{BITS}f} to {high:+.{BITS}f})",
            "outlives": "no" if estimate.includes(0.0) else "yes",
            "last_three": _with_reach(contrast.estimate("last_three"), BITS),
            "best": _with_reach(contrast.estimate("best"), BITS),
        }
        for testset in testsets:
            name = f"bleu_{testset}"
            line[name] = _with_reach(contrast.estimate(name), BLEU)
        # Training bits are not compared. Both means show which side learns its text by heart.
        means = []
        for runs in (contrast.runs, contrast.controls):
            means.append(f"{mean_of(runs, 'training_bits'):.2f}")
        line["training_bits"] = "; ".join(means)
        for update in SHOWN_UPDATES:
            line[f"at_{update}"] = f"{contrast.minus(f'at_{update}'):+.{BITS}f}"
        lines.append(line)
    return lines


# Rates: each probe of a row is a single training at half or at twice the peak of equation (3).
# Probes and the seeds of the tables are compared after the number of updates that probes have.


class RateEffects(NamedTuple):
    """The bits a subword of a row and of base, by the ratio of the peak learning rate to equation
    (3)'s. At the ratio 1.0 the bits are means over the seeds of the tables.
    """

    row: Mapping[float, float]
    base: Mapping[float, float]

    @property
    def by_times_peak(self) -> dict[float, float]:
        """The bits of the row minus the bits of base, at each learning rate at which row and base
        were trained.
        """
        # Base was also tried at higher rates (decision 0013), and a probe of a row may be missing.
        common = sorted(self.row.keys() & self.base.keys())
        return {times: self.row[times] - self.base[times] for times in common}

    @property
    def at_best(self) -> float:
        """The bits of the row minus the bits of base, each at the best learning rate among the
        rates that were tried.
        """
        return min(self.row.values()) - min(self.base.values())

    def holds_only_at_this_rate(self, final: float) -> bool:
        """Return whether the sign of the effect changes when row and base each train at the
        learning rate that was best for them.

        `final` is the effect at the end of the trainings, at the paper's learning rate. `final`
        must have the sign of the effect in the shorter probes (trial trainings) at that rate.
        """
        # A product below 0 means that the signs differ. Both conditions are needed, because a sign
        # may change with the updates and not with the rate.
        at_printed_rate = self.by_times_peak[PRINTED_RATE]
        return at_printed_rate * self.at_best < 0 and final * self.at_best < 0


def effects_at_rates(
    system: str, runs_of_systems: Mapping[str, Sequence[SeedRun]], probes: RateProbes
) -> RateEffects | None:
    """Return the bits a subword of a row and of base at each learning rate that was tried.

    The result is None if row or base was not trained at other learning rates.
    """
    sides = []
    for name in (system, REFERENCE_SYSTEM):
        if name not in probes.bits_by_system:
            return None
        bits = statistics.mean(run.bits_by_update[probes.updates] for run in runs_of_systems[name])
        sides.append({**probes.bits_by_system[name], PRINTED_RATE: bits})
    return RateEffects(*sides)


def rate_rows(frame: Frame, probes: RateProbes) -> list[CsvRow]:
    """Return the lines of rates.csv: the difference in bits between each row and base at each
    learning rate that was tried.
    """
    lines = []
    for contrast in draw_contrasts(frame).primary:
        system = contrast.numbers[0].key.system
        effects = effects_at_rates(system, runs_by_system(frame, contrast.numbers), probes)
        if effects is None or contrast.ours is None:
            continue
        line = {"row": system}
        for times, bits in effects.by_times_peak.items():
            line[f"at_{times:g}"] = f"{bits:+.{BITS}f}"
        line["at_best"] = f"{effects.at_best:+.{BITS}f}"
        is_only = effects.holds_only_at_this_rate(contrast.ours.difference)
        line["only_at_this_rate"] = "yes" if is_only else "no"
        lines.append(line)
    return lines


# The rule of decision 0013 pools the variance over seeds of all systems of a family but base. The
# two seeds of this system differ by 0.35 bits, much more than the seeds of any other system. So it
# widens the intervals of all systems. It was chosen after a look at the results.
NOISIEST_READING = "batch_norm"


def model_reading_rows(runs: Mapping[str, Sequence[SeedRun]]) -> list[CsvRow]:
    """Return the lines of model_readings.csv: each contrast of decision 0013's third family by the
    rule of the decision, and by the same rule without NOISIEST_READING, which is exploratory.
    `runs` are the trainings of decision 0013 by system.
    """
    contrasts = [line for line in MODEL_READINGS.contrasts if line.system != NOISIEST_READING]
    rows = [row for row in MODEL_READINGS.rows if row.system != NOISIEST_READING]
    without = FreshFamily(tuple(contrasts), tuple(rows))
    exploratory = {line.contrast.system: line for line in compare_family(without, runs)}
    lines = []
    for line in compare_family(MODEL_READINGS, runs):
        system = line.contrast.system
        csv_row = {"system": system, **_fresh_cells(line)}
        for name, text in _fresh_cells(exploratory.get(system)).items():
            csv_row[f"{name}_without_{NOISIEST_READING}"] = text
        lines.append(csv_row)
    return lines


def _fresh_cells(line: ComparedContrast | None) -> CsvRow:
    """Return the difference of a contrast in bits with its 95 % interval, its answer, and its two
    p-values by Holm's correction. The texts are empty for what is not known.
    """
    cells = {"ours": "", "answer": "", "p_difference_holm": "", "p_within_holm": ""}
    if line is None or line.estimate is None:
        return cells
    cells["ours"] = with_reach(line.estimate.difference, line.estimate.reach, BITS)
    cells["answer"] = line.answer
    if line.holm_difference is not None and line.holm_within is not None:
        cells["p_difference_holm"] = rounded(line.holm_difference, "p")
        cells["p_within_holm"] = rounded(line.holm_within, "p")
    return cells


# One run a row: each row of Table 3 is a single run. With a given noise, two single runs of one
# system differ by more than t(1 - alpha / 2, df) sd sqrt(2) with probability alpha. The authors'
# own noise was not published, so this does not say what they could know.

YES = "yes"
NO = "no"
ONLY_PLAIN = "plain only"  # distinguishable without the correction for the number of rows


class PrintedDifference(NamedTuple):
    """The difference between a row of Table 3 and base in the paper, and the smallest difference
    that is possible before rounding.
    """

    row: str
    bits: float
    smallest_bits: float
    bleu: float
    smallest_bleu: float


class Noise(NamedTuple):
    """A standard deviation over seeds of one quantity. `name` says from which trainings it
    comes.
    """

    name: str
    sd: float
    degrees_of_freedom: int

    @property
    def column(self) -> str:
        """The name of this noise in a form that can be part of a column's name."""
        return self.name.lower().replace("'s ", "_").replace(" ", "_")

    def reach(self, num_comparisons: int = 1) -> float:
        """Return the difference that two single runs of one system exceed with probability ALPHA /
        `num_comparisons` (Bonferroni's correction).
        """
        # sqrt(2), because both runs vary.
        quantile = stats.t.ppf(1 - ALPHA / num_comparisons / 2, self.degrees_of_freedom)
        return float(quantile) * self.sd * math.sqrt(2)


def printed_differences() -> list[PrintedDifference]:
    """Return the differences to base of the rows of Table 3 from which the paper's text draws a
    conclusion.
    """
    # The texts are needed, because 4.9 and 4.90 are rounded differently.
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
    """Return the difference between two rows in the paper. A rounded 4.92 may be 4.915 to 4.925."""
    # The bits per subword are log2 of the perplexity, so a difference of bits is log2 of a ratio.
    row_ppl = text_by_place[row, "ppl_dev"]
    row_bleu = text_by_place[row, "bleu_dev"]
    reference_ppl = text_by_place[reference, "ppl_dev"]
    reference_bleu = text_by_place[reference, "bleu_dev"]
    bits = math.log2(printed_number(row_ppl) / printed_number(reference_ppl))
    bleu = printed_number(row_bleu) - printed_number(reference_bleu)
    # The printed values are moved towards each other by half a unit each.
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
    """Return half a unit of the last digit of a number: 0.005 for 4.92."""
    _, _, decimals = text.partition(".")
    return 0.5 * 10.0 ** -len(decimals)


def bits_noises() -> list[Noise]:
    """Return two standard deviations over seeds in bits per subword: AlgoPerf's pooled sd, and the
    sd of its noisiest setting.
    """
    return _algoperf_noises("bits_dev")


def bleu_noises() -> list[Noise]:
    """Return three standard deviations over seeds in BLEU: AlgoPerf's pooled sd, the sd of its
    noisiest setting, and MLPerf's.
    """
    pooled = seed_noise(MLPERF).pooled("bleu_test")
    assert pooled is not None  # MLPerf's runs are shipped
    return [
        *_algoperf_noises("bleu_test"),
        Noise("MLPerf", pooled.sd, pooled.degrees_of_freedom),
    ]


def _algoperf_noises(quantity: Quantity) -> list[Noise]:
    """Return AlgoPerf's pooled sd over seeds, and the sd of its noisiest setting with the degrees
    of freedom of this setting.
    """
    noise = seed_noise(ALGOPERF)
    pooled = noise.pooled(quantity)
    assert pooled is not None  # AlgoPerf's runs are shipped
    settings = [values_of(runs, quantity) for runs in noise.runs_by_setting.values()]
    # The standard deviation of a single run is not defined.
    noisiest = max((values for values in settings if len(values) > 1), key=statistics.stdev)
    return [
        Noise("AlgoPerf", pooled.sd, pooled.degrees_of_freedom),
        Noise("AlgoPerf's noisiest setting", statistics.stdev(noisiest), len(noisiest) - 1),
    ]


def is_distinguishable(smallest: float, noise: Noise, num_comparisons: int) -> str:
    """Return in words whether a difference between two single runs is larger than chance explains,
    with and without the correction for the number of rows.
    """
    if smallest > noise.reach(num_comparisons):
        return YES
    return ONLY_PLAIN if smallest > noise.reach() else NO


def one_run_rows() -> list[CsvRow]:
    """Return the lines of one_run.csv: a line for each difference in the paper. The lines do not
    contain a number of ours.
    """
    differences = printed_differences()
    lines = []
    for difference in differences:
        line = {"row": difference.row, "bits": f"{difference.bits:+.{BITS}f}"}
        line["smallest_bits"] = f"{difference.smallest_bits:.{BITS}f}"
        for noise in bits_noises():
            answer = is_distinguishable(difference.smallest_bits, noise, len(differences))
            line[f"{noise.column}_bits"] = answer
        line["bleu"] = f"{difference.bleu:+.1f}"
        line["smallest_bleu"] = f"{difference.smallest_bleu:.1f}"
        for noise in bleu_noises():
            answer = is_distinguishable(difference.smallest_bleu, noise, len(differences))
            line[f"{noise.column}_bleu"] = answer
        lines.append(line)
    return lines


# Seed noise: how much public trainings at WMT's scale vary over seeds. AlgoPerf's settings differ
# in the fourth decimal of a bit.

NOISE_DECIMALS = BITS + 1
AVERAGED_WORDS = {"yes": "averaged", "no": "one checkpoint", "not_stated": "not stated"}


def seed_noise_rows() -> list[CsvRow]:
    """Return the lines of seed_noise.csv: a line for each source, each setting of AlgoPerf, and
    each published mean. None of the numbers are ours.
    """
    lines = []
    for source in (ALGOPERF, MLPERF):
        noise = seed_noise(source)
        first, *_ = next(iter(noise.runs_by_setting.values()))
        # The first line of a source pools all of its settings.
        setting = f"all {len(noise.runs_by_setting)} settings"
        lines.append(_noise_line(source, first, setting, noise, with_range=True))
        for name, runs in noise.runs_by_setting.items() if source == ALGOPERF else ():
            # The runs of a setting differ in the seed only.
            setting = f"{runs[0].system}, {runs[0].setting}"
            lines.append(_noise_line(source, runs[0], setting, SeedNoise(source, {name: runs})))
    for mean in published_means():
        line = _noise_line(mean.source, mean, f"{mean.system}, {mean.setting}")
        line["runs"] = str(mean.num_seeds)
        line["df"] = str(mean.num_seeds - 1)
        line["sd_bleu"] = f"{mean.bleu_sd:.{BLEU}f}"
        lines.append(line)
    return lines


def _noise_line(
    source: str,
    first: PublicSeed,
    setting: str,
    noise: SeedNoise | None = None,
    *,
    with_range: bool = False,
) -> CsvRow:
    """Return the line of seed_noise.csv for a source or a setting. `first` is one of the trainings
    of this source or setting.
    """
    bits = noise.pooled("bits_dev") if noise else None
    bleu = noise.pooled("bleu_test") if noise else None
    return {
        "source": source,
        "task": first.task,
        "setting": setting,
        "runs": str(noise.num_runs) if noise else "",
        "df": str(bleu.degrees_of_freedom) if bleu else "",
        "sd_bits": _sd_text(bits, NOISE_DECIMALS, with_range=with_range),
        "sd_bleu": _sd_text(bleu, BLEU, with_range=with_range),
        "definition": first.definition,
        "averaged": AVERAGED_WORDS[first.averaged],
    }


def _sd_text(pooled: PooledSd | None, decimals: int, *, with_range: bool) -> str:
    """Return a pooled sd with its range over settings as text, or "" if the quantity is not
    published.
    """
    if pooled is None:
        return ""
    sd_text = f"{pooled.sd:.{decimals}f}"
    if with_range:
        sd_text += f" ({pooled.smallest_sd:.{decimals}f} to {pooled.largest_sd:.{decimals}f})"
    return sd_text


def make_study() -> dict[str, list[CsvRow]]:
    """Return the lines of each of the six CSV files, computed from the packs (measured runs), the
    probes (trial trainings) and the public seeds.
    """
    # The packs are read in the same way as by `aiayn tables --from-logs`.
    frame = make_frame(gather_from_records(SCALE, [MEASURED]).results)
    fresh_frame = make_frame(gather_from_records(SCALE, [MEASURED / "attention"]).results)
    probes = read_rate_probes(SCALE)
    assert probes is not None  # they are shipped
    return {
        "readings": reading_rows(frame),
        "horizon": horizon_rows(frame),
        "rates": rate_rows(frame, probes),
        "model_readings": model_reading_rows(fresh_runs(fresh_frame)),
        "one_run": one_run_rows(),
        "seed_noise": seed_noise_rows(),
    }


def main() -> None:
    """Write the CSV files into the folder that the command line gives."""
    folder = Path(sys.argv[1])
    # The tests write into a folder of their own, and compare the files with the files here.
    folder.mkdir(parents=True, exist_ok=True)
    for name, lines in make_study().items():
        pd.DataFrame(lines).to_csv(folder / f"{name}.csv", index=False, lineterminator="\n")


if __name__ == "__main__":
    main()
