"""Appends the two sides (source and target text) of an archive to the files of a corpus. Also reads
the segments (sentences) of test sets in .sgm files.

In the files of a corpus a line ends at LF only, and source and target must have the same number of
lines. Text is copied in blocks, so memory does not grow with the corpus. The characters of the text
are not changed. If the last line of an archive has no LF, it gets an LF, so that the first line of
the next archive is not appended to it.

Test sets come as markup. An .sgm file looks like XML but is not XML: a bare ampersand or less-than
sign is text ("S&P"), which an XML reader refuses. A sentence of an .sgm file may contain an entity
such as `&amp;` literally, so no entity is unescaped (sacreBLEU's fake_sgml.py and
tensorflow/datasets do the same). In contrast to the readers of sacreBLEU and tensorflow/datasets,
this reader accepts several segments in a line, and a segment of several lines.
"""

import re
import tarfile
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import BinaryIO

from aiayn.data.sources.archives import open_members
from aiayn.data.text.lines import agreed_num_lines
from aiayn.errors import CorpusError
from aiayn.packed import UNPACK_ERRORS

_BLOCK_BYTES = 1 << 20
# An attribute's value may hold a `>` in its quotes.
_BEGIN = re.compile(r"""<seg(?=[\s>])(?:[^>"']|"[^"]*"|'[^']*'){0,999}>""", re.IGNORECASE)
_END = re.compile(r"</seg\s*>", re.IGNORECASE)
_LINE_BREAK = re.compile(r"[ \t]*\r?\n[ \t]*")


def append_archive(
    path: Path, member_by_language: Mapping[str, str], into: Mapping[str, BinaryIO]
) -> int:
    """Append each language's member (a file in the archive) to its output file. Return the number
    of lines appended to each file, which is the same for both languages.

    Raises:
        CorpusError: if the text of a language is missing or empty, if the two texts differ in their
            number of lines, or if the archive is truncated or not of the format that its file name
            says. The message contains archive and member.
    """
    # `open_members` yields members in the order of the archive, so a member must lead to its
    # language.
    language_by_member = {member: language for language, member in member_by_language.items()}
    num_lines_by_place = {}
    try:
        for name, stream in open_members(path, language_by_member):
            file = into[language_by_member[name]]
            num_lines_by_place[f"{path}: {name}"] = _append_lines(stream, file)
    # zipfile raises RuntimeError for a member that needs a password.
    except (*UNPACK_ERRORS, tarfile.TarError, zipfile.BadZipFile, RuntimeError) as error:
        raise CorpusError(
            f"{path}: torn, or not an archive of its format: {error}; delete it and fetch it again"
        ) from error
    return agreed_num_lines(num_lines_by_place)


def _append_lines(stream: BinaryIO, into: BinaryIO) -> int:
    """Write the lines of an archive's member. Return the number of lines."""
    num_lines = 0
    block = b""
    while next_block := stream.read(_BLOCK_BYTES):
        block = next_block
        num_lines += block.count(b"\n")
        into.write(block)
    # After the loop `block` is the last block of the member, or empty for an empty member.
    if block and not block.endswith(b"\n"):
        into.write(b"\n")
        num_lines += 1
    return num_lines


def read_segments(text: str, place: str) -> Iterator[str]:
    """Yield each segment (sentence) of an .sgm file as a line. A line break inside a segment
    becomes a blank.

    Raises:
        CorpusError: if the end tag of a segment is missing. The message contains `place` (the file)
            and the line number.
    """
    position = 0
    # Two segments may be on one line: `<seg id="1">Yes.</seg><seg id="2">No.</seg>`.
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
