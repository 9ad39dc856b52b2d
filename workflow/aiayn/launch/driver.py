"""Runs one training to its end: submits its jobs, waits for them, shows progress, submits a further
job after a lost job, and copies the record of the finished run.

The driver is the process that submits the jobs and waits for them. The driver does not import
torch, and uses launchers only through the protocol `Launcher`. A run is done when rank 0 has
written `<run folder>/done.json`. The starts and ends of all attempts are in attempts.jsonl. The
driver learns only from the launcher's queue whether a job waits or runs, never from a file. If a
driver is killed, its job continues, and the next driver of the run waits for this job.
"""

import contextlib
import logging
import math
import platform
import signal
from collections.abc import Iterator
from pathlib import Path

import msgspec

from aiayn.errors import LaunchError, RunError
from aiayn.launch.beginning import place_beginning
from aiayn.launch.code_snapshot import take_snapshot
from aiayn.launch.job import clean_submissions, recover_submission
from aiayn.launch.launcher import JobEnd, Launcher, SubmissionError, make_launcher
from aiayn.provenance import utc_now
from aiayn.records import read_train_record, write_record
from aiayn.runs.attempts import Ended, Event, Started
from aiayn.runs.clock import MACHINE_CLOCK, STEP_SECONDS, Clock
from aiayn.runs.following import TIME_LIMIT_SIGNAL, EndedJob, what_follows
from aiayn.runs.locks import take_lock
from aiayn.runs.log import read_log_tail
from aiayn.runs.queue import QueuedJob, QueueError
from aiayn.runs.run_folder import (
    HEARTBEAT_TIMEOUT_SECONDS,
    HEARTBEAT_WAIT_SECONDS,
    RunFolder,
    SubmittedJob,
)
from aiayn.runs.status import gather_evidence, judge_state
from aiayn.runs.status_text import format_duration, saved_words
from aiayn.spec.cluster import ClusterSpec
from aiayn.train.request import NotedSignal, TrainingRequest

logger = logging.getLogger(__name__)
SHOWN_LINES = 15  # of a failed run's log
GRACE_SECONDS = 15.0  # after a submission without an answer
FILE_DELAY_SECONDS = 5.0  # for the file system, after the queue has shown that the job ended
# For done.json, after the last attempt of a run has ended: an NFS client may remember for a while
# that a file was absent.
RECORD_SECONDS = 120.0
RESUBMIT_SECONDS = 60.0  # between two attempts to submit
REPEAT_SECONDS = 600.0  # between two equal lines of the log
PROGRESS_SECONDS = 30.0  # between two lines on the progress of a training
SECONDS_BETWEEN_SIGNALS = 5.0  # a job that is just starting may miss the first


class Interruption(NotedSignal):
    """The first signal INT, TERM or HUP that the driver got."""

    def raise_if_any(self, state: str) -> None:
        """Raise an error that ends the driver if the driver got a signal. `state` is a sentence for
        the message, on what continues without the driver.

        Raises:
            KeyboardInterrupt: after the signal INT.
            RunError: after the signal TERM or HUP. The exit code of a RunError is 3.
        """
        if self.signal_number is None:
            return
        logger.info(state)
        if self.signal_number == signal.SIGINT:
            raise KeyboardInterrupt
        raise RunError(f"ended by {self.signal_number.name}; {state}")


def drive(
    request: TrainingRequest,
    *,
    launcher: str,
    record_path: Path,
    fresh: bool = False,
    cluster: ClusterSpec | None = None,
    clock: Clock = MACHINE_CLOCK,
) -> None:
    """Train one run to its end and copy its record to `record_path`. A launcher that submits jobs
    to a cluster needs the argument `cluster`.

    Raises:
        RunError: if the run failed, was stopped or cancelled, or if three jobs in a row ended
            without a new checkpoint. After a RunError the exit code is 3, and no record is written.
            KeyboardInterrupt: after Ctrl-C. A job on this machine has saved a checkpoint before the
            KeyboardInterrupt is raised. A job on a cluster continues after the KeyboardInterrupt.
    """
    folder = request.folder
    folder.path.mkdir(parents=True, exist_ok=True)
    # The handlers come first, so that a signal also ends the wait for the lock.
    with Interruption().installed() as interruption, _driver_lock(request, interruption, clock):
        if fresh:
            _set_aside(folder, clock)
        # A driver that held the lock before may have finished the run.
        if not folder.is_done():
            place_beginning(request)
            driver = _Driver(
                request, make_launcher(launcher, request, cluster), interruption, clock
            )
            driver.train_to_the_end()
    # Read and written again, because the paths in a record are relative to the record's folder.
    record = read_train_record(folder.done_path, folder.path.parent)
    write_record(record, record_path)
    tail = read_log_tail(folder.log_path)
    loss = "" if tail is None or tail.loss_bits is None else f", loss {tail.loss_bits:.2f} bits"
    duration = format_duration(record.wall_seconds)
    print(f"{request.run}: {record.updates:,} updates in {duration}{loss}; record {record_path}")


