"""Determines the state of every run in a runs folder, from the run's files, its locks and one query
of each queue of jobs.

The functions here read only the beginning and the end of a log. The functions here do not write
files and do not take locks. If the files of one run are damaged, the states of the other runs are
still determined.
"""

import datetime
import platform
from pathlib import Path
from typing import Any, Literal

import msgspec

from aiayn.errors import AiaynError, RecordError
from aiayn.packed import find_packed
from aiayn.provenance import utc_now
from aiayn.records import TrainRecord, read_record
from aiayn.runs.attempts import (
    CODE_FOLDER_NAME,
    LOST_REASON,
    Ended,
    Event,
    Started,
    seconds_between,
    sum_seconds,
)
from aiayn.runs.locks import is_held
from aiayn.runs.log import LogTail, read_log_tail, read_max_update
from aiayn.runs.names import match_run
from aiayn.runs.queue import JobQueue, QueuedJob, QueueError, Queues
from aiayn.runs.run_folder import RunFolder, SubmittedJob, job_without_attempt
from aiayn.spec.system import IS_CHECKOUT

# The last four are states of a sheet's training: with a record under the present spec, with a
# record under a different spec, with a done run but no record, and without any run.
State = Literal[
    "queued",
    "running",
    "stopped",
    "failed",
    "lost",
    "cancelled",
    "done",
    "unknown",
    "damaged",
    "finished",
    "outdated",
    "not recorded",
    "missing",
]
ALIVE_STATES: tuple[State, ...] = ("queued", "running")
# Rank 0 touches its lock every few seconds. The limit is much longer, because the clocks of two
# machines differ.
_FRESH_SECONDS = 300.0


class RunStatus(msgspec.Struct, frozen=True, kw_only=True):
    """The state of a run. A field with an unknown value is None or ''.

    `reason` says why the run waits, ended or is damaged. `update` is the newest update that the
    files show, out of `updates` in total. `saved_update` is the update of the newest checkpoint,
    from which the run would resume. `loss_bits` is the loss that fairseq logs (label-smoothed, base
    2). `target_tokens_per_second` is from the newest statistics in the log while the run trains,
    and is an average over the whole run once the run is done. `gpu_hours` and `wall_hours` are sums
    over attempts, and `events` are the starts and ends of the attempts. `log_path` is the path of
    the training's log, which may be compressed. `output_path` is the path of the output of a job
    that has not begun an attempt. In a job without an attempt, the cluster's prologue or an import
    may have failed, which the log does not show.
    """

    run: str
    state: State
    reason: str = ""
    launcher: str = ""
    job: str = ""
    host: str = ""
    time_left: str = ""
    is_attended: bool = False
    update: int | None = None
    updates: int | None = None
    saved_update: int = 0
    loss_bits: float | None = None
    target_tokens_per_second: float | None = None
    eta_seconds: float | None = None
    gpu_hours: float = 0.0
    wall_hours: float = 0.0
    events: list[Event] = []
    num_attempts: int = 0
    run_folder: str = ""
    log_path: str = ""
    output_path: str = ""

    @property
    def is_alive(self) -> bool:
        """Whether the run trains or waits for its turn."""
        return self.state in ALIVE_STATES


def list_run_folders(runs_folder: Path) -> list[Path]:
    """Return the folders of all runs, sorted by name.

    Raises:
        RecordError: if `runs_folder` does not exist.
    """
    if not runs_folder.is_dir():
        begin = "`make demo`" if IS_CHECKOUT else "the workflow that `aiayn init FOLDER` writes"
        raise RecordError(
            f"{runs_folder}: no such folder: nothing was trained here yet; {begin} does,"
            " or name the folder of other runs with --runs-folder"
        )
    folders = (
        path for path in runs_folder.iterdir() if path.is_dir() and not path.name.startswith(".")
    )
    return sorted(folder for folder in folders if folder.name != CODE_FOLDER_NAME)


def find_run_folder(runs_folder: Path, run: str) -> Path:
    """Return the folder of the run with the name `run`, or with a name that begins with `run`.

    Raises:
        RecordError: if no run or several runs match the name `run`.
    """
    names = [folder.name for folder in list_run_folders(runs_folder)]
    return runs_folder / match_run(run, names, location=str(runs_folder), unknown="is no run")


