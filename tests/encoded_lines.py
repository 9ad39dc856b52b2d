"""Lines as binarize encodes them: word by word, by an encoder."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from aiayn.text.binarize import Encoder, EncodingWork
from aiayn.text.chunks import Chunk


def encoded_lines(encoder: Encoder, lines: Sequence[str]) -> list[str]:
    """Return each line's symbols, separated by blanks; each line ends in `</s>`."""
    text = "".join(f"{line}\n" for line in lines).encode()
    side = EncodingWork({"en": encoder}, None)(Chunk({"en": Path("x")}, 1, len(lines), {"en": text})).side_by_language
    numbers, lengths, symbols, _ = side["en"]
    ends = np.cumsum(lengths)[:-1]
    return [" ".join(symbols[number] for number in row) for row in np.split(numbers, ends)]
