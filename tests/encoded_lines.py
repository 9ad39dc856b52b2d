"""Lines as binarize encodes them: word by word, by an encoder."""

import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from aiayn.data.text.binarize import EncodingWork, SideOfChunk
from aiayn.data.text.chunks import Chunk
from aiayn.data.text.encoder import LineEncoder


def encoded_side(encoder: LineEncoder, lines: Sequence[str]) -> SideOfChunk:
    """Return lines as one side of a chunk."""
    text = "".join(f"{line}\n" for line in lines).encode()
    with tempfile.NamedTemporaryFile() as content:
        content.write(text)
        content.flush()
        chunk = Chunk({"en": Path(content.name)}, 1, len(lines), {"en": (0, len(text))})
        return EncodingWork({"en": encoder})(chunk)["en"]


def encoded_lines(encoder: LineEncoder, lines: Sequence[str]) -> list[str]:
    """Return each line's symbols, separated by blanks. Each line ends in `</s>`."""
    side = encoded_side(encoder, lines)
    ends = np.cumsum(side.lengths)[:-1]
    return [
        " ".join(side.symbols[number] for number in row) for row in np.split(side.numbers, ends)
    ]
