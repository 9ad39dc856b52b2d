"""Answers the questions of decision 0013: attention against recurrence and convolution, the number
of heads against d_k, and other readings (interpretations) of the paper's model.

A seed is *fresh* if it was not used before the decision. Only fresh seeds count in this module.
Systems are compared in bits per subword on dev: the mean of a run's last three validations. A
contrast is the difference between a system and its control, which is base unless the contrast says
otherwise. The contrasts of one question are a *family*. The standard error of a contrast uses two
variances over seeds: base's own, and a variance pooled over the other systems of the family. A
contrast between two systems other than base uses the pooled variance for both systems.

Each contrast has two tests: is there a difference (two-sided t-test), and is it smaller than
MARGIN_OF_ABSENCE (two one-sided t-tests)? Holm's correction is applied within a family, separately
to the tests for a difference and to the tests for the absence of a difference. A family gets its
answers when all of its trainings have ended. While trainings of a family are missing, its numbers
are shown without answers, together with a list of the missing trainings. If a system of a contrast
has fewer than two seeds, or if the runs of its systems used two kinds of device, a sentence
replaces the number.
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
# The file has CPU seconds of one thread. tests/benchmarks/bench_architectures.py wrote it. Its
# rounds are interleaved, so that other work on the machine affects all systems alike.
SECONDS_PATH = PUBLISHED_FOLDER.parent / "measured" / "attention" / "seconds.csv"
BETTER_RATE_BITS = 0.020  # if base gains more at a different rate, each answer says so (0013)
UNDECIDED = "undecided"


class FreshContrast(NamedTuple):
    """A contrast of decision 0013: a system minus its control, with the direction that the decision
    predicts. `predicted` is empty if the decision predicts nothing for this contrast.
    """

    system: str
    control: str = REFERENCE_SYSTEM
    predicted: str = ""

    @property
    def name(self) -> str:
        """The name of the contrast, such as `lstm minus base`."""
        return f"{self.system} minus {self.control}"


class FreshFamily(NamedTuple):
    """A family: contrasts that Holm's correction treats together (`contrasts`), and the rows of the
    sheet (the list of trainings) with the trainings that these contrasts need (`rows`).
    """

    contrasts: tuple[FreshContrast, ...]
    rows: tuple[SheetRow, ...]

    @property
    def systems(self) -> list[str]:
        """The systems that the contrasts of this family compare, without base."""
        return [row.system for row in self.rows if row.system != REFERENCE_SYSTEM]

    @property
    def trainings(self) -> list[tuple[str, int]]:
        """The system and seed of every training that the contrasts of the family need, base's
        first.
        """
        return [(row.system, seed) for row in self.rows for seed in row.seeds]


def _rows_for(family: str) -> tuple[SheetRow, ...]:
    """Return the rows of the sheet (the list of trainings) for a family of contrasts."""
    # The column `asked_by` may list several families, such as in the row of base:
    # `decision0013-recurrence decision0013-heads decision0013-readings`.
    word = f"decision0013-{family}"
    return tuple(row for row in read_sheet(SHEET_PATH) if word in row.asked_by)


# The LSTM and the convolutional model at four and eight times the learning rate of equation (3).
# Their probes with seed 101 needed the fewest bits at these rates.
LSTM, FCONV = "rate_fourfold_lstm", "rate_eightfold_fconv"
# The time of an update does not depend on the learning rate. It was measured with the systems
# `lstm` and `fconv`, which have equation (3)'s rate.
TIMED_AS = {REFERENCE_SYSTEM: REFERENCE_SYSTEM, LSTM: "lstm", FCONV: "fconv"}
RECURRENCE = FreshFamily(
    (FreshContrast(LSTM, predicted="higher"), FreshContrast(FCONV, predicted="higher")),
    _rows_for("recurrence"),
)
H1, H4 = "table3_a_h1", "table3_a_h4"
# Rows (A) of Table 3 change the number of heads and d_k together. In each of these two systems,
# only one of the two differs from base (h 8, d_k 16).
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
# What decision 0013 says about these two systems, by (whether MORE_D_K is lower than base, whether
# FEWER_HEADS is). The sentences were written before the trainings.
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
DEV = "dev"  # replaces the name of the corpus's test set with this role


class ComparedContrast(msgspec.Struct, frozen=True, kw_only=True):
    """A contrast with our measured difference. If the difference could not be estimated, `estimate`
    is None, and `problem` says why.

    `runs` are the runs of the system with fresh seeds, without the runs of the control. `answer` is
    '' until all trainings for the family of contrasts have ended. The p-values are after Holm's
    correction within the family.
    """

    contrast: FreshContrast
    runs: Sequence[SeedRun] = ()
    estimate: Estimate | None = None
    problem: str = ""
    answer: str = ""
    holm_difference: float | None = None
    holm_within: float | None = None


def fresh_numbers(frame: Frame) -> FreshNumbers:
    """Return our numbers on the En-De corpus, restricted to fresh seeds (seeds first used for
    decision 0013).
    """
    corpus = frame.corpus_by_pair["en-de"]
    fresh: FreshNumbers = {}
    # The trainings of decision 0013 are in `later_numbers`, because no printed row uses them.
    # `setdefault` below keeps this first number if a system is in both.
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
                # `missing` counts trainings with earlier seeds, too. `missing_trainings` lists the
                # fresh ones.
                of_fresh = msgspec.structs.replace(number, values=tuple(values), missing=())
                fresh.setdefault(name, of_fresh)
    return fresh


def fresh_runs(frame: Frame) -> dict[str, list[SeedRun]]:
    """Return the finished runs with fresh seeds on the En-De corpus, by system and in order of
    seed. The value of a run is the mean bits per subword of its last three validations.
    """
    # The right side of `|` wins: the later numbers have the fresh seeds.
    numbers = frame.numbers | frame.later_numbers
    runs: dict[str, list[SeedRun]] = {}
    for (system, testset, metric), number in fresh_numbers(frame).items():
        if (testset, metric) != (DEV, BITS_METRIC):
            continue
        for run in seed_runs(frame, number, numbers):
            # A run without the last validations in its log does not have the primary quantity.
            # `missing_trainings` then lists it.
            if run.mean_of_last is not None:
                last = msgspec.structs.replace(run, value=run.mean_of_last)
                runs.setdefault(system, []).append(last)
    return runs


def missing_trainings(family: FreshFamily, runs_by_system: RunsBySystem) -> dict[str, list[int]]:
    """Return the seeds of a family's trainings that have not ended yet, by system."""
    missing: dict[str, list[int]] = {}
    for system, seed in family.trainings:
        if all(run.seed != seed for run in runs_by_system.get(system, ())):
            missing.setdefault(system, []).append(seed)
    return missing


