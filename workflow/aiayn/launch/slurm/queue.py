"""Lists this user's jobs in Slurm's queue, explains why a job waits, and cancels jobs.

Only the queue (squeue) decides whether a job waits or runs. Slurm's accounting (sacct) is not used,
because its data are late and may be unavailable for hours. If the queue does not answer, the states
of its jobs are unknown. A queue that does not answer is never treated as empty.
"""

import os
import re
import shutil
import subprocess
from collections.abc import Sequence

import msgspec

from aiayn.runs.queue import Ending, Phase, QueuedJob, QueueError

# squeue's letters: job number, state, nodes, time left, name, reason, path of the script. The path
# is last, because it may contain any character.
_FORMAT = "%A|%T|%N|%L|%j|%r|%o"
_NUM_FIELDS = 1 + _FORMAT.count("|")
TIMEOUT_SECONDS = 20.0
# A job in these states has ended. In any other state, also in an unknown state, it may continue:
# Slurm may start it again, or its processes are still ending.
_ENDING_BY_STATE: dict[str, Ending] = {
    **dict.fromkeys(
        ("BOOT_FAIL", "DEADLINE", "NODE_FAIL", "PREEMPTED", "REVOKED", "TIMEOUT"), "other"
    ),
    "CANCELLED": "cancelled",
    "COMPLETED": "completed",
    "FAILED": "failed",
    "OUT_OF_MEMORY": "out of memory",
}
# A job in these states waits until a person releases it.
_HELD_STATES = ("REQUEUE_HOLD", "SPECIAL_EXIT", "RESV_DEL_HOLD")
_WAITING_STATES = (*_HELD_STATES, "PENDING", "REQUEUED", "REQUEUE_FED", "CONFIGURING")
_LAUNCH_FAILED = "launch_failed_requeued_held"
_CLUSTER_FILE = "in the cluster's file"
# The first match counts, so the limits per job come before the limits of an account or a QoS. A job
# that exceeds a limit per job waits for ever. A limit for all jobs of an account may pass.
_ADVICE_BY_REASON = {
    r"PartitionTimeLimit": (
        f"it requests more time than its partition has: lower time_limit_minutes {_CLUSTER_FILE}"
    ),
    r"PartitionNodeLimit": (
        f"it requests more nodes than its partition has: lower num_nodes {_CLUSTER_FILE}"
    ),
    r"Partition(Down|Inactive)": (
        f"its partition is closed: wait, or name another (partition) {_CLUSTER_FILE}"
    ),
    r"BadConstraints": (
        f"no node has what it requests: correct constraint, gpu_type or num_nodes {_CLUSTER_FILE}"
    ),
    r"InvalidAccount": f"Slurm does not accept its account: name yours (account) {_CLUSTER_FILE}",
    r"InvalidQOS|QOSNotAllowed": f"Slurm does not accept its QoS: name yours (qos) {_CLUSTER_FILE}",
    r"(Assoc|QOS)(Max|Min).*PerJob": (
        f"it requests more than one job may have: request less {_CLUSTER_FILE}"
    ),
    r"Assoc(Max|Grp)|AssociationJobLimit|AssociationResourceLimit|AssociationTimeLimit": (
        "a limit of your account: it starts when other jobs of the account have ended, if they"
        f" fill it; else request less {_CLUSTER_FILE} (`sacctmgr show associations`)"
    ),
    r"QOS(Max|Min|Grp|JobLimit|ResourceLimit|TimeLimit|UsageThreshold)": (
        "a limit of its QoS: it starts when other jobs of the QoS have ended, if they fill it;"
        f" else request less, or name another (qos) {_CLUSTER_FILE} (`sacctmgr show qos`)"
    ),
    r"ReqNodeNotAvail": (
        "nodes that it needs are down, or reserved for maintenance (`scontrol show reservation`):"
        " wait"
    ),
    r"DependencyNeverSatisfied": (
        f"what it depends on has failed: correct sbatch_lines {_CLUSTER_FILE}"
    ),
}


class SlurmError(QueueError):
    """A command of Slurm failed for the reason `reason`, or did not answer."""

    def __init__(self, command: Sequence[str], reason: str, *, has_answered: bool) -> None:
        message = f"`{' '.join(command)}` failed: {reason}; repeat it when `squeue --me` answers"
        super().__init__(message, reason=reason)
        self.has_answered = has_answered


