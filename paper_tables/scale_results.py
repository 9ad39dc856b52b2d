"""Reads the records of one scale from disk into `ScaleResults`, the input of `make_frame`.

The sheet of the scale's config is the list of its trainings. If there is no config (for folders
that are laid out like `results/`), the sheets next to the results list the trainings, and the
settings of the systems come from the records of their runs, so a later edit of a system's file does
not matter. A score is used only if its translations, plain or packed, are next to the record of the
decoding and have the SHA-256 in the record of the score. A score is left out if its translations
are missing or changed, and a message lists its record.
"""

import logging
import pkgutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec
import pandas as pd

from aiayn.errors import RecordError, TableError
from aiayn.experiment import Experiment, expand, read_experiment
from aiayn.packed import UNPACK_ERRORS, exists, find_packed, glob, unpacked_sha256
from aiayn.paths import (
    PACK_RUNS_NAME,
    Evaluation,
    baselines_record,
    corpus_record,
    evaluation_record,
    evaluations_record,
    scale_record,
    shown_path,
    train_record,
)
from aiayn.records import (
    BaselineRecords,
    BinarizedCorpus,
    EvaluationsRecord,
    Record,
    ScoreRecords,
    TrainRecord,
    read_record,
    read_train_record,
    read_trained,
    require_files,
)
from aiayn.runs.queue import Queues
from aiayn.runs.status import RunStatus
from aiayn.runs.training_state import recorded_status, unrecorded_statuses
from aiayn.scoring.scores import (
    collect_scores,
    read_trainings,
)
from aiayn.spec.hardware import HardwareSpec, read_hardware
from aiayn.spec.sheet import (
    FIRST_PROBE_SEED,
    PROBE_DECISIONS,
    SHEET_NAME,
    SheetRow,
    TrainingKey,
    join_sheets,
    read_sheet,
)
from aiayn.spec.system import CONFIG_FOLDER, PLACE, ScaleSpec, SystemSpec, TrainingSpec, read_scale
from aiayn.wings import present_stages

TRAIN_SPLIT = "train"  # the name of a data-bin's split

logger = logging.getLogger(__name__)


class RecordFault(NamedTuple):
    """The reason why the numbers of a record are left out: the path of the record, what is wrong,
    and the next step.
    """

    path: Path
    message: str
    next_step: str

    @property
    def text(self) -> str:
        """The whole message about the record: its path, what is wrong, and the next step."""
        return f"{shown_path(self.path)}: {self.message}; {self.next_step}"


class ScaleResults(msgspec.Struct, frozen=True, kw_only=True):
    """The experiment of a scale (its trainings and evaluations) and the records of its results that
    exist.

    `train_by_key` contains only trainings that were made with the current spec. The spec includes
    the scale's overrides, so a training with a different number of updates or a different precision
    is outdated. `record_by_stage` maps the verb of a stage that a wing (optional package) adds to
    the stage's record.
    """

    experiment: Experiment
    scores: pd.DataFrame
    train_by_key: dict[TrainingKey, TrainRecord]
    status_by_key: dict[TrainingKey, RunStatus]
    baseline_records: list[BaselineRecords]
    binarized_by_corpus: dict[str, BinarizedCorpus]
    hardware: HardwareSpec
    record_by_stage: dict[str, Record]


