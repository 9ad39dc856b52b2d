"""Loads an exported model from the tensors, vocabularies and `config.json` of one folder.

A checkpoint and a data-bin are not needed. The folder contains no code and nothing is unpickled,
so an export from an unknown source is safe to load.
"""

import json
from pathlib import Path
from typing import Any

import safetensors
import safetensors.torch
import torch
from fairseq.data import Dictionary

from aiayn.errors import CheckpointError, one_sentence
from aiayn.paths import EXPORT_RECORD_NAME, TENSORS_NAME
from aiayn.records import CheckpointRecord, ExportRecord, read_record
from aiayn.spec.training import MAX_POSITIONS
from aiayn.train import compat
from aiayn.train.checkpoints import tensors_sha256
from aiayn.train.device import evaluated_on
from aiayn.train.fairseq_args import TrainingData, train_flags
from aiayn.train.model import load_model
from aiayn.train.task import AiaynTranslationTask


def load_average(
    checkpoint: Path | CheckpointRecord, data_folder: Path, *, device: str
) -> tuple[Any, Any]:
    """Load an averaged checkpoint with its data-bin, or an export; return the model and its task.

    The tensors of a checkpoint with a record are compared with it.

    Raises:
        RecordError, CheckpointError: as `load_exported` and `load_model`.
        FileError: if fairseq does not find in the checkpoint what it expects.
    """
    record = None if isinstance(checkpoint, Path) else checkpoint
    path = checkpoint if isinstance(checkpoint, Path) else checkpoint.path
    if path.name == TENSORS_NAME:
        return load_exported(path.parent, device=device)
    with one_sentence(path, "a whole checkpoint of fairseq, with its config"):
        return load_model(path, data_folder, device=device, record=record)


def cut_line(line: torch.Tensor) -> torch.Tensor:
    """Cut a line of ids to the 1,024 that a model reads; its end of sentence stays."""
    if len(line) <= MAX_POSITIONS:
        return line
    return torch.cat([line[: MAX_POSITIONS - 1], line[-1:]])


def load_exported(folder: Path, *, device: str = "cpu") -> tuple[Any, Any]:
    """Load a safetensors export; return the model for evaluation and a task with its dictionaries.

    Only files of the folder are read.

    Raises:
        RecordError: if `config.json` is absent or is not an ExportRecord of safetensors.
        CheckpointError: if the tensors are absent, torn, or do not match `config.json`.
    """
    record = read_record(folder / EXPORT_RECORD_NAME, ExportRecord)
    tensors = _read_tensors(folder, record)
    source_dictionary, target_dictionary = (
        _read_dictionary(folder / record.vocabulary_file_by_side[side])
        for side in ("source", "target")
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
    return evaluated_on(device, model), task


def _read_tensors(folder: Path, record: ExportRecord) -> dict[str, torch.Tensor]:
    """Return an export's tensors; a tied tensor appears under each of its names."""
    path = folder / TENSORS_NAME
    try:
        tensors = safetensors.torch.load_file(path)
    except (FileNotFoundError, safetensors.SafetensorError) as error:
        raise CheckpointError(f"{path}: absent or torn ({error}); export the run again") from error
    missing = sorted(set(record.tied.values()) - set(tensors))
    if missing:
        raise CheckpointError(
            f"{path}: lacks {missing[0]}, which config.json names; export the run again"
        )
    tensors |= {name: tensors[stored_name] for name, stored_name in record.tied.items()}
    digest = tensors_sha256(tensors)
    if digest != record.tensors_sha256:
        raise CheckpointError(
            f"{path}: its tensors' digest is {digest[:16]}, in config.json"
            f" {record.tensors_sha256[:16]}; the files belong to different exports, or a byte has"
            " changed: export the run again"
        )
    return tensors


def _read_dictionary(path: Path) -> Dictionary:
    dictionary = Dictionary()
    symbols = json.loads(path.read_text(encoding="utf-8"))
    for symbol in symbols[len(dictionary) :]:
        dictionary.add_symbol(symbol)
    if dictionary.symbols != symbols:
        raise CheckpointError(
            f"{path}: expected a list of different symbols that begins with <s>, <pad>, </s>,"
            " <unk>; export the run again"
        )
    return dictionary
