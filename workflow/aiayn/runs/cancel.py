"""Ends a run on a person's wish: its job saves at once and ends, and nothing starts it again by itself."""

import contextlib
import os
import platform
import signal
import time
from collections.abc import Callable
from pathlib import Path

from aiayn.errors import RunError, StateError
from aiayn.launch.slurm_queue import cancel_jobs, find_jobs
from aiayn.runs.attempts import DONE_NAME, RANK_LOCK_NAME, newest_update
from aiayn.runs.jobs import read_jobs
from aiayn.runs.locks import is_locked
from aiayn.runs.status import RunStatus, is_local_job_alive, read_statuses

POLL_SECONDS = 0.5
QUEUE_POLL_SECONDS = 2.0
SECONDS_BETWEEN_SIGNALS = 5.0  # a job that is just starting may miss the first
DEFAULT_TIMEOUT_SECONDS = 180.0  # Slurm waits 30 s after TERM by default, then kills


def cancel_run(run_folder: Path, *, timeout_seconds: float = DEFAULT_TIMEOUT_SECONDS) -> str:
    """End a run, wait until it is gone, and return what was saved and how to go on.

    Raises:
        StateError: if nothing of it runs or waits, nobody knows, or it runs where no signal gets from here.
        LaunchError: if scancel fails.
        RunError: if it has not ended in time.
    """
    (status,) = read_statuses([run_folder])
    if status.state == "unknown":
        raise StateError(f"{status.run}: {status.reason}; nothing was done, repeat it when that is known")
    if not status.is_alive:
        reason = f", {status.reason}" if status.reason else ""
        raise StateError(f"{status.run}: nothing to end, it neither runs nor waits; it is {status.state}{reason}")
    if status.launcher == "slurm":
        _require_own_jobs(run_folder, status)
        cancel_jobs(status.run)
        _wait(lambda: _is_gone_from_slurm(status.run), status.run, timeout_seconds, QUEUE_POLL_SECONDS)
    else:
        _terminate_until_gone(run_folder, status, timeout_seconds)
    return _outcome(run_folder, status)


def _require_own_jobs(run_folder: Path, status: RunStatus) -> None:
    """Refuse to cancel by a name that is also of a job of another copy of the project, or of no job."""
    alive = [job for job in find_jobs(status.run) or [] if job.is_alive]
    if not alive:
        raise StateError(f"{status.run}: {status.reason or 'has no Slurm job just now'}; nothing was done, repeat it")
    own = [job.job for job in alive if job.trains_in(run_folder)]
    if len(own) < len(alive):
        others = ", ".join(f"{job.job} ({job.script})" for job in alive if job.job not in own)
        raise StateError(
            f"{status.run}: Slurm jobs {others} have the same name, but train in another folder; end this one by its "
            f"number: scancel {' '.join(own)}"
        )


def _is_gone_from_slurm(run: str) -> bool:
    jobs = find_jobs(run)
    return jobs is not None and not any(job.is_alive for job in jobs)


def _terminate_until_gone(run_folder: Path, status: RunStatus, timeout_seconds: float) -> None:
    lock_path = run_folder / RANK_LOCK_NAME
    if status.host != platform.node():
        raise StateError(
            f"{status.run}: is on {status.host or 'a machine that it does not tell'}, this is {platform.node()}; "
            f"run `aiayn cancel {status.run}` there"
        )
    signalled_at = -SECONDS_BETWEEN_SIGNALS

    def is_gone() -> bool:
        nonlocal signalled_at
        process = _owner(run_folder)
        if process is None:
            return not is_locked(lock_path)
        if time.monotonic() - signalled_at >= SECONDS_BETWEEN_SIGNALS:
            signalled_at = time.monotonic()
            with contextlib.suppress(ProcessLookupError):
                os.kill(process, signal.SIGTERM)
        return False

    if _owner(run_folder) is None:
        raise StateError(f"{status.run}: its driver is about to submit it, nothing runs yet; end that with Ctrl-C")
    _wait(is_gone, status.run, timeout_seconds, POLL_SECONDS)


def _owner(run_folder: Path) -> int | None:
    """Return the process that saves and ends all ranks on TERM: rank 0, or what starts the ranks if there is none yet.

    Rank 0 writes its number into the lock that it holds; a lock that nobody holds names a process of the past.
    """
    lock_path = run_folder / RANK_LOCK_NAME
    if is_locked(lock_path):
        text = lock_path.read_text(encoding="utf-8")
        return int(text) if text.isdecimal() else None
    jobs = read_jobs(run_folder)
    return int(jobs[-1].job) if jobs and is_local_job_alive(jobs[-1]) else None


def _wait(is_gone: Callable[[], bool], run: str, timeout_seconds: float, poll_seconds: float) -> None:
    deadline = time.monotonic() + timeout_seconds
    while not is_gone():
        if time.monotonic() > deadline:
            raise RunError(
                f"{run}: was told to end, but has not within {timeout_seconds:.0f} s; `aiayn logs {run}` may tell why, "
                f"`aiayn status {run}` whether it has by now"
            )
        time.sleep(poll_seconds)


def _outcome(run_folder: Path, before: RunStatus) -> str:
    if (run_folder / DONE_NAME).exists():
        return f"{before.run}: made its last update before it could be ended; it is done"
    saved = newest_update(run_folder)
    of_all = f" of {before.updates:,}" if before.updates else ""
    kept = f"saved at update {saved:,}{of_all}" if saved else "ended before anything was saved"
    return f"{before.run}: {kept}; the same command, `snakemake` or `aiayn train`, resumes it"
