"""Defines the job that submitit pickles: its environment, its files, and what each rank's process
runs.

submitit imports this module from the copy of the code that was made when the job was submitted.
torch is imported only inside the job, so that the driver starts fast.
"""

import importlib
import logging
import os
import platform
import signal
from collections.abc import Callable
from pathlib import Path

import aiayn
from aiayn.engine_import import engine_import
from aiayn.errors import LaunchError
from aiayn.machine import list_gpus
from aiayn.runs.run_folder import RunFolder
from aiayn.train.request import StopFlag, TrainingRequest

logger = logging.getLogger(__name__)
# By default glibc gives freed tensors back to the system, and faults their pages in again at every
# update.
ALLOCATOR_ENVIRONMENT = {"MALLOC_MMAP_MAX_": "0", "MALLOC_TRIM_THRESHOLD_": str(1 << 40)}
# Shapes change at every update: without it torch's allocator on a GPU keeps a block for each size,
# in fragments.
GPU_ALLOCATOR = "expandable_segments:True"
GPU_ALLOCATOR_NAMES = (
    "PYTORCH_ALLOC_CONF",
    "PYTORCH_CUDA_ALLOC_CONF",
)  # torch reads both. The second is the older name
SURROUNDINGS = {
    "slurm": "aiayn.launch.slurm.job"
}  # what jobs need there, by submitit's name of the place


class TrainingJob:
    """What submitit pickles: calling it trains, in the job's process.

    `visible_gpus` is the driver's choice of GPUs (CUDA_VISIBLE_DEVICES), which `local` would
    renumber. A cluster sets its own.
    """

    def __init__(self, request: TrainingRequest) -> None:
        self.request = request
        # Read when the job is made, in the driver. `LocalLauncher.submit` sets it around this call.
        self.visible_gpus = os.environ.get("CUDA_VISIBLE_DEVICES")

    def __call__(self) -> None:
        """Train. The engine is imported only here."""
        with StopFlag().installed() as stop:  # first of all: the imports take seconds
            self._train(stop)
        if stop.signal_number is not None and _is_in_driver():
            signal.raise_signal(
                stop.signal_number
            )  # the driver has its handler back, and must end too

    def load_work(self) -> Callable[..., None]:
        """Import what each rank does: a function of the request, the rank and the stop flag."""
        from aiayn.train.train import train_rank

        return train_rank

    def _train(self, stop: StopFlag) -> None:
        import submitit

        # submitit knows the place by its variables: Slurm, this machine, or the driver's process.
        environment = submitit.JobEnvironment()
        surroundings = SURROUNDINGS.get(environment.name())
        remote = importlib.import_module(surroundings) if surroundings else None
        if remote:
            remote.prepare(self.request, environment)
        elif self.visible_gpus is not None and self.request.training.device != "cpu":
            os.environ["CUDA_VISIBLE_DEVICES"] = self.visible_gpus
        choose_gpu_variables()
        try:
            if remote:
                require_own_code(self.request.code_folder)
            address = remote.own_address(environment) if remote else None
            with engine_import():
                from aiayn.train.ranks import Rank

                work = self.load_work()
        except Exception as error:  # the next job would repeat it
            self.request.folder.record_rank_error(environment.global_rank, error)
            raise
        num_restarts = remote.num_restarts() if remote else 0
        rank = Rank(
            rank=environment.global_rank,
            world_size=environment.num_tasks,
            job=str(environment.job_id),
            local_rank=environment.local_rank,
            num_restarts=num_restarts,
            node_address=address,
        )
        try:
            work(self.request, rank, stop)
        except Exception:
            if not _is_in_driver():
                raise
            logger.exception(
                f"{self.request.run}: failed"
            )  # submitit would open a debugger and wait at its prompt
        # Only a queue can start the job again, and only after a stop on which all ranks agreed and
        # saved.
        if remote is None or rank.rank != 0 or stop.agreed is None:
            return
        # Rank 0 speaks for all: a job that each rank requeued would be requeued several times.
        if remote.is_to_continue(rank.job, stop.agreed):
            job_number = self.request.num_earlier_jobs + num_restarts + 1
            remote.continue_later(self.request, rank.job, job_number)


