"""Writes, reads and prunes a training's checkpoints: the last n models and two full checkpoints.

A checkpoint file is always complete, because it is written under a different name and then renamed.
`model_00001500.pt` contains only the model (a quarter of a GB for base). Averages are computed from
model-only checkpoints. A full checkpoint such as `full_00001500.pt` also contains the optimiser and
the position in the data, so that a training can resume from it. The number in a file's name is the
number of updates.

The training waits only while its state is copied in memory. A thread writes the copy to the disk
while the training continues.
"""

import contextlib
import copy
import errno
import hashlib
import logging
import re
import time
import zipfile
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import torch

from aiayn.cost import FULL_CHECKPOINTS_KEPT
from aiayn.errors import CheckpointError, SpaceError
from aiayn.provenance import replace_on_success
from aiayn.records import CheckpointRecord, TrainRecord
from aiayn.runs.checkpoint_names import CHECKPOINT_NAME, checkpoint_path, list_checkpoints
from aiayn.train import compat

# Before the first `torch.load` of any user of this module, which would refuse fairseq's classes.
compat.install()

logger = logging.getLogger(__name__)

DICTIONARIES_KEY = "dictionary_sha256s"
# A checkpoint that only serves to resume from is skipped if the previous checkpoint is younger than
# this. A kill may then cost so many seconds of training.
RESUME_SECONDS = 10.0
# fairseq's checkpoints of the winter of 2020/21 hold their config as an object of omegaconf, which
# is not loaded. An error shows this command to the user. It replaces the object by its values, as
# later versions of fairseq do.
CONVERSION = (
    'python -c "import sys, torch; from omegaconf import OmegaConf; '
    "state = torch.load(sys.argv[1], map_location='cpu', weights_only=False); "
    "state['cfg'] = OmegaConf.to_container(state['cfg'], enum_to_str=True); "
    "torch.save({name: state[name] for name in ('model', 'cfg')}, sys.argv[2])\""
)
# fairseq 0.6 to 0.9 stores objects of these classes next to the model. They are loaded as
# `_IgnoredObject`, so that no class of a checkpoint is imported.
_IGNORED_CLASSES = ("AverageMeter", "TimeMeter", "StopwatchMeter")
# torch writes zip archives since 1.6. Earlier files are a sequence of pickles.
_ZIP_MAGIC = b"PK\x03\x04"
# MS-DOS's directory bit, in the external attributes of a zip entry.
_FOLDER_BIT = 0x10
# Entries of a state dict that are not trained.
_BUFFERS = (
    "version",
    "_float_tensor",
    "running_mean",
    "running_var",
)


class _IgnoredObject:
    """Stands for objects in an old checkpoint that are never used."""


