"""Reads and writes lines of UTF-8 text, also from files compressed by gzip or xz.

A line ends at LF only. A bare CR, NEL, U+2028 and U+2029 are ordinary characters within a line.
Python's splitlines and universal newlines would end a line at such a character, often on one side
of a sentence pair only, and so misalign the corpus news-commentary v9.
"""

import contextlib
import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path, PurePath
from typing import BinaryIO

import msgspec

from aiayn.errors import CorpusError, FetchError, did_you_mean
from aiayn.packed import UNPACK_ERRORS, open_unpacked
from aiayn.provenance import Provenance, file_sha256, gather_provenance
from aiayn.records import TextPair
from aiayn.spec.system import CONFIG_FOLDER, ShippedSource

_BLOCK_BYTES = 1 << 20


@contextlib.contextmanager
def open_bytes(path: Path) -> Iterator[BinaryIO]:
    """Open a file for reading its bytes, decompressed if the file is compressed by gzip or xz.

    Raises:
        CorpusError: if the file is absent, or is an incomplete or damaged compressed file.
    """
    try:
        with open_unpacked(path) as unpacked:
            yield unpacked
    except FileNotFoundError as error:
        raise CorpusError(f"{path}: no such file; rerun the stage that writes it") from error
    except UNPACK_ERRORS as error:
        raise CorpusError(
            f"{path}: not a whole {path.suffix} file: {error}; delete it and fetch it again"
        ) from error


def read_lines(path: Path) -> Iterator[str]:
    """Yield the lines of a file without their LF. The last line may lack the LF.

    Raises:
        CorpusError: for the reasons of `open_bytes`, or if a line is not UTF-8. The message
            contains the line number.
    """
    with open_bytes(path) as content:
        # Iterating over bytes splits at LF only.
        for line_number, line in enumerate(content, start=1):
            try:
                yield line.removesuffix(b"\n").decode("utf-8")
            except UnicodeDecodeError as error:
                raise CorpusError(
                    f"{path}:{line_number}: not UTF-8: {error}; convert or fetch it again"
                ) from error


def blocks_of(lines: Iterator[str], lines_per_block: int) -> Iterator[list[str]]:
    """Yield the given lines in lists of at most `lines_per_block` lines. A line is taken from the
    iterator only when the list it belongs to is needed.
    """
    while block := list(itertools.islice(lines, lines_per_block)):
        yield block


def write_lines(lines: Iterable[str], path: Path) -> int:
    """Write lines to a file, each ended by an LF. Return the number of lines.

    Raises:
        CorpusError: if a line contains an LF, which would split the line in two.
    """
    num_lines = 0
    with path.open("w", encoding="utf-8", newline="\n") as text:
        for line in lines:
            if "\n" in line:
                raise CorpusError(
                    f"{path}:{num_lines + 1}: a line feed inside a line: {line!r}; replace it by a"
                    " blank"
                )
            text.write(f"{line}\n")
            num_lines += 1
    return num_lines


def count_lines(path: Path) -> int:
    """Return the number of lines in a file. A last line without LF counts."""
    num_lines = 0
    # The last block tells whether the file ends without LF. `block` keeps it after the loop, in
    # which `next_block` becomes empty.
    block = b""
    with open_bytes(path) as content:
        while next_block := content.read(_BLOCK_BYTES):
            block = next_block
            num_lines += block.count(b"\n")
    return num_lines + (block != b"" and not block.endswith(b"\n"))


def agreed_num_lines(num_lines_by_place: Mapping[str, int]) -> int:
    """Return the number of lines of several files, which must be the same for all files.

    Raises:
        CorpusError: if the files differ in their number of lines, or are empty. The message lists
            each file with its number of lines.
    """
    counts = ", ".join(
        f"{location} has {num_lines} lines" for location, num_lines in num_lines_by_place.items()
    )
    if len(set(num_lines_by_place.values())) != 1:
        raise CorpusError(
            f"{counts}; expected equal numbers, line by line translations; fetch or align the files"
            " again"
        )
    num_lines = next(iter(num_lines_by_place.values()))
    if num_lines == 0:
        raise CorpusError(f"{counts}; expected text; fetch the files again")
    return num_lines


