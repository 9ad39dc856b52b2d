"""Get published files into a folder: from one place after the other, several at once, each verified by its checksum.

A file has its name only once it is verified. Until then it lies there as `.<name>.<key>.partial`, from which this or a
later start continues; `key` is of the checksum, so bytes of two editions are never joined. A file without a published
checksum is never continued, as nothing would tell. What fails is set aside as `<name>.wrong`.
"""

import concurrent.futures
import contextlib
import fcntl
import hashlib
import logging
import os
import threading
import urllib.parse
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from aiayn.errors import ConfigError, FetchError
from aiayn.sources.recipe import UNKNOWN, split_checksum
from aiayn.sources.transfer import Patience, PlaceError, StoppedError, local_path, num_bytes_of, receive
from aiayn.sources.transfer_progress import TransferProgress

_LOG = logging.getLogger(__name__)
MIRROR_VARIABLE = "AIAYN_MIRROR"
MAX_FILES_AT_ONCE = 4
MAX_FILES_AT_ONCE_OF_A_HOST = 2  # statmt.org "gets overloaded very easily" (sacrebleu, issue 242)
_BLOCK_BYTES = 1 << 20


@dataclass(frozen=True)
class PublishedFile:
    """A file and where it is to be had, in order; the mirrors of all editions are asked before any public place.

    `num_bytes` is None and `checksum` is `unknown` where nobody published one. `edition` is the caller's word for it.
    """

    name: str
    urls: Sequence[str]
    mirror_urls: Sequence[str] = ()
    num_bytes: int | None = None
    checksum: str = UNKNOWN
    edition: str = ""


@dataclass(frozen=True)
class FoundFile:
    """A verified file; `url` is where it is from, '' if it was there; `checked_by` is an algorithm, or `unknown`."""

    path: Path
    url: str
    num_bytes: int
    sha256: str
    checked_by: str
    edition: str


class WrongFileError(FetchError):
    """A file is not the published one."""


@dataclass
class Download:
    """What the downloads of one fetch share: patience, progress, a way to stop, and how many ask a host at once."""

    patience: Patience = field(default_factory=Patience)
    progress: TransferProgress = field(default_factory=TransferProgress)
    stop: threading.Event = field(default_factory=threading.Event)
    turn_by_host: dict[str, threading.Semaphore] = field(
        default_factory=lambda: defaultdict(lambda: threading.Semaphore(MAX_FILES_AT_ONCE_OF_A_HOST))
    )


def named_mirror(mirror: str | None) -> str | None:
    """Return the mirror that is asked for, else the environment's, else None; '' is None.

    Raises:
        ConfigError: if it is not a `file://`, `http://` or `https://` URL.
    """
    mirror = mirror or os.environ.get(MIRROR_VARIABLE) or None
    if mirror is not None and urllib.parse.urlsplit(mirror).scheme not in ("file", "http", "https"):
        raise ConfigError(
            f"mirror {mirror!r}: expected file://, http:// or https://; for a local folder write "
            f"{Path(mirror).absolute().as_uri()}"
        )
    return mirror


def download_all(
    editions_by_name: Mapping[str, Sequence[PublishedFile]], folder: Path, shared: Download
) -> dict[str, FoundFile]:
    """Return one verified file of each name, downloading into `folder` what is not there, several at once.

    A download that fails stops no other: what they bring is kept for the next start.

    Raises:
        FetchError: naming every file that cannot be had, and every place that was asked.
    """
    with concurrent.futures.ThreadPoolExecutor(MAX_FILES_AT_ONCE) as pool:
        future_by_name = {
            name: pool.submit(download_file, editions, folder, shared) for name, editions in editions_by_name.items()
        }
        try:
            concurrent.futures.wait(future_by_name.values())
        except BaseException:  # Ctrl-C reaches this thread alone
            shared.stop.set()
            pool.shutdown(cancel_futures=True)
            raise
    shared.progress.finish()
    failures = [error for future in future_by_name.values() if (error := future.exception()) is not None]
    others = [error for error in failures if not isinstance(error, FetchError)]
    if others:
        raise others[0]
    if failures:
        raise FetchError("\n".join(str(error) for error in failures))
    return {name: future.result() for name, future in future_by_name.items()}