class CheckpointKeeper:
    """Writes and prunes the checkpoints of one training. Every rank (process) calls the methods,
    but only rank 0 writes.

    `updates` is the number of updates of the whole training. `save_interval_updates` is the
    distance s between saved models: the models after `updates`, `updates` - s, `updates` - 2 s and
    so on are saved. If `save_interval_updates` is None, a model is saved at the end of each epoch.

    The last `num_models` models are kept for averaging. An earlier checkpoint only serves to resume
    from, so it is skipped if the previous checkpoint is less than `resume_seconds` old. With
    several ranks, `resume_seconds` must be 0, because ranks with different clocks could decide
    differently.

    The callback `before_write` raises an error if rank 0 may not write any more. Only one
    checkpoint is written at a time. The next call of `save` and the end of `closed_at_end` wait
    until the checkpoint is on the disk.
    """

    def __init__(
        self,
        folder: Path,
        *,
        num_models: int,
        updates: int,
        save_interval_updates: int | None,
        resume_seconds: float = 0.0,
        before_write: Callable[[], None] = lambda: None,
    ) -> None:
        self.folder = folder
        self.num_models = num_models
        self.updates = updates
        self.save_interval_updates = save_interval_updates
        self.resume_seconds = resume_seconds
        self.saved_at = time.monotonic()
        self._before_write = before_write
        self._copier = StateCopier()
        self._writer = ThreadPoolExecutor(max_workers=1, thread_name_prefix="checkpoint")
        self._writing: Future[None] = Future()
        # A finished write, so that the first `wait` returns at once.
        self._writing.set_result(None)

    def is_due(self, num_updates: int) -> bool:
        """Return whether to save a checkpoint after this update. fairseq itself decides about
        checkpoints at ends of epochs.
        """
        interval = self.save_interval_updates
        if interval is None or not self._is_model_due(num_updates):
            return False
        # Every model of an average is needed, however quickly the models follow each other.
        is_averaged = self.updates - num_updates < self.num_models * interval
        return is_averaged or time.monotonic() - self.saved_at >= self.resume_seconds

    def _is_model_due(self, num_updates: int) -> bool:
        interval = self.save_interval_updates
        # Counted back from the last update, so that the last model is always among the models.
        return interval is not None and (self.updates - num_updates) % interval == 0

    def save(self, trainer: Any, epoch_itr: Any, valid_loss: float | None) -> None:
        """Copy the state of the training, and let a thread write the full checkpoint from this
        copy. If a model is due at this update, the thread also writes the model-only checkpoint.

        Raises:
            SpaceError, OSError: if the previous checkpoint could not be written.
            BusyRunError: if a different process has taken over the run.
        """
        # A collective where the optimiser's state is sharded, so every rank must reach it.
        trainer.consolidate_optimizer()
        if not trainer.should_save_checkpoint_on_current_rank:
            return
        num_updates = trainer.get_num_updates()
        state = trainer.state_dict()
        progress = {"train_iterator": epoch_itr.state_dict(), "val_loss": valid_loss}
        state["extra_state"].update(progress, **trainer.task.get_checkpoint_dict())
        # A full checkpoint is written each time, to resume from. A model is kept only if it is
        # due, or after the last update.
        is_kept = self._is_model_due(num_updates) or (
            self.save_interval_updates is None and epoch_itr.end_of_epoch()
        )
        dictionaries = (
            dictionary_sha256s(trainer.task) if is_kept or num_updates == self.updates else None
        )
        self.wait()
        # After the wait, because another process may have taken the run over meanwhile.
        self._before_write()
        self.saved_at = time.monotonic()
        self._writing = self._writer.submit(
            self._write, self._copier.copy(state), num_updates, dictionaries
        )

    def _write(
        self, state: dict[str, Any], num_updates: int, dictionaries: dict[str, str] | None
    ) -> None:
        """Write the model-only and the full checkpoint, each completely or not at all, then remove
        the oldest checkpoints. Because of this order, a complete checkpoint remains on the disk if
        a write or a removal fails.
        """
        # The model first. If the process is killed before the full checkpoint is written, the run
        # resumes earlier and writes this model again.
        if dictionaries is not None:
            model_only = model_only_state(state["cfg"], state["model"], num_updates, dictionaries)
            save_whole(model_only, checkpoint_path(self.folder, "model", num_updates))
        save_whole(state, checkpoint_path(self.folder, "full", num_updates))
        # Old files go last: at every moment a whole checkpoint to resume from is on the disk.
        for path in list_checkpoints(self.folder, "model")[: -self.num_models]:
            path.unlink()
        # The second full checkpoint is kept in case the newest is torn. After the last update
        # nothing resumes, so one is enough.
        num_kept = 1 if num_updates == self.updates else FULL_CHECKPOINTS_KEPT
        for path in list_checkpoints(self.folder, "full")[:-num_kept]:
            path.unlink()

    def wait(self) -> None:
        """Wait until the thread has written the last checkpoint.

        Raises:
            SpaceError, OSError: if the checkpoint could not be written.
        """
        self._writing.result()

    @contextlib.contextmanager
    def closed_at_end(self) -> Iterator[None]:
        """At the end of the `with` block, wait until the last checkpoint is written. If the block
        itself raises an error, an error of the writing is only logged.
        """
        try:
            yield
        except Exception:
            if (error := self._writing.exception()) is not None:
                logger.error(f"a checkpoint could not be written, either: {error}")
            raise
        except BaseException:
            # A StopTraining means that the training was saved. If the write failed it was not, so
            # the write's error is raised in its place.
            self.wait()
            raise
        else:
            self.wait()
        finally:
            self._writer.shutdown()


