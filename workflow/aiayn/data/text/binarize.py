"""Turns text into a data-bin, fairseq's binary format for memory mapping (mmap).

The files are equal, byte for byte, to the output of fairseq-preprocess --padding-factor 1. A
data-bin (fairseq 0.12.3, data/indexed_dataset.py and data/dictionary.py) has these files, with
little-endian numbers:

- `dict.<language>.txt`: the dictionary, with a symbol (subword) and its count on each line, sorted
  by falling count in the training text, then by code points. fairseq's four special symbols have
  the first indices and are not in the file.
- `.bin`: the token indices of all lines of text, each line ended by the symbol `</s>`. An index has
  16 bits if the dictionary has fewer than 65,500 symbols, else 32 bits.
- `.idx`: the positions of the lines in the `.bin` file: a magic word, version 1, a code for the
  width of the indices, the number of lines, the length of each line (int32), and the position of
  each line's first byte (int64).

Text is encoded in chunks (blocks of lines) by several processes. The written bytes depend neither
on the number of chunks nor on the number of processes. The text is first written to a temporary
file, where symbols (subwords) are numbered in the order in which they occur. Symbols get their
final index when the whole training text has been counted. Everything is copied in blocks, so memory
grows with the vocabulary, not with the corpus.
"""

import contextlib
import functools
import hashlib
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO

import msgspec
import numpy as np
import numpy.typing as npt

from aiayn.data.text.chunks import Chunk, map_chunks
from aiayn.data.text.encoder import LineEncoder
from aiayn.data.text.index import INDEX_HEADER, INDEX_MAGIC, LENGTH_DTYPE
from aiayn.data.text.lines import (
    read_lines,
    text_provenance,
    write_lines,
)
from aiayn.errors import CorpusError
from aiayn.provenance import file_sha256, replace_outputs_on_success
from aiayn.records import BinarizedCorpus, ParallelText, RawCorpus, require_files
from aiayn.spec.system import CorpusSpec
from aiayn.spec.training import MAX_POSITIONS

DATA_BIN_NAME = "data-bin"
SPECIAL_SYMBOLS = ("<s>", "<pad>", "</s>", "<unk>")  # indices 0 to 3 of every dictionary
UNKNOWN_INDEX = SPECIAL_SYMBOLS.index("<unk>")
MAX_WORDS = 1 << 19  # remembered by a process: some 120 MB
_NARROW_LIMIT = 65500  # from this many symbols on, fairseq takes 32 bits
_WIDTH_CODE_BY_DTYPE = {np.dtype("<u2"): 8, np.dtype("<u4"): 9}
_NUMBER_DTYPE = np.dtype("<u4")
_BYTES_PER_BLOCK = 1 << 20


