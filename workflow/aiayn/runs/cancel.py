"""Cancels a run: the run's job saves a checkpoint at once and ends, and the run is not started
again by itself.
"""

import contextlib
import os
import platform
import signal
import time
from collections.abc import Callable
from pathlib import Path

from aiayn.errors import RunError, StateError
from aiayn.runs.locks import is_held
from aiayn.runs.queue import JobQueue, QueuedJob, QueueError, Queues
from aiayn.runs.run_folder import RunFolder
from aiayn.runs.status import RunStatus, read_statuses
from aiayn.runs.status_text import saved_words

POLL_SECONDS = 0.5
QUEUE_POLL_SECONDS = 2.0
SECONDS_TO_FREE_A_LOCK = 5.0  # a shared file system may take so long after its owner's end
DEFAULT_TIMEOUT_SECONDS = 180.0  # a queue may wait 30 s after TERM, then kills


def cancel_run(run_folder: Path, queues: Queues, *, timeout_seconds: float) -> str:
    """End a run, wait until its processes have ended, and return a sentence on the saved update and
    on how to resume the run.

    Raises:
        StateError: if the run neither trains nor waits for its turn, if its state is unknown, or if
            this machine cannot send a signal to its processes.
        LaunchError: if the queue refuses to cancel the job.
        RunError: if the run has not ended after `timeout_seconds`.
    """
    (status,) = read_statuses([run_folder], queues)
    return _Cancellation(
        RunFolder(run_folder), status, queues.get(status.launcher), timeout_seconds
    ).cancel()