def is_whole(path: Path) -> bool:
    """Return whether a checkpoint file is undamaged. torch's checkpoint files are zip archives with
    a checksum for each entry.

    The checksums do not cover the table of contents of the archive, so torch loads the file once,
    too. A file with an entry that is compressed or a folder counts as damaged: for such an entry,
    Python's `zipfile` checks other bytes than torch reads.
    """
    try:
        torch.load(path, map_location="cpu", mmap=True, weights_only=True)
        with zipfile.ZipFile(path) as archive:
            entries = archive.infolist()
            is_as_torch_writes = all(
                e.compress_size == e.file_size and not e.external_attr & _FOLDER_BIT
                for e in entries
            )
            return is_as_torch_writes and archive.testzip() is None
    except Exception:
        # A flipped byte in the archive's tables makes zipfile raise half a dozen kinds of errors.
        return False


def save_whole(state: dict[str, Any], path: Path) -> None:
    """Write a checkpoint to a temporary file, flush this file to the disk, then rename it to
    `path`.

    Raises:
        SpaceError: if the disk is full. The temporary file is removed.
        OSError: if the checkpoint cannot be written for any other reason.
    """
    try:
        with replace_on_success(path) as partial_path, partial_path.open("wb") as file:
            torch.save(state, file)
    except (OSError, RuntimeError) as error:
        # torch raises a RuntimeError of its own for a failed write. The error of the system is in
        # its context.
        cause: BaseException | None = error
        while cause is not None and not isinstance(cause, OSError):
            cause = cause.__context__
        if cause is None:
            raise
        # A full disk, an exceeded quota, a limit of the file's size: the user can make room.
        if cause.errno not in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
            raise OSError(cause.errno, cause.strerror, str(path)) from error
        raise SpaceError(
            f"{path}: {cause.strerror}; the checkpoint before it is unchanged: make room, then"
            " repeat the command"
        ) from error


def remove_partial_files(folder: Path) -> None:
    """Remove the temporary files that remain if a process is killed while it writes
    a checkpoint.
    """
    for path in folder.glob(".*.partial"):
        path.unlink(missing_ok=True)


def newest_whole_full(folder: Path) -> tuple[Path | None, list[Path]]:
    """Return the newest undamaged full checkpoint, and the damaged (torn) full checkpoints that are
    newer. The damaged checkpoints are renamed to `*.torn`.
    """
    torn: list[Path] = []
    for path in reversed(list_checkpoints(folder, "full")):
        if is_whole(path):
            return path, torn
        # Kept for a person to look at, under a name that no list of checkpoints contains.
        torn_path = path.with_suffix(".torn")
        path.replace(torn_path)
        torn.append(torn_path)
    return None, torn


def load_checkpoint(path: Path, *, is_checked: bool = False) -> dict[str, Any]:
    """Map a checkpoint's tensors into memory without reading all of them. With `is_checked`, first
    verify the checksums of all bytes.

    Checkpoints written by torch before 1.6 (2020) cannot be mapped into memory and are read
    completely. Only tensors, plain values and the few classes of `compat.install` are unpickled, so
    a checkpoint from an unknown source cannot run code.

    Raises:
        CheckpointError: if the file is absent, damaged or not a checkpoint.
    """
    if not path.exists():
        raise CheckpointError(
            f"{path}: no such checkpoint; rerun the training or the average that writes it"
        )
    if is_checked and not is_whole(path):
        raise CheckpointError(
            f"{path}: torn: its bytes are not as written; delete it, then rerun its stage"
        )
    try:
        # Only torch's zip format can be mapped into memory. The file's name does not tell.
        with path.open("rb") as file:
            is_mapped = file.read(len(_ZIP_MAGIC)) == _ZIP_MAGIC
        ignored: list[Any] = [
            (_IgnoredObject, f"fairseq.meters.{name}") for name in _IGNORED_CLASSES
        ]
        with torch.serialization.safe_globals(ignored):
            state: dict[str, Any] = torch.load(
                path, map_location="cpu", mmap=is_mapped, weights_only=True
            )
    except Exception as error:
        # torch raises RuntimeError, EOFError, UnpicklingError or BadZipFile for torn files.
        raise CheckpointError(f"{path}: {_why_not_loaded(path, error)}") from error
    if not isinstance(state, dict) or "model" not in state:
        raise CheckpointError(f"{path}: holds no 'model'; expected a fairseq checkpoint")
    return state


