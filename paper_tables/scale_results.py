"""Gathers the data of one scale's tables: specs, trainings and their states, scores, baselines.

The request is the scale's config; or, from records alone (folders laid out as `results/`),
`asked.json` beside them, as `aiayn pack` writes it; without it, what is there. From records alone,
a system is described by the records of its runs; a later edit of its file does not count. Scores
count if their translations lie beside the record of decode, plain or packed, with the digest in the
record of score; else they are omitted, and the record is named.
"""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec
import pandas as pd

from aiayn.errors import ConfigError, RecordError, TableError
from aiayn.experiment import (
    Experiment,
    Training,
    all_compared,
    expand,
    expand_later_trainings,
    expand_trainings,
    read_experiment,
    repeated_runs,
    shown_evaluations,
)
from aiayn.packed import UNPACK_ERRORS, find_packed, open_unpacked, unpacked_sha256
from aiayn.paths import (
    Evaluation,
    baselines_record,
    corpus_record,
    evaluation_record,
    scale_record,
    train_record,
)
from aiayn.printed import REFERENCE_SYSTEM, is_asked_for, read_cells
from aiayn.records import (
    BaselineRecords,
    BinarizedCorpus,
    Hypotheses,
    Record,
    ScoreRecords,
    TrainRecord,
    read_record,
    read_train_record,
    read_trained,
)
from aiayn.scoring.runs import RunState, find_run_state
from aiayn.scoring.scores import (
    TrainingKey,
    collect_scores,
    read_of_run,
    read_trainings,
    training_key,
)
from aiayn.spec.hardware import HardwareSpec, read_hardware
from aiayn.spec.system import (
    CONFIG_FOLDER,
    FIRST_PROBE_SEED,
    PLACE,
    ScaleSpec,
    SystemSpec,
    convert_scale,
    read_corpus,
    read_scale,
    read_system,
)
from aiayn.wings import load, present_stages
from paper_tables.frame import Translations

TRAIN_SPLIT = "train"  # of a data-bin
REQUEST_NAME, RUNS_NAME = (
    "asked.json",
    "runs",
)  # of a pack: the config that was asked for, the folder of runs


class RecordFault(NamedTuple):
    """Why numbers of a record are left out: the record, what is wrong with it, and the next
    step.
    """

    path: Path
    message: str
    next_step: str

    @property
    def text(self) -> str:
        """The whole message: place, what is wrong, next step."""
        return f"{self.path}: {self.message}; {self.next_step}"


class ScaleResults(msgspec.Struct, frozen=True, kw_only=True):
    """An experiment at a scale, and what is recorded of it; `train_by_key` has only trainings under
    the present spec.

    The experiment's systems include the scale's overrides, so a training of another length or
    precision is outdated.
    """

    experiment: Experiment
    scores: pd.DataFrame
    train_by_key: dict[TrainingKey, TrainRecord]
    state_by_key: dict[TrainingKey, RunState]
    baseline_records: list[BaselineRecords]
    binarized_by_corpus: dict[str, BinarizedCorpus]  # those of the data-bins that there are
    hardware: HardwareSpec
    translations: dict[Evaluation, Translations]  # of those shown sentence by sentence
    record_by_stage: dict[str, Record]  # of wings' stages, by verb


