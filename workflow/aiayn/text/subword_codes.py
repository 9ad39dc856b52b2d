"""Byte-pair encoding by subword-nmt (Sennrich et al. 2016), as the recipes of 2016 and 2017 have it: codes, and `@@ `.

Codes and pieces are the library's own. Codes are learnt from words and their counts, which are counted in shards; a
word's place in the text does not matter to them, nor does the order of the languages (`cat train.de train.en` and the
other way round give the same). Words are split one by one, so each is split once and then remembered.

Learning holds every different word, its characters and the places of each pair: 1.7 KB a word, that is, some 5 GB for
three million words, as many as WMT14's tokens may have.
"""

import contextlib
import functools
import importlib.metadata
import io
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path

import msgspec
from subword_nmt.apply_bpe import BPE  # type: ignore[import-untyped, unused-ignore]
from subword_nmt.learn_bpe import learn_bpe  # type: ignore[import-untyped, unused-ignore]

from aiayn.errors import ConfigError, CorpusError
from aiayn.provenance import file_sha256
from aiayn.text.learning_watch import LearningWatch
from aiayn.text.lines import read_lines, write_lines
from aiayn.text.shards import Shard, read_shard
from aiayn.text.word_numbers import Numbered, WordNumbers, join_rows

HEADER = "#version: 0.2"  # of a file of codes; in older ones the end of a word was a symbol of its own
CONTINUATION = "@@"  # at the end of a piece: the word goes on
_WORD_END = "</w>"  # within codes: the piece ends its word
_LINES_PER_BLOCK = 8192


class CountedWords(msgspec.Struct, frozen=True):
    """How many different words a shard has of each language; the counts lie in its part."""

    num_words_by_language: dict[str, int]


class CodesEncoder:
    """Splits lines of tokens by learnt codes; numbers its pieces as they come."""

    def __init__(self, codes_path: Path) -> None:
        """Load codes.

        Raises:
            CorpusError: if the file is absent or holds no codes, naming the line.
        """
        codes = "".join(f"{line}\n" for line in _checked_codes(codes_path))
        self._bpe = BPE(io.StringIO(codes, newline="\n"))
        self._bpe.cache = _Forgetful()  # the library's own grows with the text
        self._path = codes_path
        self.digest = f"subword-nmt {importlib.metadata.version('subword-nmt')}, {file_sha256(codes_path)}"
        self._number_by_symbol: dict[str, int] = {"</s>": 0}
        self._numbers_by_word = WordNumbers(self._number_word)

    def __reduce__(self) -> tuple[Callable[..., "CodesEncoder"], tuple[object, ...]]:
        """Be pickled as the file's path: a process loads each model once, whatever the number of its shards."""
        return _load_once, (self._path, self.digest)

    @property
    def symbols(self) -> list[str]:
        """All pieces so far, by their numbers."""
        return list(self._number_by_symbol)

    def pieces(self, line: str) -> str:
        """Return a line's pieces, separated by blanks, a piece inside its word ending in `@@`."""
        return " ".join(piece for word in line.split(" ") for piece in self._split(word))

    def number(self, lines: Sequence[str]) -> Numbered:
        """Return the indices into `symbols` of all lines' pieces, each line ended by `</s>`, and each line's length.

        Shapes: (num_tokens,) and (num_lines,); a length counts its `</s>`.
        """
        return join_rows([self._numbers_by_word.row(line) for line in lines], 0)

    def _number_word(self, word: str) -> list[int]:
        numbers = self._number_by_symbol
        return [numbers.setdefault(piece, len(numbers)) for piece in self._split(word)]

    def _split(self, word: str) -> list[str]:
        if not word:
            return []
        _require_one_token(word, str(self._path))
        pieces: list[str] = self._bpe.segment_tokens([word])
        return pieces


class _Forgetful(dict[str, object]):
    """A mapping that keeps nothing."""

    def __setitem__(self, key: str, value: object) -> None:
        """Drop the value."""


@functools.lru_cache(maxsize=4)
def _load_once(codes_path: Path, digest: str) -> CodesEncoder:
    encoder = CodesEncoder(codes_path)
    if encoder.digest != digest:
        raise CorpusError(f"{codes_path}: changed while it was read: {encoder.digest}, expected {digest}; start again")
    return encoder


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


def count_words(path_by_language: Mapping[str, Path], shard: Shard, part_folder: Path) -> CountedWords:
    """Write `<language>.words`, a line `word count` for each word of a shard."""
    num_words_by_language = {}
    for language, path in path_by_language.items():
        count_by_word: Counter[str] = Counter()
        lines = read_shard(path, shard.offset_by_language[language], shard.num_lines)
        while block := list(islice(lines, _LINES_PER_BLOCK)):
            count_by_word.update(" ".join(block).split(" "))
        del count_by_word[""]  # between two blanks
        num_words_by_language[language] = len(count_by_word)
        write_lines(_count_lines(count_by_word), part_folder / f"{language}.words")
    return CountedWords(num_words_by_language=num_words_by_language)


def merge_counts(paths: Iterable[Path], merged_path: Path) -> None:
    """Write the sums of files of counts, a line `word count`.

    Raises:
        CorpusError: if a word holds white space.
    """
    count_by_word: Counter[str] = Counter()
    for path in paths:
        for line in read_lines(path):
            word, _, count = line.rpartition(" ")
            count_by_word[word] += int(count)
    for word in count_by_word:
        _require_one_token(word, str(merged_path))
    write_lines(_count_lines(count_by_word), merged_path)


def _count_lines(count_by_word: Mapping[str, int]) -> Iterator[str]:
    return (f"{word} {count}" for word, count in count_by_word.items())


def learn_codes(count_lines: Iterable[str], num_merges: int, origin: str, watch: LearningWatch) -> list[str]:
    """Learn codes from lines `word count` and return the lines of their file, the header first.

    Raises:
        ConfigError: if the text of `origin` does not yield so many: a pair must stand there twice to be merged.
    """
    codes = _WatchedCodes(watch, num_merges)
    # Its bar goes nowhere: the watch says the same. An empty set of pairs makes its `max` raise ValueError.
    with contextlib.redirect_stderr(io.StringIO()), contextlib.suppress(ValueError):
        learn_bpe(count_lines, codes, num_merges, is_dict=True)
    lines = codes.getvalue().removesuffix("\n").split("\n")
    if len(lines) - 1 != num_merges:
        raise ConfigError(
            f"{origin}: subword.vocabulary_size is {num_merges} merges; this text yields {len(lines) - 1} at most; "
            "lower it to that or less"
        )
    return lines


class _WatchedCodes(io.StringIO):
    """Takes what learn_bpe writes, a merge at a time, and tells the watch."""

    def __init__(self, watch: LearningWatch, num_merges: int) -> None:
        super().__init__(newline="\n")
        self._watch, self._num_merges, self._num_written = watch, num_merges, 0

    def write(self, line: str) -> int:
        """Take a line: the header, then merges."""
        self._watch.state = f"{self._num_written:,}/{self._num_merges:,} merges"
        self._num_written += 1
        return super().write(line)


def codes_vocabulary(codes: Sequence[str]) -> Iterator[str]:
    """Yield a line for each piece that a merge makes: the piece as it is written in text, a tab, the merge's rank."""
    for rank, line in enumerate(codes[1:], start=1):
        merged = line.replace(" ", "")
        is_final = merged.endswith(_WORD_END)
        yield f"{merged.removesuffix(_WORD_END) if is_final else merged + CONTINUATION}\t{rank}"
