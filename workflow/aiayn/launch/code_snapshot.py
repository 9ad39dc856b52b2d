"""Copies the code of this project when a job is submitted. The job may wait in a queue for days,
and the checkout may change meanwhile.

The copies of the code are in `<runs folder>/code/<digest>/`. The digest in this path is computed
from the content of the copy, so all runs that were submitted with the same code share a copy. A
copy of the code is never changed. A copy may be deleted if no run's jobs.jsonl contains its path. A
driver (the process that submits the jobs of a run) copies the present code when it submits its
first job. Later jobs of the same driver run the same copy of the code.
"""

import hashlib
from pathlib import Path

from aiayn.provenance import replace_on_success
from aiayn.runs.attempts import CODE_FOLDER_NAME

# All packages of this project that a job imports. Wings and tables stay in the checkout.
PACKAGES = ("aiayn", "aiayn_fairseq")
_SOURCE_FOLDER = Path(__file__).resolve().parents[2]
_DIGEST_LENGTH = 16


def snapshot_folder(runs_folder: Path, source_folder: Path = _SOURCE_FOLDER) -> Path:
    """Return the folder for a copy of the present code. The folder may not exist yet."""
    return _copy_folder(runs_folder, _read_sources(source_folder))


def take_snapshot(runs_folder: Path, source_folder: Path = _SOURCE_FOLDER) -> Path:
    """Copy the code, unless it is already copied, and return the folder of the copy. A job must
    have this folder first in its PYTHONPATH.

    The copy is complete when this function returns, and only afterwards a job is submitted. Files
    of the copy that are missing or have changed are written again, for example after a driver was
    interrupted or a scratch disk was cleaned. Each file of the copy is written completely or not at
    all.
    """
    content_by_name = _read_sources(source_folder)
    folder = _copy_folder(runs_folder, content_by_name)
    for name, content in content_by_name.items():
        path = folder / name
        # Compared by content: a scratch disk that deletes old files may have left a part of the
        # copy.
        if not (path.is_file() and path.read_bytes() == content):
            with replace_on_success(path) as partial_path:
                partial_path.write_bytes(content)
    return folder


def _read_sources(source_folder: Path) -> dict[str, bytes]:
    """Return the content of every module, by its path below the folder. Each module is read once,
    so that the digest is computed from the same content that is copied.
    """
    paths = (path for package in PACKAGES for path in (source_folder / package).rglob("*.py"))
    return {path.relative_to(source_folder).as_posix(): path.read_bytes() for path in sorted(paths)}


def _copy_folder(runs_folder: Path, content_by_name: dict[str, bytes]) -> Path:
    digest = hashlib.sha256()
    for name, content in content_by_name.items():
        # Name and length come before the content. Otherwise two different sets of files could give
        # the same bytes.
        digest.update(f"{name}\0{len(content)}\0".encode() + content)
    return runs_folder.absolute() / CODE_FOLDER_NAME / digest.hexdigest()[:_DIGEST_LENGTH]
