"""Appends the sides of one archive to the files of a corpus, read as streams; it trusts nothing else in the archive.

Lines end at LF alone, are UTF-8, and equal in number on both sides. Memory does not grow with the corpus. No character
is changed; only a last line without LF gets one, lest it join the next archive's first.

No file is written under a name from an archive, so a path outside it or a link has no effect. No published archive
holds such things; so the whole archive is refused, whether the member is wanted or not, for a member whose name is
absolute or leaves the archive by `..`, with slashes or backslashes, and, in a tar, for a link whose target does so; and
for a wanted member that is absent, repeated, no plain file, encrypted, of an unknown compression, or torn. `SizeLimit`
bounds what an archive without a published checksum may unpack to, the published number of lines what each side may be.

An .sgm member looks like XML and is none: a bare `&` or `<` is text ("S&P"), so an XML reader refuses it, and as
`&amp;` may be what a sentence says, nothing is unescaped (sacreBLEU's fake_sgml.py and tensorflow/datasets do neither).
Unlike there, a segment may begin anywhere on a line, share one, or span several.
"""

import contextlib
import errno
import functools
import gzip
import io
import lzma
import posixpath
import re
import stat
import struct
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Collection, Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO, cast

from aiayn.errors import CorpusError

MAX_UNPACKED_PER_PACKED = 20  # text packs to a third or a quarter; gzip reaches 1,000, as in a decompression bomb
MIN_UNPACKED_BYTES = 16 << 20  # a small archive of repetitive text may exceed the ratio and is harmless
_MAX_NAMES_SHOWN = 6
_BLOCK_BYTES = 1 << 20
# An attribute's value may hold a `>` in its quotes.
_BEGIN = re.compile(r"""<seg(?=[\s>])(?:[^>"']|"[^"]*"|'[^']*')*>""", re.IGNORECASE)
_END = re.compile(r"</seg\s*>", re.IGNORECASE)
_LINE_BREAK = re.compile(r"[ \t]*\r?\n[ \t]*")
_DECODING_ERRORS = (
    EOFError, zlib.error, lzma.LZMAError, tarfile.TarError, zipfile.BadZipFile,
    RuntimeError,  # a zip's encryption, or its method of packing
    ValueError,  # a zip's names that are not what they say, and offsets before its begin
    struct.error,
)  # fmt: skip


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


def append_archive(
    path: Path,
    archive_format: str,
    member_by_language: Mapping[str, str],
    into: Mapping[str, BinaryIO],
    *,
    max_lines: int | None = None,
    limit: SizeLimit | None = None,
) -> int:
    """Write each language's member after what its file holds, and return the number of lines of each side.

    `max_lines`: the published number of a side, None if there is none; reading ends at the first line more.
    `limit`: of an archive without a published checksum.

    Raises:
        CorpusError: naming archive, member and line, if a side is missing, empty, not UTF-8, longer than published, or
            of another number of lines; and as `open_members`.
    """
    language_by_member = {member: language for language, member in member_by_language.items()}
    num_lines_by_member = {}
    for name, stream in open_members(path, archive_format, language_by_member, limit):
        num_lines = 0
        for num_lines, line in enumerate(read_member(stream, name, f"{path}: {name}"), start=1):
            if max_lines is not None and num_lines > max_lines:
                raise CorpusError(
                    f"{path}: {name}:{num_lines}: goes on after the {max_lines:,} published lines (num_lines in the "
                    "corpus file): not the recipe's text; compare its checksum, and correct the file or num_lines"
                )
            into[language_by_member[name]].write(line)
        num_lines_by_member[name] = num_lines
    counts = ", ".join(f"{name} has {count}" for name, count in num_lines_by_member.items())
    if num_lines == 0 or len(set(num_lines_by_member.values())) != 1:
        raise CorpusError(
            f"{path}: sides that are empty or of unequal numbers of lines: {counts}; expected line by line translation"
        )
    return num_lines


def open_members(
    path: Path, archive_format: str, wanted: Collection[str], limit: SizeLimit | None = None
) -> Iterator[tuple[str, BinaryIO]]:
    """Yield (name, stream) of each wanted member, in the archive's order; a member named `.gz` is unpacked.

    Read a stream before you take the next one.

    Raises:
        CorpusError: naming the archive and the member, if a wanted one is missing, there twice, or no plain file;
            if any points out of the archive; if it unpacks to more than `limit`; or if it is torn.
    """
    first_names: list[str] = []
    taken: set[str] = set()
    with _torn_archives_named(path):
        members = _zip_members(path) if archive_format == "zip" else _tar_members(path, archive_format, limit)
        for full_name, is_plain, open_member in members:
            _refuse_outside(path, full_name, "member ")
            name = posixpath.normpath(full_name)
            if len(first_names) < _MAX_NAMES_SHOWN:
                first_names.append(name)
            if name not in wanted:
                continue
            if name in taken or not is_plain:
                fault = "occurs twice" if name in taken else "is a link, folder or device, expected a plain file"
                raise CorpusError(f"{path}: member {name!r} {fault}; delete the archive and fetch it again")
            taken.add(name)
            with open_member() as stream:
                unpacked = gzip.GzipFile(fileobj=stream, mode="rb") if name.endswith(".gz") else stream
                is_counted = archive_format != "zip" and unpacked is stream  # as the tar was read
                reader: Any = io.BufferedReader(_Reader(unpacked, path, None if is_counted else limit), _BLOCK_BYTES)
                yield name, reader
    for name in wanted:
        if name not in taken:
            raise CorpusError(
                f"{path}: no member {name!r}; it begins with {', '.join(first_names) or 'nothing'}; correct "
                "member_by_language in the corpus file"
            )


