"""Reads the records of one scale from disk into `ScaleResults`, the input of `make_frame`.

The request is the scale's config. Without a config (folders laid out as `results/`) it is
`asked.json`, which `aiayn pack` writes, or else it follows from the trainings. Then the records of
its runs describe a system, so a later edit of its file changes nothing. Scores count if their
translations, plain or packed, are next to the record of decode and have the digest that the record
of score names. Other scores are left out; their record is named.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
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
)
from aiayn.packed import UNPACK_ERRORS, find_packed, unpacked_sha256
from aiayn.paths import (
    Evaluation,
    baselines_record,
    corpus_record,
    evaluation_record,
    scale_record,
    shown_path,
    train_record,
)
from aiayn.printed import REFERENCE_SYSTEM, is_asked_for, read_cells
from aiayn.records import (
    BaselineRecords,
    BinarizedCorpus,
    Record,
    ScoreRecords,
    TrainRecord,
    read_record,
    read_train_record,
    read_trained,
)
from aiayn.runs.queue import Queues
from aiayn.runs.training_state import TrainingKey, TrainingState, read_run_states, recorded_state
from aiayn.scoring.scores import (
    collect_scores,
    read_trainings,
    training_key,
)
from aiayn.spec.hardware import HardwareSpec, read_hardware
from aiayn.spec.system import (
    CONFIG_FOLDER,
    FIRST_PROBE_SEED,
    PLACE,
    PROBE_DECISIONS,
    ScaleSpec,
    SystemSpec,
    TrainingSpec,
    convert_scale,
    read_corpus,
    read_scale,
    read_system,
)
from aiayn.wings import load, present_stages

TRAIN_SPLIT = "train"  # the name of a data-bin's split
REQUEST_NAME = "asked.json"  # in a pack: the config of its scale
RUNS_NAME = "runs"  # in a pack: the folder of runs


class RecordFault(NamedTuple):
    """The reason why numbers of a record are left out: its path, what is wrong, the next step."""

    path: Path
    message: str
    next_step: str

    @property
    def text(self) -> str:
        """The whole message: path, what is wrong, next step."""
        return f"{shown_path(self.path)}: {self.message}; {self.next_step}"


class ScaleResults(msgspec.Struct, frozen=True, kw_only=True):
    """A scale's experiment and the records of it.

    `train_by_key` has only trainings under the present spec. The experiment's systems include the
    scale's overrides, so a training of another length or precision is outdated. `record_by_stage`
    has the records of the wings' stages by verb.
    """

    experiment: Experiment
    scores: pd.DataFrame
    train_by_key: dict[TrainingKey, TrainRecord]
    state_by_key: dict[TrainingKey, TrainingState]
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
    """Read the records of a scale; all of them must exist unless `so_far`.

    A training without a record is in the state of its run; `queues` are asked for the run's job.

    Raises:
        TableError: naming the first missing record, or a training under another spec (neither with
            `so_far`).
        RecordError: if a record is torn, or belongs to another run than its training (the latter
            not with `so_far`).
    """
    experiment = read_experiment(scale, config_folder)
    for path in () if so_far else experiment.records(results_folder):
        if not path.exists():
            raise TableError(
                f"{path}: no such record; the tables of scale {scale.scale} need it; the same"
                " command with --so-far makes tables of the present records"
            )
    keys = [training.key for training in experiment.trainings]
    runs_folder = Path(scale.runs_folder)
    found = read_trainings(keys, results_folder, scale.scale, runs_folder)
    spec_by_key = {key: experiment.system_by_name[key[1]].training for key in keys}
    unrecorded = {key: spec for key, spec in spec_by_key.items() if key not in found}
    state_by_run = read_run_states(unrecorded, runs_folder, queues)
    state_by_key = {}
    for key, spec in spec_by_key.items():
        state = recorded_state(found[key], spec) if key in found else state_by_run[key]
        if state.status == "outdated" and not so_far:
            raise TableError(
                f"{state.run}: {state.reason}, or add --so-far to make tables without it"
            )
        state_by_key[key] = state
    folder_by_key = dict.fromkeys(keys, results_folder)
    return _gather(experiment, found, state_by_key, folder_by_key, [results_folder], so_far=so_far)


def _gather(
    experiment: Experiment,
    found: Mapping[TrainingKey, TrainRecord],
    state_by_key: dict[TrainingKey, TrainingState],
    folder_by_key: Mapping[TrainingKey, Path],
    folders: Sequence[Path],
    *,
    so_far: bool,
    config_folder: Path = CONFIG_FOLDER,
    faults: dict[Evaluation, RecordFault] | None = None,
) -> ScaleResults:
    """Read the records that belong to the `found` trainings, then those that belong to none.

    The latter are read from the first of `folders` that has them. With `faults`, scores whose
    translations are not next to them are left out, and the reason is added to `faults`.
    """
    scale = experiment.scale.scale
    train_by_key = {}
    for key, train in found.items():
        if state_by_key[key].status == "finished":
            train_by_key[key] = train

    def is_trusted(evaluation: Evaluation, scores: ScoreRecords) -> bool:
        if faults is None:
            return True
        folder = folder_by_key[training_key(evaluation)]
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
    baseline_records = []
    binarized_by_corpus: dict[str, BinarizedCorpus] = {}
    record_by_stage: dict[str, Record] = {}
    for folder in folders:
        for baseline in experiment.baselines:
            path = baselines_record(folder, scale, *baseline)
            if path.exists() or not so_far:
                baseline_records.append(read_record(path, BaselineRecords))
        for corpus in experiment.corpora:
            path = corpus_record(folder, scale, "binarize", corpus)
            if corpus not in binarized_by_corpus and path.exists():
                binarized_by_corpus[corpus] = read_record(path, BinarizedCorpus)
        for stage in present_stages():
            path = scale_record(folder, scale, stage.verb)
            if stage.verb not in record_by_stage and path.exists():
                record_by_stage[stage.verb] = read_record(path, load(stage.record))
    return ScaleResults(
        experiment=experiment,
        scores=scores,
        train_by_key=train_by_key,
        state_by_key=state_by_key,
        baseline_records=baseline_records,
        binarized_by_corpus=binarized_by_corpus,
        hardware=read_hardware(config_folder / "hardware.yaml"),
        record_by_stage=record_by_stage,
    )


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
        RecordError: if a record is torn or belongs to another training than its path names, or if
            two folders hold different runs of one training.
        ConfigError: if a corpus or a system has no file.
    """
    trained, folder_by_key = _read_trainings(scale, results_folders)
    found = {key: train for key, train in trained.items() if train.seed < FIRST_PROBE_SEED}
    request, trainings = _read_request(scale, results_folders, found, config_folder)
    experiment = expand(request, config_folder, trainings)
    systems = _as_trained(experiment, found)
    experiment = msgspec.structs.replace(experiment, system_by_name=systems)
    state_by_key: dict[TrainingKey, TrainingState] = {}
    asked = {}
    for training in trainings:
        key, spec = training.key, systems[training.system].training
        state_by_key[key] = TrainingState(
            status="missing", run="", update=0, updates=spec.updates, reason="no record of it"
        )
        if key in found:
            asked[key] = found[key]
            state_by_key[key] = recorded_state(found[key], spec)
    faults = []
    for key, train in trained.items():
        if key not in found:
            message = (
                f"seed {train.seed} is a probe's (decisions {PROBE_DECISIONS}), and enters no table"
            )
            next_step = "train it with a seed of the tables"
        elif key not in state_by_key:
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
        asked,
        state_by_key,
        folder_by_key,
        results_folders,
        so_far=True,
        config_folder=config_folder,
        faults=text_faults,
    )
    return RecordedResults(results, (*faults, *text_faults.values()), folder_by_key)