def runs_of_family(family: FreshFamily, runs_by_system: RunsBySystem) -> dict[str, list[SeedRun]]:
    """Return the runs with the seeds that decision 0013 lists for a family, by system."""
    # Other seeds do not count. Otherwise one could add seeds until a test passes.
    runs: dict[str, list[SeedRun]] = {}
    for system, seed in family.trainings:
        family_runs = [run for run in runs_by_system.get(system, ()) if run.seed == seed]
        runs.setdefault(system, []).extend(family_runs)
    return runs


def compare_family(family: FreshFamily, runs_by_system: RunsBySystem) -> list[ComparedContrast]:
    """Return every contrast of a family with its measured difference and its answer by decision
    0013.
    """
    runs = runs_of_family(family, runs_by_system)
    started = {system: started_runs(system_runs) for system, system_runs in runs.items()}
    values = {}
    for system, system_runs in started.items():
        values[system] = [run.value for run in system_runs]
    # Decision 0013: base has a variance of its own. Its six seeds are enough for this, the two or
    # three seeds of any other system are not.
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
    # Holm's correction depends on all p-values of the family, so a partial family has no answers.
    if missing_trainings(family, runs_by_system):
        return compared
    return _answer(compared, runs)


def _problem(contrast: FreshContrast, runs_by_system: RunsBySystem) -> str:
    """Return one sentence that says why the difference of a contrast cannot be computed, or '' if
    it can.
    """
    devices: set[str] = set()
    for system in (contrast.system, contrast.control):
        runs = runs_by_system[system]
        if len(runs) < MIN_SEEDS:
            return f"No number: {system} has {len(runs)} seed(s), expected {MIN_SEEDS} or more."
        devices |= {run.device for run in runs}
    # A GPU and a CPU add in a different order, so the same seed would give different runs. The
    # effect of the device would be mixed with the effect of the system.
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
    """Return the estimate of the difference between two systems with at least two seeds each."""
    sides = values[contrast.system], values[contrast.control]
    difference = statistics.mean(sides[0]) - statistics.mean(sides[1])
    numbers = len(sides[0]), len(sides[1])
    # Both systems share the pooled variance, as in `h1 minus h4`.
    if contrast.control != REFERENCE_SYSTEM or pooled_base is None:
        return estimate_difference(difference, pooled, *numbers)
    return estimate_welch(difference, numbers, pooled, pooled_base)


