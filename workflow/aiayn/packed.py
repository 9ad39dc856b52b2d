"""Reads files that may be compressed by gzip or xz, or may be in a zip archive. Also writes
compressed files and archives, with the same bytes for the same content.

If a folder contains the zip file ARCHIVE_NAME, the files in this zip count as files below the
folder. The files in a zip are read directly from the zip, so nothing is unpacked to the disk. The
functions that have the name of a method of `Path`, such as `is_file`, look for files on the disk
and in the zip. If a file is on the disk and in the zip, the file on the disk is used.
"""

import fnmatch
import functools
import gzip
import hashlib
import io
import lzma
import os
import stat
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path, PurePosixPath
from typing import BinaryIO, NamedTuple, cast

from aiayn.errors import FileError

PACKED_SUFFIXES = (".gz", ".xz")
# RFC 1952, section 2.3.1, and the .xz format, section 2.1.1.1
_FIRST_BYTES = {".gz": b"\x1f\x8b", ".xz": b"\xfd7zXZ\x00"}
# What reading a cut or damaged packed file raises.
UNPACK_ERRORS = (EOFError, gzip.BadGzipFile, lzma.LZMAError, zipfile.BadZipFile, zlib.error)
ARCHIVE_NAME = "aiayn-pack.zip"
_ZIP_TIME = (1980, 1, 1, 0, 0, 0)  # the earliest time that a zip can state
_ZIP_LEVEL = 9
_BLOCK_BYTES = 1 << 18
NO_FILE = "no such file"
# The limit for a text that is read at once. The largest public test sets have some megabytes.
MAX_TEXT_BYTES = 1 << 28
# The shell's `<(command)` is a pipe in one of these folders. It has a writer, so it ends.
_OPEN_PIPES = ("/dev/fd/", "/dev/stdin", "/proc/")


def unpacked_name(name: str) -> str:
    """Return a file's name without the ending `.gz` or `.xz`: `train.log` for `train.log.xz`."""
    return name[: -len(PACKED_SUFFIXES[0])] if name.lower().endswith(PACKED_SUFFIXES) else name


class _Archive:
    """An open zip file, with the names of its files and the content of each of its folders."""

    def __init__(self, path: Path) -> None:
        self.zip_file = zipfile.ZipFile(path)
        self.files = {name for name in self.zip_file.namelist() if not name.endswith("/")}
        self.names_by_folder: dict[str, set[str]] = {}
        for name in self.files:
            child = PurePosixPath(name)
            # A zip need not list folders, so they are derived from the names of the files.
            for folder in child.parents:
                self.names_by_folder.setdefault(str(folder), set()).add(child.name)
                child = folder


@functools.lru_cache(maxsize=8)
def _open_archive(path: Path, modified_ns: int, num_bytes: int) -> _Archive:
    """Open a zip file, or return it if it is already open. `modified_ns` and `num_bytes` are part
    of the cache key, so a zip file that was replaced is opened again.

    Raises:
        FileError: if the file is not a complete zip.
    """
    try:
        return _Archive(path)
    except (zipfile.BadZipFile, NotImplementedError) as error:
        raise FileError(f"{path}: not a whole zip file: {error}; copy or fetch it again") from error


# A forked process shares the position in an open file with its parent, so it must open the file
# again.
os.register_at_fork(after_in_child=_open_archive.cache_clear)


class _PackedPath(NamedTuple):
    """A path in a zip archive. `name` is the name of the file or folder in this archive."""

    archive: _Archive
    name: str


def _find_archive(path: Path) -> _PackedPath | None:
    """Return the zip archive in the folder `path` or in the nearest folder above it, with the
    path's name in this archive. Return None if there is no archive.
    """
    # The nearest archive is used, because a pack may be inside a folder of packs.
    for folder in (path, *path.parents):
        archive_path = folder / ARCHIVE_NAME
        try:
            status = archive_path.stat()
        except OSError:
            continue
        archive = _open_archive(archive_path.absolute(), status.st_mtime_ns, status.st_size)
        return _PackedPath(archive, path.relative_to(folder).as_posix())
    return None