def gather_results(
    scale: ScaleSpec,
    results_folder: Path,
    *,
    so_far: bool,
    queues: Queues,
    config_folder: Path = CONFIG_FOLDER,
) -> ScaleResults:
    """Read the records of all results of a scale. Without `so_far` all records must exist.

    The state of a training without a record is the state of its run. `queues` are the job queues of
    the launchers, in which the job of the run is searched.

    Raises:
        TableError: if a record is missing, or if a training has a different spec (not with
            `so_far`).
        RecordError: if a record is truncated, or if it was made from a different run than the
            record of its training (with `so_far` this record is skipped).
        CorpusError: if a record differs from the list of its training's evaluations (not with
            `so_far`). Results of earlier versions of `aiayn` do not have a list of evaluations.
    """
    experiment = read_experiment(scale, config_folder)
    # All paths are checked before any content is read. A missing record is the usual reason to
    # stop, and this check is fast.
    for path in () if so_far else experiment.records(results_folder):
        if not exists(path):
            raise TableError(
                f"{path}: no such record; the tables of scale {scale.scale} need it; the same"
                " command with --so-far makes tables of the present records"
            )
    keys = experiment.trainings
    for key in () if so_far else keys:
        path = evaluations_record(results_folder, scale.scale, *key)
        if exists(path):
            # The list has the digest of each record as it was written. An edited record is noticed
            # here.
            listed = read_record(path, EvaluationsRecord)
            require_files(listed, listed.sha256_by_record)
    runs_folder = Path(scale.runs_folder)
    record_by_key = read_trainings(keys, results_folder, scale.scale, runs_folder)
    spec_by_key = {key: experiment.system_by_name[key.system].training for key in keys}
    unrecorded = {key: spec for key, spec in spec_by_key.items() if key not in record_by_key}
    # The states are read for all runs at once, so that each queue is asked only once.
    status_by_run = unrecorded_statuses(unrecorded, runs_folder, queues)
    status_by_key = {}
    for key, spec in spec_by_key.items():
        # A training has a record (it finished), or only the folder of its run (running, failed), or
        # neither.
        status = (
            recorded_status(record_by_key[key], spec)
            if key in record_by_key
            else status_by_run[key]
        )
        # The record is of a training with a different spec, for example before an edit of the
        # system's file.
        if status.state == "outdated" and not so_far:
            raise TableError(
                f"{status.run}: {status.reason}, or add --so-far to make tables without it"
            )
        status_by_key[key] = status
    folder_by_key = dict.fromkeys(keys, results_folder)
    return _gather(
        experiment, record_by_key, status_by_key, folder_by_key, [results_folder], so_far=so_far
    )


def _gather(
    experiment: Experiment,
    record_by_key: Mapping[TrainingKey, TrainRecord],
    status_by_key: dict[TrainingKey, RunStatus],
    folder_by_key: Mapping[TrainingKey, Path],
    folders: Sequence[Path],
    *,
    so_far: bool,
    config_folder: Path = CONFIG_FOLDER,
    faults: dict[Evaluation, RecordFault] | None = None,
) -> ScaleResults:
    """Read the scores of finished trainings, and the records that do not depend on a training.

    Records that do not depend on a training are read from the first of `folders` that contains
    them. If `faults` is given, scores without translations next to them are left out, and the
    reason is added to `faults`.
    """
    scale = experiment.scale.scale
    train_by_key = {}
    # Records of outdated trainings are in `record_by_key`, too.
    for key, train in record_by_key.items():
        if status_by_key[key].state == "finished":
            train_by_key[key] = train

    def is_trusted(evaluation: Evaluation, scores: ScoreRecords) -> bool:
        # The results of a workflow are trusted. Folders that may have been copied from elsewhere
        # are checked.
        if faults is None:
            return True
        folder = folder_by_key[evaluation.training]
        fault = text_fault(evaluation_record(folder, scale, "decode", evaluation), scores)
        if fault is not None:
            faults[evaluation] = fault
        return fault is None

    scores = collect_scores(
        experiment.evaluations,
        train_by_key,
        folder_by_key,
        scale,
        so_far=so_far,
        is_trusted=is_trusted,
    )
    baseline_records: dict[tuple[str, str], BaselineRecords] = {}
    binarized_by_corpus: dict[str, BinarizedCorpus] = {}
    record_by_stage: dict[str, Record] = {}
    for folder in folders:
        # The first folder that has a record wins, as for trainings.
        for baseline in experiment.baselines:
            path = baselines_record(folder, scale, *baseline)
            # Without `so_far` a missing record is an error, which `read_record` raises.
            if baseline not in baseline_records and (exists(path) or not so_far):
                baseline_records[baseline] = read_record(path, BaselineRecords)
        for corpus in experiment.corpora:
            path = corpus_record(folder, scale, "binarize", corpus)
            if corpus not in binarized_by_corpus and exists(path):
                binarized_by_corpus[corpus] = read_record(path, BinarizedCorpus)
        for stage in present_stages():
            path = scale_record(folder, scale, stage.verb)
            if stage.verb not in record_by_stage and exists(path):
                record_by_stage[stage.verb] = read_record(path, pkgutil.resolve_name(stage.record))
    return ScaleResults(
        experiment=experiment,
        scores=scores,
        train_by_key=train_by_key,
        status_by_key=status_by_key,
        baseline_records=list(baseline_records.values()),
        binarized_by_corpus=binarized_by_corpus,
        hardware=read_hardware(config_folder / "hardware.yaml"),
        record_by_stage=record_by_stage,
    )


