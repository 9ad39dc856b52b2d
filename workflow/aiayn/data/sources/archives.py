"""Reads the wanted members of an archive as streams; it trusts nothing else in it.

No file is written under a name from an archive, so a path outside it or a link has no effect. No published archive
holds such things; so the whole archive is refused, whether the member is wanted or not, for
- a member whose name is absolute or leaves the archive by `..`, with slashes or backslashes;
- in a tar, a link, symbolic or hard, whose target does so (a zip's links are members like others: never followed);
- a device or a named pipe;
and for a wanted member that is absent, repeated, a link or folder, sparse, encrypted, of an unknown compression, or
torn. `SizeLimit` bounds what an archive without a published checksum may unpack to; `joining` bounds a member's lines.
"""

import contextlib
import errno
import gzip
import lzma
import posixpath
import stat
import struct
import tarfile
import zipfile
import zlib
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any, BinaryIO, cast

from aiayn.errors import CorpusError

MAX_UNPACKED_PER_PACKED = 20  # text packs to a third or a quarter; gzip reaches 1,000, as in a decompression bomb
MIN_UNPACKED_BYTES = 16 << 20  # a small archive of repetitive text may exceed the ratio and is harmless
_MAX_NAMES_SHOWN = 6


class SizeLimit:
    """How much an archive without a published checksum may unpack to, for all its members together."""

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
                f"{self._path}: unpacks to more than {self._max_bytes:,} bytes from {self._num_packed_bytes:,} packed: "
                "larger than text can be, maybe a decompression bomb; delete it, and fetch it from its public place"
            )


def open_members(
    path: Path, archive_format: str, wanted: Collection[str], limit: SizeLimit | None = None
) -> Iterator[tuple[str, BinaryIO]]:
    """Yield (name, stream) of each wanted member, in the archive's order; a member named `.gz` is unpacked.

    Read a stream before you take the next one.

    Raises:
        CorpusError: naming the archive and the member, if a wanted one is missing, there twice, or no plain file;
            if any points out of the archive or is a device; if it unpacks to more than `limit`; or if it is torn.
    """
    members = _zip_members if archive_format == "zip" else _tar_members
    with _torn_archives_named(path):
        for name, stream in members(path, archive_format, wanted, limit):
            unpacked = gzip.GzipFile(fileobj=stream, mode="rb") if name.endswith(".gz") else stream
            is_counted = archive_format != "zip" and unpacked is stream  # as the tar was read
            yield name, cast(BinaryIO, _Reader(cast(BinaryIO, unpacked), path, None if is_counted else limit))


class _Reader:
    """A stream whose bytes are counted, and whose faults name the archive: they come up where it is read."""

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
    EOFError, zlib.error, lzma.LZMAError, tarfile.TarError, zipfile.BadZipFile,
    NotImplementedError,  # a zip's method of packing, or version
    ValueError,  # a zip's names that are not what they say, and offsets before its begin
    struct.error,
)  # fmt: skip


@contextlib.contextmanager
def _torn_archives_named(path: Path) -> Iterator[None]:
    try:
        yield
    except (*_DECODING_ERRORS, OSError) as error:
        # bz2's and gzip's own have no number, a seek before a file's begin has EINVAL; any other is the disk's fault
        if isinstance(error, OSError) and error.errno not in (None, errno.EINVAL):
            raise
        raise CorpusError(
            f"{path}: torn, or not an archive of its format: {error}; delete it and fetch it again"
        ) from error