def _why_not_loaded(path: Path, error: Exception) -> str:
    # torch's message for a module that only an attack would use: "Trying to load unsupported GLOBAL
    # posix.mkdir whose module posix is blocked."
    blocked = re.search(r"unsupported GLOBAL ([\w.]+) whose module \S+ is blocked", str(error))
    if blocked is not None:
        return (
            f"holds a call of {blocked[1]}, which no checkpoint needs; nothing of it was run:"
            " do not use this file"
        )
    # torch's message for any other class: "Unsupported global: GLOBAL
    # omegaconf.dictconfig.DictConfig was not an allowed global by default. ..."
    refused = re.search(r"Unsupported (?:global: GLOBAL|class) ([\w.]+)", str(error))
    if refused is not None:
        return (
            f"holds a {refused[1]}, which is not loaded: loading it could run any code. If you"
            " trust its origin, convert it once:"
            f" {CONVERSION} {path} {path.with_name(f'{path.stem}_converted.pt')}"
        )
    problem = (
        "torn or not a checkpoint"
        f" ({str(error).splitlines()[0] if str(error) else type(error).__name__})"
    )
    # A file that this project did not write cannot be made again by rerunning a stage.
    is_ours = CHECKPOINT_NAME.fullmatch(path.name) is not None
    next_step = "delete it, then rerun its stage"
    return f"{problem}; {next_step if is_ours else 'copy it again, or run again what wrote it'}"


def model_only_state(
    cfg: Any, tensors: dict[str, torch.Tensor], num_updates: int, dictionaries: dict[str, str]
) -> dict[str, Any]:
    """Return the content of a model-only checkpoint: what fairseq's own commands need to load a
    model, without the state that is needed to train further.

    `dictionaries` is the result of `dictionary_sha256s`.
    """
    # fairseq takes a checkpoint without a history for one of an old version, and then fails at keys
    # that only old versions have.
    history = {
        "criterion_name": "",
        "optimizer_name": "",
        "lr_scheduler_state": {},
        "num_updates": num_updates,
    }
    extra_state = {DICTIONARIES_KEY: dictionaries}
    return {
        "args": None,
        "cfg": cfg,
        "model": tensors,
        "extra_state": extra_state,
        "optimizer_history": [history],
    }


def dictionary_sha256s(task: Any) -> dict[str, str]:
    """Return the SHA-256 of the source dictionary and of the target dictionary of a fairseq task.
    The hash covers the symbols of a dictionary in order of index.
    """
    dictionaries = {"source": task.source_dictionary, "target": task.target_dictionary}
    return {
        side: hashlib.sha256("\n".join(dictionary.symbols).encode()).hexdigest()
        for side, dictionary in dictionaries.items()
    }


