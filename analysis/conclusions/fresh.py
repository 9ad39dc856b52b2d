"""Answers decision 0013's questions: recurrence and convolution, heads or d_k, other readings.

All seeds are fresh, that is, they were not used before the decision. The quantity is bits per
subword on dev: the mean of a run's last three validations. A contrast is a system minus its
control. The standard error uses two variances: base's own, and a variance pooled over the other
systems of the family. A contrast without base uses the pooled variance on both sides.

Each contrast has two questions: is there a difference (two-sided t-test), and is it smaller than
MARGIN_OF_ABSENCE (two one-sided t-tests)? Holm's correction runs within a family, once over each
question. The rule runs on a family when all of its trainings have ended. Until then its numbers are
shown without answers, together with a list of the missing trainings. If a side has fewer than two
seeds, or if the runs used two kinds of device, a sentence replaces the number.
"""

import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec

from aiayn.printed import COMPARED_AVERAGE, PUBLISHED_FOLDER, REFERENCE_SYSTEM, read_rows
from aiayn.scoring.scores import BITS_METRIC
from aiayn.scoring.verdict import ALPHA, PooledSd, holm_adjusted, pool_sd
from aiayn.spec.sheet import SheetRow, read_sheet
from aiayn.spec.system import CONFIG_FOLDER
from analysis.conclusions.answers import (
    MARGIN_OF_ABSENCE,
    Estimate,
    estimate_difference,
    estimate_welch,
)
from analysis.conclusions.contrasts import SeedRun, started_runs
from analysis.conclusions.rates import PRINTED_RATE, RateProbes
from analysis.conclusions.runs import seed_runs
from paper_tables.frame import Frame, Number
from paper_tables.rounding import BITS, rounded

SHEET_PATH = CONFIG_FOLDER / "trainings" / "attention.tsv"
FIRST_FRESH_SEED = 21
MIN_SEEDS = 2
# One thread's CPU seconds, measured apart from the trainings, in interleaved rounds.
SECONDS_PATH = PUBLISHED_FOLDER.parent / "measured" / "attention" / "seconds.csv"
BETTER_RATE_BITS = 0.020  # by more than this, a better rate of base is said next to the answers
UNDECIDED = "undecided"


class FreshContrast(NamedTuple):
    """A question of decision 0013: a system minus its control, with the predicted sign."""

    system: str
    control: str = REFERENCE_SYSTEM
    predicted: str = ""

    @property
    def name(self) -> str:
        """The contrast in words."""
        return f"{self.system} minus {self.control}"


class FreshFamily(NamedTuple):
    """Contrasts that are corrected together by Holm, and the rows of the sheet with their
    trainings.
    """

    contrasts: tuple[FreshContrast, ...]
    rows: tuple[SheetRow, ...]

    @property
    def systems(self) -> list[str]:
        """The systems of this family of contrasts, without base."""
        return [row.system for row in self.rows if row.system != REFERENCE_SYSTEM]

    @property
    def trainings(self) -> list[tuple[str, int]]:
        """The system and seed of every training of the family, base's first."""
        return [(row.system, seed) for row in self.rows for seed in row.seeds]


def _rows_for(family: str) -> tuple[SheetRow, ...]:
    """Return the rows that decision 0013 requires in one of its families."""
    word = f"decision0013-{family}"
    return tuple(row for row in read_sheet(SHEET_PATH) if word in row.asked_by)


