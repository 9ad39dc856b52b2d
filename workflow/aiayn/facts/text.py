"""Reads the lines of a log file, in memory that does not grow with the file. Files compressed by
gzip or xz are decompressed.

If a log cannot be read to its end, the result has a fault with the line number and a next step for
the user. Only LF ends a line. The progress bar tqdm rewrites its line after each carriage return
(CR): the text between two CRs is read as a separate line with the same line number. CRLF counts as
one line end. Terminal codes for colours and cursor movements are removed, and so are the prefixes
that launchers, containers and pastes add to lines (`prefixes.py`).
"""

import codecs
import functools
import re
from collections.abc import Iterator
from itertools import chain, islice
from pathlib import Path
from typing import BinaryIO

from aiayn.data.text.prefixes import NUM_LINES_SNIFFED, find_prefix, without_prefix
from aiayn.facts.types import Refusal
from aiayn.packed import UNPACK_ERRORS, open_unpacked

MAX_LINE_BYTES = 1 << 26  # tqdm writes all bars of an epoch into one line
ESCAPE = re.compile(rb"\x1b\[[0-9;?]*[A-Za-z]")


class LogText:
    """The lines of one log file, which can be read once.

    A last line without LF may be incomplete, so it is not yielded. The end of an incomplete last
    line, after its last CR, is kept in `cut_piece`. The field `fault` says where and why reading of
    the file ended early: binary data, UTF-16, a line longer than MAX_LINE_BYTES, a compressed file
    that is cut or damaged, or a file that cannot be opened. Bytes that are not UTF-8 are read
    unchanged.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.num_lines = 0
        self.cut_piece = b""
        self.fault: Refusal | None = None

    def lines(self) -> Iterator[tuple[int, bytes]]:
        """Yield the lines of a log with their line numbers, without prefixes, line ends, and the
        blanks before line ends. A line with CRs is yielded in pieces. Lines of ranks (training
        processes) other than rank 0 are left out.
        """
        try:
            with open_unpacked(self.path) as stream:
                yield from self._lines_of(stream)
        except UNPACK_ERRORS as error:
            text = f"cannot be unpacked on from here ({error})"
            self.fault = Refusal(line=self.num_lines + 1, text=text)
        except OSError as error:
            text = f"cannot be read ({error.strerror or error})"
            next_step = "make it readable, or take it out of the folder"
            self.fault = Refusal(line=0, text=text, next_step=next_step)

    def _lines_of(self, stream: BinaryIO) -> Iterator[tuple[int, bytes]]:
        # `readline` with a limit, because a file that is not text may have no line feed at all.
        lines = iter(functools.partial(stream.readline, MAX_LINE_BYTES), b"")
        # The first lines show whether a launcher put a prefix before each line.
        first_lines = list(islice(lines, NUM_LINES_SNIFFED))
        prefix = find_prefix([line.rstrip(b"\n") for line in first_lines])
        for number, line in enumerate(chain(first_lines, lines), start=1):
            self.fault = _fault_of(number, line)
            if self.fault is not None:
                return
            self.num_lines = number
            # A progress bar of tqdm writes `\r` and its new text without a line feed. `\x1b[A`
            # moves the cursor.
            for piece in ESCAPE.sub(b"", line.removesuffix(b"\n")).split(b"\r"):
                content = piece.removeprefix(codecs.BOM_UTF8) if number == 1 else piece
                # A copy from a terminal may pad its lines with blanks.
                content = content.rstrip(b" ")
                plain = content if prefix is None else without_prefix(content, prefix)
                # A last line without LF may be torn, and a torn number would be read as a whole
                # one.
                if plain and line.endswith(b"\n"):
                    yield number, plain
                elif plain:
                    self.cut_piece = plain


def _fault_of(number: int, line: bytes) -> Refusal | None:
    """Return the reason why reading of a log stops at a line, or None if it goes on."""
    take_out = "take it out of the folder"
    # Windows PowerShell writes UTF-16 for `command > file.log`.
    if number == 1 and line.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        text = "UTF-16, as PowerShell writes it"
        return Refusal(line=1, text=text, next_step="convert it: iconv -f UTF-16 -t UTF-8")
    if b"\0" in line:
        next_step = "take the zero bytes out (tr -d '\\000'), or copy it again"
        next_step = take_out if number == 1 else next_step
        return Refusal(line=number, text="holds a zero byte: no text", next_step=next_step)
    if len(line) == MAX_LINE_BYTES and not line.endswith(b"\n"):
        text = f"a line of more than {MAX_LINE_BYTES:,} bytes: no log"
        return Refusal(line=number, text=text, next_step=take_out)
    return None