def read_statuses(run_folders: list[Path], queues: Queues) -> list[RunStatus]:
    """Return the state of each run. A queue of jobs is queried at most once, and only if the newest
    job of a run was submitted to this queue.
    """
    jobs_by_launcher: dict[str, list[QueuedJob] | None] = {}
    statuses = []
    # A damaged run has a line of its own in the table. The states of the other runs are still
    # shown.
    for path in run_folders:
        try:
            folder = RunFolder(path)
            jobs = folder.jobs()
            launcher = jobs[-1].launcher if jobs else ""
            if launcher in queues and launcher not in jobs_by_launcher:
                try:
                    jobs_by_launcher[launcher] = queues[launcher].find()
                # None: the queue did not answer. It is not asked again for the next run, which
                # would wait for the same time-out.
                except QueueError:
                    jobs_by_launcher[launcher] = None
            queued = jobs_by_launcher.get(launcher)
            # None stays None, which means that the queue did not answer.
            jobs_of_run = queued and [job for job in queued if job.trains_in(path)]
            statuses.append(_status_of(folder, jobs, queues.get(launcher), jobs_of_run))
        except (AiaynError, OSError) as error:
            statuses.append(
                RunStatus(run=path.name, state="damaged", reason=str(error), run_folder=str(path))
            )
    return statuses


def _status_of(
    folder: RunFolder,
    jobs: list[SubmittedJob],
    queue: JobQueue | None,
    queued: list[QueuedJob] | None,
) -> RunStatus:
    """Return the state of a run.

    Raises:
        RecordError: if a file of the run is damaged, or if the folder does not contain files of a
            run.
    """
    events = folder.events()
    log = read_log_tail(folder.log_path)
    # The record decides alone, because a job writes it last.
    done = read_record(folder.done_path, TrainRecord) if folder.is_done() else None
    has_driver = is_held(folder.driver_lock_path)
    # A driver makes its lock file first, so every run has at least that file.
    if not (events or jobs or done or has_driver or folder.driver_lock_path.exists()):
        raise RecordError(
            f"{folder}: no attempt and no job in it; if this is not a run, move the folder out of"
            " the runs folder"
        )
    evidence = gather_evidence(
        folder,
        events,
        jobs,
        queue.queue_command if queue else "",
        queued,
        has_driver=bool(has_driver),
    )
    state: State
    state, reason = ("done", "") if done else judge_state(evidence)
    # The last attempt counts until now if it is running, otherwise until its last activity.
    until = evidence.now if state == "running" else evidence.last_activity
    # The last activity may be older than an attempt that has just begun. Its seconds must not be
    # negative.
    last_began = max((event.time for event in events if isinstance(event, Started)), default="")
    wall_seconds, gpu_seconds = sum_seconds(events, until=max(until, last_began) if until else None)
    saved = folder.newest_update()
    loss_bits = log.loss_bits if log is not None else None
    output_path = folder.output_path(evidence.newer_job.job) if evidence.newer_job else None
    return RunStatus(
        run=folder.run,
        state=state,
        reason=reason,
        launcher=jobs[-1].launcher if jobs else "",
        is_attended=bool(has_driver),
        loss_bits=loss_bits,
        saved_update=saved,
        events=events,
        num_attempts=sum(isinstance(event, Started) for event in events),
        gpu_hours=gpu_seconds / 3600,
        wall_hours=wall_seconds / 3600,
        run_folder=str(folder),
        log_path=str(find_packed(folder.log_path) or ""),
        output_path=str(output_path) if output_path and output_path.exists() else "",
        **_place(evidence, state),
        **_progress(folder, state, saved, events, log, done),
    )


def _place(evidence: "Evidence", state: State) -> dict[str, Any]:
    """Return the run's job and host. Job and host come from the queue if the queue lists a waiting
    or running job of the run, otherwise from the run's files.
    """
    # If the run is running, a job that waits in the queue is not the job that runs it.
    alive = [
        job for job in evidence.queued or [] if job.is_alive and (job.node or state != "running")
    ]
    if alive:
        shown = next((job for job in alive if job.node), alive[0])
        return {"job": shown.job, "host": shown.node, "time_left": shown.time_left}
    if starting := evidence.newer_job:
        # The recorded host is the host of the driver. Only a job without a queue runs there.
        return {"job": starting.job, "host": "" if evidence.queue_command else starting.host}
    newest = next(
        (event for event in reversed(evidence.events) if isinstance(event, Started)), None
    )
    return {"job": newest.job, "host": newest.host} if newest else {}


