"""Exports an averaged checkpoint for programs without fairseq: as safetensors and JSON, or for CTranslate2.

An export is a folder of its own, whole or absent: the tensors, the vocabularies as JSON lists in order of id, the
subword models with which text is split in pieces, and an `ExportRecord` (`config.json`; `aiayn.json` beside
CTranslate2's own `config.json`) that says all that a reader of the tensors must know.
"""

import contextlib
import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import safetensors
import safetensors.torch
import torch
from fairseq.data import Dictionary

from aiayn.errors import CheckpointError, SpaceError, UsageError
from aiayn.provenance import gather_provenance, partial_path_of, remove_abandoned, require_free_space
from aiayn.records import Record, read_record, write_record
from aiayn.runs.finished import FinishedRun
from aiayn.spec.system import DecodingSpec, TrainingSpec
from aiayn.tools.export_ctranslate2 import refuse_inexpressible, save_ctranslate2
from aiayn.train import compat
from aiayn.train.average import first_names
from aiayn.train.checkpoints import tensors_sha256
from aiayn.train.fairseq_args import TrainingData, train_flags
from aiayn.train.model import load_model
from aiayn.train.task import AiaynTranslationTask

Format = Literal["safetensors", "ctranslate2"]
RECORD_NAME_BY_FORMAT: dict[Format, str] = {"safetensors": "config.json", "ctranslate2": "aiayn.json"}
TENSORS_NAME = "model.safetensors"


class ExportRecord(Record, frozen=True, kw_only=True, tag="ExportRecord"):
    """The content of an exported folder, and how to read its tensors.

    `tied` names the tensors that are not stored, each with the stored one that it shares. A source line is its pieces'
    ids with `source_ends_with`; the decoder begins with `target_begins_with`. `first_position` is the place of a
    sentence's first token among the positions: 0, the paper's, or 2 for fairseq's own transformer and convolutions; an
    LSTM has none. `normalise` and `tokenise` are Moses' ways of before November 2018, or none; a line goes through them
    before `subword_method` splits it in pieces (null: it comes in pieces). `tensors_sha256` is that of the average: of
    all tensors, those tied included.
    """

    format: Format
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
    subword_method: str | None = None
    normalise: str = "none"
    tokenise: str = "none"


def export_model(finished: FinishedRun, training: TrainingSpec, *, format: Format, into: Path) -> ExportRecord:
    """Write a finished run's averaged checkpoint to a new folder and return the record that lies in it.

    Raises:
        UsageError: if the folder exists.
        ConfigError: if the format cannot express the system or its search.
        CheckpointError: if the checkpoint is absent, torn or of another data-bin.
        SpaceError: if the disk cannot hold it; nothing half-written is left.
    """
    if format == "ctranslate2":
        refuse_inexpressible(finished.checkpoint.run, training, finished.decoding)
    model, task = load_model(finished.checkpoint.path, finished.data.folder, device="cpu")
    tensors: dict[str, torch.Tensor] = model.state_dict()
    tied = {name: first for name, first in first_names(tensors).items() if first != name}
    stored = {name: tensor.contiguous() for name, tensor in tensors.items() if name not in tied}
    with _new_folder(into) as folder:
        require_free_space(folder, sum(tensor.nbytes for tensor in stored.values()), "the exported tensors")
        vocabulary_file_by_side = _write_vocabularies(task, folder)
        if format == "safetensors":
            _save_tensors(stored, folder / TENSORS_NAME)
        else:
            save_ctranslate2(model, task, training, folder)
        record = ExportRecord(
            provenance=gather_provenance([finished.checkpoint.path]),
            format=format,
            training=training,
            decoding=finished.decoding,
            vocabulary_file_by_side=vocabulary_file_by_side,
            subword_file_by_language=_copy_subword_models(finished, folder),
            tied=tied if format == "safetensors" else {},
            **_facts(finished, model, task, tensors),
        )
        write_record(record, folder / RECORD_NAME_BY_FORMAT[format])
    return record


def _facts(finished: FinishedRun, model: Any, task: Any, tensors: dict[str, torch.Tensor]) -> dict[str, Any]:
    """Return what a record says of the run, its languages, its symbols, and the way from a line of text to pieces."""
    dictionary, segmented = task.target_dictionary, finished.segmented
    special = (dictionary.bos(), dictionary.pad(), dictionary.eos(), dictionary.unk())
    return {
        "run": finished.checkpoint.run,
        "average": finished.checkpoint.average,
        "averaged_updates": finished.checkpoint.averaged_updates,
        "tensors_sha256": tensors_sha256(tensors),
        "source_language": finished.data.source_language,
        "target_language": finished.data.target_language,
        "id_by_special_symbol": {dictionary[index]: index for index in special},
        "source_ends_with": dictionary[dictionary.eos()],
        "target_begins_with": dictionary[dictionary.eos()],
        "first_position": first_position(model),
        "normalise": segmented.normalise if segmented else "none",
        "tokenise": segmented.tokenise if segmented else "none",
        "subword_method": segmented.method if segmented else None,
    }


