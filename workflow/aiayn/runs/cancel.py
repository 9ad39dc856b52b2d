"""Cancels a run: its job saves at once and ends, and no job starts it again by itself."""

import os
import platform
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

from aiayn.errors import RunError, StateError
from aiayn.runs.attempts import RANK_LOCK_NAME, is_done, newest_update
from aiayn.runs.heartbeat import HEARTBEAT_WAIT_SECONDS, is_heartbeat_advancing, is_held, rank_zero_process
from aiayn.runs.jobs import read_jobs
from aiayn.runs.queue import JobQueue
from aiayn.runs.status import RunStatus, is_local_job_alive, read_statuses

POLL_SECONDS = 0.5
QUEUE_POLL_SECONDS = 2.0
SECONDS_BETWEEN_SIGNALS = 5.0  # a job that is just starting may miss the first
SECONDS_TO_FREE_A_LOCK = 5.0  # a shared file system may take so long after its owner's end
DEFAULT_TIMEOUT_SECONDS = 180.0  # Slurm waits 30 s after TERM by default, then kills


def cancel_run(run_folder: Path, queue: JobQueue, *, timeout_seconds: float = DEFAULT_TIMEOUT_SECONDS) -> str:
    """End a run, wait until its processes have ended, and return what was saved and how to resume.

    Raises:
        StateError: if it neither runs nor waits, its state is unknown, or a signal cannot reach it from here.
        LaunchError: if scancel fails.
        RunError: if it has not ended in time.
    """
    (status,) = read_statuses([run_folder], queue)
    if status.state == "unknown":
        _refuse_unknown(run_folder, status, queue)
    if not status.is_alive:
        reason = f", {status.reason}" if status.reason else ""
        raise StateError(f"{status.run}: nothing to end, it neither runs nor waits; it is {status.state}{reason}")
    if status.launcher == "slurm":
        is_in_queue = _has_own_jobs(run_folder, status, queue)
        if is_in_queue:
            queue.cancel_jobs(status.run)
            _wait(lambda: _is_gone_from(queue, status.run), status.run, timeout_seconds, QUEUE_POLL_SECONDS)
        if _runs_outside_queue(run_folder):
            _terminate_until_gone(run_folder, status, timeout_seconds)
        elif not is_in_queue:
            raise StateError(
                f"{status.run}: {status.reason or 'has no Slurm job at present'}; nothing was done, repeat the command"
            )
    else:
        _terminate_until_gone(run_folder, status, timeout_seconds)
    return _outcome(run_folder, status)


def _refuse_unknown(run_folder: Path, status: RunStatus, queue: JobQueue) -> NoReturn:
    """Raise with the way to end a run whose lock cannot be seen from here, if it has a heartbeat."""
    known_queue = status.launcher != "slurm" or queue.find_jobs(status.run) is not None
    if not known_queue or not any(attempt.outcome == "" for attempt in status.attempts):
        raise StateError(f"{status.run}: {status.reason}; nothing was done, repeat the command when that is known")
    if is_heartbeat_advancing(run_folder, HEARTBEAT_WAIT_SECONDS):
        raise StateError(f"{status.run}: {status.reason}, but rank 0 is running: {_how_to_end(run_folder, status)}")
    raise StateError(
        f"{status.run}: {status.reason}, but no heartbeat within {HEARTBEAT_WAIT_SECONDS:.0f} s; nothing was done; "
        f"look at `aiayn status {status.run}` in a few minutes and repeat the command if the run is still unknown"
    )


def _how_to_end(run_folder: Path, status: RunStatus) -> str:
    """Return where a run is running, and the command that ends it there."""
    here, process = platform.node(), rank_zero_process(run_folder)
    host = status.host or "an unknown machine"
    if host == here:
        return f"it is on this machine; `kill -TERM {process or 'PROCESS'}` of rank 0: it saves and ends"
    by_hand = f", or `ssh {host} kill -TERM {process}`" if process and status.host else ""
    return f"it is on {host}, this is {here}; run `aiayn cancel {status.run}` there{by_hand}: it saves and ends"


