"""Reads a folder of logs on several processes and caches the result: a second reading reads changed files only.

The cache is one file for a log folder, written whole or not at all, below a folder of the user's choice
($XDG_CACHE_HOME/aiayn/logs unless another is named). The key of an entry is the BLAKE2
digest of a file's unpacked bytes, computed at each reading: a file with other bytes is read again, even if name, size
and time are the same; a copied or moved file is not. Entries of another version of the reader are not used. A cache
that cannot be read counts as absent; one that cannot be written is reported.
"""

import hashlib
import logging
import multiprocessing
import os
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from functools import cache
from pathlib import Path

import msgspec

from aiayn.errors import RecordError
from aiayn.packed import UNPACK_ERRORS, open_unpacked
from aiayn.provenance import replace_on_success
from analysis.logs.listing import list_logs
from analysis.logs.reader import read_log
from analysis.logs.types import LogFile

logger = logging.getLogger(__name__)
READER_MODULES = ("arguments", "lines", "reader", "statistics", "training", "types")
MIN_BYTES_PER_PROCESS = 8_000_000  # starting a process costs about as much as reading this
SHARES_PER_PROCESS = 8  # so that no process is left with the largest files
CachedFolder = tuple[str, dict[str, LogFile]]  # the version of the reader; what was read, by the digest of the bytes


def default_cache_folder() -> Path:
    """Return the user's cache folder by the XDG rules."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "aiayn" / "logs"


@cache
def reader_version() -> str:
    """Return a digest of the reader's own code, so that any change of it makes older entries invalid."""
    digest = hashlib.blake2b(digest_size=8)
    for name in READER_MODULES:
        digest.update((Path(__file__).parent / f"{name}.py").read_bytes())
    return digest.hexdigest()


def read_folder(
    folder: Path,
    cache_folder: Path | None,
    *,
    paths: Sequence[str] | None = None,
) -> dict[str, LogFile]:
    """Return what each log below a folder holds, by its path there; without `cache_folder` everything is read.

    `paths` are those of `list_logs`, where they are known. A file that cannot be read has a refusal.

    Raises:
        RecordError: if there is no such folder.
    """
    paths = list_logs(folder) if paths is None else paths
    if cache_folder is None:
        return {path: log_file for path, (log_file, _) in _read(folder, paths).items()}
    cache_path = cache_folder / f"{hashlib.blake2b(str(folder.resolve()).encode(), digest_size=8).hexdigest()}.msgpack"
    known = _load(cache_path)
    digests: dict[str, str] = {}
    if known:
        with ThreadPoolExecutor(num_cpus()) as threads:
            digests = dict(zip(paths, threads.map(_digest, [folder / path for path in paths]), strict=True))
    read = _read(folder, [path for path in paths if digests.get(path) not in known])
    found = {path: (known[digest], digest) for path, digest in digests.items() if path not in read} | read
    kept = {digest: log_file for log_file, digest in found.values() if digest}
    if kept.keys() != known.keys():
        _store(cache_path, kept)
    return {path: found[path][0] for path in paths}


def num_cpus() -> int:
    """Return how many CPUs this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _digest(path: Path) -> str:
    """Return the digest of a file's unpacked bytes; '' if they cannot all be read, which the reader reports."""
    try:
        with open_unpacked(path) as content:
            digest = hashlib.file_digest(content, lambda: hashlib.blake2b(digest_size=16))  # type: ignore[arg-type]
            return digest.hexdigest()
    except (*UNPACK_ERRORS, OSError):
        return ""


def _read(folder: Path, paths: Sequence[str]) -> dict[str, tuple[LogFile, str]]:
    """Return the content of files and the digests of their bytes; on several processes if the files are large.

    Raises:
        RecordError: if a process dies.
    """
    size_by_path = {path: _num_bytes(folder / path) for path in paths}
    num_processes = min(num_cpus(), sum(size_by_path.values()) // MIN_BYTES_PER_PROCESS, len(paths))
    if num_processes <= 1:
        return {path: read_log(folder / path) for path in paths}
    in_turn = sorted(paths, key=lambda path: -size_by_path[path])
    share = max(1, len(paths) // (SHARES_PER_PROCESS * num_processes))
    context = multiprocessing.get_context("spawn")  # a fork copies threads' locks in their present state
    try:
        with ProcessPoolExecutor(num_processes, context) as processes:
            read = processes.map(read_log, [(folder / path).resolve() for path in in_turn], chunksize=share)
            return dict(zip(in_turn, read, strict=True))
    except BrokenProcessPool as error:
        raise RecordError(f"{folder}: a process that reads logs died; see its message above, run again") from error


def _num_bytes(path: Path) -> int:
    """Return a file's size; 0 if it cannot be had, which the reader reports."""
    try:
        return path.stat().st_size
    except OSError:
        return 0


def _load(path: Path) -> dict[str, LogFile]:
    try:
        stored = path.read_bytes()
        content, checksum = stored[:-16], stored[-16:]
        if hashlib.blake2b(content, digest_size=16).digest() != checksum:
            return {}
        version, file_by_digest = msgspec.msgpack.decode(content, type=CachedFolder)
    except (OSError, msgspec.DecodeError, msgspec.ValidationError):
        return {}
    return file_by_digest if version == reader_version() else {}


def _store(path: Path, file_by_digest: dict[str, LogFile]) -> None:
    content = msgspec.msgpack.encode((reader_version(), file_by_digest))
    try:
        with replace_on_success(path) as partial_path:
            partial_path.write_bytes(content + hashlib.blake2b(content, digest_size=16).digest())
    except OSError as error:
        logger.warning(f"{path}: the cache of logs cannot be written ({error.strerror}); all is read again next time")
