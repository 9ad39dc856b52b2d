"""Copies the code when a job is submitted, because the job may wait for days while the checkout
changes.

The copies are in `<runs folder>/code/<digest>/`. The digest is computed from the content, so all
runs that were submitted with the same code share a copy. Copies are never changed. A copy that does
not occur in the jobs.jsonl of a run may be deleted. A driver copies the present code when it
submits its first job, and its later jobs run that copy.
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
    """Return the folder for a copy of the present code. It may not exist yet."""
    return _copy_folder(runs_folder, _read_sources(source_folder))


def take_snapshot(runs_folder: Path, source_folder: Path = _SOURCE_FOLDER) -> Path:
    """Copy the code, unless it is already copied, and return the folder of the copy. The folder
    must be first in PYTHONPATH.

    The folder is complete when this function returns, before a job is submitted with it. Files that
    are missing or have changed are written again, for example after a driver was interrupted or a
    scratch disk was cleaned. A file is never partly written.
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
    """Return the content of every module, by its path below the folder. It is read once, so that
    the copy has the content of its digest.
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
