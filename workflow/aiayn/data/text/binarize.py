"""Turns text into fairseq's mmap data-bin, with the bytes that `fairseq-preprocess --padding-factor
1` would write.

The format (fairseq 0.12.3, data/indexed_dataset.py and data/dictionary.py; little-endian):
`dict.<language>.txt`: `symbol count` a line, by falling count in training, then by code points; the
four special symbols come before the first line and are not written. `.bin`: the token indices of
all lines, each line ended by `</s>`, in 16 bits if the dictionary has fewer than 65,500 symbols,
else in 32. `.idx`: a magic word, version 1, a code of the width, the number of lines, each line's
length (int32), each line's first byte in the `.bin` (int64).

Text becomes numbers in chunks, over processes, and the bytes depend on neither: a side's symbols
are numbered as they come, in a temporary file, until all of training is counted. Memory does not
grow with the corpus, apart from its vocabulary: everything passes in blocks.
"""

import contextlib
import functools
import hashlib
import itertools
import struct
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO

import msgspec
import numpy as np
import numpy.typing as npt

from aiayn.data.text.chunks import Chunk, map_chunks
from aiayn.data.text.encoder import Encoder
from aiayn.data.text.lines import (
    read_lines,
    require_corpus,
    text_provenance,
    unchanged_paths,
    write_lines,
)
from aiayn.errors import CorpusError
from aiayn.provenance import file_sha256, replace_outputs_on_success, require_free_space
from aiayn.records import BinarizedCorpus, ParallelText, RawCorpus
from aiayn.spec.system import CleanSpec, CorpusSpec

DATA_BIN_NAME = "data-bin"
SPECIAL_SYMBOLS = ("<s>", "<pad>", "</s>", "<unk>")  # indices 0 to 3 of every dictionary
UNKNOWN_INDEX = SPECIAL_SYMBOLS.index("<unk>")
LENGTH_REASONS = ("empty_side", "too_long", "length_ratio")
MAX_WORDS = 1 << 19  # at most 120 MB, whatever the length of the text
_NARROW_LIMIT = 65500  # from this many symbols on, fairseq takes 32 bits
_WIDTH_CODE_BY_DTYPE = {np.dtype("<u2"): 8, np.dtype("<u4"): 9}
_NUMBER_DTYPE, _LENGTH_DTYPE = np.dtype("<u4"), np.dtype("<i4")
INDEX_MAGIC = (  # begins an .idx; then the version, the width's code and the number of lines
    b"MMIDIDX\x00\x00"
)
INDEX_HEADER = struct.Struct("<9sQBQ")
_BYTES_PER_BLOCK = 1 << 20


