"""Drives one training: submits, waits, shows progress, resumes after a lost job, and copies the finished run's record.

It imports no torch. A run is done when rank 0 has written `<run folder>/done.json`; all other events are in
attempts.jsonl. A driver that is killed leaves its job running; the next driver waits for that job.
"""

import contextlib
import logging
import math
import os
import platform
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec

from aiayn.clock import MACHINE_CLOCK, STEP_SECONDS, Clock
from aiayn.errors import LaunchError, RunError
from aiayn.launch.code_snapshot import choose_code
from aiayn.launch.job import record_job
from aiayn.launch.job_outcome import (
    Interruption,
    RetryPolicy,
    check_local_outcome,
    check_slurm_outcome,
    describe_progress,
)
from aiayn.launch.progress import ProgressLine
from aiayn.launch.slurm_driver import SlurmDriver
from aiayn.launch.slurm_queue import SlurmError, ask_queue, has_slurm
from aiayn.launch.submit import submit
from aiayn.records import read_train_record, write_record
from aiayn.runs import attempts
from aiayn.runs.heartbeat import is_being_trained, rank_zero_process, take_lock
from aiayn.runs.jobs import read_jobs, remove_rank_errors
from aiayn.runs.log import read_log_tail
from aiayn.spec.cluster import ClusterSpec
from aiayn.train.request import TrainingRequest

logger = logging.getLogger(__name__)
POLL_SECONDS = 0.5
SECONDS_BETWEEN_SIGNALS = 5.0  # a job that is just starting may miss the first


def drive(
    request: TrainingRequest,
    *,
    launcher: str,
    record_path: Path,
    fresh: bool = False,
    cluster: ClusterSpec | None = None,
    clock: Clock = MACHINE_CLOCK,
) -> None:
    """Train one run to its end and copy its record to `record_path`; the launcher `slurm` needs a `cluster`.

    Raises:
        RunError: if the run failed, was stopped or cancelled, or ended three times without progress; exit code 3, no
            record.
        KeyboardInterrupt: after Ctrl-C: when a local job has saved, at once where a Slurm job continues.
    """
    run_folder = request.folder
    run_folder.mkdir(parents=True, exist_ok=True)
    with Interruption().installed() as interruption, _driver_lock(request, interruption, clock):
        if fresh:
            _require_no_slurm_job(request, "end it before `--fresh`")
            _set_aside(run_folder)
        if not attempts.is_done(run_folder):
            if launcher != "slurm":
                _require_no_slurm_job(request, "wait for it there: `--launcher slurm`")
            _train_to_the_end(request, launcher, cluster, interruption, clock)
    # Not copied byte by byte: its paths are relative to the record's folder.
    write_record(read_train_record(run_folder / attempts.DONE_NAME, run_folder.parent), record_path)
    logger.info(f"{request.run}: done, record {record_path}")


def _train_to_the_end(
    request: TrainingRequest,
    launcher: str,
    cluster: ClusterSpec | None,
    interruption: Interruption,
    clock: Clock,
) -> None:
    """Supervise one job after another until the run is done, or no further job may follow."""
    run_folder = request.folder
    slurm = None if cluster is None or launcher != "slurm" else SlurmDriver(request, cluster, interruption, clock)
    code_folder = None
    if launcher == "local":
        code = choose_code(request)  # once per driver: later jobs run it, too
        request, code_folder = msgspec.structs.replace(request, commit=code.commit), code.folder
    retries, num_jobs = RetryPolicy(request, cluster), 0
    while True:
        update_before, num_events_before = attempts.newest_update(run_folder), len(attempts.read_events(run_folder))
        outcome = slurm.supervise_job(num_earlier_jobs=num_jobs) if slurm else None
        if outcome is None:
            supervise_local_job(request, launcher, interruption, code_folder)
        if attempts.is_done(run_folder):
            return
        new_events = attempts.read_events(run_folder)[num_events_before:]
        if outcome is None:
            check_local_outcome(request, new_events, interruption)
        else:
            check_slurm_outcome(request, new_events, outcome)
        retries.count(outcome, has_progress=attempts.newest_update(run_folder) > update_before)
        num_jobs += max(1, sum(isinstance(event, attempts.Started) for event in new_events))
        if cluster is not None and slurm and num_jobs >= cluster.max_num_jobs:
            raise RunError(
                f"{request.run}: {describe_progress(request)} after {num_jobs} jobs of {cluster.time_limit_minutes} "
                f"minutes, the maximum of cluster {cluster.name} (max_num_jobs); the same command resumes it"
            )


