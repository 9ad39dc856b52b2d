"""Collects the evidence on a training into a `Case`: the logs and records of one of our runs, or
the logs in a folder of any other training. A *claim* is the system and the corpus that the training
should have.

The records of one of our runs say which checkpoints were averaged, and what was decoded and scored.
The spec in the record of the training (`training_json`) is not read, because the expected values
come from the config file of the system.
"""

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from aiayn.errors import RecordError, UsageError
from aiayn.facts.join import join_logs
from aiayn.facts.listing import OTHER_FILES, list_folder, reason_not_read
from aiayn.facts.reader import read_log
from aiayn.facts.trainings import JoinedLogs, Training
from aiayn.facts.types import Fact, LogFile, Value
from aiayn.known_good.judge import OF_GENERATIONS, judge
from aiayn.known_good.rows import judge_logs
from aiayn.packed import exists, find_packed, glob, modified_seconds
from aiayn.paths import split_alpha
from aiayn.records import (
    Hypotheses,
    ScoreRecords,
    TrainRecord,
    read_record,
)
from analysis.doctor.types import Case, Claim

# In a signature of `aiayn decode`, `maxlen:1x+50` means at most the source's length plus 50 tokens.
_MAX_LENGTH = re.compile(r"maxlen:([\d.]+)x\+(\d+)")
MAX_NOTES = 4  # files that an error lists


def list_runs(results_folder: Path) -> dict[str, Path]:
    """Return the path of the training record of every finished run below a results folder, by the
    run's name. The newest run is last.

    Raises:
        RecordError: if the folder contains no finished runs.
    """
    paths = sorted(glob(results_folder, "*/train/*/*/seed*.json"), key=modified_seconds)
    if not paths:
        raise RecordError(
            f"{results_folder}: no finished run; give its folder with --results, or a FOLDER of"
            " logs"
        )
    return {read_record(path, TrainRecord).run: path for path in paths}


def collect_run(results_folder: Path, train: TrainRecord, claim: Claim) -> Case:
    """Return what the log and the records of one of our runs say about it.

    Raises:
        RecordError: if a record is malformed, or was written by a different run.
    """
    # Our runs have no log of the translation. The records of `decode` have the settings of the
    # search.
    scale_folder = results_folder / claim.target.scale
    evaluated = f"{train.corpus}/{train.system}/seed{train.seed}"
    case = _case_of_logs(claim, _logs_of_run(train))
    for path, record in _decoded(scale_folder, evaluated, train, claim):
        facts = _facts_of_record(path, record, scale_folder)
        # Dev and test have different expected averages: last1 for Table 3, last5 or last20 for
        # Table 2.
        values = claim.target.values_of_role(claim.role_of(record.testset))
        case.problems += judge(facts, values, OF_GENERATIONS)
        case.translation_paths.append(str(find_packed(record.path) or record.path))
    return case


def _logs_of_run(train: TrainRecord) -> list[LogFile]:
    """Return the log of a run and, if the run continues an earlier run, also the log of the earlier
    run.

    The training record says that the two runs are one training, with checkpoints in two folders.
    """
    # The log may be compressed, or in the zip of a pack (an archive of finished runs).
    own_path = find_packed(train.log_path)
    files = [] if own_path is None else [read_log(own_path, str(own_path))]
    if train.beginning is None or not files:
        return files
    # Runs are neighbours in one folder: `runs/<run>/train.log`.
    runs_folder = train.log_path.parent.parent
    path = find_packed(runs_folder / train.beginning.run / train.log_path.name)
    if path is not None:
        files.append(read_log(path, str(path)))
    # `join_logs` joins two logs to one training if they have the same save folder.
    for file in files:
        for section in file.sections:
            section.save_folder = f"/{train.run}"
    return files


def _decoded(
    scale_folder: Path, evaluated: str, train: TrainRecord, claim: Claim
) -> list[tuple[Path, Hypotheses]]:
    """Return the records of the run's translations. Translations that differ from the paper on
    purpose are left out.

    A translation with a length penalty in its name differs on purpose. If a test set was translated
    with the average of checkpoints that the tables use, its translations with other averages differ
    on purpose, too.

    Raises:
        RecordError: if the record of a translation was written by a different run.
    """
    records = []
    for path in glob(scale_folder, f"decode/{evaluated}/last*/*.json"):
        record = read_record(path, Hypotheses)
        # Results may be older than the run: the training was made again, `decode` not yet.
        if record.run != train.run:
            raise RecordError(
                f"{path}: of run {record.run}, expected {train.run}; rerun `decode`, or name"
                " that run"
            )
        if split_alpha(path.stem)[1] is None:
            records.append((path, record))
    # If the tables' average is missing, another average is not on purpose, but a difference to
    # report.
    averages = {(record.testset, record.average) for _, record in records}
    compared = []
    for path, record in records:
        role = claim.role_of(record.testset)
        average = claim.target.average_by_role.get(role, record.average)
        if record.average == average or (record.testset, average) not in averages:
            compared.append((path, record))
    return compared


