"""Text as numbers, a shard at a time: what binarize counts its dictionaries from and turns into fairseq's files.

A part holds of each language `<language>.numbers` (uint32: all symbols, each line ended by that of `</s>`),
`<language>.lengths` (int32: of each line, the end counted) and `<language>.symbols` (a line `number count symbol` for
each symbol that occurs). Numbers are of the part alone: processes may number the same symbols otherwise.
"""

import dataclasses
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO, Protocol

import msgspec
import numpy as np
import numpy.typing as npt

from aiayn.errors import CorpusError
from aiayn.records import TextPair
from aiayn.spec import CleanSpec, spec_digest
from aiayn.stages import STAGE_VERSIONS
from aiayn.text.lines import read_lines, write_lines
from aiayn.text.shards import Shard, map_shards, part_path, read_shard, split_into_shards
from aiayn.text.word_numbers import NUMBER_DTYPE, Numbered, as_bytes, join_rows

LENGTH_DTYPE = np.dtype("<i4")
_LINES_PER_BLOCK = 8192
_BYTES_PER_BLOCK = 1 << 20
_NO_COUNTS = np.zeros(0, np.int64)


class Numberer(Protocol):
    """Splits lines into symbols and numbers these; `symbols` may grow as lines pass. It can be pickled."""

    digest: str  # of all that its splitting depends on

    @property
    def symbols(self) -> list[str]:
        """All symbols so far, by their numbers."""

    def number(self, lines: Sequence[str]) -> Numbered:
        """Return the numbers of all lines' symbols, each line ended by `</s>`, and each line's length."""


class WordNumberer:
    """Numbers the words of text that comes in pieces; fairseq's words: what white space of any kind separates."""

    digest = "words"

    def __init__(self) -> None:
        """Begin with no symbol but the end of sentence, number 0."""
        self._number_by_symbol: dict[str, int] = {"</s>": 0}

    @property
    def symbols(self) -> list[str]:
        """All symbols so far, by their numbers."""
        return list(self._number_by_symbol)

    def number(self, lines: Sequence[str]) -> Numbered:
        """Return the numbers of all lines' words, each line ended by `</s>`, and each line's length."""
        numbers = self._number_by_symbol
        rows = [as_bytes([numbers.setdefault(word, len(numbers)) for word in line.split()]) for line in lines]
        return join_rows(rows, 0)


class NumberedPart(msgspec.Struct, frozen=True):
    """What was kept of a shard's pairs, and what was dropped for its lengths in symbols."""

    num_pairs: int
    num_dropped_by_reason: dict[str, int]


class _PartsKey(msgspec.Struct, frozen=True):
    """What the parts of a split depend on."""

    stage_version: int
    sha256_by_language: dict[str, str]
    digest_by_language: dict[str, str]
    limits: CleanSpec | None


class NumberedSplit(msgspec.Struct, frozen=True):
    """A split as numbers: its parts, in order, and what they say of themselves."""

    part_paths: list[Path]
    parts: list[NumberedPart]

    @property
    def num_pairs(self) -> int:
        """Pairs that were kept."""
        return sum(part.num_pairs for part in self.parts)

    def num_dropped(self) -> dict[str, int]:
        """Return the pairs that were dropped, by reason."""
        dropped: Counter[str] = Counter()
        for part in self.parts:
            dropped.update(part.num_dropped_by_reason)
        return dict(dropped)


@dataclasses.dataclass(frozen=True)
class NumberingWork:
    """Numbers a shard of line-aligned files; `limits`, if any, are on lengths in symbols, the end not counted.

    It is pickled with its numberers: these say by themselves how another process has them again.
    """

    path_by_language: Mapping[str, Path]
    numberer_by_language: Mapping[str, Numberer]
    limits: CleanSpec | None = None

    def __call__(self, shard: Shard, part_folder: Path) -> NumberedPart:
        """Write a shard's part."""
        lines_by_language = {
            language: read_shard(path, shard.offset_by_language[language], shard.num_lines)
            for language, path in self.path_by_language.items()
        }
        writers = {language: _SideWriter(part_folder, language) for language in self.path_by_language}
        num_dropped_by_reason: dict[str, int] = {}
        num_pairs = 0
        for first in range(0, shard.num_lines, _LINES_PER_BLOCK):
            num_lines = min(_LINES_PER_BLOCK, shard.num_lines - first)
            numbered_by_language = {
                language: self.numberer_by_language[language].number(list(islice(lines, num_lines)))
                for language, lines in lines_by_language.items()
            }
            if self.limits is not None:
                lengths = [lengths - 1 for _, lengths in numbered_by_language.values()]
                kept = kept_pairs(lengths, self.limits, num_dropped_by_reason)
                numbered_by_language = {k: _select(numbered, kept) for k, numbered in numbered_by_language.items()}
            for language, numbered in numbered_by_language.items():
                writers[language].write(numbered)
            num_pairs += next(iter(numbered_by_language.values()))[1].size
        for language, writer in writers.items():
            writer.finish(self.numberer_by_language[language].symbols)
        return NumberedPart(num_pairs=num_pairs, num_dropped_by_reason=num_dropped_by_reason)


