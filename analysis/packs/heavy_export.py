"""Exports an averaged checkpoint for programs without fairseq, as safetensors and JSON.

An export is a new folder, which is never partly written. The folder contains the tensors, the
vocabularies as JSON lists in order of id, the subword models that split text into pieces, and
`config.json`. `config.json` is an `ExportRecord` with everything that a program must know to use
the tensors.
"""

import json
import shutil
from pathlib import Path
from typing import Any

import safetensors
import safetensors.torch
import torch

from aiayn.decode.exported import load_average
from aiayn.errors import RecordError, SpaceError, UsageError
from aiayn.paths import EXPORT_RECORD_NAME, TENSORS_NAME
from aiayn.provenance import (
    gather_provenance,
    new_folder_on_success,
    require_free_space,
)
from aiayn.records import ExportRecord, write_record
from aiayn.runs.finished import FinishedRun
from aiayn.train.average import first_names
from aiayn.train.checkpoints import tensors_sha256


def export_model(finished: FinishedRun, into: Path) -> ExportRecord:
    """Export a finished run's averaged checkpoint to a new folder, and return the record of the
    export.

    Raises:
        RecordError: if no training record of the run can be read.
        UsageError: if the new folder already exists, or if the model is not our transformer.
        CheckpointError: if the checkpoint is absent or truncated, or was trained on a different
            data-bin.
        SpaceError: if the disk is full. Partial files are removed.
    """
    if into.exists():
        raise UsageError(f"{into}: exists already; remove it, or give another folder with --output")
    training = finished.training
    if training is None:
        run = finished.checkpoint.run
        raise RecordError(
            f"{finished.checkpoint.path}: no training record of {run} that this version can read;"
            " train it again"
        )
    # An export is read without fairseq, which the other architectures need.
    if training.architecture != "transformer":
        raise UsageError(
            f"{finished.checkpoint.run}: architecture {training.architecture}, expected"
            " transformer; translate with the run itself: `aiayn translate RUN`"
        )
    # An export only copies tensors, so a GPU would not help.
    model, task = load_average(finished.checkpoint, finished.data.folder, device="cpu")
    tensors: dict[str, torch.Tensor] = model.state_dict()
    # A tied tensor (one matrix for both embeddings and the output, section 3.4) is stored once,
    # because safetensors refuses tensors that share memory. The record maps its other names to it.
    tied = {name: first for name, first in first_names(tensors).items() if first != name}
    stored = {name: tensor.contiguous() for name, tensor in tensors.items() if name not in tied}
    with new_folder_on_success(into) as folder:
        # The tensors are nearly all of an export, so the space is checked before they are written.
        require_free_space(
            folder, sum(tensor.nbytes for tensor in stored.values()), "the exported tensors"
        )
        vocabulary_file_by_side = _write_vocabularies(task, folder)
        try:
            # Libraries such as transformers read `format` to find out which framework wrote the
            # file.
            safetensors.torch.save_file(stored, folder / TENSORS_NAME, metadata={"format": "pt"})
        # safetensors writes from Rust, so a full disk is not an OSError here.
        except safetensors.SafetensorError as error:
            raise SpaceError(
                f"{folder / TENSORS_NAME}: {error}; no output is half-written; make room, and"
                " export again"
            ) from error
        record = ExportRecord(
            provenance=gather_provenance([finished.checkpoint.path]),
            format="safetensors",
            training=training,
            decoding=finished.decoding,
            vocabulary_file_by_side=vocabulary_file_by_side,
            subword_file_by_language=_copy_subword_models(finished, folder),
            tied=tied,
            **_facts(finished, model, task, tensors),
        )
        write_record(record, folder / EXPORT_RECORD_NAME)
    return record


def _facts(
    finished: FinishedRun, model: Any, task: Any, tensors: dict[str, torch.Tensor]
) -> dict[str, Any]:
    """Return the fields of the export's record that describe the run, its languages, its special
    symbols, and the steps from text to subwords.
    """
    # The special symbols have the same ids in both dictionaries.
    dictionary = task.target_dictionary
    segmented = finished.segmented
    special = (dictionary.bos(), dictionary.pad(), dictionary.eos(), dictionary.unk())
    # For a corpus that is published already segmented, `segment` does not run, and its record does
    # not exist.
    steps = {"tokenise": "none", "subword_method": None}
    if segmented is not None:
        steps = {
            "tokenise": segmented.tokenise,
            "subword_method": segmented.method,
        }
    return steps | {
        "run": finished.checkpoint.run,
        "average": finished.checkpoint.average,
        "averaged_updates": finished.checkpoint.averaged_updates,
        "tensors_sha256": tensors_sha256(tensors),
        "source_language": finished.data.source_language,
        "target_language": finished.data.target_language,
        "id_by_special_symbol": {dictionary[index]: index for index in special},
        # fairseq ends a source with </s>, and begins a target with </s> instead of <s>. A reader of
        # the tensors cannot guess either.
        "source_ends_with": dictionary[dictionary.eos()],
        "target_begins_with": dictionary[dictionary.eos()],
        # In fairseq's own models position 0 is in row 2 of the table of positions.
        "first_position": int(model.encoder.embed_positions.offset),
    }


def _write_vocabularies(task: Any, folder: Path) -> dict[str, str]:
    """Write the vocabularies of source and target as lists of symbols in order of id. A dictionary
    that both sides share is written once.
    """
    symbols_by_side = {
        "source": task.source_dictionary.symbols,
        "target": task.target_dictionary.symbols,
    }
    is_shared = symbols_by_side["source"] == symbols_by_side["target"]
    file_by_side = {
        side: f"{'shared' if is_shared else side}_vocabulary.json" for side in symbols_by_side
    }
    for side, name in file_by_side.items():
        (folder / name).write_text(
            json.dumps(symbols_by_side[side], indent=1) + "\n", encoding="utf-8", newline="\n"
        )
    return file_by_side


def _copy_subword_models(finished: FinishedRun, folder: Path) -> dict[str, str]:
    """Copy the models that split text into subwords. A corpus that is published already segmented
    does not have subword models.
    """
    path_by_language = finished.segmented.model_path_by_language if finished.segmented else {}
    file_by_language = {}
    for language, path in path_by_language.items():
        # A joint model has the same file for both languages. The second copy overwrites the first.
        file_by_language[language] = f"subword_{path.name.removeprefix('subword_')}"
        shutil.copyfile(path, folder / file_by_language[language])
    return file_by_language