def binarize_corpus(
    spec: CorpusSpec,
    text: ParallelText | RawCorpus,
    encoder_by_language: Mapping[str, LineEncoder],
    *,
    model_paths: Sequence[Path] = (),
    record_path: Path,
    num_processes: int = 1,
) -> BinarizedCorpus:
    """Write the data-bin (binarized text) to the folder `data-bin/` next to the record, and return
    the record.

    If source and target language have the same encoder, they share a dictionary, which counts the
    training text of both. The dev set becomes fairseq's split "valid". The other test sets become
    the splits "test", "test1" and so on, in the order of the corpus file. Counts of tokens include
    `</s>`. The record lists the files of the subword models, `model_paths`, as inputs.

    Raises:
        CorpusError: if the text is from a corpus other than `spec`, or has changed since its record
            was written.
    """
    # fairseq's names of splits: valid, test, test1, test2.
    later_splits = (f"test{index}" for index in range(1, len(spec.testsets) - 1))
    fairseq_split_by_testset = dict(
        zip(spec.testsets, ["valid", "test", *later_splits], strict=True)
    )
    pair_by_split = {split: text.pair_by_split[split] for split in ("train", *spec.testsets)}
    with replace_outputs_on_success(record_path) as folder, contextlib.ExitStack() as opened:
        # In the output folder rather than in /tmp, which may be too small for a corpus. The files
        # have no name, so that they disappear with the process.
        def temporary_file() -> BinaryIO:
            return opened.enter_context(tempfile.TemporaryFile(dir=folder))

        sides_by_split = {}
        num_pairs_by_split = dict.fromkeys(pair_by_split, 0)
        num_long_by_split = dict(num_pairs_by_split)
        for split, pair in pair_by_split.items():
            sides = {
                language: _EncodedSide(temporary_file(), temporary_file())
                for language in encoder_by_language
            }
            sides_by_split[split] = sides
            work = EncodingWork(dict(encoder_by_language))
            title = f"binarize {split} of {spec.name}"
            require_files(text, pair.path_by_language.values())
            for chunk in map_chunks(
                work, pair.path_by_language, num_processes=num_processes, what=title
            ):
                for language, side in chunk.items():
                    sides[language].append(side)
                # A pair is as long as its longer side. The model cannot read pairs above
                # MAX_POSITIONS.
                lengths = np.maximum(*(side.lengths for side in chunk.values()))
                num_pairs_by_split[split] += lengths.size
                num_long_by_split[split] += int((lengths > MAX_POSITIONS).sum())
        stem_by_split = {"train": f"train.{spec.language_pair}"}
        for testset, fairseq_split in fairseq_split_by_testset.items():
            stem_by_split[testset] = f"{fairseq_split}.{spec.language_pair}"
        _write_data_bin(sides_by_split, stem_by_split, encoder_by_language, folder / DATA_BIN_NAME)
    # At the end of the block above the data-bin was moved next to the record.
    data_bin_folder = record_path.parent / DATA_BIN_NAME
    sha256_by_file = data_bin_files(data_bin_folder)
    dictionary_paths = {
        language: data_bin_folder / f"dict.{language}.txt" for language in encoder_by_language
    }
    num_tokens_by_split_by_language = {}
    for split, sides in sides_by_split.items():
        num_tokens_by_split_by_language[split] = {k: side.num_tokens for k, side in sides.items()}
    return BinarizedCorpus(
        provenance=text_provenance(pair_by_split.values(), model_paths),
        corpus=spec.name,
        folder=data_bin_folder,
        source_language=spec.source_language,
        target_language=spec.target_language,
        dictionary_sha256_by_language={
            k: sha256_by_file[path.name] for k, path in dictionary_paths.items()
        },
        digest=data_bin_digest(sha256_by_file),
        sha256_by_file=sha256_by_file,
        num_long_by_split=num_long_by_split,
        vocabulary_size_by_language={
            k: len(read_dictionary(path)) for k, path in dictionary_paths.items()
        },
        num_pairs_by_split=num_pairs_by_split,
        num_tokens_by_split_by_language=num_tokens_by_split_by_language,
        fairseq_split_by_testset=fairseq_split_by_testset,
    )


class SideOfChunk(msgspec.Struct, frozen=True):
    """The lines of a chunk of text in one language, with a number for each subword.

    The number of a subword is its index in the chunk's list `symbols`, and differs from chunk to
    chunk. A line's length counts its end-of-sentence symbol.
    """

    numbers: npt.NDArray[np.uint32]  # (num_tokens,)
    lengths: npt.NDArray[np.int32]  # (num_lines,)
    symbols: list[str]
    counts: list[int]


# `dict=True`, because cached_property stores its value in `__dict__`, which a struct does not have
# by default.
class EncodingWork(msgspec.Struct, frozen=True, dict=True):
    """Encodes a chunk of text: replaces each subword by a number.

    97 % of the words in a chunk of text have occurred in earlier chunks, so each process keeps a
    cache of the numbers of each word's subwords.
    """

    encoder_by_language: dict[str, LineEncoder]

    @functools.cached_property
    def _encode_by_language(self) -> dict[str, Callable[[str], bytes]]:
        """For each language, the function that returns the numbers of a word's subwords. Languages
        with the same encoder share a function, and so a cache.
        """
        # The caches are made in the process that uses them, because an lru_cache of a partial
        # cannot be pickled.
        encode_by_encoder = {
            id(encoder): functools.lru_cache(MAX_WORDS)(functools.partial(_numbers, encoder))
            for encoder in self.encoder_by_language.values()
        }
        return {
            language: encode_by_encoder[id(encoder)]
            for language, encoder in self.encoder_by_language.items()
        }

    def __call__(self, chunk: Chunk) -> dict[str, SideOfChunk]:
        """Return the encoded lines of a chunk of text, by language."""
        sides = {}
        for language, encoder in self.encoder_by_language.items():
            encode = self._encode_by_language[language]
            # A line is kept as bytes until its chunk is complete. Bytes can be cached and joined
            # faster than lists of integers.
            rows = [b"".join(map(encode, encoder.words(line))) for line in chunk.lines(language)]
            lengths = np.fromiter(map(len, rows), np.int32, len(rows)) // _NUMBER_DTYPE.itemsize + 1
            # The same number ends every line, also the last line: `join` writes it before the empty
            # last item.
            end = np.array([encoder.end], _NUMBER_DTYPE).tobytes()
            numbers = np.frombuffer(end.join([*rows, b""]), _NUMBER_DTYPE)
            # A chunk contains few of the encoder's symbols, so they are numbered anew within the
            # chunk.
            counts = np.bincount(numbers)
            symbols = encoder.symbols()
            occurring = np.flatnonzero(counts)
            table = np.zeros(counts.size, _NUMBER_DTYPE)
            table[occurring] = np.arange(occurring.size)
            names = [symbols[number] for number in occurring.tolist()]
            sides[language] = SideOfChunk(
                table[numbers], lengths, names, counts[occurring].tolist()
            )
        return sides