def _facts_of_record(path: Path, record: Hypotheses, scale_folder: Path) -> Iterator[Fact]:
    """Yield facts (name and value of a setting) from a record of `decode` and from the record of
    the scores of the same translation.
    """
    value_by_quantity: dict[str, Value] = {
        "beam_size": record.beam_size,
        "length_penalty_alpha": record.length_penalty_alpha,
        "training": record.run,
        "average": record.average,
        "num_scored": record.num_lines,
    }
    # The limit of a translation's length is linear in the source's length. Its values at two
    # lengths determine it. The reader of logs states it in the same way.
    if limit := _MAX_LENGTH.search(record.signature):
        for num_tokens in (20, 100):
            most = float(limit[1]) * num_tokens + int(limit[2])
            value_by_quantity[f"limit_of_{num_tokens}_tokens"] = most
    # The translations may not be scored yet. Then only the search is checked.
    score_path = scale_folder / "score" / path.relative_to(scale_folder / "decode")
    if exists(score_path):
        value_by_quantity["bleu"] = read_record(score_path, ScoreRecords).scores[0].value
    for quantity, value in value_by_quantity.items():
        yield Fact(quantity, value, str(path), 0)


def collect_folder(folder: Path, claim: Claim) -> Case:
    """Return what the logs in a folder say about one training and its translations.

    Raises:
        UsageError: if the folder contains logs of several trainings.
        RecordError: if the folder contains neither the log of a training nor the log of a
            translation.
    """
    listing = list_folder(folder)
    files = [read_log(folder / path, str(folder / path)) for path in listing.log_paths]
    unread = [file for file in listing.unread if file.path != OTHER_FILES]
    case = _case_of_logs(claim, [*files, *unread])
    # For an empty folder "no difference found" would be wrong, so this is an error.
    if case.training is None and not case.generations:
        shown = [sentence.removesuffix(".") for sentence in case.not_read[:MAX_NOTES]]
        details = f" ({'; '.join(shown)})" if shown else ""
        raise RecordError(
            f"{folder}: no log of a training and none of a translation; expected at least one of"
            f" these; name the folder that has them{details}"
        )
    return case


def _case_of_logs(claim: Claim, files: Sequence[LogFile]) -> Case:
    """Return the case (all evidence on a training) with the problems that `aiayn.known_good` finds
    in its logs.
    """
    # The user says which system it is, so the log is compared with this system only.
    logs = judge_logs(join_logs(files), [claim.target], Path(), is_claimed=True)
    training = training_in(claim.name, logs)
    unread = [f"Not read: {reason}." for reason in map(reason_not_read, files) if reason]
    case = Case(claim=claim, training=training, not_read=unread)
    if training is not None:
        case.problems += training.problems
    for generation in logs.generations:
        # A generation repeats the problems of its training, which are already in the case. Its own
        # problems keep out BLEU only, or are notes.
        for problem in generation.problems:
            if problem.keeps_out in ((), OF_GENERATIONS):
                case.problems.append(problem)
        case.generations.append(generation)
        case.translation_paths.append(generation.section.path)
    return case


def training_in(name: str, logs: JoinedLogs) -> Training | None:
    """Return the only training in the logs of a folder. Return None if the folder does not contain
    a training, or if the training's log does not state the value of any setting.

    Raises:
        UsageError: if the folder contains several trainings.
    """
    names = [training.name for training in logs.trainings]
    if len(names) > 1:
        raise UsageError(
            f"{name}: {len(names)} trainings ({', '.join(names[:4])}); give a folder of one run"
        )
    if not names:
        return None
    training, last = logs.trainings[0], logs.trainings[0].last
    # Some other program's log may have lines that look like fairseq's statistics.
    is_stated = last.arguments or training.validations or last.value("num_parameters")
    return training if is_stated else None