def first_position(model: Any) -> int | None:
    """Return the row of a sentence's first token in the table of positions, None if the model has no such table."""
    positions = getattr(model.encoder, "embed_positions", None)
    if positions is None:
        return None
    # fairseq's own tables begin above the padding's index.
    return int(positions.offset) if hasattr(positions, "offset") else int(positions.padding_idx) + 1


@contextlib.contextmanager
def _new_folder(folder: Path) -> Iterator[Path]:
    """Yield an empty folder beside `folder`; rename it if the block ends well, remove it if not."""
    if folder.exists():
        raise UsageError(f"{folder}: exists already; remove it, or name another folder with --output")
    folder.parent.mkdir(parents=True, exist_ok=True)
    remove_abandoned(folder)
    partial_folder = partial_path_of(folder)
    shutil.rmtree(partial_folder, ignore_errors=True)  # left by a killed process of the same number
    partial_folder.mkdir()
    try:
        yield partial_folder
        for written_path in partial_folder.iterdir():
            with written_path.open("rb") as written:
                os.fsync(written.fileno())
        partial_folder.rename(folder)
    finally:
        shutil.rmtree(partial_folder, ignore_errors=True)


def _write_vocabularies(task: Any, folder: Path) -> dict[str, str]:
    """Write the symbols of each side in order of id, those of a joint dictionary once, under CTranslate2's names."""
    symbols_by_side = {"source": task.source_dictionary.symbols, "target": task.target_dictionary.symbols}
    is_shared = symbols_by_side["source"] == symbols_by_side["target"]
    file_by_side = {side: f"{'shared' if is_shared else side}_vocabulary.json" for side in symbols_by_side}
    for side, name in file_by_side.items():
        (folder / name).write_text(json.dumps(symbols_by_side[side], indent=1) + "\n", encoding="utf-8", newline="\n")
    return file_by_side


def _copy_subword_models(finished: FinishedRun, folder: Path) -> dict[str, str]:
    """Copy what splits text in pieces; nothing for a corpus whose text comes in pieces."""
    path_by_language = finished.segmented.model_path_by_language if finished.segmented else {}
    file_by_language = {language: f"subword_{path.name}" for language, path in path_by_language.items()}
    for language, name in file_by_language.items():
        shutil.copyfile(path_by_language[language], folder / name)
    return file_by_language


def _save_tensors(tensors: dict[str, torch.Tensor], path: Path) -> None:
    try:
        safetensors.torch.save_file(tensors, path, metadata={"format": "pt"})  # "pt" is what its readers ask for
    except safetensors.SafetensorError as error:  # what it says of a full disk
        raise SpaceError(f"{path}: {error}; no output is half-written; make room, and export again") from error


def load_exported(folder: Path, *, device: str = "cpu") -> tuple[Any, Any]:
    """Return the model of a safetensors export, ready to be evaluated, and a task with its dictionaries.

    Neither a checkpoint nor a data-bin is read: only what lies in the folder.

    Raises:
        RecordError: if `config.json` is absent or no ExportRecord of safetensors.
        CheckpointError: if the tensors are absent, torn, or not those of `config.json`.
    """
    record = read_record(folder / RECORD_NAME_BY_FORMAT["safetensors"], ExportRecord)
    tensors = _read_tensors(folder, record)
    source_dictionary, target_dictionary = (
        _read_dictionary(folder / record.vocabulary_file_by_side[side]) for side in ("source", "target")
    )
    data = TrainingData(
        folder=str(folder),
        source_language=record.source_language,
        target_language=record.target_language,
        is_joint=len(set(record.vocabulary_file_by_side.values())) == 1,
    )
    flags = train_flags(record.training, data, seed=1, save_folder=str(folder), device="cpu")
    cfg = compat.training_config(flags)
    task = AiaynTranslationTask(cfg.task, source_dictionary, target_dictionary)
    model = task.build_model(cfg.model)
    model.load_state_dict(tensors, strict=True)
    return model.to(device).eval(), task


def _read_tensors(folder: Path, record: ExportRecord) -> dict[str, torch.Tensor]:
    """Return an export's tensors, tied ones under each of their names."""
    path = folder / TENSORS_NAME
    try:
        tensors = safetensors.torch.load_file(path)
    except (FileNotFoundError, safetensors.SafetensorError) as error:
        raise CheckpointError(f"{path}: absent or torn ({error}); export the run again") from error
    missing = sorted(set(record.tied.values()) - set(tensors))
    if missing:
        raise CheckpointError(f"{path}: lacks {missing[0]}, which config.json names; export the run again")
    tensors |= {name: tensors[stored_name] for name, stored_name in record.tied.items()}
    found = tensors_sha256(tensors)
    if found != record.tensors_sha256:
        raise CheckpointError(
            f"{path}: its tensors' digest is {found[:16]}, in config.json {record.tensors_sha256[:16]}; the two are of "
            "different exports, or a byte has changed: export the run again"
        )
    return tensors


def _read_dictionary(path: Path) -> Dictionary:
    dictionary = Dictionary()
    symbols = json.loads(path.read_text(encoding="utf-8"))
    for symbol in symbols[len(dictionary) :]:
        dictionary.add_symbol(symbol)
    if dictionary.symbols != symbols:
        raise CheckpointError(f"{path}: no list of different symbols that begins with <s>, <pad>, </s>, <unk>")
    return dictionary
