"""Decides after a job, or a signal to its driver, whether another job may follow, and says why if not."""

import logging
import signal

from aiayn.errors import RunError
from aiayn.launch.launcher import JobEnd, Launcher
from aiayn.runs.attempts import Ended, Event
from aiayn.train.request import NotedSignal, TrainingRequest

logger = logging.getLogger(__name__)
MAX_JOBS_WITHOUT_PROGRESS = 3
SHOWN_LINES = 15  # of a failed run's log


class Interruption(NotedSignal):
    """The first INT, TERM or HUP that the driver got."""

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
        raise RunError(f"ended by {self.signal_number.name}; {state}")


def describe_progress(request: TrainingRequest) -> str:
    """Return how far a training is: the update of the checkpoint that it resumes from."""
    return f"update {request.folder.newest_update()} of {request.training.updates}"


def check_outcome(
    request: TrainingRequest, new_events: list[Event], end: JobEnd, interruption: Interruption, launcher: Launcher,
    num_without_progress: int,
) -> None:  # fmt: skip
    """Raise if no job may follow the one that just ended unfinished; `new_events` are what it appended.

    It is one of `num_without_progress` jobs in turn that ended without a new checkpoint; 0 if it made one.

    None follows a cancelled job. After preemption, time limit or the loss of a node one does, whether or not the job
    could save. A job that saved on TERM and that its launcher no longer knows was most likely cancelled, and so was a
    job of this machine that saved on any signal.

    Raises:
        RunError: if it failed, or was stopped or cancelled, or the next would most likely end as it did.
        KeyboardInterrupt: after Ctrl-C.
    """
    folder, where = request.folder, describe_progress(request)
    last = new_events[-1] if new_events else None
    if end.failure:
        raise RunError(_failure(request, end.failure, folder.job_output(end.job, SHOWN_LINES)))
    _raise_if_failed(request, last)
    interruption.raise_if_any(f"{request.run}: saved at {where}; the same command resumes it")
    if end.ending == "cancelled":
        cancelled = f"{launcher.title} job {end.job} was cancelled"
        if folder.open_attempt():
            folder.end_attempt(outcome="cancelled", reason=cancelled)
        raise RunError(f"{request.run}: {cancelled} at {where}; the same command resumes it")
    reason = last.reason if isinstance(last, Ended) else "no reason recorded"
    if isinstance(last, Ended) and last.outcome == "stopped":
        may_follow = launcher.is_remote and (end.ending != "unknown" or signal.SIGUSR2.name in reason)
        if not may_follow:
            raise RunError(f"{request.run}: stopped at {where}, {reason}; the same command resumes it")
    words = f"job {end.job} {end.words}" if end.words else "job ended early"
    if num_without_progress >= (1 if end.advice else MAX_JOBS_WITHOUT_PROGRESS):
        jobs = "1 job" if num_without_progress == 1 else f"{num_without_progress} jobs"
        last = "; ".join(filter(None, [end.words and f"the last, job {end.job}, {end.words}", end.advice]))
        problem = f"{jobs} ended without a new checkpoint{last and '; '}{last}"
        raise RunError(_failure(request, problem, folder.job_output(end.job, SHOWN_LINES)))
    logger.info(f"{request.run}: its {words} ({reason}); resuming from {where}")


def _raise_if_failed(request: TrainingRequest, last: Event | None) -> None:
    """Raise if a rank recorded an error, also where rank 0 was killed before it could: the next job would repeat it."""
    if isinstance(last, Ended):
        if last.outcome == "failed":
            raise RunError(_failure(request, last.reason, last.log_tail))
        return
    for reason in request.folder.rank_errors():
        if last is not None:
            request.folder.end_attempt(outcome="failed", reason=reason[:2000])
        raise RunError(_failure(request, reason, request.folder.job_output("", SHOWN_LINES)))


def _failure(request: TrainingRequest, reason: str, tail: list[str]) -> str:
    shown = "\n  ".join(tail[-SHOWN_LINES:])
    return f"{request.run}: {reason}\n  last lines, more in {request.run_folder}:\n  {shown}"
