"""Selects the runs of a scale's systems from its frame, for the decision rules and the alternative
analyses.
"""

from collections.abc import Mapping, Sequence

from aiayn.paths import CellKey, is_averaged
from aiayn.scoring.scores import BITS_LOST_METRIC, ENTROPY_METRIC
from analysis.conclusions.contrasts import SeedRun
from paper_tables.frame import Frame, Number, Numbers


def runs_by_system(frame: Frame, judged: Sequence[Number]) -> dict[str, list[SeedRun]]:
    """Return the runs of every system on the test set of some numbers, in their metric.

    A judged system is represented by its judged number, any other system by its first number of the
    same kind: an averaged model or a last checkpoint, as the judged numbers are.
    """
    kind = _kind(judged[0])
    number_by_system: dict[str, Number] = {}
    other_numbers = [frame.numbers[key, judged[0].metric] for key in frame.keys]
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
    """Return what two numbers must share to be pooled: corpus, test set, and averaging or not."""
    return number.key.corpus, number.key.testset, is_averaged(number.key.average)


def seed_runs(frame: Frame, number: Number, numbers: Numbers | None = None) -> list[SeedRun]:
    """Return the seeds of a number. On every test set, the record of dev says whether they started.

    `numbers` is the collection that the number comes from, by default the frame's own.
    """
    numbers = frame.numbers if numbers is None else numbers
    # Whether a run started is recorded on dev, and holds for its other test sets, too.
    dev = number.key
    for key, _ in numbers:
        if (key.corpus, key.system, key.role) == (dev.corpus, dev.system, "dev"):
            dev = key
            break
    entropies = _values_of(numbers, dev, ENTROPY_METRIC)
    bits_lost = _values_of(numbers, dev, BITS_LOST_METRIC)
    runs = []
    for run, value in number.values:
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
