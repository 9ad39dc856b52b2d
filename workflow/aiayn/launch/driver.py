"""The driver of one training: submits, waits, shows progress, resumes what died, and copies the finished run's record.

It imports no torch. What is true is `<run folder>/done.json`, written by the job's rank 0; everything else is told in
attempts.jsonl. A driver that is killed leaves its job running; the next one waits for it.
"""

import contextlib
import errno
import fcntl
import logging
import shutil
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import IO

import msgspec

from aiayn.errors import LaunchError, RunError
from aiayn.launch.cluster_spec import ClusterSpec
from aiayn.launch.interruption import Interruption
from aiayn.launch.job import TrainingRequest
from aiayn.launch.local_driver import attend_local_job
from aiayn.launch.run_code import choose_code
from aiayn.launch.slurm_driver import JobEnd, SlurmDriver
from aiayn.launch.slurm_queue import SilentQueue, ask_queue, has_slurm
from aiayn.provenance import replace_on_success
from aiayn.runs import attempts
from aiayn.runs.jobs import read_jobs
from aiayn.runs.locks import is_locked
from aiayn.runs.rank_errors import noted_errors

logger = logging.getLogger(__name__)
ATTEMPTS_WITHOUT_PROGRESS = 3
LOCK_POLL_SECONDS = 0.5
SHOWN_LINES = 15  # of a failed run's log


def drive(
    request: TrainingRequest,
    *,
    launcher: str,
    record_path: Path,
    fresh: bool = False,
    cluster: ClusterSpec | None = None,
) -> None:
    """Bring one run to its end and copy its record to `record_path`; the launcher `slurm` needs a `cluster`.

    Raises:
        RunError: if the run failed, was stopped or cancelled, or died thrice without progress; exit code 3, no record.
        KeyboardInterrupt: after Ctrl-C: once a local job has saved, at once where Slurm goes on with it.
    """
    run_folder = Path(request.run_folder)
    run_folder.mkdir(parents=True, exist_ok=True)
    done_path = run_folder / attempts.DONE_NAME
    with Interruption().installed() as interruption, _driver_lock(request, interruption):
        if fresh:
            _refuse_living_slurm_job(request, "end it before `--fresh`")
            _set_aside(run_folder)
        if not done_path.exists():
            if launcher != "slurm":
                _refuse_living_slurm_job(request, "wait for it there: `--launcher slurm`")
            _train_to_the_end(request, launcher, cluster, interruption)
    with replace_on_success(record_path) as partial_path:
        shutil.copyfile(done_path, partial_path)
    logger.info(f"{request.run}: done, record {record_path}")


def _train_to_the_end(
    request: TrainingRequest, launcher: str, cluster: ClusterSpec | None, interruption: Interruption
) -> None:
    """Let one job follow the other until the run is done, or must not go on."""
    run_folder = Path(request.run_folder)
    slurm = None if cluster is None or launcher != "slurm" else SlurmDriver(request, cluster, interruption)
    code_folder = None
    if launcher == "local":
        code = choose_code(request)  # once a driver: later jobs run it, too
        request, code_folder = msgspec.structs.replace(request, commit=code.commit), code.folder
    attempts_left, num_jobs = ATTEMPTS_WITHOUT_PROGRESS, 0
    while True:
        update_before, num_events_before = attempts.newest_update(run_folder), len(attempts.read_events(run_folder))
        end = slurm.attend_job(num_earlier_jobs=num_jobs) if slurm else None
        if end is None:
            attend_local_job(request, launcher, interruption, code_folder)
        if (run_folder / attempts.DONE_NAME).exists():
            return
        new_events = attempts.read_events(run_folder)[num_events_before:]
        if end is None:
            _judge_local_end(request, new_events, interruption)
        else:
            _judge_slurm_end(request, new_events, end)
        has_progress = attempts.newest_update(run_folder) > update_before
        attempts_left = ATTEMPTS_WITHOUT_PROGRESS if has_progress else attempts_left - 1
        if attempts_left == 0:
            reason = f"died {ATTEMPTS_WITHOUT_PROGRESS} times without a new checkpoint"
            raise RunError(_failure(request, reason, _job_output(run_folder)))
        num_jobs += max(1, sum(isinstance(event, attempts.Started) for event in new_events))
        if cluster is not None and slurm and num_jobs >= cluster.max_num_jobs:
            raise RunError(
                f"{request.run}: {_where(request)} after {num_jobs} jobs of {cluster.time_limit_minutes} minutes, the "
                f"most that cluster {cluster.name} allows (max_num_jobs); the same command goes on from there"
            )


@contextlib.contextmanager
def _driver_lock(request: TrainingRequest, interruption: Interruption) -> Iterator[None]:
    """Let one driver at a time look and submit; freed by the system when its owner dies."""
    with (Path(request.run_folder) / attempts.DRIVER_LOCK_NAME).open("w") as lock:
        has_said = False
        while not _try_lock(lock):
            if not has_said:
                logger.info(f"{request.run}: another driver is at work on this run; waiting for it")
                has_said = True
            interruption.raise_if_any(f"{request.run}: another driver goes on with it")
            time.sleep(LOCK_POLL_SECONDS)
        yield


