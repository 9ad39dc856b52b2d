"""Reads and writes the files in the folder of a run. Attempts, jobs, errors of ranks, log,
heartbeat and record are separate files.

Rank 0 writes `attempts.jsonl`, and the driver (the process that submits the run's jobs) adds the
end of an attempt if rank 0 could not. The driver that holds the driver's lock writes `jobs.jsonl`.
Lines are only appended to `attempts.jsonl` and `jobs.jsonl`. The rules do not declare the files of
a run as outputs, because Snakemake deletes the outputs of a failed rule. Rank 0 holds the lock on
the file `rank0.lock` while it is running, writes its process number into this file, and touches the
file every HEARTBEAT_SECONDS. `done.json` is the record of the finished training.

When the process of a rank ends, the other ranks see only a closed connection. So each rank records
its error before it ends, for example rank 5 in `rank5.error`. If a rank has ended without recording
an error, the rank was killed, or it ended because a different rank had ended. If a job fails before
our code runs, for example in an import by submitit, only the output of the job shows the error.
"""

import contextlib
import datetime
import os
import platform
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec

from aiayn.errors import AiaynError, RecordError
from aiayn.provenance import utc_now
from aiayn.runs.attempts import (
    ATTEMPTS_NAME,
    CHECKPOINTS_NAME,
    DONE_NAME,
    DRIVER_LOCK_NAME,
    LOG_NAME,
    LOST_REASON,
    RANK_LOCK_NAME,
    WATCHDOG_REASON,
    WATCHDOG_WORDS,
    AttemptOutcome,
    Ended,
    Event,
    Started,
    append_json_line,
    read_events,
    read_json_lines,
)
from aiayn.runs.checkpoint_names import checkpoint_path, list_checkpoints, update_of
from aiayn.runs.clock import MACHINE_CLOCK, Clock
from aiayn.runs.locks import is_held
from aiayn.runs.log import last_lines

JOBS_NAME = "jobs.jsonl"
JOB_FILES_NAME = "submitit"  # what submitit writes for each job: script, pickle, output
LOG_TAIL_LINES = 40
HEARTBEAT_SECONDS = 4.0
HEARTBEAT_WAIT_SECONDS = 3 * HEARTBEAT_SECONDS  # enough to see a running rank 0
# Without a heartbeat for so long rank 0 has ended, even if its lock is held or cannot be seen:
# fifteen heartbeats, so that a slow file system or cached file attributes do not look like an end.
HEARTBEAT_TIMEOUT_SECONDS = 60.0
HEARTBEAT_POLL_SECONDS = 0.1
_NUM_LINES_OF_ABORT = 400  # the watchdog's words, and traces of the process's threads after them
_ERROR_PATTERN = "rank*.error"