def download_file(editions: Sequence[PublishedFile], folder: Path, shared: Download) -> FoundFile:
    """Return one of several editions of a file: one that lies in `folder`, else the first that a place gives whole.

    Raises:
        FetchError: naming every place, what it gave and what to do.
    """
    reasons: list[str] = []
    for edition in editions:
        with contextlib.suppress(FileNotFoundError):
            try:
                return verify_file(folder / edition.name, edition)
            except WrongFileError as error:
                reasons.append(_set_aside(folder / edition.name, error))
    places = [(edition, url) for edition in editions for url in edition.mirror_urls]
    places += [(edition, url) for edition in editions for url in edition.urls]
    for edition, url in places:
        try:
            return _from_place(edition, url, folder, shared)
        except (PlaceError, WrongFileError) as error:
            reasons.append(str(error))
            _LOG.warning("%s%s", error, "; asking the next place" if url != places[-1][1] else "")
    if len(reasons) == 1:
        raise FetchError(f"{reasons[0]}; {_next_step()}")
    listed = "".join(f"\n  {reason}" for reason in reasons)
    raise FetchError(f"{editions[0].name}: no place gives the published file:{listed}\n{_next_step()}")


def missing_bytes(editions: Sequence[PublishedFile], folder: Path) -> int:
    """Return how many bytes a download would add to `folder`, by the first edition's published size, 0 if unknown."""
    if any((folder / edition.name).exists() for edition in editions):
        return 0
    first = editions[0]
    if any((path := local_path(url)) is not None and path.exists() for url in first.mirror_urls):
        return 0  # read where it lies
    return max(0, (first.num_bytes or 0) - num_bytes_of(_partial_path(first, folder)))


def verify_file(path: Path, published: PublishedFile, url: str = "") -> FoundFile:
    """Compare a file with what was published of it, size first; where that is no SHA-256, say so and what is seen.

    Raises:
        WrongFileError: naming the file, or its URL, with what was found and what was expected.
        FileNotFoundError: if there is no file.
    """
    place, num_bytes = url or path, path.stat().st_size
    if published.num_bytes not in (None, num_bytes):
        raise WrongFileError(f"{place}: {num_bytes} bytes, expected {published.num_bytes}: not the published file")
    algorithm, expected = split_checksum(published.checksum)
    digest_by_algorithm = _file_digests(path, {"sha256"} | ({algorithm} if expected else set()))
    sha256 = digest_by_algorithm["sha256"]
    if expected and digest_by_algorithm[algorithm] != expected:
        raise WrongFileError(
            f"{place}: {algorithm} {digest_by_algorithm[algorithm]}, expected {expected}: not the published file, or "
            "torn on its way"
        )
    if algorithm != "sha256":
        checked = f"checked by {algorithm} alone" if expected else "NOT checked, for nobody published a sum of it"
        _LOG.warning("%s: %s; seen: %d bytes, sha256 %s", place, checked, num_bytes, sha256)
    return FoundFile(path, url, num_bytes, sha256, algorithm, published.edition)


