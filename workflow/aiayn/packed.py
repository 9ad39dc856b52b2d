"""Reads files that may be packed by gzip or xz; packs the same content into the same bytes."""

import gzip
import hashlib
import io
import lzma
import zlib
from pathlib import Path
from typing import BinaryIO, cast

PACKED_SUFFIXES = (".gz", ".xz")
# RFC 1952, section 2.3.1; the .xz format, section 2.1.1.1
_FIRST_BYTES = {".gz": b"\x1f\x8b", ".xz": b"\xfd7zXZ\x00"}
# What reading a cut or damaged packed file raises.
UNPACK_ERRORS = (EOFError, gzip.BadGzipFile, lzma.LZMAError, zlib.error)
_BLOCK_BYTES = 1 << 20


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
    """
    content: BinaryIO = path.open("rb")
    if not content.seekable():  # a pipe can be read once only: `<(cut ...)`
        with content:
            content = io.BytesIO(content.read())
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