@contextlib.contextmanager
def _driver_lock(
    request: TrainingRequest, interruption: Interruption, clock: Clock
) -> Iterator[None]:
    """Hold the driver's lock of the run during the with block, so that only one driver of the run
    submits jobs. The operating system frees the lock when the driver's process ends.
    """
    with request.folder.driver_lock_path.open("w") as lock:
        # A user may start a second `snakemake` for the same results. Its driver waits here. On a
        # file system without locks the answer is None, and the driver does not wait.
        has_logged = False
        while take_lock(lock, "two drivers of one run") is False:
            if not has_logged:
                logger.info(f"{request.run}: another driver is at work on this run; waiting for it")
                has_logged = True
            interruption.raise_if_any(f"{request.run}: another driver continues it")
            clock.pause(STEP_SECONDS)
        yield


def _set_aside(folder: RunFolder, clock: Clock) -> None:
    """Move the files of a run into a sub-folder, so that `--fresh` can start the training again
    without losing these files.

    Raises:
        LaunchError: if a job is training the run, perhaps on a different machine.
    """
    # The lock of a job on a different machine may not be visible here. If an attempt is open, a
    # heartbeat shows whether it is still running.
    has_open_attempt = folder.open_attempt() is not None
    if folder.is_being_trained() or (
        has_open_attempt and folder.is_heartbeat_advancing(HEARTBEAT_WAIT_SECONDS, clock)
    ):
        raise LaunchError(f"{folder}: a job is training this run; end it before `--fresh`")
    # This driver holds the lock file, and the folders of earlier fresh starts stay in their place.
    kept_prefixes = (folder.driver_lock_path.name, "aside-")
    old = [path for path in folder.path.iterdir() if not path.name.startswith(kept_prefixes)]
    if old:
        # Each fresh start keeps the one before it in a folder of its own.
        # A user may have renamed an earlier folder, for example to `aside-1-good`.
        names = [path.name.removeprefix("aside-") for path in folder.path.glob("aside-*")]
        numbers = [int(name) for name in names if name.isdecimal()]
        aside_path = folder.path / f"aside-{1 + max(numbers, default=0)}"
        aside_path.mkdir()
        for path in old:
            path.rename(aside_path / path.name)
        logger.info(f"{folder}: starts again; the earlier run is in {aside_path}")


