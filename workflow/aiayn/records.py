"""Reads and writes records: the JSON files in which stages describe their results. Each stage has a
record type with fixed fields and types. A record is written completely or not at all.

If a record has a different type or schema version than expected, an error with the name of the file
is raised. Paths in a record are relative to the record's folder (`./data-bin`,
`../../../../../runs/...`), so that results and runs can be moved together. When a record is read,
these paths are converted to paths that the calling process can open.

The last line of a record is the SHA-256 of the lines before it. A record that was changed after it
was written is refused. Records that earlier versions wrote do not have a SHA-256 in the last line,
and are accepted.
"""

import hashlib
import os
import re
from collections.abc import Iterable, Mapping
from functools import partial
from pathlib import Path, PurePath
from typing import Annotated, Any, Literal, TypeVar

import msgspec

from aiayn.errors import CorpusError, FileError, RecordError
from aiayn.packed import file_problem, is_dir, read_bounded
from aiayn.provenance import Provenance, replace_on_success
from aiayn.spec.training import DecodingSpec, TrainingSpec

# A new field with a default value does not need a new version: records of earlier versions lack it
# and can still be read.
SCHEMA_VERSION = 1


class Record(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="record"
):
    """The base class of all records. Every record has the schema version and the provenance (how
    the record was made).
    """

    provenance: Provenance
    schema_version: int = SCHEMA_VERSION

    @property
    def remedy(self) -> str:
        """Advice for a user if a file of the record is damaged: the command that writes the file
        again.

        After the command in this advice, Snakemake runs the later stages again, because it compares
        the times of files, and the new files are newer than the outputs of these stages.
        """
        command = self.provenance.command
        # Without --fresh, a finished run is not trained again. The verb `evaluations` keeps an
        # existing average without reading it, so a damaged average must be deleted first.
        if isinstance(self, TrainRecord):
            command += " --fresh"
        delete = "delete it and " if isinstance(self, CheckpointRecord) else ""
        return (
            f"restore it from a copy, or {delete}make it again: `{command}`, then the same"
            " snakemake"
        )


