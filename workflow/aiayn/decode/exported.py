"""Loads an exported model from the tensors, vocabularies and `config.json` of one folder.

Loading an export needs neither the checkpoint nor the data-bin. The folder does not contain code,
and nothing is unpickled, so an export from an unknown source is safe to load. Only our transformer
can be exported. Loading an export needs torch, but not fairseq.
"""

import json
import math
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import torch

from aiayn.errors import FOREIGN_ERRORS, CheckpointError, CorpusError, one_sentence
from aiayn.model.transformer import Transformer, TransformerConfig
from aiayn.paths import EXPORT_RECORD_NAME, TENSORS_NAME
from aiayn.records import CheckpointRecord, ExportRecord, read_record
from aiayn.spec.training import MAX_POSITIONS
from aiayn.train.checkpoints import tensors_sha256
from aiayn.train.device import evaluated_on
from aiayn.train.fairseq_args import transformer_values

SPECIAL_SYMBOLS = ["<s>", "<pad>", "</s>", "<unk>"]  # of fairseq's dictionaries, in order of id
# By the names of the types in a safetensors header.
TORCH_TYPE_BY_NAME = {
    "F64": torch.float64,
    "F32": torch.float32,
    "F16": torch.float16,
    "BF16": torch.bfloat16,
    "I64": torch.int64,
    "I32": torch.int32,
    "U8": torch.uint8,
    "BOOL": torch.bool,
}


class _Vocabulary:
    """The symbols of an export, with the interface of fairseq's Dictionary."""

    nspecial = len(SPECIAL_SYMBOLS)

    def __init__(self, symbols: list[str]) -> None:
        self.symbols = symbols
        # An export does not have the counts of fairseq's dictionary, so every symbol counts once.
        self.count = [1] * len(symbols)
        self._number_by_symbol = {symbol: number for number, symbol in enumerate(symbols)}

    def __len__(self) -> int:
        return len(self.symbols)

    def pad(self) -> int:
        """Return the id of padding."""
        return SPECIAL_SYMBOLS.index("<pad>")

    def eos(self) -> int:
        """Return the id of the end of sentence."""
        return SPECIAL_SYMBOLS.index("</s>")

    def encode_line(self, line: str, *, add_if_not_exist: bool = False) -> torch.Tensor:
        """Convert a line of pieces (subwords) into ids, with the end of sentence. No piece is added
        to the vocabulary.
        """
        # fairseq's method has the same flag, which is always False here.
        unknown = SPECIAL_SYMBOLS.index("<unk>")
        numbers = [self._number_by_symbol.get(piece, unknown) for piece in line.split()]
        return torch.tensor([*numbers, self.eos()], dtype=torch.int32)


class _ExportedTask:
    """The parts of fairseq's task that a translator uses: dictionaries and languages, not data."""

    def __init__(self, folder: Path, record: ExportRecord, vocabularies: Sequence[Any]) -> None:
        self.source_dictionary, self.target_dictionary = vocabularies
        self.cfg = SimpleNamespace(
            data=str(folder),
            source_lang=record.source_language,
            target_lang=record.target_language,
        )

    def load_dataset(self, split: str) -> None:
        """Raise an error, because an exported model does not come with data.

        Raises:
            CorpusError: at every call.
        """
        # `load_split` calls this method for any task, whether it has data or not.
        raise CorpusError(f"{self.cfg.data}: an export, which has no split {split!r}; give text")


def load_average(
    checkpoint: Path | CheckpointRecord, data_folder: Path, *, device: str
) -> tuple[Any, Any]:
    """Load an averaged checkpoint with its data-bin, or an export. Return the model and its task.

    If `checkpoint` is a record and not a path, the tensors must have the digest in the record.

    Raises:
        RecordError, CheckpointError: for the same reasons as in `load_exported` and `load_model`.
        FileError: if the file is not a complete checkpoint of fairseq.
    """
    record = None if isinstance(checkpoint, Path) else checkpoint
    path = checkpoint if isinstance(checkpoint, Path) else checkpoint.path
    if path.name == TENSORS_NAME:
        return load_exported(path.parent, device=device)
    # Imported here, because the import loads fairseq, which is not needed for an export.
    from aiayn.train.model import load_model

    with one_sentence(path, "a whole checkpoint of fairseq, with its config"):
        return load_model(path, data_folder, device=device, record=record)


def cut_line(line: torch.Tensor, stack: Any) -> torch.Tensor:
    """Cut a line of token ids to the positions of a model's encoder or decoder, at most 1,024, but
    keep the end of sentence.
    """
    # A transformer of fairseq may have fewer positions than MAX_POSITIONS, and its encoder and
    # decoder may have different numbers of positions.
    limit = min(MAX_POSITIONS, stack.max_positions())
    return line if len(line) <= limit else torch.cat([line[: limit - 1], line[-1:]])