def gather_results(
    scale: ScaleSpec, results_folder: Path, *, so_far: bool, config_folder: Path = CONFIG_FOLDER
) -> ScaleResults:
    """Read everything; with `so_far` records may be missing, else every one must exist.

    Raises:
        TableError: naming the first missing record, or a training under another spec (unless
        `so_far`).
        RecordError: if a record is torn, or of another run than its training (the latter unless
        `so_far`).
    """
    experiment = read_experiment(scale, config_folder)
    required = [] if so_far else experiment.records(results_folder)
    missing = next((path for path in required if not path.exists()), None)
    if missing is not None:
        raise TableError(
            f"{missing}: no such record; the tables of scale {scale.scale} need it; run"
            " `snakemake`, or make tables of the present records with `aiayn tables --so-far`"
        )
    keys = [training.key for training in experiment.trainings]
    runs_folder = Path(scale.runs_folder)
    found = read_trainings(
        keys, results_folder, scale.scale, runs_folder=runs_folder, so_far=so_far
    )
    state_by_key = {
        key: find_run_state(
            *key,
            training=experiment.system_by_name[key[1]].training,
            train=found.get(key),
            runs_folder=runs_folder,
        )
        for key in keys
    }
    outdated = next((state for state in state_by_key.values() if state.status == "outdated"), None)
    if outdated and not so_far:
        raise TableError(
            f"{outdated.run}: {outdated.reason}, or make tables without it: `aiayn tables --so-far`"
        )
    return _gather(
        experiment,
        found,
        state_by_key,
        dict.fromkeys(keys, results_folder),
        [results_folder],
        so_far=so_far,
    )


def _gather(
    experiment: Experiment,
    found: Mapping[TrainingKey, TrainRecord],
    state_by_key: dict[TrainingKey, RunState],
    folder_by_key: Mapping[TrainingKey, Path],
    folders: Sequence[Path],
    *,
    so_far: bool,
    config_folder: Path = CONFIG_FOLDER,
    faults: dict[Evaluation, RecordFault] | None = None,
) -> ScaleResults:
    """Read what belongs to trainings that were `found`, and the first record of the folders of what
    belongs to none.

    With `faults` scores whose translations are not beside them are left out, and noted there.
    """
    scale = experiment.scale.scale
    train_by_key = {
        key: found[key]
        for key in state_by_key
        if state_by_key[key].status == "finished" and key in found
    }

    def is_trusted(evaluation: Evaluation, scores: ScoreRecords) -> bool:
        if faults is None:
            return True
        folder = folder_by_key[training_key(evaluation)]
        fault = text_fault(evaluation_record(folder, scale, "decode", evaluation), scores)
        if fault is not None:
            faults[evaluation] = fault
        return fault is None

    place = (train_by_key, folder_by_key, scale)
    scores = collect_scores(experiment.evaluations, *place, so_far=so_far, is_trusted=is_trusted)
    shown = [one for one in shown_evaluations(experiment.evaluations) if one not in (faults or {})]
    baseline_paths = [
        baselines_record(folder, scale, *one) for folder in folders for one in experiment.baselines
    ]
    binarized_paths = [
        (name, corpus_record(folder, scale, "binarize", name))
        for folder in reversed(folders)
        for name in experiment.corpora
    ]
    record_by_stage = {}
    for stage in present_stages():
        paths = (scale_record(folder, scale, stage.verb) for folder in folders)
        if path := next((path for path in paths if path.exists()), None):
            record_by_stage[stage.verb] = read_record(path, load(stage.record))
    return ScaleResults(
        experiment=experiment,
        scores=scores,
        train_by_key=train_by_key,
        state_by_key=state_by_key,
        baseline_records=[
            read_record(path, BaselineRecords)
            for path in baseline_paths
            if path.exists() or not so_far
        ],
        binarized_by_corpus={
            name: read_record(path, BinarizedCorpus)
            for name, path in binarized_paths
            if path.exists()
        },
        hardware=read_hardware(config_folder / "hardware.yaml"),
        translations=read_translations(shown, *place, so_far=so_far),
        record_by_stage=record_by_stage,
    )


def read_translations(
    evaluations: Iterable[Evaluation],
    train_by_key: Mapping[TrainingKey, TrainRecord],
    folder_by_key: Mapping[TrainingKey, Path],
    scale: str,
    *,
    so_far: bool,
) -> dict[Evaluation, Translations]:
    """Return the translations by evaluation; `so_far` leaves out what is missing or of another run
    than its training.

    Raises:
        RecordError: if a record or its text is missing or of another run (unless `so_far`), or
        torn.
    """
    translations = {}
    for evaluation in evaluations:
        key = training_key(evaluation)
        if key in train_by_key or not so_far:
            path = evaluation_record(folder_by_key[key], scale, "decode", evaluation)
            record = read_of_run(path, Hypotheses, train_by_key.get(key), so_far=so_far)
            if record is not None:
                translations[evaluation] = Translations(
                    _read_text(path.with_suffix(".txt"), record), record.signature
                )
    return translations


