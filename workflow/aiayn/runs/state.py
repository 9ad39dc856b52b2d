"""Decides how a run stands, from what is known of it; touches no file and asks nobody."""

from typing import Literal

import msgspec

from aiayn.launch.slurm_queue import QueuedJob
from aiayn.runs.attempts import Event, Started, seconds_between
from aiayn.runs.jobs import SubmittedJob, unbegun_job

State = Literal["queued", "running", "stopped", "failed", "lost", "cancelled", "done", "unknown", "damaged"]
ALIVE_STATES: tuple[State, ...] = ("queued", "running")
_WAITING = ("PENDING", "REQUEUED", "REQUEUE_HOLD", "REQUEUE_FED", "SPECIAL_EXIT", "CONFIGURING", "RESV_DEL_HOLD")
_FRESH_SECONDS = 300.0  # rank 0 touches its lock far more often, but the clocks of two machines differ


class Evidence(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of a run that is not done: its own files, its locks, and Slurm's queue.

    `queued` are the jobs of its name, oldest first, None if the queue did not answer or was not asked.
    `has_rank` and `has_driver`: a living process holds rank 0's lock, the driver's. `has_local_job`: a job that was
    started on this machine is alive, though it may not have got as far as the lock. `last_sign` is when rank 0 last
    touched its lock or wrote to its log (UTC, by the file system's clock). `has_locks` is False on a file system
    without locks, where nobody seems to hold one. `noted_error` is what a rank of the newest job has met.
    """

    events: list[Event]
    jobs: list[SubmittedJob]
    queued: list[QueuedJob] | None
    has_rank: bool
    has_driver: bool
    has_local_job: bool
    host: str
    now: str
    last_sign: str | None
    has_locks: bool = True
    noted_error: str = ""


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
    """Return whether a job was submitted after all that attempts.jsonl tells of."""
    return unbegun_job(known.events, known.jobs) is not None


def _has_ended(known: Evidence) -> bool:
    """Return whether the newest word is of an attempt's end; its processes may live a moment longer."""
    return bool(known.events) and not isinstance(known.events[-1], Started) and not has_newer_job(known)


def _judge_queue(known: Evidence) -> tuple[State, str] | None:
    """Return what Slurm's queue says, None if it no longer knows of a job."""
    job = known.jobs[-1].job
    if known.queued is None:
        return _judge_silence(known, job)
    alive = [one for one in known.queued if one.is_alive]
    if alive:
        shown = next((one for one in alive if one.state not in _WAITING), alive[0])
        if shown.state not in _WAITING:
            return "running", "" if shown.state == "RUNNING" else shown.state
        reason = shown.reason if shown.state == "PENDING" else shown.state
        reason += ", waits for a person" if shown.is_stuck else ""
        if known.has_rank:  # of a job that a controller lost, and that it started again, or of an earlier one
            return "running", f"though squeue shows job {shown.job} as waiting: {reason}"
        return "queued", reason
    return _judge_absence(known, job)


def _judge_absence(known: Evidence, job: str) -> tuple[State, str] | None:
    """Return what is known when no job of the run is alive in the queue, which shows the end of a job for a while."""
    if known.has_rank:
        return "running", "squeue does not know of its job"
    if _has_failed(known):
        return None
    ends = [one.state for one in known.queued or [] if one.job == job]
    if any(state.startswith("CANCELLED") for state in ends):
        return "cancelled", f"job {job} was cancelled"
    if not ends and (unseen := _judge_forgotten(known, job)):
        return unseen
    return ("queued", "its driver is about to submit a job") if known.has_driver else None


def _judge_forgotten(known: Evidence, job: str) -> tuple[State, str] | None:
    """Return that nothing is known of a job of which squeue shows neither life nor end, if that ought to be there.

    A controller that is killed forgets the jobs of its last seconds, which run on.
    """
    forgotten = f"squeue does not know of job {job}"
    if has_newer_job(known):
        age_seconds = seconds_between(known.jobs[-1].time, known.now)
        if age_seconds > _FRESH_SECONDS:
            return None
        return "unknown", f"{forgotten}, which was submitted {age_seconds:.0f} s ago"
    unseen = _judge_other_host(known)
    return ("unknown", f"{forgotten}; {unseen[1]}") if unseen else None


def _judge_silence(known: Evidence, job: str) -> tuple[State, str] | None:
    """Return what is known while the queue does not answer: that is no word of a job's end."""
    if known.has_rank:
        return "running", "squeue does not answer"
    return None if _has_failed(known) else ("unknown", f"squeue does not answer; job {job} may wait, run or be gone")


def _has_failed(known: Evidence) -> bool:
    """Return whether the newest word is of a failure, which nothing follows by itself."""
    last = known.events[-1] if known.events else None
    return not isinstance(last, Started | None) and last.outcome == "failed" and _has_ended(known)


def _judge_other_host(known: Evidence) -> tuple[State, str] | None:
    """Return that nothing is known of an attempt on another machine that still gives signs of life.

    Its lock cannot be seen from here where the file system does not carry locks, not even on its own where it has none.
    """
    last = known.events[-1] if known.events else None
    if not isinstance(last, Started) or (last.host == known.host and known.has_locks) or known.last_sign is None:
        return None
    age_seconds = seconds_between(known.last_sign, known.now)
    if age_seconds > _FRESH_SECONDS:
        return None
    return "unknown", f"on {last.host}, its lock is not seen from here; last sign of life {age_seconds:.0f} s ago"


def _judge_events(known: Evidence) -> tuple[State, str]:
    """Return how the newest attempt ended, now that nothing of the run is alive."""
    if has_newer_job(known):
        job = known.jobs[-1].job
        if known.noted_error:
            return "failed", f"job {job}, before it began an attempt: {known.noted_error}"
        return "lost", f"job {job} ended before it began an attempt"
    if not known.events:
        return "lost", "its driver ended before it submitted a job"
    last = known.events[-1]
    if isinstance(last, Started):
        if known.noted_error:  # rank 0 did not live to tell it
            return "failed", known.noted_error
        return "lost", "ended without a word (killed, or the machine went down)"
    return last.outcome, last.reason