def binarize_corpus(
    spec: CorpusSpec,
    text: ParallelText | RawCorpus,
    encoder_by_language: Mapping[str, Encoder],
    *,
    model_paths: Sequence[Path] = (),
    record_path: Path,
    num_processes: int = 1,
) -> BinarizedCorpus:
    """Write `data-bin/` beside the record and return the record.

    The dictionary is joint if both languages have the same encoder; then it counts the training
    text of both. The dev test set becomes fairseq's `valid`, the others `test`, `test1`, ... in the
    corpus's order. Counts of tokens include `</s>`. `model_paths` are the subword models behind the
    encoders, for the record. Training pairs are dropped for their lengths in pieces, if the corpus
    file gives its limits in these.

    Raises:
        CorpusError: if the text is another corpus's, or has changed since its record was written,
        or no pair is left.
    """
    require_corpus(text, spec.name)
    fairseq_splits = [
        "valid",
        "test",
        *(f"test{index}" for index in range(1, len(spec.testsets) - 1)),
    ]
    fairseq_split_by_testset = dict(zip(spec.testsets, fairseq_splits, strict=True))
    pair_by_split = {split: text.pair_by_split[split] for split in ("train", *spec.testsets)}
    num_bytes = sum(
        path.stat().st_size
        for pair in pair_by_split.values()
        for path in unchanged_paths(pair).values()
    )
    # four bytes a token while at work, two to four in the end; a token is seldom under two bytes of
    # text
    require_free_space(record_path.parent, 3 * num_bytes, "the data-bin")
    limits = spec.clean if spec.clean is not None and spec.clean.unit == "pieces" else None
    with replace_outputs_on_success(record_path) as folder, contextlib.ExitStack() as opened:

        def temporary_file() -> BinaryIO:
            return opened.enter_context(tempfile.TemporaryFile(dir=folder))

        sides_by_split, num_pairs_by_split = {}, dict.fromkeys(pair_by_split, 0)
        dropped_by_split: dict[str, Counter[str]] = {split: Counter() for split in pair_by_split}
        for split, pair in pair_by_split.items():
            sides = {
                k: _EncodedSide(temporary_file(), temporary_file()) for k in encoder_by_language
            }
            sides_by_split[split] = sides
            work = EncodingWork(dict(encoder_by_language), limits if split == "train" else None)
            what = f"binarize {split} of {spec.name}"
            for chunk in map_chunks(
                work, pair.path_by_language, num_processes=num_processes, what=what
            ):
                for language, side in chunk.side_by_language.items():
                    sides[language].append(side)
                num_pairs_by_split[split] += next(
                    iter(chunk.side_by_language.values())
                ).lengths.size
                dropped_by_split[split].update(chunk.num_dropped_by_reason)
            if num_pairs_by_split[split] == 0:
                raise CorpusError(
                    f"{' and '.join(map(str, pair.path_by_language.values()))}: all"
                    f" {pair.num_lines} pairs were dropped: {dict(dropped_by_split[split])}; raise"
                    " the corpus file's clean.max_words or clean.max_length_ratio"
                )
        name_by_split = {"train": "train", **fairseq_split_by_testset}
        stem_by_split = {
            split: f"{name}.{spec.language_pair}" for split, name in name_by_split.items()
        }
        _write_data_bin(sides_by_split, stem_by_split, encoder_by_language, folder / DATA_BIN_NAME)
    data_bin_folder = record_path.parent / DATA_BIN_NAME
    dictionary_paths = {
        language: data_bin_folder / f"dict.{language}.txt" for language in encoder_by_language
    }
    return BinarizedCorpus(
        provenance=text_provenance(pair_by_split.values(), model_paths),
        corpus=spec.name,
        folder=data_bin_folder,
        source_language=spec.source_language,
        target_language=spec.target_language,
        dictionary_sha256_by_language={
            k: file_sha256(path) for k, path in dictionary_paths.items()
        },
        digest=data_bin_digest(data_bin_folder),
        vocabulary_size_by_language={
            k: len(read_dictionary(path)) for k, path in dictionary_paths.items()
        },
        num_pairs_by_split=num_pairs_by_split,
        num_tokens_by_split_by_language={
            split: {language: side.num_tokens for language, side in sides.items()}
            for split, sides in sides_by_split.items()
        },
        fairseq_split_by_testset=fairseq_split_by_testset,
        num_dropped_by_reason=dict(dropped_by_split["train"]),
    )


class SideOfChunk(msgspec.Struct, frozen=True):
    """One side of a chunk; a line's length counts its end. A number is of this chunk alone, an
    index into `symbols`.
    """

    numbers: npt.NDArray[np.uint32]  # (num_tokens,)
    lengths: npt.NDArray[np.int32]  # (num_lines,)
    symbols: list[str]
    counts: list[int]


class EncodedChunk(msgspec.Struct, frozen=True):
    """A chunk's kept pairs as numbers, and how many others were dropped, by reason."""

    side_by_language: dict[str, SideOfChunk]
    num_dropped_by_reason: dict[str, int]


class _Numbering:
    """Numbers lines by an encoder, each different word of them once.

    Text repeats its words, and 97 % are known from chunks before. When there are too many, those of
    the newest chunk stay, the frequent ones among them.
    """

    def __init__(self, encoder: Encoder) -> None:
        self._encoder = encoder
        self._row_by_word: dict[
            str, bytes
        ] = {}  # the numbers of its pieces, as bytes of _NUMBER_DTYPE
        self._end = np.array([encoder.end], _NUMBER_DTYPE).tobytes()

    def number(self, lines: Sequence[str]) -> tuple[npt.NDArray[np.uint32], npt.NDArray[np.int32]]:
        """Return the numbers of all lines' pieces, each line ended by `</s>`, and the lines'
        lengths.
        """
        words_by_line = list(map(self._encoder.words, lines))
        words = set(itertools.chain.from_iterable(words_by_line))
        new_words = list(words.difference(self._row_by_word))
        numbers = self._encoder.numbers(new_words)
        self._row_by_word.update(
            zip(new_words, (np.array(row, _NUMBER_DTYPE).tobytes() for row in numbers), strict=True)
        )
        rows = [b"".join(map(self._row_by_word.__getitem__, line)) for line in words_by_line]
        if len(self._row_by_word) > MAX_WORDS:
            self._row_by_word = {word: self._row_by_word[word] for word in words}
        lengths = np.fromiter(map(len, rows), np.int32, len(rows)) // _NUMBER_DTYPE.itemsize + 1
        return np.frombuffer(self._end.join([*rows, b""]), _NUMBER_DTYPE), lengths