def _read_text(path: Path, record: Hypotheses) -> tuple[str, ...]:
    """Return the lines of a record of decode, from the file beside it, plain or packed."""
    found_path = find_packed(path)
    content = b""
    if found_path is not None:
        with open_unpacked(found_path) as text:
            content = text.read()
    sha256 = hashlib.sha256(content).hexdigest()
    if sha256 != record.hypotheses_sha256:
        found = f"sha256 {sha256}" if found_path is not None else "no such file"
        raise RecordError(
            f"{path}: {found}, its record says {record.hypotheses_sha256}; rerun `aiayn decode`"
        )
    return tuple(content.decode("utf-8").removesuffix("\n").split("\n"))


class RecordedResults(NamedTuple):
    """The results of one scale, the records left out, and the folder of each training's records."""

    results: ScaleResults
    faults: tuple[RecordFault, ...]
    folder_by_key: dict[TrainingKey, Path]


def gather_from_records(
    scale: str, results_folders: Sequence[Path], config_folder: Path = CONFIG_FOLDER
) -> RecordedResults:
    """Read the records of a scale below one or several results folders; missing ones are allowed.

    Raises:
        RecordError: if a record is torn or of another training than its path names, or if two
            folders hold different runs of one training.
        ConfigError: if a corpus or a system has no file.
    """
    trained, folder_by_key = _read_trainings(scale, results_folders)
    found = {key: train for key, train in trained.items() if train.seed < FIRST_PROBE_SEED}
    request, trainings = _read_request(scale, results_folders, found, config_folder)
    keys = [training.key for training in trainings]
    experiment = expand(request, config_folder, trainings)
    experiment = msgspec.structs.replace(experiment, system_by_name=_as_trained(experiment, found))
    state_by_key = {
        key: _state(key, found.get(key), experiment.system_by_name[key[1]]) for key in keys
    }
    faults = []
    for key, train in trained.items():
        if key not in found:
            message = (
                f"seed {train.seed} is a probe's, by which a scale was chosen, and stands in no"
                " table"
            )
            next_step = "train it with a seed of the tables"
        elif key not in keys:
            message = (
                f"no table of scale {scale} asks for {train.system} on {train.corpus}, seed"
                f" {train.seed}"
            )
            next_step = "name it in the scale's config"
        elif state_by_key[key].status == "outdated":
            message = (
                f"{train.run} was trained under another spec than other runs of {train.system}"
            )
            next_step = "train all runs of a system alike"
        else:
            continue
        path = train_record(folder_by_key[key], scale, *key)
        faults.append(RecordFault(path, f"{message}: left out", next_step))
    text_faults: dict[Evaluation, RecordFault] = {}
    results = _gather(
        experiment,
        found,
        state_by_key,
        folder_by_key,
        results_folders,
        so_far=True,
        config_folder=config_folder,
        faults=text_faults,
    )
    return RecordedResults(results, (*faults, *text_faults.values()), folder_by_key)


def text_fault(decode_path: Path, scores: ScoreRecords) -> RecordFault | None:
    """Return why scores are not of the translations beside a record of decode; None if they are."""
    found_path = find_packed(decode_path.with_suffix(".txt"))
    next_step = "score these translations again (`aiayn score`), or restore those that were scored"
    if found_path is None:
        missing = decode_path.with_suffix(".txt")
        return RecordFault(
            decode_path,
            f"no {missing.name} beside it, so that its scores cannot be checked",
            next_step,
        )
    try:
        sha256 = unpacked_sha256(found_path)
    except UNPACK_ERRORS as error:
        return RecordFault(
            found_path,
            f"cannot be unpacked ({error}), so that its scores cannot be checked",
            next_step,
        )
    scored = next(
        (score.hypotheses_sha256 for score in scores.scores if score.hypotheses_sha256 != sha256),
        sha256,
    )
    if scored == sha256:
        return None
    return RecordFault(
        found_path, f"sha256 {sha256}, but the scores are of {scored}: left out", next_step
    )


