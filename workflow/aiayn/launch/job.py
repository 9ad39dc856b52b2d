"""Defines the job that submitit pickles: its environment variables, its files, and the function
that the process of each rank runs.

submitit imports this module from the copy of the code that was made when the job was submitted.
torch is imported only inside the job, so that the driver starts fast.
"""

import importlib
import logging
import os
import pkgutil
import platform
import signal
from pathlib import Path

import aiayn
from aiayn.engine_import import engine_import
from aiayn.errors import LaunchError
from aiayn.machine import list_gpus
from aiayn.runs.run_folder import RunFolder
from aiayn.train.request import StopFlag, TrainingRequest

logger = logging.getLogger(__name__)
# By default glibc returns the memory of freed tensors to the system. Each update would then fault
# the pages in again.
ALLOCATOR_ENVIRONMENT = {"MALLOC_MMAP_MAX_": "0", "MALLOC_TRIM_THRESHOLD_": str(1 << 40)}
# The shapes of batches change at every update. Without this setting torch's allocator on a GPU
# keeps a block for each size, and the memory becomes fragmented.
GPU_ALLOCATOR = "expandable_segments:True"
# torch reads both variables. The second has the older name.
GPU_ALLOCATOR_NAMES = ("PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF")
# The module with the functions that jobs of a cluster need, by submitit's name of the cluster.
SURROUNDINGS = {"slurm": "aiayn.launch.slurm.job"}


class TrainingJob:
    """A training as a callable object, which submitit pickles and calls in each process of the job.

    `visible_gpus` is the value of CUDA_VISIBLE_DEVICES in the driver (the process that submits the
    job). submitit would overwrite this value in a local job, because it numbers GPUs from 0. On a
    cluster `visible_gpus` is not used, because the cluster chooses the GPUs.
    """

    def __init__(self, request: TrainingRequest) -> None:
        self.request = request
        # Read in the driver, when the job is made. `LocalLauncher.submit` sets the variable around
        # this call.
        self.visible_gpus = os.environ.get("CUDA_VISIBLE_DEVICES")

    def __call__(self) -> None:
        """Train in this process. torch and fairseq are imported only here."""
        # First of all, because a signal may come during the imports, which take seconds.
        with StopFlag().installed() as stop:
            self._train(stop)
        # With `debug` this is the driver's process. It has its own handler back, and must end, too.
        if stop.signal_number is not None and _is_in_driver():
            signal.raise_signal(stop.signal_number)

    def _train(self, stop: StopFlag) -> None:
        import submitit

        # submitit recognises by environment variables where it runs: under Slurm, on this machine,
        # or in the driver's process.
        environment = submitit.JobEnvironment()
        surroundings = SURROUNDINGS.get(environment.name())
        remote = importlib.import_module(surroundings) if surroundings else None
        if remote:
            # Variables for GPUs must be set before torch is imported.
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

                work = pkgutil.resolve_name(self.request.work)
        # The next job would fail in the same way, so the error is recorded for the driver.
        except Exception as error:
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
            # submitit's debug job would open the debugger pdb, and wait at its prompt.
            logger.exception(f"{self.request.run}: failed")
        # Only a queue can start the job again, and only after all ranks have agreed to stop and
        # have saved.
        if remote is None or rank.rank != 0 or stop.agreed is None:
            return
        # Only rank 0 requeues the job. Otherwise each rank would requeue it.
        if remote.is_to_continue(rank.job, stop.agreed):
            job_number = self.request.num_earlier_jobs + num_restarts + 1
            remote.continue_later(self.request, rank.job, job_number)


def choose_gpu_variables() -> None:
    """Set environment variables so that torch's GPU allocator grows its blocks of memory and NCCL
    prints the reason of a failure. Environment variables that the user has set are not changed.
    Call this function before torch is imported.

    torch's allocator cannot grow its blocks on a MIG slice (a part of a GPU): it fails with
    `NVML_SUCCESS == r INTERNAL ASSERT FAILED` (pytorch issue 197312).
    """
    is_chosen = any(name in os.environ for name in GPU_ALLOCATOR_NAMES)
    if not is_chosen and not any(gpu.uuid.startswith("MIG-") for gpu in list_gpus()):
        os.environ[GPU_ALLOCATOR_NAMES[0]] = GPU_ALLOCATOR
    os.environ.setdefault("NCCL_DEBUG", "WARN")


def require_own_code(code_folder: str | None) -> None:
    """Require that this code was imported from `code_folder`, the copy of the code that was made
    when the job was submitted. If `code_folder` is None, nothing is checked.

    Raises:
        LaunchError: if this code was imported from a different folder. The message contains both
            folders.
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
    """Return whether this job runs in its driver's process, as the launcher `debug` starts it."""
    import submitit

    return bool(submitit.JobEnvironment().name() == "debug")


def job_variables(request: TrainingRequest, *, is_on_cpu: bool) -> dict[str, str]:
    """Return the environment variables that a job must have before it starts."""
    variables = {"AIAYN_COMMIT": request.commit, "OMP_NUM_THREADS": str(request.threads_per_rank)}
    return variables | ALLOCATOR_ENVIRONMENT if is_on_cpu else variables


def recover_submission(folder: RunFolder, job: str) -> None:
    """Rename the file with the pickled training of a job, so that submitit finds the file by the
    job's number.

    Call this function if the submission was interrupted before it returned the job's number. The
    file of the job is the newest pickle without a number in its name. A job fails if the renamed
    file does not appear within a minute.
    """
    # The name under which submitit, in the job, looks for its training.
    named_path = folder.job_files_path / f"{job}_submitted.pkl"
    newest_path = max(
        _unnumbered_pickles(folder), key=lambda path: path.stat().st_mtime_ns, default=None
    )
    # submitit itself may have finished the renaming before the driver was killed.
    if newest_path is not None and not named_path.exists():
        newest_path.rename(named_path)


def clean_submissions(folder: RunFolder) -> None:
    """Remove the files of failed submissions, because a driver may repeat a submission for days."""
    for path in _unnumbered_pickles(folder):
        path.unlink()
    for path in folder.job_files_path.glob(".submission_file_*.sh"):
        # A link leads to the file of a job: submitit leaves it when it gives the file its number.
        if not path.is_symlink():
            path.unlink()


def _unnumbered_pickles(folder: RunFolder) -> list[Path]:
    # submitit writes `<uuid>.pkl`, and renames it to `<job>_submitted.pkl` when it knows the
    # number.
    return [path for path in folder.job_files_path.glob("*.pkl") if "_" not in path.name]
