"""What a job prints before its attempt begins: all there is of one that died of its prologue or of an import.

Once rank 0 has noted its attempt in attempts.jsonl, what it says goes to the run's log.
"""

from collections.abc import Sequence
from pathlib import Path

from aiayn.runs.attempts import Event, Started
from aiayn.runs.jobs import SubmittedJob

_FOLDER_NAME = "submitit"


def unbegun_job(events: Sequence[Event], jobs: Sequence[SubmittedJob]) -> SubmittedJob | None:
    """Return the newest job if it was submitted after all that attempts.jsonl tells of."""
    if not jobs:
        return None
    newest = next((event for event in reversed(events) if isinstance(event, Started)), None)
    is_newer = newest is None or (jobs[-1].job != newest.job and jobs[-1].time >= newest.time)
    return jobs[-1] if is_newer else None


def output_path(run_folder: Path, job: str) -> Path:
    """Return the file into which rank 0 of a job prints, and on Slurm the sbatch file before it; it may not be there.

    It is known without a look into the folder, which on a shared file system is slow.
    """
    return run_folder / _FOLDER_NAME / f"{job}_0_log.out"


def newest_output(run_folder: Path) -> Path | None:
    """Return the file into which any rank of any job printed last."""
    outputs = (run_folder / _FOLDER_NAME).glob("*_log.out")
    return max(outputs, key=lambda path: path.stat().st_mtime, default=None)