def _progress(
    folder: RunFolder,
    state: State,
    saved: int,
    events: list[Event],
    log: LogTail | None,
    done: TrainRecord | None,
) -> dict[str, Any]:
    """Return the run's update, its tokens per second, and the seconds that remain."""
    if done is not None:
        # The seconds are 0 if the clock was set back during the only attempt.
        speed = done.tokens / done.wall_seconds if done.wall_seconds else None
        return {"update": done.updates, "updates": done.updates, "target_tokens_per_second": speed}
    last = events[-1] if events else None
    # A log begins with fairseq's settings, so this needs no config of the scale.
    updates = read_max_update(folder.log_path)
    progress: dict[str, Any] = {
        # An event contains the update that was reached when it was written. A checkpoint may have
        # been saved since then.
        "update": saved if last is None else max(last.update, saved),
        "updates": updates,
    }
    # Before fairseq has begun this attempt, the log ends with lines of the attempt before.
    if (
        log is None
        or state != "running"
        or not isinstance(last, Started)
        or log.modified < last.time
    ):
        return progress
    # Statistics with an update below the start of this attempt are from the attempt before.
    if log.update is None or log.update < last.update:
        return progress
    progress |= {"update": log.update, "target_tokens_per_second": log.target_tokens_per_second}
    if updates is not None:
        progress["eta_seconds"] = log.seconds_left(updates)
    return progress


class Evidence(msgspec.Struct, frozen=True, kw_only=True):
    """The facts from which the state of a run that is not done is determined: from its files, its
    locks, and the queue to which its newest job was submitted.

    `queue_command` is the command that lists the queue, or '' if the newest job was not submitted
    to a queue. `queued` are the queue's jobs with the run's name, oldest first, or None if the
    queue did not answer. `has_rank` says whether a process holds rank 0's lock, and `has_driver`
    whether a process holds the driver's lock. `host` is this machine, and `now` is its time.
    `last_activity` is the time when rank 0 last touched its lock file or wrote to its log (UTC, by
    the file system's clock). `has_locks` is False on a file system that does not support locks,
    where no lock seems to be held. `rank_error` is the error of a rank of the newest job.
    `is_beating` says whether rank 0 touched its lock file while the driver (the process that
    submits jobs) watched this file. `is_beating` is None if no driver watched.
    """

    events: list[Event]
    jobs: list[SubmittedJob]
    queued: list[QueuedJob] | None
    has_rank: bool
    has_driver: bool
    host: str
    now: str
    last_activity: str | None
    queue_command: str = ""
    has_locks: bool = True
    rank_error: str = ""
    is_beating: bool | None = None

    @property
    def is_training(self) -> bool:
        """Whether rank 0 is running, according to its heartbeat if a driver watched the heartbeat,
        otherwise according to its lock.

        The lock alone may be wrong: on NFS 3 the lock of a crashed machine stays held until the
        machine has booted again.
        """
        return self.has_rank if self.is_beating is None else self.is_beating

    @property
    def newer_job(self) -> SubmittedJob | None:
        """The newest job of the run, or None if an attempt (a start of the training) began after
        this job was submitted.
        """
        return job_without_attempt(self.events, self.jobs)

    @property
    def has_ended(self) -> bool:
        """Whether the newest attempt has ended and no job was submitted after it. The processes of
        the attempt may run for a moment longer.
        """
        return bool(self.events) and isinstance(self.events[-1], Ended) and self.newer_job is None

    @property
    def unseen(self) -> str:
        """The reason why the newest attempt may still be running unseen on a different machine: its
        last activity is recent, and no driver watched its heartbeat. The reason is '' if the
        attempt cannot be running unseen.

        This machine cannot see the lock of the attempt if the file system does not support locks or
        does not share locks between machines.
        """
        last = self.events[-1] if self.events else None
        if (
            not isinstance(last, Started)
            or self.is_beating is not None
            # On this machine the lock is seen, so it answers the question.
            or (last.host == self.host and self.has_locks)
            or self.last_activity is None
        ):
            return ""
        age_seconds = seconds_between(self.last_activity, self.now)
        text = (
            f"on {last.host}, its lock cannot be seen from here; last activity"
            f" {age_seconds:.0f} s ago"
        )
        return text if age_seconds <= _FRESH_SECONDS else ""


