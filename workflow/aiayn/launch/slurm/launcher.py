"""Submits the jobs of a training to Slurm through submitit, with the settings in the file of a
cluster, and reports how the jobs ended.

Slurm's accounting (sacct) is never read, because its data are late and may be unavailable for
hours.
"""

import contextlib
import io
import os
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from aiayn.errors import LaunchError
from aiayn.launch.job import TrainingJob, job_variables
from aiayn.launch.launcher import JobEnd, SubmissionError
from aiayn.launch.slurm.nodes import explain_refusal
from aiayn.launch.slurm.prologue import prologue_failure, prologue_lines
from aiayn.launch.slurm.queue import SlurmError, SlurmQueue, is_held_by_slurm, run_slurm
from aiayn.runs.queue import QueuedJob
from aiayn.spec.cluster import ClusterSpec
from aiayn.train.request import TrainingRequest

# How often a job is released that Slurm itself holds.
MAX_RELEASES = 3
# What sbatch prints when it may accept the same job later: the controller does not answer, or the
# user has the maximum number of jobs (`AssocMaxSubmitJobLimit`, `QOSMaxSubmitJobPerUserLimit`). For
# a limit that the job itself exceeds it prints other words.
_PASSING_WORDS = re.compile(
    "unable to contact slurm controller|socket timed out|connection (refused|reset|timed out)|zero"
    " bytes were trans"
    r"|temporarily un|in standby mode|\b(assoc|qos)\w*submitjob",
    re.IGNORECASE,
)
# submitit counts how often a job reached its time limit. Our own limit is `max_num_jobs`.
_MANY_TIMEOUTS = 10**6
# A driver may itself run in a job, or in a shell with variables that sbatch reads before the file.
# The settings of the cluster's file must win. Only the user's default partition, account and QoS
# count, if the file does not set them.
_FOREIGN_PREFIXES = ("SLURM_", "SBATCH_", "SRUN_", "SUBMITIT_")
_FOREIGN_NAMES = ("MASTER_ADDR", "MASTER_PORT", "RANK", "WORLD_SIZE", "LOCAL_RANK")
# These variables select the Slurm and the user. squeue, scontrol and scancel see them, so sbatch
# must, too.
_SLURMS_OWN_NAMES = frozenset({"SLURM_CONF", "SLURM_CLUSTERS", "SLURM_JWT"})