class _Cancellation:
    """Ends one run. The steps depend on the run's state when the user called `aiayn cancel`."""

    def __init__(
        self, folder: RunFolder, status: RunStatus, queue: JobQueue | None, timeout_seconds: float
    ) -> None:
        self._folder = folder
        self._status = status
        self._queue = queue
        self._run = status.run
        self._timeout_seconds = timeout_seconds

    def cancel(self) -> str:
        """Cancel the run in the way that its state requires, and return a sentence on the saved
        update.
        """
        status, queue = self._status, self._queue
        # Ending a run that another machine may be training is left to a person.
        if status.state == "unknown":
            # The message contains commands for the machine on which rank 0 may still run.
            is_open = self._folder.open_attempt() is not None
            how = f"; if rank 0 is running, {self._how_to_end()}" if is_open else ""
            raise StateError(
                f"{self._run}: {status.reason}; nothing was done, repeat the command when that is"
                f" known{how}"
            )
        # Nothing to end is an error, because the user believes that the run is alive.
        if not status.is_alive:
            reason = f", {status.reason}" if status.reason else ""
            raise StateError(f"{self._run}: nothing to end: the run is {status.state}{reason}")
        is_in_queue = queue is not None and self._has_own_jobs(queue)
        # The queue comes first, because it would start the job again. Rank 0 gets a signal of its
        # own only if it is still running afterwards.
        if queue is not None and is_in_queue:
            queue.cancel(self._run)
            # None is not an empty list: a queue that does not answer may still have the job.
            self._wait(lambda: self._alive_jobs(queue) == [], QUEUE_POLL_SECONDS)
        # Slurm's controller may have forgotten a job, while rank 0 is still running.
        if queue is None or not _comes_true(
            self._is_unlocked, SECONDS_TO_FREE_A_LOCK, POLL_SECONDS
        ):
            self._terminate(is_job_cancelled=is_in_queue)
        # There was no job, and no process holds the lock: the run waits for its driver.
        elif not is_in_queue:
            reason = status.reason or "has no job in the queue at present"
            raise StateError(f"{self._run}: {reason}; nothing was done, repeat the command")
        if self._folder.is_done():
            return f"{self._run}: finished before it could be ended; it is done"
        # Only what is on the disk counts: a killed rank may have been about to save.
        saved = saved_words(self._folder.newest_update(), status.updates)
        resuming = "the same command, `snakemake` or `aiayn train`, resumes it"
        return f"{self._run}: {saved}; {resuming}"

    def _how_to_end(self) -> str:
        """Return a text with the machine on which the run is running, and the commands that end the
        run on that machine.
        """
        host = self._status.host or "an unknown machine"
        process = self._folder.rank_zero_process()
        return (
            f"it is on {host}, this is {platform.node()}; there run `aiayn cancel {self._run}`, or"
            f" `kill -TERM {process or 'PROCESS'}` of rank 0: it saves and ends"
        )

    def _alive_jobs(self, queue: JobQueue) -> list[QueuedJob] | None:
        """Return the waiting and running jobs with the run's name, or None if the queue does not
        answer.
        """
        try:
            return [job for job in queue.find(self._run) if job.is_alive]
        except QueueError:
            return None

    def _has_own_jobs(self, queue: JobQueue) -> bool:
        """Return whether the queue lists a waiting or running job of this run.

        Raises:
            StateError: if the queue does not answer, or if a different copy of the project has a
                job with the same name.
        """
        alive = self._alive_jobs(queue)
        if alive is None:
            raise StateError(
                f"{self._run}: {queue.queue_command} does not answer; nothing was done, repeat the"
                " command when it does"
            )
        own_jobs = tuple(job.job for job in alive if job.trains_in(self._folder.path))
        # Cancelling by name would end the other copy's job as well.
        if own_jobs and len(own_jobs) < len(alive):
            other_jobs = ", ".join(
                f"{job.job} ({job.script})" for job in alive if job.job not in own_jobs
            )
            raise StateError(
                f"{self._run}: {queue.title} jobs {other_jobs} have the same name, but train in"
                " another folder; end the job of this run by its number:"
                f" {queue.cancel_command(jobs=own_jobs)}"
            )
        return bool(own_jobs)

    def _is_unlocked(self) -> bool:
        return not is_held(self._folder.lock_path)

    def _terminate(self, *, is_job_cancelled: bool) -> None:
        """Send the signal TERM to rank 0 on this machine, and wait until rank 0 has ended. At the
        signal rank 0 saves a checkpoint, and all ranks stop together.
        """
        if self._is_unlocked():
            # Rank 0 has ended since the caller looked at its lock.
            if is_job_cancelled or self._folder.is_done():
                return
            raise StateError(
                f"{self._run}: rank 0 is not running now; end its driver with Ctrl-C, or repeat the"
                " command later"
            )
        # A signal reaches only processes of this machine.
        if self._status.host != platform.node():
            queue_words = ""
            if is_job_cancelled:
                queue_words = "its job is cancelled, but rank 0 is still running: "
            elif self._queue:
                queue_words = (
                    f"{self._queue.queue_command} does not know of its job, but rank 0 is running: "
                )
            raise StateError(f"{self._run}: {queue_words}{self._how_to_end()}")
        # The lock file keeps the number of a process that has ended, and an unrelated process may
        # have this number now. So it counts only while the lock is held.
        process = self._folder.rank_zero_process()
        if process is None:
            raise StateError(f"{self._run}: rank 0 has only just begun; repeat the command")
        # Rank 0 may have ended by itself in the meantime.
        with contextlib.suppress(ProcessLookupError):
            os.kill(process, signal.SIGTERM)
        self._wait(self._is_unlocked, POLL_SECONDS)

    def _wait(self, is_gone: Callable[[], bool], poll_seconds: float) -> None:
        if not _comes_true(is_gone, self._timeout_seconds, poll_seconds):
            raise RunError(
                f"{self._run}: got the signal to end, but is still running after"
                f" {self._timeout_seconds:.0f} s; `aiayn status {self._run}` has its state and"
                " its log's path"
            )


def _comes_true(condition: Callable[[], bool], seconds: float, poll_seconds: float) -> bool:
    """Return whether a condition becomes true within `seconds` seconds."""
    # Monotonic, because the clock of a machine may be set while a job ends.
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(min(poll_seconds, seconds))
    return True
