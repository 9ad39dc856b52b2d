"""What the end of a job means for its training that is not done: whether another is to follow, and if not, why."""

import logging
import signal
from pathlib import Path

import msgspec

from aiayn.errors import RunError
from aiayn.launch.interruption import Interruption
from aiayn.launch.prologue import prologue_failure
from aiayn.runs import attempts
from aiayn.runs.jobs import newest_output, output_path, read_jobs, read_rank_errors
from aiayn.runs.log import last_lines
from aiayn.spec.cluster import ClusterSpec
from aiayn.train.request import TrainingRequest

logger = logging.getLogger(__name__)
MAX_FAILURES_WITHOUT_PROGRESS = 3
MAX_FAILURES_BEFORE_ATTEMPT = 2
SHOWN_LINES = 15  # of a failed run's log


class JobOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """How a Slurm job ended: Slurm's word for it, '' if Slurm knows of no such job (any more)."""

    job: str
    state: str


class RetryPolicy:
    """Counts how often a training has died, and gives it up when another job would most likely die likewise."""

    def __init__(self, request: TrainingRequest, cluster: ClusterSpec | None) -> None:
        self._request = request
        self._cluster = cluster
        self._run_folder = request.folder
        self._num_without_progress = 0
        self._num_without_beginning = 0

    def count(self, end: JobOutcome | None, *, has_progress: bool) -> None:
        """Count a job that has died; `end` is None for one that was no Slurm job.

        Raises:
            RunError: after three without a new checkpoint, two that never began, or one that lacked memory.
        """
        self._num_without_progress = 0 if has_progress else self._num_without_progress + 1
        is_unbegun = end is not None and end.state == "FAILED" and not has_attempt(self._run_folder, end.job)
        self._num_without_beginning = self._num_without_beginning + 1 if is_unbegun else 0
        reason = ""
        if end is not None and end.state == "OUT_OF_MEMORY" and not has_progress:
            asked = self._cluster.memory_gb_per_node if self._cluster else None
            reason = (
                f"its job {end.job} ended as OUT_OF_MEMORY before a new checkpoint, and so would the next; raise "
                f"memory_gb_per_node in the cluster's file, now {'null' if asked is None else asked}"
            )
        elif end is not None and self._num_without_beginning == MAX_FAILURES_BEFORE_ATTEMPT:
            reason = f"its job {end.job} ended as FAILED before its training began, like the one before it"
        elif self._num_without_progress == MAX_FAILURES_WITHOUT_PROGRESS:
            last = f", the last time in job {end.job} that {_how(end)}" if end is not None and end.job else ""
            reason = f"died {MAX_FAILURES_WITHOUT_PROGRESS} times without a new checkpoint{last}"
        if reason:
            raise RunError(_failure(self._request, reason, _job_output(self._run_folder, end.job if end else "")))


def has_attempt(run_folder: Path, job: str) -> bool:
    """Return whether rank 0 of a job has begun an attempt."""
    events = attempts.read_events(run_folder)
    return any(isinstance(event, attempts.Started) and event.job == job for event in events)


def describe_progress(request: TrainingRequest) -> str:
    """Return where a training stands: at the newest checkpoint that it would be resumed from."""
    return f"update {attempts.newest_update(request.folder)} of {request.training.updates}"


def check_local_outcome(request: TrainingRequest, new_events: list[attempts.Event], interruption: Interruption) -> None:
    """Raise if the job that just ended unfinished must not be followed by another; `new_events` are what it told.

    Raises:
        RunError: if it failed, or somebody stopped it.
        KeyboardInterrupt: after Ctrl-C.
    """
    where = describe_progress(request)
    last = new_events[-1] if new_events else None
    _raise_if_failed(request, last)
    interruption.raise_if_any(f"{request.run}: saved at {where}; the same command resumes it")
    if isinstance(last, attempts.Ended) and last.outcome == "stopped":
        raise RunError(f"{request.run}: stopped at {where}, {last.reason}; the same command resumes it")
    reason = f": {last.reason}" if isinstance(last, attempts.Ended) else " without a word"
    logger.info(f"{request.run}: its job died{reason}; resuming from {where}")


def check_slurm_outcome(request: TrainingRequest, new_events: list[attempts.Event], end: JobOutcome) -> None:
    """Raise if the Slurm job that just ended unfinished must not be followed by another.

    A person's scancel is a wish. Any other end, by preemption, time limit or a node that went down, is none, whether or
    not the job could save; one that saved on TERM and that Slurm has forgotten was most likely cancelled.

    Raises:
        RunError: if it failed, or somebody stopped or cancelled it.
    """
    run_folder, where = request.folder, describe_progress(request)
    if reason := prologue_failure(run_folder, end.job):
        raise RunError(_failure(request, reason, _job_output(run_folder, end.job)))
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
    logger.info(f"{request.run}: its job {end.job} {_how(end)}; resuming from {where}")


def _how(end: JobOutcome) -> str:
    return f"ended as {end.state}" if end.state else "is gone without a word"


def _raise_if_failed(request: TrainingRequest, last: attempts.Event | None) -> None:
    """Raise if the job noted an error, which another one would meet again; rank 0 may not have lived to tell it."""
    if isinstance(last, attempts.Ended):
        if last.outcome == "failed":
            raise RunError(_failure(request, last.reason, last.log_tail))
        return
    run_folder = request.folder
    for reason in read_rank_errors(run_folder):
        if last is not None:
            update = attempts.newest_update(run_folder)
            attempts.end_attempt(run_folder, update=update, outcome="failed", reason=reason[:2000])
        raise RunError(_failure(request, reason, _job_output(run_folder)))


def _failure(request: TrainingRequest, reason: str, tail: list[str]) -> str:
    shown = "\n  ".join(tail[-SHOWN_LINES:])
    return f"{request.run}: {reason}\n  last lines, more in {request.run_folder}:\n  {shown}"


def _job_output(run_folder: Path, job: str = "") -> list[str]:
    """Return the last lines that a job printed, by default the newest: all there is if it died before it had a log.

    They are rank 0's and, on Slurm, the sbatch file's, of which srun says why it could not start; else another rank's.
    """
    jobs = read_jobs(run_folder)
    job = job or (jobs[-1].job if jobs else "")
    own_path = output_path(run_folder, job)
    path = own_path if own_path.exists() and own_path.stat().st_size else newest_output(run_folder)
    return [] if path is None else last_lines(path, SHOWN_LINES)