def text_fault(decode_path: Path, scores: ScoreRecords) -> RecordFault | None:
    """Return why scores do not belong to the translations next to a record of decode, or None."""
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
    """Return the records of training by key, and the first folder that has each."""
    found: dict[TrainingKey, TrainRecord] = {}
    folder_by_key: dict[TrainingKey, Path] = {}
    for folder in results_folders:
        for path in sorted((folder / scale / "train").glob("*/*/seed*.json")):
            train = read_train_record(path, folder / scale / RUNS_NAME)
            key = (train.corpus, train.system, train.seed)
            if path != train_record(folder, scale, *key):
                raise RecordError(
                    f"{path}: records training {key}, expected its path's training; delete it or"
                    " move it back"
                )
            if key not in found:
                found[key], folder_by_key[key] = train, folder
            elif found[key].run != train.run:
                raise RecordError(
                    f"{path}: records run {train.run}, but {folder_by_key[key]} has run"
                    f" {found[key].run} of the same training; leave out one folder"
                )
    return found, folder_by_key


def _read_request(
    scale: str,
    results_folders: Sequence[Path],
    found: Mapping[TrainingKey, TrainRecord],
    config_folder: Path,
) -> tuple[ScaleSpec, list[Training]]:
    """Return the request and its trainings: a single folder's asked.json, else what is there."""
    requests = []
    for folder in results_folders:
        request = _packed_request(folder / scale)
        if request is not None:
            requests.append(request)
    if len(results_folders) == 1 and requests:
        return requests[0], expand_trainings(requests[0])
    later: set[TrainingKey] = set()
    for request in requests:
        later |= {training.key for training in expand_later_trainings(request)}
    has_baselines = False
    for folder in results_folders:
        has_baselines |= any((folder / scale / "baselines").glob("*/*.json"))
    request = _request_of_trained(scale, found, config_folder, later)
    request = msgspec.structs.replace(request, has_baselines=has_baselines)
    return request, [training for training in expand_trainings(request) if training.key in found]


