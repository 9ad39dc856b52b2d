"""Appends the sides of one archive to the files of a corpus: lines end at LF alone, are UTF-8, and
equal in number.

Text passes in blocks: memory does not grow with the corpus. No character is changed; only a last
line without LF gets one, lest it join the next archive's first. Sides are members of text or of
markup (.sgm), or columns of a parquet file, as Hugging Face keeps WMT14.

An .sgm file looks like XML and is none: a bare `&` or `<` is text ("S&P"), so an XML reader refuses
it, and as `&amp;` may be what a sentence says, nothing is unescaped (sacreBLEU's fake_sgml.py and
tensorflow/datasets do neither). Unlike there, a segment may begin anywhere on a line, share one, or
span several.
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
MAX_MARKUP_BYTES = (
    64 << 20
)  # an .sgm file is a test set and is read whole; the largest of WMT's has 2 MB
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
    """Write each language's member after what its file holds, and return the number of lines of
    each side.

    `max_lines`: the published number of a side, None if there is none; reading ends at the first
    line more.
    `limit`: of an archive without a published checksum.

    Raises:
        CorpusError: naming archive, member and line, if a side is missing, empty, not UTF-8, longer
            than published, or of another number of lines; and as
            `aiayn.data.sources.archives.open_members`.
    """
    if archive_format == "parquet":
        num_lines_by_member = append_columns(
            path, member_by_language, into, max_lines=max_lines, limit=limit
        )
    else:
        language_by_member = {member: language for language, member in member_by_language.items()}
        num_lines_by_member = {
            name: append_member(
                stream,
                into[language_by_member[name]],
                f"{path}: {name}",
                is_markup=is_markup(name),
                max_lines=max_lines,
            )
            for name, stream in open_members(path, archive_format, language_by_member, limit)
        }
    counts = ", ".join(f"{name} has {count}" for name, count in num_lines_by_member.items())
    for name, count in num_lines_by_member.items():
        if count == 0:
            raise CorpusError(
                f"{path}: {name} is empty ({counts} lines); expected text; delete it and fetch it"
                " again"
            )
    if len(set(num_lines_by_member.values())) != 1:
        raise CorpusError(
            f"{path}: sides of unequal numbers of lines: {counts}; expected line by line"
            " translations"
        )
    return next(iter(num_lines_by_member.values()))


def is_markup(name: str) -> bool:
    """Return whether a member is read by its markup."""
    return name.removesuffix(".gz").endswith(".sgm")


def append_member(
    stream: BinaryIO, into: BinaryIO, place: str, *, is_markup: bool, max_lines: int | None = None
) -> int:
    """Write a member's lines and return how many.

    Raises:
        CorpusError: with `place` and line, if it is not UTF-8 or goes on after `max_lines`, or a
            side of markup is torn or too large.
    """
    if not is_markup:
        return _append_lines(stream, into, place, max_lines)
    content = stream.read(MAX_MARKUP_BYTES + 1)
    if len(content) > MAX_MARKUP_BYTES:
        raise CorpusError(
            f"{place}: more than {MAX_MARKUP_BYTES:,} bytes of markup; expected a test set"
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
        CorpusError: naming `place` and the first line too many.
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
        undecided = decoder.getstate()[
            0
        ]  # the first bytes of a character that the next block goes on with
        num_lines += block.count(b"\n")
        # a block's last line may lack its LF yet, but it has begun
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
        f"{place}:{line_number}: not UTF-8: bytes {wrong_bytes} ({error.reason}); the archive is of"
        " another encoding, or not the published one"
    )


def append_columns(
    path: Path,
    column_by_language: Mapping[str, str],
    into: Mapping[str, BinaryIO],
    *,
    max_lines: int | None = None,
    limit: SizeLimit | None = None,
) -> dict[str, int]:
    """Write each language's column after what its file holds, and return the number of lines of
    each column.

    A column within a column is named with a dot: `translation.de`.

    Raises:
        ConfigError: if pyarrow is not installed.
        CorpusError: before anything is read, if by the file's footer there are more rows than
            `max_lines`; naming file, column and row, if a column is missing, or a row is null or
            holds a line feed; if the text is over `limit`.
    """
    try:
        pyarrow, parquet = (
            importlib.import_module("pyarrow"),
            importlib.import_module("pyarrow.parquet"),
        )
    except ImportError as error:
        raise ConfigError(
            f"{path}: needs pyarrow to be read; `pip install pyarrow`, or name other archives"
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
            f"{path}: torn, or no parquet file: {error}; delete it and fetch it again"
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
    """Yield each segment as one line; a line break inside one becomes a blank, all other characters
    stay.

    Raises:
        CorpusError: with `place` and line, if a segment does not end before the next one or the
        file does.
    """
    position = 0
    while (begin := _BEGIN.search(text, position)) is not None:
        end = _END.search(text, begin.end())
        following = _BEGIN.search(text, begin.end())
        if end is None or (following is not None and following.start() < end.start()):
            line_number = text.count("\n", 0, begin.start()) + 1
            raise CorpusError(
                f"{place}:{line_number}: {begin.group()} has no </seg>; the file is torn, fetch it"
                " anew"
            )
        yield _LINE_BREAK.sub(" ", text[begin.end() : end.start()].strip("\r\n"))
        position = end.end()
