"""Vectors of a corpus's pieces, made from its training text alone: what `embeddings: vectors` starts from.

Readers of the paper ask whether embeddings should be learnt or pre-trained. Vectors that others publish are of words,
not of this corpus's pieces, and need a download; these are of its pieces and need none. Two pieces *stand together* if
they are at most `window` places of one line apart. How much more often they do so than by chance (positive pointwise
mutual information) is a matrix, of which the largest singular vectors, times the square roots of their values, are the
pieces' vectors (Levy and Goldberg 2014; Levy, Goldberg and Dagan 2015).

The file is text in word2vec's format: a line `V d`, then for each of V symbols a line of the symbol and d numbers.

Memory: text passes in blocks, and does not grow with the corpus by itself; what grows is the number of different pairs
that stand together, at most the square of the number of symbols, about 100 bytes for each while their information is
worked out. Multi30k, 900,000 pieces, has 1.6 million ordered pairs and takes 190 MB in all.
"""

import struct
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt

from aiayn.errors import CorpusError
from aiayn.provenance import file_sha256, gather_provenance, replace_on_success
from aiayn.records import BinarizedCorpus, TokenVectors

_MAGIC = b"MMIDIDX\x00\x00"
_HEADER = struct.Struct("<9sQBQ")  # of an .idx: magic word, version, code of the width, number of lines
_DTYPE_BY_WIDTH_CODE: dict[int, "np.dtype[Any]"] = {8: np.dtype("<u2"), 9: np.dtype("<u4")}
_LENGTH_DTYPE = np.dtype("<i4")
_LINES_PER_BLOCK = 1 << 16
_NUMBER_FORMAT = ".6g"
_AGAIN = "rerun `aiayn binarize`"

Block = tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]  # the tokens of whole lines, and each line's length
Matrix = Any  # scipy.sparse.csr_matrix, imported where it is needed: a training's driver reads headers only


def read_token_blocks(prefix: Path, lines_per_block: int = _LINES_PER_BLOCK) -> Iterator[Block]:
    """Yield the token indices of a split of a data-bin (`<prefix>.bin`, `<prefix>.idx`), some whole lines at a time.

    Raises:
        CorpusError: if the files are absent, of another format, or torn.
    """
    index_path, tokens_path = (prefix.with_name(prefix.name + suffix) for suffix in (".idx", ".bin"))
    try:
        with index_path.open("rb") as index, tokens_path.open("rb") as tokens:
            header = index.read(_HEADER.size)
            magic, _, width_code, num_lines = _HEADER.unpack(header) if len(header) == _HEADER.size else (b"", 0, 0, 0)
            if magic != _MAGIC or width_code not in _DTYPE_BY_WIDTH_CODE:
                raise CorpusError(f"{index_path}: no index of a fairseq mmap data-bin; {_AGAIN}")
            dtype = _DTYPE_BY_WIDTH_CODE[width_code]
            for first_line in range(0, num_lines, lines_per_block):
                lengths = _read_numbers(index, min(lines_per_block, num_lines - first_line), _LENGTH_DTYPE, index_path)
                yield _read_numbers(tokens, int(lengths.sum()), dtype, tokens_path), lengths
    except FileNotFoundError as error:
        raise CorpusError(f"{error.filename}: no such file; {_AGAIN}") from error


def _read_numbers(content: BinaryIO, num_numbers: int, dtype: "np.dtype[Any]", path: Path) -> npt.NDArray[np.int64]:
    numbers = np.frombuffer(content.read(num_numbers * dtype.itemsize), dtype)
    if numbers.size < num_numbers:
        raise CorpusError(f"{path}: torn: ends before its last number; {_AGAIN}")
    return numbers.astype(np.int64)


def count_pairs(blocks: Iterable[Block], num_symbols: int, window: int) -> Matrix:
    """Return how often each symbol stands within `window` places of each other in a line: (V, V), symmetric."""
    from scipy import sparse

    counts = sparse.csr_matrix((num_symbols, num_symbols), dtype=np.int64)
    for tokens, lengths in blocks:
        line_of_token = np.repeat(np.arange(lengths.size), lengths)
        block_counts = sparse.csr_matrix(counts.shape, dtype=np.int64)  # summed by itself: the whole is large to add to
        for distance in range(1, window + 1):
            is_one_line = line_of_token[:-distance] == line_of_token[distance:]
            pairs = tokens[:-distance][is_one_line], tokens[distance:][is_one_line]
            ones = np.ones(pairs[0].size, np.int64)
            block_counts = block_counts + sparse.coo_matrix((ones, pairs), shape=counts.shape).tocsr()
        counts = counts + block_counts
    return (counts + counts.T).tocsr()