# At four and eight times equation (3)'s rate, which their probes chose on seed 101.
LSTM, FCONV = "rate_fourfold_lstm", "rate_eightfold_fconv"
# The speed of an update does not depend on the rate, and was measured for the systems without one.
TIMED_AS = {REFERENCE_SYSTEM: REFERENCE_SYSTEM, LSTM: "lstm", FCONV: "fconv"}
RECURRENCE = FreshFamily(
    (FreshContrast(LSTM, predicted="higher"), FreshContrast(FCONV, predicted="higher")),
    _rows_for("recurrence"),
)
H1, H4 = "table3_a_h1", "table3_a_h4"
MORE_D_K, FEWER_HEADS = "cross_h8_dk32", "cross_h4_dk16"
HEADS = FreshFamily(
    (
        FreshContrast(MORE_D_K, predicted="lower (about -0.06)"),
        FreshContrast(FEWER_HEADS, predicted="not lower"),
        FreshContrast(H4),
        FreshContrast(H1),
        FreshContrast(H1, H4),
    ),
    _rows_for("heads"),
)
_READING_ROWS = _rows_for("readings")
MODEL_READINGS = FreshFamily(
    tuple(FreshContrast(row.system) for row in _READING_ROWS if row.system != REFERENCE_SYSTEM),
    _READING_ROWS,
)
# What the decision says of the crossing systems, by whether each of the two is lower.
HEADS_OR_D_K = {
    (True, False): "The effect follows d_k: more numbers in a query help, fewer heads do not.",
    (False, True): "The effect follows the number of heads.",
    (True, True): "Either helps alone; rows (A) show both.",
    (False, False): (
        "The gain of 4 heads needs both together, or was chance: 4 heads minus base decides which."
    ),
}


RunsBySystem = Mapping[str, Sequence[SeedRun]]


# Our numbers of the last checkpoints with fresh seeds only, by system, test set and metric.
FreshNumbers = dict[tuple[str, str, str], Number]
DEV = "dev"  # in place of the test set's name: the corpus's test set of that role


class ComparedContrast(msgspec.Struct, frozen=True, kw_only=True):
    """A contrast with its numbers. If the estimate is missing, `problem` says why.

    `runs` are the fresh runs of its system. `answer` is '' until all trainings of the family have
    ended. The p-values are corrected by Holm within the family.
    """

    contrast: FreshContrast
    runs: Sequence[SeedRun] = ()
    estimate: Estimate | None = None
    problem: str = ""
    answer: str = ""
    holm_difference: float | None = None
    holm_within: float | None = None


def fresh_numbers(frame: Frame) -> FreshNumbers:
    """Return our numbers on the En-De corpus, restricted to fresh seeds."""
    corpus = frame.corpus_by_pair["en-de"]
    fresh: FreshNumbers = {}
    for numbers in (frame.later_numbers, frame.numbers):
        for (key, metric), number in numbers.items():
            if (key.corpus, key.average) != (corpus, COMPARED_AVERAGE):
                continue
            values = []
            for run, value in number.values:
                if run.seed is not None and run.seed >= FIRST_FRESH_SEED:
                    values.append((run, value))
            if values:
                name = (key.system, DEV if key.role == DEV else key.testset, metric)
                of_fresh = msgspec.structs.replace(number, values=tuple(values), missing=())
                fresh.setdefault(name, of_fresh)
    return fresh


def fresh_runs(frame: Frame) -> dict[str, list[SeedRun]]:
    """Return the finished runs with fresh seeds on the En-De corpus, by system and in order of
    seed. Their value is the mean of the last three validations.
    """
    # The later numbers have the fresh seeds, so they win where a system has both.
    numbers = frame.numbers | frame.later_numbers
    runs: dict[str, list[SeedRun]] = {}
    for (system, testset, metric), number in fresh_numbers(frame).items():
        if (testset, metric) != (DEV, BITS_METRIC):
            continue
        for run in seed_runs(frame, number, numbers):
            if run.mean_of_last is not None:
                last = msgspec.structs.replace(run, value=run.mean_of_last)
                runs.setdefault(system, []).append(last)
    return runs


def missing_trainings(family: FreshFamily, runs_by_system: RunsBySystem) -> dict[str, list[int]]:
    """Return the seeds of a family's trainings that have not ended, by system."""
    missing: dict[str, list[int]] = {}
    for system, seed in family.trainings:
        if all(run.seed != seed for run in runs_by_system.get(system, ())):
            missing.setdefault(system, []).append(seed)
    return missing


