"""Gives each local run GPUs of its own: a note for each GPU names the run that it trains and the
run's driver.

A GPU is taken while the driver or the training of its note is alive, so that a note of a killed run
takes nothing.
"""

import fcntl
import os
import tempfile
from collections.abc import Sequence
from pathlib import Path

import msgspec

from aiayn.errors import LaunchError
from aiayn.launch.launcher import SubmissionError
from aiayn.machine import Gpu
from aiayn.runs.run_folder import RunFolder


class Note(msgspec.Struct, frozen=True, kw_only=True):
    """The run that a GPU trains.

    The system may use a process number again, so the time at which the process began is noted, too.
    """

    run_folder: str
    driver: int
    driver_start: str


def notes_folder() -> Path:
    """Return the folder of this user's notes on this machine."""
    return Path(tempfile.gettempdir()) / f"aiayn-gpus-{os.getuid()}"


def take_gpus(gpus: Sequence[Gpu], num_gpus: int, folder: RunFolder) -> list[Gpu]:
    """Take GPUs for a run, and return them.

    Raises:
        LaunchError: if the machine has fewer GPUs.
        SubmissionError: if too few of them are free now.
    """
    if num_gpus > len(gpus):
        raise LaunchError(
            f"{folder.run}: {num_gpus} ranks, but this machine has {len(gpus)} GPUs that may be"
            f" used; take --num-ranks {len(gpus)}, or look at CUDA_VISIBLE_DEVICES"
        )
    notes_folder().mkdir(mode=0o700, exist_ok=True)
    with (notes_folder() / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        run_by_gpu = {gpu: _run_on(gpu, folder) for gpu in gpus}
        free = [gpu for gpu, run in run_by_gpu.items() if not run]
        if len(free) < num_gpus:
            runs = ", ".join(sorted({run for run in run_by_gpu.values() if run}))
            raise SubmissionError(
                f"{folder.run}: {len(free)} of this machine's {len(gpus)} GPUs are free, expected"
                f" {num_gpus}; they train {runs}: let snakemake start fewer at once (`--resources"
                f" local_gpus={len(gpus)}`)",
                is_passing=True,
            )
        note = Note(
            run_folder=str(folder.path.absolute()),
            driver=os.getpid(),
            driver_start=_start_of(os.getpid()),
        )
        for gpu in free[:num_gpus]:
            _note_path(gpu).write_bytes(msgspec.json.encode(note))
    return free[:num_gpus]


def give_back(gpus: Sequence[Gpu]) -> None:
    """Remove the notes of GPUs."""
    for gpu in gpus:
        _note_path(gpu).unlink(missing_ok=True)


def _note_path(gpu: Gpu) -> Path:
    return notes_folder() / f"{gpu.uuid}.json"


def _run_on(gpu: Gpu, own: RunFolder) -> str:
    """Return the other run that a GPU trains, '' if none."""
    try:
        note = msgspec.json.decode(_note_path(gpu).read_bytes(), type=Note)
    except (FileNotFoundError, msgspec.DecodeError):
        return ""
    folder = RunFolder(Path(note.run_folder))
    if folder.path == own.path.absolute():
        return ""
    has_driver = note.driver_start != "" and _start_of(note.driver) == note.driver_start
    return folder.run if has_driver or folder.is_being_trained() else ""


def _start_of(process: int) -> str:
    """Return when a process started, in the kernel's ticks; '' if it has ended."""
    try:
        status = Path(f"/proc/{process}/stat").read_text(encoding="utf-8")
    except OSError:
        return ""
    return status.rpartition(")")[2].split()[19]  # field 22; the name before it may have spaces
