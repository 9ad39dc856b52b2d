"""Defines the jobs of a queue (such as Slurm's), and the protocol `JobQueue`, by which `aiayn.runs`
lists and cancels jobs.

The classes of queues that implement this protocol are in `aiayn.launch`.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Literal, Protocol

import msgspec

from aiayn.errors import LaunchError
from aiayn.runs.run_folder import JOB_FILES_NAME

Phase = Literal["waiting", "running", "ended"]
# How a job ended, as far as the next step depends on it. `other` includes a time limit, a
# preemption and a lost node.
Ending = Literal["completed", "failed", "cancelled", "out of memory", "other"]


class QueueError(LaunchError):
    """A queue did not answer, for the reason `reason`."""

    def __init__(self, message: str, *, reason: str) -> None:
        super().__init__(message)
        self.reason = reason


class QueuedJob(msgspec.Struct, frozen=True, kw_only=True):
    """A job that its queue lists: the job waits, runs or has ended. A queue lists an ended job for
    some minutes.

    `reason` says why the job waits, or why it does not run normally. `ending` says how the job
    ended. `words` is the state of the job in the words of the queue. If a job `is_stuck`, it waits
    until a person releases it. `advice` says what the user can do about a job that may wait for
    ever. `node` is empty while the job waits. `time_left` is the text that the queue prints.
    `script` is the path of the file that was submitted.
    """

    job: str
    state: Phase
    reason: str = ""
    ending: Ending = "other"
    words: str = ""
    is_stuck: bool = False
    advice: str = ""
    node: str = ""
    time_left: str = ""
    name: str = ""
    script: str = ""

    def trains_in(self, run_folder: Path) -> bool:
        """Return whether the job trains the run in the folder `run_folder`. A different copy of the
        project may have a run with the same name.

        Two runs with the same name are distinguished by the path of the job's script, because
        submitit writes the script below the folder of the run.
        """
        # Slurm may print either form if a part of the path is a link.
        folders = (run_folder.absolute() / JOB_FILES_NAME, run_folder.resolve() / JOB_FILES_NAME)
        # If the queue does not show the path of the script, the name alone decides.
        return self.name == run_folder.name and (
            not self.script.startswith("/") or Path(self.script).parent in folders
        )

    @property
    def is_alive(self) -> bool:
        """Whether the job has not ended: it runs, waits, or is held."""
        return self.state != "ended"


class JobQueue(Protocol):
    """The methods that a queue must have. Messages contain `title`, the name of the queue, and
    `queue_command`, the command that lists the jobs of the queue.
    """

    title: str
    queue_command: str

    def is_here(self) -> bool:
        """Return whether this machine has the queue's commands."""
        ...

    def find(self, name: str | None = None) -> list[QueuedJob]:
        """Return this user's jobs with the name `name`, or all jobs of this user, oldest first. A
        job that has ended is included as long as the queue lists it.

        Raises:
            QueueError: if the queue does not answer, so that the states of the jobs are unknown.
        """
        ...

    def cancel(self, name: str) -> None:
        """End this user's jobs with the name `name`. It is not an error if no job has the name.

        Raises:
            QueueError: if the queue's command is missing or fails.
        """
        ...

    def cancel_command(self, *, name: str = "", jobs: tuple[str, ...] = ()) -> str:
        """Return the command that cancels the jobs with a name or with these numbers."""
        ...


# The key is the launcher that submits jobs to the queue. Launchers that are not in it start
# processes on this machine.
Queues = Mapping[str, JobQueue]