class TextPair(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One text file for each of two languages. Each of the two files has `num_lines` lines, and
    lines with the same number are translations of each other.
    """

    path_by_language: dict[str, Path]
    num_lines: int
    sha256_by_language: dict[str, str]

    def __post_init__(self) -> None:
        if self.path_by_language.keys() != self.sha256_by_language.keys():
            raise ValueError("expected a path and a SHA-256 for each language")


class FetchedArchive(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An archive that `aiayn fetch` read.

    `url` is the address from which the archive was downloaded, or '' if the archive was already on
    the disk. `checked_by` is the algorithm of the published checksum, or `size` if no checksum is
    published. `num_lines` is the number of lines of each language. `published_num_lines` is None if
    the number of lines is not published.
    """

    path: Path
    url: str
    num_bytes: int
    sha256: str
    checked_by: str
    num_lines: int
    published_num_lines: int | None


class RawCorpus(Record, frozen=True, kw_only=True, tag="RawCorpus"):
    """The record of the verb fetch: the published text of each split (`train` and test sets)."""

    corpus: str
    pair_by_split: dict[str, TextPair]
    archive_by_name: dict[str, FetchedArchive] = msgspec.field(default_factory=dict)


class ParallelText(Record, frozen=True, kw_only=True, tag="ParallelText"):
    """The record of the verb clean: prepared text, with filtered training pairs and complete test
    sets.
    """

    corpus: str
    pair_by_split: dict[str, TextPair]
    num_pairs: int
    num_dropped_by_reason: dict[str, int]


class SubwordTraining(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Describes how a subword model was learnt: from `num_lines` lines, which were drawn at random
    with `sample_seed`. If `sample_seed` is None, the model was learnt from all lines.

    `memory_mib` is the peak memory of the process until the model was learnt.
    """

    num_lines: int
    sample_seed: int | None
    seconds: float
    memory_mib: int


class SegmentedText(Record, frozen=True, kw_only=True, tag="SegmentedText"):
    """The record of the verb segment: the subword model of each language (the same file if the
    model is joint).

    The text was tokenised by the tokeniser `tokenise` before the model was learnt. The fields
    `normalise` and `vocabulary_path_by_language` are unused, and exist because records of earlier
    versions have them. The keys of `learning_by_model` are the file names of the models without
    suffix: `joint`, or the languages. `model_sha256_by_language` is empty in records of earlier
    versions.
    """

    corpus: str
    normalise: Literal["none"] = "none"
    tokenise: str
    method: Literal["sentencepiece", "subword_nmt"]
    model_path_by_language: dict[str, Path]
    vocabulary_path_by_language: dict[str, Path] = msgspec.field(default_factory=dict)
    learning_by_model: dict[str, SubwordTraining]
    model_sha256_by_language: dict[str, str] = msgspec.field(default_factory=dict)


class BinarizedCorpus(Record, frozen=True, kw_only=True, tag="BinarizedCorpus"):
    """The record of the verb binarize: a data-bin (folder of binary text) in fairseq's format mmap.

    `digest` is computed from the bytes of the data-bin's dictionaries, .bin and .idx files, in the
    order of their names. `vocabulary_size_by_language` includes fairseq's four special symbols.
    `fairseq_split_by_testset` maps the name of each test set to its name in the data-bin, such as
    `demo_dev` to `valid`. A data-bin has only the names `train`, `valid`, `test`, `test1`, ...
    `num_dropped_by_reason` is unused, and exists because records of earlier versions have this
    field.

    `sha256_by_file` has the SHA-256 of each file by name, from which `digest` is computed.
    `num_long_by_split` is the number of sentence pairs in which one sentence has more than 1,024
    tokens, the most that a model reads. `sha256_by_file` and `num_long_by_split` are empty in
    records of earlier versions.
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
    sha256_by_file: dict[str, str] = msgspec.field(default_factory=dict)
    num_long_by_split: dict[str, int] = msgspec.field(default_factory=dict)

    @property
    def is_joint(self) -> bool:
        """Whether both languages share a dictionary."""
        return len(set(self.dictionary_sha256_by_language.values())) == 1

    def split_of(self, testset: str) -> str:
        """Return the name that a test set has in fairseq's data-bin (`valid`, `test`, `test1`,
        ...).

        Raises:
            CorpusError: if the corpus does not have the test set `testset`.
        """
        if testset not in self.fairseq_split_by_testset:
            testsets_text = ", ".join(self.fairseq_split_by_testset)
            raise CorpusError(
                f"{self.folder}: no test set {testset!r}; {self.corpus} has {testsets_text}"
            )
        return self.fairseq_split_by_testset[testset]


DATA_RECORD_BY_VERB: dict[str, type[Record]] = {  # in the order of the stages
    "fetch": RawCorpus,
    "clean": ParallelText,
    "segment": SegmentedText,
    "binarize": BinarizedCorpus,
}


class Hardware(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The machine on which a training ran. `gpu` is the product name of the GPU. If the training
    ran on a CPU, `num_gpus` is 0 and `gpu` is ''.
    """

    device: str
    cpu: str
    gpu: str
    num_gpus: int
    num_ranks: int
    threads_per_rank: int


class SavedModel(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A checkpoint without optimiser state that a training has kept."""

    update: int
    path: Path


class Beginning(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The shorter run that a training continues: the name of the shorter run, its last update and
    the digest of its model.
    """

    run: str
    update: int
    tensors_sha256: str


class TrainRecord(Record, frozen=True, kw_only=True, tag="TrainRecord"):
    """The record of a finished training. `wall_seconds` and `gpu_seconds` are sums over all
    attempts, and `gpu_seconds` also over all GPUs.

    `updates` is the number of optimiser steps. `tokens` is the number of target tokens, with end of
    sentence and without padding, in the whole training. `models` are the checkpoints without
    optimiser state, oldest first. `tensors_sha256` is the digest of the tensors of the last model,
    sorted by name. `kernels` lists torch's kernels for masked and causal attention on a GPU, and
    says how the batches of an update were joined. For a training on a CPU `kernels` is ''.
    `beginning` is None unless the training continues a shorter training. In a training that
    continues a shorter training, the seconds count from the last update of the shorter training,
    but `tokens` and `updates` count from update 0. `num_left_out` is the number of sentence pairs
    of the training data that were left out, because they have more tokens than fit into a model or
    a batch. `num_backward_attempts` is the number of attempts that ended before they began,
    according to a wrong clock. An attempt that ended before it began counts 0 seconds.
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
    models: Annotated[list[SavedModel], msgspec.Meta(min_length=1)]
    tensors_sha256: str
    training_json: str
    energy: Any = msgspec.UNSET  # of older records, unused
    kernels: str = ""
    prediction: Any = msgspec.UNSET  # of older records, unused
    beginning: Beginning | None = None
    num_left_out: int = 0
    num_backward_attempts: int = 0

    @property
    def own_updates(self) -> int:
        """The number of updates in `wall_seconds` and `gpu_seconds`: all updates, without those of
        the shorter training that this training continues.
        """
        return self.updates - (self.beginning.update if self.beginning else 0)

    @property
    def remarks(self) -> str:
        """Remarks on this training for the table of runs, or '' if there are no remarks."""
        remarks = []
        if self.num_left_out:
            remarks.append(f"{self.num_left_out:,} training pairs left out as too long")
        if self.num_backward_attempts:
            remarks.append(f"{self.num_backward_attempts} attempts with a wrong clock count 0 s")
        return "; ".join(remarks)


class CheckpointRecord(Record, frozen=True, kw_only=True, tag="CheckpointRecord"):
    """The record of the verb average: an average of the last checkpoints of a run.
    `averaged_updates` are the updates of these checkpoints.
    """

    run: str
    average: str
    path: Path
    averaged_updates: list[int]
    tensors_sha256: str


class ExportRecord(Record, frozen=True, kw_only=True, tag="ExportRecord"):
    """Describes the files in the folder of an exported model, and how a program must read and use
    the tensors.

    `tied` maps each tensor that is not stored to the stored tensor with the same values. A source
    line is encoded as the ids of its subword pieces, followed by `source_ends_with`. The input of
    the decoder begins with `target_begins_with`. `first_position` is the position number of the
    first token of a sentence: 0 as in the paper, 2 for fairseq's own transformer and convolutions,
    None for an LSTM. `tokenise` is the tokeniser that is applied to a line before `subword_method`
    splits the line into pieces, and has the value of this key in the corpus file. If
    `subword_method` is null, the lines are already in pieces. `tensors_sha256` is the digest of all
    tensors of the averaged checkpoint, including tied tensors.
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
    normalise: Literal["none"] = "none"
    tokenise: str = "none"


class Hypotheses(Record, frozen=True, kw_only=True, tag="Hypotheses"):
    """The record of the verb decode: translations of a test set, one detokenised line for each
    source line.

    The file `pieces_path` has the same translations as subword pieces, as the model produced them.
    `signature` describes the beam search. `pieces_sha256` and `corpus` are '' in records of earlier
    versions.
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
    corpus: str = ""
    pieces_sha256: str = ""


class PerplexityRecord(Record, frozen=True, kw_only=True, tag="PerplexityRecord"):
    """The record of the verb perplexity: the perplexity of a model on a test set, and measurements
    of the model's cross-attention.

    `value` is exp of the mean negative log-likelihood per subword in nats, with end of sentence,
    without dropout and label smoothing. `num_words` is the number of words, separated by blanks, in
    the target lines in the form that `aiayn decode` writes: plain text, or tokens if the text was
    published tokenised. `cross_attention_entropy` has one value for each decoder layer and head:
    the entropy of the attention weights divided by log S, for S source tokens with end of sentence,
    averaged over the target tokens. The entropy divided by log S is 1 if all source tokens have
    equal weights. `bits_lost_uniform` is the increase of the loss, in bits per subword, if all
    weights of the cross-attention are made equal. `cross_attention_entropy` and `bits_lost_uniform`
    are None for a model whose cross-attention does not have heads.
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


# BLEU and chrF are percentages. sacreBLEU's sums may exceed 100 by a rounding error.
_Percentage = Annotated[float, msgspec.Meta(ge=0, le=100.001)]


class ScoreRecord(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A score of translations, with all settings and inputs that could change the score.

    `ci` is a 95 % interval over segments, or null if it was not requested. `brevity_penalty` is the
    factor by which BLEU penalises short translations, and is 1 if the translations are not too
    short. `brevity_penalty` is null for chrF, and is absent from the scores that come with this
    project.
    """

    metric: str
    value: _Percentage
    signature: str
    hypotheses_sha256: str
    ci: tuple[float, float] | None = None
    brevity_penalty: float | None = None


class ScoreRecords(Record, frozen=True, kw_only=True, tag="ScoreRecords"):
    """The record of the verb score: all scores of one file of translations."""

    run: str
    testset: str
    scores: list[ScoreRecord]


class EvaluationsRecord(Record, frozen=True, kw_only=True, tag="EvaluationsRecord"):
    """The record of the verb evaluations: the paths of all records of a training's evaluations, and
    their SHA-256.

    An EvaluationsRecord is written after all records that it lists, so these records exist if the
    list exists.
    """

    run: str
    sha256_by_record: dict[Path, str]


class BaselineRecords(Record, frozen=True, kw_only=True, tag="BaselineRecords"):
    """The record of the command `aiayn baselines`: scores of translations that were made without a
    trained model. The scores of a trained model must be better.
    """

    corpus: str
    testset: str
    scores_by_baseline: dict[str, list[ScoreRecord]]


_AnyRecord = TypeVar("_AnyRecord", bound=Record)
VERB_BY_TYPE: dict[type[Record], str] = {
    **{record_type: verb for verb, record_type in DATA_RECORD_BY_VERB.items()},
    TrainRecord: "train",
    CheckpointRecord: "average",
    Hypotheses: "decode",
    PerplexityRecord: "perplexity",
    ScoreRecords: "score",
    EvaluationsRecord: "evaluations",
    BaselineRecords: "baselines",
    ExportRecord: "export",
}
TYPE_BY_NAME = {record_type.__name__: record_type for record_type in VERB_BY_TYPE}
_MAX_BYTES = 1 << 26
# The end of a record: `,`, a line `"checksum": "<64 digits>"`, the closing brace and a line feed.
_CHECKSUM_LINE = re.compile(rb',\n "checksum": "([0-9a-f]{64})"\n\}\n\Z')


def seal(content: bytes) -> bytes:
    """Return the JSON of a record with indentation, and add the SHA-256 of its lines as the last
    value.
    """
    # The checksum is part of the file, so that a record stays one file when it is copied.
    lines = msgspec.json.format(content, indent=1).removesuffix(b"\n}")
    return lines + b',\n "checksum": "%s"\n}\n' % hashlib.sha256(lines).hexdigest().encode()


def read_sealed(path: Path) -> tuple[bytes, bool]:
    """Return the JSON of a record without its checksum, and whether the record has a checksum.

    Raises:
        OSError, FileError: if the file is absent, too large or not a regular file.
        RecordError: if the checksum of the record does not fit its lines, or is not in the last
            line.
    """
    content = read_bounded(path, _MAX_BYTES)
    match = _CHECKSUM_LINE.search(content)
    if match is None:
        # A program that sorts keys or indents anew moves the checksum from its last line.
        if b'"checksum":' in content:
            raise RecordError(
                f"{path}: rewritten by another program, its checksum is not its last line; restore"
                " it from a copy, or rerun the stage that writes it"
            )
        return content, False
    lines = content[: match.start()]
    if hashlib.sha256(lines).hexdigest().encode() != match[1]:
        raise RecordError(
            f"{path}: changed since it was written, its checksum is of other lines; restore it from"
            " a copy, or rerun the stage that writes it"
        )
    return lines + b"\n}", True


def write_record(record: Record, path: Path) -> None:
    """Write a record as indented JSON with its checksum, completely or not at all."""
    # msgspec cannot encode a Path, so it calls `_encode_path` for each path.
    content = msgspec.json.encode(record, enc_hook=partial(_encode_path, path.parent))
    with replace_on_success(path) as partial_path:
        partial_path.write_bytes(seal(content))


def read_record(path: Path, record_type: type[_AnyRecord], flag: str = "here") -> _AnyRecord:
    """Read a record that must have the type `record_type`. Error messages contain `flag`, the
    command-line flag with which the user gave the file.

    Raises:
        RecordError: if the file is absent, incomplete or changed, or has a different type or schema
            version.
    """
    expected = f"a {record_type.__name__}"
    # The handler below needs a value if the file itself cannot be read.
    content = b"{}"
    try:
        content, _ = read_sealed(path)
        record = msgspec.json.decode(
            content, type=record_type, dec_hook=partial(_decode_path, path.parent)
        )
    except FileNotFoundError as error:
        advice = f"expected {expected}; run the stage that writes it"
        if verb := VERB_BY_TYPE.get(record_type):
            advice = f"expected that of {verb}; `aiayn help {verb}` has a command that writes it"
        raise RecordError(f"{path}: no such record; {advice}") from error
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, FileError) as error:
        problem = f"not {expected}: {error}; delete it and rerun the stage that writes it"
        # The likeliest mistake on a command line: the record of a neighbouring stage.
        found_type = TYPE_BY_NAME.get(name_of_type(content), record_type)
        if found_type is not record_type and record_type in VERB_BY_TYPE:
            problem = f"this is the record of {VERB_BY_TYPE[found_type]}; {flag} takes the record"
            problem += f" of {VERB_BY_TYPE[record_type]}; name that file"
        raise RecordError(f"{path}: {problem}") from error
    if record.schema_version != SCHEMA_VERSION:
        raise RecordError(
            f"{path}: schema_version {record.schema_version}, expected {SCHEMA_VERSION}; rerun the"
            " stage that writes it"
        )
    return record


def name_of_type(content: bytes) -> str:
    """Return the name of the type of a record, or '' if the content is not a record."""
    try:
        values = msgspec.json.decode(content)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return ""
    return str(values.get("record", "")) if isinstance(values, dict) else ""


def recorded_files(record: Record) -> dict[Path, str]:
    """Return the SHA-256 of each file that a record describes, by the path of the file. For a
    checkpoint (`.pt`) the SHA-256 is computed from its tensors.

    If an earlier version wrote the record without the SHA-256 of a file, the value is ''. If an
    earlier version wrote the record of a data-bin, the result has one digest for the whole folder,
    by the path of the folder.
    """
    sha256_by_path: dict[Path, str] = {}
    match record:
        case RawCorpus() | ParallelText():
            for pair in record.pair_by_split.values():
                for language, path in pair.path_by_language.items():
                    sha256_by_path[path] = pair.sha256_by_language[language]
        case SegmentedText():
            for language, path in record.model_path_by_language.items():
                sha256_by_path[path] = record.model_sha256_by_language.get(language, "")
        case BinarizedCorpus():
            sha256_by_path = {record.folder / name: v for name, v in record.sha256_by_file.items()}
            sha256_by_path = sha256_by_path or {record.folder: record.digest}
        # Only the last model has a recorded digest, which identifies the run.
        case TrainRecord():
            sha256_by_path = dict.fromkeys((model.path for model in record.models), "")
            sha256_by_path[record.models[-1].path] = record.tensors_sha256
        case CheckpointRecord():
            sha256_by_path[record.path] = record.tensors_sha256
        case Hypotheses():
            sha256_by_path[record.path] = record.hypotheses_sha256
            sha256_by_path[record.pieces_path] = record.pieces_sha256
        case EvaluationsRecord():
            sha256_by_path = dict(record.sha256_by_record)
    return sha256_by_path


def require_files(record: Record, paths: Iterable[Path]) -> None:
    """Require that these files of a record have not changed since they were written.

    Raises:
        CorpusError: if a file has changed. The message contains the file, the difference, and the
            command that makes the file again.
    """
    sha256_by_path = recorded_files(record)
    for path in paths:
        if problem := file_problem(path, sha256_by_path[path]):
            raise CorpusError(f"{path}: {problem}; {record.remedy}")


def require_fitting(record_by_flag: Mapping[str, Record], corpus: str = "") -> None:
    """Require that all records that a user gives to a verb are from the same corpus, and that this
    corpus is `corpus` if it is given.

    The record of an average does not contain the corpus, and neither does a record of translations
    that an earlier version wrote. If a record does not contain the corpus, the corpus is the first
    part of the run's name in the record. If a record was made from a file that another of the
    records describes, the SHA-256 of this file must be the same in both records.

    Raises:
        CorpusError: if the records do not fit together. The message contains the flags of these
            records and the difference.
    """
    known_by_flag = {"--corpus": corpus} if corpus else {}
    for flag, record in record_by_flag.items():
        corpus_of_record = getattr(record, "corpus", "")
        known_by_flag[flag] = corpus_of_record or getattr(record, "run", "").partition("-")[0]
        for other in record_by_flag.values():
            # Two records of one corpus may be of different versions of its text.
            for path, sha256 in recorded_files(other).items():
                if record.provenance.input_sha256_by_path.get(path, sha256) != sha256:
                    raise CorpusError(
                        f"{flag}: made from another version of {path} than the other record states;"
                        " rerun its stage"
                    )
    if len(set(known_by_flag.values())) > 1:
        corpora = ", ".join(f"{flag} has {name}" for flag, name in known_by_flag.items())
        raise CorpusError(f"{corpora}; give records of one corpus")


def read_train_record(path: Path, runs_folder: Path) -> TrainRecord:
    """Read the record of a training, and correct the paths of its run if the run was moved.

    If the folder of the run in the record does not exist, look for `<runs_folder>/<run name>`. If
    `runs_folder` is relative, look for it in the working directory and in each folder above the
    record.

    Raises:
        RecordError: for the same reasons as in `read_record`.
    """
    train = read_record(path, TrainRecord)
    # Candidates: the recorded folder, then the runs folder in the working directory and above the
    # record.
    folders = [train.run_folder]
    for parent in (Path(), *path.absolute().parents):
        folders.append(parent / runs_folder / train.run)
    # Results and runs may have been copied to another machine since.
    folder = next(filter(is_dir, folders), train.run_folder)

    # A log or checkpoint outside the run's folder was not moved with it.
    def moved(file: Path) -> Path:
        if not file.is_relative_to(train.run_folder):
            return file
        return folder / file.relative_to(train.run_folder)

    return msgspec.structs.replace(
        train,
        run_folder=folder,
        log_path=moved(train.log_path),
        models=[msgspec.structs.replace(model, path=moved(model.path)) for model in train.models],
    )


def _encode_path(folder: Path, path: Any) -> str:
    """Return the text of a path in a record that is written to `folder`: `./...`, `../...` or
    absolute.

    The path of a file is absolute if the nearest folder that contains both the file and the record
    is above the working directory, for example if the runs folder is on a scratch disk. A file with
    an absolute path would not be moved together with the record. Symbolic links are not resolved: a
    file in a folder that is linked into the working directory gets a relative path, which stays
    valid if the working directory is copied.
    """
    if not isinstance(path, PurePath):
        raise NotImplementedError(f"records cannot hold a {type(path).__name__}")
    # Absolute, but links are not resolved, so that linked folders stay where the user put them.
    target, origin, working_folder = (os.path.abspath(file) for file in (path, folder, "."))
    # `shared` is the deepest folder that contains both paths.
    shared = os.path.commonpath([target, origin])
    if shared not in (origin, working_folder) and Path(working_folder).is_relative_to(shared):
        return target
    relative = os.path.relpath(target, origin)
    if relative.split(os.sep)[0] in (os.curdir, os.pardir):
        return relative
    # A path without `./` would be read as a path that is not relative to the record.
    return os.path.join(os.curdir, relative)


def _decode_path(folder: Path, type_: type[PurePath], written: Any) -> PurePath:
    """Return the path that the text `written` in a record means. The text is absolute, or relative
    to `folder`, the folder of the record.
    """
    if not isinstance(written, str):
        raise TypeError(f"Expected `str`, a path, got `{type(written).__name__}`")
    if written.split(os.sep)[0] in (os.curdir, os.pardir):
        return type_(os.path.normpath(folder / written))
    return type_(written)


def read_trained(train: TrainRecord) -> TrainingSpec | None:
    """Return the training settings in a training's record, or None if this version of the project
    does not know one of their keys or values.
    """
    try:
        return msgspec.json.decode(train.training_json, type=TrainingSpec)
    except (msgspec.DecodeError, msgspec.ValidationError):
        return None


def is_trained_as(train: TrainRecord, training: TrainingSpec) -> bool:
    """Return whether a finished training had the settings `training`.

    The setting of the device is ignored, because the record may contain the device that was used,
    and the settings may contain `auto`.
    """
    trained = read_trained(train)
    if trained is None:
        return False
    return msgspec.structs.replace(trained, device=training.device) == training
