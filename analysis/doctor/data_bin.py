"""Reads any fairseq data-bin with numpy only: dictionaries, lengths of lines, and their symbols.

The format is fairseq's `MMapIndexedDataset` (0.9 and later, data/indexed_dataset.py):
`<split>.<source>-<target>.<language>.idx` holds a magic word, a version, a code of the width of a
symbol's number, the number of lines, each line's length and each line's first byte in the `.bin`
file with the same name. Only the lines that a caller requests are read from the disk.
"""

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from aiayn.data.text.binarize import read_dictionary
from aiayn.data.text.index import INDEX_HEADER, INDEX_MAGIC
from aiayn.errors import CorpusError

Numbers = npt.NDArray[np.int64]
END_OF_SENTENCE, UNKNOWN = 2, 3  # numbers of </s> and <unk> in fairseq's dictionaries
_HEADER_BYTES = INDEX_HEADER.size
# fairseq's own table, data/indexed_dataset.py: 0.12 writes 8 and 9, earlier versions 3 and 4 as
# well.
_DTYPE_BY_CODE = {1: "<u1", 2: "<i1", 3: "<i2", 4: "<i4", 5: "<i8", 8: "<u2", 9: "<u4"}


class Side:
    """One language of one split: `lengths` count the end of sentence."""

    def __init__(self, prefix: Path) -> None:
        """Read the index at `<prefix>.idx`.

        Raises:
            CorpusError: if the index has another format or is truncated.
        """
        self.path = prefix.with_name(f"{prefix.name}.idx")
        header = self.path.open("rb").read(_HEADER_BYTES)
        if not header.startswith(INDEX_MAGIC) or len(header) < _HEADER_BYTES:
            raise CorpusError(
                f"{self.path}: begins with {header[:9]!r}, expected fairseq's mmap format,"
                f" {INDEX_MAGIC!r}; binarize again with --dataset-impl mmap"
            )
        _, version, code, num_lines = INDEX_HEADER.unpack(header)
        if version != 1 or code not in _DTYPE_BY_CODE:
            raise CorpusError(
                f"{self.path}: version {version}, width {code}; expected version 1 and whole"
                " numbers"
            )
        expected_bytes = _HEADER_BYTES + 12 * num_lines
        if self.path.stat().st_size != expected_bytes:
            found_bytes = self.path.stat().st_size
            raise CorpusError(
                f"{self.path}: {found_bytes} bytes, expected {expected_bytes}: cut; binarize again"
            )
        self._dtype = np.dtype(_DTYPE_BY_CODE[code])
        self._bin_path = prefix.with_name(f"{prefix.name}.bin")
        self.lengths = np.fromfile(self.path, "<i4", num_lines, offset=_HEADER_BYTES)
        self._offsets = np.fromfile(self.path, "<i8", offset=_HEADER_BYTES + 4 * num_lines)
        num_bytes = self._bin_path.stat().st_size if self._bin_path.exists() else -1
        if num_bytes != self.num_tokens * self._dtype.itemsize:
            raise CorpusError(
                f"{self._bin_path}: {num_bytes} bytes, its .idx has"
                f" {self.num_tokens * self._dtype.itemsize}: the file is cut, or belongs to another"
                " .idx; binarize again"
            )
        self._tokens: npt.NDArray[Any] = (
            np.memmap(self._bin_path, self._dtype, "r") if num_bytes else np.zeros(0, self._dtype)
        )

    def __len__(self) -> int:
        """Return the number of lines."""
        return len(self.lengths)

    @property
    def num_tokens(self) -> int:
        """The symbols of all lines, ends of sentences included."""
        return int(self.lengths.sum(dtype=np.int64))

    def line(self, index: int) -> Numbers:
        """Return the numbers of a line's symbols, the end of sentence included."""
        begin = int(self._offsets[index]) // self._dtype.itemsize
        return np.asarray(self._tokens[begin : begin + int(self.lengths[index])]).astype(np.int64)


class DataBin:
    """A data-bin: its dictionaries, and the (source, target) sides of each split by fairseq's name
    of the split.
    """

    def __init__(self, folder: Path, source_language: str, target_language: str) -> None:
        """Read dictionaries and indices.

        Raises:
            CorpusError: if a dictionary or a side of the training text is missing, or a file is
            malformed.
        """
        self.folder = folder
        languages = (source_language, target_language)
        dictionary_paths = [folder / f"dict.{language}.txt" for language in languages]
        for path in dictionary_paths:
            if not path.exists():
                raise CorpusError(
                    f"{path}: no such dictionary; name a folder that fairseq-preprocess wrote"
                )
        # The symbols of each language by number.
        self.dictionaries = tuple(map(read_dictionary, dictionary_paths))
        stem = f"{source_language}-{target_language}"
        self.sides_by_split: dict[str, tuple[Side, Side]] = {}
        for path in sorted(folder.glob(f"*.{stem}.{source_language}.idx")):
            split = path.name.removesuffix(f".{stem}.{source_language}.idx")
            source, target = (Side(folder / f"{split}.{stem}.{language}") for language in languages)
            self.sides_by_split[split] = source, target
        if "train" not in self.sides_by_split:
            raise CorpusError(
                f"{folder}: no train.{stem}.{source_language}.idx; name the folder that has it"
            )
