"""Appends the two sides of an archive to the files of a corpus.

A line ends at LF only. Text must be UTF-8, and both sides must have the same number of lines. Text
is copied in blocks, so memory does not grow with the corpus. No character is changed, but a last
line without LF gets one, so that it does not join the first line of the next archive. Sides are
members of text or of markup (.sgm), or columns of a parquet file, as Hugging Face stores WMT14.

An .sgm file looks like XML but is not: a bare `&` or `<` is text ("S&P"), so an XML reader refuses
it. `&amp;` may be what a sentence says, so nothing is unescaped (sacreBLEU's fake_sgml.py and
tensorflow/datasets do the same). In contrast to these two, several segments may share a line, and a
segment may span several lines.
"""

import codecs
import importlib
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import BinaryIO

from aiayn.data.sources.archives import SizeLimit, open_members
from aiayn.errors import ConfigError, CorpusError

_BLOCK_BYTES = 1 << 20
# An .sgm file is a test set and is read whole; WMT's largest has 2 MB.
MAX_MARKUP_BYTES = 64 << 20
ROWS_PER_BATCH = 8192
# An attribute's value may hold a `>` in its quotes.
_BEGIN = re.compile(r"""<seg(?=[\s>])(?:[^>"']|"[^"]*"|'[^']*')*>""", re.IGNORECASE)
_END = re.compile(r"</seg\s*>", re.IGNORECASE)
_LINE_BREAK = re.compile(r"[ \t]*\r?\n[ \t]*")


def append_archive(
    path: Path,
    archive_format: str,
    member_by_language: Mapping[str, str],
    into: Mapping[str, BinaryIO],
    *,
    max_lines: int | None = None,
    limit: SizeLimit | None = None,
) -> int:
    """Append each language's member to its file, and return the number of lines of each side.

    `max_lines` is the published number, None if it is not published; reading stops at the first
    line beyond it. `limit` is for an archive without a published checksum.

    Raises:
        CorpusError: naming archive, member and line, if a side is missing, empty, not UTF-8 or
            longer than published, or if the sides differ in length; also as
            `aiayn.data.sources.archives.open_members`.
    """
    if archive_format == "parquet":
        num_lines_by_member = append_columns(
            path, member_by_language, into, max_lines=max_lines, limit=limit
        )
    else:
        language_by_member = {member: language for language, member in member_by_language.items()}
        num_lines_by_member = {}
        for name, stream in open_members(path, archive_format, language_by_member, limit):
            num_lines_by_member[name] = append_member(
                stream,
                into[language_by_member[name]],
                f"{path}: {name}",
                is_markup=is_markup(name),
                max_lines=max_lines,
            )
    counts = ", ".join(f"{name} has {count}" for name, count in num_lines_by_member.items())
    for name, count in num_lines_by_member.items():
        if count == 0:
            raise CorpusError(
                f"{path}: {name} is empty ({counts} lines); expected text; delete it and fetch it"
                " again"
            )
    if len(set(num_lines_by_member.values())) != 1:
        raise CorpusError(
            f"{path}: sides of unequal numbers of lines: {counts}; expected line-by-line"
            " translations; delete it and fetch it again"
        )
    return next(iter(num_lines_by_member.values()))


def is_markup(name: str) -> bool:
    """Return whether a member's segments are found by its markup."""
    return name.removesuffix(".gz").endswith(".sgm")


def append_member(
    stream: BinaryIO, into: BinaryIO, place: str, *, is_markup: bool, max_lines: int | None = None
) -> int:
    """Write a member's lines and return how many.

    Raises:
        CorpusError: with `place` and line, if the member is not UTF-8 or has more than `max_lines`,
            or if markup is torn or too large.
    """
    if not is_markup:
        return _append_lines(stream, into, place, max_lines)
    content = stream.read(MAX_MARKUP_BYTES + 1)
    if len(content) > MAX_MARKUP_BYTES:
        raise CorpusError(
            f"{place}: more than {MAX_MARKUP_BYTES:,} bytes of markup; expected a test set; correct"
            " member_by_language in the corpus file"
        )
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise _encoding_error(content, error, 0, place) from error
    num_lines = 0
    for segment in read_segments(text, place):
        num_lines += 1
        check_published(num_lines, max_lines, place)
        into.write(f"{segment}\n".encode())
    return num_lines


def check_published(num_lines: int, max_lines: int | None, place: str) -> None:
    """Refuse a side that has more lines than were published, before they are written.

    Raises:
        CorpusError: naming `place` and the first surplus line.
    """
    if max_lines is not None and num_lines > max_lines:
        raise CorpusError(
            f"{place}:{max_lines + 1}: goes on after the {max_lines:,} published lines (num_lines"
            " in the corpus file): not the recipe's text; compare its checksum, and correct the"
            " file or num_lines"
        )


