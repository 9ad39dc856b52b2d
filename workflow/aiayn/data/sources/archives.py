"""Reads the wanted members of a tar or zip archive as streams, and trusts nothing else in it.

No file is written under a name from an archive, so names and links that point out of it could do no
harm. No published archive holds them, however, so the whole archive is refused if any member, also
an unwanted member,
- has an absolute name, or leaves the archive by `..`, with slashes or backslashes;
- is a link in a tar, symbolic or hard, whose target does so (a zip's links are never followed);
- is a device or a named pipe.

It is also refused if a wanted member is absent, repeated, a link or folder, sparse, encrypted, torn
or compressed by an unknown method. `SizeLimit` bounds the unpacked size of an archive without a
published checksum; `joining` bounds a member's number of lines.
"""

import contextlib
import errno
import functools
import gzip
import lzma
import posixpath
import stat
import struct
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from typing import Any, BinaryIO, cast

import msgspec

from aiayn.errors import CorpusError

# Text packs to a third or a quarter; gzip reaches 1,000, as in a decompression bomb.
MAX_UNPACKED_PER_PACKED = 20
# A small archive of repetitive text may exceed the ratio and is harmless.
MIN_UNPACKED_BYTES = 16 << 20
_MAX_NAMES_SHOWN = 6


class SizeLimit:
    """Bounds the bytes that all members of an archive without a published checksum unpack to."""

    def __init__(self, archive_path: Path) -> None:
        """Allow a multiple of the archive's own size."""
        self._path = archive_path
        self._num_packed_bytes = archive_path.stat().st_size
        self._max_bytes = max(MIN_UNPACKED_BYTES, MAX_UNPACKED_PER_PACKED * self._num_packed_bytes)
        self._num_bytes = 0

    def count(self, num_bytes: int) -> None:
        """Count bytes that were unpacked.

        Raises:
            CorpusError: if they are more than the archive's size allows.
        """
        self._num_bytes += num_bytes
        if self._num_bytes > self._max_bytes:
            raise CorpusError(
                f"{self._path}: unpacks to more than {self._max_bytes:,} bytes from"
                f" {self._num_packed_bytes:,} packed: larger than text can be, maybe a"
                " decompression bomb; delete the archive and fetch it from its public place"
            )


class _Member(msgspec.Struct, frozen=True):
    """A member of an archive. `is_plain` means a file of bytes, not a link or a folder."""

    name: str
    is_device: bool
    is_plain: bool
    is_encrypted: bool
    open: Callable[[], Any]


def open_members(
    path: Path, archive_format: str, wanted: Collection[str], limit: SizeLimit | None = None
) -> Iterator[tuple[str, BinaryIO]]:
    """Yield (name, stream) of each wanted member, in the archive's order.

    A member whose name ends in `.gz` is unpacked. Read each stream before you ask for the next.

    Raises:
        CorpusError: naming the archive and the member, if a wanted member is missing, repeated or
            not a plain file; if any member points out of the archive or is a device; if the archive
            is torn or unpacks to more than `limit`.
    """
    names: list[str] = []
    taken: set[str] = set()
    num_names = 0
    with _torn_archives_named(path):
        for member in (
            _zip_members(path)
            if archive_format == "zip"
            else _tar_members(path, archive_format, limit)
        ):
            _refuse_outside(path, member.name, "member ")
            name, num_names = posixpath.normpath(member.name), num_names + 1
            if num_names <= _MAX_NAMES_SHOWN:
                names.append(name)
            place, advice = f"{path}: member {name!r}", "delete the archive and fetch it again"
            if member.is_device:
                raise CorpusError(f"{place} is a device, expected a plain file; {advice}")
            if name not in wanted:
                continue
            if name in taken:
                raise CorpusError(f"{place} occurs twice, expected once; {advice}")
            taken.add(name)
            if not member.is_plain:
                raise CorpusError(f"{place} is a link or folder, expected a plain file; {advice}")
            if member.is_encrypted:
                raise CorpusError(f"{place} is encrypted; fetch it from its public place")
            with member.open() as stream:
                is_packed = name.endswith(".gz")
                gunzipped = gzip.GzipFile(fileobj=stream, mode="rb") if is_packed else stream
                unpacked = cast(BinaryIO, gunzipped)
                # A plain member of a tar was counted when the tar was read.
                is_counted = archive_format != "zip" and not is_packed
                reader = _Reader(unpacked, path, None if is_counted else limit)
                yield name, cast(BinaryIO, reader)
    for name in wanted:
        if name not in taken:
            more = f" and {num_names - len(names)} more" if num_names > len(names) else ""
            raise CorpusError(
                f"{path}: no member {name!r}; it holds {', '.join(names) or 'nothing'}{more};"
                " correct member_by_language in the corpus file"
            )