class EncodingWork(msgspec.Struct, frozen=True, dict=True):
    """Numbers the symbols of a chunk; `limits`, if any, are on lengths in symbols, the end not
    counted.
    """

    encoder_by_language: dict[str, Encoder]
    limits: CleanSpec | None

    @functools.cached_property
    def _numbering_by_language(self) -> dict[str, _Numbering]:
        numbering_by_encoder = {
            id(encoder): _Numbering(encoder) for encoder in self.encoder_by_language.values()
        }
        return {
            language: numbering_by_encoder[id(encoder)]
            for language, encoder in self.encoder_by_language.items()
        }

    def __call__(self, chunk: Chunk) -> EncodedChunk:
        """Return the chunk's kept pairs as numbers."""
        numbering_by_language = self._numbering_by_language
        numbered = {
            k: numbering.number(chunk.lines(k)) for k, numbering in numbering_by_language.items()
        }
        num_dropped_by_reason: dict[str, int] = {}
        if self.limits is not None:
            num_pieces = ((lengths - 1).tolist() for _, lengths in numbered.values())
            reasons = list(map(self.limits.length_reason, *num_pieces))
            num_dropped_by_reason = {reason: reasons.count(reason) for reason in LENGTH_REASONS}
            kept = np.array([reason is None for reason in reasons])
            numbered = {
                k: (some[np.repeat(kept, lengths)], lengths[kept])
                for k, (some, lengths) in numbered.items()
            }
        sides = {}
        for language, (numbers, lengths) in numbered.items():
            counts, symbols = np.bincount(numbers), self.encoder_by_language[language].symbols()
            occurring = np.flatnonzero(counts)
            table = np.zeros(counts.size, _NUMBER_DTYPE)
            table[occurring] = np.arange(occurring.size)
            names = [symbols[number] for number in occurring.tolist()]
            sides[language] = SideOfChunk(
                table[numbers], lengths, names, counts[occurring].tolist()
            )
        return EncodedChunk(sides, num_dropped_by_reason)


class _EncodedSide:
    """One language of a split: all its lines' numbers and lengths in files, and how often each
    symbol occurs.
    """

    def __init__(self, numbers: BinaryIO, lengths: BinaryIO) -> None:
        self.numbers, self.lengths = numbers, lengths
        self.num_tokens = 0
        self.count_by_symbol: dict[str, int] = {}  # in the order of their numbers
        self._number_by_symbol: dict[str, int] = {}

    def append(self, side: SideOfChunk) -> None:
        """Add a chunk's lines."""
        known = self._number_by_symbol
        table = np.array(
            [known.setdefault(symbol, len(known)) for symbol in side.symbols], _NUMBER_DTYPE
        )
        self.numbers.write(table[side.numbers].tobytes())
        self.lengths.write(side.lengths.astype(_LENGTH_DTYPE, copy=False).tobytes())
        self.num_tokens += side.numbers.size
        for symbol, count in zip(side.symbols, side.counts, strict=True):
            self.count_by_symbol[symbol] = self.count_by_symbol.get(symbol, 0) + count


def _write_data_bin(
    sides_by_split: Mapping[str, Mapping[str, _EncodedSide]],
    stem_by_split: Mapping[str, str],
    encoder_by_language: Mapping[str, Encoder],
    folder: Path,
) -> None:
    """Write the data-bin of numbered text; languages of one encoder have one dictionary."""
    folder.mkdir()
    for language, encoder in encoder_by_language.items():
        count_by_symbol: Counter[str] = Counter()
        for other, other_encoder in encoder_by_language.items():
            if other_encoder is encoder:
                count_by_symbol.update(sides_by_split["train"][other].count_by_symbol)
        path = folder / f"dict.{language}.txt"
        write_lines(dictionary_lines(count_by_symbol), path)
        index_by_symbol = {symbol: index for index, symbol in enumerate(read_dictionary(path))}
        for split, sides in sides_by_split.items():
            _write_indices(
                sides[language], index_by_symbol, folder / stem_by_split[split], language
            )