class _Driver:
    """The driver of one training, which is made while the driver's lock of the run is held."""

    def __init__(
        self,
        request: TrainingRequest,
        launcher: Launcher,
        interruption: Interruption,
        clock: Clock,
    ) -> None:
        self._request, self._launcher, self._interruption, self._clock = (
            request,
            launcher,
            interruption,
            clock,
        )
        self._folder = request.folder
        self._logged: tuple[str, float] = ("", -math.inf)
        self._progress_logged_at = -math.inf
        self._signalled_at = -math.inf
        self._code_folder: Path | None = None

    def train_to_the_end(self) -> None:
        """Submit a job and wait until it ends, again and again, until the run is done or a further
        job would not help.
        """
        request, folder = self._request, self._folder
        num_jobs = num_without_progress = 0
        while True:
            # Compared after the job has ended: a larger update is progress, and further events are
            # the job's.
            update_before = folder.newest_update()
            num_events = len(folder.events())
            end = self._supervise_job(num_earlier_jobs=num_jobs)
            new_events = folder.events()[num_events:]
            # Only the record counts: Slurm also calls a job completed that saved and stopped early.
            if folder.is_done():
                return
            num_without_progress = (
                0 if folder.newest_update() > update_before else num_without_progress + 1
            )
            self._require_that_a_job_may_follow(new_events, end, num_without_progress)
            # Slurm may start one job several times. Each start counts towards the cluster's
            # maximum.
            num_jobs += max(1, sum(isinstance(event, Started) for event in new_events))
            if limit := self._launcher.limit_reached(num_jobs):
                raise RunError(
                    f"{request.run}: {self._progress()} after {limit}; the same command resumes it"
                )

    def _progress(self) -> str:
        """Return the run's progress as text: the update of the checkpoint from which the run
        resumes.
        """
        return f"update {self._folder.newest_update()} of {self._request.training.updates}"

    def _failure(self, reason: str, tail: list[str]) -> RunError:
        shown = "\n  ".join(tail[-SHOWN_LINES:])
        return RunError(
            f"{self._request.run}: {reason}\n  last lines, more in {self._folder}:\n  {shown}"
        )

    def _require_that_a_job_may_follow(
        self, new_events: list[Event], end: JobEnd, num_without_progress: int
    ) -> None:
        """Raise an error if no further job may be submitted after a job ended before the run was
        done. `new_events` are the events that the ended job appended to attempts.jsonl.

        `num_without_progress` is the number of jobs in a row, up to the ended job, that did not
        write a new checkpoint. The number is 0 if the ended job wrote a new checkpoint.
        `aiayn.runs.following` decides whether a further job may be submitted.

        Raises:
            RunError: if the ended job failed, or was stopped or cancelled, or if the next job would
                most likely end in the same way.
            KeyboardInterrupt: after Ctrl-C.
        """
        run = self._request.run
        folder = self._folder
        where = self._progress()
        last = new_events[-1] if new_events else None
        ended = last if isinstance(last, Ended) else None
        # The recorded end of an attempt contains the reason. Only without it the file of a rank is
        # read.
        rank_error = next(iter(folder.rank_errors()), "") if ended is None else ""
        reason = ended.reason if ended else "no reason recorded"
        follows = what_follows(
            EndedJob(
                ending=end.ending,
                outcome=None if ended is None else ended.outcome,
                signal=TIME_LIMIT_SIGNAL if TIME_LIMIT_SIGNAL in reason else "",
                has_error=bool(end.failure or rank_error),
                lacked_something=bool(end.advice),
                is_remote=self._launcher.is_remote,
                is_driver_interrupted=self._interruption.signal_number is not None,
                num_without_progress=num_without_progress,
            )
        )
        output = folder.job_output(end.job, SHOWN_LINES)
        if follows == "failed":
            # In the order of certainty: what the launcher saw, then what rank 0 recorded, then the
            # error file of a rank that ended before rank 0 could record anything.
            if end.failure:
                raise self._failure(end.failure, output)
            if ended is not None:
                raise self._failure(ended.reason, ended.log_tail)
            # Rank 0 was killed before it recorded its end.
            if last is not None:
                folder.end_attempt(outcome="failed", reason=rank_error[:2000])
            raise self._failure(rank_error, output)
        # After the failures: a user who pressed Ctrl-C must see them as well.
        saved = saved_words(folder.newest_update(), self._request.training.updates)
        self._interruption.raise_if_any(f"{run}: {saved}; the same command resumes it")
        if follows == "cancelled":
            cancelled = f"{self._launcher.title} job {end.job} was cancelled"
            # A job that the queue killed could not record its end itself.
            if folder.open_attempt():
                folder.end_attempt(outcome="cancelled", reason=cancelled)
            raise RunError(f"{run}: {cancelled} at {where}; the same command resumes it")
        if follows == "stopped":
            raise RunError(f"{run}: stopped at {where}, {reason}; the same command resumes it")
        if follows == "no progress":
            jobs = "1 job" if num_without_progress == 1 else f"{num_without_progress} jobs"
            last_job = end.words and f"the last, job {end.job}, {end.words}"
            problem = "; ".join(
                filter(None, [f"{jobs} ended without a new checkpoint", last_job, end.advice])
            )
            raise self._failure(problem, output)
        end_of_job = f"job {end.job} {end.words}" if end.words else "job ended early"
        logger.info(f"{run}: its {end_of_job} ({reason}); resuming from {where}")

    def _supervise_job(self, *, num_earlier_jobs: int) -> JobEnd:
        """Wait until the job that trains this run has ended or the run is done. Submit a job if the
        run has no waiting or running job.

        Raises:
            LaunchError: if this machine does not have the commands of the queue, or if the queue
                refuses the job.
            RunError, KeyboardInterrupt: at once after a signal, if the job runs on a cluster, where
                it continues.
        """
        job: str | None = None
        jobs = self._ask_queue()
        attempt = self._folder.open_attempt()
        # Only used if no job is alive. The queue then lists the job of the open attempt as ended.
        has_ended = attempt is not None and attempt.job in [queued.job for queued in jobs]
        # An alive job is from an earlier driver, or from the same command on a different machine. A
        # second job is never submitted.
        if alive := self._alive_jobs(jobs):
            job = self._attach(alive[-1])
        elif self._launcher.is_remote and not has_ended and self._is_alive_outside_queue(jobs):
            self._log_change(
                f"a job that {self._launcher.queue_command} does not know trains this run;"
                " waiting for its end"
            )
            while self._is_alive_outside_queue(self._ask_queue()):
                self._pause(self._launcher.poll_seconds)
        else:
            job = None if self._folder.is_done() else self._submit(num_earlier_jobs) or None
        return JobEnd(job="") if job is None or self._folder.is_done() else self._wait(job)

    def _alive_jobs(self, jobs: list[QueuedJob]) -> list[QueuedJob]:
        return [
            queued for queued in jobs if queued.is_alive and queued.trains_in(self._folder.path)
        ]

    def _ask_queue(self) -> list[QueuedJob]:
        """Return the jobs with this run's name, as soon as the queue answers. Return an empty list
        if the run becomes done while the queue does not answer.

        Raises:
            LaunchError: if this machine does not have the commands of the queue.
        """
        while True:
            try:
                return self._launcher.find(self._request.run)
            except QueueError as error:
                if self._folder.is_done():
                    return []
                queue_command = self._launcher.queue_command
                if not self._launcher.is_here():
                    raise LaunchError(
                        f"{self._request.run}: no {queue_command} on PATH: this machine has no"
                        f" {self._launcher.title}; run the command on a login node, or train here:"
                        " `--launcher local`"
                    ) from error
                reason = error.reason.splitlines()[0]
                self._log_change(
                    f"{queue_command} does not answer: {reason}; the state of its job is unknown:"
                    " asking again"
                )
                self._pause(self._launcher.poll_seconds)

    def _attach(self, queued: QueuedJob) -> str:
        """Log that this driver waits for a job that an earlier driver submitted, and record the job
        if the earlier driver did not. Return the number of the job, or '' if it is not known.
        """
        logger.info(
            f"{self._request.run}: attached to {self._launcher.title} job {queued.job}, which was"
            " submitted before"
        )
        if queued.job and queued.job not in [submitted.job for submitted in self._folder.jobs()]:
            # Its driver was killed between submitting and recording the job.
            recover_submission(self._folder, queued.job)
            self._record_job(queued.job)
        return queued.job

    def _record_job(self, job: str, *, commit: str = "", code_folder: str = "") -> None:
        """Record in jobs.jsonl a job that this driver submitted or found in the queue."""
        self._folder.append_job(
            SubmittedJob(
                time=utc_now(),
                launcher=self._launcher.name,
                job=job,
                host=platform.node(),
                commit=commit,
                num_ranks=self._request.num_ranks,
                update=self._folder.newest_update(),
                code_folder=code_folder,
            ),
        )

    def _submit(self, num_earlier_jobs: int) -> str:
        """Submit a job and return its number, or '' if the run becomes done before the job is
        submitted. If the queue refuses the job for a temporary reason, submit it again.

        If the queue does not answer a submission, the queue may have taken the job all the same. If
        the queue lists a job that it has taken without an answer, the driver uses this job and does
        not submit a second job.

        Raises:
            LaunchError: if the queue refuses the job.
            RunError, KeyboardInterrupt: after a signal, in place of a submission.
        """
        request, folder, launcher = self._request, self._folder, self._launcher
        if launcher.has_code_copies:
            # One copy per driver. Its later jobs run the code of its first job, even if the
            # checkout changes.
            self._code_folder = self._code_folder or take_snapshot(folder.path.parent)
        # Errors of an earlier job's ranks would be taken for errors of this job.
        folder.remove_rank_errors()
        job = ""
        while not job and not folder.is_done():
            # The signal may have come while the driver asked the queue or copied files.
            self._end_without_job()
            try:
                # A job that requeues itself needs this number to stop at the cluster's maximum.
                numbered = msgspec.structs.replace(request, num_earlier_jobs=num_earlier_jobs)
                job = launcher.submit(numbered, self._code_folder)
            except SubmissionError as error:
                if error.is_passing:
                    reason = " ".join(str(error).partition(": ")[2].split())
                    self._log_change(
                        f"{reason}; that may pass: the next attempt is in {RESUBMIT_SECONDS:.0f} s"
                    )
                seconds = RESUBMIT_SECONDS if error.is_passing else GRACE_SECONDS
                self._clock.pause(seconds, self._end_without_job)
                if alive := self._alive_jobs(self._ask_queue()):
                    # sbatch may fail after the controller has taken the job. Its number is then in
                    # the queue.
                    job = alive[-1].job
                    recover_submission(folder, job)
                else:
                    clean_submissions(folder)
                    if not error.is_passing:
                        raise
        if job:
            self._record_job(job, commit=request.commit, code_folder=str(self._code_folder or ""))
            ranks = f"{request.num_ranks} rank{'' if request.num_ranks == 1 else 's'}"
            logger.info(
                f"{request.run}: {launcher.title} job {job}, {ranks}, log {folder.log_path}"
            )
        return job

    def _wait(self, job: str) -> JobEnd:
        """Wait until no job of this run waits or runs, and return how the last job ended. A job may
        still be running if its queue does not answer or does not list the job.
        """
        while True:
            self._pause(self._launcher.poll_seconds)
            # The record is the last file that a training writes. The processes of a remote job then
            # end by themselves.
            if self._launcher.is_remote and self._folder.is_done():
                return JobEnd(job=job, ending="completed")
            jobs = self._ask_queue()
            if alive := self._alive_jobs(jobs):
                job = alive[-1].job
                if tended := self._launcher.tend(alive[-1]):
                    self._log_change(tended)
                else:
                    self._log_state(alive[-1])
                continue
            if not self._launcher.is_remote:
                # A process of this machine that is not running has ended.
                return self._launcher.outcome(job, None)
            # The queue lists the job as ended. If the queue no longer lists it, the heartbeat
            # decides below.
            if ended := [queued for queued in jobs if queued.job == job]:
                self._wait_for_files()
                return self._launcher.outcome(job, ended[-1])
            self._log_change(
                f"{self._launcher.queue_command} no longer knows job {job}; looking for a heartbeat"
            )
            # A job that has not begun may still be loading its libraries, without any heartbeat.
            may_begin = not self._folder.has_attempt(job)
            is_alive = self._is_alive_outside_queue(jobs, may_begin=may_begin)
            # The queue is asked once more: it may list the job again after the heartbeat was
            # watched.
            if not is_alive and not self._alive_jobs(self._ask_queue()):
                return self._launcher.outcome(job, None)

    def _wait_for_files(self) -> None:
        """Wait until the file system shows the last files that the job wrote: the end of its
        attempt and, if the run is done, the record.

        The wait has a time limit, because rank 0 may have been killed before it could write the end
        of its attempt. If rank 0 was killed, the next job records the end of the attempt.
        """
        begin = self._clock.now()
        while not self._folder.is_done():
            last = next(reversed(self._folder.events()), None)
            has_ended = isinstance(last, Ended)
            is_done = isinstance(last, Ended) and last.outcome == "done"
            seconds = RECORD_SECONDS if is_done else FILE_DELAY_SECONDS
            if (has_ended and not is_done) or self._clock.now() >= begin + seconds:
                return
            self._pause(STEP_SECONDS)

    def _is_alive_outside_queue(self, queued: list[QueuedJob], *, may_begin: bool = False) -> bool:
        """Return whether a job trains the run although this job is not in `queued`, the jobs that
        the queue lists.

        A queue may not list a running job for three reasons: Slurm's controller was killed and has
        lost a new job, the node is unreachable, or a different launcher started the job. This
        method watches rank 0's heartbeat for HEARTBEAT_TIMEOUT_SECONDS. After the watch of the
        heartbeat, `aiayn.runs.status` determines the state of the run, as for the command `aiayn
        status`. The heartbeat is watched only if an attempt is open, if a rank holds a lock, or if
        `may_begin` says that a job may just be starting.
        """
        folder = self._folder
        if folder.is_done():
            return False
        events = folder.events()
        jobs = folder.jobs()
        is_of_queue = bool(jobs) and jobs[-1].launcher == self._launcher.name
        queue_command = self._launcher.queue_command if is_of_queue else ""
        jobs_of_run = [job for job in queued if job.trains_in(folder.path)]
        # `has_driver` is about other drivers: this process is the driver, and holds the lock
        # itself.
        evidence = gather_evidence(
            folder, events, jobs, queue_command, jobs_of_run, has_driver=False
        )
        has_open_attempt = bool(events) and isinstance(events[-1], Started)
        if not (may_begin or has_open_attempt or evidence.has_rank):
            return False
        is_beating = folder.is_heartbeat_advancing(
            HEARTBEAT_TIMEOUT_SECONDS, self._clock, self._end_if_interrupted
        )
        state, _ = judge_state(msgspec.structs.replace(evidence, is_beating=is_beating))
        return state == "running" and not folder.is_done()

    def _log_state(self, queued: QueuedJob) -> None:
        """Log the state of the job when it has changed, and the progress of the training while the
        job runs.
        """
        if queued.state == "running" and not queued.reason:
            if queued.node:
                self._log_change(f"job {queued.job} runs on {queued.node}")
            self._log_progress()
            return
        advice = (
            f"; {queued.advice}, or `aiayn cancel {self._request.run}`" if queued.advice else ""
        )
        self._log_change(f"job {queued.job} {queued.words}{advice}")

    def _log_progress(self) -> None:
        """Log update, loss and time left, unless the progress was logged a short time ago."""
        now = self._clock.now()
        if now < self._progress_logged_at + PROGRESS_SECONDS:
            return
        tail = read_log_tail(self._folder.log_path)
        if tail is None or tail.update is None:
            return
        self._progress_logged_at = now
        updates = self._request.training.updates
        logger.info(
            f"{self._request.run}: update {tail.update} of {updates}, loss {tail.loss_bits:.2f}"
            f" bits, {format_duration(tail.seconds_left(updates))} left"
        )

    def _log_change(self, change: str) -> None:
        logged, logged_at = self._logged
        # A driver may wait for days. The same line again and again would hide all others.
        if change != logged or self._clock.now() - logged_at > REPEAT_SECONDS:
            logger.info(f"{self._request.run}: {change}")
            self._logged = (change, self._clock.now())

    def _pause(self, seconds: float) -> None:
        """Wait for `seconds`. If the driver gets a signal and the job can continue without the
        driver, the driver ends at once. If the job cannot continue without the driver, the driver
        passes the signal on to the job, which saves a checkpoint.
        """
        self._clock.pause(seconds, self._end_if_interrupted)

    def _end_if_interrupted(self) -> None:
        run = self._request.run
        launcher = self._launcher
        if launcher.is_remote:
            self._interruption.raise_if_any(
                f"{run}: its {launcher.title} job continues without this driver; the same command"
                f" attaches to it: `{self._request.command}`; to end it: `aiayn cancel {run}`, or"
                f" `{launcher.cancel_command(name=run)}`"
            )
        elif (
            self._interruption.signal_number
            and self._clock.now() - self._signalled_at > SECONDS_BETWEEN_SIGNALS
        ):
            if self._signalled_at == -math.inf:
                logger.info(
                    f"{run}: {self._interruption.signal_number.name}; saving before the end"
                )
            self._signalled_at = self._clock.now()
            try:
                launcher.cancel(run)
            except LaunchError as error:
                # The job is from an earlier driver, so this driver cannot signal it.
                self._interruption.raise_if_any(f"{run}: {error}")

    def _end_without_job(self) -> None:
        """End the driver if it got a signal before it had a job."""
        self._interruption.raise_if_any(
            f"{self._request.run}: no job of this run is known; the same command submits one, or"
            " attaches to it"
        )