def _from_place(published: PublishedFile, url: str, folder: Path, shared: Download) -> FoundFile:
    """Return the verified file of one place; that of a `file://` URL stays where it is."""
    path = local_path(url)
    if path is not None:
        try:
            return verify_file(path, published, url)
        except (FileNotFoundError, IsADirectoryError) as error:
            raise PlaceError(f"{url}: no such file") from error
    folder.mkdir(parents=True, exist_ok=True)
    with _locked(folder / f".{published.name}.lock", published.name):
        with contextlib.suppress(FileNotFoundError, WrongFileError):  # another process may have brought it
            return verify_file(folder / published.name, published)
        partial_path = _partial_path(published, folder)
        was_begun = num_bytes_of(partial_path) > 0
        with shared.turn_by_host[urllib.parse.urlsplit(url).netloc]:
            try:
                return _receive_and_verify(published, url, folder, shared)
            except WrongFileError as error:
                if not was_begun:
                    raise
                _LOG.warning("%s; it was put together from two downloads: receiving it once more as a whole", error)
                return _receive_and_verify(published, url, folder, shared)


def _receive_and_verify(published: PublishedFile, url: str, folder: Path, shared: Download) -> FoundFile:
    partial_path = _partial_path(published, folder)
    shared.progress.begin(published.name, num_bytes_of(partial_path), published.num_bytes)
    receive(
        url,
        partial_path,
        num_bytes=published.num_bytes,
        may_continue=published.checksum != UNKNOWN,
        patience=shared.patience,
        report=lambda num_bytes: shared.progress.report(published.name, num_bytes),
        stop=shared.stop,
    )
    try:
        found = verify_file(partial_path, published, url)
    except WrongFileError as error:
        raise WrongFileError(_set_aside(partial_path, error, folder / published.name)) from error
    with partial_path.open("rb") as received:
        os.fsync(received.fileno())
    path = partial_path.replace(folder / published.name)
    _LOG.info("%s: %d bytes, sha256 %s", url, found.num_bytes, found.sha256)
    return FoundFile(path, url, found.num_bytes, found.sha256, found.checked_by, found.edition)


def _set_aside(path: Path, error: WrongFileError, named: Path | None = None) -> str:
    """Rename a wrong file, so that it is neither taken for the right one nor in its way, and return what to say."""
    aside_path = (named or path).with_name(f"{(named or path).name}.wrong")
    try:
        path.replace(aside_path)
    except OSError as reason:
        return f"{error}; it cannot be set aside ({reason.strerror}): remove it"
    _LOG.warning("%s; set aside as %s", error, aside_path)
    return f"{error}; set aside as {aside_path}"


def _partial_path(published: PublishedFile, folder: Path) -> Path:
    key = hashlib.sha256(published.checksum.encode()).hexdigest()[:8]
    return folder / f".{published.name}.{key}.partial"


def _file_digests(path: Path, algorithms: set[str]) -> dict[str, str]:
    """Return a file's digests by algorithm, read once."""
    digest_by_algorithm = {algorithm: hashlib.new(algorithm, usedforsecurity=False) for algorithm in algorithms}
    with path.open("rb") as content:
        while block := content.read(_BLOCK_BYTES):
            for digest in digest_by_algorithm.values():
                digest.update(block)
    return {algorithm: digest.hexdigest() for algorithm, digest in digest_by_algorithm.items()}


@contextlib.contextmanager
def _locked(path: Path, name: str) -> Iterator[None]:
    """Let one process at a time download a file: two corpora share archives, and are fetched at once."""
    with path.open("wb") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            _LOG.info("%s: being downloaded by another process; waiting for it", name)
            fcntl.flock(lock, fcntl.LOCK_EX)
        except OSError as error:  # a file system without locks
            _LOG.warning("%s: cannot be locked (%s): let no other process download it", name, error.strerror)
        yield


def _next_step() -> str:
    mirror = os.environ.get(MIRROR_VARIABLE)
    now = f" (now {mirror})" if mirror else ""
    return (
        f"try later, or name a copy with --mirror or {MIRROR_VARIABLE}{now}, laid out as <base>/<mirror_folder>/<path>"
        ", or put an archive into --archives-folder"
    )


__all__ = [
    "MIRROR_VARIABLE", "Download", "FoundFile", "PublishedFile", "StoppedError", "WrongFileError", "download_all",
    "download_file", "missing_bytes", "named_mirror", "verify_file",
]  # fmt: skip