class TrialJob(TrainingJob):
    """A job that tries a node on made-up data."""

    def load_work(self) -> Callable[..., None]:
        """Import what each rank does.

        Each training of a trial is a fork, so that this process must not ask CUDA for its GPUs.
        """
        os.environ.setdefault("PYTORCH_NVML_BASED_CUDA_CHECK", "1")
        from aiayn.train.trial import try_node

        return try_node


def choose_gpu_variables() -> None:
    """Let torch's allocator on a GPU grow its blocks, and NCCL say why it fails, unless the user
    chose otherwise. Before torch is imported.

    The allocator cannot grow blocks on a MIG slice: it fails with `NVML_SUCCESS == r INTERNAL
    ASSERT FAILED` (pytorch issue 197312).
    """
    is_chosen = any(name in os.environ for name in GPU_ALLOCATOR_NAMES)
    if not is_chosen and not any(gpu.uuid.startswith("MIG-") for gpu in list_gpus()):
        os.environ[GPU_ALLOCATOR_NAMES[0]] = GPU_ALLOCATOR
    os.environ.setdefault("NCCL_DEBUG", "WARN")


def require_own_code(code_folder: str | None) -> None:
    """Require that this code is the copy that was taken when the job was submitted; None: unknown.

    Raises:
        LaunchError: naming both.
    """
    imported_path = Path(aiayn.__file__).resolve()
    if code_folder is not None and not imported_path.is_relative_to(Path(code_folder).resolve()):
        raise LaunchError(
            f"{platform.node()}: aiayn was imported from {imported_path.parent}, expected from"
            f" {code_folder}, the copy of the code that this run was submitted with; let PYTHONPATH"
            " reach Python in the container (pyxis: `srun_options: {container-env: PYTHONPATH}`,"
            " Apptainer: `--env PYTHONPATH=$PYTHONPATH`), and mount the runs folder there"
        )


def _is_in_driver() -> bool:
    """Return whether this job runs in its driver's process, by the `debug` launcher."""
    import submitit

    return bool(submitit.JobEnvironment().name() == "debug")


def job_variables(request: TrainingRequest, *, is_on_cpu: bool) -> dict[str, str]:
    """Return the environment variables of a job."""
    variables = {"AIAYN_COMMIT": request.commit, "OMP_NUM_THREADS": str(request.threads_per_rank)}
    return variables | ALLOCATOR_ENVIRONMENT if is_on_cpu else variables


def recover_submission(folder: RunFolder, job: str) -> None:
    """Rename the pickled training of a job whose number got lost, so that submitit finds it by the
    number.

    The submission was interrupted before it returned the job's number. The job's training is the
    newest pickle without a number. The job waits a minute for the renamed file, then fails.
    """
    named_path = folder.job_files_path / f"{job}_submitted.pkl"
    newest_path = max(
        _unnumbered_pickles(folder), key=lambda path: path.stat().st_mtime_ns, default=None
    )
    # submitit itself may have finished the renaming before the driver was killed.
    if newest_path is not None and not named_path.exists():
        newest_path.rename(named_path)


def clean_submissions(folder: RunFolder) -> None:
    """Remove the files of failed submissions: a driver may try for days."""
    for path in _unnumbered_pickles(folder):
        path.unlink()
    for path in folder.job_files_path.glob(".submission_file_*.sh"):
        if not path.is_symlink():  # which leads to a job's own
            path.unlink()


def _unnumbered_pickles(folder: RunFolder) -> list[Path]:
    return [path for path in folder.job_files_path.glob("*.pkl") if "_" not in path.name]