def dictionary_lines(count_by_symbol: Mapping[str, int]) -> list[str]:
    """Return a dictionary file's lines: what occurs, by falling count, then by code points; no
    special symbols.
    """
    ordinary = [
        (s, count) for s, count in count_by_symbol.items() if count > 0 and s not in SPECIAL_SYMBOLS
    ]
    return [
        f"{symbol} {count}"
        for symbol, count in sorted(ordinary, key=lambda entry: (-entry[1], entry[0]))
    ]


def read_dictionary(path: Path) -> list[str]:
    """Return a dictionary's symbols by index, the four special ones first.

    Raises:
        CorpusError: if a line is not `symbol count`, naming it.
    """
    symbols = list(SPECIAL_SYMBOLS)
    for line_number, line in enumerate(read_lines(path), start=1):
        symbol, _, count = line.rpartition(" ")
        if not symbol or not count.isdecimal():
            raise CorpusError(
                f"{path}:{line_number}: {line!r}; expected `symbol count`; rerun `aiayn binarize`"
            )
        symbols.append(symbol)
    return symbols


def index_dtype(num_symbols: int) -> np.dtype[np.uint16] | np.dtype[np.uint32]:
    """Return the type of a token's index for a dictionary of so many symbols, special ones
    included.
    """
    return np.dtype("<u2") if num_symbols < _NARROW_LIMIT else np.dtype("<u4")


def _write_indices(
    side: _EncodedSide, index_by_symbol: Mapping[str, int], stem: Path, language: str
) -> None:
    """Write `<stem>.<language>.bin` and `.idx`."""
    dtype = index_dtype(len(index_by_symbol))
    table = np.array(
        [index_by_symbol.get(symbol, UNKNOWN_INDEX) for symbol in side.count_by_symbol], dtype
    )
    with stem.with_name(f"{stem.name}.{language}.bin").open("wb") as tokens:
        for numbers in _blocks(side.numbers, _NUMBER_DTYPE):
            tokens.write(table[numbers].tobytes())
    with stem.with_name(f"{stem.name}.{language}.idx").open("wb") as index:
        num_lines = side.lengths.seek(0, 2) // _LENGTH_DTYPE.itemsize
        index.write(INDEX_HEADER.pack(INDEX_MAGIC, 1, _WIDTH_CODE_BY_DTYPE[dtype], num_lines))
        for lengths in _blocks(side.lengths, _LENGTH_DTYPE):
            index.write(lengths.tobytes())
        first_token = 0
        for lengths in _blocks(side.lengths, _LENGTH_DTYPE):
            ends = first_token + np.cumsum(lengths, dtype=np.int64)
            index.write(((ends - lengths) * dtype.itemsize).astype("<i8").tobytes())
            first_token = int(ends[-1])


def _blocks(content: BinaryIO, dtype: "np.dtype[Any]") -> "Iterator[npt.NDArray[Any]]":
    """Yield a file's numbers in arrays of at most a block."""
    content.seek(0)
    while block := content.read(_BYTES_PER_BLOCK):
        yield np.frombuffer(block, dtype)


def data_bin_digest(folder: Path) -> str:
    """Return the SHA-256 over a line `<sha256>  <name>` for each dictionary, .bin and .idx file, in
    order of name.

    By hand: `LC_ALL=C; sha256sum *.bin dict.*.txt *.idx | sort -k2 | sha256sum`.
    """
    paths = [path for pattern in ("dict.*.txt", "*.bin", "*.idx") for path in folder.glob(pattern)]
    listing = "".join(
        f"{file_sha256(path)}  {path.name}\n" for path in sorted(paths, key=lambda path: path.name)
    )
    return hashlib.sha256(listing.encode()).hexdigest()


def require_recorded_data_bin(record: BinarizedCorpus) -> Path:
    """Return the data-bin's folder, after a look that its bytes are still those that the record is
    of.

    Raises:
        CorpusError: saying which vocabulary, or that the text, is another.
    """
    folder = record.folder
    for language, expected in record.dictionary_sha256_by_language.items():
        path = folder / f"dict.{language}.txt"
        sha256 = file_sha256(path) if path.is_file() else "absent"
        if sha256 != expected:
            raise CorpusError(
                f"{path}: sha256 {sha256}, its record says {expected}: a data-bin of another"
                f" vocabulary; rerun `aiayn binarize --corpus {record.corpus}`"
            )
    digest = data_bin_digest(folder)
    if digest != record.digest:
        raise CorpusError(
            f"{folder}: digest {digest}, its record says {record.digest}: a data-bin of other text,"
            f" or torn; rerun `aiayn binarize --corpus {record.corpus}`"
        )
    return folder
