"""What every submission of a training has: the pickled job, its environment, and submitit's files in the run's folder.

The driver stays light: only the job imports torch.
"""

from pathlib import Path

from aiayn.launch.job import TrainingJob
from aiayn.runs.run_folder import RunFolder
from aiayn.train.request import TrainingRequest

__all__ = ["ALLOCATOR_ENVIRONMENT", "TrainingJob", "clean_submissions", "job_variables", "recover_submission"]
# By default glibc gives freed tensors back to the system, and faults their pages in again at every update.
ALLOCATOR_ENVIRONMENT = {"MALLOC_MMAP_MAX_": "0", "MALLOC_TRIM_THRESHOLD_": str(1 << 40)}


def job_variables(request: TrainingRequest, *, is_on_cpu: bool) -> dict[str, str]:
    """Return the environment variables of a job."""
    variables = {"AIAYN_COMMIT": request.commit, "OMP_NUM_THREADS": str(request.threads_per_rank)}
    return variables | ALLOCATOR_ENVIRONMENT if is_on_cpu else variables


def recover_submission(folder: RunFolder, job: str) -> None:
    """Name the pickled training of a job whose number its submission did not return: submitit finds it by that number.

    It is the newest pickle without a number. The job waits a minute for it, then fails.
    """
    named_path = folder.job_files_path / f"{job}_submitted.pkl"
    newest_path = max(_unnumbered_pickles(folder), key=lambda path: path.stat().st_mtime_ns, default=None)
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
