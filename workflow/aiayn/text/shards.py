"""Work on line-aligned files in shards: over processes, restarted with the shards that are whole, memory of one shard.

A shard is so many lines of every side, found again by its byte offsets, so that a process reads its own lines and no
others. What the work on a shard leaves is a part: a folder that is renamed into place once it is whole. A part does not
depend on the number of processes, and neither does what is made of all of them.
"""

import contextlib
import functools
import os
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO, TypeVar

import msgspec

from aiayn.errors import CorpusError
from aiayn.text.lines import agreed_num_lines
from aiayn.text.worker_pool import TaskProgress, run_tasks

LINES_PER_SHARD = 250_000  # 19 shards of WMT14 En-De, 164 of En-Fr; some 40 MB a side
PARTS_FOLDER = ".parts"  # beside a stage's record, until its outputs are whole
_BLOCK_BYTES = 1 << 20
_RESULT_NAME = "result.json"

Result = TypeVar("Result")


class Shard(msgspec.Struct, frozen=True):
    """`num_lines` lines of every side, from line `first_line` (a file's first is 0) and each side's byte offset."""

    index: int
    first_line: int
    num_lines: int
    offset_by_language: dict[str, int]


class _StoredPart(msgspec.Struct, frozen=True):
    """What a part's folder says of itself: the shard that it was made of, and the work's result."""

    shard: Shard
    result: Any


def split_into_shards(path_by_language: Mapping[str, Path], *, lines_per_shard: int = LINES_PER_SHARD) -> list[Shard]:
    """Return the shards of line-aligned files, in order; lines end at LF alone, and a last one may lack it.

    Raises:
        CorpusError: naming each file and its count, if these differ or are 0; if a file is absent or gzipped.
    """
    offsets_by_language, num_lines_by_path = {}, {}
    for language, path in path_by_language.items():
        offsets_by_language[language], num_lines_by_path[path] = _shard_offsets(path, lines_per_shard)
    num_lines = agreed_num_lines(num_lines_by_path)
    return [
        Shard(
            index=index,
            first_line=first_line,
            num_lines=min(lines_per_shard, num_lines - first_line),
            offset_by_language={language: offsets[index] for language, offsets in offsets_by_language.items()},
        )
        for index, first_line in enumerate(range(0, num_lines, lines_per_shard))
    ]


def _shard_offsets(path: Path, lines_per_shard: int) -> tuple[list[int], int]:
    """Return where every `lines_per_shard`-th line begins, the end perhaps among it, and the number of lines."""
    offsets, num_lines, block_offset, block = [0], 0, 0, b""
    with _open_seekable(path) as content:
        while read := content.read(_BLOCK_BYTES):
            block = read
            num_lines_before, num_lines = num_lines, num_lines + block.count(b"\n")
            line, position = num_lines_before, 0
            while len(offsets) * lines_per_shard <= num_lines:
                while line < len(offsets) * lines_per_shard:
                    line, position = line + 1, block.index(b"\n", position) + 1
                offsets.append(block_offset + position)
            block_offset += len(block)
    return offsets, num_lines + (block != b"" and not block.endswith(b"\n"))


@contextlib.contextmanager
def _open_seekable(path: Path) -> Iterator[BinaryIO]:
    if path.suffix == ".gz":
        raise CorpusError(f"{path}: gzipped; expected plain text, whose lines are found by their offsets; unpack it")
    try:
        with path.open("rb") as content:
            yield content
    except FileNotFoundError as error:
        raise CorpusError(f"{path}: no such file; rerun the stage that writes it") from error


def read_shard(path: Path, offset: int, num_lines: int) -> Iterator[str]:
    """Yield a shard's lines of one side, without their LF.

    Raises:
        CorpusError: naming file and line, if one is not UTF-8, or the file ends before the shard does.
    """
    with _open_seekable(path) as content:
        content.seek(offset)
        for index in range(num_lines):
            line = content.readline()
            if not line:
                end = _num_lines_before(path, offset) + index
                raise CorpusError(f"{path}: ends after line {end}; it had more when it was split; fetch it again")
            try:
                yield line.removesuffix(b"\n").decode("utf-8")
            except UnicodeDecodeError as error:
                line_number = _num_lines_before(path, offset) + index + 1
                raise CorpusError(f"{path}:{line_number}: not UTF-8: {error}; convert or fetch it again") from error


