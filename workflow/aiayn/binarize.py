"""Turn text into fairseq's mmap data-bin, with the bytes that `fairseq-preprocess --padding-factor 1` would write.

The format (fairseq 0.12.3, data/indexed_dataset.py and data/dictionary.py; little-endian):
`dict.<language>.txt`: `symbol count` a line, by falling count in training, then by code points; the four special
symbols come before the first line and are not written.
`.bin`: the token indices of all lines, each line ended by `</s>`, in 16 bits if the dictionary has fewer than 65,500
symbols, else in 32.
`.idx`: a magic word, version 1, a code of the width, the number of lines, each line's length (int32), each line's first
byte in the `.bin` (int64).

Memory does not grow with the corpus, apart from its vocabulary: text passes in blocks.
"""

import hashlib
import shutil
import struct
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import BinaryIO, Protocol

import numpy as np
import numpy.typing as npt

from aiayn.errors import CorpusError
from aiayn.provenance import file_sha256, gather_provenance, replace_outputs_on_success, require_free_space
from aiayn.records import BinarizedCorpus, ParallelText, RawCorpus
from aiayn.spec import CorpusSpec
from aiayn.text import read_blocks, unchanged_paths, write_lines

DATA_BIN_NAME = "data-bin"
SPECIAL_SYMBOLS = ("<s>", "<pad>", "</s>", "<unk>")  # indices 0 to 3 of every dictionary
UNKNOWN_INDEX = SPECIAL_SYMBOLS.index("<unk>")
_NARROW_LIMIT = 65500  # from this many symbols on, fairseq takes 32 bits
_WIDTH_CODE_BY_DTYPE = {np.dtype("<u2"): 8, np.dtype("<u4"): 9}
_MAGIC = b"MMIDIDX\x00\x00"
_LINES_PER_BLOCK = 8192
_TOKENS_PER_BLOCK = 1 << 18


class Numberer(Protocol):
    """Splits lines into symbols and numbers these; `symbols` may grow as lines pass."""

    @property
    def symbols(self) -> list[str]:
        """All symbols so far, by their numbers."""

    def number(self, lines: Sequence[str]) -> tuple[npt.NDArray[np.uint32], npt.NDArray[np.int32]]:
        """Return the numbers of all lines' symbols, each line ended by `</s>`, and each line's length."""


class WordNumberer:
    """Numbers the words of text that comes in pieces; fairseq's words: what white space of any kind separates."""

    def __init__(self) -> None:
        """Begin with no symbol but the end of sentence, number 0."""
        self._number_by_symbol: dict[str, int] = {"</s>": 0}

    @property
    def symbols(self) -> list[str]:
        """All symbols so far, by their numbers."""
        return list(self._number_by_symbol)

    def number(self, lines: Sequence[str]) -> tuple[npt.NDArray[np.uint32], npt.NDArray[np.int32]]:
        """Return the numbers of all lines' words, each line ended by `</s>`, and each line's length."""
        numbers: list[int] = []
        lengths: list[int] = []
        number_by_symbol = self._number_by_symbol
        for line in lines:
            words = [*line.split(), "</s>"]
            numbers.extend(number_by_symbol.setdefault(word, len(number_by_symbol)) for word in words)
            lengths.append(len(words))
        return np.array(numbers, np.uint32), np.array(lengths, np.int32)


def binarize_corpus(
    spec: CorpusSpec,
    text: ParallelText | RawCorpus,
    numberer_by_language: Mapping[str, Numberer],
    *,
    model_paths: Sequence[Path] = (),
    record_path: Path,
) -> BinarizedCorpus:
    """Write `data-bin/` beside the record and return the record.

    The dictionary is joint if both languages have the same numberer; then it counts the training text of both. The
    dev test set becomes fairseq's `valid`, the others `test`, `test1`, ... in the corpus's order. Counts of
    tokens include `</s>`. `model_paths` are the subword models behind the numberers, for the record.

    Raises:
        CorpusError: if the text is another corpus's, or has changed since its record was written.
    """
    if text.corpus != spec.name:
        raise CorpusError(f"the text record is of corpus {text.corpus}, expected {spec.name}; name its own record")
    fairseq_split_by_testset = {name: _fairseq_split(index) for index, name in enumerate(spec.testsets)}
    fairseq_split_by_split = {"train": "train", **fairseq_split_by_testset}
    paths_by_split = {split: unchanged_paths(text.pair_by_split[split]) for split in fairseq_split_by_split}
    all_paths = [path for paths in paths_by_split.values() for path in paths.values()]
    # four bytes a token while at work, two to four in the end; a token is seldom under two bytes of text
    require_free_space(record_path.parent, 3 * sum(path.stat().st_size for path in all_paths), "the data-bin")
    with replace_outputs_on_success(record_path) as folder:
        data_bin_folder = folder / DATA_BIN_NAME
        data_bin_folder.mkdir()
        num_tokens_by_split_by_language = _write_data_bin(
            {(split, language): path for split, paths in paths_by_split.items() for language, path in paths.items()},
            {split: f"{name}.{spec.language_pair}" for split, name in fairseq_split_by_split.items()},
            numberer_by_language,
            data_bin_folder,
        )
        dictionary_paths = {language: data_bin_folder / f"dict.{language}.txt" for language in numberer_by_language}
        vocabulary_sizes = {language: len(read_dictionary(path)) for language, path in dictionary_paths.items()}
        dictionary_sha256s = {language: file_sha256(path) for language, path in dictionary_paths.items()}
        digest = data_bin_digest(data_bin_folder)
    return BinarizedCorpus(
        provenance=gather_provenance([*all_paths, *model_paths]),
        corpus=spec.name,
        folder=str(record_path.parent / DATA_BIN_NAME),
        source_language=spec.source_language,
        target_language=spec.target_language,
        dictionary_sha256_by_language=dictionary_sha256s,
        digest=digest,
        vocabulary_size_by_language=vocabulary_sizes,
        num_pairs_by_split={split: text.pair_by_split[split].num_lines for split in fairseq_split_by_split},
        num_tokens_by_split_by_language=num_tokens_by_split_by_language,
        fairseq_split_by_testset=fairseq_split_by_testset,
    )


