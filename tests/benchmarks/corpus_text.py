"""Parallel text for benchmarks, of any length: fragments of real sentence pairs put together anew, and invented words.

Repeating real text would flatter whoever remembers words or drops duplicates. Here a line is a row of fragments, each
of some words of one real pair and the words that stand in the same share of its translation, about a seventh of them
replaced by words of an invented vocabulary that Zipf's law draws from. An invented word is the beginning of one real
word and the end of another, so that letters follow each other as they do in the language.

The first pairs of a long text are a short text's: block after block has a generator of its own, of seed and block.
"""

import gzip
import urllib.parse
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

MEAN_WORDS = 24.0  # of a source line of WMT14's training text
SIGMA_OF_LOG_LENGTH = 0.6  # then the standard deviation is 16 words, and 1 line in 60 has more than 64
NUM_INVENTED_TYPES = 600_000  # a side; 4.5 million pairs show nine tenths of them
INVENTED_FRACTION = 0.15
MAX_FRAGMENT_WORDS = 11
PAIRS_PER_BLOCK = 20_000
NEWS_WEIGHT = 3  # the news test sets are a sixth of the real text at hand, and the more like WMT14
_MIN_STEM_LETTERS = 2
_NEWS = {"en-de": ("newstest2013", "newstest2014"), "en-fr": ("newstest2013", "newstest2014-fren")}
_CAPTIONS = ("train", "val", "test_2016_flickr", "test_2017_flickr")

Words = npt.NDArray[np.int64]  # each a row of a side's table


def read_real_pairs(mirror: str, language_pair: str) -> list[tuple[str, str]]:
    """Return the sentence pairs of newstest and Multi30k below a mirror, a `file://` base; news NEWS_WEIGHT times.

    Raises:
        FileNotFoundError: naming what the mirror lacks.
    """
    base = Path(urllib.request.url2pathname(urllib.parse.urlsplit(mirror).path))
    languages = language_pair.split("-")
    news: list[tuple[str, str]] = []
    for name in _NEWS[language_pair]:
        news += _read_pair([base / "newstest" / f"{name}.{language}" for language in languages])
    captions: list[tuple[str, str]] = []
    for name in _CAPTIONS:
        folder = base / "multi30k" / "data" / "task1" / "raw"
        captions += _read_pair([folder / f"{name}.{language}.gz" for language in languages])
    return news * NEWS_WEIGHT + captions


def _read_pair(paths: Sequence[Path]) -> list[tuple[str, str]]:
    source, target = (
        (gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()).decode().split("\n")[:-1]
        for path in paths
    )
    return list(zip(source, target, strict=True))


@dataclass(frozen=True)
class _Side:
    """One language: `table` has each word with a blank after it, then each with a line feed; real words come first."""

    table: "npt.NDArray[np.object_]"
    num_real_types: int
    words: Words  # of all real lines, one after the other
    fragment_begins: Words
    fragment_lengths: Words