def _try_lock(lock: IO[str]) -> bool:
    """Take a lock, or return False if another process has it; on a file system without locks nobody is kept out."""
    try:
        fcntl.lockf(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno not in (errno.EACCES, errno.EAGAIN):
            logger.warning(f"{lock.name}: {error.strerror}: two drivers at once are kept apart by Slurm alone")
            return True
        return False
    return True


def _refuse_living_slurm_job(request: TrainingRequest, advice: str) -> None:
    """Refuse to touch a run that waits or trains in Slurm.

    Raises:
        LaunchError: naming the job; or if Slurm, which had the newest job, cannot be asked.
    """
    jobs = read_jobs(Path(request.run_folder))
    if not jobs or jobs[-1].launcher != "slurm" or not has_slurm():
        return
    found = ask_queue(request.run)
    if isinstance(found, SilentQueue):
        raise LaunchError(
            f"{request.run}: Slurm job {jobs[-1].job} may train it, but squeue is silent: {found.reason}; try later"
        )
    living = [queued.job for queued in found if queued.is_alive and queued.trains_in(Path(request.run_folder))]
    if living:
        raise LaunchError(f"{request.run}: Slurm job {', '.join(living)} is training it, or will; {advice}")


def _set_aside(run_folder: Path) -> None:
    """Move what a run has so far into a sub-folder: `--fresh` begins anew and loses nothing."""
    if is_locked(run_folder / attempts.RANK_LOCK_NAME):
        raise LaunchError(f"{run_folder}: is being trained; end that job before `--fresh`")
    kept = (attempts.DRIVER_LOCK_NAME, "aside-")
    old = [path for path in run_folder.iterdir() if not path.name.startswith(kept)]
    if old:
        numbers = [int(path.name.removeprefix("aside-")) for path in run_folder.glob("aside-*")]
        aside_folder = run_folder / f"aside-{1 + max(numbers, default=0)}"
        aside_folder.mkdir()
        for path in old:
            path.rename(aside_folder / path.name)
        logger.info(f"{run_folder}: begun anew, the earlier run is in {aside_folder}")


def _where(request: TrainingRequest) -> str:
    return f"update {attempts.newest_update(Path(request.run_folder))} of {request.training.updates}"


def _judge_local_end(request: TrainingRequest, new_events: list[attempts.Event], interruption: Interruption) -> None:
    """Raise if the job that just ended unfinished must not be followed by another; `new_events` are what it told."""
    where = _where(request)
    last = new_events[-1] if new_events else None
    _raise_if_failed(request, last)
    interruption.raise_if_any(f"{request.run}: saved at {where}; the same command resumes it")
    if isinstance(last, attempts.Ended) and last.outcome == "stopped":
        raise RunError(f"{request.run}: stopped at {where}, {last.reason}; the same command resumes it")
    reason = f": {last.reason}" if isinstance(last, attempts.Ended) else " without a word"
    logger.info(f"{request.run}: its job died{reason}; resuming from {where}")


def _judge_slurm_end(request: TrainingRequest, new_events: list[attempts.Event], end: JobEnd) -> None:
    """Raise if the Slurm job that just ended unfinished must not be followed by another.

    A person's scancel is a wish. Any other end, by preemption, time limit or a node that went down, is none, whether or
    not the job could save; one that saved on TERM and that Slurm has forgotten was most likely cancelled.
    """
    run_folder, where = Path(request.run_folder), _where(request)
    last = new_events[-1] if new_events else None
    _raise_if_failed(request, last)
    if end.state.startswith("CANCELLED"):
        if attempts.open_attempt(attempts.read_events(run_folder)):
            attempts.end_attempt(
                run_folder,
                update=attempts.newest_update(run_folder),
                outcome="cancelled",
                reason=f"Slurm job {end.job} was cancelled",
            )
        raise RunError(f"{request.run}: its Slurm job {end.job} was cancelled at {where}; the same command resumes it")
    if isinstance(last, attempts.Ended) and last.outcome == "stopped":
        if not end.state and signal.SIGUSR2.name not in last.reason:
            raise RunError(f"{request.run}: stopped at {where}, {last.reason}; the same command resumes it")
        logger.info(f"{request.run}: its job saved and ended, {last.reason}; resuming from {where}")
        return
    how = f"ended as {end.state}" if end.state else "is gone without a word"
    logger.info(f"{request.run}: its job {end.job} {how}; resuming from {where}")


def _raise_if_failed(request: TrainingRequest, last: attempts.Event | None) -> None:
    """Raise if the job noted an error, which another one would meet again; rank 0 may not have lived to tell it."""
    if isinstance(last, attempts.Ended):
        if last.outcome == "failed":
            raise RunError(_failure(request, last.reason, last.log_tail))
        return
    run_folder = Path(request.run_folder)
    for reason in noted_errors(run_folder):
        if last is not None:
            update = attempts.newest_update(run_folder)
            attempts.end_attempt(run_folder, update=update, outcome="failed", reason=reason[:2000])
        raise RunError(_failure(request, reason, _job_output(run_folder)))


def _failure(request: TrainingRequest, reason: str, tail: list[str]) -> str:
    shown = "\n  ".join(tail[-SHOWN_LINES:])
    return f"{request.run}: {reason}\n  last lines, more in {request.run_folder}:\n  {shown}"


def _job_output(run_folder: Path) -> list[str]:
    """Return the last lines that the newest job printed: all there is if it died before it had a log."""
    outputs = sorted((run_folder / "submitit").glob("*_log.out"), key=lambda path: path.stat().st_mtime)
    return outputs[-1].read_text(encoding="utf-8", errors="replace").rstrip("\n").split("\n") if outputs else []