def positive_information(counts: Matrix) -> Matrix:
    """Return max(0, log(c_ab c / (c_a c_b))) in nats for each pair that was counted, c_a and c being sums: (V, V)."""
    pairs = counts.tocoo()
    sums = np.asarray(counts.sum(axis=1), np.float64).ravel()
    expected = sums[pairs.row] * sums[pairs.col] / sums.sum()
    pairs = pairs.astype(np.float64)
    pairs.data = np.maximum(0.0, np.log(pairs.data / expected))
    information = pairs.tocsr()
    information.eliminate_zeros()
    return information


def decompose(information: Matrix, dimensions: int, seed: int) -> npt.NDArray[np.float64]:
    """Return each symbol's vector: the largest singular vectors by the roots of their values, (V, dimensions).

    Of either sign of a singular vector the one is taken whose largest component is positive. `seed` is of the vector
    that the iteration starts from: the same seed, the same vectors, on one machine with one version of its libraries.

    Raises:
        CorpusError: if there are not more symbols than dimensions.
    """
    from scipy.sparse import linalg

    num_symbols = information.shape[0]
    if num_symbols <= dimensions:
        raise CorpusError(
            f"{num_symbols} different symbols have no {dimensions} dimensions; expected more symbols than that: take a "
            "larger corpus, or a system of smaller d_model"
        )
    start = np.random.default_rng(seed).standard_normal(num_symbols)
    left, values, _ = linalg.svds(information, k=dimensions, v0=start, solver="arpack")
    falling = np.argsort(-values, kind="stable")
    left, values = left[:, falling], values[falling]
    largest = left[np.abs(left).argmax(axis=0), np.arange(dimensions)]
    vectors: npt.NDArray[np.float64] = left * np.where(largest < 0, -1.0, 1.0) * np.sqrt(values)
    return vectors


def make_vectors(
    data: BinarizedCorpus, symbols: Sequence[str], *, dimensions: int, window: int, seed: int, binarized_path: Path,
    record_path: Path,
) -> TokenVectors:  # fmt: skip
    """Write vectors of all symbols of a corpus's training text beside the record, as `.txt`, and return the record.

    `symbols` are the joint dictionary's, by index. A symbol that occurs in no line has no vector.

    Raises:
        CorpusError: if the languages have a dictionary each, no two symbols stand together, or they are too few.
    """
    if len(set(data.dictionary_sha256_by_language.values())) > 1:
        raise CorpusError(f"{data.folder}: a dictionary for each language, expected one for both: set subword.joint")
    pair = f"{data.source_language}-{data.target_language}"
    prefixes = [data.folder / f"train.{pair}.{name}" for name in (data.source_language, data.target_language)]
    blocks = (block for prefix in prefixes for block in read_token_blocks(prefix))
    counts = count_pairs(blocks, len(symbols), window)
    occurring = np.flatnonzero(np.asarray(counts.sum(axis=1)).ravel())
    if not occurring.size:
        raise CorpusError(f"{data.folder}: no two symbols of its training text stand together; is it empty?")
    vectors = decompose(positive_information(counts[occurring][:, occurring]), dimensions, seed)
    path = record_path.with_suffix(".txt")
    write_vectors([symbols[index] for index in occurring.tolist()], vectors, path)
    return TokenVectors(
        provenance=gather_provenance([binarized_path]),
        corpus=data.corpus,
        path=path,
        sha256=file_sha256(path),
        data_digest=data.digest,
        num_vectors=len(vectors),
        dimensions=dimensions,
        window=window,
        seed=seed,
    )


def write_vectors(symbols: Sequence[str], vectors: npt.NDArray[np.float64], path: Path) -> None:
    """Write vectors in word2vec's text format, whole or not at all."""
    with replace_on_success(path) as partial_path, partial_path.open("w", encoding="utf-8", newline="\n") as lines:
        lines.write(f"{vectors.shape[0]} {vectors.shape[1]}\n")
        for symbol, vector in zip(symbols, vectors, strict=True):
            lines.write(" ".join([symbol, *(format(number, _NUMBER_FORMAT) for number in vector)]) + "\n")


def read_dimensions(path: Path) -> int:
    """Return the number of dimensions that a file of vectors says it has; only its first line is read.

    Raises:
        CorpusError: if the file is absent, or its first line is not `V d`.
    """
    try:
        with path.open(encoding="utf-8", newline="\n") as lines:
            header = next(lines, "").split()
    except FileNotFoundError as error:
        raise CorpusError(f"{path}: no such file of vectors; `aiayn vectors` makes one") from error
    if len(header) != 2 or not all(number.isdecimal() and int(number) >= 1 for number in header):
        raise CorpusError(f"{path}:1: {' '.join(header)!r}; expected `V d`, the numbers of vectors and of dimensions")
    return int(header[1])
