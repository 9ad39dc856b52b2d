"""Determines the state of every run of a runs folder from its files, its locks and one look at Slurm's queue.

It reads only the ends of logs, writes nothing, and takes no lock; a damaged run does not hide the others.
"""

import platform
from collections.abc import Callable
from pathlib import Path
from typing import Literal

import msgspec

from aiayn.errors import AiaynError, RecordError
from aiayn.provenance import utc_now
from aiayn.records import TrainRecord, read_record
from aiayn.runs.attempts import (
    CODE_FOLDER_NAME,
    DONE_NAME,
    DRIVER_LOCK_NAME,
    LOG_NAME,
    LOST_REASON,
    RANK_LOCK_NAME,
    Attempt,
    Ended,
    Event,
    Started,
    is_done,
    list_attempts,
    newest_update,
    read_events,
    seconds_between,
    summarise_attempts,
)
from aiayn.runs.heartbeat import is_held, last_heartbeat
from aiayn.runs.jobs import SubmittedJob, job_without_attempt, output_path, read_jobs, read_rank_errors
from aiayn.runs.log import LogTail, last_lines, read_log_tail, read_max_update
from aiayn.runs.names import match_run
from aiayn.runs.queue import JobQueue, QueuedJob

KEPT_LOG_LINES = 15
State = Literal["queued", "running", "stopped", "failed", "lost", "cancelled", "done", "unknown", "damaged"]
ALIVE_STATES: tuple[State, ...] = ("queued", "running")
ERROR_STATES: tuple[State, ...] = ("failed", "lost", "damaged")
_WAITING = ("PENDING", "REQUEUED", "REQUEUE_HOLD", "REQUEUE_FED", "SPECIAL_EXIT", "CONFIGURING", "RESV_DEL_HOLD")
_FRESH_SECONDS = 300.0  # rank 0 touches its lock much more often, but the clocks of two machines differ


class RunStatus(msgspec.Struct, frozen=True, kw_only=True):
    """The state of a run; what is not known is None or ''.

    `reason` says why a run waits, ended or is damaged. `update` is the newest known of `updates`, `saved_update` that
    of the checkpoint from which it would resume. `loss_bits` is as fairseq prints it (label-smoothed, base 2). Tokens a
    second are the newest statistics' while it trains, those of the whole run once it is done. `gpu_hours` and
    `wall_hours` are summed over attempts. `last_error` is the reason of the newest attempt that failed or was lost,
    `log_tail` the last lines of its log.
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
    num_gpus: int = 0
    gpu_hours: float = 0.0
    wall_hours: float = 0.0
    num_attempts: int = 0
    attempts: list[Attempt] = []
    last_error: str = ""
    log_tail: list[str] = []
    run_folder: str = ""

    @property
    def is_alive(self) -> bool:
        """Whether it trains, or waits for its turn."""
        return self.state in ALIVE_STATES


def list_run_folders(runs_folder: Path) -> list[Path]:
    """Return the folders of all runs, by name.

    Raises:
        RecordError: if there is no such folder.
    """
    if not runs_folder.is_dir():
        raise RecordError(f"{runs_folder}: no such folder; name the folder of the runs with --runs-folder")
    folders = (path for path in runs_folder.iterdir() if path.is_dir() and not path.name.startswith("."))
    return sorted(folder for folder in folders if folder.name != CODE_FOLDER_NAME)


def find_run_folder(runs_folder: Path, run: str) -> Path:
    """Return the folder of the run whose name is `run` or begins with it.

    Raises:
        RecordError: if there is none, or more than one.
    """
    names = [folder.name for folder in list_run_folders(runs_folder)]
    return runs_folder / match_run(run, names, place=str(runs_folder), unknown="is no run")


def read_statuses(run_folders: list[Path], queue: JobQueue) -> list[RunStatus]:
    """Return the state of each run; the queue is read once, and only if Slurm has a run's newest job."""
    jobs_by_folder: dict[Path, list[SubmittedJob] | AiaynError | OSError] = {}
    for folder in run_folders:
        try:
            jobs_by_folder[folder] = read_jobs(folder)
        except (AiaynError, OSError) as error:
            jobs_by_folder[folder] = error
    needs_queue = any(isinstance(jobs, list) and is_slurm_run(jobs) for jobs in jobs_by_folder.values())
    queued = queue.find_jobs() if needs_queue else None
    return [_read_status(folder, jobs, queued) for folder, jobs in jobs_by_folder.items()]


