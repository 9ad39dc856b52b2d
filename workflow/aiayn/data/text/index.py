"""Reads the .idx files of fairseq's data-bin, which have a header and the number of tokens of each
line.
"""

import struct
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

INDEX_MAGIC = b"MMIDIDX\x00\x00"
# The magic word, the version, a code of the indices' width, the number of lines.
INDEX_HEADER = struct.Struct("<9sQBQ")
LENGTH_DTYPE = np.dtype("<i4")


def pair_lengths(folder: Path, split: str, languages: Sequence[str]) -> npt.NDArray[np.int32]:
    """Return the length of each sentence pair of a split: the number of tokens of its longer side,
    including the end-of-sentence symbol.
    """
    lengths = []
    for language in languages:
        path = folder / f"{split}.{'-'.join(languages)}.{language}.idx"
        with path.open("rb") as index:
            # The lengths follow the header directly, so the positions after them need not be read.
            *_, num_lines = INDEX_HEADER.unpack(index.read(INDEX_HEADER.size))
            lengths.append(np.fromfile(index, LENGTH_DTYPE, num_lines))
    return np.maximum(*lengths)
