"""Reads and writes what happened: one JSON record a stage, typed and strict, written whole or not
at all.

A record is read back only by its own type and schema version; anything else is refused, naming the
file.

Files are named from the record's own folder on (`./data-bin`, `../../../../../runs/...`), so that
results and runs can be moved together. In a record that was read they are as the reader can open
them.
"""

import os
from collections.abc import Iterable
from functools import partial
from pathlib import Path, PurePath
from typing import Any, Literal, TypeVar

import msgspec

from aiayn.errors import CorpusError, RecordError
from aiayn.provenance import Provenance, replace_on_success
from aiayn.spec.training import DecodingSpec, TrainingSpec

SCHEMA_VERSION = 1


class Record(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="record"
):
    """Base of all records: the schema it was written under, and how it was made."""

    provenance: Provenance
    schema_version: int = SCHEMA_VERSION


class TextPair(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Line-aligned files, one a language, all of `num_lines` lines."""

    path_by_language: dict[str, Path]
    num_lines: int
    sha256_by_language: dict[str, str]


class FetchedArchive(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An archive as it was read: its source ('' if it was there), how it was checked, what was seen
    in it.

    `checked_by` is the algorithm of the published checksum, or `unknown` where none is published.
    `num_lines` are of each side; `published_num_lines` is None where none is published.
    """

    path: Path
    url: str
    num_bytes: int
    sha256: str
    checked_by: str
    num_lines: int
    published_num_lines: int | None


class RawCorpus(Record, frozen=True, kw_only=True, tag="RawCorpus"):
    """What fetch found: the text of each split (`train` and the test sets by name), as
    published.
    """

    corpus: str
    pair_by_split: dict[str, TextPair]
    archive_by_name: dict[str, FetchedArchive] = msgspec.field(default_factory=dict)


class ParallelText(Record, frozen=True, kw_only=True, tag="ParallelText"):
    """What clean left: text as the recipe prepares it, training pairs filtered, test sets whole."""

    corpus: str
    pair_by_split: dict[str, TextPair]
    num_pairs: int
    num_dropped_by_reason: dict[str, int]


class SubwordTraining(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How a subword model was learnt: from so many lines, drawn with a seed, or all there are
    (None).

    `memory_mib` is the most that the process had ever held when it was done.
    """

    num_lines: int
    sample_seed: int | None
    seconds: float
    memory_mib: int


class SegmentedText(Record, frozen=True, kw_only=True, tag="SegmentedText"):
    """What segment learned: the subword model of each language (the same file for a joint one).

    Its text had gone through `normalise` and `tokenise` before. `learning_by_model` has a model's
    file name without its suffix: `joint`, or the languages.
    """

    corpus: str
    normalise: str
    tokenise: str
    method: Literal["sentencepiece", "subword_nmt"]
    model_path_by_language: dict[str, Path]
    vocabulary_path_by_language: dict[str, Path]
    learning_by_model: dict[str, SubwordTraining]


class BinarizedCorpus(Record, frozen=True, kw_only=True, tag="BinarizedCorpus"):
    """A fairseq mmap data-bin; `digest` is over the bytes of its dictionaries, .bin and .idx files,
    in order of name.

    `vocabulary_size` counts fairseq's four special symbols. `fairseq_split_by_testset` maps
    `demo_dev` to `valid`, and so on: a data-bin has only `train`, `valid`, `test`, `test1`, ...
    `num_dropped_by_reason` is of training pairs dropped for their lengths in pieces, where the
    corpus file asks for it; the other filters are clean's.
    """

    corpus: str
    folder: Path
    source_language: str
    target_language: str
    dictionary_sha256_by_language: dict[str, str]
    digest: str
    vocabulary_size_by_language: dict[str, int]
    num_pairs_by_split: dict[str, int]
    num_tokens_by_split_by_language: dict[str, dict[str, int]]
    fairseq_split_by_testset: dict[str, str]
    num_dropped_by_reason: dict[str, int] = msgspec.field(default_factory=dict)

    def split_of(self, testset: str) -> str:
        """Return the data-bin's name of a test set.

        Raises:
            CorpusError: if the corpus has no such test set.
        """
        if testset not in self.fairseq_split_by_testset:
            known = ", ".join(self.fairseq_split_by_testset)
            raise CorpusError(f"{self.folder}: no test set {testset!r}; {self.corpus} has {known}")
        return self.fairseq_split_by_testset[testset]


DATA_RECORD_BY_VERB: dict[str, type[Record]] = {  # of the data stages, in their order
    "fetch": RawCorpus,
    "clean": ParallelText,
    "segment": SegmentedText,
    "binarize": BinarizedCorpus,
}


class Hardware(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The machine that a training ran on; `num_gpus` is 0 on a CPU, `gpu` its product name or
    ''.
    """

    device: str
    cpu: str
    gpu: str
    num_gpus: int
    num_ranks: int
    threads_per_rank: int


class Energy(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What GPUs drew while a training ran, by their own counters: `joules` over the `gpu_seconds`
    that were metered.

    Without a counter `joules` is None, and `reason` says why; of several attempts or nodes, why of
    the first that had none.
    """

    joules: float | None
    gpu_seconds: float = 0.0
    reason: str = ""


class SavedModel(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A model-only checkpoint kept by a training."""

    update: int
    path: Path


class Prediction(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The hours of a training as they were predicted before it began, and in words what they stand
    on.
    """

    hours: float
    basis: str


class Beginning(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where a training began that continues a shorter training: the run, its last update, the
    digest of its model.
    """

    run: str
    update: int
    tensors_sha256: str


class TrainRecord(Record, frozen=True, kw_only=True, tag="TrainRecord"):
    """A finished training. Seconds are sums over all attempts; `gpu_seconds` counts each GPU.

    `updates` are optimiser steps done. `tokens` are target tokens with end of sentence, without
    padding, over the whole training. `models` are the model-only checkpoints kept, oldest first.
    `tensors_sha256` is the digest of the last model's sorted tensors. `energy` is None without a
    GPU. `kernels` names the kernels by which torch computed masked and causal attention on a GPU,
    and how many batches the batches of an update were joined to; '' on a CPU. `prediction` is that
    of its newest attempt; None where the machine was not known beforehand. The shipped pack's first
    36 records have none. `beginning` is None unless the training continues a shorter training;
    seconds and energy are then those since that update, while `tokens` and `updates` count from the
    first update.
    """

    run: str
    corpus: str
    system: str
    seed: int
    updates: int
    wall_seconds: float
    gpu_seconds: float
    hardware: Hardware
    tokens: int
    num_attempts: int
    num_parameters: int
    run_folder: Path
    log_path: Path
    models: list[SavedModel]
    tensors_sha256: str
    training_json: str
    energy: Energy | None = None
    kernels: str = ""
    prediction: Prediction | None = None
    beginning: Beginning | None = None


class CheckpointRecord(Record, frozen=True, kw_only=True, tag="CheckpointRecord"):
    """The average of a run's last n models, and which they were."""

    run: str
    average: str
    path: Path
    averaged_updates: list[int]
    tensors_sha256: str


class ExportRecord(Record, frozen=True, kw_only=True, tag="ExportRecord"):
    """The content of an exported folder, and how to read its tensors.

    `tied` names the tensors that are not stored, each with the stored one that it shares. A source
    line is its pieces' ids with `source_ends_with`; the decoder begins with `target_begins_with`.
    `first_position` is the place of a sentence's first token among the positions: 0, the paper's,
    or 2 for fairseq's own transformer and convolutions; an LSTM has none. `normalise` and
    `tokenise` are Moses' ways of before November 2018, or none; a line goes through them before
    `subword_method` splits it in pieces (null: it comes in pieces). `tensors_sha256` is that of the
    average: of all tensors, those tied included.
    """

    format: Literal["safetensors"]
    run: str
    average: str
    averaged_updates: list[int]
    tensors_sha256: str
    training: TrainingSpec
    decoding: DecodingSpec
    source_language: str
    target_language: str
    vocabulary_file_by_side: dict[str, str]
    subword_file_by_language: dict[str, str]
    id_by_special_symbol: dict[str, int]
    source_ends_with: str
    target_begins_with: str
    first_position: int | None
    tied: dict[str, str]
    subword_method: Literal["sentencepiece", "subword_nmt"] | None = None
    normalise: str = "none"
    tokenise: str = "none"


class Hypotheses(Record, frozen=True, kw_only=True, tag="Hypotheses"):
    """Translations of a test set, one detokenised line a source line.

    `pieces_path` holds the same lines as subword pieces, as they left the model; `signature` says
    how they were found.
    """

    run: str
    average: str
    testset: str
    path: Path
    pieces_path: Path
    num_lines: int
    hypotheses_sha256: str
    beam_size: int
    length_penalty_alpha: float
    length_penalty_form: str
    stop: str
    signature: str
    sentences_per_second: float


class PerplexityRecord(Record, frozen=True, kw_only=True, tag="PerplexityRecord"):
    """exp of the mean negative log-likelihood in nats a subword, end of sentence included, no
    dropout, no smoothing.

    `num_words` are those of the target lines as `aiayn decode` would write them, between blanks: of
    plain text, or of tokens where the text came tokenised. `cross_attention_entropy` has, of each
    decoder layer and head, the entropy of its weights over log S, S source tokens with end of
    sentence: the mean over the target tokens, 1 if it reads all of a source alike.
    `bits_lost_uniform` is what a subword loses, in bits, if all cross-attention is made so. Both
    are None of a model without such attention.
    """

    run: str
    average: str
    testset: str
    value: float
    unit: str
    num_tokens: int
    signature: str
    num_words: int
    cross_attention_entropy: list[list[float]] | None
    bits_lost_uniform: float | None


class ScoreRecord(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One number with everything that could change it.

    `ci` is a 95 % interval over segments, or null where none was asked for. `brevity_penalty` is
    the factor of a BLEU by which short translations lose, 1 where they are not short; null for
    chrF, and absent from one score of the shipped pack.
    """

    metric: str
    value: float
    signature: str
    hypotheses_sha256: str
    ci: tuple[float, float] | None = None
    brevity_penalty: float | None = None


class ScoreRecords(Record, frozen=True, kw_only=True, tag="ScoreRecords"):
    """All scores of one hypothesis file."""

    run: str
    testset: str
    scores: list[ScoreRecord]


class BaselineRecords(Record, frozen=True, kw_only=True, tag="BaselineRecords"):
    """Scores of translations made without training: what a trained system must beat."""

    corpus: str
    testset: str
    scores_by_baseline: dict[str, list[ScoreRecord]]


def total_energy(energies: Iterable[Energy | None]) -> Energy | None:
    """Return the sum over nodes or attempts; None counts for nothing, and is the sum of nothing
    else.
    """
    metered = [energy for energy in energies if energy is not None]
    if not metered:
        return None
    joules = [energy.joules for energy in metered if energy.joules is not None]
    return Energy(
        joules=sum(joules) if joules else None,
        gpu_seconds=sum(energy.gpu_seconds for energy in metered if energy.joules is not None),
        reason=next((energy.reason for energy in metered if energy.reason), ""),
    )


_AnyRecord = TypeVar("_AnyRecord", bound=Record)
_Decoded = TypeVar("_Decoded")


def write_record(record: Record, path: Path) -> None:
    """Write a record as indented JSON, whole or not at all."""
    content = msgspec.json.encode(record, enc_hook=partial(_encode_path, path.parent))
    with replace_on_success(path) as partial_path:
        partial_path.write_bytes(msgspec.json.format(content, indent=1) + b"\n")


def read_record(path: Path, record_type: type[_AnyRecord]) -> _AnyRecord:
    """Read a record of the given type.

    Raises:
        RecordError: if the file is absent, torn, of another type or of another schema version.
    """
    record = _decode(path, record_type, f"a {record_type.__name__}")
    if record.schema_version != SCHEMA_VERSION:
        raise RecordError(
            f"{path}: schema_version {record.schema_version}, expected {SCHEMA_VERSION}; rerun the"
            " stage that writes it"
        )
    return record


def read_train_record(path: Path, runs_folder: Path) -> TrainRecord:
    """Read the record of a training and say where its run lies now, if its folder is still
    anywhere.

    A folder that is not where the record has it is sought by the run's name below `runs_folder`,
    which, if relative, is taken from the working directory or from a folder above the record.

    Raises:
        RecordError: as `read_record`.
    """
    train = read_record(path, TrainRecord)
    here = [above / runs_folder / train.run for above in (Path(), *path.absolute().parents)]
    folder = next(
        (folder for folder in (train.run_folder, *here) if folder.is_dir()), train.run_folder
    )

    def moved(file: Path) -> Path:
        return (
            folder / file.relative_to(train.run_folder)
            if file.is_relative_to(train.run_folder)
            else file
        )

    return msgspec.structs.replace(
        train,
        run_folder=folder,
        log_path=moved(train.log_path),
        models=[msgspec.structs.replace(model, path=moved(model.path)) for model in train.models],
    )


def _decode(path: Path, type_: type[_Decoded], expected: str) -> _Decoded:
    try:
        return msgspec.json.decode(
            path.read_bytes(), type=type_, dec_hook=partial(_decode_path, path.parent)
        )
    except FileNotFoundError as error:
        raise RecordError(
            f"{path}: no such record; expected {expected}; run the stage that writes it"
        ) from error
    except (msgspec.DecodeError, msgspec.ValidationError, UnicodeDecodeError) as error:
        raise RecordError(
            f"{path}: not {expected}: {error}; delete it and rerun the stage that writes it"
        ) from error


def _encode_path(folder: Path, path: Any) -> str:
    """Return what a record in `folder` calls a file: `./...` or `../...`; absolute where the two do
    not move together.

    That is so when all that they share lies above the working directory, as with a runs folder on a
    scratch disk. Symbolic links are not followed: what a working directory shows as its own is
    copied as its own.
    """
    if not isinstance(path, PurePath):
        raise NotImplementedError(f"{type(path).__name__}: records hold none")
    target, origin, here = (os.path.abspath(file) for file in (path, folder, "."))
    shared = os.path.commonpath([target, origin])
    if shared not in (origin, here) and Path(here).is_relative_to(shared):
        return target
    relative = os.path.relpath(target, origin)
    return (
        relative
        if relative.split(os.sep)[0] in (os.curdir, os.pardir)
        else os.path.join(os.curdir, relative)
    )


def _decode_path(folder: Path, type_: type[PurePath], written: Any) -> PurePath:
    """Return the file that a record in `folder` names, from there on or by an absolute path."""
    if not isinstance(written, str):
        raise TypeError(f"Expected `str`, a path, got `{type(written).__name__}`")
    if written.split(os.sep)[0] in (os.curdir, os.pardir):
        return type_(os.path.normpath(folder / written))
    return type_(written)


def read_trained(train: TrainRecord) -> TrainingSpec | None:
    """Return the spec that a run was trained as; None if this version does not know its keys and
    values.
    """
    try:
        return msgspec.json.decode(train.training_json, type=TrainingSpec)
    except (msgspec.DecodeError, msgspec.ValidationError):
        return None


def is_trained_as(train: TrainRecord, training: TrainingSpec) -> bool:
    """Return whether a finished training was of this spec; the device, which may be resolved since,
    is ignored.
    """
    trained = read_trained(train)
    return (
        trained is not None and msgspec.structs.replace(trained, device=training.device) == training
    )