def _num_lines_before(path: Path, offset: int) -> int:
    num_lines = 0
    with path.open("rb") as content:
        while offset > 0 and (block := content.read(min(offset, _BLOCK_BYTES))):
            num_lines, offset = num_lines + block.count(b"\n"), offset - len(block)
    return num_lines


def part_path(folder: Path, key: str, shard: Shard) -> Path:
    """Return where `map_shards` puts the part of a shard."""
    return folder / key / f"{shard.index:05d}"


def map_shards(
    work: Callable[[Shard, Path], Result],
    shards: Sequence[Shard],
    result_type: type[Result],
    *,
    folder: Path,
    key: str,
    num_processes: int,
    what: str,
) -> list[Result]:
    """Call `work(shard, part_folder)` for every shard that has no part yet; return all results, in order of shards.

    `work` writes files into the empty folder that it is given, which then becomes `folder/key/00007`. It is pickled:
    processes are spawned, as a fork beside other libraries' threads can hang (with one process, or one shard to do, it
    runs here). `key` is a digest of all that the parts depend on; parts of other keys in `folder` are removed. `what`
    names the work on the progress line.

    Raises:
        CorpusError: if a process was killed.
        Exception: whatever `work` raises, as itself; the other processes are ended, whole parts stay.
    """
    _remove_all_but_whole_parts(folder, key, shards)
    result_by_index = {}
    for shard in shards:
        with contextlib.suppress(FileNotFoundError, msgspec.MsgspecError):
            result_by_index[shard.index] = _stored_result(part_path(folder, key, shard), shard, result_type)
    missing = [shard for shard in shards if shard.index not in result_by_index]
    progress = TaskProgress(what, sum(shard.num_lines for shard in shards), "lines", len(shards))
    progress.begin(sum(shard.num_lines for shard in shards if shard.index in result_by_index), len(result_by_index))
    run_tasks(
        functools.partial(_make_part, work, folder, key),
        missing,
        num_processes=num_processes,
        what=what,
        after_each=lambda shard: progress.add(shard.num_lines),
    )
    progress.finish()
    for shard in missing:
        result_by_index[shard.index] = _stored_result(part_path(folder, key, shard), shard, result_type)
    return [result_by_index[shard.index] for shard in shards]


def _remove_all_but_whole_parts(folder: Path, key: str, shards: Sequence[Shard]) -> None:
    (folder / key).mkdir(parents=True, exist_ok=True)
    whole = {part_path(folder, key, shard).name for shard in shards}
    leftover = [path for path in folder.iterdir() if path.name != key]
    leftover += [path for path in (folder / key).iterdir() if path.name not in whole]
    for path in leftover:
        shutil.rmtree(path) if path.is_dir() else path.unlink()


def _stored_result(part: Path, shard: Shard, result_type: type[Result]) -> Result:
    stored = msgspec.json.decode((part / _RESULT_NAME).read_bytes(), type=_StoredPart)
    if stored.shard != shard:
        raise msgspec.ValidationError(f"{part}: of another shard")
    return msgspec.convert(stored.result, result_type)


def _make_part(work: Callable[[Shard, Path], Result], folder: Path, key: str, shard: Shard) -> None:
    part = part_path(folder, key, shard)
    partial = part.with_name(f".{part.name}.partial")
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir()
    result = work(shard, partial)
    (partial / _RESULT_NAME).write_bytes(msgspec.json.encode(_StoredPart(shard=shard, result=result)))
    for path in partial.iterdir():  # the bytes are on the disk before the name is: a restart trusts the name
        with path.open("rb") as written:
            os.fsync(written.fileno())
    if part.exists():  # of another shard, or of a result that cannot be read
        shutil.rmtree(part)
    partial.rename(part)