def _numbers(encoder: LineEncoder, word: str) -> bytes:
    """Return the numbers of a word's subwords, as bytes of the numpy type _NUMBER_DTYPE."""
    return np.array(encoder.numbers(word), _NUMBER_DTYPE).tobytes()


class _EncodedSide:
    """The encoded text of a split (train, dev, ...) in one language: the numbers of its subwords
    and the lengths of its lines in temporary files, and the count of each subword.
    """

    def __init__(self, numbers: BinaryIO, lengths: BinaryIO) -> None:
        self.numbers, self.lengths = numbers, lengths
        self.num_tokens = 0
        self.count_by_symbol: dict[str, int] = {}  # in the order of their numbers
        self._number_by_symbol: dict[str, int] = {}

    def append(self, side: SideOfChunk) -> None:
        """Append the encoded lines of a chunk."""
        number_by_symbol = self._number_by_symbol
        # The chunk's numbers are translated by a lookup in an array, because text has far more
        # tokens than symbols.
        table = np.array(
            [number_by_symbol.setdefault(s, len(number_by_symbol)) for s in side.symbols],
            _NUMBER_DTYPE,
        )
        self.numbers.write(table[side.numbers].tobytes())
        self.lengths.write(side.lengths.astype(LENGTH_DTYPE, copy=False).tobytes())
        self.num_tokens += side.numbers.size
        for symbol, count in zip(side.symbols, side.counts, strict=True):
            self.count_by_symbol[symbol] = self.count_by_symbol.get(symbol, 0) + count


def _write_data_bin(
    sides_by_split: Mapping[str, Mapping[str, _EncodedSide]],
    stem_by_split: Mapping[str, str],
    encoder_by_language: Mapping[str, LineEncoder],
    folder: Path,
) -> None:
    """Write the dictionaries and the .bin and .idx files of a data-bin. Languages that share an
    encoder share a dictionary.
    """
    folder.mkdir()
    for language, encoder in encoder_by_language.items():
        count_by_symbol: Counter[str] = Counter()
        for other, other_encoder in encoder_by_language.items():
            if other_encoder is encoder:
                count_by_symbol.update(sides_by_split["train"][other].count_by_symbol)
        path = folder / f"dict.{language}.txt"
        # Only the training text is counted. Symbols that occur in test sets only become <unk>.
        write_lines(dictionary_lines(count_by_symbol), path)
        index_by_symbol = {symbol: index for index, symbol in enumerate(read_dictionary(path))}
        for split, sides in sides_by_split.items():
            _write_indices(
                sides[language], index_by_symbol, folder / stem_by_split[split], language
            )


def dictionary_lines(count_by_symbol: Mapping[str, int]) -> list[str]:
    """Return the lines of a dictionary file, sorted by falling count, then by code points.

    fairseq's special symbols, such as `</s>`, are left out.
    """
    # fairseq adds its special symbols itself when it reads the file.
    ordinary = [entry for entry in count_by_symbol.items() if entry[0] not in SPECIAL_SYMBOLS]
    # The order of ties decides all later indices. fairseq left this order to chance until 2019.
    return [
        f"{symbol} {count}"
        for symbol, count in sorted(ordinary, key=lambda entry: (-entry[1], entry[0]))
    ]


