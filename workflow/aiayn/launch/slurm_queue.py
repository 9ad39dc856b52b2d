"""Slurm's commands: what its queue holds of this user's jobs, why they wait, and how they are ended.

The queue alone is asked about a job's life. Accounting (sacct) is not: it lags, it may be away for hours, and it
decides nothing. A queue that does not answer is unknown, never empty.
"""

import contextlib
import os
import re
import shutil
import subprocess
from collections.abc import Sequence

from aiayn.errors import LaunchError
from aiayn.runs.queue import LOST_RESERVATION, QueuedJob

_FORMAT = "%A|%T|%N|%L|%j|%r|%o"  # the path last: it may hold anything
_NUM_FIELDS = 1 + _FORMAT.count("|")
TIMEOUT_SECONDS = 20.0
# What no later question would be answered otherwise; squeue says `invalid` of a credential, too, which may pass.
_USAGE_ERROR = re.compile(r"(unrecognized|unknown|invalid|ambiguous) (option|job state|job format)", re.IGNORECASE)
_CLUSTER_FILE = "in the cluster's file"
# The first that fits counts. A limit per job never passes; one of many jobs together does, if they are others' too.
_ADVICE_BY_REASON = {
    r"PartitionTimeLimit": f"it asks for more time than its partition gives: lower time_limit_minutes {_CLUSTER_FILE}",
    r"PartitionNodeLimit": f"it asks for more nodes than its partition gives: lower num_nodes {_CLUSTER_FILE}",
    r"Partition(Down|Inactive)": f"its partition is closed: wait, or name another (partition) {_CLUSTER_FILE}",
    r"BadConstraints": f"no node has what it asks for: correct constraint, gpu_type or num_nodes {_CLUSTER_FILE}",
    r"InvalidAccount": f"Slurm does not take its account: name yours (account) {_CLUSTER_FILE}",
    r"InvalidQOS|QOSNotAllowed": f"Slurm does not take its QoS: name yours (qos) {_CLUSTER_FILE}",
    r"(Assoc|QOS)(Max|Min).*PerJob": f"it asks for more than one job may have: ask for less {_CLUSTER_FILE}",
    r"Assoc(Max|Grp)|AssociationJobLimit|AssociationResourceLimit|AssociationTimeLimit": (
        "a limit of your account: it starts when other jobs of the account have ended, if they fill it; else ask for "
        f"less {_CLUSTER_FILE} (`sacctmgr show associations`)"
    ),
    r"QOS(Max|Min|Grp|JobLimit|ResourceLimit|TimeLimit|UsageThreshold)": (
        "a limit of its QoS: it starts when other jobs of the QoS have ended, if they fill it; else ask for less, or "
        f"name another (qos) {_CLUSTER_FILE} (`sacctmgr show qos`)"
    ),
    r"ReqNodeNotAvail": "nodes that it needs are down, or kept for a maintenance (`scontrol show reservation`): wait",
    r"DependencyNeverSatisfied": f"what it depends on has failed: correct sbatch_lines {_CLUSTER_FILE}",
}


class SlurmError(LaunchError):
    """One of Slurm's commands failed, and said why (`reason`); or did not answer."""

    def __init__(self, command: Sequence[str], reason: str, *, has_answered: bool) -> None:
        super().__init__(f"`{' '.join(command)}` failed: {reason}; repeat it when `squeue --me` answers")
        self.reason = reason
        self.has_answered = has_answered
        self.is_final = _USAGE_ERROR.search(reason) is not None  # asking again would not help


def has_slurm() -> bool:
    """Return whether this machine has Slurm's commands."""
    return shutil.which("squeue") is not None


def find_jobs(name: str | None = None) -> list[QueuedJob] | None:
    """Return this user's jobs of a name, or all of them, oldest first, ended ones too as long as squeue shows them.

    None means that the queue could not be asked: nothing is known then, least of all that a job is dead.
    """
    with contextlib.suppress(SlurmError):
        return ask_queue(name)
    return None


def ask_queue(name: str | None = None) -> list[QueuedJob]:
    """Return the jobs as `find_jobs` does.

    Raises:
        SlurmError: if squeue does not tell them, or half of them.
    """
    command = ["squeue", "--me", "--noheader", "--states=all", f"--format={_FORMAT}"]
    command += [f"--name={name}"] if name is not None else []
    jobs = []
    for line in run_slurm(command).stdout.split("\n"):
        fields = line.split("|", maxsplit=_NUM_FIELDS - 1)
        if len(fields) == _NUM_FIELDS:
            job, state, node, time_left, job_name, reason, script = (field.strip() for field in fields)
            jobs.append(
                QueuedJob(
                    job=job, state=state, reason=reason, node=node, time_left=time_left, name=job_name, script=script
                )
            )
        elif line.strip():
            raise SlurmError(command, f"half an answer, {line.strip()[:80]!r}", has_answered=False)
    return sorted(jobs, key=lambda queued: int(queued.job) if queued.job.isdecimal() else 0)


def cancel_jobs(name: str) -> None:
    """End this user's jobs of a name, waiting or running; no such job is no error.

    Raises:
        SlurmError: if scancel is missing or fails.
    """
    run_slurm(["scancel", f"--user={os.geteuid()}", f"--name={name}"])


def requeue_job(job: str) -> None:
    """Let Slurm end a job and start it again, with the same number, as soon as there is room.

    Raises:
        SlurmError: if Slurm does not.
    """
    run_slurm(["scontrol", "requeue", job])


def release_job(job: str) -> None:
    """Let a held job run.

    Raises:
        SlurmError: if Slurm does not, as with what an administrator holds.
    """
    run_slurm(["scontrol", "release", job])


def run_slurm(command: Sequence[str], text: str = "") -> subprocess.CompletedProcess[str]:
    """Run one of Slurm's commands, with a text for it to read, and return what it said.

    Without the variables by which a user narrows what squeue shows: they could hide a job that lives.

    Raises:
        SlurmError: if it is not there, does not end, or fails.
    """
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("SQUEUE_", "SCANCEL_"))}
    try:
        answer = subprocess.run(
            command, capture_output=True, text=True, errors="replace", check=False, env=environment,
            timeout=TIMEOUT_SECONDS, input=text,
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired) as error:
        reason = f"not found, or no answer within {TIMEOUT_SECONDS:.0f} s"
        raise SlurmError(command, reason, has_answered=False) from error
    if answer.returncode != 0:
        raise SlurmError(command, answer.stderr.strip() or f"exit code {answer.returncode}", has_answered=True)
    return answer


def waiting_advice(queued: QueuedJob, living: Sequence[QueuedJob]) -> str:
    """Return what a person can do for a job that may wait for ever, '' for one that will start by itself.

    `living` are the jobs of its name, from whichever folder: Slurm runs one of them at a time (singleton).
    """
    if queued.state == LOST_RESERVATION:
        orders = f"`scontrol update JobId={queued.job} ReservationName=ANOTHER` and `scontrol release {queued.job}`"
        return f"its reservation was deleted: {orders} (sbatch_lines {_CLUSTER_FILE} name it still)"
    if queued.is_stuck:
        return f"it waits for you: `scontrol release {queued.job}`"
    if queued.state != "PENDING":
        return ""
    if queued.reason == "Dependency":
        others = [f"{other.job} ({other.script})" for other in living if other.job != queued.job]
        return f"it waits for the end of {', '.join(others)}, of the same name" if others else ""
    found = (advice for pattern, advice in _ADVICE_BY_REASON.items() if re.match(pattern, queued.reason))
    return next(found, "")