def _packed_request(folder: Path) -> ScaleSpec | None:
    """Return the config that a pack keeps; None for a folder that is not a pack."""
    path = folder / REQUEST_NAME
    if not path.exists():
        return None
    try:
        return convert_scale(
            msgspec.json.decode(path.read_bytes(), type=dict[str, object]), str(path)
        )
    except (msgspec.DecodeError, msgspec.ValidationError, ConfigError) as error:
        raise RecordError(
            f"{path}: not the config of a scale ({error}); pack the scale again"
        ) from error


def _request_of_trained(
    scale: str,
    found: Iterable[TrainingKey],
    config_folder: Path,
    packed_later: Collection[TrainingKey] = (),
) -> ScaleSpec:
    """Return a config for the trainings found, with each system in the list of its table.

    Trainings in `packed_later` are `later_seeds` of a pack, and stay later seeds.

    The corpus of a language pair is the corpus that the scale's own file names, if it was trained
    on; else the first corpus of that pair.
    """
    default = read_scale(config_folder / f"{scale}.yaml")
    later = _later_among(found, default, config_folder).union(packed_later)
    seeds_by_system_by_corpus: dict[str, dict[str, list[int]]] = {}
    later_by_system: dict[str, list[str]] = {}
    for corpus, system, seed in sorted(found):
        if (corpus, system, seed) in later:
            later_by_system.setdefault(system, []).append(str(seed))
        else:
            seeds_by_system = seeds_by_system_by_corpus.setdefault(corpus, {})
            seeds_by_system.setdefault(system, []).append(seed)

    corpus_by_pair = _corpus_by_pair(seeds_by_system_by_corpus, default, config_folder)
    en_de = seeds_by_system_by_corpus.get(corpus_by_pair["en-de"], {})
    en_fr = seeds_by_system_by_corpus.get(corpus_by_pair["en-fr"], {})

    known = all_compared()
    tables_by_system: dict[str, set[int]] = {}
    for join in read_cells():
        tables_by_system.setdefault(join.system, set()).add(join.table)
    table_2, ablations, architectures, variants = [], [], [], []
    for system in dict.fromkeys((*tables_by_system, *known.architectures, *known.variants, *en_de)):
        if system not in en_de:
            continue
        if 2 in tables_by_system.get(system, ()):
            table_2.append(system)
        elif system in tables_by_system:
            ablations.append(system)
        elif system in known.architectures:
            architectures.append(system)
        elif not is_asked_for("en-de", system):
            variants.append(system)
    replication_seeds: dict[str, list[int]] = {}
    for row, run in repeated_runs().items():
        seeds = seeds_by_system_by_corpus.get(run.corpus, {}).get(run.system)
        if seeds is not None:
            replication_seeds[row] = seeds
    without_base = set(table_2) - {REFERENCE_SYSTEM}
    return msgspec.structs.replace(
        default,
        **PLACE,
        en_de_corpus=corpus_by_pair["en-de"],
        en_fr_corpus=corpus_by_pair["en-fr"],
        en_de_systems=table_2,
        en_fr_systems=[system for system in en_fr if is_asked_for("en-fr", system)],
        ablation_systems=ablations,
        replications=list(replication_seeds),
        variants=variants,
        architectures=architectures,
        base_seeds=_seeds_of(en_de, [REFERENCE_SYSTEM]),
        seeds=sorted({*_seeds_of(en_de, without_base), *_seeds_of(en_fr, en_fr)}),
        replication_seeds=_seeds_of(replication_seeds, replication_seeds),
        ablation_seeds=_seeds_of(en_de, ablations),
        variant_seeds=_seeds_of(en_de, [*variants, *architectures]),
        later_seeds=[f"{system}:{','.join(seeds)}" for system, seeds in later_by_system.items()],
        updates=None,
        precision=None,
    )