class _Reader:
    """Counts a stream's bytes, and names the archive in errors, which occur when it is read."""

    def __init__(self, stream: BinaryIO, path: Path, limit: SizeLimit | None) -> None:
        self._stream, self._path, self._limit = stream, path, limit

    def read(self, size: int = -1) -> bytes:
        """Return up to `size` bytes, and no bytes at the end."""
        with _torn_archives_named(self._path):
            block = self._stream.read(size)
        if self._limit is not None:
            self._limit.count(len(block))
        return block


_DECODING_ERRORS = (
    EOFError,
    zlib.error,
    lzma.LZMAError,
    tarfile.TarError,
    zipfile.BadZipFile,
    NotImplementedError,  # an unknown packing method or version of a zip
    ValueError,  # names of a zip that contradict each other, and offsets before its beginning
    struct.error,
)


@contextlib.contextmanager
def _torn_archives_named(path: Path) -> Iterator[None]:
    try:
        yield
    except (*_DECODING_ERRORS, OSError) as error:
        # gzip's own errors have no number, and a seek before a file's beginning has EINVAL. Any
        # other number is an error of the disk.
        if isinstance(error, OSError) and error.errno not in (None, errno.EINVAL):
            raise
        raise CorpusError(
            f"{path}: torn, or not an archive of its format: {error}; delete it and fetch it again"
        ) from error


def _tar_members(path: Path, archive_format: str, limit: SizeLimit | None) -> Iterator[_Member]:
    """Yield a tar's members in one pass from front to back, while it is unpacked."""
    with path.open("rb") as packed:
        unpacked = gzip.GzipFile(fileobj=packed) if archive_format == "tgz" else packed
        reader = cast(BinaryIO, _Reader(cast(BinaryIO, unpacked), path, limit))
        # "r|": tarfile never seeks, so sizes and offsets in its headers can only lead forward.
        with tarfile.open(fileobj=reader, mode="r|") as tar:
            while (entry := tar.next()) is not None:
                if entry.islnk() or entry.issym():
                    folder = posixpath.dirname(entry.name) if entry.issym() else ""
                    _refuse_outside(
                        path, posixpath.join(folder, entry.linkname), f"link {entry.name!r} to "
                    )
                is_device = entry.ischr() or entry.isblk() or entry.isfifo()
                is_plain = entry.isreg() and not entry.issparse()
                opener = functools.partial(tar.extractfile, entry)
                yield _Member(entry.name, is_device, is_plain, False, opener)
                # tarfile keeps every header, and an archive may have millions of them.
                cast(Any, tar).members.clear()
        while reader.read(tarfile.RECORDSIZE):  # to the end, where gzip compares its own checksum
            pass


def _zip_members(path: Path) -> Iterator[_Member]:
    with zipfile.ZipFile(path) as archive:
        for entry in archive.infolist():
            kind = stat.S_IFMT(entry.external_attr >> 16)  # 0 if it was not packed by Unix
            is_device = kind in (stat.S_IFCHR, stat.S_IFBLK, stat.S_IFIFO)
            is_plain = kind in (0, stat.S_IFREG) and not entry.is_dir()
            opener = functools.partial(archive.open, entry)
            yield _Member(entry.filename, is_device, is_plain, bool(entry.flag_bits & 1), opener)


def _refuse_outside(path: Path, name: str, subject: str) -> None:
    """Refuse a name that does not stay in the archive."""
    normal = posixpath.normpath(name.replace("\\", "/"))
    if normal.startswith(("/", "../")) or normal == "..":
        raise CorpusError(
            f"{path}: {subject}{name!r} points out of the archive, expected a path inside it;"
            " delete the archive and fetch it from its public place"
        )