def kept_pairs(
    lengths: Sequence[npt.NDArray[np.int32]], limits: CleanSpec, num_dropped_by_reason: dict[str, int]
) -> npt.NDArray[np.bool_]:
    """Return which pairs keep the limits, by their two lengths, and count the others by the first reason that holds.

    As clean-corpus-n.perl: an empty side, a side over `max_words`, a longer side over `max_length_ratio` times the
    shorter.
    """
    shorter, longer = np.minimum(*lengths), np.maximum(*lengths)
    is_bad_by_reason = {"empty_side": shorter == 0}
    if limits.max_words is not None:
        is_bad_by_reason["too_long"] = longer > limits.max_words
    if limits.max_length_ratio is not None:
        is_bad_by_reason["length_ratio"] = longer / np.maximum(shorter, 1) > limits.max_length_ratio
    kept = np.ones(shorter.size, np.bool_)
    for reason, is_bad in is_bad_by_reason.items():
        num_dropped_by_reason[reason] = num_dropped_by_reason.get(reason, 0) + int((kept & is_bad).sum())
        kept &= ~is_bad
    return kept


def _select(numbered: Numbered, kept: npt.NDArray[np.bool_]) -> Numbered:
    numbers, lengths = numbered
    return numbers[np.repeat(kept, lengths)], lengths[kept]


class _SideWriter:
    """Writes one language of a part."""

    def __init__(self, folder: Path, language: str) -> None:
        self._numbers = (folder / f"{language}.numbers").open("wb")
        self._lengths = (folder / f"{language}.lengths").open("wb")
        self._symbols_path = folder / f"{language}.symbols"
        self._counts = _NO_COUNTS

    def write(self, numbered: Numbered) -> None:
        """Append lines."""
        numbers, lengths = numbered
        self._numbers.write(numbers.astype(NUMBER_DTYPE, copy=False).tobytes())
        self._lengths.write(lengths.astype(LENGTH_DTYPE, copy=False).tobytes())
        counts = np.bincount(numbers, minlength=self._counts.size)
        counts[: self._counts.size] += self._counts
        self._counts = counts

    def finish(self, symbols: Sequence[str]) -> None:
        """Close the files and write the symbols that occur."""
        self._numbers.close()
        self._lengths.close()
        occurring = np.flatnonzero(self._counts).tolist()
        write_lines((f"{n} {self._counts[n]} {symbols[n]}" for n in occurring), self._symbols_path)


def read_symbols(part_folder: Path, language: str) -> Iterator[tuple[int, int, str]]:
    """Yield number, count and symbol of each symbol that occurs in a part."""
    for line in read_lines(part_folder / f"{language}.symbols"):
        number, count, symbol = line.split(" ", 2)
        yield int(number), int(count), symbol


def read_blocks_of(content: BinaryIO, dtype: "np.dtype[Any]") -> "Iterator[npt.NDArray[Any]]":
    """Yield a file's numbers in arrays of at most a block."""
    while block := content.read(_BYTES_PER_BLOCK):
        yield np.frombuffer(block, dtype)


def number_split(
    numberer_by_language: Mapping[str, Numberer],
    pair: TextPair,
    limits: CleanSpec | None,
    folder: Path,
    lines_per_shard: int,
    *,
    num_processes: int,
) -> NumberedSplit:
    """Turn a split into parts, each language by its numberer.

    Raises:
        CorpusError: if the limits leave no pair.
    """
    digest_by_language = {language: numberer.digest for language, numberer in numberer_by_language.items()}
    key = spec_digest(_PartsKey(STAGE_VERSIONS["binarize"], pair.sha256_by_language, digest_by_language, limits))
    shards = split_into_shards(pair.path_by_language, lines_per_shard=lines_per_shard)
    parts = map_shards(
        NumberingWork(pair.path_by_language, numberer_by_language, limits),
        shards,
        NumberedPart,
        folder=folder,
        key=key,
        num_processes=num_processes,
        what=f"numbering {folder.name}",
    )
    numbered = NumberedSplit([part_path(folder, key, shard) for shard in shards], parts)
    if numbered.num_pairs == 0:
        raise CorpusError(
            f"{' and '.join(map(str, pair.path_by_language.values()))}: no pair is left of {pair.num_lines}, dropped: "
            f"{numbered.num_dropped()}; look at the corpus file's clean.max_words and clean.max_length_ratio"
        )
    return numbered
