"""Reads files that may be packed by gzip or xz; packs the same content into the same bytes."""

import gzip
import hashlib
import io
import lzma
import stat
import zlib
from pathlib import Path
from typing import BinaryIO, cast

from aiayn.errors import FileError

PACKED_SUFFIXES = (".gz", ".xz")
# RFC 1952, section 2.3.1; the .xz format, section 2.1.1.1
_FIRST_BYTES = {".gz": b"\x1f\x8b", ".xz": b"\xfd7zXZ\x00"}
# What reading a cut or damaged packed file raises.
UNPACK_ERRORS = (EOFError, gzip.BadGzipFile, lzma.LZMAError, zlib.error)
_BLOCK_BYTES = 1 << 18
NO_FILE = "no such file"
# Of a text that is read as a whole. The largest public test sets have a few megabytes.
MAX_TEXT_BYTES = 1 << 28
# The shell's `<(command)` is a pipe in one of these folders. It has a writer, so it ends.
_OPEN_PIPES = ("/dev/fd/", "/dev/stdin", "/proc/")


def unpacked_name(name: str) -> str:
    """Return a file's name without the suffix of its packer: `train.log` for `train.log.xz`."""
    return name[: -len(PACKED_SUFFIXES[0])] if name.lower().endswith(PACKED_SUFFIXES) else name


def find_packed(path: Path) -> Path | None:
    """Return a file's path, or the path of its packed form in the same folder; None if both are
    missing.
    """
    for suffix in ("", *PACKED_SUFFIXES):
        candidate = path.with_name(path.name + suffix)
        if candidate.is_file():
            return candidate
    return None


def open_unpacked(path: Path) -> BinaryIO:
    """Open a file for reading, unpacked if its first bytes or its name say that it is packed.

    Raises:
        OSError: if the file does not exist or cannot be read. Reading on may raise any of
            UNPACK_ERRORS.
        FileError: for a named pipe, which may have no writer, a socket or a device.
    """
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


def read_bounded(path: Path, max_bytes: int) -> bytes:
    """Return a file's unpacked content.

    Raises:
        OSError: if the file does not exist or cannot be read.
        FileError: if it is not a regular file, has more than `max_bytes`, or is not a whole packed
            file.
    """
    try:
        with open_unpacked(path) as unpacked:
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
    """Return how a file (perhaps packed) differs from its digest, '' if it does not.

    Without a digest the file must only exist.
    """
    found_path = find_packed(path)
    if found_path is None:
        return NO_FILE
    try:
        found = unpacked_sha256(found_path)
    except (*UNPACK_ERRORS, OSError) as error:
        return f"cannot be read: {error}"
    return "" if sha256 in ("", found) else f"sha256 {found}, its record says {sha256}"


def unpacked_sha256(path: Path) -> str:
    """Return the hexadecimal SHA-256 of a file's unpacked content, read in blocks."""
    digest = hashlib.sha256()
    with open_unpacked(path) as blocks:
        while block := blocks.read(_BLOCK_BYTES):
            digest.update(block)
    return digest.hexdigest()


def packed_bytes(content: bytes) -> bytes:
    """Return content packed by xz, which does not store the time or the file's name."""
    return lzma.compress(content, preset=9 | lzma.PRESET_EXTREME)
