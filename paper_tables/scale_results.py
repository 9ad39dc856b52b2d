"""Gathers the data of one scale's tables: specs, trainings and their states, scores, baselines."""

import functools
import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import msgspec
import pandas as pd

from aiayn.cost import SentenceLengths
from aiayn.errors import RecordError, TableError
from aiayn.experiment import Experiment, read_experiment, shown_evaluations
from aiayn.packed import find_packed, open_unpacked
from aiayn.paths import Evaluation, baselines_record, corpus_record, evaluation_record, measure_record
from aiayn.records import BaselineRecords, BinarizedCorpus, Hypotheses, MeasureRecord, TrainRecord, read_record
from aiayn.spec.hardware import HardwareSpec, read_hardware
from aiayn.spec.system import CONFIG_FOLDER, ScaleSpec
from analysis.scoring.runs import RunState, find_run_state
from analysis.scoring.scores import (
    Number,
    NumberKey,
    TrainingKey,
    collect_scores,
    index_numbers,
    number_key,
    read_of_run,
    read_trainings,
    training_key,
)

TRAIN_SPLIT = "train"  # of a data-bin


@dataclass(frozen=True)
class Translations:
    """The translations of a test set, a line a sentence, and the signature of the search that found them."""

    lines: tuple[str, ...]
    signature: str


class ScaleResults(Experiment, frozen=True, kw_only=True, dict=True):
    """An experiment at a scale and its results; `train_by_key` has only trainings under the present spec.

    The systems include the scale's overrides, so a training of another length or precision is outdated.
    """

    scores: pd.DataFrame
    train_by_key: dict[TrainingKey, TrainRecord]
    state_by_key: dict[TrainingKey, RunState]
    baseline_records: list[BaselineRecords]
    binarized_by_corpus: dict[str, BinarizedCorpus]  # those of the data-bins that there are
    hardware: HardwareSpec
    translations: dict[Evaluation, Translations]  # of those shown sentence by sentence
    measured: MeasureRecord | None  # without a training, for Table 1 and the table of claims

    @functools.cached_property
    def _number_by_key(self) -> dict[NumberKey, Number]:
        return index_numbers(self.scores)

    @functools.cached_property
    def _scored(self) -> set[tuple[str, ...]]:
        return {key[:-1] for key in self._number_by_key}

    def vocabulary_sizes_of(self, corpus: str) -> dict[str, int]:
        """Return vocabulary sizes by language; none of a corpus that is not binarized."""
        record = self.binarized_by_corpus.get(corpus)
        return record.vocabulary_size_by_language if record else {}

    def lengths_of(self, corpus: str) -> SentenceLengths | None:
        """Return the mean lengths of the sentences that were trained on; None if not binarized, or empty."""
        record = self.binarized_by_corpus.get(corpus)
        num_pairs = record.num_pairs_by_split.get(TRAIN_SPLIT, 0) if record else 0
        if record is None or not num_pairs:
            return None
        num_tokens = record.num_tokens_by_split_by_language[TRAIN_SPLIT]
        source, target = (num_tokens[language] for language in (record.source_language, record.target_language))
        return SentenceLengths(source / num_pairs, target / num_pairs)

    def values_of(self, evaluation: Evaluation, metric: str) -> dict[int, float]:
        """Return the values by seed of an evaluation, whichever its own seed."""
        number = self._number_by_key.get(number_key(evaluation, metric))
        return number.value_by_seed if number else {}

    def signatures_of(self, evaluation: Evaluation, metric: str) -> tuple[str, ...]:
        """Return the signatures of an evaluation's values over all seeds: one, if all were scored alike."""
        number = self._number_by_key.get(number_key(evaluation, metric))
        return number.signatures if number else ()

    def is_scored(self, evaluation: Evaluation) -> bool:
        """Return whether any seed of an evaluation has a value in any metric."""
        return number_key(evaluation, "")[:-1] in self._scored

    def trainings_of(self, corpus: str, system: str) -> dict[int, TrainRecord]:
        """Return the finished trainings of a system by seed."""
        return {key[2]: train for key, train in sorted(self.train_by_key.items()) if key[:2] == (corpus, system)}