def _packed_names(folder: Path) -> set[str]:
    """Return the names of the files and folders in a folder of a zip archive. The result is empty
    if the folder is not in an archive.
    """
    packed = _find_archive(folder)
    if packed is None:
        return set()
    return packed.archive.names_by_folder.get(packed.name, set())


def is_file(path: Path) -> bool:
    """Return whether a path is a file, on the disk or in a zip archive."""
    if path.is_file():
        return True
    packed = None if path.exists() else _find_archive(path)
    return packed is not None and packed.name in packed.archive.files


def is_dir(path: Path) -> bool:
    """Return whether a path is a folder, on the disk or in a zip archive."""
    return path.is_dir() or (not path.exists() and bool(_packed_names(path)))


def exists(path: Path) -> bool:
    """Return whether a path exists, on the disk or in a zip archive."""
    return path.exists() or is_file(path) or is_dir(path)


def modified_seconds(path: Path) -> float:
    """Return the time of a file's last change, in seconds. A file in a zip archive has the time of
    the archive.
    """
    packed = None if path.exists() else _find_archive(path)
    if packed is None:
        return path.stat().st_mtime
    return Path(str(packed.archive.zip_file.filename)).stat().st_mtime


def list_names(folder: Path) -> list[str]:
    """Return the names of the files and folders in a folder, sorted. The zip archive of the folder
    is left out.

    Raises:
        OSError: if the path is not a folder, or if the folder cannot be read.
    """
    names = _packed_names(folder)
    # A folder that exists only in the archive cannot be listed by the system.
    if not names or folder.exists():
        names = names.union(os.listdir(folder))
    return sorted(names - {ARCHIVE_NAME})


def walk(
    folder: Path, on_error: Callable[[OSError], None], *, follows_links: bool
) -> Iterator[tuple[Path, list[str], list[str]]]:
    """Yield each folder below a folder, with the names of its folders and of its files. As in
    `os.walk`, a folder is skipped if the caller removes its name from the list of folders.
    """
    try:
        names = list_names(folder)
    except OSError as error:
        on_error(error)
        return
    folders = [name for name in names if is_dir(folder / name)]
    yield folder, folders, sorted({*names}.difference(folders))
    for name in folders:
        if follows_links or not (folder / name).is_symlink():
            yield from walk(folder / name, on_error, follows_links=follows_links)


def glob(folder: Path, pattern: str) -> list[Path]:
    """Return the paths below a folder that match a pattern, sorted. The parts of the pattern
    between slashes may contain `*` and `?`. The part `**` matches any number of nested folders, but
    does not follow links.
    """
    paths = [folder]
    for part in pattern.split("/"):
        candidates = []
        for path in paths:
            if not is_dir(path):
                continue
            if part == "**":
                below = walk(path, lambda error: None, follows_links=False)
                candidates += [parent for parent, _, _ in below]
            elif "*" in part or "?" in part:
                names = fnmatch.filter(list_names(path), part)
                candidates += [path / name for name in names]
            elif exists(path / part):
                candidates.append(path / part)
        paths = candidates
    return sorted(paths)


def find_packed(path: Path) -> Path | None:
    """Return the path of a file or, if it is missing, the path of the same file with the ending
    `.gz` or `.xz`. Return None if neither the file nor a compressed file exists.
    """
    for suffix in ("", *PACKED_SUFFIXES):
        candidate = path.with_name(path.name + suffix)
        if is_file(candidate):
            return candidate
    return None


def open_unpacked(path: Path) -> BinaryIO:
    """Open a file for reading. The file is decompressed if its first bytes or its name show that it
    is compressed.

    Raises:
        OSError: if the file does not exist or cannot be read. A later read of the opened file may
            raise any error in UNPACK_ERRORS.
        FileError: if the path is a named pipe (reading could wait for ever), a socket or a device.
    """
    # `lexists`, because a broken link on the disk must not be replaced by a file of the archive.
    packed = None if os.path.lexists(path) else _find_archive(path)
    if packed is not None and packed.name in packed.archive.files:
        return _unpacked(cast(BinaryIO, packed.archive.zip_file.open(packed.name)), path)
    mode = path.stat().st_mode
    is_open_pipe = stat.S_ISFIFO(mode) and str(path).startswith(_OPEN_PIPES)
    # A folder is left to `open`, whose error says so.
    if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode) or is_open_pipe):
        raise FileError(
            f"{path}: a pipe, a socket or a device; expected a regular file; copy its content to"
            " a file"
        )
    content: BinaryIO = path.open("rb")
    if not content.seekable():  # a pipe can be read once only: `<(cut ...)`
        with content:
            content = io.BytesIO(content.read(MAX_TEXT_BYTES + 1))
    return _unpacked(content, path)