class SlurmLauncher(SlurmQueue):
    """Submits the Slurm jobs of one training, to the nodes that the file of a cluster describes."""

    name = "slurm"
    is_remote = True
    has_code_copies = True

    def __init__(self, request: TrainingRequest, cluster: ClusterSpec | None) -> None:
        if cluster is None:
            raise LaunchError(
                f"{request.run}: the launcher slurm needs a cluster's file; add `--cluster NAME`"
            )
        self._request, self._cluster = request, cluster
        self._num_releases = 0
        self.poll_seconds = cluster.poll_seconds

    def submit(self, request: TrainingRequest, code_folder: Path | None) -> str:
        """Submit a job and return its number.

        Raises:
            SubmissionError: if sbatch fails or does not get an answer. Slurm may have taken the job
                all the same, so look into the queue before you submit again.
        """
        cluster = self._cluster
        folder = code_folder or Path()
        request = msgspec.structs.replace(
            request,
            max_num_jobs=cluster.max_num_jobs,
            gpus_per_node=cluster.gpus_per_node,
            code_folder=str(folder),
        )
        try:
            # submitit prints what sbatch prints. The error contains it, too.
            with without_foreign_variables(cluster), contextlib.redirect_stderr(io.StringIO()):
                executor = _make_executor(request, cluster, folder)
                return str(executor.submit(TrainingJob(request)).job_id)
        except (OSError, RuntimeError) as error:
            # A full queue or a busy controller may accept the same job later. A wrong option is
            # never accepted.
            is_passing = _PASSING_WORDS.search(str(error)) is not None
            reason = str(error) or "it printed nothing"
            explained = "" if is_passing else explain_refusal(reason, cluster)
            raise SubmissionError(
                f"{request.run}: sbatch failed: {reason}{'; ' if explained else ''}{explained}",
                is_passing=is_passing,
            ) from error

    def preview(self, request: TrainingRequest, code_folder: Path) -> str:
        """Return the text of the file that sbatch would get."""
        return sbatch_text(request, self._cluster, code_folder)

    def tend(self, queued: QueuedJob) -> str:
        """Release a job that Slurm itself holds, at most MAX_RELEASES times."""
        if not is_held_by_slurm(queued) or self._num_releases >= MAX_RELEASES:
            return ""
        # Counted even if the release fails, so that the number of tries is limited.
        self._num_releases += 1
        # If the release fails, the driver's next look at the queue tries again. After MAX_RELEASES
        # tries the driver only logs the state of the job.
        result = "released"
        try:
            run_slurm(["scontrol", "release", queued.job])
        except SlurmError as error:
            result = f"not released ({error.reason})"
        tries = f"{self._num_releases} of {MAX_RELEASES}"
        return f"Slurm could not launch job {queued.job} and holds it: {result}, {tries}"

    def outcome(self, job: str, queued: QueuedJob | None) -> JobEnd:
        """Return how a job ended. If a line of the cluster's prologue failed, `failure` is the
        message that this line left in a file.
        """
        failure = prologue_failure(self._request.folder.job_files_path, job)
        # The queue no longer lists the job, so its end is not known.
        if queued is None:
            return JobEnd(
                job=job, words="is no longer known to squeue" if job else "", failure=failure
            )
        memory_gb = self._cluster.memory_gb_per_node
        advice = (
            "raise memory_gb_per_node in the cluster's file, now"
            f" {'null' if memory_gb is None else memory_gb}"
        )
        # The next job would end in the same way, unless a person gives it more memory.
        has_little = queued.ending == "out of memory"
        return JobEnd(
            job=job,
            ending=queued.ending,
            words=f"ended as {queued.words}",
            failure=failure,
            advice=advice if has_little else "",
        )

    def limit_reached(self, num_jobs: int) -> str:
        """Return a sentence on the cluster's `max_num_jobs` if `num_jobs` has reached it, otherwise
        ''.
        """
        if num_jobs < self._cluster.max_num_jobs:
            return ""
        minutes, name = self._cluster.time_limit_minutes, self._cluster.name
        return f"{num_jobs} jobs of {minutes} minutes, the maximum of cluster {name} (max_num_jobs)"


def sbatch_text(request: TrainingRequest, cluster: ClusterSpec, code_folder: Path) -> str:
    """Return the exact text of the file that sbatch would get for this request. This function does
    not write a file and does not need Slurm.
    """
    executor = _make_executor(request, cluster, code_folder)
    # submitit has no public function that returns this text.
    return str(executor._make_submission_file_text(executor._submitit_command_str, ""))


