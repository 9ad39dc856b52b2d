"""Turn text into fairseq's mmap data-bin, with the bytes that `fairseq-preprocess --padding-factor 1` would write.

The format (fairseq 0.12.3, data/indexed_dataset.py and data/dictionary.py; little-endian):
`dict.<language>.txt`: `symbol count` a line, by falling count in training, then by code points; the four special
symbols come before the first line and are not written.
`.bin`: the token indices of all lines, each line ended by `</s>`, in 16 bits if the dictionary has fewer than 65,500
symbols, else in 32.
`.idx`: a magic word, version 1, a code of the width, the number of lines, each line's length (int32), each line's first
byte in the `.bin` (int64).

Text becomes numbers in shards, over processes (`numbered_parts`); a killed command goes on with those that are whole.
The bytes depend neither on the processes nor on the shards. Memory does not grow with the corpus, apart from its
vocabulary: everything passes in blocks.
"""

import functools
import hashlib
import shutil
import struct
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from aiayn.errors import CorpusError
from aiayn.provenance import Provenance, file_sha256, gather_provenance, replace_outputs_on_success, require_free_space
from aiayn.records import BinarizedCorpus, ParallelText, RawCorpus, TextPair
from aiayn.spec import CorpusSpec
from aiayn.text.lines import read_blocks, unchanged_paths, write_lines
from aiayn.text.numbered_parts import (
    LENGTH_DTYPE,
    NumberedSplit,
    Numberer,
    number_split,
    read_blocks_of,
    read_symbols,
)
from aiayn.text.shards import LINES_PER_SHARD, PARTS_FOLDER
from aiayn.text.word_numbers import NUMBER_DTYPE

DATA_BIN_NAME = "data-bin"
SPECIAL_SYMBOLS = ("<s>", "<pad>", "</s>", "<unk>")  # indices 0 to 3 of every dictionary
UNKNOWN_INDEX = SPECIAL_SYMBOLS.index("<unk>")
_NARROW_LIMIT = 65500  # from this many symbols on, fairseq takes 32 bits
_WIDTH_CODE_BY_DTYPE = {np.dtype("<u2"): 8, np.dtype("<u4"): 9}
_MAGIC = b"MMIDIDX\x00\x00"
_LINES_PER_BLOCK = 8192


def binarize_corpus(
    spec: CorpusSpec,
    text: ParallelText | RawCorpus,
    numberer_by_language: Mapping[str, Numberer],
    *,
    model_paths: Sequence[Path] = (),
    record_path: Path,
    num_processes: int = 1,
    lines_per_shard: int = LINES_PER_SHARD,
) -> BinarizedCorpus:
    """Write `data-bin/` beside the record and return the record.

    The dictionary is joint if both languages have the same numberer; then it counts the training text of both. The
    dev test set becomes fairseq's `valid`, the others `test`, `test1`, ... in the corpus's order. Counts of
    tokens include `</s>`. `model_paths` are the subword models behind the numberers, for the record. Training pairs are
    dropped for their lengths in pieces, if the corpus file gives its limits in these.

    Raises:
        CorpusError: if the text is another corpus's, or has changed since its record was written, or no pair is left.
    """
    if text.corpus != spec.name:
        raise CorpusError(f"the text record is of corpus {text.corpus}, expected {spec.name}; name its own record")
    fairseq_split_by_testset = {name: _fairseq_split(index) for index, name in enumerate(spec.testsets)}
    names = {"train": "train", **fairseq_split_by_testset}
    stem_by_split = {split: f"{name}.{spec.language_pair}" for split, name in names.items()}
    pair_by_split = {split: text.pair_by_split[split] for split in stem_by_split}
    num_bytes = sum(path.stat().st_size for pair in pair_by_split.values() for path in unchanged_paths(pair).values())
    # four bytes a token while at work, two to four in the end; a token is seldom under two bytes of text
    require_free_space(record_path.parent, 3 * num_bytes, "the data-bin")
    data_bin_folder, parts_folder = record_path.parent / DATA_BIN_NAME, record_path.parent / PARTS_FOLDER
    limits = spec.clean if spec.clean is not None and spec.clean.unit == "pieces" else None
    number = functools.partial(number_split, numberer_by_language, num_processes=num_processes)
    numbered_by_split = {
        split: number(pair, limits if split == "train" else None, parts_folder / split, lines_per_shard)
        for split, pair in pair_by_split.items()
    }
    with replace_outputs_on_success(record_path) as folder:
        num_tokens = _write_data_bin(numbered_by_split, stem_by_split, numberer_by_language, folder / DATA_BIN_NAME)
    shutil.rmtree(parts_folder)
    dictionary_paths = {language: data_bin_folder / f"dict.{language}.txt" for language in numberer_by_language}
    return BinarizedCorpus(
        provenance=_provenance(pair_by_split.values(), model_paths),
        corpus=spec.name,
        folder=data_bin_folder,
        source_language=spec.source_language,
        target_language=spec.target_language,
        dictionary_sha256_by_language={k: file_sha256(path) for k, path in dictionary_paths.items()},
        digest=data_bin_digest(data_bin_folder),
        vocabulary_size_by_language={k: len(read_dictionary(path)) for k, path in dictionary_paths.items()},
        num_pairs_by_split={split: numbered.num_pairs for split, numbered in numbered_by_split.items()},
        num_tokens_by_split_by_language=num_tokens,
        fairseq_split_by_testset=fairseq_split_by_testset,
        num_dropped_by_reason=numbered_by_split["train"].num_dropped(),
    )