def _write_data_bin(
    text_path_by_place: Mapping[tuple[str, str], Path],
    stem_by_split: Mapping[str, str],
    numberer_by_language: Mapping[str, Numberer],
    folder: Path,
) -> dict[str, dict[str, int]]:
    """Write the data-bin of the texts, each at a (split, language), and return their numbers of tokens by split.

    First all text becomes numbers as they come; the dictionary is made from training's; then numbers become indices.
    """
    prefix_by_place = {
        (split, language): folder / f"{stem_by_split[split]}.{language}" for split, language in text_path_by_place
    }
    for (split, language), text_path in text_path_by_place.items():
        _write_numbers(numberer_by_language[language], text_path, prefix_by_place[split, language])
    symbols_by_language = _write_dictionaries(numberer_by_language, prefix_by_place, folder)
    num_tokens_by_split: dict[str, dict[str, int]] = {split: {} for split in stem_by_split}
    for (split, language), prefix in prefix_by_place.items():
        symbols = symbols_by_language[language]
        table = index_table(numberer_by_language[language].symbols, symbols)
        num_tokens_by_split[split][language] = _write_indices(prefix, table, index_dtype(len(symbols)))
    return num_tokens_by_split


def _fairseq_split(testset_index: int) -> str:
    """Return `valid test test1 test2 ...` by position."""
    return ("valid", "test")[testset_index] if testset_index < 2 else f"test{testset_index - 1}"


def _write_numbers(numberer: Numberer, text_path: Path, prefix: Path) -> None:
    """Write a text's numbers, `<prefix>.numbers`, and its lines' lengths, `<prefix>.lengths`, in blocks."""
    with _beside(prefix, ".numbers").open("wb") as numbers_file, _beside(prefix, ".lengths").open("wb") as lengths_file:
        for block in read_blocks(text_path, _LINES_PER_BLOCK):
            numbers, lengths = numberer.number(block)
            numbers_file.write(numbers.astype("<u4").tobytes())
            lengths_file.write(lengths.astype("<i4").tobytes())


def _write_dictionaries(
    numberer_by_language: Mapping[str, Numberer], prefix_by_place: Mapping[tuple[str, str], Path], folder: Path
) -> dict[str, list[str]]:
    """Write `dict.<language>.txt` and return each language's symbols by index, special ones included."""
    symbols_by_language = {}
    for language, numberer in numberer_by_language.items():
        sharing = [other for other, other_numberer in numberer_by_language.items() if other_numberer is numberer]
        counts = np.zeros(len(numberer.symbols), np.int64)
        for other in sharing:
            with _beside(prefix_by_place["train", other], ".numbers").open("rb") as numbers_file:
                for block in _blocks(numbers_file, np.dtype("<u4"), _TOKENS_PER_BLOCK):
                    counts += np.bincount(block, minlength=counts.size)
        count_by_symbol = dict(zip(numberer.symbols, counts.tolist(), strict=True))
        write_lines(dictionary_lines(count_by_symbol), folder / f"dict.{language}.txt")
        symbols_by_language[language] = read_dictionary(folder / f"dict.{language}.txt")
    return symbols_by_language


def dictionary_lines(count_by_symbol: Mapping[str, int]) -> list[str]:
    """Return a dictionary file's lines: what occurs, by falling count, then by code points; no special symbols."""
    ordinary = [(s, count) for s, count in count_by_symbol.items() if count > 0 and s not in SPECIAL_SYMBOLS]
    return [f"{symbol} {count}" for symbol, count in sorted(ordinary, key=lambda entry: (-entry[1], entry[0]))]


