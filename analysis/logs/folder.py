"""Turns a folder of logs into trainings with their row, their numbers and their findings."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from aiayn.runs.attempts import ATTEMPTS_NAME, read_events
from analysis.logs.evaluations import (
    average_of,
    averagings_near,
    evaluation_of,
    training_of,
    validation_bleu,
    without_copies,
)
from analysis.logs.logged import LoggedEvaluation, LoggedFolder, LoggedGeneration, LoggedTraining, language_pair_of
from analysis.logs.rows import PaperRow, find_row
from analysis.logs.rules import generation_findings, training_findings
from analysis.logs.symbols import is_ours, symbols_of_arguments
from analysis.logs.types import AveragingLog, GenerationLog, LogFile, TrainingLog


def judge_folder(folder: Path, file_by_path: Mapping[str, LogFile], rows: Sequence[PaperRow]) -> LoggedFolder:
    """Return the trainings and generations of a folder's logs; the first matching row of `rows` is taken.

    Raises:
        RecordError: if an attempts.jsonl beside a log of ours is torn.
    """
    trainings, generations, averagings = [], [], []
    for path, log_file in sorted(file_by_path.items(), key=lambda entry: (entry[0].count("/"), entry[0])):
        for name, entry in entries_by_name(path, log_file).items():
            if isinstance(entry, TrainingLog):
                trainings.append(_judged_training(name, entry, (folder / path).parent, rows))
            elif isinstance(entry, GenerationLog):
                generations.append((name, entry))
            else:
                averagings.append((name, entry))
    evaluations: dict[str, list[LoggedEvaluation]] = {training.path: [] for training in trainings}
    logged: list[LoggedGeneration] = []
    for name, generation in generations:
        training = training_of(name, generation, trainings)
        average = average_of(generation, averagings_near(name, generation, averagings), training)
        judged = LoggedGeneration(path=name, log=generation, training=training, average=average)
        judged = without_copies(msgspec.structs.replace(judged, findings=generation_findings(judged)), logged)
        logged.append(judged)
        if training is not None and (evaluation := evaluation_of(judged)) is not None:
            evaluations[training.path].append(evaluation)
    for training in trainings:
        evaluations[training.path] += validation_bleu(training)
    whole = [msgspec.structs.replace(one, evaluations=tuple(evaluations[one.path])) for one in trainings]
    return LoggedFolder(file_by_path=dict(file_by_path), trainings=tuple(whole), generations=tuple(logged))


def entries_by_name(path: str, log_file: LogFile) -> dict[str, TrainingLog | GenerationLog | AveragingLog]:
    """Return a file's entries by name: its path, with the first line of each if there are several."""
    is_alone = len(log_file.entries) == 1
    return {path if is_alone else f"{path}@{entry.first_line}": entry for entry in log_file.entries}


def _judged_training(name: str, log: TrainingLog, folder: Path, rows: Sequence[PaperRow]) -> LoggedTraining:
    symbols, has_events = symbols_of_arguments(log.arguments, log.num_gpus), False
    if is_ours(log.arguments):
        has_events = (folder / ATTEMPTS_NAME).exists()
    else:
        rows = [row for row in rows if row.scale == "paper"]
    training = LoggedTraining(
        path=name,
        log=log,
        events=read_events(folder) if has_events else None,
        symbols=symbols,
        match=find_row(symbols, language_pair_of(log), rows),
    )
    return msgspec.structs.replace(training, findings=training_findings(training))