def read_shipped(source: ShippedSource) -> dict[str, list[tuple[str, str]]]:
    """Return the (source, target) pairs of a corpus that is part of the checkout, by split.

    Raises:
        FetchError: if the text file is absent or does not have the SHA-256 in the corpus file.
        CorpusError: if a line does not have the three columns split, source and target, or if a
            split does not have the number of lines that the corpus file states.
    """
    path = CONFIG_FOLDER / "corpora" / source.file
    sha256 = file_sha256(path) if path.is_file() else "absent"
    if sha256 != source.sha256:
        raise FetchError(
            f"{path}: sha256 {sha256}, expected {source.sha256}; restore it: `git checkout {path}`"
        )
    pairs_by_split: dict[str, list[tuple[str, str]]] = {}
    for line_number, line in enumerate(read_lines(path), start=1):
        if line.count("\t") != 2:
            raise CorpusError(
                f"{path}:{line_number}: {line!r}; expected split, source and target, separated by"
                " tabs"
            )
        split, source_line, target_line = line.split("\t")
        if split not in source.num_pairs_by_split:
            split_names = list(source.num_pairs_by_split)
            hint = did_you_mean(split, split_names, f"expected one of {', '.join(split_names)}")
            raise CorpusError(f"{path}:{line_number}: split {split!r}; {hint}")
        # Pairs of a split may be anywhere in the file. They keep the order of their lines.
        pairs_by_split.setdefault(split, []).append((source_line, target_line))
    # The checksum above covers the file, but not the corpus file, where the numbers are written by
    # hand.
    for split, num_pairs in source.num_pairs_by_split.items():
        num_found = len(pairs_by_split.get(split, []))
        if num_found != num_pairs:
            raise CorpusError(
                f"{path}: {num_found or 'no'} lines of split {split}, but num_pairs_by_split says"
                f" {num_pairs}; correct the split in its lines, or the number in the corpus file"
            )
    return pairs_by_split


def text_pair(path_by_language: Mapping[str, Path], final_folder: Path | None = None) -> TextPair:
    """Return the number of lines and the digests of line-aligned files.

    If the files are still in a temporary folder, the result contains the paths that they will have
    in `final_folder`.

    Raises:
        CorpusError: if the files differ in their number of lines, or are empty
            (`agreed_num_lines`).
    """
    final_path_by_language, num_lines_by_place, sha256_by_language = {}, {}, {}
    # The files are counted and hashed where they are now, and recorded where they will be.
    for language, path in path_by_language.items():
        final_path = path if final_folder is None else final_folder / path.name
        final_path_by_language[language] = final_path
        num_lines_by_place[str(final_path)] = count_lines(path)
        sha256_by_language[language] = file_sha256(path)
    return TextPair(
        path_by_language=final_path_by_language,
        num_lines=agreed_num_lines(num_lines_by_place),
        sha256_by_language=sha256_by_language,
    )


def text_provenance(pairs: Iterable[TextPair], further_paths: Sequence[Path] = ()) -> Provenance:
    """Return a description of this process (code, machine) and its input files.

    The digests of the text files come from their records. The files are not hashed again, because
    `require_files` has already compared them with their records.
    """
    provenance = gather_provenance(further_paths)
    # `gather_provenance` hashes only the further paths, such as subword models.
    sha256_by_path: dict[PurePath, str] = {}
    for pair in pairs:
        for language, path in pair.path_by_language.items():
            sha256_by_path[path] = pair.sha256_by_language[language]
    sha256_by_path |= provenance.input_sha256_by_path
    return msgspec.structs.replace(provenance, input_sha256_by_path=sha256_by_path)
