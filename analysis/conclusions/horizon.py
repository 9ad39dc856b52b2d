"""Compares bigger models with base at 16,000 updates: whether "bigger is better" outlives 8,000.

Decision 0012 fixed the seeds, the quantity and the predictions.

Equation (3) has no horizon, so a longer run contains the shorter run. A system that `begins_from`
another continues its runs from their last update; the curve joins both runs. Big needs no such
system, because its own file has 16,000 updates.
"""

import statistics
from collections.abc import Callable, Mapping, Sequence

import msgspec

from aiayn.printed import COMPARED_AVERAGE, METRIC_BY_PAIR, REFERENCE_SYSTEM
from aiayn.scoring.scores import BITS_METRIC
from aiayn.scoring.verdict import pool_sd
from analysis.conclusions.answers import Estimate, estimate_difference
from analysis.conclusions.contrasts import mean_of_last_validations
from paper_tables.frame import Frame, Number, Run

HORIZON_UPDATES = 16_000
SHOWN_UPDATES = (8_000, 10_400, 12_800, 15_200, 16_000)  # at which both base and big are validated
CONFIRMATORY_SEEDS = {"base": (11, 12, 13), "table3_c_dmodel1024": (7, 8), "big": (6,)}
READING_SEEDS = {"big": (5,)}  # seen before decision 0012 was written
PREDICTED_BITS = {"table3_c_dmodel1024": -0.11, "big": -0.12}  # row minus base at 16,000 updates
TRAINING_SHARE = 0.8  # bits on training batches are the mean over the last fifth of a run
CONFIRMATORY, READING = "confirmatory", "reading: seen before"


class LongRun(msgspec.Struct, frozen=True, kw_only=True):
    """A run to the horizon: bits on dev by its last checkpoint and by update.

    `number` is the number that the run belongs to. `bleu_by_testset` has the BLEU of the last
    checkpoint. `training_bits` are the bits on training batches over the last fifth of the updates;
    None without a log.
    """

    seed: int
    bits: float
    bits_by_update: Mapping[int, float]
    number: Number
    bleu_by_testset: Mapping[str, float] = {}
    training_bits: float | None = None

    @property
    def mean_of_last(self) -> float | None:
        """The mean of the last three validations; None without a curve."""
        return mean_of_last_validations(self.bits_by_update)

    @property
    def best_bits(self) -> float | None:
        """The best validation; None without a curve."""
        return min(self.bits_by_update.values(), default=None)


Quantity = Callable[[LongRun], float | None]


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

    def minus(self, value_of: Quantity) -> float | None:
        """Return the mean of a quantity over the row's runs, minus the mean over base's; None
        unless every run has it.
        """
        row, control = _known(self.runs, value_of), _known(self.controls, value_of)
        return statistics.mean(row) - statistics.mean(control) if row and control else None

    def estimate(self, value_of: Quantity) -> Estimate | None:
        """Return the difference of a quantity with its standard error; None without a value or an
        sd.
        """
        difference = self.minus(value_of)
        values = {system: _known(runs, value_of) for system, runs in self.confirmatory.items()}
        pooled = pool_sd(values, with_bartlett=False)
        if difference is None or pooled is None:
            return None
        return estimate_difference(difference, pooled, len(self.runs), len(self.controls))


def _known(runs: Sequence[LongRun], value_of: Quantity) -> list[float]:
    """Return a quantity of each run; empty if a run lacks it."""
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
                seed=run.seed,
                bits=value,
                bits_by_update=curve,
                number=number,
                bleu_by_testset=bleu.get((key.system, run.seed), {}),
                training_bits=mean_of_last_fifth(run),
            )
    runs_by_system = {}
    for system, run_by_seed in found.items():
        runs_by_system[system] = sorted(run_by_seed.values(), key=lambda run: run.seed)
    return runs_by_system


def _bleu_by_testset(frame: Frame) -> dict[tuple[str, int], dict[str, float]]:
    """Return the BLEU of the last checkpoint by system and seed, then by test set."""
    corpus, metric = frame.corpus_by_pair["en-de"], METRIC_BY_PAIR["en-de"]
    found: dict[tuple[str, int], dict[str, float]] = {}
    for (key, name), number in (*frame.numbers.items(), *frame.later_numbers.items()):
        is_last = (key.corpus, key.average, name) == (corpus, COMPARED_AVERAGE, metric)
        if is_last and key.role in ("dev", "further"):
            for seed, value in number.value_by_seed.items():
                found.setdefault((key.system, seed), {})[key.testset] = value
    return found


def mean_of_last_fifth(run: Run) -> float | None:
    """Return the mean of a finished run's training bits over its last fifth; None without a log."""
    if run.train is None:
        return None
    first = TRAINING_SHARE * run.train.updates
    late = [bits for update, bits in run.training_bits_by_update.items() if update > first]
    return sum(late) / len(late) if late else None


def compare_at_horizon(runs_by_system: Mapping[str, Sequence[LongRun]]) -> list[HorizonContrast]:
    """Return the contrasts of decision 0012 that have a run on both sides.

    For each system, the contrast of seeds that had been seen before follows. A side with one seed
    takes the sd of the other systems. If no system has two seeds, no interval is given.
    """
    confirmatory = {}
    for system, seeds in CONFIRMATORY_SEEDS.items():
        confirmatory[system] = _with_seeds(runs_by_system, system, seeds)
    controls = confirmatory[REFERENCE_SYSTEM]
    contrasts = []
    for system in PREDICTED_BITS:
        seen = _with_seeds(runs_by_system, system, READING_SEEDS.get(system, ()))
        for kind, runs in ((CONFIRMATORY, confirmatory[system]), (READING, seen)):
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
    runs_by_system: Mapping[str, Sequence[LongRun]], system: str, seeds: Sequence[int]
) -> list[LongRun]:
    return [run for run in runs_by_system.get(system, []) if run.seed in seeds]
