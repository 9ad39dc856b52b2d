"""Gives each run on this machine GPUs of its own: the driver of the run (the process that starts
its jobs) holds a lock on one file for each GPU.

The operating system frees the locks when the driver ends. If a driver is killed, its job continues
on the GPU. So the lock file of a GPU contains the folder of the run, which shows whether the job
has ended.
"""

import fcntl
import os
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import IO

from aiayn.errors import LaunchError
from aiayn.launch.launcher import SubmissionError
from aiayn.machine import Gpu
from aiayn.runs.run_folder import RunFolder


def locks_folder() -> Path:
    """Return the folder with the lock files of this user's GPUs on this machine."""
    # In the folder for temporary files, because the locks are for one machine only. A home folder
    # may be shared by several machines.
    return Path(tempfile.gettempdir()) / f"aiayn-gpus-{os.getuid()}"


def lock_gpus(gpus: Sequence[Gpu], num_gpus: int, folder: RunFolder) -> dict[Gpu, IO[str]]:
    """Lock GPUs for the run of a folder, and return the GPUs and their locked files. Closing a file
    frees its GPU.

    Raises:
        LaunchError: if the machine has fewer than `num_gpus` GPUs.
        SubmissionError: if fewer than `num_gpus` GPUs are free now.
    """
    if num_gpus > len(gpus):
        raise LaunchError(
            f"{folder.run}: {num_gpus} ranks, but this machine has {len(gpus)} GPUs that may be"
            f" used; take --num-ranks {len(gpus)}, or look at CUDA_VISIBLE_DEVICES"
        )
    locks_folder().mkdir(mode=0o700, exist_ok=True)
    lock_by_gpu: dict[Gpu, IO[str]] = {}
    other_runs = set()
    for gpu in gpus:
        # Opened with "a+", which does not empty the file. The file contains the folder of the run
        # that has locked the GPU last.
        lock = (locks_folder() / f"{gpu.uuid}.lock").open("a+", encoding="utf-8")
        lock.seek(0)
        newest = RunFolder(Path(lock.read()))
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            is_free = newest.path == folder.path or not newest.is_being_trained()
        except BlockingIOError:
            is_free = False
        if not is_free:
            other_runs.add(newest.run)
            lock.close()
            continue
        lock.truncate(0)
        lock.write(str(folder.path.resolve()))
        lock.flush()
        lock_by_gpu[gpu] = lock
        if len(lock_by_gpu) == num_gpus:
            return lock_by_gpu
    # All or nothing: two drivers that each hold a part of the GPUs would wait for each other.
    for held in lock_by_gpu.values():
        held.close()
    raise SubmissionError(
        f"{folder.run}: {len(lock_by_gpu)} of this machine's {len(gpus)} GPUs are free, expected"
        f" {num_gpus}; they train {', '.join(sorted(other_runs))}: let snakemake start fewer at"
        f" once (`--resources local_gpus={len(gpus)}`)",
        is_passing=True,
    )