def _answer(
    compared: Sequence[ComparedContrast], runs_by_system: RunsBySystem
) -> list[ComparedContrast]:
    """Return the contrasts of a family with their answers. All trainings of the family must have
    ended.

    If a run of the system or of its control did not start to learn, the answer of the contrast says
    so, and the contrast does not enter Holm's correction.
    """
    # The key is the index, because a system may occur in several contrasts of a family.
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
    # Decision 0013 corrects the tests of difference and the tests of equivalence separately.
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
    # A difference can be significant and still be smaller than the margin. Then the answer is the
    # direction, with "within 0.05" next to it.
    is_within = holm_within < ALPHA
    if holm_difference < ALPHA:
        direction = "lower" if estimate.difference < 0 else "higher"
        return f"{direction}, within {MARGIN_OF_ABSENCE}" if is_within else direction
    return f"equal within {MARGIN_OF_ABSENCE}" if is_within else UNDECIDED


def heads_sentence(compared: Sequence[ComparedContrast]) -> str:
    """Return decision 0013's conclusion from the two systems that separate the number of heads from
    d_k. Return '' until both systems have an answer.

    A system whose answer is "undecided" counts as not lower than base.
    """
    is_lower = {}
    for line in compared:
        # "lower, within 0.05" is also lower. A contrast with an unstarted run has an answer, but no
        # p-value: it does not lead to a conclusion.
        if line.contrast.system in (MORE_D_K, FEWER_HEADS) and line.holm_difference is not None:
            is_lower[line.contrast.system] = line.answer.startswith("lower")
    if len(is_lower) < 2:
        return ""
    return HEADS_OR_D_K[is_lower[MORE_D_K], is_lower[FEWER_HEADS]]


def final_bits(runs: Sequence[SeedRun]) -> float:
    """Return the bits per subword at the last validation of each run, averaged over the runs."""
    return statistics.mean(run.bits_by_update[max(run.bits_by_update)] for run in runs)


def updates_until(bits_by_update: Mapping[int, float], target_bits: float) -> float | None:
    """Return the update at which a run's validations first reach `target_bits`, interpolated
    linearly between validations.

    Return None if the run never reaches the target number of bits. If the first validation already
    reaches the target, return the update of this validation.
    """
    before: tuple[int, float] | None = None
    for update, bits in sorted(bits_by_update.items()):
        if bits <= target_bits:
            # The first validation has no earlier validation to interpolate from.
            if before is None:
                return float(update)
            share = (before[1] - target_bits) / (before[1] - bits)
            return before[0] + share * (update - before[0])
        before = (update, bits)
    return None


class _TimedUpdates(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The CPU seconds that a number of updates of a system took, in one round of the speed
    benchmark.
    """

    system: str
    round: int
    updates: int
    cpu_seconds: float


def read_seconds_an_update(path: Path = SECONDS_PATH) -> dict[str, list[float]]:
    """Return the CPU seconds that one update takes, by system, with one value for each round of the
    speed benchmark. The result is empty if the file does not exist.

    Raises:
        TableError: the file is malformed.
    """
    seconds: dict[str, list[float]] = {}
    for _, timed in read_rows(path, _TimedUpdates) if path.exists() else ():
        seconds.setdefault(timed.system, []).append(timed.cpu_seconds / timed.updates)
    return seconds


def better_rate_sentence(probes: RateProbes | None) -> str:
    """Return a sentence if base was better with a different learning rate than equation (3)'s, by
    more than BETTER_RATE_BITS. Return '' if base was not better with a different learning rate.

    The result is also '' if there is no short trial training of base at equation (3)'s learning
    rate to compare with.
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