def tensors_sha256(tensors: dict[str, torch.Tensor]) -> str:
    """Return the SHA-256 of a model's tensors: their names, shapes, types and bytes, in order of
    name. The hash does not depend on the file that contains the tensors.
    """
    digest = hashlib.sha256()
    for name in sorted(tensors):
        tensor = tensors[name].contiguous()
        # Shape and type, too: the same bytes may be a different tensor.
        digest.update(f"{name} {tuple(tensor.shape)} {tensor.dtype}\n".encode())
        # As plain bytes, because numpy has no bfloat16.
        digest.update(tensor.view(-1).view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()


def checkpoint_problem(path: Path, sha256: str) -> str:
    """Return what is wrong with a checkpoint, or '' if it is undamaged. `sha256` is the recorded
    SHA-256 of its tensors. If `sha256` is '', only the checksums in the checkpoint file are
    verified.
    """
    if not is_whole(path):
        return "torn: its bytes are not as written"
    found_sha256 = tensors_sha256(load_checkpoint(path)["model"])
    return (
        "" if sha256 in ("", found_sha256) else f"tensors {found_sha256}, its record says {sha256}"
    )


def require_recorded(path: Path, record: CheckpointRecord | TrainRecord) -> None:
    """Require that a checkpoint is undamaged, and that its tensors have the SHA-256 in its record.

    Raises:
        CheckpointError: if the checkpoint is damaged or has a different SHA-256. The message
            contains the command that makes the checkpoint again.
    """
    # Opened first, because a missing file has an error message of its own.
    load_checkpoint(path)
    if problem := checkpoint_problem(path, record.tensors_sha256):
        raise CheckpointError(f"{path}: {problem}; {record.remedy}")


def count_parameters(tensors: dict[str, torch.Tensor]) -> int:
    """Count the trained parameters of a model. Tied matrices count once. Buffers, which are not
    trained, do not count.
    """
    # Tied matrices have one storage, and so one entry.
    size_by_storage: dict[int, int] = {}
    for name, tensor in tensors.items():
        if name.rpartition(".")[2] not in _BUFFERS:
            size_by_storage[tensor.data_ptr()] = tensor.numel()
    return sum(size_by_storage.values())


class StateCopier:
    """Copies the state of a training, so that it can be saved while the training continues. Tensors
    are copied into buffers in the CPU's memory, which the next copy uses again.

    Allocating new memory would take longer than the copy itself, because every 4 KB of new memory
    cause a page fault. The buffers for a GPU's tensors are in pinned memory, because a GPU can copy
    in the background only into pinned memory.
    """

    def __init__(self) -> None:
        self._buffers: list[torch.Tensor] = []

    def copy(self, state: dict[str, Any]) -> dict[str, Any]:
        """Return a copy of the state that shares no memory with `state`. The next call of this
        method overwrites the copy.

        Tensors that share their memory in `state` (tied matrices) also share memory in the copy.
        """
        tensors = list(_tensors_of(state))
        storages = {
            tensor.untyped_storage().data_ptr(): tensor.untyped_storage() for tensor in tensors
        }
        # Largest first, so that each storage finds its buffer again.
        largest_first = sorted(storages.items(), key=lambda item: -item[1].nbytes())
        copies = {
            pointer: self._copy_storage(index, storage)
            for index, (pointer, storage) in enumerate(largest_first)
        }
        # The copies from a GPU were only queued so far. The training may change the tensors as soon
        # as this function returns.
        if any(tensor.is_cuda for tensor in tensors):
            torch.cuda.synchronize()
        copy_by_id: dict[int, Any] = {}
        for tensor in tensors:
            storage = copies[tensor.untyped_storage().data_ptr()]
            copied = torch.empty(0, dtype=tensor.dtype)
            copied.set_(storage, tensor.storage_offset(), tensor.shape, tensor.stride())
            copy_by_id[id(tensor)] = copied
        # The memo of deepcopy has the tensors' copies already, so only the plain values are copied
        # here.
        return copy.deepcopy(state, copy_by_id)

    def _copy_storage(self, index: int, storage: torch.UntypedStorage) -> torch.UntypedStorage:
        is_cuda = storage.device.type == "cuda"
        num_bytes = storage.nbytes()
        # The slice appends a buffer at the first copy, and later replaces a buffer of another size.
        if index == len(self._buffers) or self._buffers[index].numel() != num_bytes:
            self._buffers[index : index + 1] = [
                torch.empty(num_bytes, dtype=torch.uint8, pin_memory=is_cuda)
            ]
        # The whole storage as bytes, whatever the types of the tensors that use it.
        source = torch.empty(0, dtype=torch.uint8, device=storage.device).set_(storage)
        return self._buffers[index].copy_(source, non_blocking=is_cuda).untyped_storage()


def _tensors_of(value: Any) -> Iterator[torch.Tensor]:
    """Yield all tensors in nested dictionaries, lists and tuples."""
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, dict | list | tuple):
        for part in value.values() if isinstance(value, dict) else value:
            yield from _tensors_of(part)
