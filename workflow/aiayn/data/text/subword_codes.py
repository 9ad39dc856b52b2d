"""Byte-pair encoding by subword-nmt (Sennrich et al. 2016), as the recipes of 2016 and 2017 have it: codes, and `@@ `.

Codes and pieces are the library's own. Codes are learnt from words and their counts; a word's place in the text does
not matter to them, nor does the order of the languages (`cat train.de train.en` and the other way round give the same).

Learning holds every different word, its characters and the places of each pair: 1.7 KB a word, that is, some 5 GB for
three million words, as many as WMT14's tokens may have.
"""

import contextlib
import io
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from subword_nmt.apply_bpe import BPE  # type: ignore[import-untyped, unused-ignore]
from subword_nmt.learn_bpe import learn_bpe  # type: ignore[import-untyped, unused-ignore]

from aiayn.data.text.encoder import Encoder
from aiayn.data.text.lines import read_blocks, read_lines
from aiayn.errors import ConfigError, CorpusError
from aiayn.progress import progress_bar

HEADER = "#version: 0.2"  # of a file of codes; in older ones the end of a word was a symbol of its own
CONTINUATION = "@@"  # at the end of a piece: the word goes on
_WORD_END = "</w>"  # within codes: the piece ends its word
_LINES_PER_BLOCK = 8192


class CodesEncoder(Encoder):
    """Splits lines of tokens by learnt codes."""

    def __init__(self, codes_path: Path) -> None:
        """Load codes.

        Raises:
            CorpusError: if the file is absent or holds no codes, naming the line.
        """
        super().__init__()
        codes = "".join(f"{line}\n" for line in _checked_codes(codes_path))
        self._bpe = BPE(io.StringIO(codes, newline="\n"))
        self._bpe.cache = _Forgetful()  # the library's own grows with the text
        self._path = codes_path

    def pieces(self, line: str) -> str:
        """Return a line's pieces, separated by blanks, a piece inside its word ending in `@@`."""
        words = [word for word in line.split(" ") if word]
        for word in words:
            _require_one_token(word, str(self._path))
        return " ".join(self._bpe.segment_tokens(words))


class _Forgetful(dict[str, object]):
    """A mapping that keeps nothing."""

    def __setitem__(self, key: str, value: object) -> None:
        """Drop the value."""


def _checked_codes(path: Path) -> list[str]:
    """Return the lines of a file of codes; subword-nmt itself ends the process at a wrong one."""
    lines = list(read_lines(path))
    if lines[:1] != [HEADER]:
        raise CorpusError(f"{path}:1: {''.join(lines[:1])[:80]!r}; expected {HEADER!r}; rerun `aiayn segment`")
    for line_number, line in enumerate(lines[1:], start=2):
        pair = line.split(" ")
        if len(pair) != 2 or not all(pair):
            raise CorpusError(f"{path}:{line_number}: {line[:80]!r}; expected two symbols; rerun `aiayn segment`")
    return lines


def _require_one_token(word: str, place: str) -> None:
    if word.split() != [word]:
        raise CorpusError(
            f"{place}: the word {word!r} holds white space that is no blank, at which fairseq would split its pieces; "
            "tokenise the text first (`tokenise: moses`)"
        )


def count_words(paths: Sequence[Path]) -> Iterator[str]:
    """Yield a line `word count` for each word of all the files' lines together.

    Raises:
        CorpusError: if a word holds white space.
    """
    count_by_word: Counter[str] = Counter()
    for path in paths:
        for block in read_blocks(path, _LINES_PER_BLOCK):
            count_by_word.update(" ".join(block).split(" "))
    del count_by_word[""]  # between two blanks
    for word, count in count_by_word.items():
        _require_one_token(word, " and ".join(map(str, paths)))
        yield f"{word} {count}"


def learn_codes(count_lines: Iterable[str], num_merges: int, origin: str) -> list[str]:
    """Learn codes from lines `word count` and return the lines of their file, the header first.

    Raises:
        ConfigError: if the text of `origin` does not yield so many: a pair must occur twice to be merged.
    """
    with progress_bar(f"learning {num_merges:,} merges", num_merges, " merges") as bar:
        codes = _CountedCodes(bar)
        # Its own bar goes nowhere, for it would fill a log. An empty set of pairs makes its `max` raise ValueError.
        with contextlib.redirect_stderr(io.StringIO()), contextlib.suppress(ValueError):
            learn_bpe(count_lines, codes, num_merges, is_dict=True)
    lines = codes.getvalue().removesuffix("\n").split("\n")
    if len(lines) - 1 != num_merges:
        raise ConfigError(
            f"{origin}: subword.vocabulary_size is {num_merges} merges; this text yields {len(lines) - 1} at most; "
            "lower it to that or less"
        )
    return lines


class _CountedCodes(io.StringIO):
    """Takes what learn_bpe writes, the header and then a merge at a time, and moves a bar."""

    def __init__(self, bar: Any) -> None:
        super().__init__(newline="\n")
        self._bar = bar

    def write(self, line: str) -> int:
        """Take a line."""
        self._bar.update(line != f"{HEADER}\n")
        return super().write(line)


def codes_vocabulary(codes: Sequence[str]) -> Iterator[str]:
    """Yield a line for each piece that a merge makes: the piece as it is written in text, a tab, the merge's rank."""
    for rank, line in enumerate(codes[1:], start=1):
        merged = line.replace(" ", "")
        is_final = merged.endswith(_WORD_END)
        yield f"{merged.removesuffix(_WORD_END) if is_final else merged + CONTINUATION}\t{rank}"