class SubmittedJob(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A job that a driver on `host` submitted at `time` (UTC), to resume the training from
    `update`.

    `code_folder` contains the copy of the code that the job runs. `code_folder` is '' for the
    launcher `debug`, which does not copy the code. Both `code_folder` and `commit` are '' if the
    driver was killed before it recorded the job, and the next driver found the job in the queue.
    """

    time: str
    launcher: str
    job: str
    host: str
    num_ranks: int
    update: int
    commit: str
    code_folder: str


class RunFolder:
    """The folder of a run. The name of the folder is the run's name. Nothing is cached, because
    other processes write into the folder.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.run = path.name
        self.log_path = path / LOG_NAME
        self.done_path = path / DONE_NAME
        self.lock_path = path / RANK_LOCK_NAME
        self.driver_lock_path = path / DRIVER_LOCK_NAME
        self.checkpoints_path = path / CHECKPOINTS_NAME
        self.job_files_path = path / JOB_FILES_NAME

    def __str__(self) -> str:
        return str(self.path)

    def is_done(self) -> bool:
        """Return whether the record of the finished training exists.

        This method lists the folder, because a network file system may cache for a minute that a
        path is absent, but asks its server when a folder is opened.
        """
        try:
            return DONE_NAME in os.listdir(self.path)
        except FileNotFoundError:
            return False

    def newest_update(self) -> int:
        """Return the update of the newest full checkpoint, or 0 if there is no checkpoint.

        The next attempt of the run resumes from the newest full checkpoint.
        """
        # Names sort by update. A file that is still being written has a different suffix.
        paths = list_checkpoints(self.checkpoints_path, "full")
        return update_of(paths[-1]) if paths else 0

    def full_path(self, update: int) -> Path:
        """Return the path of the full checkpoint (with optimiser) of an update. A training can
        resume from a full checkpoint.
        """
        return checkpoint_path(self.checkpoints_path, "full", update)

    # Attempts.

    def events(self) -> list[Event]:
        """Return the starts and ends of all attempts in order, as `read_events` does."""
        return read_events(self.path)

    def append_event(self, event: Event) -> None:
        """Append one start or end of an attempt and flush it to the disk, as `append_json_line`
        does.
        """
        append_json_line(self.path / ATTEMPTS_NAME, event)

    def open_attempt(self) -> Started | None:
        """Return the start event of the newest attempt, or None if this attempt has ended."""
        # Events are in order, so only the last one can be an open start.
        last = next(reversed(self.events()), None)
        return last if isinstance(last, Started) else None

    def has_attempt(self, job: str) -> bool:
        """Return whether rank 0 of the job `job` has begun an attempt."""
        return any(isinstance(event, Started) and event.job == job for event in self.events())

    def end_attempt(
        self,
        *,
        update: int | None = None,
        outcome: AttemptOutcome,
        reason: str,
        time: str | None = None,
    ) -> None:
        """Record the end of the open attempt, at `time` (UTC, by default now). `update` is by
        default the update of the newest checkpoint.

        Raises:
            RecordError: if all recorded attempts have ended.
        """
        started = self.open_attempt()
        if started is None:
            raise RecordError(
                f"{self.path / ATTEMPTS_NAME}: no attempt is open, cannot end one as {outcome!r}"
            )
        # A line may be very long, such as an error of CUDA. The event must stay readable.
        tail = [line[:500] for line in last_lines(self.log_path, LOG_TAIL_LINES)]
        self.append_event(
            Ended(
                attempt=started.attempt,
                time=time or utc_now(),
                outcome=outcome,
                reason=reason,
                log_tail=tail,
                update=self.newest_update() if update is None else update,
            )
        )

    def close_lost_attempt(self, *, update: int) -> None:
        """Record the missing end of an attempt, with the outcome `lost` and the time of the last
        log line.

        If NCCL's watchdog (a timeout for communication between GPUs) aborted a rank, the recorded
        reason says so.
        """
        started = self.open_attempt()
        if started is None:
            return
        time = started.time
        if self.log_path.exists():
            last_written = datetime.datetime.fromtimestamp(
                self.log_path.stat().st_mtime, datetime.UTC
            )
            # The log may be older than the start, if the attempt ended before it wrote a line.
            time = max(time, last_written.isoformat(timespec="seconds"))
        # An abort by NCCL does not raise an exception in Python. Only the output of the ranks shows
        # it.
        reason = WATCHDOG_REASON if self._was_aborted(started.job) else LOST_REASON
        self.end_attempt(update=update, outcome="lost", reason=reason, time=time)

    def _was_aborted(self, job: str) -> bool:
        """Return whether NCCL's watchdog aborted a rank of a job, according to the last lines that
        each rank printed.
        """
        # submitit's names: `1234_5_log.out` is the output of rank 5 of job 1234.
        paths = self.job_files_path.glob(f"{job}_*_log.*")
        return any(
            WATCHDOG_WORDS in line
            for path in paths
            for line in last_lines(path, _NUM_LINES_OF_ABORT)
        )

    # Jobs.

    def jobs(self) -> list[SubmittedJob]:
        """Return all jobs of the run in order. The list is empty if no job was submitted.

        Raises:
            RecordError: if a complete line of jobs.jsonl is not a job. The message contains the
                line.
        """
        return read_json_lines(self.path / JOBS_NAME, SubmittedJob, "a job")

    def append_job(self, job: SubmittedJob) -> None:
        """Append one job to jobs.jsonl and flush it to the disk, as `append_json_line` does."""
        append_json_line(self.path / JOBS_NAME, job)

    def output_path(self, job: str) -> Path:
        """Return the path of the file with the output of a job's batch script and of its rank 0.
        The output file may not exist.

        The path is computed without listing the folder, which is slow on a shared file system.
        """
        return self.job_files_path / f"{job}_0_log.out"

    def job_output(self, job: str, num_lines: int) -> list[str]:
        """Return the last lines of the output of a job's batch script and of its rank 0."""
        return last_lines(self.output_path(job), num_lines)

    # Errors of ranks.

    def record_rank_error(self, index: int, error: BaseException) -> None:
        """Write a rank's error, with its traceback, to the file for errors of this rank."""
        text = describe_rank_error(index, error)
        trace = "".join(traceback.format_exception(error))
        (self.path / f"rank{index}.error").write_text(
            f"{text}\n\n{trace}", encoding="utf-8", newline="\n"
        )

    def rank_errors(self) -> list[str]:
        """Return the recorded errors of the ranks, the earliest first, without tracebacks."""
        errors = []
        for path in self.path.glob(_ERROR_PATTERN):
            # The driver may remove the files meanwhile.
            with contextlib.suppress(FileNotFoundError):
                text = path.read_text(encoding="utf-8", errors="replace")
                errors.append((path.stat().st_mtime_ns, text.partition("\n\n")[0]))
        # The earliest error is the cause. The other ranks mostly report a closed connection.
        return [text for _, text in sorted(errors)]

    def remove_rank_errors(self) -> None:
        """Remove the recorded errors of an earlier job's ranks."""
        for path in self.path.glob(_ERROR_PATTERN):
            path.unlink(missing_ok=True)

    # Rank 0's heartbeat.

    def heartbeat_ns(self) -> int | None:
        """Return the time of rank 0's last heartbeat in ns, or None if the lock file of rank 0 is
        absent.

        The time of a heartbeat is the modification time of the lock file, by the file system's
        clock.
        """
        try:
            # Opening the file refreshes the cache of a network file system.
            with self.lock_path.open("rb") as lock:
                return os.fstat(lock.fileno()).st_mtime_ns
        except FileNotFoundError:
            return None

    def is_heartbeat_advancing(
        self, seconds: float, clock: Clock = MACHINE_CLOCK, check: Callable[[], None] = lambda: None
    ) -> bool:
        """Return whether rank 0 touches its lock file within `seconds`, measured only by this
        machine's clock.

        `check` is called again and again during the wait, and may raise an error to end the wait.
        """
        # Only a change of the time counts. The time itself is from the clock of the file server,
        # which may differ from the clock of this machine.
        before = self.heartbeat_ns()
        deadline = clock.now() + seconds
        while clock.now() < deadline:
            clock.pause(HEARTBEAT_POLL_SECONDS, check)
            if self.heartbeat_ns() != before:
                return True
        return False

    def is_being_trained(self) -> bool:
        """Return whether rank 0 is running. A running rank 0 holds its lock or, on a file system
        that does not support locks, touches its lock file.

        On a file system that does not support locks, it takes HEARTBEAT_WAIT_SECONDS to return
        False.
        """
        is_locked = is_held(self.lock_path)
        return (
            self.is_heartbeat_advancing(HEARTBEAT_WAIT_SECONDS) if is_locked is None else is_locked
        )

    def rank_zero_process(self) -> int | None:
        """Return the process number that rank 0 wrote into its lock file. The process number is
        valid only on the machine of rank 0, while rank 0 is running.
        """
        try:
            text = self.lock_path.read_text(encoding="utf-8")
        except FileNotFoundError:
            return None
        # The lock file may be empty for a moment, before rank 0 has written its number.
        return int(text) if text.isdecimal() else None


def job_without_attempt(
    events: Sequence[Event], jobs: Sequence[SubmittedJob]
) -> SubmittedJob | None:
    """Return the newest job of a run, or None if an attempt (a start of the training) began after
    this job was submitted.
    """
    if not jobs:
        return None
    newest = next((event for event in reversed(events) if isinstance(event, Started)), None)
    is_newer = newest is None or (jobs[-1].job != newest.job and jobs[-1].time >= newest.time)
    return jobs[-1] if is_newer else None


def describe_error(error: BaseException) -> str:
    """Return an error in one line. For an error that this project defines the line is the message,
    and for any other error the type and the message.
    """
    return str(error) if isinstance(error, AiaynError) else f"{type(error).__name__}: {error}"


def describe_rank_error(index: int, error: BaseException) -> str:
    """Return a rank's error in one line, with the rank's host. The host is included because, for
    example, a disk may be full on one host only.
    """
    return f"rank {index} on {platform.node()}: {describe_error(error)}"
