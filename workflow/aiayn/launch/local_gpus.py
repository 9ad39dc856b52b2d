"""Gives each local run its own GPUs. A note for each GPU contains the folder of the run that it
trains.

A GPU is taken as long as the run in its note has a driver or is being trained. The locks in the
run's folder show this, so the note of a killed run does not block a GPU.
"""

import fcntl
import os
import tempfile
from collections.abc import Sequence
from pathlib import Path

from aiayn.errors import LaunchError
from aiayn.launch.launcher import SubmissionError
from aiayn.machine import Gpu
from aiayn.runs.locks import is_held
from aiayn.runs.run_folder import RunFolder


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
    own_folder = str(folder.path.absolute())
    notes_folder().mkdir(mode=0o700, exist_ok=True)
    with (notes_folder() / "lock").open("w") as lock:
        # Without it two drivers that start together would see the same GPU as free.
        fcntl.flock(lock, fcntl.LOCK_EX)
        give_back(
            [gpu for gpu in gpus if _noted_folder(gpu) == own_folder]
        )  # of its earlier driver
        run_by_gpu = {gpu: _run_on(gpu) for gpu in gpus}
        free = [gpu for gpu, run in run_by_gpu.items() if not run]
        if len(free) < num_gpus:
            runs = ", ".join(sorted({run for run in run_by_gpu.values() if run}))
            raise SubmissionError(
                f"{folder.run}: {len(free)} of this machine's {len(gpus)} GPUs are free, expected"
                f" {num_gpus}; they train {runs}: let snakemake start fewer at once (`--resources"
                f" local_gpus={len(gpus)}`)",
                is_passing=True,
            )
        for gpu in free[:num_gpus]:
            _note_path(gpu).write_text(own_folder, encoding="utf-8")
    return free[:num_gpus]


def give_back(gpus: Sequence[Gpu]) -> None:
    """Remove the notes of GPUs."""
    for gpu in gpus:
        _note_path(gpu).unlink(missing_ok=True)


def _note_path(gpu: Gpu) -> Path:
    return notes_folder() / f"{gpu.uuid}.txt"


def _noted_folder(gpu: Gpu) -> str:
    """Return the folder of the run that a GPU was given to, '' if none was noted."""
    try:
        return _note_path(gpu).read_text(encoding="utf-8")
    except FileNotFoundError:
        return ""


def _run_on(gpu: Gpu) -> str:
    """Return the run that a GPU trains, '' if none."""
    noted = _noted_folder(gpu)
    folder = RunFolder(Path(noted))
    is_taken = noted and (is_held(folder.driver_lock_path) or folder.is_being_trained())
    return folder.run if is_taken else ""
