"""A copy of the code that a job runs, taken when it is submitted: it may wait for days, and the checkout moves on.

The copies of a runs folder lie in `<runs folder>/code/<digest>/`, each named for its content and shared by all runs
that were submitted with it. They are never changed; a folder that no run's jobs.jsonl names may be deleted. A run keeps
its code, whatever becomes of the checkout.
"""

import hashlib
import logging
import os
import pickle
import shutil
import subprocess
import sys
from pathlib import Path

import msgspec

from aiayn.launch.job import TrainingJob
from aiayn.provenance import partial_path_of, remove_abandoned, replace_on_success
from aiayn.runs import attempts
from aiayn.runs.jobs import SubmittedJob, read_jobs, read_rank_errors
from aiayn.train.request import TrainingRequest

PACKAGES = ("aiayn", "aiayn_fairseq")  # all of ours that a job imports
_SOURCE_FOLDER = Path(__file__).resolve().parents[2]
_DIGEST_LENGTH = 16
logger = logging.getLogger(__name__)
_READ_TIMEOUT_SECONDS = 60.0


def snapshot_folder(runs_folder: Path, source_folder: Path = _SOURCE_FOLDER) -> Path:
    """Return where the copy of the code as it now is belongs; it may not be there yet."""
    return _place(runs_folder, _read_sources(source_folder))


def take_snapshot(runs_folder: Path, source_folder: Path = _SOURCE_FOLDER) -> Path:
    """Copy the code, unless that copy is there, and return its folder, which is to stand first in PYTHONPATH.

    The folder is whole or absent; a file that somebody changed or removed in it (a scratch disk is swept) is put back.
    """
    content_by_name = _read_sources(source_folder)
    folder = _place(runs_folder, content_by_name)
    if folder.is_dir():
        for name, content in content_by_name.items():
            if not _holds(folder / name, content):
                with replace_on_success(folder / name) as partial_path:
                    partial_path.write_bytes(content)
        return folder
    folder.parent.mkdir(parents=True, exist_ok=True)
    remove_abandoned(folder)
    partial_folder = partial_path_of(folder)
    try:
        for name, content in content_by_name.items():
            path = partial_folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            with path.open("wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
        try:
            partial_folder.rename(folder)
        except OSError:
            if not folder.is_dir():  # else another driver was faster, with the same content
                raise
    finally:
        shutil.rmtree(partial_folder, ignore_errors=True)
    return folder


def is_whole(folder: Path) -> bool:
    """Return whether a copy is there as it was taken: its name tells what it must hold."""
    return folder.is_dir() and _place(folder.parents[1], _read_sources(folder)).name == folder.name


def _read_sources(source_folder: Path) -> dict[str, bytes]:
    """Return the content of every module by its path below the folder: read at once, so that copy and name agree."""
    paths = (path for package in PACKAGES for path in (source_folder / package).rglob("*.py"))
    return {path.relative_to(source_folder).as_posix(): path.read_bytes() for path in sorted(paths)}


def _place(runs_folder: Path, content_by_name: dict[str, bytes]) -> Path:
    digest = hashlib.sha256()
    for name, content in content_by_name.items():
        digest.update(f"{name}\0{len(content)}\0".encode() + content)
    return runs_folder.absolute() / attempts.CODE_FOLDER_NAME / digest.hexdigest()[:_DIGEST_LENGTH]


def _holds(path: Path, content: bytes) -> bool:
    return path.is_file() and path.read_bytes() == content


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
    if read_rank_errors(run_folder) or (isinstance(last, attempts.Ended) and last.outcome == "failed"):
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
