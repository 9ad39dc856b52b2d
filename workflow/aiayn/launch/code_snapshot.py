"""Copies the code that a job runs when the job is submitted: it may wait for days while the
checkout changes.

The copies of a runs folder are in `<runs folder>/code/<digest>/`, each named for its content and
shared by all runs that were submitted with it. They are never changed. A folder that no run's
jobs.jsonl names may be deleted. A driver copies the present code when it submits its first job, and
its later jobs run that copy.
"""

import hashlib
from pathlib import Path

from aiayn.provenance import replace_on_success
from aiayn.runs.attempts import CODE_FOLDER_NAME

PACKAGES = ("aiayn", "aiayn_fairseq")  # all of ours that a job imports
_SOURCE_FOLDER = Path(__file__).resolve().parents[2]
_DIGEST_LENGTH = 16


def snapshot_folder(runs_folder: Path, source_folder: Path = _SOURCE_FOLDER) -> Path:
    """Return the folder for a copy of the present code. It may not exist yet."""
    return _copy_folder(runs_folder, _read_sources(source_folder))


def take_snapshot(runs_folder: Path, source_folder: Path = _SOURCE_FOLDER) -> Path:
    """Copy the code, as far as it is not copied yet, and return its folder, which must be first in
    PYTHONPATH.

    The folder is whole when this returns, before any job is submitted with it: a file that an ended
    driver did not come to, or that was changed or removed since (as on a swept scratch disk), is
    written. Each is whole or absent.
    """
    content_by_name = _read_sources(source_folder)
    folder = _copy_folder(runs_folder, content_by_name)
    for name, content in content_by_name.items():
        path = folder / name
        if not (path.is_file() and path.read_bytes() == content):
            with replace_on_success(path) as partial_path:
                partial_path.write_bytes(content)
    return folder


def _read_sources(source_folder: Path) -> dict[str, bytes]:
    """Return the content of every module by its path below the folder, read once, so that copy and
    name agree.
    """
    paths = (path for package in PACKAGES for path in (source_folder / package).rglob("*.py"))
    return {path.relative_to(source_folder).as_posix(): path.read_bytes() for path in sorted(paths)}


def _copy_folder(runs_folder: Path, content_by_name: dict[str, bytes]) -> Path:
    digest = hashlib.sha256()
    for name, content in content_by_name.items():
        digest.update(f"{name}\0{len(content)}\0".encode() + content)
    return runs_folder.absolute() / CODE_FOLDER_NAME / digest.hexdigest()[:_DIGEST_LENGTH]