def read_dictionary(path: Path) -> list[str]:
    """Return the symbols of a dictionary file in the order of their indices. fairseq's four special
    symbols come first.

    Raises:
        CorpusError: if a line does not consist of a symbol and its count. The message contains the
            line.
    """
    symbols = list(SPECIAL_SYMBOLS)
    for line_number, line in enumerate(read_lines(path), start=1):
        # fairseq allows the mark behind a line that repeats an earlier symbol, for old Camembert
        # models.
        symbol, _, count = line.removesuffix(" #fairseq:overwrite").rpartition(" ")
        if not symbol or not count.isdecimal():
            raise CorpusError(
                f"{path}:{line_number}: {line!r}; expected `symbol count`; rerun `aiayn binarize`"
            )
        symbols.append(symbol)
    return symbols


def index_dtype(num_symbols: int) -> np.dtype[np.uint16] | np.dtype[np.uint32]:
    """Return the integer type of token indices for the size of the dictionary. `num_symbols`
    includes fairseq's special symbols.
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
        num_lines = side.lengths.seek(0, 2) // LENGTH_DTYPE.itemsize
        index.write(INDEX_HEADER.pack(INDEX_MAGIC, 1, _WIDTH_CODE_BY_DTYPE[dtype], num_lines))
        for lengths in _blocks(side.lengths, LENGTH_DTYPE):
            index.write(lengths.tobytes())
        # The .idx file ends with the position of each line's first byte. The lengths are read again
        # from the start.
        first_token = 0
        for lengths in _blocks(side.lengths, LENGTH_DTYPE):
            ends = first_token + np.cumsum(lengths, dtype=np.int64)
            index.write(((ends - lengths) * dtype.itemsize).astype("<i8").tobytes())
            first_token = int(ends[-1])


def _blocks(content: BinaryIO, dtype: "np.dtype[Any]") -> "Iterator[npt.NDArray[Any]]":
    """Yield the numbers in a binary file as arrays of limited size."""
    content.seek(0)
    while block := content.read(_BYTES_PER_BLOCK):
        yield np.frombuffer(block, dtype)


def data_bin_files(folder: Path) -> dict[str, str]:
    """Return the SHA-256 of each dictionary, .bin and .idx file of a data-bin by file name, sorted
    by name.
    """
    paths = [path for pattern in ("dict.*.txt", "*.bin", "*.idx") for path in folder.glob(pattern)]
    return {path.name: file_sha256(path) for path in sorted(paths, key=lambda path: path.name)}


def data_bin_digest(sha256_by_file: Mapping[str, str]) -> str:
    """Return a single SHA-256 for a data-bin, over the names and digests of its files from
    `data_bin_files`.

    In a shell: `sha256sum *.bin dict.*.txt *.idx | LC_ALL=C sort -k2 | sha256sum`.
    """
    listing = "".join(f"{sha256}  {name}\n" for name, sha256 in sha256_by_file.items())
    return hashlib.sha256(listing.encode()).hexdigest()


def require_recorded_split(record: BinarizedCorpus, testset: str) -> str:
    """Verify the checksums of a test set's files, and return fairseq's name for the test set in the
    data-bin, such as "valid".

    Records from earlier versions of this project have only one digest for the whole data-bin. For a
    record with only one digest, the whole data-bin is verified.

    Raises:
        CorpusError: if the test set is not in the data-bin, or if one of its files has changed. The
            message contains the file.
    """
    split = record.split_of(testset)
    # An old record does not list files, so `require_files` below would check nothing.
    if not record.sha256_by_file:
        require_recorded_data_bin(record)
    names = (name for name in record.sha256_by_file if name.startswith((f"{split}.", "dict.")))
    require_files(record, (record.folder / name for name in names))
    return split


def require_recorded_data_bin(record: BinarizedCorpus) -> Path:
    """Verify the files of a data-bin by the checksums in its record, and return its folder.

    Raises:
        CorpusError: if a file of the data-bin has changed.
    """
    folder = record.folder
    digest = data_bin_digest(data_bin_files(folder))
    if digest != record.digest:
        raise CorpusError(
            f"{folder}: digest {digest}, its record says {record.digest}: a data-bin of other text"
            f" or vocabulary, or an incomplete data-bin; {record.remedy}"
        )
    return folder
