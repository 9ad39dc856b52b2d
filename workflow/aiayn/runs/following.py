"""Decides whether a further job may be submitted after a job ended before its run was done."""

from typing import Literal

import msgspec

from aiayn.runs.attempts import AttemptOutcome
from aiayn.runs.queue import Ending

MAX_JOBS_WITHOUT_PROGRESS = 3
# Slurm sends it some minutes before the time limit, as the submitted file requests.
TIME_LIMIT_SIGNAL = "SIGUSR2"
Following = Literal["job", "failed", "interrupted", "cancelled", "stopped", "no progress"]


class EndedJob(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A job that ended before its run was done.

    `ending` is how the job ended according to its queue. `outcome` is the outcome that rank 0
    recorded for the newest attempt of the job. `outcome` is None if rank 0 never began, or was
    killed before it could record the outcome. `signal` is the name of the signal that stopped the
    job, or '' if no signal was recorded. `has_error` means that the launcher or a rank reported an
    error that would also end the next job. `lacked_something` means that the job ended because it
    needed more than it requested, for example memory. `is_remote` means that the job ran on a
    cluster, not on this machine. `is_driver_interrupted` means that the driver of the run (the
    process that submits its jobs) got a signal. `num_without_progress` is the number of jobs in a
    row, up to this job, that did not write a new checkpoint.
    """

    ending: Ending | Literal["unknown"] = "unknown"
    outcome: AttemptOutcome | None = None
    signal: str = ""
    has_error: bool = False
    lacked_something: bool = False
    is_remote: bool = True
    is_driver_interrupted: bool = False
    num_without_progress: int = 0


def what_follows(job: EndedJob) -> Following:
    """Return `job` if a further job may be submitted, otherwise the reason against a further job.

    After preemption, the time limit or the loss of a node, a further job may be submitted, even if
    the last job could not save a checkpoint. If a job saved a checkpoint after the signal TERM and
    its queue no longer lists it, the job was most likely cancelled. A job on this machine that
    saved a checkpoint after any signal was most likely cancelled, too.
    """
    if job.has_error or job.outcome == "failed":
        return "failed"
    # The driver has passed its own signal on. This is the reason, whatever the queue says.
    if job.is_driver_interrupted:
        return "interrupted"
    if job.ending == "cancelled":
        return "cancelled"
    if job.outcome == "stopped":
        # A stop at the time limit, or one that the queue explains (such as a preemption), was not
        # requested by the user.
        is_known_end = job.ending != "unknown" or job.signal == TIME_LIMIT_SIGNAL
        if not (job.is_remote and is_known_end):
            return "stopped"
    # If the queue says what the job lacked (memory), the next job would lack it, too.
    if job.num_without_progress >= (1 if job.lacked_something else MAX_JOBS_WITHOUT_PROGRESS):
        return "no progress"
    return "job"
