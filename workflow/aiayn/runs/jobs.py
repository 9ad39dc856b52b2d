"""Records the jobs that drivers submitted for a run and the errors of their ranks, and finds what they printed.

`jobs.jsonl` in the run's folder is append-only, one line a job; only a driver writes it, under its lock. Only rank 0
writes attempts.jsonl. Of a job that failed in its prologue or in an import, its output is the only trace.

When a rank's process ends, the others only see a closed connection. So a rank records its error before it ends, in
`rank5.error`, for rank 0, and for the driver where no attempt began; a rank without such a file was killed.
"""

import platform
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import msgspec

from aiayn.errors import AiaynError
from aiayn.json_lines import append_json_line, read_json_lines
from aiayn.runs.attempts import Event, Started

JOBS_NAME = "jobs.jsonl"
Launcher = Literal["local", "debug", "slurm"]
LAUNCHERS: tuple[Launcher, ...] = ("local", "debug", "slurm")
_FOLDER_NAME = "submitit"
_PATTERN = "rank*.error"


class SubmittedJob(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A job as it was submitted at `time` (UTC) by a driver on `host`, to resume from `update`.

    `launcher` is local, debug or slurm; `code_folder` holds the copy of the code that the job runs, '' for debug. It
    and `commit` are '' if the driver was killed before it recorded the job, which the next found in the queue.
    """

    time: str
    launcher: str
    job: str
    host: str
    num_ranks: int
    update: int
    commit: str
    code_folder: str


def read_jobs(run_folder: Path) -> list[SubmittedJob]:
    """Return all jobs in order; none if nothing was submitted. A torn last line is omitted.

    Raises:
        RecordError: naming the line, if any other line is not a job.
    """
    return read_json_lines(run_folder / JOBS_NAME, SubmittedJob, "a job")


def append_job(run_folder: Path, job: SubmittedJob) -> None:
    """Append one job and bring it to the disk; a torn line before it is dropped."""
    append_json_line(run_folder / JOBS_NAME, job)


def job_without_attempt(events: Sequence[Event], jobs: Sequence[SubmittedJob]) -> SubmittedJob | None:
    """Return the newest job if it was submitted after the newest attempt."""
    if not jobs:
        return None
    newest = next((event for event in reversed(events) if isinstance(event, Started)), None)
    is_newer = newest is None or (jobs[-1].job != newest.job and jobs[-1].time >= newest.time)
    return jobs[-1] if is_newer else None


def output_path(run_folder: Path, job: str) -> Path:
    """Return the file into which rank 0 of a job prints, and on Slurm the sbatch file before it; it may not exist.

    It is computed without listing the folder, which is slow on a shared file system.
    """
    return run_folder / _FOLDER_NAME / f"{job}_0_log.out"


def newest_output(run_folder: Path) -> Path | None:
    """Return the file into which any rank of any job printed last."""
    outputs = (run_folder / _FOLDER_NAME).glob("*_log.out")
    return max(outputs, key=lambda path: path.stat().st_mtime, default=None)


def describe_error(error: BaseException) -> str:
    """Return an error in one line: the message of our own errors, type and message of others."""
    return str(error) if isinstance(error, AiaynError) else f"{type(error).__name__}: {error}"


def describe_rank_error(index: int, error: BaseException) -> str:
    """Return a rank's error with its host: a disk may be full on one host only."""
    return f"rank {index} on {platform.node()}: {describe_error(error)}"


def record_rank_error(run_folder: Path, index: int, error: BaseException) -> None:
    """Record a rank's error, with its traceback."""
    text = describe_rank_error(index, error)
    trace = "".join(traceback.format_exception(error))
    (run_folder / f"rank{index}.error").write_text(f"{text}\n\n{trace}", encoding="utf-8", newline="\n")


def read_rank_errors(run_folder: Path) -> list[str]:
    """Return the recorded errors of the ranks, the earliest first, without tracebacks."""
    paths = sorted(run_folder.glob(_PATTERN), key=lambda path: path.stat().st_mtime_ns)
    return [path.read_text(encoding="utf-8", errors="replace").partition("\n\n")[0] for path in paths]


def remove_rank_errors(run_folder: Path) -> None:
    """Remove the recorded errors of an earlier job's ranks."""
    for path in run_folder.glob(_PATTERN):
        path.unlink(missing_ok=True)
