"""Runs Slurm's commands: lists this user's jobs, says why they wait, and cancels them.

Only the queue decides whether a job is alive. Accounting (sacct) does not: it lags, and may be unavailable for hours.
A queue that does not answer is unknown, never empty.
"""

import contextlib
import os
import re
import shutil
import subprocess
from collections.abc import Sequence

from aiayn.errors import LaunchError
from aiayn.runs.queue import LOST_RESERVATION, QueuedJob

_FORMAT = "%A|%T|%N|%L|%j|%r|%o"  # the path last: it may contain any character
_NUM_FIELDS = 1 + _FORMAT.count("|")
TIMEOUT_SECONDS = 20.0
# Errors that a retry does not pass; squeue also prints `invalid` of a credential, which may pass.
_USAGE_ERROR = re.compile(r"(unrecognized|unknown|invalid|ambiguous) (option|job state|job format)", re.IGNORECASE)
_CLUSTER_FILE = "in the cluster's file"
# The first match counts. A limit per job never passes; one of all jobs of an account or QoS may.
_ADVICE_BY_REASON = {
    r"PartitionTimeLimit": f"it requests more time than its partition has: lower time_limit_minutes {_CLUSTER_FILE}",
    r"PartitionNodeLimit": f"it requests more nodes than its partition has: lower num_nodes {_CLUSTER_FILE}",
    r"Partition(Down|Inactive)": f"its partition is closed: wait, or name another (partition) {_CLUSTER_FILE}",
    r"BadConstraints": f"no node has what it requests: correct constraint, gpu_type or num_nodes {_CLUSTER_FILE}",
    r"InvalidAccount": f"Slurm does not accept its account: name yours (account) {_CLUSTER_FILE}",
    r"InvalidQOS|QOSNotAllowed": f"Slurm does not accept its QoS: name yours (qos) {_CLUSTER_FILE}",
    r"(Assoc|QOS)(Max|Min).*PerJob": f"it requests more than one job may have: request less {_CLUSTER_FILE}",
    r"Assoc(Max|Grp)|AssociationJobLimit|AssociationResourceLimit|AssociationTimeLimit": (
        "a limit of your account: it starts when other jobs of the account have ended, if they fill it; else request "
        f"less {_CLUSTER_FILE} (`sacctmgr show associations`)"
    ),
    r"QOS(Max|Min|Grp|JobLimit|ResourceLimit|TimeLimit|UsageThreshold)": (
        "a limit of its QoS: it starts when other jobs of the QoS have ended, if they fill it; else request less, or "
        f"name another (qos) {_CLUSTER_FILE} (`sacctmgr show qos`)"
    ),
    r"ReqNodeNotAvail": "nodes that it needs are down, or reserved for maintenance (`scontrol show reservation`): wait",
    r"DependencyNeverSatisfied": f"what it depends on has failed: correct sbatch_lines {_CLUSTER_FILE}",
}


class SlurmError(LaunchError):
    """One of Slurm's commands failed for a `reason`, or did not answer."""

    def __init__(self, command: Sequence[str], reason: str, *, has_answered: bool) -> None:
        super().__init__(f"`{' '.join(command)}` failed: {reason}; repeat it when `squeue --me` answers")
        self.reason = reason
        self.has_answered = has_answered
        self.is_final = _USAGE_ERROR.search(reason) is not None  # a retry would not help


def has_slurm() -> bool:
    """Return whether this machine has Slurm's commands."""
    return shutil.which("squeue") is not None


def find_jobs(name: str | None = None) -> list[QueuedJob] | None:
    """Return this user's jobs of a name, or all of them, oldest first, ended ones too as long as squeue shows them.

    None means that the queue did not answer: whether a job is alive is then unknown.
    """
    with contextlib.suppress(SlurmError):
        return ask_queue(name)
    return None


def ask_queue(name: str | None = None) -> list[QueuedJob]:
    """Return the jobs as `find_jobs` does.

    Raises:
        SlurmError: if squeue fails, or its answer is cut.
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
            raise SlurmError(command, f"its answer is cut: {line.strip()[:80]!r}", has_answered=False)
    return sorted(jobs, key=lambda queued: int(queued.job) if queued.job.isdecimal() else 0)


def cancel_jobs(name: str) -> None:
    """End this user's jobs of a name, waiting or running; no such job is no error.

    Raises:
        SlurmError: if scancel is missing or fails.
    """
    run_slurm(["scancel", f"--user={os.geteuid()}", f"--name={name}"])


def run_slurm(command: Sequence[str], text: str = "") -> subprocess.CompletedProcess[str]:
    """Run one of Slurm's commands, with `text` as its input, and return its output.

    The variables by which a user filters squeue are removed: they could hide a job.

    Raises:
        SlurmError: if it is missing, does not end, or fails.
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


def waiting_advice(queued: QueuedJob, alive: Sequence[QueuedJob]) -> str:
    """Return what the user can do for a job that may wait for ever, '' for one that will start by itself.

    `alive` are the jobs of its name, of every folder: Slurm runs one of them at a time (singleton).
    """
    if queued.state == LOST_RESERVATION:
        commands = f"`scontrol update JobId={queued.job} ReservationName=ANOTHER` and `scontrol release {queued.job}`"
        return f"its reservation was deleted: {commands} (sbatch_lines {_CLUSTER_FILE} still name it)"
    if queued.is_stuck:
        return f"it waits for you: `scontrol release {queued.job}`"
    if queued.state != "PENDING":
        return ""
    if queued.reason == "Dependency":
        others = [f"{other.job} ({other.script})" for other in alive if other.job != queued.job]
        return f"it waits for the end of {', '.join(others)}, of the same name" if others else ""
    found = (advice for pattern, advice in _ADVICE_BY_REASON.items() if re.match(pattern, queued.reason))
    return next(found, "")