def _read_status(
    folder: Path, jobs: list[SubmittedJob] | AiaynError | OSError, queue: list[QueuedJob] | None
) -> RunStatus:
    try:
        if not isinstance(jobs, list):
            raise jobs
        return _status_of(folder, jobs, queue and [job for job in queue if job.trains_in(folder)])
    except (AiaynError, OSError) as error:
        reason = str(error)
    return RunStatus(run=folder.name, state="damaged", reason=reason, last_error=reason, run_folder=str(folder))


def _status_of(folder: Path, jobs: list[SubmittedJob], queued: list[QueuedJob] | None) -> RunStatus:
    """Return the state of a run.

    Raises:
        RecordError: if one of its files is damaged, or it has none.
    """
    events = read_events(folder)
    log = read_log_tail(folder / LOG_NAME)
    done = read_record(folder / DONE_NAME, TrainRecord) if is_done(folder) else None
    has_driver, has_rank = is_held(folder / DRIVER_LOCK_NAME), is_held(folder / RANK_LOCK_NAME)
    if not (events or jobs or done or has_driver or (folder / DRIVER_LOCK_NAME).exists()):
        raise RecordError(f"{folder}: no attempt and no job in it; if it is no run, move it out of the runs folder")
    now = utc_now()
    is_recorded = bool(events) and isinstance(events[-1], Ended) and not job_without_attempt(events, jobs)
    known = Evidence(
        events=events,
        jobs=jobs,
        queued=queued,
        has_rank=bool(has_rank),
        has_driver=bool(has_driver),
        has_local_job=bool(jobs) and is_local_job_alive(jobs[-1]),
        host=platform.node(),
        now=now,
        last_activity=max((sign for sign in (log and log.modified, last_heartbeat(folder)) if sign), default=None),
        has_locks=has_rank is not None,
        rank_error="" if done or is_recorded else next(iter(read_rank_errors(folder)), ""),
    )
    state: State
    state, reason = ("done", "") if done else judge_state(known)
    status = RunStatus(
        run=folder.name, state=state, reason=reason, is_attended=bool(has_driver), run_folder=str(folder)
    )
    return msgspec.structs.replace(
        status,
        **_where(events, jobs, queued or [], state),
        **_progress(folder, events, log, done, state),
        **_costs(events, now if state == "running" else known.last_activity),
        **_last_error(events, state, reason, lambda: _last_output(folder, job_without_attempt(events, jobs), log)),
    )


def is_local_job_alive(job: SubmittedJob) -> bool:
    """Return whether a job that was started as a process of this machine is still running."""
    if job.launcher != "local" or job.host != platform.node() or not job.job.isdecimal():
        return False
    try:
        return b"submitit" in Path(f"/proc/{job.job}/cmdline").read_bytes()  # else another process has its number
    except OSError:
        return False


def _where(events: list[Event], jobs: list[SubmittedJob], queued: list[QueuedJob], state: State) -> dict[str, object]:
    """Return launcher, job and host: from the queue if that has an alive job, else from the run's files."""
    started = [event for event in events if isinstance(event, Started)]
    launcher = jobs[-1].launcher if jobs else ""
    alive = [job for job in queued if job.is_alive and (job.node or state != "running")]  # else it is not running
    if alive:
        shown = next((job for job in alive if job.node), alive[0])
        return {"launcher": launcher, "job": shown.job, "host": shown.node, "time_left": shown.time_left}
    if starting := job_without_attempt(events, jobs):
        return {"launcher": launcher, "job": starting.job, "host": starting.host if launcher != "slurm" else ""}
    if started:
        return {"launcher": launcher, "job": started[-1].job, "host": started[-1].host}
    return {"launcher": launcher}


