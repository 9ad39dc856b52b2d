"""The jobs that drivers submitted for a run: `jobs.jsonl` in its folder, append-only, one line a job.

Only a driver writes it, under its lock; what the job itself did stands in attempts.jsonl, which only rank 0 writes.
"""

from pathlib import Path
from typing import Literal

import msgspec

from aiayn.json_lines import append_json_line, read_json_lines

JOBS_NAME = "jobs.jsonl"
Launcher = Literal["local", "debug", "slurm"]
LAUNCHERS: tuple[Launcher, ...] = ("local", "debug", "slurm")


class SubmittedJob(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A job as it was submitted at `time` (UTC) by a driver on `host`; `update` is what it was to resume from.

    `launcher` is local, debug or slurm; `code_folder` holds the copy of the code that the job runs, '' for debug. Both
    it and `commit` are '' if the driver was killed before it could tell, and the next one found the job in the queue.
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
    """Return all jobs in order; none if nothing was submitted. A torn last line is left out.

    Raises:
        RecordError: naming the line, if any other line is not a job.
    """
    return read_json_lines(run_folder / JOBS_NAME, SubmittedJob, "a job")


def append_job(run_folder: Path, job: SubmittedJob) -> None:
    """Append one job and bring it to the disk; a torn line before it is dropped."""
    append_json_line(run_folder / JOBS_NAME, job)