def _unpacked(content: BinaryIO, path: Path) -> BinaryIO:
    """Return a reader of the decompressed content of a file."""
    # The first bytes decide before the name: a file may have been renamed or unpacked since.
    first_bytes = content.read(6)  # the length of the longer signature
    content.seek(0)
    suffix = path.suffix.lower()
    for packed_suffix, expected in _FIRST_BYTES.items():
        if first_bytes.startswith(expected):
            suffix = packed_suffix
    if suffix == ".gz":
        return cast(BinaryIO, gzip.open(content, "rb"))
    if suffix == ".xz":
        return cast(BinaryIO, lzma.open(content, "rb"))
    return content


def read_bytes(path: Path) -> bytes:
    """Return a file's unpacked content.

    Raises:
        The errors of `open_unpacked`, and any error in UNPACK_ERRORS.
    """
    with open_unpacked(path) as content:
        return content.read()


def read_bounded(path: Path, max_bytes: int) -> bytes:
    """Return a file's unpacked content.

    Raises:
        OSError: if the file does not exist or cannot be read.
        FileError: if the file is not a regular file, if its content has more than `max_bytes`, or
            if it is a damaged compressed file.
    """
    try:
        with open_unpacked(path) as unpacked:
            # One byte more shows that the file is too large, without reading the rest of it.
            content = unpacked.read(max_bytes + 1)
    except UNPACK_ERRORS as error:
        raise FileError(
            f"{path}: not a whole gzip file (or xz): {error}; copy or fetch it again"
        ) from error
    if len(content) > max_bytes:
        raise FileError(
            f"{path}: more than {max_bytes:,} bytes, unpacked; expected a smaller file; is it the"
            " right one?"
        )
    return content


def file_problem(path: Path, sha256: str) -> str:
    """Return a text on how a file, which may be compressed, differs from its SHA-256. Return '' if
    the file does not differ.

    If `sha256` is '', the function checks only whether the file exists.
    """
    found_path = find_packed(path)
    if found_path is None:
        return NO_FILE
    try:
        found_sha256 = unpacked_sha256(found_path)
    except (*UNPACK_ERRORS, OSError) as error:
        return f"cannot be read: {error}"
    return (
        "" if sha256 in ("", found_sha256) else f"sha256 {found_sha256}, its record says {sha256}"
    )


def unpacked_sha256(path: Path) -> str:
    """Return the hexadecimal SHA-256 of a file's decompressed content, read in blocks."""
    digest = hashlib.sha256()
    with open_unpacked(path) as blocks:
        while block := blocks.read(_BLOCK_BYTES):
            digest.update(block)
    return digest.hexdigest()


def packed_bytes(content: bytes) -> bytes:
    """Return content compressed by xz, a format that does not store a file's time or name."""
    return lzma.compress(content, preset=9 | lzma.PRESET_EXTREME)


def write_archive(folder: Path, paths: Iterable[Path], archive_path: Path) -> None:
    """Write files below a folder to a zip file. The same files give the same bytes, because the
    files are sorted by name, and times, owners and permissions are not stored.
    """
    # The bytes must be equal on each machine, because packs are in git.
    with zipfile.ZipFile(archive_path, "w") as archive:
        for path in sorted(paths):
            information = zipfile.ZipInfo(path.relative_to(folder).as_posix(), _ZIP_TIME)
            information.create_system = 3  # Unix, on every system
            information.external_attr = 0o644 << 16
            is_packed = path.name.endswith(PACKED_SUFFIXES)
            # A file that is already compressed would not become smaller.
            method = zipfile.ZIP_STORED if is_packed else zipfile.ZIP_DEFLATED
            archive.writestr(information, path.read_bytes(), method, _ZIP_LEVEL)