def gather_results(
    scale: ScaleSpec, results_folder: Path, *, so_far: bool, config_folder: Path = CONFIG_FOLDER
) -> ScaleResults:
    """Read everything; with `so_far` records may be missing, else every one must exist.

    Raises:
        TableError: naming the first missing record, or a training under another spec (unless `so_far`).
        RecordError: if a record is torn, or of another run than its training (the latter unless `so_far`).
    """
    experiment = read_experiment(scale, config_folder)
    required = [] if so_far else experiment.records(results_folder)
    missing = next((path for path in required if not path.exists()), None)
    if missing is not None:
        raise TableError(
            f"{missing}: no such record; the tables of scale {scale.scale} need it; run `snakemake`, or make tables of "
            "the present records with `aiayn tables --so-far`"
        )
    keys = [training.key for training in experiment.trainings]
    runs_folder = Path(scale.runs_folder)
    found = read_trainings(keys, results_folder, scale.scale, runs_folder=runs_folder, so_far=so_far)
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
        raise TableError(f"{outdated.run}: {outdated.reason}, or make tables without it: `aiayn tables --so-far`")
    train_by_key = {key: train for key, train in found.items() if state_by_key[key].status == "finished"}
    place = (train_by_key, results_folder, scale.scale)
    return ScaleResults(
        **msgspec.structs.asdict(experiment),
        scores=collect_scores(experiment.evaluations, *place, so_far=so_far),
        train_by_key=train_by_key,
        state_by_key=state_by_key,
        baseline_records=read_baselines(experiment, results_folder, so_far=so_far),
        binarized_by_corpus=read_binarized(experiment, results_folder),
        hardware=read_hardware(),
        translations=read_translations(shown_evaluations(experiment.evaluations), *place, so_far=so_far),
        measured=read_measured(measure_record(results_folder, scale.scale)),
    )


def read_baselines(experiment: Experiment, results_folder: Path, *, so_far: bool) -> list[BaselineRecords]:
    """Return the baselines of a scale; `so_far` leaves out those that are not there."""
    paths = [baselines_record(results_folder, experiment.scale.scale, *place) for place in experiment.baselines]
    return [read_record(path, BaselineRecords) for path in paths if path.exists() or not so_far]


def read_measured(path: Path) -> MeasureRecord | None:
    """Return the measurements without a training, if there are any."""
    return read_record(path, MeasureRecord) if path.exists() else None


def read_binarized(experiment: Experiment, results_folder: Path) -> dict[str, BinarizedCorpus]:
    """Return the records of the data-bins that there are, by corpus."""
    paths = {
        name: corpus_record(results_folder, experiment.scale.scale, "binarize", name) for name in experiment.corpora
    }
    return {name: read_record(path, BinarizedCorpus) for name, path in paths.items() if path.exists()}


def read_translations(
    evaluations: Iterable[Evaluation],
    train_by_key: Mapping[TrainingKey, TrainRecord],
    results_folder: Path,
    scale: str,
    *,
    so_far: bool,
) -> dict[Evaluation, Translations]:
    """Return the translations by evaluation; `so_far` leaves out what is missing or of another run than its training.

    Raises:
        RecordError: if a record or its text is missing or of another run (unless `so_far`), or torn.
    """
    translations = {}
    for evaluation in evaluations:
        path = evaluation_record(results_folder, scale, "decode", evaluation)
        record = read_of_run(path, Hypotheses, train_by_key.get(training_key(evaluation)), so_far=so_far)
        if record is None:
            continue
        translations[evaluation] = Translations(_read_text(path.with_suffix(".txt"), record), record.signature)
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
        raise RecordError(f"{path}: {found}, its record says {record.hypotheses_sha256}; rerun `aiayn decode`")
    return tuple(content.decode("utf-8").removesuffix("\n").split("\n"))
