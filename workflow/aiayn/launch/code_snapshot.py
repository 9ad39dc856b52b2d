"""Copies the code that a job runs when the job is submitted: it may wait for days while the checkout changes.

The copies of a runs folder are in `<runs folder>/code/<digest>/`, each named for its content and shared by all runs
that were submitted with it. They are never changed; a folder that no run's jobs.jsonl names may be deleted.
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
from aiayn.runs.attempts import CODE_FOLDER_NAME, Ended
from aiayn.runs.run_folder import SubmittedJob
from aiayn.train.request import TrainingRequest

PACKAGES = ("aiayn", "aiayn_fairseq")  # all of ours that a job imports
_SOURCE_FOLDER = Path(__file__).resolve().parents[2]
_DIGEST_LENGTH = 16
logger = logging.getLogger(__name__)
_READ_TIMEOUT_SECONDS = 60.0


def snapshot_folder(runs_folder: Path, source_folder: Path = _SOURCE_FOLDER) -> Path:
    """Return the folder for a copy of the present code; it may not exist yet."""
    return _copy_folder(runs_folder, _read_sources(source_folder))


def take_snapshot(runs_folder: Path, source_folder: Path = _SOURCE_FOLDER) -> Path:
    """Copy the code, unless that copy exists, and return its folder, which must be first in PYTHONPATH.

    The folder is whole or absent; a file in it that was changed or removed (as on a swept scratch disk) is restored.
    """
    content_by_name = _read_sources(source_folder)
    folder = _copy_folder(runs_folder, content_by_name)
    if folder.is_dir():
        for name, content in content_by_name.items():
            if not ((folder / name).is_file() and (folder / name).read_bytes() == content):
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
            if not folder.is_dir():  # else another driver has written the same content
                raise
    finally:
        shutil.rmtree(partial_folder, ignore_errors=True)
    return folder


def is_whole(folder: Path) -> bool:
    """Return whether a copy is as it was taken: its name is the digest of its content."""
    return folder.is_dir() and _copy_folder(folder.parents[1], _read_sources(folder)).name == folder.name


def _read_sources(source_folder: Path) -> dict[str, bytes]:
    """Return the content of every module by its path below the folder, read once, so that copy and name agree."""
    paths = (path for package in PACKAGES for path in (source_folder / package).rglob("*.py"))
    return {path.relative_to(source_folder).as_posix(): path.read_bytes() for path in sorted(paths)}


def _copy_folder(runs_folder: Path, content_by_name: dict[str, bytes]) -> Path:
    digest = hashlib.sha256()
    for name, content in content_by_name.items():
        digest.update(f"{name}\0{len(content)}\0".encode() + content)
    return runs_folder.absolute() / CODE_FOLDER_NAME / digest.hexdigest()[:_DIGEST_LENGTH]


class RunCode(msgspec.Struct, frozen=True, kw_only=True):
    """A copy of the code, for the first entry of PYTHONPATH, and its commit."""

    folder: Path
    commit: str


def choose_code(request: TrainingRequest, *, fresh: bool = False, is_dry_run: bool = False) -> RunCode:
    """Return the code that the next job of a run runs; log it if that is not the present code.

    A run with a checkpoint keeps the code of its newest job, also under a later driver: one commit makes all its
    updates. There are three exceptions, each logged: after a failure it takes the present code, because the error may
    be in the old one; so it does if the copy is no longer whole, or cannot unpickle this driver's request.
    `aiayn train --fresh` starts again, with the present code. A dry run copies nothing.
    """
    kept = None if fresh else _kept_code(request)
    present_folder = snapshot_folder if is_dry_run else take_snapshot
    return kept or RunCode(folder=present_folder(request.folder.path.parent), commit=request.commit)


def _kept_code(request: TrainingRequest) -> RunCode | None:
    """Return the earlier code that a run keeps, None for the present code."""
    earlier = [job for job in request.folder.jobs() if job.code_folder]
    if not earlier or not request.folder.newest_update():
        return None
    job = earlier[-1]
    if job.code_folder == str(snapshot_folder(request.folder.path.parent)):
        return None
    named = f"the code of its job {job.job} (commit {job.commit[:12] or 'unknown'}, {job.code_folder})"
    if reason := _reason_against(request, job):
        logger.warning(f"{request.run}: takes the present code, not {named}: {reason}")
        return None
    logger.info(f"{request.run}: keeps {named}; `--fresh` starts again with the present code")
    return RunCode(folder=Path(job.code_folder), commit=job.commit)


def _reason_against(request: TrainingRequest, job: SubmittedJob) -> str:
    """Return why a run cannot keep the code of an earlier job, '' if it can."""
    last = next(reversed(request.folder.events()), None)
    if request.folder.rank_errors() or (isinstance(last, Ended) and last.outcome == "failed"):
        return "the run failed with it"
    if not is_whole(Path(job.code_folder)):
        return "that copy is no longer whole"
    return "" if _can_read(Path(job.code_folder), request) else "it cannot read this driver's request"


def _can_read(code_folder: Path, request: TrainingRequest) -> bool:
    """Return whether a copy of the code can unpickle a request of the present code, whose fields may differ."""
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
