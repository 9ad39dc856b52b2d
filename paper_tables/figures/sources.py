"""Collects curves: of the runs of a scale, of runs or logs by name, of any folder of logs."""

import logging
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from aiayn.errors import RecordError
from aiayn.printed import PAPER_SCALE
from aiayn.runs.attempts import LOG_NAME
from aiayn.runs.names import split_run_name
from analysis.logs.averages import AveragedLine
from analysis.logs.curves import CurvePoint, read_curves
from analysis.logs.folder import entries_by_name
from analysis.logs.reader import read_log
from analysis.logs.types import LogFile, TrainingLog
from paper_tables.figures.curves import Curve
from paper_tables.scale_results import ScaleResults

MAX_LOGS = 500  # of a folder; reading more takes minutes, and a band of more seeds looks no different

logger = logging.getLogger(__name__)


def curves_of_scale(results: ScaleResults) -> list[Curve]:
    """Return the curves of every run of a scale that has begun, finished or not; a run without a log is left out.

    Raises:
        RecordError: if a log cannot be read.
    """
    runs = {state.run for state in results.state_by_key.values() if state.run}
    paths = {run: Path(results.scale.runs_folder) / run / LOG_NAME for run in runs}
    paths |= {train.run: train.log_path for train in results.train_by_key.values() if train.log_path.exists()}
    return curves_of_runs(results, {run: path for run, path in paths.items() if path.exists()})


def curves_of_runs(results: ScaleResults, path_by_run: Mapping[str, Path]) -> list[Curve]:
    """Return the curves of a scale's runs from their logs; a run without a log is left out.

    Raises:
        RecordError: if a log cannot be read.
    """
    corpora = {corpus for corpus, *_ in results.state_by_key}
    curves = []
    for (corpus, system, seed), state in results.state_by_key.items():
        if state.run not in path_by_run:
            continue
        series = system if len(corpora) == 1 else f"{system}, {results.corpora[corpus].language_pair}"
        curves += [Curve(state.run, series, seed, points) for _, points in _read(path_by_run[state.run], None)]
    return curves


def curves_of_files(named_paths: Iterable[tuple[str, str, int | None, Path]]) -> list[Curve]:
    """Return the curves of logs, given as (run, series, seed, path); of several trainings in a file, each is a run.

    Raises:
        RecordError: if a log cannot be read, or holds no training.
    """
    curves = []
    for run, series, seed, path in named_paths:
        found = _read(path, None)
        if not found:
            raise RecordError(f"{path}: no training in it; expected a log of fairseq-train or `aiayn train`")
        for index, (log, points) in enumerate(found):
            suffix = f"@{log.first_line}" if index else ""
            curves.append(Curve(run + suffix, series + suffix, seed, points))
    return curves


def curves_of_folder(folder: Path, file_by_path: Mapping[str, LogFile], lines: Sequence[AveragedLine]) -> list[Curve]:
    """Return the curves of the trainings that tables from logs show; of all trainings if they show none.

    A run of ours that they do not show has its system's name, any other training its path.

    At most MAX_LOGS files are read; a message gives both numbers if there are more.

    Raises:
        RecordError: if a log cannot be read.
    """
    series_by_name: dict[str, tuple[str, int | None]] = {}
    for line in lines:
        scale = "" if line.row.scale == PAPER_SCALE else f" ({line.row.scale})"
        series = ", ".join((f"{line.row.system}{scale}", line.language_pair, *line.configuration))
        for training in line.trainings:
            seed = training.seed
            series_by_name[training.path] = (series, seed if isinstance(seed, int) else None)
    names_by_path: dict[str, dict[int, str]] = {}
    for path, log_file in file_by_path.items():
        for name, entry in entries_by_name(path, log_file).items():
            if isinstance(entry, TrainingLog) and (name in series_by_name or not series_by_name):
                names_by_path.setdefault(path, {})[entry.first_line] = name
    if len(names_by_path) > MAX_LOGS:
        logger.info(f"curves: the first {MAX_LOGS:,} of {len(names_by_path):,} logs are drawn")
    curves = []
    for path, names in list(names_by_path.items())[:MAX_LOGS]:
        for log, points in _read(folder / path, file_by_path[path]):
            if log.first_line in names:
                name = names[log.first_line]
                curves.append(Curve(name, *series_by_name.get(name, _series_of_path(name)), points))
    return curves


def _series_of_path(path: str) -> tuple[str, int | None]:
    """Return the series and the seed of a log by its path, whose last folder is the run's name if it is ours."""
    parts = split_run_name(Path(path).parent.name)
    return (f"{parts.system}, {parts.corpus}", parts.seed) if parts else (path, None)


def _read(path: Path, log_file: LogFile | None) -> list[tuple[TrainingLog, list[CurvePoint]]]:
    try:
        return read_curves(path, log_file or read_log(path)[0])
    except OSError as error:
        raise RecordError(f"{path}: cannot be read ({error.strerror}); make it readable") from error