def _progress(
    folder: Path, events: list[Event], log: LogTail | None, done: TrainRecord | None, state: State
) -> dict[str, object]:
    """Return its update, its speed, and the seconds that remain."""
    found: dict[str, object]
    saved = newest_update(folder)
    if done is not None:
        found = {"update": done.updates, "updates": done.updates, "saved_update": saved, "loss_bits": _loss(log)}
        return found | {"target_tokens_per_second": done.tokens / done.wall_seconds if done.wall_seconds else None}
    last = events[-1] if events else None
    update = saved if last is None else max(last.update, saved)
    updates = read_max_update(folder / LOG_NAME)
    found = {"update": update, "updates": updates, "saved_update": saved, "loss_bits": _loss(log)}
    # Until fairseq has begun this attempt, the log's end is of the attempt before.
    if log is None or state != "running" or not isinstance(last, Started) or log.modified < last.time:
        return found
    if log.update is None or log.update < last.update:
        return found
    found |= {"update": log.update, "target_tokens_per_second": log.target_tokens_per_second}
    if updates is not None and log.updates_per_second:
        found["eta_seconds"] = max(0, updates - log.update) / log.updates_per_second
    return found


def _loss(log: LogTail | None) -> float | None:
    return log.loss_bits if log is not None else None


def _costs(events: list[Event], until: str | None) -> dict[str, object]:
    """Return attempts and their sums; an open attempt counts until `until`."""
    rows = list_attempts(events)
    summary = summarise_attempts(events, until=max(until, rows[-1].began) if until and rows else None)
    return {
        "attempts": rows,
        "num_attempts": summary.num_attempts,
        "num_gpus": rows[-1].num_gpus if rows else 0,
        "gpu_hours": summary.gpu_seconds / 3600,
        "wall_hours": summary.wall_seconds / 3600,
    }


def _last_error(
    events: list[Event], state: State, reason: str, last_output: Callable[[], list[str]]
) -> dict[str, object]:
    """Return the newest failure with its log: the present state's, else that of the newest attempt that failed."""
    ended = [event for event in events if isinstance(event, Ended) and event.outcome in ERROR_STATES]
    is_recorded = bool(ended) and events[-1] is ended[-1] and reason == ended[-1].reason
    if state in ERROR_STATES and not is_recorded:
        return {"last_error": reason, "log_tail": last_output()}
    if not ended:
        return {}
    return {"last_error": ended[-1].reason, "log_tail": ended[-1].log_tail[-KEPT_LOG_LINES:]}


def _last_output(folder: Path, starting: SubmittedJob | None, log: LogTail | None) -> list[str]:
    """Return the last lines of what the newest job printed before it could begin, else of the log."""
    if starting is None:
        return log.lines[-KEPT_LOG_LINES:] if log else []
    return last_lines(output_path(folder, starting.job), KEPT_LOG_LINES)