def _tar_members(
    path: Path, archive_format: str, wanted: Collection[str], limit: SizeLimit | None
) -> Iterator[tuple[str, BinaryIO]]:
    """Walk through a tar once, from front to back, as it is unpacked."""
    choice = _MemberChoice(path, wanted)
    with path.open("rb") as packed:
        unpacked = cast(BinaryIO, gzip.GzipFile(fileobj=packed)) if archive_format == "tgz" else packed
        reader = cast(BinaryIO, _Reader(unpacked, path, limit))
        # "r|": tarfile never seeks, so neither sizes nor offsets of its headers lead anywhere but forward.
        with tarfile.open(fileobj=reader, mode="r|") as tar:
            while (member := tar.next()) is not None:
                if member.islnk() or member.issym():
                    folder = posixpath.dirname(member.name) if member.issym() else ""
                    _refuse_outside(path, posixpath.join(folder, member.linkname), f"link {member.name!r} to ")
                is_device = member.ischr() or member.isblk() or member.isfifo()
                is_plain = member.isreg() and not member.issparse()
                if choice.takes(member.name, is_device, is_plain):
                    yield posixpath.normpath(member.name), cast(BinaryIO, tar.extractfile(member))
                cast(Any, tar).members.clear()  # tarfile keeps every header, and an archive may have millions
        while reader.read(tarfile.RECORDSIZE):  # so that a gzip stream's own checksum is looked at
            pass
    choice.check_all_there()


def _zip_members(
    path: Path, archive_format: str, wanted: Collection[str], limit: SizeLimit | None
) -> Iterator[tuple[str, BinaryIO]]:
    choice = _MemberChoice(path, wanted)
    with zipfile.ZipFile(path) as archive:
        for member in archive.infolist():
            kind = stat.S_IFMT(member.external_attr >> 16)  # 0 where it was packed without Unix's kinds
            is_device = kind in (stat.S_IFCHR, stat.S_IFBLK, stat.S_IFIFO)
            if not choice.takes(member.filename, is_device, kind in (0, stat.S_IFREG) and not member.is_dir()):
                continue
            if member.flag_bits & 1:
                raise CorpusError(f"{path}: member {member.filename!r} is encrypted; fetch it from its public place")
            with archive.open(member) as stream:
                yield posixpath.normpath(member.filename), cast(BinaryIO, stream)
    choice.check_all_there()


class _MemberChoice:
    """Checks the members of an archive in turn: takes the wanted ones, refuses what no archive should hold."""

    def __init__(self, path: Path, wanted: Collection[str]) -> None:
        self._path = path
        self._wanted = wanted
        self._taken: set[str] = set()
        self._names_shown: list[str] = []
        self._num_names = 0

    def takes(self, name: str, is_device: bool, is_plain: bool) -> bool:
        """Return whether a member is wanted; `is_plain`: a file of bytes, no link or folder."""
        _refuse_outside(self._path, name, "member ")
        name = posixpath.normpath(name)
        self._num_names += 1
        self._names_shown += [name] if self._num_names <= _MAX_NAMES_SHOWN else []
        place = f"{self._path}: member {name!r}"
        if is_device:
            raise CorpusError(f"{place} is a device, expected a plain file; delete the archive and fetch it again")
        if name not in self._wanted:
            return False
        if name in self._taken:
            raise CorpusError(f"{place} occurs twice, in no published archive; delete the archive and fetch it again")
        self._taken.add(name)
        if not is_plain:
            raise CorpusError(
                f"{place} is a link or folder, expected a plain file; delete the archive and fetch it again"
            )
        return True

    def check_all_there(self) -> None:
        """Refuse an archive that ended without a wanted member."""
        missing = [name for name in self._wanted if name not in self._taken]
        if missing:
            shown = ", ".join(self._names_shown) or "nothing"
            more = f" and {self._num_names - _MAX_NAMES_SHOWN} more" if self._num_names > _MAX_NAMES_SHOWN else ""
            raise CorpusError(
                f"{self._path}: no member {missing[0]!r}; it holds {shown}{more}; correct member_by_language in the "
                "corpus file"
            )


def _refuse_outside(path: Path, name: str, subject: str) -> None:
    """Refuse a name that does not stay in the archive."""
    normal = posixpath.normpath(name.replace("\\", "/"))
    if normal.startswith(("/", "../")) or normal == "..":
        raise CorpusError(
            f"{path}: {subject}{name!r} points out of the archive, as in no published archive; delete it, and fetch it "
            "from its public place"
        )
