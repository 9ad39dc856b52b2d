"""Finds a finished run by its name, in a results folder or among the models that come with this
project, and finds all files of the run that are needed to translate.
"""

import logging
from pathlib import Path

import msgspec

from aiayn.errors import CheckpointError, RecordError
from aiayn.packed import exists, glob, modified_seconds
from aiayn.paths import (
    EXPORT_RECORD_NAME,
    SHIPPED_FOLDER,
    TENSORS_NAME,
    average_record,
    corpus_record,
    model_folder,
    num_averaged,
)
from aiayn.records import (
    BinarizedCorpus,
    CheckpointRecord,
    ExportRecord,
    SegmentedText,
    TrainRecord,
    read_record,
    read_trained,
)
from aiayn.runs.names import match_run, meant_runs
from aiayn.spec.system import DecodingSpec, TrainingSpec, read_system

logger = logging.getLogger(__name__)


class FinishedRun(msgspec.Struct, frozen=True, kw_only=True):
    """The averaged checkpoint, data-bin, subword models and search settings of a finished run.

    `segmented` is None if the corpus is published already split into subwords. `training` has the
    settings in the run's record, so a later edit of the system's file does not change `training`.
    `training` is None if the averaged checkpoint is still from an earlier run, or if this version
    of the project does not know the settings in the record. For a model that comes with this
    project, `checkpoint` is the file with the model's tensors, `data` contains only folder, corpus
    and languages, and `decoding` has the settings in the model's record.
    """

    scale: str
    checkpoint: CheckpointRecord
    data: BinarizedCorpus
    segmented: SegmentedText | None
    decoding: DecodingSpec
    training: TrainingSpec | None = None


def find_finished(results_folder: Path, run: str | None, average: str | None) -> FinishedRun:
    """Find a finished run: the run with a name that begins with `run`, or the newest run if `run`
    is None.

    If `average` is None, the average of the largest number of checkpoints is used. If `run` is None
    and there are no finished runs, the only model that comes with this project is used, and a log
    message says so. If no run in the results folder has the name, the models that come with this
    project are searched.

    Raises:
        RecordError: if no run or several runs match `run`. The message lists the candidates.
        CheckpointError: if a file of a model that comes with this project is missing.
    """
    # By time, so that the last key of `trained` is the newest run.
    paths = sorted(glob(results_folder, "*/train/*/*/seed*.json"), key=modified_seconds)
    trained = {}
    for path in paths:
        train = read_record(path, TrainRecord)
        trained[train.run] = path, train
    # A pack (the shipped results of a scale) may contain models. The pattern is the path of a model
    # with wildcards, built by the same function.
    shipped_paths = SHIPPED_FOLDER.glob(str(model_folder(Path(), "*", "*") / EXPORT_RECORD_NAME))
    shipped = {path.parent.name: path.parent for path in shipped_paths}
    name = next(reversed(trained), "the newest") if run is None else run
    if run is None and not trained and len(shipped) == 1:
        name = next(iter(shipped))
        logger.info(f"{results_folder}: no finished run yet: this is the shipped model {name}")
    # The user's own runs come first. A shipped model may have the same name.
    candidates = trained if meant_runs(name, trained) else [*trained, *shipped]
    name = match_run(name, candidates, location=str(results_folder), unknown="is no finished run")
    if name not in trained:
        return _read_shipped(shipped[name], average)
    train_path, train = trained[name]
    scale = train_path.relative_to(results_folder).parts[0]
    # All averages of a run are in one folder, so `last1` stands for any of them.
    folder = average_record(
        results_folder, scale, train.corpus, train.system, train.seed, "last1"
    ).parent
    # By number: as text, last20 would come before last5.
    averages = sorted((path.stem for path in glob(folder, "last*.json")), key=num_averaged)
    if not averages or (average is not None and average not in averages):
        raise RecordError(
            f"{folder}: no average {average or ''}; there is {averages or 'none'}; run `aiayn"
            " average`"
        )
    segment_path = corpus_record(results_folder, scale, "segment", train.corpus)
    # A corpus that was published already segmented has no record of segment.
    segmented = read_record(segment_path, SegmentedText) if exists(segment_path) else None
    checkpoint = read_record(folder / f"{average or averages[-1]}.json", CheckpointRecord)
    return FinishedRun(
        scale=scale,
        checkpoint=checkpoint,
        data=read_record(
            corpus_record(results_folder, scale, "binarize", train.corpus), BinarizedCorpus
        ),
        segmented=segmented,
        decoding=read_system(train.system, scale).decoding,
        # After a new training the average may still be the average of the earlier run.
        training=read_trained(train) if train.run == checkpoint.run else None,
    )


def _read_shipped(folder: Path, average: str | None) -> FinishedRun:
    """Return the model in a folder that `aiayn pack --model` wrote."""
    record = read_record(folder / EXPORT_RECORD_NAME, ExportRecord)
    if average not in (None, record.average):
        raise RecordError(
            f"{folder}: only {record.average} is shipped, not {average}; train the run for other"
            " averages"
        )
    path_by_language = {
        language: folder / name for language, name in record.subword_file_by_language.items()
    }
    # Only a corpus in plain text needs subword models.
    languages = (record.source_language, record.target_language) if record.subword_method else ()
    for name in (
        *(
            record.subword_file_by_language.get(language, "a subword model")
            for language in languages
        ),
        *record.vocabulary_file_by_side.values(),
    ):
        if not (folder / name).is_file():
            raise CheckpointError(
                f"{folder}: lacks {name}, without which no text can be read; restore the folder"
                " by git"
            )
    corpus = record.run.partition("-")[0]
    return FinishedRun(
        scale=folder.parents[1].name,
        # The records of the stages are not shipped. They are rebuilt from the model's own record,
        # with the fields that translating reads.
        checkpoint=CheckpointRecord(
            provenance=record.provenance,
            run=record.run,
            average=record.average,
            path=folder / TENSORS_NAME,
            averaged_updates=record.averaged_updates,
            tensors_sha256=record.tensors_sha256,
        ),
        data=BinarizedCorpus(
            provenance=record.provenance,
            corpus=corpus,
            folder=folder,
            source_language=record.source_language,
            target_language=record.target_language,
            dictionary_sha256_by_language={},
            digest="",
            vocabulary_size_by_language={},
            num_pairs_by_split={},
            num_tokens_by_split_by_language={},
            fairseq_split_by_testset={},
        ),
        segmented=(
            None
            if record.subword_method is None
            else SegmentedText(
                provenance=record.provenance,
                corpus=corpus,
                tokenise=record.tokenise,
                method=record.subword_method,
                model_path_by_language=path_by_language,
                learning_by_model={},
            )
        ),
        decoding=record.decoding,
        training=record.training,
    )