def _provenance(pairs: Iterable[TextPair], model_paths: Sequence[Path]) -> Provenance:
    """Describe this process; the text was hashed when it was compared with its record, and is not hashed again."""
    provenance = gather_provenance(model_paths)
    sha256_by_path = {
        path: pair.sha256_by_language[language] for pair in pairs for language, path in pair.path_by_language.items()
    }
    return msgspec.structs.replace(provenance, input_sha256_by_path=sha256_by_path | provenance.input_sha256_by_path)


def _fairseq_split(testset_index: int) -> str:
    """Return `valid test test1 test2 ...` by position."""
    return ("valid", "test")[testset_index] if testset_index < 2 else f"test{testset_index - 1}"


def _write_data_bin(
    numbered_by_split: Mapping[str, NumberedSplit],
    stem_by_split: Mapping[str, str],
    numberer_by_language: Mapping[str, Numberer],
    folder: Path,
) -> dict[str, dict[str, int]]:
    """Write the data-bin of numbered text and return its numbers of tokens by split and language."""
    folder.mkdir()
    num_tokens_by_split: dict[str, dict[str, int]] = {split: {} for split in stem_by_split}
    index_by_symbol: dict[str, int] = {}
    for language, numberer in numberer_by_language.items():
        sharing = [other for other, other_numberer in numberer_by_language.items() if other_numberer is numberer]
        path = folder / f"dict.{language}.txt"
        if language == sharing[0]:
            index_by_symbol = _write_dictionary(numbered_by_split["train"].part_paths, sharing, path)
        else:  # the one before, as there are two languages
            shutil.copyfile(folder / f"dict.{sharing[0]}.txt", path)
        for split, numbered in numbered_by_split.items():
            prefix = folder / f"{stem_by_split[split]}.{language}"
            num_tokens_by_split[split][language] = _write_indices(numbered, language, index_by_symbol, prefix)
    return num_tokens_by_split


def _write_dictionary(train_part_paths: Sequence[Path], languages: Sequence[str], path: Path) -> dict[str, int]:
    """Write the dictionary of the languages' training text and return each symbol's index."""
    count_by_symbol: Counter[str] = Counter()
    for part in train_part_paths:
        for language in languages:
            for _, count, symbol in read_symbols(part, language):
                count_by_symbol[symbol] += count
    write_lines(dictionary_lines(count_by_symbol), path)
    return {symbol: index for index, symbol in enumerate(read_dictionary(path))}


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


def index_dtype(num_symbols: int) -> np.dtype[np.uint16] | np.dtype[np.uint32]:
    """Return the type of a token's index for a dictionary of so many symbols, special ones included."""
    return np.dtype("<u2") if num_symbols < _NARROW_LIMIT else np.dtype("<u4")


def _write_indices(numbered: NumberedSplit, language: str, index_by_symbol: Mapping[str, int], prefix: Path) -> int:
    """Write `.bin` and `.idx` of one language of a split, and return the number of tokens."""
    dtype = index_dtype(len(index_by_symbol))
    with _beside(prefix, ".bin").open("wb") as tokens:
        for part in numbered.part_paths:
            table = _index_table(part, language, index_by_symbol, dtype)
            with (part / f"{language}.numbers").open("rb") as numbers_file:
                for numbers in read_blocks_of(numbers_file, NUMBER_DTYPE):
                    tokens.write(table[numbers].tobytes())
    lengths_paths = [part / f"{language}.lengths" for part in numbered.part_paths]
    num_tokens = 0
    with _beside(prefix, ".idx").open("wb") as index:
        index.write(_MAGIC + struct.pack("<QBQ", 1, _WIDTH_CODE_BY_DTYPE[dtype], numbered.num_pairs))
        for lengths in _all_lengths(lengths_paths):
            index.write(lengths.tobytes())
        for lengths in _all_lengths(lengths_paths):
            ends = num_tokens + np.cumsum(lengths, dtype=np.int64)
            index.write(((ends - lengths) * dtype.itemsize).astype("<i8").tobytes())
            num_tokens = int(ends[-1])
    return num_tokens


def _index_table(
    part: Path, language: str, index_by_symbol: Mapping[str, int], dtype: "np.dtype[Any]"
) -> "npt.NDArray[Any]":
    """Return the dictionary's index of each number of a part, or that of `<unk>`; numbers that do not occur have 0."""
    entries = list(read_symbols(part, language))
    table = np.zeros(1 + max((number for number, _, _ in entries), default=0), dtype)
    for number, _, symbol in entries:
        table[number] = index_by_symbol.get(symbol, UNKNOWN_INDEX)
    return table


def _all_lengths(paths: Sequence[Path]) -> "Iterator[npt.NDArray[Any]]":
    for path in paths:
        with path.open("rb") as lengths_file:
            yield from read_blocks_of(lengths_file, LENGTH_DTYPE)


def _beside(prefix: Path, suffix: str) -> Path:
    return prefix.with_name(prefix.name + suffix)  # with_suffix would take the language for a suffix


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
    folder = record.folder
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
