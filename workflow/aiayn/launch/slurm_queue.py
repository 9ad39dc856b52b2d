"""What Slurm's queue holds of this user's jobs, by name: the only question that is ever asked about a job's life.

Accounting (sacct) is never asked: it lags, it may be away for hours, and its answer decides nothing. A queue that does
not answer is unknown, never empty.
"""

import os
import re
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

import msgspec

from aiayn.errors import LaunchError

# A job in any of these is over. One in any other is Slurm's to run on or to start again, or has processes that still
# end: a state of which nothing is known here must not look like a death.
ENDED_STATES = frozenset(
    {
        *("BOOT_FAIL", "CANCELLED", "COMPLETED", "DEADLINE", "FAILED", "NODE_FAIL", "OUT_OF_MEMORY", "PREEMPTED"),
        *("REVOKED", "TIMEOUT"),
    }
)
LOST_RESERVATION = "RESV_DEL_HOLD"
_HELD_STATES = ("REQUEUE_HOLD", "SPECIAL_EXIT", LOST_RESERVATION)
_FORMAT = "%A|%T|%N|%L|%j|%r|%o"  # the path last: it may hold anything
_NUM_FIELDS = 1 + _FORMAT.count("|")
_TIMEOUT_SECONDS = 20.0
# What no later question would be answered otherwise; squeue says `invalid` of a credential, too, which may pass.
_USAGE_ERROR = re.compile(r"(unrecognized|unknown|invalid|ambiguous) (option|job state|job format)", re.IGNORECASE)
_LAUNCH_FAILED = "launch_failed_requeued_held"


class QueuedJob(msgspec.Struct, frozen=True, kw_only=True):
    """A job as squeue shows it; one that ended is shown for some minutes more (MinJobAge), with its end as `state`.

    `reason` is why it waits, or `None` in Slurm's own word; `node` is empty while it waits; `time_left` is as Slurm
    prints it (`1-02:03:04`, `UNLIMITED`); `script` is the path of the file that was submitted.
    """

    job: str
    state: str
    reason: str
    node: str
    time_left: str
    name: str = ""
    script: str = ""

    def trains_in(self, run_folder: Path) -> bool:
        """Return whether it is the job of this folder's run: another copy of the project has runs of the same names.

        submitit leaves the job's script below the run's folder.
        """
        folders = (run_folder.absolute() / "submitit", run_folder.resolve() / "submitit")
        return self.name == run_folder.name and (not self.script.startswith("/") or Path(self.script).parent in folders)

    @property
    def is_alive(self) -> bool:
        """Whether it runs, or will without anybody's doing anything (or once somebody releases it)."""
        return self.state.partition(" ")[0] not in ENDED_STATES  # `CANCELLED by 1000`

    @property
    def is_held_by_slurm(self) -> bool:
        """Whether Slurm itself holds it, no person: it could not be launched, as after a controller lost its state."""
        return self.state == "PENDING" and _LAUNCH_FAILED in self.reason.replace(" ", "_").lower()

    @property
    def is_stuck(self) -> bool:
        """Whether it waits for a person to release it, or to give it another reservation."""
        is_pending_held = self.state == "PENDING" and "held" in self.reason.lower()
        return is_pending_held or self.state in _HELD_STATES


def has_slurm() -> bool:
    """Return whether this machine has Slurm's commands."""
    return shutil.which("squeue") is not None


class SilentQueue(msgspec.Struct, frozen=True, kw_only=True):
    """Instead of an answer of squeue: why there is none. `is_final` if asking again would not help."""

    reason: str
    is_final: bool = False


def find_jobs(name: str | None = None) -> list[QueuedJob] | None:
    """Return this user's jobs of a name, or all of them, oldest first, ended ones too as long as squeue shows them.

    None means that the queue could not be asked: nothing is known then, least of all that a job is dead.
    """
    jobs = ask_queue(name)
    return None if isinstance(jobs, SilentQueue) else jobs


def ask_queue(name: str | None = None) -> list[QueuedJob] | SilentQueue:
    """Return the jobs as `find_jobs` does, or why squeue does not tell them."""
    command = ["squeue", "--me", "--noheader", "--states=all", f"--format={_FORMAT}"]
    answer = run_slurm([*command, f"--name={name}"] if name is not None else command)
    if answer is None:
        return SilentQueue(reason=f"not found, or no answer within {_TIMEOUT_SECONDS:.0f} s")
    if answer.returncode != 0:
        reason = answer.stderr.strip().partition("\n")[0] or f"exit code {answer.returncode}"
        return SilentQueue(reason=reason, is_final=_USAGE_ERROR.search(reason) is not None)
    jobs = []
    for line in answer.stdout.split("\n"):
        fields = line.split("|", maxsplit=_NUM_FIELDS - 1)
        if len(fields) == _NUM_FIELDS:
            job, state, node, time_left, job_name, reason, script = (field.strip() for field in fields)
            jobs.append(
                QueuedJob(
                    job=job, state=state, reason=reason, node=node, time_left=time_left, name=job_name, script=script
                )
            )
        elif line.strip():
            return SilentQueue(reason=f"half an answer, {line.strip()[:80]!r}")
    return sorted(jobs, key=lambda queued: int(queued.job) if queued.job.isdecimal() else 0)


def cancel_jobs(name: str) -> None:
    """End this user's jobs of a name, waiting or running; no such job is no error.

    Raises:
        LaunchError: if scancel is missing or fails.
    """
    _order(["scancel", f"--user={os.geteuid()}", f"--name={name}"], name)


def requeue_job(job: str) -> None:
    """Let Slurm end a job and start it again, with the same number, as soon as there is room.

    Raises:
        LaunchError: if Slurm does not.
    """
    _order(["scontrol", "requeue", job], f"job {job}")


def release_job(job: str) -> None:
    """Let a held job run.

    Raises:
        LaunchError: if Slurm does not, as with what an administrator holds.
    """
    _order(["scontrol", "release", job], f"job {job}")


def _order(command: Sequence[str], what: str) -> None:
    answer = run_slurm(command)
    if answer is None or answer.returncode != 0:
        reason = answer.stderr.strip() if answer else f"not found, or no answer within {_TIMEOUT_SECONDS:.0f} s"
        raise LaunchError(f"{what}: `{' '.join(command)}` failed: {reason}; repeat it when `squeue --me` answers")


def run_slurm(command: Sequence[str], text: str | None = None) -> subprocess.CompletedProcess[str] | None:
    """Run one of Slurm's commands, with a text for it to read; None if it is not there or does not end.

    Without the variables by which a user narrows what squeue shows: they could hide a job that lives.
    """
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("SQUEUE_", "SCANCEL_"))}
    try:
        return subprocess.run(
            command, capture_output=True, text=True, errors="replace", check=False, env=environment,
            timeout=_TIMEOUT_SECONDS, input=text or "",
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired):
        return None
