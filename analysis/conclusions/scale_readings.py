"""Makes decision 0012's readings of each contrast from the frame of a scale.

`analysis.conclusions.readings` has the arithmetic. A reading here is another quantity: bits on
another test set, BLEU, the mean of the last validations, an earlier or a later update. As in
decision 0009, runs that are known not to have started are left out.
"""

import operator
from collections.abc import Callable, Mapping, Sequence

import msgspec

from aiayn.paths import CellKey
from aiayn.printed import COMPARED_AVERAGE, METRIC_BY_PAIR, REFERENCE_SYSTEM
from aiayn.scoring.scores import BITS_METRIC
from aiayn.scoring.verdict import ALPHA
from analysis.conclusions.answers import Estimate
from analysis.conclusions.contrasts import SHARES, SeedRun, known_values, started_runs
from analysis.conclusions.horizon import (
    HORIZON_UPDATES,
    bits_of,
    compare_at_horizon,
    long_runs,
    mean_of_last_fifth,
)
from analysis.conclusions.readings import (
    Kind,
    Reading,
    ValuesBySystem,
    correct_by_holm,
    leave_seeds_out,
    merge_seeds,
    read_pooled,
    read_welch,
)
from analysis.conclusions.runs import seed_runs
from paper_tables.frame import Frame, Numbers

BLEU_METRIC = METRIC_BY_PAIR["en-de"]
ADDED_AFTER_A_LOOK = "added after a look"
RunsBySystem = dict[str, list[SeedRun]]


class Readings(msgspec.Struct, frozen=True, kw_only=True):
    """All readings of a scale's contrasts, and two special readings: `slopes` and `training_bits`.

    `place_by_name` has the test set and the metric of each reading that takes other numbers than
    bits on dev. `slopes` asks whether an effect still moves, with Holm's correction.
    `training_bits` are exploratory and not tested; their rows have the control's dropout and
    smoothing.
    """

    readings: tuple[Reading, ...]
    slopes: Reading
    training_bits: Reading
    place_by_name: Mapping[str, tuple[str, str]]

    def moves(self, row: str) -> bool:
        """Return whether the effect of a row still moves at the end of the updates."""
        return self.slopes.holm_by_row is not None and self.slopes.holm_by_row.get(row, 1.0) < ALPHA


def make_readings(frame: Frame, rows: Sequence[str]) -> Readings:
    """Return the readings of some systems, each against base, on the En-De corpus of a scale."""
    control = REFERENCE_SYSTEM
    runs = _started_by_system(frame, frame.numbers)
    bits = _values(runs, lambda run: run.value)
    place_by_name: dict[str, tuple[str, str]] = {}

    def read(kind: Kind, name: str, values: ValuesBySystem) -> Reading:
        """Return the reading of a quantity; BLEU is better the higher it is."""
        less_is_better = name not in place_by_name or place_by_name[name][1] == BITS_METRIC
        return read_pooled(kind, name, values, rows, control, less_is_better=less_is_better)

    welch = read_welch(bits, rows, control, "Welch")
    readings = [correct_by_holm(read("variance", "", bits), "Holm"), welch]
    readings.append(correct_by_holm(welch, "Welch with Holm"))
    readings += leave_seeds_out(bits, rows, control)
    later = _started_by_system(frame, frame.later_numbers)
    later_bits = _values(
        {name: later[name] for name in bits if name in later}, lambda run: run.value
    )
    if later_bits:
        name = f"all seeds ({ADDED_AFTER_A_LOOK})"
        readings.append(read("seeds", name, merge_seeds(bits, later_bits)))
    keys = _keys_by_testset(frame)
    dev, *further = keys
    for testset in further:
        name = f"bits on {testset}"
        place_by_name[name] = (testset, BITS_METRIC)
        values = _numbers_on(frame, keys[testset], BITS_METRIC, runs)
        readings.append(read("text", name, values))
    last = _values(runs, lambda run: run.mean_of_last)
    readings.append(read("metric", "mean of the last three validations", last))
    for testset in (dev, *further):
        name = f"BLEU on {testset}"
        place_by_name[name] = (testset, BLEU_METRIC)
        values = _numbers_on(frame, keys[testset], BLEU_METRIC, runs)
        readings.append(read("metric", name, values))
    for share in SHARES:
        values = _values(runs, operator.methodcaller("bits_at", share))
        readings.append(read("horizon", f"{share * 100:.0f} % of the updates", values))
    readings.append(_reading_at_horizon(frame, rows))
    slopes = read("horizon", "slopes", _values(runs, lambda run: run.slope_at_end))
    return Readings(
        readings=tuple(reading for reading in readings if reading.estimate_by_row),
        slopes=correct_by_holm(slopes, "slopes"),
        training_bits=_training_bits(frame, rows, control),
        place_by_name=place_by_name,
    )