class Evidence(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of a run that is not done: its own files, its locks, and Slurm's queue.

    `queued` are the jobs of its name, oldest first, None if the queue did not answer or was not read.
    `has_rank` and `has_driver`: a process holds rank 0's lock, the driver's. `has_local_job`: a job that was started
    on this machine is running, perhaps before it takes the lock. `last_activity` is when rank 0 last touched its lock
    or wrote to its log (UTC, by the file system's clock). `has_locks` is False on a file system without locks, where
    no lock seems to be held. `rank_error` is the error of a rank of the newest job.
    """

    events: list[Event]
    jobs: list[SubmittedJob]
    queued: list[QueuedJob] | None
    has_rank: bool
    has_driver: bool
    has_local_job: bool
    host: str
    now: str
    last_activity: str | None
    has_locks: bool = True
    rank_error: str = ""


def is_slurm_run(jobs: list[SubmittedJob]) -> bool:
    """Return whether Slurm has the newest job."""
    return bool(jobs) and jobs[-1].launcher == "slurm"


def judge_state(known: Evidence) -> tuple[State, str]:
    """Return the state of a run that is not done, and why it is so."""
    judged: tuple[State, str] | None
    if is_slurm_run(known.jobs):
        judged = _judge_queue(known)
    elif known.has_rank:
        judged = ("running", "")
    elif (known.has_driver or known.has_local_job) and not _has_ended(known):
        judged = ("queued", "starting")
    else:
        judged = _judge_other_host(known)
    return judged or _judge_events(known)


def has_newer_job(known: Evidence) -> bool:
    """Return whether a job was submitted after the newest attempt."""
    return job_without_attempt(known.events, known.jobs) is not None


def _has_ended(known: Evidence) -> bool:
    """Return whether the newest event is an attempt's end; its processes may run a moment longer."""
    return bool(known.events) and not isinstance(known.events[-1], Started) and not has_newer_job(known)


def _judge_queue(known: Evidence) -> tuple[State, str] | None:
    """Return the state by Slurm's queue, None if that no longer has a job of the run."""
    job = known.jobs[-1].job
    if known.queued is None:
        return _judge_unavailable_queue(known, job)
    alive = [one for one in known.queued if one.is_alive]
    if alive:
        shown = next((one for one in alive if one.state not in _WAITING), alive[0])
        if shown.state not in _WAITING:
            return "running", "" if shown.state == "RUNNING" else shown.state
        reason = shown.reason if shown.state == "PENDING" else shown.state
        reason += ", waits for a person" if shown.is_stuck else ""
        if known.has_rank:  # of a job that the controller lost and started again, or of an earlier job
            return "running", f"though squeue shows job {shown.job} as waiting: {reason}"
        return "queued", reason
    return _judge_absence(known, job)


def _judge_absence(known: Evidence, job: str) -> tuple[State, str] | None:
    """Return the state when no job of the run is alive in the queue, which shows ended jobs for a while."""
    if known.has_rank:
        return "running", "squeue does not know of its job"
    if _has_failed(known):
        return None
    ends = [one.state for one in known.queued or [] if one.job == job]
    if any(state.startswith("CANCELLED") for state in ends):
        return "cancelled", f"job {job} was cancelled"
    if not ends and (unknown := _judge_forgotten(known, job)):
        return unknown
    return ("queued", "its driver is about to submit a job") if known.has_driver else None


def _judge_forgotten(known: Evidence, job: str) -> tuple[State, str] | None:
    """Return `unknown` for a recent job that squeue does not know, neither alive nor ended.

    A controller that is killed forgets the jobs of its last seconds, which continue.
    """
    forgotten = f"squeue does not know of job {job}"
    if has_newer_job(known):
        age_seconds = seconds_between(known.jobs[-1].time, known.now)
        if age_seconds > _FRESH_SECONDS:
            return None
        return "unknown", f"{forgotten}, which was submitted {age_seconds:.0f} s ago"
    unknown = _judge_other_host(known)
    return ("unknown", f"{forgotten}; {unknown[1]}") if unknown else None


def _judge_unavailable_queue(known: Evidence, job: str) -> tuple[State, str] | None:
    """Return the state while the queue does not answer, which does not mean that a job has ended."""
    if known.has_rank:
        return "running", "squeue does not answer"
    return None if _has_failed(known) else ("unknown", f"squeue does not answer; job {job} may wait, run or be gone")


def _has_failed(known: Evidence) -> bool:
    """Return whether the newest event is a failure, after which no job starts by itself."""
    last = known.events[-1] if known.events else None
    return not isinstance(last, Started | None) and last.outcome == "failed" and _has_ended(known)


def _judge_other_host(known: Evidence) -> tuple[State, str] | None:
    """Return `unknown` for an attempt on another machine with recent activity.

    Its lock cannot be seen from here if the file system does not share locks between machines, or has none.
    """
    last = known.events[-1] if known.events else None
    if not isinstance(last, Started) or (last.host == known.host and known.has_locks) or known.last_activity is None:
        return None
    age_seconds = seconds_between(known.last_activity, known.now)
    if age_seconds > _FRESH_SECONDS:
        return None
    return "unknown", f"on {last.host}, its lock cannot be seen from here; last activity {age_seconds:.0f} s ago"


def _judge_events(known: Evidence) -> tuple[State, str]:
    """Return how the newest attempt ended, when no process of the run is running."""
    if has_newer_job(known):
        job = known.jobs[-1].job
        if known.rank_error:
            return "failed", f"job {job}, before it began an attempt: {known.rank_error}"
        return "lost", f"job {job} ended before it began an attempt"
    if not known.events:
        return "lost", "its driver ended before it submitted a job"
    last = known.events[-1]
    if isinstance(last, Started):
        if known.rank_error:  # rank 0 was killed before it recorded its end
            return "failed", known.rank_error
        return "lost", LOST_REASON
    return last.outcome, last.reason
