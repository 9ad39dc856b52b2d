"""Reads a log file as blocks of lines, in memory that does not grow with the file. gzip and xz are
unpacked.

If a file cannot be read to its end, the result has a fault with the line number and a next step.
Only LF ends a line. tqdm rewrites its line after carriage returns: each piece between them is read
as a separate line with the same number. CRLF is one line end. Colours and cursor movements are
removed, and so are the prefixes of launchers, containers and pastes (`prefixes.py`).
"""

import codecs
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import BinaryIO

from aiayn.data.text.prefixes import find_prefix, without_prefix
from aiayn.facts.types import Refusal
from aiayn.packed import UNPACK_ERRORS, open_unpacked

BLOCK_BYTES = 1 << 18
MAX_LINE_BYTES = 1 << 22
ESCAPE = re.compile(rb"\x1b\[[0-9;?]*[A-Za-z]")


class LogText:
    """The lines of one file, read once.

    A last line without LF may be incomplete. It is not yielded; `cut_piece` has its last piece.
    `fault` says where and why reading ended: binary data, UTF-16, a line longer than
    MAX_LINE_BYTES, a packed file that is cut or damaged, or a file that cannot be opened. Bytes
    outside of UTF-8 are read unchanged.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.num_lines = 0
        self.cut_piece = b""
        self.fault: Refusal | None = None
        self._prefix: re.Pattern[bytes] | None = None
        self._is_sniffed = False

    def blocks(self) -> Iterator[Iterable[tuple[int, bytes]]]:
        """Yield blocks of (line number, piece of a line without its end). Blocks are fast, because
        most lines need not be looked at one by one.
        """
        rest = b""
        try:
            stream = open_unpacked(self.path)
        except OSError as error:
            self.fault = _unreadable(error)
            return
        is_first = True
        with stream as blocks:
            while block := self._read(blocks):
                if is_first:
                    block, is_first = block.removeprefix(codecs.BOM_UTF8), False
                    self.fault = _utf_16(block)
                if self.fault is None and b"\0" in block:
                    self.fault = self._zero_byte(block)
                if self.fault is not None:
                    return
                lines = (rest + block).split(b"\n")
                rest = lines.pop()
                if not self._is_sniffed and lines:
                    self._prefix, self._is_sniffed = find_prefix(lines), True
                is_plain = b"\r" not in block and b"\x1b" not in block and self._prefix is None
                yield enumerate(lines, self.num_lines + 1) if is_plain else self._pieces(lines)
                self.num_lines += len(lines)
                if len(rest) > MAX_LINE_BYTES:
                    rest = rest[
                        rest.rfind(b"\r") + 1 :
                    ]  # a bar that was rewritten for hours: only its end is kept
                    if len(rest) > MAX_LINE_BYTES:
                        text = f"a line of more than {MAX_LINE_BYTES:,} bytes: no log"
                        self.fault = Refusal(
                            line=self.num_lines + 1,
                            text=text,
                            next_step="take it out of the folder",
                        )
                        return
        if self.fault is not None:
            return
        if rest:
            for _, piece in self._pieces([rest]):
                self.cut_piece = piece
            self.num_lines += 1

    def _read(self, blocks: BinaryIO) -> bytes:
        """Return the next block, empty at the end. A packed file that is damaged ends there, which
        is a fault.
        """
        try:
            return blocks.read(BLOCK_BYTES)
        except UNPACK_ERRORS as error:
            self.fault = Refusal(
                line=self.num_lines + 1, text=f"cannot be unpacked on from here ({error})"
            )
        except OSError as error:
            self.fault = _unreadable(error)
        return b""

    def _zero_byte(self, block: bytes) -> Refusal:
        line = self.num_lines + 1 + block.count(b"\n", 0, block.index(b"\0"))
        step = (
            "take it out of the folder"
            if line == 1
            else "take the zero bytes out (tr -d '\\000'), or copy it again"
        )
        return Refusal(line=line, text="holds a zero byte: no text", next_step=step)

    def _pieces(self, lines: list[bytes]) -> list[tuple[int, bytes]]:
        """Return what a terminal would show of each line, piece by piece, without prefixes and
        lines of other ranks.
        """
        pieces = []
        for number, line in enumerate(lines, self.num_lines + 1):
            for piece in ESCAPE.sub(b"", line).split(b"\r"):
                plain = piece if self._prefix is None else without_prefix(piece, self._prefix)
                if plain:
                    pieces.append((number, plain))
        return pieces


def _unreadable(error: OSError) -> Refusal:
    text = f"cannot be read ({error.strerror or error})"
    return Refusal(line=0, text=text, next_step="make it readable, or take it out of the folder")


def _utf_16(block: bytes) -> Refusal | None:
    """Return the refusal of a file that begins with the mark of UTF-16."""
    if not block.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return None
    return Refusal(
        line=1,
        text="UTF-16, as PowerShell writes it",
        next_step="convert it: iconv -f UTF-16 -t UTF-8",
    )