def gather_evidence(
    folder: RunFolder,
    events: list[Event],
    jobs: list[SubmittedJob],
    queue_command: str,
    queued: list[QueuedJob] | None,
    *,
    has_driver: bool,
) -> Evidence:
    """Collect the facts on a run that is not done, from its files, its locks and its queue."""
    # None on a file system without locks. Then only the heartbeat and the events show whether rank
    # 0 is running.
    has_rank = is_held(folder.lock_path)
    # Both are times of the file system. Its clock may differ from the clock of this machine.
    signs = []
    log = read_log_tail(folder.log_path)
    if log is not None:
        signs.append(log.modified)
    beat_ns = folder.heartbeat_ns()
    if beat_ns is not None:
        beat = datetime.datetime.fromtimestamp(beat_ns // 10**9, datetime.UTC)
        signs.append(beat.isoformat())
    return Evidence(
        events=events,
        jobs=jobs,
        queue_command=queue_command,
        queued=queued,
        has_rank=bool(has_rank),
        has_driver=has_driver,
        host=platform.node(),
        now=utc_now(),
        last_activity=max(signs, default=None),
        has_locks=has_rank is not None,
        rank_error="" if folder.is_done() else next(iter(folder.rank_errors()), ""),
    )


def judge_state(evidence: Evidence) -> tuple[State, str]:
    """Return the state of a run that is not done, and the reason for this state.

    The queue of jobs (if the run's launcher has a queue) is considered first, then rank 0's
    heartbeat or lock, then the recorded starts and ends of attempts.

    If a queue does not answer, its jobs have not necessarily ended. A queue lists an ended job for
    a while. If Slurm's controller is killed, it forgets the jobs that were submitted in its last
    seconds, although these jobs continue.
    """
    queue_command = evidence.queue_command
    job = evidence.jobs[-1].job if evidence.jobs else ""
    last = evidence.events[-1] if evidence.events else None
    is_silent, is_new = evidence.queued is None, evidence.newer_job is not None
    # A job of the queue outweighs files and locks, which may be from an earlier job.
    alive = [queued for queued in evidence.queued or [] if queued.is_alive]
    if alive:
        return _judge_alive(
            evidence, next((queued for queued in alive if queued.state == "running"), alive[0])
        )
    # The first rule that holds decides.
    rules: list[tuple[bool, State, str]] = []
    if not queue_command:
        rules = [
            (evidence.is_training, "running", ""),
            (evidence.has_driver and not evidence.has_ended, "queued", "starting"),
            (evidence.unseen != "", "unknown", evidence.unseen),
        ]
    elif evidence.is_training:
        # The controller may have lost the job, or may not answer. A heartbeat or lock is better
        # evidence than the queue.
        rules = [
            (
                True,
                "running",
                f"{queue_command} does not {'answer' if is_silent else 'know of its job'}",
            )
        ]
    # After a recorded failure no job starts, so the queue cannot add anything.
    elif not (evidence.has_ended and isinstance(last, Ended) and last.outcome == "failed"):
        # The queue shows an ended job for some minutes, which says how it ended.
        endings = [queued.ending for queued in evidence.queued or [] if queued.job == job]
        forgotten = f"{queue_command} does not know of job {job}"
        age_seconds = seconds_between(evidence.jobs[-1].time, evidence.now)
        young = f"{forgotten}, which was submitted {age_seconds:.0f} s ago"
        # A controller that was restarted may have lost a job that it accepted some seconds before,
        # although the job starts. So a new job that is not listed may still run.
        is_young = is_new and age_seconds <= _FRESH_SECONDS
        rules = [
            (
                is_silent,
                "unknown",
                f"{queue_command} does not answer; job {job} may wait, run or be gone",
            ),
            ("cancelled" in endings, "cancelled", f"job {job} was cancelled"),
            (not endings and is_young, "unknown", young),
            (
                not endings and not is_new and evidence.unseen != "",
                "unknown",
                f"{forgotten}; {evidence.unseen}",
            ),
            (evidence.has_driver, "queued", "its driver is about to submit a job"),
        ]
    for holds, state, reason in rules:
        if holds:
            return state, reason
    # A job that ended before rank 0 could begin does not leave an event in attempts.jsonl.
    if is_new:
        error = f"job {job}, before it began an attempt: {evidence.rank_error}"
        return (
            ("failed", error)
            if evidence.rank_error
            else ("lost", f"job {job} ended before it began an attempt")
        )
    if last is None:
        return "lost", "its driver ended before it submitted a job"
    if isinstance(last, Ended):
        return last.outcome, last.reason
    # If a rank recorded an error, rank 0 was killed before it could record the end of the attempt.
    return ("failed", evidence.rank_error) if evidence.rank_error else ("lost", LOST_REASON)


def _judge_alive(evidence: Evidence, shown: QueuedJob) -> tuple[State, str]:
    """Return the state of a run that has a waiting or running job in the queue, and the reason for
    this state. `shown` is the job in the queue.
    """
    if shown.state == "running":
        return "running", shown.reason
    reason = shown.reason + (", waits for a person" if shown.is_stuck else "")
    # The lock is held by an earlier job, or by this job, which the queue lost and will start again.
    if evidence.has_rank:
        return (
            "running",
            f"though {evidence.queue_command} shows job {shown.job} as waiting: {reason}",
        )
    return "queued", reason
