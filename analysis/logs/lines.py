"""A log file as lines, in blocks: memory does not grow with the file, whatever it holds. gzip and xz are unpacked.

A line ends at LF alone and is counted so. Within it, what a terminal would show is kept apart: each piece between
carriage returns (tqdm rewrites its line so) counts as a line of its own with the same number; CRLF is one end. Colours
and cursor movements are taken out, and so is the rank that `srun --label` puts before a line.
"""

import hashlib
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import BinaryIO

from aiayn.packed import UNPACK_ERRORS, open_unpacked

BLOCK_BYTES = 1 << 18
MAX_LINE_BYTES = 1 << 22
NUM_LINES_SNIFFED = 100  # srun labels every line, or none
ESCAPE = re.compile(rb"\x1b\[[0-9;?]*[A-Za-z]")
RANK_LABEL = re.compile(rb"^\s*\[?(?:rank ?)?(\d+)\]?: (?=\d{4}-|\||\{|Namespace|[STHDP]-)")


class LogText:
    """The lines of one file, read once; after the last block `digest` is that of its bytes, unpacked.

    A last line without LF may be cut anywhere: it is not yielded, `cut_piece` is its last piece. `fault` is
    (line, reason) where reading ended for a fault: bytes that are no text, a line longer than MAX_LINE_BYTES, or a
    packed file that is cut or damaged.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.num_lines = 0
        self.num_other_ranks_lines = 0
        self.cut_piece = b""
        self.fault: tuple[int, str] | None = None
        self.digest = ""
        self._has_labels: bool | None = None

    def blocks(self) -> Iterator[Iterable[tuple[int, bytes]]]:
        """Yield blocks of (line number, piece of a line without its end); by blocks, as most lines need no look."""
        hashed = hashlib.blake2b(digest_size=16)
        rest = b""
        with open_unpacked(self.path) as blocks:
            while block := self._read(blocks):
                hashed.update(block)
                if b"\0" in block:
                    self.fault = (self.num_lines + 1, "holds a zero byte: no text")
                    return
                lines = (rest + block).split(b"\n")
                rest = lines.pop()
                if self._has_labels is None and lines:
                    self._has_labels = any(RANK_LABEL.match(line) for line in lines[:NUM_LINES_SNIFFED])
                is_plain = b"\r" not in block and b"\x1b" not in block and not self._has_labels
                yield enumerate(lines, self.num_lines + 1) if is_plain else self._pieces(lines)
                self.num_lines += len(lines)
                if len(rest) > MAX_LINE_BYTES:
                    rest = rest[rest.rfind(b"\r") + 1 :]  # a bar that was rewritten for hours: only its end is kept
                    if len(rest) > MAX_LINE_BYTES:
                        self.fault = (self.num_lines + 1, f"a line of more than {MAX_LINE_BYTES:,} bytes: no log")
                        return
        if self.fault is not None:
            return
        self.digest = hashed.hexdigest()
        if rest:
            for _, piece in self._pieces([rest]):
                self.cut_piece = piece
            self.num_lines += 1

    def _read(self, blocks: BinaryIO) -> bytes:
        """Return the next block, empty at the end; a packed file that is damaged ends there, which is a fault."""
        try:
            return blocks.read(BLOCK_BYTES)
        except UNPACK_ERRORS as error:
            self.fault = (self.num_lines + 1, f"cannot be unpacked on from here ({error})")
            return b""

    def _pieces(self, lines: list[bytes]) -> list[tuple[int, bytes]]:
        """Return what a terminal would show of each line, piece by piece, of rank 0 alone where lines are labelled."""
        found = []
        for number, line in enumerate(lines, self.num_lines + 1):
            for piece in ESCAPE.sub(b"", line).split(b"\r"):
                label = RANK_LABEL.match(piece) if self._has_labels else None
                if label is not None and int(label[1]):
                    self.num_other_ranks_lines += 1
                elif piece:
                    found.append((number, piece[label.end() :] if label is not None else piece))
        return found