def compare_family(family: FreshFamily, runs_by_system: RunsBySystem) -> list[ComparedContrast]:
    """Return every contrast of a family by the rule of decision 0013, in the family's order."""
    runs: dict[str, list[SeedRun]] = {}
    for system, seed in family.trainings:
        family_runs = [run for run in runs_by_system.get(system, ()) if run.seed == seed]
        runs.setdefault(system, []).extend(family_runs)
    started = {system: started_runs(system_runs) for system, system_runs in runs.items()}
    values = {}
    for system, system_runs in started.items():
        values[system] = [run.value for run in system_runs]
    # Base has more seeds than a row, and its own variance: it stays out of the pooled one.
    own_pooled = pool_sd({REFERENCE_SYSTEM: values[REFERENCE_SYSTEM]}, with_bartlett=False)
    other_values = {system: bits for system, bits in values.items() if system != REFERENCE_SYSTEM}
    pooled = pool_sd(other_values, with_bartlett=False)
    compared = []
    for contrast in family.contrasts:
        problem = _problem(contrast, started)
        estimate = None
        if not problem and pooled is not None:
            estimate = _estimate(contrast, values, pooled, own_pooled)
        line = ComparedContrast(
            contrast=contrast,
            runs=runs_by_system.get(contrast.system, ()),
            estimate=estimate,
            problem=problem,
        )
        compared.append(line)
    if missing_trainings(family, runs_by_system):
        return compared
    return _answer(compared, runs)


def _problem(contrast: FreshContrast, runs_by_system: RunsBySystem) -> str:
    """Return one sentence that says why a contrast cannot have a number, or '' if it can."""
    devices: set[str] = set()
    for system in (contrast.system, contrast.control):
        runs = runs_by_system[system]
        if len(runs) < MIN_SEEDS:
            return f"No number: {system} has {len(runs)} seed(s), expected {MIN_SEEDS} or more."
        devices |= {run.device for run in runs}
    if len(devices) > 1:
        return (
            f"No number: trained on {' and '.join(sorted(devices))}, expected one kind of device."
        )
    return ""


def _estimate(
    contrast: FreshContrast,
    values: Mapping[str, Sequence[float]],
    pooled: PooledSd,
    pooled_base: PooledSd | None,
) -> Estimate:
    """Return the estimate of a contrast. Both sides must have at least two seeds."""
    sides = values[contrast.system], values[contrast.control]
    difference = statistics.mean(sides[0]) - statistics.mean(sides[1])
    numbers = len(sides[0]), len(sides[1])
    if contrast.control != REFERENCE_SYSTEM or pooled_base is None:
        return estimate_difference(difference, pooled, *numbers)
    return estimate_welch(difference, numbers, pooled, pooled_base)


def _answer(
    compared: Sequence[ComparedContrast], runs_by_system: RunsBySystem
) -> list[ComparedContrast]:
    """Return the contrasts of a family, with answers. All trainings of the family must have ended.

    A contrast with a run that did not start to learn is not answered and does not enter the
    correction.
    """
    # By index, because a control may occur in several contrasts of a family.
    estimate_by_index = {}
    unstarted = {}
    for index, line in enumerate(compared):
        for system in (line.contrast.system, line.contrast.control):
            runs = runs_by_system[system]
            num_unstarted = len(runs) - len(started_runs(runs))
            if num_unstarted:
                unstarted[index] = f"{system} did not start ({num_unstarted} of {len(runs)})"
        if line.estimate is not None and index not in unstarted:
            estimate_by_index[index] = line.estimate
    p_difference = [estimate.p_difference for estimate in estimate_by_index.values()]
    p_within = [estimate.p_within(MARGIN_OF_ABSENCE) for estimate in estimate_by_index.values()]
    holm_difference = dict(zip(estimate_by_index, holm_adjusted(p_difference), strict=True))
    holm_within = dict(zip(estimate_by_index, holm_adjusted(p_within), strict=True))
    answered = []
    for index, line in enumerate(compared):
        if index in unstarted:
            answered.append(msgspec.structs.replace(line, answer=unstarted[index]))
        elif index in estimate_by_index:
            with_answer = msgspec.structs.replace(
                line,
                answer=_answer_words(
                    estimate_by_index[index], holm_difference[index], holm_within[index]
                ),
                holm_difference=holm_difference[index],
                holm_within=holm_within[index],
            )
            answered.append(with_answer)
        else:
            answered.append(line)
    return answered