def _has_own_jobs(run_folder: Path, status: RunStatus, queue: JobQueue) -> bool:
    """Return whether squeue shows an alive job of this run.

    Raises:
        StateError: if it does not answer, or if a job of another copy of the project has the same name.
    """
    jobs = queue.find_jobs(status.run)
    if jobs is None:
        raise StateError(f"{status.run}: squeue does not answer; nothing was done, repeat the command when it does")
    alive = [job for job in jobs if job.is_alive]
    own = [job.job for job in alive if job.trains_in(run_folder)]
    if own and len(own) < len(alive):
        others = ", ".join(f"{job.job} ({job.script})" for job in alive if job.job not in own)
        raise StateError(
            f"{status.run}: Slurm jobs {others} have the same name, but train in another folder; end this one by its "
            f"number: scancel {' '.join(own)}"
        )
    return bool(own)


def _is_gone_from(queue: JobQueue, run: str) -> bool:
    jobs = queue.find_jobs(run)
    return jobs is not None and not any(job.is_alive for job in jobs)


def _runs_outside_queue(run_folder: Path) -> bool:
    """Return whether rank 0 of a job that squeue does not know is running: a killed controller may forget a job."""
    deadline = time.monotonic() + SECONDS_TO_FREE_A_LOCK
    while is_held(run_folder / RANK_LOCK_NAME):
        if time.monotonic() > deadline:
            return True
        time.sleep(min(POLL_SECONDS, SECONDS_TO_FREE_A_LOCK))
    return False


def _terminate_until_gone(run_folder: Path, status: RunStatus, timeout_seconds: float) -> None:
    lock_path = run_folder / RANK_LOCK_NAME
    if status.host != platform.node():
        why = "" if status.launcher != "slurm" else "squeue does not know of its job, but rank 0 is running: "
        raise StateError(f"{status.run}: {why}{_how_to_end(run_folder, status)}")
    signalled_at = -SECONDS_BETWEEN_SIGNALS

    def is_gone() -> bool:
        nonlocal signalled_at
        process = _owner(run_folder)
        if process is None:
            return not is_held(lock_path)
        if time.monotonic() - signalled_at >= SECONDS_BETWEEN_SIGNALS:
            signalled_at = time.monotonic()
            _terminate(process, status.run)
        return False

    if _owner(run_folder) is None:
        if is_held(lock_path):
            raise StateError(f"{status.run}: rank 0 has only just begun; nothing was done, repeat the command")
        raise StateError(f"{status.run}: no job yet, its driver is about to submit one; end the driver with Ctrl-C")
    _wait(is_gone, status.run, timeout_seconds, POLL_SECONDS)


def _terminate(process: int, run: str) -> None:
    try:
        os.kill(process, signal.SIGTERM)
    except ProcessLookupError:
        return
    except PermissionError as error:
        raise StateError(f"{run}: process {process} is another user's; only that user can end it") from error


def _owner(run_folder: Path) -> int | None:
    """Return the process that saves and ends all ranks on TERM: rank 0, or before it the process that starts the ranks.

    Rank 0 writes its number into the lock that it holds; a free lock names a process that has ended.
    """
    if is_held(run_folder / RANK_LOCK_NAME):
        return rank_zero_process(run_folder)
    jobs = read_jobs(run_folder)
    return int(jobs[-1].job) if jobs and is_local_job_alive(jobs[-1]) else None


def _wait(is_gone: Callable[[], bool], run: str, timeout_seconds: float, poll_seconds: float) -> None:
    deadline = time.monotonic() + timeout_seconds
    while not is_gone():
        if time.monotonic() > deadline:
            raise RunError(
                f"{run}: got the signal to end, but is still running after {timeout_seconds:.0f} s; look for the cause "
                f"in `aiayn logs {run}`, for its state in `aiayn status {run}`"
            )
        time.sleep(poll_seconds)


def _outcome(run_folder: Path, before: RunStatus) -> str:
    if is_done(run_folder):
        return f"{before.run}: finished before it could be ended; it is done"
    saved = newest_update(run_folder)
    of_all = f" of {before.updates:,}" if before.updates else ""
    kept = f"saved at update {saved:,}{of_all}" if saved else "ended before anything was saved"
    return f"{before.run}: {kept}; the same command, `snakemake` or `aiayn train`, resumes it"