class RecordedResults(NamedTuple):
    """The results of one scale, the records that were left out, and the folder that contains the
    records of each training.
    """

    results: ScaleResults
    faults: tuple[RecordFault, ...]
    folder_by_key: dict[TrainingKey, Path]


def gather_from_records(
    scale: str, results_folders: Sequence[Path], config_folder: Path = CONFIG_FOLDER
) -> RecordedResults:
    """Read the records of one scale from one or several results folders. Missing records are
    allowed.

    Raises:
        RecordError: if a record is truncated, if its content and its path state different
            trainings, or if two folders contain different runs of one training.
        ConfigError: if a corpus or a system has no config file.
    """
    # Every record of training that is in the folders, whether a sheet lists it or not.
    trained, folder_by_key = _read_trainings(scale, results_folders)
    # Probes (trial runs that chose the learning rate or the length penalty) are in the same folders
    # as the runs of the tables. Their seeds begin at FIRST_PROBE_SEED.
    record_by_key = {key: train for key, train in trained.items() if train.seed < FIRST_PROBE_SEED}
    rows = _read_sheets(scale, results_folders, config_folder)
    # The overrides of a config are not known here. The records have the actual updates and
    # precision.
    scale_spec = msgspec.structs.replace(
        read_scale(config_folder / f"{scale}.yaml"),
        **PLACE,
        has_baselines=True,
        updates=None,
        precision=None,
    )
    experiment = expand(scale_spec, rows, config_folder)
    systems = _as_trained(experiment, record_by_key)
    experiment = msgspec.structs.replace(experiment, system_by_name=systems)
    status_by_key: dict[TrainingKey, RunStatus] = {}
    listed_by_key = {}
    for key in experiment.trainings:
        # If no record is found, the training is listed as missing.
        spec = systems[key.system].training
        status_by_key[key] = RunStatus(
            state="missing", run="", update=0, updates=spec.updates, reason="no record of it"
        )
        if key in record_by_key:
            listed_by_key[key] = record_by_key[key]
            status_by_key[key] = recorded_status(record_by_key[key], spec)
    # A record that is not used is reported with the reason, because a number that silently
    # disappears looks like a mistake.
    faults = []
    for key, train in trained.items():
        if key not in record_by_key:
            message = (
                f"seed {train.seed} is a probe's (decisions {PROBE_DECISIONS}), and enters no table"
            )
            next_step = "train it with a seed of the tables"
        elif key not in status_by_key:
            message = (
                f"no sheet of scale {scale} lists {train.system} on {train.corpus}, seed"
                f" {train.seed}"
            )
            next_step = f"add it to the sheet {SHEET_NAME} next to the results"
        # The runs of a system must have the same spec. The first run, in the order of the keys,
        # sets it.
        elif status_by_key[key].state == "outdated":
            message = (
                f"{train.run} was trained under another spec than other runs of {train.system}"
            )
            next_step = "train all runs of a system alike"
        else:
            continue
        path = train_record(folder_by_key[key], scale, *key)
        faults.append(RecordFault(path, f"{message}: left out", next_step))
    # `_gather` adds the scores that it does not trust.
    text_faults: dict[Evaluation, RecordFault] = {}
    results = _gather(
        experiment,
        listed_by_key,
        status_by_key,
        folder_by_key,
        results_folders,
        so_far=True,
        config_folder=config_folder,
        faults=text_faults,
    )
    return RecordedResults(results, (*faults, *text_faults.values()), folder_by_key)


