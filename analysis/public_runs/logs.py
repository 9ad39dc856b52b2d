"""Takes MLPerf's result files out of the logs that `aiayn tables --from-logs` was given, for table and figure."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from analysis.public_runs.mlperf import PublicRunError, PublicTraining, is_mlperf, read_result
from analysis.public_runs.table import lay_out_public_runs
from paper_tables.layout import Table

if TYPE_CHECKING:
    from analysis.figures.heavy_registry import Drawable


class PublicLogs(NamedTuple):
    """MLPerf's files: the runs read, the names of all files that are MLPerf's, and name and reason of those refused."""

    trainings: tuple[PublicTraining, ...]
    names: frozenset[str]
    refused: tuple[tuple[str, str], ...]

    def words(self) -> list[str]:
        """Return what was read, for the page's first look."""
        return [f"{len(self.trainings):,} public runs of MLPerf's"] if self.trainings else []

    def tables(self) -> list[Table]:
        """Return the table of public runs, those read first; nothing without any."""
        return [lay_out_public_runs(self.trainings)] if self.trainings else []

    def figures(self) -> "Iterator[Drawable]":
        """Yield the figure of public runs with those read in it."""
        if self.trainings:
            from analysis.public_runs.heavy_figure import PUBLIC_RUNS, public_runs_frame

            yield PUBLIC_RUNS, lambda: public_runs_frame(self.trainings)


def read_public_logs(path_by_name: Mapping[str, Path]) -> PublicLogs:
    """Return MLPerf's files among logs. NVIDIA's programs print fairseq's lines, too: no other reader may have these.

    Raises:
        PublicRunError: if every log is one of MLPerf's that is cut or of another benchmark; else such are named.
    """
    found = {name: path for name, path in path_by_name.items() if is_mlperf(path)}
    trainings, refused = [], []
    for name, path in found.items():
        try:
            trainings.append(read_result(path))
        except PublicRunError as error:
            refused.append((name, str(error)))
    if refused and len(refused) == len(path_by_name):
        raise PublicRunError(refused[0][1])
    return PublicLogs(tuple(trainings), frozenset(found), tuple(refused))