def load_exported(folder: Path, *, device: str = "cpu") -> tuple[Any, Any]:
    """Load a safetensors export. Return the model in evaluation mode and a task with its
    dictionaries.

    Raises:
        RecordError: if `config.json` is absent or is not an ExportRecord of safetensors.
        CheckpointError: if the model is not our transformer, or if tensors or vocabularies are
            absent, damaged, or do not match `config.json`.
    """
    record = read_record(folder / EXPORT_RECORD_NAME, ExportRecord)
    if record.training.architecture != "transformer":
        raise CheckpointError(
            f"{folder}: an export of architecture {record.training.architecture}, expected"
            " transformer; translate with the run itself"
        )
    tensors = _read_tensors(folder, record)
    # With a joint vocabulary, both sides have the same file, and one matrix is shared.
    symbols = [
        _read_symbols(folder / record.vocabulary_file_by_side[side])
        for side in ("source", "target")
    ]
    is_joint = len(set(record.vocabulary_file_by_side.values())) == 1
    config = TransformerConfig(**transformer_values(record.training, is_joint=is_joint))
    model = Transformer.build(
        config, num_source_symbols=len(symbols[0]), num_target_symbols=len(symbols[1])
    )
    task = _ExportedTask(folder, record, [_Vocabulary(side) for side in symbols])
    try:
        # Replaces the random weights. `strict`: no tensor may be missing or superfluous.
        model.load_state_dict(tensors, strict=True)
    except RuntimeError as error:
        # torch lists every tensor that differs, each on a line of its own.
        reason = " ".join(str(error).split())[:200]
        raise CheckpointError(
            f"{folder}: its tensors do not fit the settings and vocabularies of config.json:"
            f" {reason}; export the run again"
        ) from error
    return evaluated_on(device, model), task


def _read_tensors(folder: Path, record: ExportRecord) -> dict[str, torch.Tensor]:
    """Return an export's tensors by name. A tensor that several parameters share is returned under
    each of their names.
    """
    path = folder / TENSORS_NAME
    try:
        tensors = _parse_safetensors(path.read_bytes())
    except (OSError, ValueError, TypeError, AttributeError, *FOREIGN_ERRORS) as error:
        raise CheckpointError(f"{path}: absent or torn ({error}); export the run again") from error
    # A tied tensor is stored once. The record says under which name.
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


def _parse_safetensors(content: bytes) -> dict[str, torch.Tensor]:
    """Parse the tensors of a safetensors file: 8 bytes with the length of the header, the header
    (JSON with type, shape and offsets of each tensor), and the tensors' bytes.

    Raises:
        ValueError, TypeError, KeyError, AttributeError: if the file has a different format or is
            truncated.
    """
    begin = 8 + int.from_bytes(content[:8], "little")
    header = json.loads(content[8:begin])
    # Free text of the program that wrote the file. It is not a tensor.
    header.pop("__metadata__", None)
    tensors = {}
    for name, entry in header.items():
        first, last = entry["data_offsets"]
        dtype = TORCH_TYPE_BY_NAME[entry["dtype"]]
        shape = [int(size) for size in entry["shape"]]
        # Slices of bytes never fail, so a truncated file would give short tensors.
        if not 0 <= first <= last <= len(content) - begin:
            raise ValueError(f"the bytes of {name} are missing")
        if last - first != math.prod(shape) * dtype.itemsize:
            raise ValueError(f"{name} has {last - first} bytes, not those of shape {shape}")
        # A copy, because torch warns if it views bytes that cannot be written.
        part = bytearray(content[begin + first : begin + last])
        flat = torch.frombuffer(part, dtype=dtype) if part else torch.empty(0, dtype=dtype)
        tensors[name] = flat.reshape(shape)
    return tensors


def _read_symbols(path: Path) -> list[str]:
    """Return a vocabulary's symbols, in order of id."""
    try:
        symbols = msgspec.json.decode(path.read_bytes(), type=list[str])
    except (OSError, msgspec.DecodeError, UnicodeError) as error:
        raise CheckpointError(f"{path}: absent or torn ({error}); export the run again") from error
    # The ids are the positions in the list, so a symbol that appears twice would have two ids.
    if symbols[:4] != SPECIAL_SYMBOLS or len(set(symbols)) != len(symbols):
        raise CheckpointError(
            f"{path}: expected a list of different symbols that begins with <s>, <pad>, </s>,"
            " <unk>; export the run again"
        )
    return symbols