def _read_trainings(
    scale: str, results_folders: Sequence[Path]
) -> tuple[dict[TrainingKey, TrainRecord], dict[TrainingKey, Path]]:
    """Return the records of training by key, and the folder in which each was found first."""
    found: dict[TrainingKey, TrainRecord] = {}
    folder_by_key: dict[TrainingKey, Path] = {}
    for folder in results_folders:
        for path in sorted((folder / scale / "train").glob("*/*/seed*.json")):
            train = read_train_record(path, folder / scale / RUNS_NAME)
            key = (train.corpus, train.system, train.seed)
            if path.parts[-3:] != (train.corpus, train.system, f"seed{train.seed}.json"):
                raise RecordError(
                    f"{path}: is of {key}, expected the training of its path; delete it or move it"
                    " back"
                )
            if key not in found:
                found[key], folder_by_key[key] = train, folder
            elif found[key].run != train.run:
                raise RecordError(
                    f"{path}: is of run {train.run}, but {folder_by_key[key]} holds"
                    f" {found[key].run} of the same training; name one of the two folders"
                )
    return found, folder_by_key


def _read_request(
    scale: str,
    results_folders: Sequence[Path],
    found: Mapping[TrainingKey, TrainRecord],
    config_folder: Path,
) -> tuple[ScaleSpec, list[Training]]:
    """Return the request and its trainings: of one folder its asked.json, else what is there."""
    path = results_folders[0] / scale / REQUEST_NAME
    if len(results_folders) == 1 and path.exists():
        try:
            request = convert_scale(
                msgspec.json.decode(path.read_bytes(), type=dict[str, object]), str(path)
            )
        except (msgspec.DecodeError, msgspec.ValidationError, ConfigError) as error:
            raise RecordError(
                f"{path}: not the config of a scale ({error}); pack the scale again"
            ) from error
        return request, expand_trainings(request)
    has_baselines = any(
        any((folder / scale / "baselines").glob("*/*.json")) for folder in results_folders
    )
    request = _request_of_trained(scale, found, config_folder, has_baselines=has_baselines)
    return request, [
        one for one in expand_trainings(request) if (one.corpus, one.system, one.seed) in found
    ]


