"""A cluster's queue as runs see it: jobs with their states, and what can be asked of whoever asks the queue.

States and reasons are Slurm's words. The module that asks Slurm (`launch/slurm_queue.py`) is handed in as a `JobQueue`.
"""

from pathlib import Path
from typing import Protocol

import msgspec

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


class JobQueue(Protocol):
    """What runs ask of a queue."""

    def find_jobs(self, name: str | None = None) -> list[QueuedJob] | None:
        """Return this user's jobs of a name, or all of them, oldest first; None if the queue could not be asked."""
        ...

    def cancel_jobs(self, name: str) -> None:
        """End this user's jobs of a name; no such job is no error."""
        ...
