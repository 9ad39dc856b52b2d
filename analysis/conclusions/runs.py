"""Reads the runs of a scale's systems from its frame, as the rule and the readings take them."""

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
    first = judged[0]
    number_by_system: dict[str, Number] = {}
    for number in (*judged, *(frame.numbers[key, first.metric] for key in frame.keys)):
        key = number.key
        is_same_kind = is_averaged(key.average) == is_averaged(first.key.average)
        if (key.corpus, key.testset) == (first.key.corpus, first.key.testset) and is_same_kind:
            number_by_system.setdefault(key.system, number)
    return {
        system: seed_runs(frame, number)
        for system, number in number_by_system.items()
        if number.values
    }


def seed_runs(frame: Frame, number: Number, numbers: Numbers | None = None) -> list[SeedRun]:
    """Return the seeds of a number; the record of dev says whether they started, for every test
    set.

    `numbers` are those that the number comes from, the frame's own unless they are given.
    """
    numbers = frame.numbers if numbers is None else numbers
    place = (number.key.corpus, number.key.system)
    of_dev = (key for key, _ in numbers if key.role == "dev" and (key.corpus, key.system) == place)
    dev = next(of_dev, number.key)
    entropies, bits_lost = (
        _values_of(numbers, dev, name) for name in (ENTROPY_METRIC, BITS_LOST_METRIC)
    )
    return [
        SeedRun(
            value=value,
            seed=run.seed,
            lowest_entropy=entropies.get(run.seed),
            bits_lost=bits_lost.get(run.seed),
            bits_by_update=run.bits_by_update,
            updates=run.train.updates,
        )
        for run, value in number.values
        if run.seed is not None and run.train is not None
    ]


def _values_of(numbers: Numbers, key: CellKey, metric: str) -> Mapping[int, float]:
    number = numbers.get((key, metric))
    return {} if number is None else number.value_by_seed