class _Reader(io.RawIOBase):
    """A stream whose bytes are counted, and whose faults name the archive: they come up where it is read."""

    def __init__(self, stream: Any, path: Path, limit: SizeLimit | None) -> None:
        self._stream, self._path, self._limit = stream, path, limit

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        with _torn_archives_named(self._path):
            block = self._stream.read(len(buffer))
        if self._limit is not None:
            self._limit.count(len(block))
        buffer[: len(block)] = block
        return len(block)


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


_Members = Iterator[tuple[str, bool, Callable[[], Any]]]  # name, whether it is a plain file, what opens it


def _tar_members(path: Path, archive_format: str, limit: SizeLimit | None) -> _Members:
    """Walk through a tar once, from front to back, as it is unpacked."""
    with path.open("rb") as packed:
        reader = _Reader(gzip.GzipFile(fileobj=packed) if archive_format == "tgz" else packed, path, limit)
        # "r|": tarfile never seeks, so neither sizes nor offsets of its headers lead anywhere but forward.
        with tarfile.open(fileobj=cast(BinaryIO, reader), mode="r|") as tar:
            while (entry := tar.next()) is not None:
                if entry.islnk() or entry.issym():
                    folder = posixpath.dirname(entry.name) if entry.issym() else ""
                    _refuse_outside(path, posixpath.join(folder, entry.linkname), f"link {entry.name!r} to ")
                is_plain = entry.isreg() and not entry.issparse()
                yield entry.name, is_plain, functools.partial(tar.extractfile, entry)
                cast(Any, tar).members.clear()  # tarfile keeps every header, and an archive may have millions
        while reader.read(tarfile.RECORDSIZE):  # so that a gzip stream's own checksum is looked at
            pass


def _zip_members(path: Path) -> _Members:
    with zipfile.ZipFile(path) as archive:
        for entry in archive.infolist():
            kind = stat.S_IFMT(entry.external_attr >> 16)  # 0 where it was packed without Unix's kinds
            is_plain = kind in (0, stat.S_IFREG) and not entry.is_dir()
            yield entry.filename, is_plain, functools.partial(archive.open, entry)


def _refuse_outside(path: Path, name: str, subject: str) -> None:
    """Refuse a name that does not stay in the archive."""
    normal = posixpath.normpath(name.replace("\\", "/"))
    if normal.startswith(("/", "../")) or normal == "..":
        raise CorpusError(
            f"{path}: {subject}{name!r} points out of the archive, as in no published archive; delete it, and fetch it "
            "from its public place"
        )


def read_member(stream: BinaryIO, name: str, place: str) -> Iterator[bytes]:
    """Yield a member's lines, each with its LF; of markup (.sgm, which is read whole) its segments.

    Raises:
        CorpusError: with `place` and line, if it is not UTF-8, or markup is torn.
    """
    if name.removesuffix(".gz").endswith(".sgm"):
        text = b"".join(_utf8_lines(stream, place)).decode()
        yield from (f"{segment}\n".encode() for segment in read_segments(text, place))
    else:
        yield from _utf8_lines(stream, place)


def _utf8_lines(stream: BinaryIO, place: str) -> Iterator[bytes]:
    for line_number, line in enumerate(stream, start=1):
        try:
            line.decode()
        except UnicodeDecodeError as error:
            wrong_bytes = line[error.start : error.start + 4].hex(" ")
            raise CorpusError(
                f"{place}:{line_number}: not UTF-8: bytes {wrong_bytes} ({error.reason}); the archive is of another "
                "encoding, or not the published one"
            ) from error
        yield line if line.endswith(b"\n") else line + b"\n"


def read_segments(text: str, place: str) -> Iterator[str]:
    """Yield each segment as one line; a line break inside one becomes a blank, all other characters stay.

    Raises:
        CorpusError: with `place` and line, if a segment does not end before the next one or the file does.
    """
    position = 0
    while (begin := _BEGIN.search(text, position)) is not None:
        end = _END.search(text, begin.end())
        following = _BEGIN.search(text, begin.end())
        if end is None or (following is not None and following.start() < end.start()):
            line_number = text.count("\n", 0, begin.start()) + 1
            raise CorpusError(f"{place}:{line_number}: {begin.group()} has no </seg>; the file is torn, fetch it anew")
        yield _LINE_BREAK.sub(" ", text[begin.end() : end.start()].strip("\r\n"))
        position = end.end()
