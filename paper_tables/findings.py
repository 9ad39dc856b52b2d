"""Gathers all that the tables of one scale are made of: specs, trainings and their states, scores, baselines."""

from dataclasses import dataclass, field
from pathlib import Path

import pandas as pd

from aiayn.cost import SentenceLengths
from aiayn.errors import TableError
from aiayn.hardware import HardwareSpec, read_hardware
from aiayn.paths import Evaluation, baselines_record, corpus_record, measure_record
from aiayn.records import BaselineRecords, BinarizedCorpus, MeasureRecord, TrainRecord, read_record
from aiayn.spec import CONFIG_FOLDER, CorpusSpec, ScaleSpec, SystemSpec
from analysis.runs import RunState, find_run_state
from analysis.scores import TrainingKey, collect_scores, read_trainings, values_by_seed
from paper_tables.evaluations import (
    expand_baselines,
    expand_evaluations,
    expand_trainings,
    needs_perplexity,
    read_corpora,
    read_systems,
    required_records,
    shown_evaluations,
)
from paper_tables.translations import Translations, read_translations

TRAIN_SPLIT = "train"  # of a data-bin


@dataclass(frozen=True, kw_only=True)
class Findings:
    """What was asked for at a scale, and what came of it; `train_by_key` holds what was trained as now asked for.

    The systems are as the scale trains them, its overrides put in; so a training of another length or precision is
    outdated.
    """

    scale: ScaleSpec
    corpora: dict[str, CorpusSpec]
    system_by_name: dict[str, SystemSpec]
    evaluations: list[Evaluation]
    scores: pd.DataFrame
    train_by_key: dict[TrainingKey, TrainRecord]
    state_by_key: dict[TrainingKey, RunState]
    baselines: list[BaselineRecords]
    vocabulary_size_by_corpus: dict[str, dict[str, int]]  # each by language
    hardware: HardwareSpec
    lengths_by_corpus: dict[str, SentenceLengths] = field(default_factory=dict)  # of training sentences
    translations: dict[Evaluation, Translations] = field(default_factory=dict)  # of those shown sentence by sentence
    measured: MeasureRecord | None = None  # without a training, for the table of claims

    def corpus_of(self, language_pair: str) -> str:
        """Return the corpus that the paper's systems of a language pair are trained on at this scale."""
        return {"en-de": self.scale.en_de_corpus, "en-fr": self.scale.en_fr_corpus}[language_pair]

    def seeds_of(self, corpus: str, system: str) -> list[int]:
        """Return the seeds that the scale asks of a system; none if it is not run."""
        return sorted(seed for name, other, seed in self.state_by_key if (name, other) == (corpus, system))

    def evaluation_of(self, corpus: str, system: str, average: str, role: str) -> Evaluation | None:
        """Return one seed's evaluation, or None if the scale does not ask for it."""
        wanted = (corpus, system, average, role)
        found = (e for e in self.evaluations if (e.corpus, e.system, e.average, e.role) == wanted)
        return next(found, None)

    def values_of(self, evaluation: Evaluation, metric: str) -> dict[int, float]:
        """Return the values by seed of an evaluation, whichever its own seed."""
        return values_by_seed(
            self.scores,
            corpus=evaluation.corpus,
            system=evaluation.system,
            average=evaluation.average,
            testset=evaluation.testset,
            metric=metric,
        )


