"""Reads the wanted members of an archive as streams; it trusts nothing else in it.

No file is written under a name from an archive, so a path outside it or a link has no effect. No
published archive holds such things; so the whole archive is refused, whether the member is wanted
or not, for
- a member whose name is absolute or leaves the archive by `..`, with slashes or backslashes;
- in a tar, a link, symbolic or hard, whose target does so (a zip's links are members like others:
  never followed);
- a device or a named pipe; and for a wanted member that is absent, repeated, a link or folder,
  sparse, encrypted, of an unknown compression, or torn. `SizeLimit` bounds what an archive without
  a published checksum may unpack to; `joining` bounds a member's lines.
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

MAX_UNPACKED_PER_PACKED = (
    20  # text packs to a third or a quarter; gzip reaches 1,000, as in a decompression bomb
)
MIN_UNPACKED_BYTES = (
    16 << 20
)  # a small archive of repetitive text may exceed the ratio and is harmless
_MAX_NAMES_SHOWN = 6


class SizeLimit:
    """How much an archive without a published checksum may unpack to, for all its members
    together.
    """

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
                " decompression bomb; delete it, and fetch it from its public place"
            )


class _Member(msgspec.Struct, frozen=True):
    """A member of an archive; `is_plain`: a file of bytes, no link or folder."""

    name: str
    is_device: bool
    is_plain: bool
    is_encrypted: bool
    open: Callable[[], Any]


def open_members(
    path: Path, archive_format: str, wanted: Collection[str], limit: SizeLimit | None = None
) -> Iterator[tuple[str, BinaryIO]]:
    """Yield (name, stream) of each wanted member, in the archive's order; a member named `.gz` is
    unpacked.

    Read a stream before you take the next one.

    Raises:
        CorpusError: naming the archive and the member, if a wanted one is missing, there twice, or
            no plain file; if any points out of the archive or is a device; if it unpacks to more
            than `limit`; or if it is torn.
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
            names += [name] if num_names <= _MAX_NAMES_SHOWN else []
            place, advice = f"{path}: member {name!r}", "delete the archive and fetch it again"
            if member.is_device:
                raise CorpusError(f"{place} is a device, expected a plain file; {advice}")
            if name not in wanted:
                continue
            if name in taken:
                raise CorpusError(f"{place} occurs twice, in no published archive; {advice}")
            taken.add(name)
            if not member.is_plain:
                raise CorpusError(f"{place} is a link or folder, expected a plain file; {advice}")
            if member.is_encrypted:
                raise CorpusError(f"{place} is encrypted; fetch it from its public place")
            with member.open() as stream:
                unpacked = (
                    gzip.GzipFile(fileobj=stream, mode="rb") if name.endswith(".gz") else stream
                )
                is_counted = archive_format != "zip" and unpacked is stream  # as the tar was read
                yield (
                    name,
                    cast(
                        BinaryIO,
                        _Reader(cast(BinaryIO, unpacked), path, None if is_counted else limit),
                    ),
                )
    for name in wanted:
        if name not in taken:
            more = f" and {num_names - len(names)} more" if num_names > len(names) else ""
            raise CorpusError(
                f"{path}: no member {name!r}; it holds {', '.join(names) or 'nothing'}{more};"
                " correct member_by_language in the corpus file"
            )


class _Reader:
    """A stream whose bytes are counted, and whose faults name the archive: they come up where it is
    read.
    """

    def __init__(self, stream: BinaryIO, path: Path, limit: SizeLimit | None) -> None:
        self._stream, self._path, self._limit = stream, path, limit

    def read(self, size: int = -1) -> bytes:
        """Return up to `size` bytes, none at the end."""
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
    NotImplementedError,  # a zip's method of packing, or version
    ValueError,  # a zip's names that are not what they say, and offsets before its begin
    struct.error,
)


@contextlib.contextmanager
def _torn_archives_named(path: Path) -> Iterator[None]:
    try:
        yield
    except (*_DECODING_ERRORS, OSError) as error:
        # bz2's and gzip's own have no number, a seek before a file's begin has EINVAL; any other is
        # the disk's fault
        if isinstance(error, OSError) and error.errno not in (None, errno.EINVAL):
            raise
        raise CorpusError(
            f"{path}: torn, or not an archive of its format: {error}; delete it and fetch it again"
        ) from error


def _tar_members(path: Path, archive_format: str, limit: SizeLimit | None) -> Iterator[_Member]:
    """Walk through a tar once, from front to back, as it is unpacked."""
    with path.open("rb") as packed:
        unpacked = (
            cast(BinaryIO, gzip.GzipFile(fileobj=packed)) if archive_format == "tgz" else packed
        )
        reader = cast(BinaryIO, _Reader(unpacked, path, limit))
        # "r|": tarfile never seeks, so neither sizes nor offsets of its headers lead anywhere but
        # forward.
        with tarfile.open(fileobj=reader, mode="r|") as tar:
            while (entry := tar.next()) is not None:
                if entry.islnk() or entry.issym():
                    folder = posixpath.dirname(entry.name) if entry.issym() else ""
                    _refuse_outside(
                        path, posixpath.join(folder, entry.linkname), f"link {entry.name!r} to "
                    )
                is_device, is_plain = (
                    entry.ischr() or entry.isblk() or entry.isfifo(),
                    entry.isreg(),
                )
                opener = functools.partial(tar.extractfile, entry)
                yield _Member(
                    entry.name, is_device, is_plain and not entry.issparse(), False, opener
                )
                cast(
                    Any, tar
                ).members.clear()  # tarfile keeps every header, and an archive may have millions
        while reader.read(tarfile.RECORDSIZE):  # so that a gzip stream's own checksum is looked at
            pass


def _zip_members(path: Path) -> Iterator[_Member]:
    with zipfile.ZipFile(path) as archive:
        for entry in archive.infolist():
            kind = stat.S_IFMT(
                entry.external_attr >> 16
            )  # 0 where it was packed without Unix's kinds
            is_device = kind in (stat.S_IFCHR, stat.S_IFBLK, stat.S_IFIFO)
            is_plain, is_encrypted = (
                kind in (0, stat.S_IFREG) and not entry.is_dir(),
                bool(entry.flag_bits & 1),
            )
            opener = functools.partial(archive.open, entry)
            yield _Member(entry.filename, is_device, is_plain, is_encrypted, opener)


def _refuse_outside(path: Path, name: str, subject: str) -> None:
    """Refuse a name that does not stay in the archive."""
    normal = posixpath.normpath(name.replace("\\", "/"))
    if normal.startswith(("/", "../")) or normal == "..":
        raise CorpusError(
            f"{path}: {subject}{name!r} points out of the archive, as in no published archive;"
            " delete it, and fetch it from its public place"
        )