def read_dictionary(path: Path) -> list[str]:
    """Return a dictionary's symbols by index, the four special ones first.

    Raises:
        CorpusError: if a line is not `symbol count`, naming it.
    """
    symbols = list(SPECIAL_SYMBOLS)
    for block in read_blocks(path, _LINES_PER_BLOCK):
        for line in block:
            symbol, _, count = line.rpartition(" ")
            if not symbol or not count.isdecimal():
                place = f"{path}:{len(symbols) - len(SPECIAL_SYMBOLS) + 1}"
                raise CorpusError(f"{place}: {line!r}; expected `symbol count`; rerun `aiayn binarize`")
            symbols.append(symbol)
    return symbols


def index_table(numbered_symbols: Sequence[str], dictionary: Sequence[str]) -> npt.NDArray[np.uint32]:
    """Return the dictionary's index of each numbered symbol, or that of `<unk>`; shape (num_numbered,)."""
    index_by_symbol = {symbol: index for index, symbol in enumerate(dictionary)}
    return np.array([index_by_symbol.get(symbol, UNKNOWN_INDEX) for symbol in numbered_symbols], np.uint32)


def index_dtype(num_symbols: int) -> np.dtype[np.uint16] | np.dtype[np.uint32]:
    """Return the type of a token's index for a dictionary of so many symbols, special ones included."""
    return np.dtype("<u2") if num_symbols < _NARROW_LIMIT else np.dtype("<u4")


def _write_indices(
    prefix: Path, table: npt.NDArray[np.uint32], dtype: np.dtype[np.uint16] | np.dtype[np.uint32]
) -> int:
    """Turn `.numbers` and `.lengths` into `.bin` and `.idx`, and return the number of tokens."""
    numbers_path, lengths_path = _beside(prefix, ".numbers"), _beside(prefix, ".lengths")
    with numbers_path.open("rb") as numbers_file, _beside(prefix, ".bin").open("wb") as tokens:
        for block in _blocks(numbers_file, np.dtype("<u4"), _TOKENS_PER_BLOCK):
            tokens.write(table[block].astype(dtype).tobytes())
    int32 = np.dtype("<i4")
    num_lines = lengths_path.stat().st_size // int32.itemsize
    num_tokens = 0
    with lengths_path.open("rb") as lengths_file, _beside(prefix, ".idx").open("wb") as index:
        index.write(_MAGIC + struct.pack("<QBQ", 1, _WIDTH_CODE_BY_DTYPE[dtype], num_lines))
        shutil.copyfileobj(lengths_file, index)
        lengths_file.seek(0)
        for lengths in _blocks(lengths_file, int32, _TOKENS_PER_BLOCK):
            ends = num_tokens + np.cumsum(lengths, dtype=np.int64)
            index.write(((ends - lengths) * dtype.itemsize).astype("<i8").tobytes())
            num_tokens = int(ends[-1])
    numbers_path.unlink()
    lengths_path.unlink()
    return num_tokens


def _beside(prefix: Path, suffix: str) -> Path:
    return prefix.with_name(prefix.name + suffix)  # with_suffix would take the language for a suffix


def _blocks(content: BinaryIO, dtype: "np.dtype[np.generic]", num_elements: int) -> Iterator[npt.NDArray[np.int64]]:
    while block := content.read(num_elements * dtype.itemsize):
        yield np.frombuffer(block, dtype).astype(np.int64)


def data_bin_digest(folder: Path) -> str:
    """Return the SHA-256 over a line `<sha256>  <name>` for each dictionary, .bin and .idx file, in order of name.

    By hand: `LC_ALL=C; sha256sum *.bin dict.*.txt *.idx | sort -k2 | sha256sum`.
    """
    paths = [path for pattern in ("dict.*.txt", "*.bin", "*.idx") for path in folder.glob(pattern)]
    listing = "".join(f"{file_sha256(path)}  {path.name}\n" for path in sorted(paths, key=lambda path: path.name))
    return hashlib.sha256(listing.encode()).hexdigest()


def require_recorded_data_bin(record: BinarizedCorpus) -> Path:
    """Return the data-bin's folder, after a look that its bytes are still those that the record is of.

    Raises:
        CorpusError: saying which vocabulary, or that the text, is another.
    """
    folder = Path(record.folder)
    for language, expected in record.dictionary_sha256_by_language.items():
        path = folder / f"dict.{language}.txt"
        found = file_sha256(path) if path.is_file() else "absent"
        if found != expected:
            raise CorpusError(
                f"{path}: sha256 {found}, its record says {expected}: a data-bin of another vocabulary; "
                f"rerun `aiayn binarize --corpus {record.corpus}`"
            )
    digest = data_bin_digest(folder)
    if digest != record.digest:
        raise CorpusError(
            f"{folder}: digest {digest}, its record says {record.digest}: a data-bin of other text, or torn; "
            f"rerun `aiayn binarize --corpus {record.corpus}`"
        )
    return folder
