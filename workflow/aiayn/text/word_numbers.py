"""Number the pieces of lines word by word, the words seen lately from memory.

Byte-pair encoding splits each word by itself, whatever stands around it, and text repeats its words: 97 % of them are
found here. Whoever joins words to lines this way has to know that no piece spans two of them.
"""

from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt

MAX_WORDS = 1 << 18  # in each of two generations: at most 120 MB in all, whatever the length of the text
NUMBER_DTYPE = np.dtype("<u4")

Numbered = tuple[npt.NDArray[np.uint32], npt.NDArray[np.int32]]  # of lines: all numbers, and how many each line has


class WordNumbers(dict[str, bytes]):
    """The numbers of a word's pieces, as bytes of NUMBER_DTYPE, by the word.

    When it is full, its words become the older generation: the next full one replaces that, but for the words
    asked for again. So what is kept are the words seen lately, without a list of uses.
    """

    def __init__(self, number_word: Callable[[str], Sequence[int]]) -> None:
        """Begin without a word; `number_word` splits and numbers one that is not known."""
        super().__init__()
        self._number_word = number_word
        self._older: dict[str, bytes] = {}

    def __missing__(self, word: str) -> bytes:
        numbers = self._older.pop(word, None)
        if numbers is None:
            numbers = as_bytes(self._number_word(word)) if word else b""
        if len(self) >= MAX_WORDS:
            self._older = dict(self)
            self.clear()
        self[word] = numbers
        return numbers

    def row(self, line: str) -> bytes:
        """Return the numbers of a line's words, which blanks (U+0020 alone) separate."""
        return b"".join(map(self.__getitem__, line.split(" ")))


def as_bytes(numbers: Sequence[int]) -> bytes:
    """Return numbers as bytes of NUMBER_DTYPE."""
    return np.array(numbers, NUMBER_DTYPE).tobytes()


def join_rows(rows: Sequence[bytes], end: int) -> Numbered:
    """Return all lines' numbers, each line ended by the number `end`, and the lines' lengths, the end counted.

    Shapes: (num_tokens,) and (num_lines,).
    """
    end_bytes = as_bytes([end])
    lengths = np.fromiter(map(len, rows), np.int32, len(rows)) // NUMBER_DTYPE.itemsize + 1
    content = b"".join([end_bytes.join(rows), end_bytes]) if rows else b""
    return np.frombuffer(content, NUMBER_DTYPE), lengths.astype(np.int32)