def _reading_at_horizon(frame: Frame, rows: Sequence[str]) -> Reading:
    """Return the reading at 16,000 updates, for the rows with such a run next to base's."""
    estimates: dict[str, Estimate] = {}
    for contrast in compare_at_horizon(long_runs(frame)):  # confirmatory seeds come first
        estimate = contrast.estimate(bits_of)
        if contrast.system in rows and estimate is not None:
            estimates.setdefault(contrast.system, estimate)
    return Reading(kind="horizon", name=f"{HORIZON_UPDATES:,} updates", estimate_by_row=estimates)


def _keys_by_testset(frame: Frame) -> dict[str, list[CellKey]]:
    """Return the last checkpoints' cells of the En-De corpus by test set: dev, then the further
    test sets.
    """
    corpus = frame.corpus_by_pair["en-de"]
    found: dict[str, list[CellKey]] = {}
    for role in ("dev", "further"):
        for key in frame.keys:
            if (key.corpus, key.average, key.role) == (corpus, COMPARED_AVERAGE, role):
                found.setdefault(key.testset, []).append(key)
    return found


def _started_by_system(frame: Frame, numbers: Numbers) -> RunsBySystem:
    """Return the runs of every system in bits on dev, without those that did not start."""
    corpus = frame.corpus_by_pair["en-de"]
    runs = {}
    for (key, metric), number in numbers.items():
        is_dev = (key.corpus, key.average, key.role) == (corpus, COMPARED_AVERAGE, "dev")
        if is_dev and metric == BITS_METRIC and number.values:
            runs[key.system] = started_runs(seed_runs(frame, number, numbers))
    return runs


def _values(
    runs: Mapping[str, Sequence[SeedRun]], value_of: Callable[[SeedRun], float | None]
) -> dict[str, dict[int, float]]:
    """Return a quantity by system and seed; empty if a seed of the system lacks a value."""
    values = {}
    for system, some in runs.items():
        seeds = [run.seed for run in some]
        values[system] = dict(zip(seeds, known_values(some, value_of), strict=False))
    return values


def _numbers_on(
    frame: Frame, keys: Sequence[CellKey], metric: str, runs: RunsBySystem
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


def _training_bits(frame: Frame, rows: Sequence[str], control: str) -> Reading:
    """Return the reading of bits on training batches, for the rows with the control's dropout and
    smoothing.
    """
    corpus = frame.corpus_by_pair["en-de"]
    values: dict[str, dict[int, float]] = {}
    for (run_corpus, system), runs in frame.runs_by_system.items():
        if run_corpus != corpus or not _is_regularised_alike(frame, system, control):
            continue
        values[system] = {}
        for run in runs:
            bits = mean_of_last_fifth(run)
            if run.seed is not None and bits is not None:
                values[system][run.seed] = bits
    comparable = [row for row in rows if values.get(row)]
    return read_pooled("metric", "bits on training batches", values, comparable, control)


def _is_regularised_alike(frame: Frame, system: str, control: str) -> bool:
    spec, control_spec = map(frame.system_by_name.get, (system, control))
    if spec is None or control_spec is None:
        return False
    own, other = spec.training, control_spec.training
    return (own.p_drop, own.eps_ls) == (other.p_drop, other.eps_ls)
