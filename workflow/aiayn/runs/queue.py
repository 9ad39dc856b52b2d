"""Defines the jobs of a queue, and the protocol by which runs list and cancel them.

The queues themselves are in `aiayn.launch`.
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
    """A queue did not answer, for a `reason`."""

    def __init__(self, message: str, *, reason: str) -> None:
        super().__init__(message)
        self.reason = reason


class QueuedJob(msgspec.Struct, frozen=True, kw_only=True):
    """A job as its queue shows it: it waits, runs or has ended. An ended job is shown for some
    minutes.

    `reason` says why the job waits, or what keeps it from running normally. `ending` says how it
    ended. `words` is its state in the words of the queue. A job that `is_stuck` waits until a
    person releases it. `advice` says what the user can do for a job that may wait for ever. `node`
    is empty while it waits. `time_left` is as the queue prints it. `script` is the path of the
    submitted file.
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
        """Return whether the job trains the run in this folder. A different copy of the project may
        have a run of the same name.

        The two runs are distinguished by the path of the job's script, which submitit writes below
        the run's folder.
        """
        # Slurm may print either form if a part of the path is a link.
        folders = (run_folder.absolute() / JOB_FILES_NAME, run_folder.resolve() / JOB_FILES_NAME)
        # If the queue does not show the path of the script, the name alone decides.
        return self.name == run_folder.name and (
            not self.script.startswith("/") or Path(self.script).parent in folders
        )

    @property
    def is_alive(self) -> bool:
        """Whether the job runs, waits, or is held."""
        return self.state != "ended"


class JobQueue(Protocol):
    """The methods that `aiayn.runs` needs of a queue. Messages use `title`, the name of the queue,
    and `queue_command`, the command that lists its jobs.
    """

    title: str
    queue_command: str

    def is_here(self) -> bool:
        """Return whether this machine has the queue's commands."""
        ...

    def find(self, name: str | None = None) -> list[QueuedJob]:
        """Return this user's jobs with a name, or all jobs, oldest first. Ended jobs are included
        as long as the queue lists them.

        Raises:
            QueueError: if the queue does not answer. Whether a job is alive is then unknown.
        """
        ...

    def cancel(self, name: str) -> None:
        """End this user's jobs with a name. It is not an error if there are none.

        Raises:
            QueueError: if the queue's command is missing or fails.
        """
        ...

    def cancel_command(self, *, name: str = "", jobs: tuple[str, ...] = ()) -> str:
        """Return the command that cancels the jobs of a name, or jobs by their numbers."""
        ...


# The key is the launcher that submits jobs to the queue. Launchers that are not in it start
# processes on this machine.
Queues = Mapping[str, JobQueue]
