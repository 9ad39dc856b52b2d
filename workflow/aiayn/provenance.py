"""Describes how a record was made, and writes output files completely or not at all.

The description contains the commit, package versions, host, command line and input files. This
module does not import a large package, so it loads fast.
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
    """The input files of a record, and the software that made the record.

    `commit` is the git commit of the checkout, or "unknown" outside a checkout. `is_dirty` is true
    if tracked files differed from this commit. `command` is the command line.
    `input_sha256_by_path` contains the SHA-256 of every input file of the stage. `stage_version` is
    the version number of the stage. `stage_version` is set only in the records of a training's
    evaluations, and is None in records that earlier versions wrote.
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

    The installed package may be inside the folder of an unrelated repository, such as a user's own
    project. An unrelated repository is ignored: it does not track the files of the package.
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
    """Return the git commit, with `+dirty` at the end if tracked files differ from the commit."""
    commit, is_dirty = _commit()
    return f"{commit}+dirty" if is_dirty else commit


def file_sha256(path: Path) -> str:
    """Return the hexadecimal SHA-256 of a file, read in blocks."""
    with path.open("rb") as blocks:
        return hashlib.file_digest(blocks, "sha256").hexdigest()


def gather_provenance(
    input_paths: Iterable[Path] = (), *, command: str | None = None, stage: str | None = None
) -> Provenance:
    """Return the description of this process and of its input files, with their SHA-256. A job
    passes as `command` the command line of the driver (the process that submitted the job).

    If `stage` is given, the version number of this stage is recorded.
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
    """Return the present time in UTC as ISO 8601, without fractions of a second."""
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")


def partial_path_of(path: Path) -> Path:
    """Return the hidden path next to `path` to which this process writes before the file is
    complete. The hidden name contains the host and the process number.
    """
    return path.with_name(f"{_partial_prefix(path)}{os.getpid()}{_PARTIAL_SUFFIX}")


def remove_abandoned(path: Path) -> None:
    """Remove the incomplete files for `path` that killed processes of this host have left.

    Incomplete files of other hosts are kept, because the processes that write them may be running.
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
    """Yield a temporary path next to `path`. If the with block succeeds, rename the temporary file
    to `path`, otherwise remove the temporary file.

    So an output file is complete or absent. The content is on the disk (fsync) before the file is
    renamed, so a power cut cannot leave a file without its content. After the with block the new
    name is on the disk, too. An incomplete file of a killed process is removed when the same output
    is next written on the same host.
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
    """Yield an empty temporary folder next to `path`, and remove it when the with block ends."""
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
    """Yield an empty temporary folder for the output files of a stage. If the with block succeeds,
    move the output files from this folder to the folder of the record.

    If the with block fails, the files in the folder of the record do not change. The old record is
    removed before the first output file is moved, and the stage writes the new record after the
    last output file was moved. So a record is never in the same folder as output files that a
    different call of its stage wrote.
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
    """Yield an empty temporary folder. If the with block succeeds, rename the temporary folder to
    `folder`, which must be empty or must not exist.

    If the with block fails, the temporary folder is removed.
    """
    with _partial_folder(folder) as partial_folder:
        yield partial_folder
        _write_to_disk(partial_folder)
        partial_folder.rename(folder)
        _fsync(folder.parent)


def _fsync(path: Path) -> None:
    """Wait until the content of a file, or the list of names in a folder, is on the disk."""
    number = os.open(path, os.O_RDONLY)
    try:
        os.fsync(number)
    finally:
        os.close(number)


def _write_to_disk(folder: Path) -> None:
    """Wait until the content of all files in a folder is on the disk."""
    for written_path in sorted(path for path in folder.rglob("*") if path.is_file()):
        _fsync(written_path)


def existing_folder(folder: Path) -> Path:
    """Return a folder or, if it does not exist yet, the nearest folder above it that exists. This
    folder is on the disk that will have the new folder.
    """
    return next(parent for parent in (folder, *folder.absolute().parents) if parent.exists())


def require_free_space(folder: Path, needed_bytes: int, purpose: str) -> None:
    """Raise an error if the disk does not have enough free space for an output file.

    Raises:
        SpaceError: if fewer than `needed_bytes` are free. The message contains the folder, the
            needed space and the free space.
    """
    free_bytes = shutil.disk_usage(existing_folder(folder)).free
    if free_bytes < needed_bytes:
        raise SpaceError(
            f"{folder}: {needed_bytes / 1e9:.2f} GB needed for {purpose}, {free_bytes / 1e9:.2f} GB"
            " free; make room, or name another disk (`--config runs_folder=...` for trainings)"
        )