def _corpus_by_pair(
    trained_corpora: Iterable[str], default: ScaleSpec, config_folder: Path
) -> dict[str, str]:
    """Return the corpus of each language pair: the scale's own, else the first that was trained."""
    repeated_corpora = {run.corpus for run in repeated_runs().values()}
    corpus_by_pair = {"en-de": default.en_de_corpus, "en-fr": default.en_fr_corpus}
    for pair, name in corpus_by_pair.items():
        corpora = []
        for corpus in trained_corpora:
            is_pair = read_corpus(corpus, config_folder).language_pair == pair
            if is_pair and corpus not in repeated_corpora:
                corpora.append(corpus)
        if corpora and name not in corpora:
            corpus_by_pair[pair] = corpora[0]
    return corpus_by_pair


def _seeds_of(seeds_by_name: Mapping[str, Iterable[int]], names: Iterable[str]) -> list[int]:
    """Return the seeds of these systems, in rising order."""
    return sorted({seed for name in names for seed in seeds_by_name.get(name, ())})


def _later_among(
    found: Iterable[TrainingKey], default: ScaleSpec, config_folder: Path
) -> set[TrainingKey]:
    """Return the trainings of later seeds: named so by the scale's own file, or continuing another
    training.
    """
    later = {training.key for training in expand_later_trainings(default)}
    for corpus, system, seed in found:
        if corpus == default.en_de_corpus:
            spec = read_system(system, default.scale, config_folder)
            if spec.begins_from is not None:
                later.add((corpus, system, seed))
    return later


def _as_trained(
    experiment: Experiment, found: Mapping[TrainingKey, TrainRecord]
) -> dict[str, SystemSpec]:
    """Return each system as its first run was trained; a system without a run as in its file."""
    spec_by_system: dict[str, TrainingSpec] = {}
    for key in sorted(training.key for training in experiment.trainings):
        spec = read_trained(found[key]) if key in found else None
        if spec is not None:
            spec_by_system.setdefault(key[1], spec)
    systems = dict(experiment.system_by_name)
    for name, spec in spec_by_system.items():
        training = msgspec.structs.replace(spec, device=systems[name].training.device)
        systems[name] = msgspec.structs.replace(systems[name], training=training)
    return systems
