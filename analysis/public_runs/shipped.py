"""Reads the public trainings that ship with the project, and says how much seeds vary at the paper's scale.

`paper_tables/published/public_runs.csv` and `public_run_evaluations.csv` are made by `tests.public_runs.collect`.
"""

import functools
import statistics
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from aiayn.errors import TableError
from aiayn.printed import PUBLISHED_FOLDER, read_rows, require_unique
from aiayn.scoring.verdict import PooledSd, pool_sd
from analysis.public_runs.mlperf import PublicEvaluation, PublicRun, PublicTraining

RUNS_NAME, EVALUATIONS_NAME = "public_runs.csv", "public_run_evaluations.csv"
DEFINITION = "uncased BLEU on newstest2014 as MLPerf defines it; training data of WMT17; a run stops at 25.0"
ASSUMED_SD_BLEU = 0.27  # tests/benchmarks/bench_verdicts.py: what the rule of verdicts was tried with


class SeedSpread(NamedTuple):
    """BLEU of one system's runs at the last epoch that all of them have: sample sd (n - 1), and where it is from."""

    round: str
    submitter: str
    system: str
    epoch: int
    num_runs: int
    mean: float
    sd: float
    source: str


class PublicSpread(NamedTuple):
    """The spread of seeds over all systems: the middle of their sds, the pooled sd with their range, the runs."""

    median_sd: float
    pooled: PooledSd
    num_runs: int
    source: str

    def sentence(self) -> str:
        """Return what is cited beside a verdict, which it does not enter."""
        pooled = self.pooled
        return (
            f"How much seeds vary at this scale is public for MLPerf's runs alone: the sd over seeds at a fixed epoch "
            f"is {self.median_sd:.2f} BLEU in the middle of {pooled.num_systems} systems ({pooled.smallest_sd:.2f} to "
            f"{pooled.largest_sd:.2f}; pooled {pooled.sd:.2f}, {self.num_runs} runs). Another definition "
            f"({DEFINITION}): it enters no verdict. Source: {self.source}."
        )


@functools.cache  # asked by the table, the figure and each verdict; the files do not change under a command
def read_public_runs(folder: Path = PUBLISHED_FOLDER) -> tuple[PublicTraining, ...]:
    """Return the shipped trainings, in the order of their file.

    Raises:
        TableError: a file is malformed, a run is there twice or has no evaluation, or an evaluation has no run.
    """
    path, evaluations_path = folder / RUNS_NAME, folder / EVALUATIONS_NAME
    placed = read_rows(path, PublicRun)
    require_unique((place, (run.run,)) for place, run in placed)
    run_by_name = {run.run: run for _, run in placed}
    evaluations_by_run: dict[str, list[PublicEvaluation]] = {name: [] for name in run_by_name}
    for place, evaluation in read_rows(evaluations_path, PublicEvaluation):
        if evaluation.run not in evaluations_by_run:
            raise TableError(f"{place}: run {evaluation.run} is not in {path}; collect both files again")
        evaluations_by_run[evaluation.run].append(evaluation)
    for name, evaluations in evaluations_by_run.items():
        if not evaluations:
            raise TableError(f"{path}: run {name} has no line in {evaluations_path}; collect both files again")
    return tuple(PublicTraining(run, tuple(evaluations_by_run[name])) for name, run in run_by_name.items())


def by_system(trainings: Iterable[PublicTraining]) -> dict[tuple[str, str, str], list[PublicTraining]]:
    """Return trainings by round, submitter and system, in this order; runs of one system differ in the seed alone."""
    grouped: dict[tuple[str, str, str], list[PublicTraining]] = {}
    for training in trainings:
        run = training.run
        grouped.setdefault((run.round, run.submitter, run.system), []).append(training)
    return dict(sorted(grouped.items()))


def values_at_common_epoch(trainings: Sequence[PublicTraining]) -> tuple[int, list[float]] | None:
    """Return the last epoch at which all runs of a system have a BLEU, and these; None without such an epoch.

    No run is left out there. A run's last value is the first at 25.0 or above: selected by the stop, it says nothing
    of the spread. The epoch is that of the earliest stop, which raises the mean a little.
    """
    bleu_by_epoch = [{one.epoch: one.bleu for one in training.evaluations} for training in trainings]
    common = set.intersection(*map(set, bleu_by_epoch)) if bleu_by_epoch else set()
    if not common:
        return None
    epoch = max(common)
    return epoch, [values[epoch] for values in bleu_by_epoch]


def seed_spreads(trainings: Iterable[PublicTraining] | None = None) -> list[SeedSpread]:
    """Return the spread of each system with two runs or more, of the shipped trainings unless others are given."""
    spreads = []
    for key, group in by_system(read_public_runs() if trainings is None else trainings).items():
        found = values_at_common_epoch(group)
        if found is None or len(group) < 2:
            continue
        run = group[0].run
        source = f"{run.repository} {run.commit[:8]}, {Path(run.path).parent.as_posix()}" if run.repository else run.run
        mean, sd = statistics.fmean(found[1]), statistics.stdev(found[1])
        spreads.append(SeedSpread(*key, epoch=found[0], num_runs=len(group), mean=mean, sd=sd, source=source))
    return spreads


def public_spread(trainings: Iterable[PublicTraining] | None = None) -> PublicSpread | None:
    """Return the spread over all systems, None without a system of two runs; see `ASSUMED_SD_BLEU` beside it."""
    trainings = read_public_runs() if trainings is None else tuple(trainings)
    groups = {"/".join(key): values_at_common_epoch(group) for key, group in by_system(trainings).items()}
    values_by_system = {name: found[1] for name, found in groups.items() if found is not None and len(found[1]) > 1}
    pooled = pool_sd(values_by_system, with_bartlett=False)
    if pooled is None:
        return None
    repositories = sorted({training.run.repository for training in trainings if training.run.repository})
    return PublicSpread(
        median_sd=statistics.median(map(statistics.stdev, values_by_system.values())),
        pooled=pooled,
        num_runs=sum(map(len, values_by_system.values())),
        source=", ".join(repositories) or "the files read",
    )


def spread_sentence() -> str:
    """Return how much seeds vary in the shipped trainings, as it is cited beside verdicts."""
    spread = public_spread()
    return "" if spread is None else spread.sentence()
