"""Selects the runs of a scale's systems from its frame (all results of the scale), for the decision
rules and the alternative analyses.
"""

from collections.abc import Mapping, Sequence

from aiayn.paths import CellKey, is_averaged
from aiayn.scoring.scores import BITS_LOST_METRIC, ENTROPY_METRIC
from analysis.conclusions.contrasts import SeedRun
from paper_tables.frame import Frame, Number, Numbers


def runs_by_system(frame: Frame, judged: Sequence[Number]) -> dict[str, list[SeedRun]]:
    """Return the runs of every system, each with its value on the test set and in the metric of the
    `judged` numbers.

    `judged` are the numbers that the contrasts compare. For a system that is in no contrast, the
    runs come from its first number of the same kind (from an averaged model, or from a last
    checkpoint).
    """
    # All systems of the scale are needed, because systems without a contrast also add to the pooled
    # sd.
    kind = _kind(judged[0])
    number_by_system: dict[str, Number] = {}
    other_numbers = [frame.numbers[key, judged[0].metric] for key in frame.keys]
    # The judged numbers come first, because `setdefault` keeps the first number of a system.
    for number in (*judged, *other_numbers):
        if _kind(number) == kind:
            number_by_system.setdefault(number.key.system, number)
    runs_by_system = {}
    for system, number in number_by_system.items():
        runs = seed_runs(frame, number)
        if runs:
            runs_by_system[system] = runs
    return runs_by_system


def _kind(number: Number) -> tuple[str, str, bool]:
    """Return what two numbers must share to be pooled: corpus, test set, and whether checkpoints
    were averaged.

    Scores of an average of checkpoints vary less over seeds than scores of a last checkpoint.
    """
    return number.key.corpus, number.key.testset, is_averaged(number.key.average)


def seed_runs(frame: Frame, number: Number, numbers: Numbers | None = None) -> list[SeedRun]:
    """Return the runs from which a number of the tables is computed, in order of seed.

    `numbers` is the collection that contains the number, by default `frame.numbers`.
    """
    numbers = frame.numbers if numbers is None else numbers
    # Decision 0009 defines by the cross-attention on dev whether a run started to learn. The result
    # also holds for its other test sets.
    dev = number.key
    for key, _ in numbers:
        if (key.corpus, key.system, key.role) == (dev.corpus, dev.system, "dev"):
            dev = key
            break
    entropies = _values_of(numbers, dev, ENTROPY_METRIC)
    bits_lost = _values_of(numbers, dev, BITS_LOST_METRIC)
    runs = []
    for run, value in number.values:
        # A run that was read from a log may lack its seed, and has no record of the training.
        if run.seed is not None and run.train is not None:
            seed = SeedRun(
                value=value,
                seed=run.seed,
                lowest_entropy=entropies.get(run.seed),
                bits_lost=bits_lost.get(run.seed),
                bits_by_update=run.bits_by_update,
                updates=run.train.updates,
                device=run.train.hardware.gpu or "CPU",
            )
            runs.append(seed)
    return runs


def _values_of(numbers: Numbers, key: CellKey, metric: str) -> Mapping[int, float]:
    number = numbers.get((key, metric))
    return {} if number is None else number.value_by_seed