def _answer_words(estimate: Estimate, holm_difference: float, holm_within: float) -> str:
    is_within = holm_within < ALPHA
    if holm_difference < ALPHA:
        direction = "lower" if estimate.difference < 0 else "higher"
        return f"{direction}, within {MARGIN_OF_ABSENCE}" if is_within else direction
    return f"equal within {MARGIN_OF_ABSENCE}" if is_within else UNDECIDED


def heads_sentence(compared: Sequence[ComparedContrast]) -> str:
    """Return decision 0013's conclusion on the two systems that separate the number of heads from
    d_k, or '' until both are answered.

    An undecided system counts as not lower.
    """
    is_lower = {}
    for line in compared:
        if line.contrast.system in (MORE_D_K, FEWER_HEADS) and line.holm_difference is not None:
            is_lower[line.contrast.system] = line.answer.startswith("lower")
    if len(is_lower) < 2:
        return ""
    return HEADS_OR_D_K[is_lower[MORE_D_K], is_lower[FEWER_HEADS]]


def final_bits(runs: Sequence[SeedRun]) -> float:
    """Return the mean over runs of the bits at the last validation."""
    return statistics.mean(run.bits_by_update[max(run.bits_by_update)] for run in runs)


def updates_until(bits_by_update: Mapping[int, float], target_bits: float) -> float | None:
    """Return the update at which a run first reaches the target, by linear interpolation between
    validations.

    Return None if the run never reaches it. If the first validation already reaches it, return the
    update of this validation.
    """
    before: tuple[int, float] | None = None
    for update, bits in sorted(bits_by_update.items()):
        if bits <= target_bits:
            if before is None or before[1] == bits:
                return float(update)
            share = (before[1] - target_bits) / (before[1] - bits)
            return before[0] + share * (update - before[0])
        before = (update, bits)
    return None


class _TimedUpdates(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The CPU seconds of some updates of a system, in one round of the measurement of speed."""

    system: str
    round: int
    updates: int
    cpu_seconds: float


def read_seconds_an_update(path: Path = SECONDS_PATH) -> dict[str, list[float]]:
    """Return the CPU seconds that an update takes, by system, with one value for each round of the
    benchmark. The result is empty if the file does not exist.

    Raises:
        TableError: the file is malformed.
    """
    seconds: dict[str, list[float]] = {}
    for _, timed in read_rows(path, _TimedUpdates) if path.exists() else ():
        seconds.setdefault(timed.system, []).append(timed.cpu_seconds / timed.updates)
    return seconds


def better_rate_sentence(probes: RateProbes | None) -> str:
    """Return a sentence if base was better at a learning rate other than equation (3)'s, by more
    than BETTER_RATE_BITS. Return '' otherwise.

    This needs a probe of base at equation (3)'s rate.
    """
    bits_by_rate = {} if probes is None else probes.bits_by_system.get(REFERENCE_SYSTEM, {})
    if PRINTED_RATE not in bits_by_rate:
        return ""
    best = min(bits_by_rate, key=bits_by_rate.__getitem__)
    gain = bits_by_rate[PRINTED_RATE] - bits_by_rate[best]
    if gain <= BETTER_RATE_BITS:
        return ""
    return (
        f"Base itself is better by {rounded(gain, BITS)} bits at {best:g} times equation (3)'s rate"
        " (seed 101, probe), but keeps equation (3)'s."
    )
