"""Defines the jobs of a cluster's queue, their states, and the protocol by which runs list and cancel them.

States and reasons are Slurm's words. Callers pass the module that runs Slurm's commands (`launch/slurm_queue.py`) as a
`JobQueue`.
"""

from pathlib import Path
from typing import Protocol

import msgspec

# A job in one of these has ended. In any other it continues, Slurm may start it again, or its processes are still
# ending: an unknown state does not mean that a job has ended.
ENDED_STATES = frozenset(
    {
        *("BOOT_FAIL", "CANCELLED", "COMPLETED", "DEADLINE", "FAILED", "NODE_FAIL", "OUT_OF_MEMORY", "PREEMPTED"),
        *("REVOKED", "TIMEOUT"),
    }
)
LOST_RESERVATION = "RESV_DEL_HOLD"
_HELD_STATES = ("REQUEUE_HOLD", "SPECIAL_EXIT", LOST_RESERVATION)
_LAUNCH_FAILED = "launch_failed_requeued_held"


class QueuedJob(msgspec.Struct, frozen=True, kw_only=True):
    """A job as squeue shows it; an ended job is shown for some minutes (MinJobAge), with how it ended as `state`.

    `reason` is why it waits, or Slurm's `None`; `node` is empty while it waits; `time_left` is as Slurm prints it
    (`1-02:03:04`, `UNLIMITED`); `script` is the path of the file that was submitted.
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

        submitit writes the job's script below the run's folder.
        """
        folders = (run_folder.absolute() / "submitit", run_folder.resolve() / "submitit")
        return self.name == run_folder.name and (not self.script.startswith("/") or Path(self.script).parent in folders)

    @property
    def is_alive(self) -> bool:
        """Whether it runs, waits, or is held."""
        return self.state.partition(" ")[0] not in ENDED_STATES  # `CANCELLED by 1000`

    @property
    def is_held_by_slurm(self) -> bool:
        """Whether Slurm itself holds it, because it could not be launched, as after a controller lost its state."""
        return self.state == "PENDING" and _LAUNCH_FAILED in self.reason.replace(" ", "_").lower()

    @property
    def is_stuck(self) -> bool:
        """Whether it waits until the user releases it, or gives it another reservation."""
        is_pending_held = self.state == "PENDING" and "held" in self.reason.lower()
        return is_pending_held or self.state in _HELD_STATES


class JobQueue(Protocol):
    """The functions of a queue that runs need."""

    def find_jobs(self, name: str | None = None) -> list[QueuedJob] | None:
        """Return this user's jobs of a name, or all of them, oldest first; None if the queue does not answer."""
        ...

    def cancel_jobs(self, name: str) -> None:
        """End this user's jobs of a name; no such job is no error."""
        ...
