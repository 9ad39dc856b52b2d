"""One side of the shards' text joined to one file, without the lines that are marked; counted and hashed on its way."""

import hashlib
import itertools
from collections.abc import Iterable, Iterator
from pathlib import Path

from aiayn.text.deduplicate import Mask

_BLOCK_BYTES = 1 << 20


def join_parts(parts: Iterable[tuple[Path, Mask | None]], into: Path) -> tuple[int, str]:
    """Write the parts' lines, but for those marked, one part after the other; return how many, and the SHA-256.

    Each part's lines all end in LF; its mask has a mark a line, or is None if there is none to leave out.
    """
    digest, num_lines = hashlib.sha256(), 0
    with into.open("wb") as joined:
        for path, mask in parts:
            for block in _blocks(path) if mask is None else _unmarked_blocks(path, mask):
                joined.write(block)
                digest.update(block)
                num_lines += block.count(b"\n")
    return num_lines, digest.hexdigest()


def _blocks(path: Path) -> Iterator[bytes]:
    with path.open("rb") as content:
        while block := content.read(_BLOCK_BYTES):
            yield block


def _unmarked_blocks(path: Path, mask: Mask) -> Iterator[bytes]:
    with path.open("rb") as lines:
        unmarked = (line for line, is_marked in zip(lines, mask.tolist(), strict=True) if not is_marked)
        while block := b"".join(itertools.islice(unmarked, 4096)):
            yield block
