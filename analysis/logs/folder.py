"""From a folder of logs to trainings with their row, their numbers and their faults."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from analysis.logs.checks import Rule, broken_rules, untold_finding
from analysis.logs.evaluations import (
    average_of,
    averagings_near,
    evaluation_of,
    judge_generation,
    training_of,
    validation_bleu,
    without_copies,
)
from analysis.logs.facts import (
    OurAttempts,
    facts_of_training,
    final_validation,
    language_pair_of,
    read_attempts,
    seconds_of,
    version_of,
)
from analysis.logs.judged import PERPLEXITY_METRIC, LoggedEvaluation, LoggedFolder, LoggedGeneration, LoggedTraining
from analysis.logs.rows import PaperRow, find_row
from analysis.logs.symbols import OURS_ONLY, is_ours, symbols_of_arguments
from analysis.logs.types import AveragingLog, GenerationLog, LogFile, TrainingLog


def judge_folder(
    folder: Path, file_by_path: Mapping[str, LogFile], rows: Sequence[PaperRow], rules: list[Rule]
) -> LoggedFolder:
    """Return what the logs of a folder are; `rows` are sought in their order.

    Raises:
        RecordError: if an attempts.jsonl beside a log of ours is torn.
    """
    trainings, generations, averagings = [], [], []
    for path, log_file in sorted(file_by_path.items(), key=lambda entry: (entry[0].count("/"), entry[0])):
        for name, entry in entries_by_name(path, log_file).items():
            if isinstance(entry, TrainingLog):
                attempts = read_attempts(folder / path) if is_ours(entry.arguments) else None
                trainings.append(_judged_training(name, entry, attempts, rows, rules))
            elif isinstance(entry, GenerationLog):
                generations.append((name, entry))
            else:
                averagings.append((name, entry))
    evaluations: dict[str, list[LoggedEvaluation]] = {training.path: [] for training in trainings}
    logged: list[LoggedGeneration] = []
    for name, generation in generations:
        training = training_of(name, generation, trainings)
        average = average_of(generation, averagings_near(name, generation, averagings), training)
        judged = judge_generation(name, generation, training, average, rules)
        judged = without_copies(judged, logged)
        logged.append(judged)
        evaluation = evaluation_of(judged, training)
        if training is not None and evaluation is not None:
            evaluations[training.path].append(evaluation)
    for training in trainings:
        evaluations[training.path] += validation_bleu(training, rules)
    whole = [msgspec.structs.replace(one, evaluations=tuple(evaluations[one.path])) for one in trainings]
    return LoggedFolder(file_by_path=dict(file_by_path), trainings=tuple(whole), generations=tuple(logged))


def entries_by_name(path: str, log_file: LogFile) -> dict[str, TrainingLog | GenerationLog | AveragingLog]:
    """Return what a file holds by name: its path, with the first line of each if there are several."""
    is_alone = len(log_file.entries) == 1
    return {path if is_alone else f"{path}@{entry.first_line}": entry for entry in log_file.entries}


def _judged_training(
    name: str, log: TrainingLog, attempts: OurAttempts | None, rows: Sequence[PaperRow], rules: list[Rule]
) -> LoggedTraining:
    symbols = symbols_of_arguments(log.arguments, log.num_gpus)
    pair = language_pair_of(log)
    sought = rows if is_ours(log.arguments) else [row for row in rows if row.scale == "paper"]
    match = find_row(symbols, pair, sought)
    facts = facts_of_training(log, attempts)
    row = match.row
    scale, expected = (row.scale, row.symbols) if row else ("paper", {})
    if not is_ours(log.arguments):  # which then has no choice of these
        expected = {name: value for name, value in expected.items() if name not in OURS_ONLY}
    findings = broken_rules(rules, "training", facts, scale=scale, found=symbols, expected=expected)
    if row is not None:
        findings += untold_finding(rules, "training", facts, scale=scale, found=symbols, expected=expected)
    else:  # what the paper's corpus and settings are is then no question
        findings = [finding for finding in findings if finding.severity != "apart"]
    seconds = seconds_of(log, attempts)
    gpu_seconds = attempts.gpu_seconds if attempts else None
    if gpu_seconds is None and seconds is not None and log.num_gpus:
        gpu_seconds = seconds * log.num_gpus
    return LoggedTraining(
        path=name,
        log=log,
        symbols=symbols,
        language_pair=pair,
        match=match,
        facts=facts,
        findings=tuple(findings),
        value_by_metric=_values(log),
        version=version_of(log, attempts),
        gpu_seconds=gpu_seconds or None,
    )


def _values(log: TrainingLog) -> dict[str, float]:
    values: dict[str, float] = {"steps": float(log.last_update)}
    if log.num_parameters is not None:
        values["num_parameters"] = float(log.num_parameters)
    final = final_validation(log)
    if final is not None and final.nll_bits is not None:
        values[PERPLEXITY_METRIC] = 2.0**final.nll_bits
    return values
