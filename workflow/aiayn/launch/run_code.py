"""Which copy of the code a run's next job is to run: a run keeps its code, whatever becomes of the checkout."""

import logging
import os
import pickle
import subprocess
import sys
from pathlib import Path

import msgspec

from aiayn.launch.code_snapshot import is_whole, snapshot_folder, take_snapshot
from aiayn.launch.job import TrainingJob, TrainingRequest
from aiayn.runs import attempts
from aiayn.runs.jobs import SubmittedJob, read_jobs
from aiayn.runs.rank_errors import noted_errors

logger = logging.getLogger(__name__)
_READ_TIMEOUT_SECONDS = 60.0


class RunCode(msgspec.Struct, frozen=True, kw_only=True):
    """A copy of the code, to stand first in PYTHONPATH, and the commit that it is of."""

    folder: Path
    commit: str


def choose_code(request: TrainingRequest) -> RunCode:
    """Return the code that the next job of a run is to run, and say so if it is not the present one.

    A run that has a checkpoint goes on with the code of its newest job, also under a later driver: else some of its
    updates would be made by one code and some by another, and no commit would say what made its tensors. There are
    three exceptions, each said: a run that failed takes the present code, as the error may have been in the old one,
    with which it would be met again; so does one whose copy is no longer whole, and one whose copy cannot read what
    this driver sends. `aiayn train --fresh` begins anew, with the present code.
    """
    runs_folder = request.folder.parent
    return _kept_code(request) or RunCode(folder=take_snapshot(runs_folder), commit=request.commit)


def foresee_code(request: TrainingRequest, *, fresh: bool = False) -> RunCode:
    """Return what `choose_code` would, without a copy of the present code; `fresh` is as if the run were set aside."""
    kept = None if fresh else _kept_code(request)
    return kept or RunCode(folder=snapshot_folder(request.folder.parent), commit=request.commit)


def _kept_code(request: TrainingRequest) -> RunCode | None:
    """Return the earlier code that a run goes on with, None for the present."""
    run_folder = request.folder
    earlier = [job for job in read_jobs(run_folder) if job.code_folder]
    if earlier and attempts.newest_update(run_folder) and earlier[-1].code_folder != _present_folder(run_folder):
        job = earlier[-1]
        reason = _reason_against(request, job)
        named = f"the code of its job {job.job} (commit {job.commit[:12] or 'unknown'}, {job.code_folder})"
        if not reason:
            logger.info(f"{request.run}: goes on with {named}, not the present; `--fresh` begins anew with that")
            return RunCode(folder=Path(job.code_folder), commit=job.commit)
        logger.warning(f"{request.run}: goes on with the present code, not {named}: {reason}")
    return None


def _present_folder(run_folder: Path) -> str:
    return str(snapshot_folder(run_folder.parent))


def _reason_against(request: TrainingRequest, job: SubmittedJob) -> str:
    """Return why a run cannot go on with the code of an earlier job, '' if it can."""
    run_folder = request.folder
    events = attempts.read_events(run_folder)
    last = events[-1] if events else None
    if noted_errors(run_folder) or (isinstance(last, attempts.Ended) and last.outcome == "failed"):
        return "the run failed with it"
    if not is_whole(Path(job.code_folder)):
        return "that copy is no longer whole"
    return "" if _can_read(Path(job.code_folder), request) else "it does not understand what this driver sends"


def _can_read(code_folder: Path, request: TrainingRequest) -> bool:
    """Return whether a copy of the code can unpickle a request of the present code: their fields may differ."""
    paths = [str(code_folder), *filter(None, [os.environ.get("PYTHONPATH")])]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths), "PYTHONSAFEPATH": "1"}
    command = [sys.executable, "-c", "import pickle, sys; pickle.load(sys.stdin.buffer)"]
    try:
        answer = subprocess.run(
            command, input=pickle.dumps(TrainingJob(request)), capture_output=True, check=False, env=environment,
            timeout=_READ_TIMEOUT_SECONDS,
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired):
        return False
    return answer.returncode == 0
