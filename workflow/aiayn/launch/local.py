"""Starts jobs on this machine through submitit.

The launcher `local` starts processes, which continue if their driver (the process that started the
job) is killed. The launcher `debug` runs the job in the driver's own process.
"""

import contextlib
import os
import signal
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO, Any

from aiayn.errors import LaunchError
from aiayn.launch.job import TrainingJob, job_variables
from aiayn.launch.launcher import Launcher
from aiayn.launch.local_gpus import lock_gpus
from aiayn.machine import Gpu, list_gpus
from aiayn.runs.clock import STEP_SECONDS
from aiayn.runs.queue import QueuedJob
from aiayn.spec.cluster import ClusterSpec
from aiayn.train.request import TrainingRequest

# By default submitit ends a job of this machine after two minutes. A year stands for no limit.
_NO_LIMIT_MINUTES = 60 * 24 * 365


class LocalLauncher(Launcher):
    """Runs jobs as processes of this machine. The driver that started a job finds it by submitit's
    object, and a later driver finds it by rank 0's lock.
    """

    name = title = "local"
    queue_command = "this machine"
    is_remote = False
    has_code_copies = True
    poll_seconds = STEP_SECONDS

    def __init__(self, request: TrainingRequest, cluster: ClusterSpec | None) -> None:
        self._folder = request.folder
        self._job: Any = None  # submitit's
        self._lock_by_gpu: dict[Gpu, IO[str]] = {}  # of the job's GPUs

    def is_here(self) -> bool:
        """Return True, because every machine can start processes."""
        return True

    def submit(self, request: TrainingRequest, code_folder: Path | None) -> str:
        """Start a job that imports our code from `code_folder`, and return submitit's number of the
        job.

        If this machine has GPUs, each rank gets a GPU that no other run uses. Ctrl-C in the
        terminal reaches only the driver, not the job. When the driver gets Ctrl-C, it sends TERM to
        the job, so that the job can save a checkpoint.

        Raises:
            SubmissionError: if too few GPUs are free now.
            LaunchError: if the machine has fewer GPUs than ranks, or if a process could not be
                started.
        """
        # A training on the CPU must not reserve a GPU.
        gpus = [] if request.training.device == "cpu" else list_gpus()
        self._lock_by_gpu = lock_gpus(gpus, request.num_ranks, request.folder) if gpus else {}
        variables = job_variables(request, is_on_cpu=not gpus)
        if gpus:
            variables["CUDA_VISIBLE_DEVICES"] = ",".join(gpu.uuid for gpu in self._lock_by_gpu)
        if code_folder is not None:
            # PYTHONSAFEPATH keeps Python from importing from the working directory, which may be
            # the checkout, before the copy.
            paths = [str(code_folder), *filter(None, [os.environ.get("PYTHONPATH")])]
            variables |= {"PYTHONPATH": os.pathsep.join(paths), "PYTHONSAFEPATH": "1"}
        try:
            import submitit

            executor = submitit.AutoExecutor(
                folder=request.folder.job_files_path, cluster=self.name
            )
            executor.update_parameters(
                name=request.run,
                timeout_min=_NO_LIMIT_MINUTES,
                tasks_per_node=request.num_ranks,
                # submitit numbers GPUs from 0 in the job. TrainingJob restores the chosen GPUs.
                gpus_per_node=len(self._lock_by_gpu),
                stderr_to_stdout=True,
            )
            with _inherited(variables):
                self._job = executor.submit(TrainingJob(request))
        except (OSError, RuntimeError) as error:
            self._free_gpus()
            raise LaunchError(
                f"{request.run}: the {self.name} launcher could not start a job: {error}"
            ) from error
        return str(self._job.job_id)

    def find(self, name: str | None = None) -> list[QueuedJob]:
        """Return the job that this driver started, running or ended. If this driver has not started
        a job, return the job of an earlier driver that still trains the run.
        """
        run = self._folder.run
        # submitit's debug job runs when it is asked whether it is done.
        if self._job is not None:
            job = str(self._job.job_id)
            state = "ended" if self._job.done() else "running"
            # The end is reported once. After it, `find` looks for a job of a different driver.
            if state == "ended":
                self._job = None
                self._free_gpus()
            return [QueuedJob(job=job, state=state, name=run)]  # type: ignore[arg-type]
        if not self._folder.is_being_trained():
            return []
        # An earlier driver started this job and has ended. The job continues, and its rank 0 holds
        # the lock.
        jobs = self._folder.jobs()
        return [QueuedJob(job=jobs[-1].job if jobs else "", state="running", name=run)]

    def _free_gpus(self) -> None:
        for lock in self._lock_by_gpu.values():
            lock.close()
        self._lock_by_gpu = {}

    def cancel(self, name: str) -> None:
        """Send the signal TERM to submitit's controller process of the job, which passes the signal
        on to every rank.

        Raises:
            LaunchError: if an earlier driver started the job.
        """
        if self._job is None:
            raise LaunchError(f"its job continues; to end it: `{self.cancel_command(name=name)}`")
        # A job of `debug` runs in this process. submitit's own `cancel` sends INT, which the job
        # ignores.
        process = getattr(self._job, "_process", None)
        if process is not None and process.poll() is None:
            process.send_signal(signal.SIGTERM)

    def cancel_command(self, *, name: str = "", jobs: tuple[str, ...] = ()) -> str:
        """Return the command that a user can type to end the jobs of a run."""
        return f"aiayn cancel {name or self._folder.run}"


class DebugLauncher(LocalLauncher):
    """Runs a job in the driver's own process, without a copy of the code."""

    name = title = "debug"
    has_code_copies = False
    # Asking for the state of such a job runs it, so there is nothing to wait for.
    poll_seconds = 0.0

    def submit(self, request: TrainingRequest, code_folder: Path | None) -> str:
        """Prepare the job. The job runs when the driver asks for its state.

        Raises:
            LaunchError: if the job would need several processes.
        """
        if request.num_ranks > 1:
            raise LaunchError(
                f"{request.run}: {request.num_ranks} ranks, but `debug` runs a single process;"
                " use `local`"
            )
        return super().submit(request, code_folder)


@contextlib.contextmanager
def _inherited(variables: Mapping[str, str]) -> Iterator[None]:
    """Let processes that are started in the with block inherit these environment variables and
    ignore the signal INT.
    """
    # submitit has no argument for the environment: its process inherits ours.
    own_value_by_name = {name: os.environ.pop(name, None) for name in variables}
    os.environ.update(variables)
    # Ctrl-C reaches every process of the terminal. A child inherits that INT is ignored. So only
    # the driver acts on it, and sends the job TERM, on which the job saves.
    previous = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, previous)
        for name, value in own_value_by_name.items():
            os.environ.pop(name)
            if value is not None:
                os.environ[name] = value
