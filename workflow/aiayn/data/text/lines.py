"""Reads and writes text as lines, split at LF alone, in UTF-8; unpacks what gzip or xz has packed.

A bare CR, NEL, U+2028 and U+2029 are characters like any other: `str.splitlines` and universal
newlines end a line at them in one language and not in the other, and news-commentary v9, which
holds bare CRs, falls out of step.
"""

import contextlib
import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import BinaryIO

import msgspec

from aiayn.errors import CorpusError
from aiayn.packed import UNPACK_ERRORS, open_unpacked
from aiayn.provenance import Provenance, file_sha256, gather_provenance
from aiayn.records import ParallelText, RawCorpus, TextPair

_BLOCK_BYTES = 1 << 20


@contextlib.contextmanager
def open_bytes(path: Path) -> Iterator[BinaryIO]:
    """Open a file for reading its bytes, unpacked if it is packed by gzip or xz.

    Raises:
        CorpusError: if the file is absent, or its packed stream is torn or none.
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
    """Yield the lines of a file without their LF; a last line may lack it.

    Raises:
        CorpusError: as `open_bytes`, and naming the line that is not UTF-8.
    """
    with open_bytes(path) as content:
        for line_number, line in enumerate(
            content, start=1
        ):  # iterating over bytes splits at LF alone
            try:
                yield line.removesuffix(b"\n").decode("utf-8")
            except UnicodeDecodeError as error:
                raise CorpusError(
                    f"{path}:{line_number}: not UTF-8: {error}; convert or fetch it again"
                ) from error


def read_blocks(path: Path, lines_per_block: int) -> Iterator[list[str]]:
    """Yield the lines of a file in lists of at most `lines_per_block`."""
    lines = read_lines(path)
    while block := list(itertools.islice(lines, lines_per_block)):
        yield block


def write_lines(lines: Iterable[str], path: Path) -> int:
    """Write lines, each with an LF, and return how many.

    Raises:
        CorpusError: if a line holds an LF itself, which would make two of it.
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
    """Return the number of lines, a last one without LF included."""
    num_lines, block = 0, b""
    with open_bytes(path) as content:
        while read := content.read(_BLOCK_BYTES):
            block = read
            num_lines += block.count(b"\n")
    return num_lines + (block != b"" and not block.endswith(b"\n"))


def agreed_num_lines(num_lines_by_path: Mapping[Path, int]) -> int:
    """Return the number of lines that all the files were counted to have.

    Raises:
        CorpusError: naming each file and its count, if these differ or are 0.
    """
    counts = ", ".join(
        f"{path} has {num_lines} lines" for path, num_lines in num_lines_by_path.items()
    )
    if len(set(num_lines_by_path.values())) != 1:
        raise CorpusError(
            f"{counts}; expected as many in each, line by line translations; fetch or align them"
            " anew"
        )
    num_lines = next(iter(num_lines_by_path.values()))
    if num_lines == 0:
        raise CorpusError(f"{counts}; expected text; fetch the files anew")
    return num_lines


def text_pair(path_by_language: Mapping[str, Path], final_folder: Path | None = None) -> TextPair:
    """Return the pair of these files, counted and hashed.

    Outputs are written beside their place first: `final_folder` is where they will lie, and what
    the pair then says.

    Raises:
        CorpusError: as `agreed_num_lines`.
    """
    final_path_by_language = {
        language: path if final_folder is None else final_folder / path.name
        for language, path in path_by_language.items()
    }
    return TextPair(
        path_by_language=final_path_by_language,
        num_lines=agreed_num_lines(
            {
                final_path_by_language[language]: count_lines(path)
                for language, path in path_by_language.items()
            }
        ),
        sha256_by_language={
            language: file_sha256(path) for language, path in path_by_language.items()
        },
    )


def require_corpus(text: RawCorpus | ParallelText, name: str, flag: str = "text") -> None:
    """Refuse the text of another corpus; `flag` names its record.

    Raises:
        CorpusError: naming both.
    """
    if text.corpus != name:
        raise CorpusError(
            f"the {flag} record is of corpus {text.corpus}, expected {name}; name that corpus's"
            " record"
        )


def unchanged_paths(pair: TextPair) -> dict[str, Path]:
    """Return the path of each language's file, after comparing its digest with the record.

    Raises:
        CorpusError: if a file is gone, or has other bytes than when its record was written.
    """
    for language, path in pair.path_by_language.items():
        try:
            sha256 = file_sha256(path)
        except FileNotFoundError as error:
            raise CorpusError(f"{path}: no such file; rerun the stage that writes it") from error
        expected = pair.sha256_by_language[language]
        if sha256 != expected:
            raise CorpusError(
                f"{path}: sha256 {sha256}, its record says {expected}; rerun the stage that"
                " writes it"
            )
    return pair.path_by_language


def text_provenance(pairs: Iterable[TextPair], further_paths: Sequence[Path] = ()) -> Provenance:
    """Describe this process and its inputs; text was hashed by `unchanged_paths`, and is not hashed
    again.
    """
    provenance = gather_provenance(further_paths)
    sha256_by_path = {
        path: pair.sha256_by_language[k]
        for pair in pairs
        for k, path in pair.path_by_language.items()
    }
    return msgspec.structs.replace(
        provenance, input_sha256_by_path=sha256_by_path | provenance.input_sha256_by_path
    )