def _make_executor(request: TrainingRequest, cluster: ClusterSpec, code_folder: Path) -> Any:
    from submitit import SlurmExecutor

    class Executor(SlurmExecutor):  # type: ignore[misc]
        """A submitit executor that does not look for srun, so that a machine without Slurm can
        print the file for sbatch. A submission on a machine without Slurm fails, because sbatch is
        missing.
        """

        @classmethod
        def affinity(cls) -> int:
            return 1

    memory = f"{cluster.memory_gb_per_node}GB" if cluster.memory_gb_per_node else None
    if cluster.memory_gb_per_node == "all":
        # `--mem=0` requests all memory of a node.
        memory = "0"
    executor = Executor(
        folder=request.folder.job_files_path, max_num_timeout=_MANY_TIMEOUTS, python=cluster.python
    )
    executor.update_parameters(
        job_name=request.run,
        partition=cluster.partition,
        account=cluster.account,
        qos=cluster.qos,
        constraint=cluster.constraint,
        # None leaves the option out, and the partition's default counts.
        mem=memory,
        nodes=cluster.num_nodes,
        ntasks_per_node=cluster.ranks_per_node,
        cpus_per_task=cluster.threads_per_rank,
        time=cluster.time_limit_minutes,
        signal_delay_s=cluster.signal_seconds,
        # With `singleton` Slurm runs one of the user's jobs with this name at a time, even if two
        # machines submit them.
        dependency="singleton",
        stderr_to_stdout=True,
        setup=_setup_lines(request, cluster, code_folder),
        srun_args=[
            # A rank that fails ends the others.
            "--kill-on-bad-exit=1",
            # srun does not inherit this value from sbatch since Slurm 22.05.
            f"--cpus-per-task={cluster.threads_per_rank}",
            "--open-mode=append",
            *(
                f"--{name.replace('_', '-')}{'=' if value else ''}{value}"
                for name, value in cluster.srun_options.items()
            ),
        ],
        additional_parameters=_further_options(cluster),
    )
    return executor


def _further_options(cluster: ClusterSpec) -> dict[str, Any]:
    """Return the options of sbatch for which submitit does not have an argument, and the options
    that the file of the cluster adds.
    """
    options: dict[str, Any] = {
        # A requeued job keeps its number and its logs. The reason of its first end must not be
        # overwritten.
        "requeue": True,
        "open-mode": "append",
        # Explicit, because submitit would take the signal from SUBMITIT_PREEMPT_SIGNAL.
        "signal": f"USR2@{cluster.signal_seconds}",
    }
    if cluster.gpus_per_node and cluster.gpu_request != "none":
        kind = f"{cluster.gpu_type}:" if cluster.gpu_type else ""
        gpus = f"{kind}{cluster.gpus_per_node}"
        # `--gres=gpu:a100:8`, but `--gpus-per-node=a100:8`.
        options[cluster.gpu_request] = f"gpu:{gpus}" if cluster.gpu_request == "gres" else gpus
    return options | {
        name: True if value == "" else value for name, value in cluster.sbatch_lines.items()
    }


def _setup_lines(request: TrainingRequest, cluster: ClusterSpec, code_folder: Path) -> list[str]:
    """Return the shell lines that run before Python: first the cluster's prologue, then our
    environment variables, so that the prologue cannot change these variables.
    """
    variables = job_variables(request, is_on_cpu=cluster.gpus_per_node == 0) | {
        "PYTHONSAFEPATH": "1"
    }
    exports = [f"export {name}={shlex.quote(value)}" for name, value in variables.items()]
    # The copy of the code comes first. What the prologue added to PYTHONPATH stays after it.
    path_line = f"export PYTHONPATH={shlex.quote(str(code_folder))}${{PYTHONPATH:+:$PYTHONPATH}}"
    return [*prologue_lines(cluster, request.folder.job_files_path), *exports, path_line]


@contextlib.contextmanager
def without_foreign_variables(cluster: ClusterSpec) -> Iterator[None]:
    """Hide environment variables from sbatch that would override the settings in the file of the
    cluster.

    If this process itself runs in a Slurm job, the variables that describe this job are hidden,
    too.
    """
    # SBATCH_PARTITION, for example, is the user's default if the cluster's file has no partition.
    kept_names = _SLURMS_OWN_NAMES | {
        f"SBATCH_{name.upper()}"
        for name in ("partition", "account", "qos")
        if getattr(cluster, name) is None
    }
    # A driver that runs in a job has that job's nodes and tasks in its environment.
    names = [
        name
        for name in os.environ
        if (name.startswith(_FOREIGN_PREFIXES) or name in _FOREIGN_NAMES) and name not in kept_names
    ]
    hidden = {name: os.environ.pop(name) for name in names}
    try:
        yield
    finally:
        os.environ.update(hidden)