def gather_findings(
    scale: ScaleSpec, results_folder: Path, *, so_far: bool, config_folder: Path = CONFIG_FOLDER
) -> Findings:
    """Read everything; `so_far` takes what is there, otherwise every record must be.

    Raises:
        TableError: naming the first missing record, or a training under another spec (unless `so_far`).
        RecordError: if a record is torn, or of another run than its training (the latter unless `so_far`).
    """
    if not so_far:
        _require(scale, results_folder, config_folder)
    corpora = read_corpora(scale, config_folder)
    evaluations = expand_evaluations(scale, config_folder)
    keys = [(training.corpus, training.system, training.seed) for training in expand_trainings(scale)]
    system_by_name = read_systems(scale, config_folder)
    runs_folder = Path(scale.runs_folder)
    found = read_trainings(keys, results_folder, scale.scale, runs_folder=runs_folder, so_far=so_far)
    state_by_key = {
        key: find_run_state(
            *key, training=system_by_name[key[1]].training, train=found.get(key), runs_folder=runs_folder
        )
        for key in keys
    }
    if not so_far:
        _refuse_outdated(state_by_key)
    train_by_key = {key: train for key, train in found.items() if state_by_key[key].status == "finished"}
    return Findings(
        scale=scale,
        corpora=corpora,
        system_by_name=system_by_name,
        evaluations=evaluations,
        scores=collect_scores(
            evaluations, train_by_key, results_folder, scale.scale, has_perplexity=needs_perplexity, so_far=so_far
        ),
        train_by_key=train_by_key,
        state_by_key=state_by_key,
        baselines=read_baselines(scale, corpora, results_folder, so_far=so_far),
        vocabulary_size_by_corpus=read_vocabulary_sizes(scale, corpora, results_folder),
        hardware=read_hardware(),
        lengths_by_corpus=read_sentence_lengths(scale, corpora, results_folder),
        translations=read_translations(
            shown_evaluations(evaluations), train_by_key, results_folder, scale.scale, so_far=so_far
        ),
        measured=read_measured(measure_record(results_folder, scale.scale)),
    )


def _require(scale: ScaleSpec, results_folder: Path, config_folder: Path) -> None:
    for path in required_records(scale, results_folder, config_folder):
        if not path.exists():
            raise TableError(
                f"{path}: no such record, and the tables of scale {scale.scale} need it; run `snakemake`, "
                "or see what is there with `aiayn tables --so-far`"
            )


def _refuse_outdated(state_by_key: dict[TrainingKey, RunState]) -> None:
    for state in state_by_key.values():
        if state.status == "outdated":
            raise TableError(f"{state.run}: {state.reason}, or see what is there with `aiayn tables --so-far`")


def read_baselines(
    scale: ScaleSpec, corpora: dict[str, CorpusSpec], results_folder: Path, *, so_far: bool
) -> list[BaselineRecords]:
    """Return the baselines that a scale asks for; `so_far` leaves out those that are not there."""
    paths = [
        baselines_record(results_folder, scale.scale, corpus, testset)
        for corpus, testset in expand_baselines(scale, corpora)
    ]
    return [read_record(path, BaselineRecords) for path in paths if path.exists() or not so_far]


def read_measured(path: Path) -> MeasureRecord | None:
    """Return what was measured without a training, if it was."""
    return read_record(path, MeasureRecord) if path.exists() else None


def read_vocabulary_sizes(
    scale: ScaleSpec, corpora: dict[str, CorpusSpec], results_folder: Path
) -> dict[str, dict[str, int]]:
    """Return vocabulary sizes, without which a count of parameters says little; a corpus not binarized has none."""
    path_by_corpus = {name: corpus_record(results_folder, scale.scale, "binarize", name) for name in corpora}
    return {
        name: read_record(path, BinarizedCorpus).vocabulary_size_by_language
        for name, path in path_by_corpus.items()
        if path.exists()
    }


def read_sentence_lengths(
    scale: ScaleSpec, corpora: dict[str, CorpusSpec], results_folder: Path
) -> dict[str, SentenceLengths]:
    """Return the mean lengths of the sentences that were trained on; a corpus not binarized, or empty, has none."""
    lengths_by_corpus = {}
    for name in corpora:
        path = corpus_record(results_folder, scale.scale, "binarize", name)
        record = read_record(path, BinarizedCorpus) if path.exists() else None
        num_pairs = record.num_pairs_by_split.get(TRAIN_SPLIT, 0) if record else 0
        if record and num_pairs:
            num_tokens = record.num_tokens_by_split_by_language[TRAIN_SPLIT]
            source, target = (num_tokens[language] for language in (record.source_language, record.target_language))
            lengths_by_corpus[name] = SentenceLengths(source / num_pairs, target / num_pairs)
    return lengths_by_corpus
