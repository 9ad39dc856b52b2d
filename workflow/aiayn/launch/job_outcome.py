"""Decides after a job, or a signal to its driver, whether another job may follow, and says why if not."""

import logging
import signal
from pathlib import Path

import msgspec

from aiayn.errors import RunError
from aiayn.launch.prologue import prologue_failure
from aiayn.runs import attempts
from aiayn.runs.jobs import newest_output, output_path, read_jobs, read_rank_errors
from aiayn.runs.log import last_lines
from aiayn.spec.cluster import ClusterSpec
from aiayn.train.request import NotedSignal, TrainingRequest

logger = logging.getLogger(__name__)
MAX_FAILURES_WITHOUT_PROGRESS = 3
MAX_FAILURES_BEFORE_ATTEMPT = 2
SHOWN_LINES = 15  # of a failed run's log


class Interruption(NotedSignal):
    """The first INT, TERM or HUP that the driver got."""

    @property
    def name(self) -> str:
        """The signal's name."""
        return self.signal_number.name if self.signal_number else ""

    def raise_if_any(self, state: str) -> None:
        """End the driver if it got a signal; `state` says what continues without it.

        Raises:
            KeyboardInterrupt: after INT.
            RunError: after another signal; exit code 3.
        """
        if self.signal_number is None:
            return
        logger.info(state)
        if self.signal_number == signal.SIGINT:
            raise KeyboardInterrupt
        raise RunError(f"ended by {self.name}; {state}")


class JobOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """How a Slurm job ended: its last state, '' if Slurm does not know the job (any more)."""

    job: str
    state: str


class RetryPolicy:
    """Counts the failed jobs of a training and gives up when the next would most likely fail too."""

    def __init__(self, request: TrainingRequest, cluster: ClusterSpec | None) -> None:
        self._request = request
        self._cluster = cluster
        self._run_folder = request.folder
        self._num_without_progress = 0
        self._num_without_attempt = 0

    def count(self, outcome: JobOutcome | None, *, has_progress: bool) -> None:
        """Count a failed job; `outcome` is None for one that was no Slurm job.

        Raises:
            RunError: after three jobs without a new checkpoint, two without an attempt, or one that lacked memory.
        """
        self._num_without_progress = 0 if has_progress else self._num_without_progress + 1
        has_no_attempt = (
            outcome is not None and outcome.state == "FAILED" and not has_attempt(self._run_folder, outcome.job)
        )
        self._num_without_attempt = self._num_without_attempt + 1 if has_no_attempt else 0
        reason = ""
        if outcome is not None and outcome.state == "OUT_OF_MEMORY" and not has_progress:
            requested = self._cluster.memory_gb_per_node if self._cluster else None
            reason = (
                f"job {outcome.job} ended as OUT_OF_MEMORY before a new checkpoint, and so would the next; raise "
                f"memory_gb_per_node in the cluster's file, now {'null' if requested is None else requested}"
            )
        elif outcome is not None and self._num_without_attempt == MAX_FAILURES_BEFORE_ATTEMPT:
            reason = f"job {outcome.job} ended as FAILED before its training began, like the job before it"
        elif self._num_without_progress == MAX_FAILURES_WITHOUT_PROGRESS:
            last = (
                f"; the last, job {outcome.job}, {_describe_outcome(outcome)}"
                if outcome is not None and outcome.job
                else ""
            )
            reason = f"{MAX_FAILURES_WITHOUT_PROGRESS} jobs ended without a new checkpoint{last}"
        if reason:
            raise RunError(
                _failure(self._request, reason, _job_output(self._run_folder, outcome.job if outcome else ""))
            )


def has_attempt(run_folder: Path, job: str) -> bool:
    """Return whether rank 0 of a job has begun an attempt."""
    events = attempts.read_events(run_folder)
    return any(isinstance(event, attempts.Started) and event.job == job for event in events)


def describe_progress(request: TrainingRequest) -> str:
    """Return how far a training is: the update of the checkpoint that it resumes from."""
    return f"update {attempts.newest_update(request.folder)} of {request.training.updates}"


def check_local_outcome(request: TrainingRequest, new_events: list[attempts.Event], interruption: Interruption) -> None:
    """Raise if no job may follow the one that just ended unfinished; `new_events` are what it appended.

    Raises:
        RunError: if it failed, or was stopped.
        KeyboardInterrupt: after Ctrl-C.
    """
    where = describe_progress(request)
    last = new_events[-1] if new_events else None
    _raise_if_failed(request, last)
    interruption.raise_if_any(f"{request.run}: saved at {where}; the same command resumes it")
    if isinstance(last, attempts.Ended) and last.outcome == "stopped":
        raise RunError(f"{request.run}: stopped at {where}, {last.reason}; the same command resumes it")
    reason = last.reason if isinstance(last, attempts.Ended) else "no reason recorded"
    logger.info(f"{request.run}: its job ended early ({reason}); resuming from {where}")


def check_slurm_outcome(request: TrainingRequest, new_events: list[attempts.Event], outcome: JobOutcome) -> None:
    """Raise if no job may follow the Slurm job that just ended unfinished.

    After scancel none follows. After preemption, time limit or the loss of a node one does, whether or not the job
    could save. A job that saved on TERM and that Slurm no longer knows was most likely cancelled.

    Raises:
        RunError: if it failed, or was stopped or cancelled.
    """
    run_folder, where = request.folder, describe_progress(request)
    if reason := prologue_failure(run_folder, outcome.job):
        raise RunError(_failure(request, reason, _job_output(run_folder, outcome.job)))
    last = new_events[-1] if new_events else None
    _raise_if_failed(request, last)
    if outcome.state.startswith("CANCELLED"):
        if attempts.open_attempt(attempts.read_events(run_folder)):
            attempts.end_attempt(
                run_folder,
                update=attempts.newest_update(run_folder),
                outcome="cancelled",
                reason=f"Slurm job {outcome.job} was cancelled",
            )
        raise RunError(f"{request.run}: Slurm job {outcome.job} was cancelled at {where}; the same command resumes it")
    if isinstance(last, attempts.Ended) and last.outcome == "stopped":
        if not outcome.state and signal.SIGUSR2.name not in last.reason:
            raise RunError(f"{request.run}: stopped at {where}, {last.reason}; the same command resumes it")
        logger.info(f"{request.run}: its job saved and ended, {last.reason}; resuming from {where}")
        return
    logger.info(f"{request.run}: its job {outcome.job} {_describe_outcome(outcome)}; resuming from {where}")


def _describe_outcome(outcome: JobOutcome) -> str:
    return f"ended as {outcome.state}" if outcome.state else "is no longer known to squeue"


def _raise_if_failed(request: TrainingRequest, last: attempts.Event | None) -> None:
    """Raise if a rank recorded an error, also where rank 0 was killed before it could: the next job would repeat it."""
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
    """Return the last lines that a job, by default the newest, printed: all there is if it ended before it had a log.

    They are rank 0's, and on Slurm the sbatch file's (srun says there why it could not start); else another rank's.
    """
    jobs = read_jobs(run_folder)
    job = job or (jobs[-1].job if jobs else "")
    own_path = output_path(run_folder, job)
    path = own_path if own_path.exists() and own_path.stat().st_size else newest_output(run_folder)
    return [] if path is None else last_lines(path, SHOWN_LINES)
