"""A copy of the code that a job runs, taken when it is submitted: it may wait for days, and the checkout moves on.

The copies of a runs folder lie in `<runs folder>/code/<digest>/`, each named for its content and shared by all runs
that were submitted with it. They are never changed; a folder that no run's jobs.jsonl names may be deleted.
"""

import hashlib
import os
import shutil
from pathlib import Path

from aiayn.provenance import partial_path_of, remove_abandoned, replace_on_success

PACKAGES = ("aiayn", "aiayn_fairseq")  # all of ours that a job imports
CODE_FOLDER_NAME = "code"
_SOURCE_FOLDER = Path(__file__).resolve().parents[2]
_DIGEST_LENGTH = 16


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
    return runs_folder.absolute() / CODE_FOLDER_NAME / digest.hexdigest()[:_DIGEST_LENGTH]


def _holds(path: Path, content: bytes) -> bool:
    return path.is_file() and path.read_bytes() == content