@contextlib.contextmanager
def _driver_lock(request: TrainingRequest, interruption: Interruption, clock: Clock) -> Iterator[None]:
    """Let one driver at a time look and submit; the system frees the lock when its process ends."""
    with (request.folder / attempts.DRIVER_LOCK_NAME).open("w") as lock:
        has_logged = False
        while not take_lock(lock, "two drivers of one run"):
            if not has_logged:
                logger.info(f"{request.run}: another driver is at work on this run; waiting for it")
                has_logged = True
            interruption.raise_if_any(f"{request.run}: another driver continues it")
            clock.pause(STEP_SECONDS)
        yield


def _require_no_slurm_job(request: TrainingRequest, advice: str) -> None:
    """Require that no Slurm job of a run waits or trains.

    Raises:
        LaunchError: naming the job; or if Slurm, which had the newest job, does not answer.
    """
    jobs = read_jobs(request.folder)
    if not jobs or jobs[-1].launcher != "slurm" or not has_slurm():
        return
    try:
        found = ask_queue(request.run)
    except SlurmError as error:
        raise LaunchError(
            f"{request.run}: Slurm job {jobs[-1].job} may train it, but squeue does not answer: {error.reason}; repeat "
            "the command later"
        ) from error
    alive = [queued.job for queued in found if queued.is_alive and queued.trains_in(request.folder)]
    if alive:
        raise LaunchError(f"{request.run}: Slurm job {', '.join(alive)} trains it or waits; {advice}")


def _set_aside(run_folder: Path) -> None:
    """Move the files of a run into a sub-folder: `--fresh` starts again and loses nothing."""
    if is_being_trained(run_folder):
        raise LaunchError(f"{run_folder}: a job is training this run; end it before `--fresh`")
    kept = (attempts.DRIVER_LOCK_NAME, "aside-")
    old = [path for path in run_folder.iterdir() if not path.name.startswith(kept)]
    if old:
        numbers = [int(path.name.removeprefix("aside-")) for path in run_folder.glob("aside-*")]
        aside_folder = run_folder / f"aside-{1 + max(numbers, default=0)}"
        aside_folder.mkdir()
        for path in old:
            path.rename(aside_folder / path.name)
        logger.info(f"{run_folder}: starts again; the earlier run is in {aside_folder}")


def supervise_local_job(
    request: TrainingRequest, launcher: str, interruption: Interruption, code_folder: Path | None
) -> None:
    """Wait for the end of the job that trains this run; without one, submit it with the code in `code_folder`."""
    run_folder = request.folder
    if is_being_trained(run_folder):
        logger.info(f"{request.run}: the job of an earlier driver is training it; waiting for it")
        _wait(
            request,
            lambda: not is_being_trained(run_folder),
            lambda: _terminate_lock_owner(request, interruption),
            interruption,
        )
        return
    remove_rank_errors(run_folder)
    job = submit(request, launcher, code_folder)
    record_job(request, launcher, str(job.job_id), commit=request.commit, code_folder=str(code_folder or ""))
    logger.info(f"{request.run}: {launcher} job {job.job_id}, log {run_folder / attempts.LOG_NAME}")
    _wait(request, job.done, lambda: _terminate_local_job(job), interruption)


def _wait(
    request: TrainingRequest,
    is_over: Callable[[], bool],
    terminate: Callable[[], None],
    interruption: Interruption,
) -> None:
    """Wait for the job's end and show its progress; after a signal, send it to the job and wait while it saves."""
    run_folder = request.folder
    line = ProgressLine(request.run, request.training.updates)
    passed_on_at = -math.inf
    while not is_over():
        if interruption.signal_number is not None and time.monotonic() - passed_on_at > SECONDS_BETWEEN_SIGNALS:
            if passed_on_at == -math.inf:
                logger.info(f"{request.run}: {interruption.name}; saving before the end")
            terminate()
            passed_on_at = time.monotonic()
        line.show(read_log_tail(run_folder / attempts.LOG_NAME))
        time.sleep(POLL_SECONDS)
    line.show(read_log_tail(run_folder / attempts.LOG_NAME), is_last=True)


def _terminate_local_job(job: Any) -> None:
    """Send TERM to a local job's controller, which passes it to every rank."""
    process = getattr(job, "_process", None)
    if process is not None and process.poll() is None:
        process.send_signal(signal.SIGTERM)


def _terminate_lock_owner(request: TrainingRequest, interruption: Interruption) -> None:
    """Send TERM to the rank 0 that wrote its process number into the lock; it ends the other ranks.

    Only if it runs on this machine: elsewhere the number may be another process's, and only this driver ends.
    """
    run_folder = request.folder
    jobs = read_jobs(run_folder)
    if not jobs or jobs[-1].launcher == "slurm" or jobs[-1].host != platform.node():
        host = jobs[-1].host if jobs else "another machine"
        interruption.raise_if_any(f"{request.run}: its job continues; it was started on {host}: end it there")
        return
    process = rank_zero_process(run_folder)
    if process is not None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(process, signal.SIGTERM)