def text_fault(decode_path: Path, scores: ScoreRecords) -> RecordFault | None:
    """Return the reason why scores do not match the translations next to the record of their
    decoding, or None if they match.
    """
    # The translations have the name of their record: `test.json` and `test.txt`, or `test.txt.xz`
    # in a pack.
    found_path = find_packed(decode_path.with_suffix(".txt"))
    next_step = "score these translations again (`aiayn score`), or restore those that were scored"
    if found_path is None:
        missing = decode_path.with_suffix(".txt")
        message = f"no {missing.name} next to it, so that its scores cannot be checked"
        return RecordFault(decode_path, message, next_step)
    try:
        sha256 = unpacked_sha256(found_path)
    except UNPACK_ERRORS as error:
        message = f"cannot be unpacked ({error}), so that its scores cannot be checked"
        return RecordFault(found_path, message, next_step)
    # Each score states the digest of the text it was computed from. One wrong score discredits the
    # record.
    for score in scores.scores:
        if score.hypotheses_sha256 != sha256:
            message = (
                f"sha256 {sha256}, but the scores belong to {score.hypotheses_sha256}: left out"
            )
            return RecordFault(found_path, message, next_step)
    return None


def _read_trainings(
    scale: str, results_folders: Sequence[Path]
) -> tuple[dict[TrainingKey, TrainRecord], dict[TrainingKey, Path]]:
    """Return the records of trainings by key, and the folder that contains each record. If several
    folders have a record of the same training, the first folder counts.
    """
    # The first folder wins. The same run in a second folder is a copy.
    record_by_key: dict[TrainingKey, TrainRecord] = {}
    folder_by_key: dict[TrainingKey, Path] = {}
    for folder in results_folders:
        # The path is train/<corpus>/<system>/seed<k>.json.
        for path in glob(folder / scale / "train", "*/*/seed*.json"):
            train = read_train_record(path, folder / scale / PACK_RUNS_NAME)
            key = TrainingKey(train.corpus, train.system, train.seed)
            # A record that was copied to a different path would give its numbers to a different
            # row.
            if path != train_record(folder, scale, *key):
                raise RecordError(
                    f"{path}: records training {key}, expected its path's training; delete it or"
                    " move it back"
                )
            if key not in record_by_key:
                record_by_key[key], folder_by_key[key] = train, folder
            elif record_by_key[key].run != train.run:
                raise RecordError(
                    f"{path}: records run {train.run}, but {folder_by_key[key]} has run"
                    f" {record_by_key[key].run} of the same training; leave out one folder"
                )
    return record_by_key, folder_by_key


def _read_sheets(
    scale: str, results_folders: Sequence[Path], config_folder: Path
) -> list[SheetRow]:
    """Return the trainings in the sheets (lists of trainings) next to the results. The trainings in
    the sheet of the first folder come first.

    If the results contain no sheet (list of trainings), because an earlier version of `aiayn` made
    them, the scale's own sheet is used, with a warning.

    Raises:
        ConfigError: if a sheet is malformed, or if neither the folders nor the scale have a sheet.
    """
    # A sheet lists the trainings of its folder. Some of these trainings may no longer be in the
    # scale's own sheet.
    paths = [folder / scale / SHEET_NAME for folder in results_folders]
    present = [path for path in paths if path.exists()]
    if not present:
        present = [config_folder / "trainings" / f"{scale}.tsv"]
        logger.warning(
            f"{paths[0]}: no such file; the trainings are those of {shown_path(present[0])}; copy"
            " that file there and edit it, if others were asked for"
        )
    rows: list[SheetRow] = []
    for path in present:
        rows = join_sheets(rows, read_sheet(path))
    return rows


def _as_trained(
    experiment: Experiment, record_by_key: Mapping[TrainingKey, TrainRecord]
) -> dict[str, SystemSpec]:
    """Return each system with the settings with which its first run was trained, in the order of
    the keys. A system without a run has the settings of its config file.
    """
    spec_by_system: dict[str, TrainingSpec] = {}
    # Sorted, so that "first" does not depend on the order of the folders.
    for key in sorted(experiment.trainings):
        spec = read_trained(record_by_key[key]) if key in record_by_key else None
        if spec is not None:
            spec_by_system.setdefault(key.system, spec)
    systems = dict(experiment.system_by_name)
    for name, spec in spec_by_system.items():
        # A record has the device that was used, such as `cpu`. The file of the system may have
        # `auto`.
        training = msgspec.structs.replace(spec, device=systems[name].training.device)
        systems[name] = msgspec.structs.replace(systems[name], training=training)
    return systems
