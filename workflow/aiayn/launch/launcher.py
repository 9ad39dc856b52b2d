"""Defines the protocol `Launcher`, by which a driver (the process that submits the jobs of a
training) starts and watches jobs, and lists all launchers. A launcher's module is imported when the
launcher is used.

To add a launcher for a different batch system, write a package next to `launch/slurm` with three
files (the launcher, the queue, and the functions that run inside a job). To register the new
launcher, add a line to each of LAUNCHERS, _QUEUES and `aiayn.launch.job.SURROUNDINGS`.
CONTRIBUTING.md has the steps.
"""

import pkgutil
from pathlib import Path
from typing import Literal, Protocol

import msgspec

from aiayn.errors import LaunchError
from aiayn.runs.queue import Ending, JobQueue, QueuedJob, Queues
from aiayn.spec.cluster import ClusterSpec
from aiayn.train.request import TrainingRequest

LauncherName = Literal["local", "debug", "slurm"]
LAUNCHERS = {
    "local": "aiayn.launch.local:LocalLauncher",
    "debug": "aiayn.launch.local:DebugLauncher",
    "slurm": "aiayn.launch.slurm.launcher:SlurmLauncher",
}
_QUEUES = {"slurm": "aiayn.launch.slurm.queue:SlurmQueue"}
# These launchers submit jobs to the queue of a cluster, and need the cluster's file.
CLUSTER_LAUNCHERS = tuple(_QUEUES)


class JobEnd(msgspec.Struct, frozen=True, kw_only=True):
    """How a job ended. `ending` is `unknown` if the launcher cannot tell how the job ended.

    `words` describe the end of the job as the launcher reports it. `failure` is a reason that would
    also end the next job. `advice` says what to change if the job lacked something, such as memory.
    """

    job: str
    ending: Ending | Literal["unknown"] = "unknown"
    words: str = ""
    failure: str = ""
    advice: str = ""


class SubmissionError(LaunchError):
    """The submission of a job failed. `is_passing` says that the same job may be accepted later."""

    def __init__(self, message: str, *, is_passing: bool) -> None:
        super().__init__(message)
        self.is_passing = is_passing


class Launcher(JobQueue, Protocol):
    """Starts and watches the jobs of one training. A launcher that starts processes can inherit the
    methods that have a body here.

    If a launcher `is_remote`, its jobs run on other machines: a job continues when its driver ends,
    its queue may lose it while it runs, and its files appear late. `has_code_copies` says whether a
    job runs a copy of the code. A driver asks for the state of its job every `poll_seconds`.
    """

    name: str
    is_remote: bool
    has_code_copies: bool
    poll_seconds: float

    def submit(self, request: TrainingRequest, code_folder: Path | None) -> str:
        """Submit a job that runs the code in `code_folder`, and return the number of the job.

        Raises:
            SubmissionError: if the submission failed, but the queue may have taken the job all the
                same. Call `find` before submitting again.
            LaunchError: if the job cannot be submitted.
        """
        ...

    def preview(self, request: TrainingRequest, code_folder: Path) -> str:
        """Return the text of the job that `submit` would submit. This method does not write files
        and does not need a queue.
        """
        return ""

    def tend(self, queued: QueuedJob) -> str:
        """Do what a waiting job needs before it can start, for example release a held job. Return a
        sentence for the log on what was done, or '' if nothing was done.
        """
        return ""

    def outcome(self, job: str, queued: QueuedJob | None) -> JobEnd:
        """Return how a job ended. `queued` is the job as `find` returns it, or None if `find` no
        longer returns this job.
        """
        return JobEnd(job=job)

    def limit_reached(self, num_jobs: int) -> str:
        """Return a sentence on the limit that a training has reached with `num_jobs` jobs, or '' if
        a further job may follow.
        """
        return ""


def make_launcher(name: str, request: TrainingRequest, cluster: ClusterSpec | None) -> Launcher:
    """Make the launcher with the name `name`, for the jobs of one training."""
    # Imported by its name, so that a command loads only the launcher that it uses, and submitit
    # only if needed.
    launcher: Launcher = pkgutil.resolve_name(LAUNCHERS[name])(request, cluster)
    return launcher


# By the launcher that submits jobs to the queue. Queues are made without a training, because
# `status` and `cancel` read all of them.
QUEUES: Queues = {name: pkgutil.resolve_name(queue)() for name, queue in _QUEUES.items()}
