"""Describes how a record was made, and writes outputs completely or not at all.

The description contains commit, package versions, host, command and inputs. The module imports no
heavy package.
"""

import contextlib
import datetime
import hashlib
import importlib.metadata
import os
import platform
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path, PurePath

import msgspec

from aiayn.errors import SpaceError
from aiayn.stages import STAGE_VERSIONS

RECORDED_PACKAGES = (
    "aiayn",
    "torch",
    "fairseq-fixed",
    "sentencepiece",
    "subword-nmt",
    "sacrebleu",
    "sacremoses",
    "submitit",
    "numpy",
)
_PARTIAL_SUFFIX = ".partial"


class Provenance(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The inputs of a record and the software that made it.

    `commit` is the commit of the checkout, "unknown" outside a checkout. `is_dirty` is true if
    tracked files differed from this commit. `command` is the command line. `input_sha256_by_path`
    contains every input file of the stage. `stage_version` is the version number of the stage. It
    is set only in the records of a training's evaluations, and None in records of earlier versions.
    """

    commit: str
    is_dirty: bool
    version_by_package: dict[str, str]
    python: str
    host: str
    command: str
    created: str
    input_sha256_by_path: dict[PurePath, str]  # pure: recorded, never opened
    stage_version: int | None = None


@cache
def _commit() -> tuple[str, bool]:
    """Return (commit, is_dirty) of the checkout that contains this library.

    An installed package may be inside the folder of an unrelated repository, such as a user's own
    project. This repository is ignored, because it does not track the package.
    """

    def git(*arguments: str) -> str:
        folder = Path(__file__).parent
        return subprocess.run(
            ["git", *arguments], cwd=folder, capture_output=True, text=True, check=True
        ).stdout.strip()

    if "AIAYN_COMMIT" in os.environ:  # set by the driver, for a job away from the checkout
        commit, _, dirty = os.environ["AIAYN_COMMIT"].partition("+")
        return commit, bool(dirty)
    try:
        # Fails for a repository that does not track this file.
        git("ls-files", "--error-unmatch", Path(__file__).name)
        return git("rev-parse", "HEAD"), bool(git("status", "--porcelain", "--untracked-files=no"))
    except (OSError, subprocess.CalledProcessError):
        return "unknown", False


def commit_label() -> str:
    """Return the commit, with `+dirty` if tracked files differ from it."""
    commit, is_dirty = _commit()
    return f"{commit}+dirty" if is_dirty else commit


def file_sha256(path: Path) -> str:
    """Return the hexadecimal SHA-256 of a file, read in blocks."""
    with path.open("rb") as blocks:
        return hashlib.file_digest(blocks, "sha256").hexdigest()


def gather_provenance(
    input_paths: Iterable[Path] = (), *, command: str | None = None, stage: str | None = None
) -> Provenance:
    """Describe this process and hash its inputs. A job passes the `command` of the driver that
    submitted it.

    With `stage`, the number of that stage is recorded.
    """
    versions = {}
    # A laptop that only renders tables lacks most of these packages.
    for package in RECORDED_PACKAGES:
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            versions[package] = importlib.metadata.version(package)
    commit, is_dirty = _commit()
    return Provenance(
        commit=commit,
        is_dirty=is_dirty,
        version_by_package=versions,
        python=platform.python_version(),
        host=platform.node(),
        command=command or shlex.join(["aiayn", *sys.argv[1:]]),
        created=utc_now(),
        input_sha256_by_path={path: file_sha256(path) for path in input_paths},
        stage_version=None if stage is None else STAGE_VERSIONS[stage],
    )


def utc_now() -> str:
    """Return the time in UTC, ISO 8601, to the second."""
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")


def partial_path_of(path: Path) -> Path:
    """Return the hidden path next to `path` to which this process writes. The name contains host
    and process id.
    """
    return path.with_name(f"{_partial_prefix(path)}{os.getpid()}{_PARTIAL_SUFFIX}")


def remove_abandoned(path: Path) -> None:
    """Remove the partial files of `path` that killed processes of this host have left.

    Files of other hosts stay, because their processes may be running.
    """
    name = re.compile(re.escape(_partial_prefix(path)) + r"(\d+)" + re.escape(_PARTIAL_SUFFIX))
    for sibling in path.parent.iterdir():
        # A process id that is in use again only keeps an abandoned file longer.
        match = name.fullmatch(sibling.name)
        if match is None or _is_alive(int(match[1])):
            continue
        if sibling.is_dir() and not sibling.is_symlink():
            shutil.rmtree(sibling, ignore_errors=True)
        else:
            sibling.unlink(missing_ok=True)


def _partial_prefix(path: Path) -> str:
    return f".{path.name}.{platform.node()}."


def _is_alive(process: int) -> bool:
    try:
        os.kill(process, 0)  # signal 0 tests for existence
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        return True  # a process of another user
    return True


@contextlib.contextmanager
def replace_on_success(path: Path) -> Iterator[Path]:
    """Yield a path next to `path`. Rename it to `path` if the block succeeds, else remove it.

    So an output is complete or absent. The bytes are on the disk before the name (fsync), so a
    power cut cannot leave a name without its content. After the block the folder's entry is
    on the disk as well.
    Partial files of a killed process are removed when that output is next written on the same host.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    remove_abandoned(path)
    partial_path = partial_path_of(path)
    try:
        yield partial_path
        _fsync(partial_path)
        partial_path.replace(path)
        _fsync(path.parent)
    except OSError as error:
        error.filename = error.filename or str(path)  # an error of write() has no file name
        raise
    finally:
        partial_path.unlink(missing_ok=True)


@contextlib.contextmanager
def _partial_folder(path: Path) -> Iterator[Path]:
    """Yield an empty folder next to `path`, and remove it at the end of the block."""
    path.parent.mkdir(parents=True, exist_ok=True)
    remove_abandoned(path)
    partial_folder = partial_path_of(path)
    shutil.rmtree(partial_folder, ignore_errors=True)  # from a killed process with the same id
    try:
        partial_folder.mkdir()
        yield partial_folder
    finally:
        shutil.rmtree(partial_folder, ignore_errors=True)


@contextlib.contextmanager
def replace_outputs_on_success(record_path: Path) -> Iterator[Path]:
    """Yield an empty folder for a stage's outputs. If the block succeeds, move the outputs next to
    the record.

    If the block fails, the files next to the record have not changed. The old record is removed
    before the first output is moved, and the stage writes the new record after the last output was
    moved. So a record is never next to outputs of a different run of its stage.
    """
    with _partial_folder(record_path) as partial_folder:
        new_folder, old_folder = partial_folder / "new", partial_folder / "old"
        new_folder.mkdir()
        old_folder.mkdir()
        yield new_folder
        _write_to_disk(new_folder)
        # From here until the new record is written, the stage counts as not done.
        record_path.unlink(missing_ok=True)
        for output_path in sorted(new_folder.iterdir()):
            # The old folder is moved first and deleted at the end, because a rename is much faster
            # than a deletion. The stage is incomplete for a short time only.
            final_path = record_path.parent / output_path.name
            if final_path.is_dir():  # a folder cannot be renamed over another
                final_path.rename(old_folder / output_path.name)
            output_path.replace(final_path)
        _fsync(record_path.parent)


@contextlib.contextmanager
def new_folder_on_success(folder: Path) -> Iterator[Path]:
    """Yield an empty folder. If the block succeeds, rename it to `folder`, which must be empty or
    must not exist.

    If the block fails, the folder is removed.
    """
    with _partial_folder(folder) as partial_folder:
        yield partial_folder
        _write_to_disk(partial_folder)
        partial_folder.rename(folder)
        _fsync(folder.parent)


def _fsync(path: Path) -> None:
    """Wait until a file's bytes, or a folder's names, are on the disk."""
    number = os.open(path, os.O_RDONLY)
    try:
        os.fsync(number)
    finally:
        os.close(number)


def _write_to_disk(folder: Path) -> None:
    """Wait until the bytes of all files are on the disk."""
    for written_path in sorted(path for path in folder.rglob("*") if path.is_file()):
        _fsync(written_path)


def require_free_space(folder: Path, needed_bytes: int, purpose: str) -> None:
    """Raise an error if the disk does not have enough free space for an output.

    Raises:
        SpaceError: if the space is too small. The message contains the folder, the needed space and
            the free space.
    """
    # The folder may not exist yet, and `disk_usage` needs an existing path.
    existing = next(parent for parent in (folder, *folder.absolute().parents) if parent.exists())
    free_bytes = shutil.disk_usage(existing).free
    if free_bytes < needed_bytes:
        raise SpaceError(
            f"{folder}: {needed_bytes / 1e9:.2f} GB needed for {purpose}, {free_bytes / 1e9:.2f} GB"
            " free; make room, or name another disk (`--config runs_folder=...` for trainings)"
        )