class CorpusText:
    """A seeded source of parallel text."""

    def __init__(
        self, real_pairs: Sequence[tuple[str, str]], *, seed: int, num_invented_types: int = NUM_INVENTED_TYPES
    ) -> None:
        """Cut the real pairs into fragments and invent so many words a side.

        Raises:
            ValueError: if the real text has too few words to invent so many from.
        """
        rng = np.random.default_rng(seed)
        self._seed = seed
        pairs = [pair for pair in real_pairs if pair[0].strip(" ") and pair[1].strip(" ")]
        words_by_side = [
            [[word for word in line.split(" ") if word] for line in side] for side in zip(*pairs, strict=True)
        ]
        lengths = np.array([[len(line) for line in lines] for lines in words_by_side])
        cuts = _cut(lengths, rng)
        self._sides = [
            _make_side(lines, side_cuts, num_invented_types, rng)
            for lines, side_cuts in zip(words_by_side, cuts, strict=True)
        ]
        shares = 1 / np.arange(1, num_invented_types + 1)  # Zipf's law
        self._cumulative_share = np.cumsum(shares) / shares.sum()
        self._mean_fragments = MEAN_WORDS / self._sides[0].fragment_lengths.mean()

    @property
    def num_types(self) -> tuple[int, int]:
        """The different words of each side's vocabulary, real and invented."""
        first, second = (len(side.table) // 2 for side in self._sides)
        return first, second

    def blocks(self, num_pairs: int) -> Iterator[tuple[str, str]]:
        """Yield the text of both sides, PAIRS_PER_BLOCK lines at a time, each line ended by a line feed."""
        for block_index in range(-(-num_pairs // PAIRS_PER_BLOCK)):
            rng = np.random.default_rng([self._seed, block_index])
            source, target = self._block(rng)
            num_lines = min(PAIRS_PER_BLOCK, num_pairs - block_index * PAIRS_PER_BLOCK)
            if num_lines < PAIRS_PER_BLOCK:
                source, target = (_first_lines(text, num_lines) for text in (source, target))
            yield source, target

    def _block(self, rng: np.random.Generator) -> tuple[str, str]:
        mean, sigma = self._mean_fragments - 0.5, SIGMA_OF_LOG_LENGTH  # rounding up adds the half
        drawn = rng.lognormal(np.log(mean) - sigma**2 / 2, sigma, PAIRS_PER_BLOCK)
        num_fragments = np.maximum(1, np.ceil(drawn)).astype(np.int64)
        line_begins = np.cumsum(num_fragments) - num_fragments
        fragments = rng.integers(len(self._sides[0].fragment_begins), size=int(num_fragments.sum()))
        source, target = (self._text(side, fragments, line_begins, rng) for side in self._sides)
        return source, target

    def _text(self, side: _Side, fragments: Words, line_begins: Words, rng: np.random.Generator) -> str:
        lengths = side.fragment_lengths[fragments]
        fragment_ends = np.cumsum(lengths)
        positions = np.arange(fragment_ends[-1]) + np.repeat(
            side.fragment_begins[fragments] - (fragment_ends - lengths), lengths
        )
        words = side.words[positions]
        words_per_line = np.add.reduceat(lengths, line_begins)
        line_ends = np.cumsum(words_per_line)
        is_replaced = rng.random(words.size) < INVENTED_FRACTION
        # One at least in every line, for short lines of real words alone would be drawn twice.
        one = line_ends - words_per_line + (rng.random(line_ends.size) * words_per_line).astype(np.int64)
        is_replaced[one] = True
        ranks = np.searchsorted(self._cumulative_share, rng.random(int(is_replaced.sum())))
        words[is_replaced] = side.num_real_types + ranks
        words[line_ends - 1] += len(side.table) // 2
        return "".join(side.table[words].tolist())


def write_corpus_text(text: CorpusText, num_pairs: int, path_by_language: Mapping[str, Path]) -> None:
    """Write so many pairs, source first, into the two files."""
    source_path, target_path = path_by_language.values()
    with source_path.open("wb") as source_file, target_path.open("wb") as target_file:
        for source, target in text.blocks(num_pairs):
            source_file.write(source.encode())
            target_file.write(target.encode())


def _cut(lengths: npt.NDArray[np.int64], rng: np.random.Generator) -> tuple[list[list[int]], list[list[int]]]:
    """Return where to cut each pair's sides into fragments, ends included; `lengths` has shape (2, num_pairs).

    A target side is cut at the same share of its words, and where it would leave no word, neither is cut.
    """
    cuts: tuple[list[list[int]], list[list[int]]] = ([], [])
    steps = rng.integers(1, MAX_FRAGMENT_WORDS + 1, size=int(lengths[0].sum())).tolist()
    for num_source, num_target in lengths.T.tolist():
        source_cuts, target_cuts, position = [0], [0], 0
        while (position := position + steps.pop()) < num_source:
            target = round(position * num_target / num_source)
            if target_cuts[-1] < target < num_target:
                source_cuts.append(position)
                target_cuts.append(target)
        cuts[0].append([*source_cuts, num_source])
        cuts[1].append([*target_cuts, num_target])
    return cuts


def _make_side(
    lines: Sequence[Sequence[str]], cuts: Sequence[Sequence[int]], num_invented: int, rng: np.random.Generator
) -> _Side:
    index_by_word = {word: index for index, word in enumerate(dict.fromkeys(word for line in lines for word in line))}
    invented = _invent(list(index_by_word), num_invented, rng)
    types = [*index_by_word, *invented]
    begins, ends, offset = [], [], 0
    for line, line_cuts in zip(lines, cuts, strict=True):
        begins += [offset + cut for cut in line_cuts[:-1]]
        ends += [offset + cut for cut in line_cuts[1:]]
        offset += len(line)
    return _Side(
        table=np.array([f"{word} " for word in types] + [f"{word}\n" for word in types], dtype=object),
        num_real_types=len(index_by_word),
        words=np.array([index_by_word[word] for line in lines for word in line]),
        fragment_begins=np.array(begins),
        fragment_lengths=np.array(ends) - np.array(begins),
    )


def _invent(real_types: Sequence[str], num_types: int, rng: np.random.Generator) -> list[str]:
    """Return so many words that are none of the real ones, in a random order of rank."""
    heads: dict[str, None] = {}
    tails: dict[str, None] = {}
    for word in real_types:
        for cut in range(_MIN_STEM_LETTERS, len(word) - _MIN_STEM_LETTERS + 1) if word.isalpha() else ():
            heads[word[:cut]] = tails[word[cut:]] = None
    if len(heads) * len(tails) < 4 * num_types:
        raise ValueError(
            f"{len(heads)} beginnings and {len(tails)} endings of real words; too few to invent {num_types} words; "
            "give more real text"
        )
    head_array, tail_array = (np.array(list(parts), dtype=object) for parts in (heads, tails))
    invented: dict[str, None] = {}
    known = set(real_types)
    while len(invented) < num_types:
        drawn = rng.integers([len(head_array), len(tail_array)], size=(num_types, 2))
        words = (head_array[drawn[:, 0]] + tail_array[drawn[:, 1]]).tolist()
        invented.update(dict.fromkeys(word for word in words if word not in known))
    return list(invented)[:num_types]


def _first_lines(text: str, num_lines: int) -> str:
    return "".join(f"{line}\n" for line in text.split("\n")[:num_lines])
