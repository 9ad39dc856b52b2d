"""A log file as lines, in blocks: memory does not grow with the file, whatever it holds.

A line ends at LF alone and is counted so. Within it, what a terminal would show is kept apart: each piece between
carriage returns (tqdm rewrites its line so) counts as a line of its own with the same number; CRLF is one end. Colours
and cursor movements are taken out, and so is the rank that `srun --label` puts before a line.
"""

import hashlib
import re
from collections.abc import Iterator
from pathlib import Path

BLOCK_BYTES = 1 << 18
MAX_LINE_BYTES = 1 << 22
ESCAPE = re.compile(rb"\x1b\[[0-9;?]*[A-Za-z]")
RANK_LABEL = re.compile(rb"^\s*\[?(?:rank ?)?(\d+)\]?: (?=\d{4}-|\||\{|Namespace|[STHDP]-)")


class LogText:
    """The lines of one file, read once; after the last, `digest` is that of its bytes.

    `is_cut` tells that the last line has no LF. `fault` is (line, reason) where reading ended for a fault: bytes that
    are no text, or a line longer than MAX_LINE_BYTES.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.num_lines = 0
        self.num_other_ranks_lines = 0
        self.is_cut = False
        self.fault: tuple[int, str] | None = None
        self.digest = ""

    def __iter__(self) -> Iterator[tuple[int, bytes]]:
        """Yield (line number, piece of a line without its end)."""
        hashed = hashlib.blake2b(digest_size=16)
        rest = b""
        with self.path.open("rb") as blocks:
            while block := blocks.read(BLOCK_BYTES):
                hashed.update(block)
                if b"\0" in block:
                    self.fault = (self.num_lines + 1, "holds a zero byte: no text")
                    return
                lines = (rest + block).split(b"\n") if rest else block.split(b"\n")
                rest = lines.pop()
                yield from self._pieces(lines, is_plain=b"\r" not in block and b"\x1b" not in block)
                if len(rest) > MAX_LINE_BYTES:
                    rest = rest[rest.rfind(b"\r") + 1 :]  # a bar that was rewritten for hours: only its end is kept
                    if len(rest) > MAX_LINE_BYTES:
                        self.fault = (self.num_lines + 1, f"a line of more than {MAX_LINE_BYTES:,} bytes: no log")
                        return
        self.is_cut = rest != b""
        if rest:
            yield from self._pieces([rest], is_plain=False)
        self.digest = hashed.hexdigest()

    def _pieces(self, lines: list[bytes], *, is_plain: bool) -> Iterator[tuple[int, bytes]]:
        number = self.num_lines
        for line in lines:
            number += 1
            if not is_plain or b"\r" in line or b"\x1b" in line:
                for piece in ESCAPE.sub(b"", line).split(b"\r"):
                    if piece:
                        yield number, self._unlabelled(piece)
            elif line:
                yield number, line if line[4:5] == b"-" else self._unlabelled(line)
            self.num_lines = number

    def _unlabelled(self, line: bytes) -> bytes:
        """Return a line without its rank label; a line of another rank than 0 is counted, and empty."""
        label = RANK_LABEL.match(line) if b": " in line[:10] else None
        if label is None:
            return line
        if int(label[1]):
            self.num_other_ranks_lines += 1
            return b""
        return line[label.end() :]