class SlurmQueue:
    """Finds and cancels this user's jobs in Slurm's queue."""

    title = "Slurm"
    queue_command = "squeue"

    def is_here(self) -> bool:
        """Return whether this machine has Slurm's commands."""
        return shutil.which("squeue") is not None

    def find(self, name: str | None = None) -> list[QueuedJob]:
        """Return this user's jobs with the name `name`, or all jobs of this user, oldest first. A
        job that has ended is included as long as squeue lists it (Slurm's setting MinJobAge).

        Raises:
            SlurmError: if squeue fails, or if its output is not complete.
        """
        command = ["squeue", "--me", "--noheader", "--states=all", f"--format={_FORMAT}"]
        command += [f"--name={name}"] if name is not None else []
        jobs = []
        for line in run_slurm(command).stdout.split("\n"):
            fields = line.split("|", maxsplit=_NUM_FIELDS - 1)
            # A path may contain `|`, which `maxsplit` leaves in the last field.
            if len(fields) == _NUM_FIELDS:
                jobs.append(_job_of(*(field.strip() for field in fields)))
            elif line.strip():
                raise SlurmError(
                    command, f"its answer is cut: {line.strip()[:80]!r}", has_answered=False
                )
        # squeue sorts by partition, state and priority. Numbers rise with the time of submission.
        jobs.sort(key=lambda queued: int(queued.job) if queued.job.isdecimal() else 0)
        alive = [queued for queued in jobs if queued.is_alive]
        return [
            msgspec.structs.replace(queued, advice=waiting_advice(queued, alive)) for queued in jobs
        ]

    def cancel(self, name: str) -> None:
        """End this user's waiting and running jobs with a name. It is not an error if no job has
        the name.

        Raises:
            SlurmError: if scancel is missing or fails.
        """
        run_slurm(["scancel", f"--user={os.geteuid()}", f"--name={name}"])

    def cancel_command(self, *, name: str = "", jobs: tuple[str, ...] = ()) -> str:
        """Return the scancel command that cancels the jobs with a name or with these numbers."""
        return f"scancel --name={name}" if name else f"scancel {' '.join(jobs)}"


def _job_of(
    job: str, state: str, node: str, time_left: str, name: str, reason: str, script: str
) -> QueuedJob:
    """Convert the fields that squeue prints for a job into a `QueuedJob`, the type that all queues
    return.
    """
    # Only the first word is the state. In `CANCELLED by 1000`, the user 1000 cancelled the job.
    ending = _ENDING_BY_STATE.get(state.partition(" ")[0])
    if reason == "None":
        reason = ""
    # An unknown state counts as running, so that a job is never submitted a second time.
    phase: Phase = "running"
    if ending:
        phase = "ended"
    elif state in _WAITING_STATES:
        phase = "waiting"
    return QueuedJob(
        job=job,
        state=phase,
        # In any other state, such as COMPLETING or SUSPENDED, the state itself is the reason.
        reason={"PENDING": reason, "RUNNING": ""}.get(state, state),
        ending=ending or "other",
        words=f"{state} ({reason})" if reason and not ending else state,
        is_stuck=(state == "PENDING" and "held" in reason.lower()) or state in _HELD_STATES,
        node=node,
        time_left=time_left,
        name=name,
        script=script,
    )


def is_held_by_slurm(queued: QueuedJob) -> bool:
    """Return whether Slurm itself holds a job because Slurm could not launch it, for example after
    Slurm's controller lost its state.
    """
    return (
        queued.words.startswith("PENDING")
        # Versions of Slurm write the reason with blanks or with underscores.
        and _LAUNCH_FAILED in queued.reason.replace(" ", "_").lower()
    )


def run_slurm(command: Sequence[str], text: str = "") -> subprocess.CompletedProcess[str]:
    """Run a command of Slurm with `text` as its standard input, and return the output of the
    command.

    The user's environment variables that filter the output of squeue are removed, because they
    could hide a job.

    Raises:
        SlurmError: if the command is missing, does not end, or fails.
    """
    # SQUEUE_PARTITION, for example, would hide the jobs of other partitions, and the driver would
    # submit a second job. A flag of the command overrides its own variable only.
    environment = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("SQUEUE_", "SCANCEL_"))
    }
    try:
        answer = subprocess.run(
            command,
            capture_output=True,
            text=True,
            # Names and paths of jobs need not be UTF-8.
            errors="replace",
            check=False,
            env=environment,
            timeout=TIMEOUT_SECONDS,
            input=text,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        reason = f"not found, or no answer within {TIMEOUT_SECONDS:.0f} s"
        raise SlurmError(command, reason, has_answered=False) from error
    if answer.returncode != 0:
        raise SlurmError(
            command, answer.stderr.strip() or f"exit code {answer.returncode}", has_answered=True
        )
    return answer


def waiting_advice(queued: QueuedJob, alive: Sequence[QueuedJob]) -> str:
    """Return advice on a job that may wait for ever, or '' if the job will start by itself.

    `alive` are the jobs in the same answer of squeue that have not ended, of every runs folder. Our
    jobs have Slurm's dependency `singleton`, so Slurm runs jobs with the same name one at a time.
    """
    if queued.is_stuck:
        return f"it waits for you: `scontrol release {queued.job}`"
    if not queued.words.startswith("PENDING"):
        return ""
    # Two copies of the project may have runs with the same name. Slurm runs their jobs one after
    # the other.
    if queued.reason == "Dependency":
        namesakes = [
            other for other in alive if other.name == queued.name and other.job != queued.job
        ]
        jobs_text = ", ".join(f"{other.job} ({other.script})" for other in namesakes)
        return f"it waits for the end of {jobs_text}, of the same name" if jobs_text else ""
    matching = (
        advice for pattern, advice in _ADVICE_BY_REASON.items() if re.match(pattern, queued.reason)
    )
    return next(matching, "")