def _request_of_trained(
    scale: str, found: Iterable[TrainingKey], config_folder: Path, *, has_baselines: bool
) -> ScaleSpec:
    """Return a config for what was trained: each system in the list of its table.

    A corpus that the scale's own file names is the one of its language pair; else the first of that
    pair.
    """
    default = read_scale(config_folder / f"{scale}.yaml")
    trained: dict[tuple[str, str], set[int]] = {}
    later = _later_among(found, default, config_folder)
    for corpus, system, seed in sorted(set(found) - later):
        trained.setdefault((corpus, system), set()).add(seed)
    later_by_system: dict[str, list[int]] = {}
    for _, system, seed in sorted(later):
        later_by_system.setdefault(system, []).append(seed)
    repeated = repeated_runs()
    replications = {
        row: run for row, run in repeated.items() if (run.corpus, run.system) in trained
    }
    own_corpora = sorted(
        {corpus for corpus, _ in trained} - {run.corpus for run in repeated.values()}
    )
    corpus_by_pair = {"en-de": default.en_de_corpus, "en-fr": default.en_fr_corpus}
    for pair, name in corpus_by_pair.items():
        others = [
            corpus
            for corpus in own_corpora
            if read_corpus(corpus, config_folder).language_pair == pair
        ]
        corpus_by_pair[pair] = name if name in others or not others else others[0]
    en_de = [system for corpus, system in trained if corpus == corpus_by_pair["en-de"]]
    en_fr = [system for corpus, system in trained if corpus == corpus_by_pair["en-fr"]]
    of_table_2 = {join.system for join in read_cells() if join.table == 2}
    known = all_compared()
    architectures = [system for system in known.architectures if system in en_de]
    variants = [
        system
        for system in en_de
        if not is_asked_for("en-de", system) and system not in architectures
    ]

    def seeds_of(corpora: Iterable[str], systems: Iterable[str]) -> list[int]:
        wanted = {(corpus, system) for corpus in corpora for system in systems}
        return sorted({seed for key, seeds in trained.items() if key in wanted for seed in seeds})

    table_2 = [system for system in en_de if system in of_table_2]
    ablations = [
        join.system
        for join in read_cells()
        if join.table == 3 and join.system in {*en_de} - of_table_2
    ]
    repeated_corpora = [run.corpus for run in replications.values()]
    repeated_systems = [run.system for run in replications.values()]
    return msgspec.structs.replace(
        default,
        **PLACE,
        en_de_corpus=corpus_by_pair["en-de"],
        en_fr_corpus=corpus_by_pair["en-fr"],
        en_de_systems=table_2,
        en_fr_systems=[system for system in en_fr if is_asked_for("en-fr", system)],
        ablation_systems=list(dict.fromkeys(ablations)),
        replications=list(replications),
        variants=[
            *(name for name in known.variants if name in variants),
            *sorted(name for name in variants if name not in known.variants),
        ],
        architectures=architectures,
        base_seeds=seeds_of([corpus_by_pair["en-de"]], [REFERENCE_SYSTEM]),
        seeds=sorted(
            {
                *seeds_of(
                    [corpus_by_pair["en-de"]],
                    [system for system in table_2 if system != REFERENCE_SYSTEM],
                ),
                *seeds_of([corpus_by_pair["en-fr"]], en_fr),
            }
        ),
        replication_seeds=seeds_of(repeated_corpora, repeated_systems),
        ablation_seeds=seeds_of([corpus_by_pair["en-de"]], ablations),
        variant_seeds=seeds_of([corpus_by_pair["en-de"]], [*variants, *architectures]),
        later_seeds=[
            f"{system}:{','.join(map(str, seeds))}" for system, seeds in later_by_system.items()
        ],
        has_baselines=has_baselines,
        updates=None,
        precision=None,
    )


def _later_among(
    found: Iterable[TrainingKey], default: ScaleSpec, config_folder: Path
) -> set[TrainingKey]:
    """Return the trainings that are later seeds: those in the scale's own file, and those that
    continue a training.
    """
    keys = set(found)
    later = {training.key for training in expand_later_trainings(default)} & keys
    systems = {system for corpus, system, _ in keys if corpus == default.en_de_corpus}
    continued = {
        name
        for name in systems
        if read_system(name, default.scale, config_folder).begins_from is not None
    }
    return later | {key for key in keys if key[1] in continued}


def _as_trained(
    experiment: Experiment, found: Mapping[TrainingKey, TrainRecord]
) -> dict[str, SystemSpec]:
    """Return each system as its first run was trained; one without a run as in its file."""
    systems = dict(experiment.system_by_name)
    for name, system in systems.items():
        keys = sorted(
            one.key for one in experiment.trainings if one.system == name and one.key in found
        )
        first = next(filter(None, (read_trained(found[key]) for key in keys)), None)
        if first is not None:
            training = msgspec.structs.replace(first, device=system.training.device)
            systems[name] = msgspec.structs.replace(system, training=training)
    return systems


def _state(key: TrainingKey, train: TrainRecord | None, system: SystemSpec) -> RunState:
    if train is None:
        return RunState(
            status="missing",
            run="",
            update=0,
            updates=system.training.updates,
            reason="no record of it",
        )
    return find_run_state(*key, training=system.training, train=train, runs_folder=Path())
