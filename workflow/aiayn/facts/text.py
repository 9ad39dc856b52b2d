"""Reads the lines of a log file, in memory that does not grow with the file. gzip and xz are
unpacked.

If a file cannot be read to its end, the result has a fault with the line number and a next step.
Only LF ends a line. tqdm rewrites its line after carriage returns: each piece between them is read
as a separate line with the same number. CRLF is one line end. Colours and cursor movements are
removed, and so are the prefixes of launchers, containers and pastes (`prefixes.py`).
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
    """The lines of one file, read once.

    A last line without LF may be incomplete. It is not yielded. `cut_piece` has its last piece.
    `fault` says where and why reading ended: binary data, UTF-16, a line longer than
    MAX_LINE_BYTES, a packed file that is cut or damaged, or a file that cannot be opened. Bytes
    outside of UTF-8 are read unchanged.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.num_lines = 0
        self.cut_piece = b""
        self.fault: Refusal | None = None

    def lines(self) -> Iterator[tuple[int, bytes]]:
        """Yield line number and content of each piece of a line, without prefixes, line ends and
        the lines of other ranks.
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
                plain = content if prefix is None else without_prefix(content, prefix)
                # A last line without LF may be torn, and a torn number would be read as a whole
                # one.
                if plain and line.endswith(b"\n"):
                    yield number, plain
                elif plain:
                    self.cut_piece = plain


def _fault_of(number: int, line: bytes) -> Refusal | None:
    """Return the reason why reading stops at a line, or None if it goes on."""
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