def _append_lines(stream: BinaryIO, into: BinaryIO, place: str, max_lines: int | None) -> int:
    decoder = codecs.getincrementaldecoder("utf-8")()
    num_lines, block, undecided = 0, b"", b""
    while read := stream.read(_BLOCK_BYTES):
        block = read
        try:
            decoder.decode(block)
        except UnicodeDecodeError as error:
            raise _encoding_error(undecided + block, error, num_lines, place) from error
        undecided = decoder.getstate()[0]  # the first bytes of a character that the block cuts
        num_lines += block.count(b"\n")
        # The next block may hold the LF of this block's last line, which counts already.
        check_published(num_lines + (not block.endswith(b"\n")), max_lines, place)
        into.write(block)
    if undecided:
        raise CorpusError(
            f"{place}:{num_lines + 1}: not UTF-8: ends inside a character; fetch it again"
        )
    if block and not block.endswith(b"\n"):
        into.write(b"\n")
        num_lines += 1
    return num_lines


def _encoding_error(
    content: bytes, error: UnicodeDecodeError, num_lines_before: int, place: str
) -> CorpusError:
    line_number = num_lines_before + content.count(b"\n", 0, error.start) + 1
    wrong_bytes = content[error.start : error.start + 4].hex(" ")
    return CorpusError(
        f"{place}:{line_number}: not UTF-8: bytes {wrong_bytes} ({error.reason}); the archive has"
        " another encoding or is not the published archive; delete it and fetch it again"
    )


def append_columns(
    path: Path,
    column_by_language: Mapping[str, str],
    into: Mapping[str, BinaryIO],
    *,
    max_lines: int | None = None,
    limit: SizeLimit | None = None,
) -> dict[str, int]:
    """Append each language's parquet column to its file, and return the columns' numbers of lines.

    A column within a column is named with a dot: `translation.de`.

    Raises:
        ConfigError: if pyarrow is not installed.
        CorpusError: naming file, column and row, if a column is missing, or a row is null or holds
            a line feed; if the text exceeds `limit`; and, before any row is read, if the file's
            footer states more rows than `max_lines`.
    """
    try:
        pyarrow = importlib.import_module("pyarrow")
        parquet = importlib.import_module("pyarrow.parquet")
    except ImportError as error:
        raise ConfigError(
            f"{path}: only pyarrow can read it; `pip install pyarrow`, or name other archives"
        ) from error
    num_lines_by_column = dict.fromkeys(column_by_language.values(), 0)
    try:
        with parquet.ParquetFile(path) as rows:
            columns = {column.path for column in rows.schema}
            for column in column_by_language.values():
                if column not in columns:
                    raise CorpusError(
                        f"{path}: no column {column!r}; it has {', '.join(sorted(columns))}"
                    )
            check_published(rows.metadata.num_rows, max_lines, str(path))
            for batch in rows.iter_batches(
                ROWS_PER_BATCH, columns=list(column_by_language.values())
            ):
                for language, column in column_by_language.items():
                    place = f"{path}: {column}"
                    name, *inner_names = column.split(".")
                    values = batch.column(name)
                    for name in inner_names:
                        values = values.field(name)
                    lines: list[str | None] = values.to_pylist()
                    text = _joined(lines, place, num_lines_by_column[column])
                    if limit is not None:
                        limit.count(len(text))
                    into[language].write(text)
                    num_lines_by_column[column] += len(lines)
    except (pyarrow.ArrowException, OSError) as error:
        raise CorpusError(
            f"{path}: torn, or not a parquet file: {error}; delete it and fetch it again"
        ) from error
    return num_lines_by_column


def _joined(lines: list[str | None], place: str, num_rows_before: int) -> bytes:
    for row_index, line in enumerate(lines):
        if line is None or "\n" in line:
            fault = "null" if line is None else f"a line feed inside it: {line!r}"
            raise CorpusError(
                f"{place}: row {num_rows_before + row_index + 1} is {fault}; expected one line of"
                " text"
            )
    return "".join(f"{line}\n" for line in lines).encode()


def read_segments(text: str, place: str) -> Iterator[str]:
    """Yield each segment as a line; a line break inside it becomes a blank.

    Raises:
        CorpusError: with `place` and line, if a segment has no end before the next segment or the
        end of the file.
    """
    position = 0
    while (begin := _BEGIN.search(text, position)) is not None:
        end = _END.search(text, begin.end())
        following = _BEGIN.search(text, begin.end())
        if end is None or (following is not None and following.start() < end.start()):
            line_number = text.count("\n", 0, begin.start()) + 1
            raise CorpusError(
                f"{place}:{line_number}: {begin.group()} has no </seg>; the file is torn, fetch it"
                " again"
            )
        yield _LINE_BREAK.sub(" ", text[begin.end() : end.start()].strip("\r\n"))
        position = end.end()
