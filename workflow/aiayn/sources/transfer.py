"""Receive one URL's bytes into a file: continued where it broke off, tried again after growing waits, never trusted.

What arrives is only bytes: `aiayn.sources.download` decides by their checksum whether they are the published file.
"""

import logging
import random
import re
import threading
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import requests
import urllib3

from aiayn.errors import AiaynError, FetchError

_LOG = logging.getLogger(__name__)
CONNECT_TIMEOUT_SECONDS = 30.0
READ_TIMEOUT_SECONDS = 60.0  # between two blocks, not for the whole file
PASSING_STATUSES = frozenset({408, 425, 429, 500, 502, 503, 504})  # statmt.org answers 503 when it is busy
MAX_UNSTATED_BYTES = 16 << 30  # where neither recipe nor server says how long a file is; WMT14's longest has 2.6 GB
_BLOCK_BYTES = 1 << 20
_CONTENT_RANGE = re.compile(r"bytes (?P<start>\d+)-\d+/(?P<total>\d+|\*)")


@dataclass(frozen=True)
class Patience:
    """How often a place is asked that gives nothing new, and how long is waited before it is asked again.

    Waits double from `first_wait_seconds` up to `max_wait_seconds`, each shortened by a random share of up to a half
    (many clients must not come back at once); what a server asks for itself (Retry-After) is kept up to the maximum.
    """

    max_attempts: int = 5
    first_wait_seconds: float = 1.0
    max_wait_seconds: float = 120.0
    sleep: Callable[[float], object] | None = None  # None: one that an interruption ends
    rng: random.Random = field(default_factory=random.Random)

    def wait_seconds(self, num_failures: int, asked_seconds: float | None = None) -> float:
        """Return how long to wait after so many failures in a row."""
        wait = self.first_wait_seconds * 2.0 ** (num_failures - 1) * self.rng.uniform(0.5, 1.0)
        return min(self.max_wait_seconds, max(wait, asked_seconds or 0.0))


class PlaceError(FetchError):
    """One place does not give the file; another one may."""


class StoppedError(AiaynError):
    """The download was told to stop; what is there is kept."""


class _PassingError(Exception):
    """What may pass when it is tried again, with the wait that the server asks for."""

    def __init__(self, reason: str, asked_seconds: float | None = None) -> None:
        super().__init__(reason)
        self.asked_seconds = asked_seconds


Report = Callable[[int], None]  # told the number of bytes that are there


def local_path(url: str) -> Path | None:
    """Return the path that a `file://` URL names, None for another URL."""
    parts = urllib.parse.urlsplit(url)
    return Path(urllib.request.url2pathname(parts.path)) if parts.scheme == "file" else None


def num_bytes_of(path: Path) -> int:
    """Return a file's size, 0 if there is none."""
    return path.stat().st_size if path.exists() else 0


def receive(
    url: str,
    partial_path: Path,
    *,
    num_bytes: int | None,
    may_continue: bool,
    patience: Patience,
    report: Report,
    stop: threading.Event,
) -> None:
    """Write what an http(s) URL gives into a file, after what is there already if `may_continue`.

    `num_bytes` is the published size. An attempt that brought new bytes does not count against `patience`, so that a
    server that drops every connection is still read to the end.

    Raises:
        PlaceError: if this place refuses, does not answer, or offers another size.
        StoppedError: if `stop` is set.
    """
    if not may_continue:
        partial_path.unlink(missing_ok=True)
    num_failures, most_bytes = 0, num_bytes_of(partial_path)
    while True:
        try:
            _receive_once(url, partial_path, num_bytes, report, stop)
            return
        except (requests.RequestException, urllib3.exceptions.HTTPError, _PassingError) as error:
            reached = num_bytes_of(partial_path)
            num_failures = 1 if reached > most_bytes else num_failures + 1
            most_bytes = max(most_bytes, reached)
            if num_failures >= patience.max_attempts:
                raise PlaceError(f"{url}: {error} (attempt {num_failures})") from error
            asked_seconds = error.asked_seconds if isinstance(error, _PassingError) else None
            wait_seconds = patience.wait_seconds(num_failures, asked_seconds)
            _LOG.warning("%s: %s; %d bytes are there; trying again in %.1f s", url, error, reached, wait_seconds)
            (patience.sleep or stop.wait)(wait_seconds)
            if stop.is_set():
                raise StoppedError("stopped; what was received is kept") from error
            if not may_continue:
                partial_path.unlink(missing_ok=True)


def _receive_once(url: str, partial_path: Path, num_bytes: int | None, report: Report, stop: threading.Event) -> None:
    """Ask once, from the first byte that is missing; for none, do not ask."""
    start = num_bytes_of(partial_path)
    if start and start == num_bytes:
        return
    if start:
        _LOG.info("%s: continuing after %d bytes", url, start)
    headers = {"Accept-Encoding": "identity", "User-Agent": "aiayn"} | ({"Range": f"bytes={start}-"} if start else {})
    timeouts = (CONNECT_TIMEOUT_SECONDS, READ_TIMEOUT_SECONDS)
    with requests.get(url, stream=True, timeout=timeouts, headers=headers) as response:
        _check_status(url, response, partial_path)
        start, total_bytes = _agreed_range(url, response, start)
        if None not in (num_bytes, total_bytes) and num_bytes != total_bytes:
            raise PlaceError(f"{url}: offers {total_bytes} bytes, the published file has {num_bytes}")
        expected_bytes = total_bytes if total_bytes is not None else num_bytes
        with partial_path.open("r+b" if start else "wb") as partial:
            position = partial.seek(start)
            for block in _blocks(response, stop):
                position += len(block)
                if position > (MAX_UNSTATED_BYTES if expected_bytes is None else expected_bytes):
                    raise PlaceError(f"{url}: sends more than {expected_bytes or MAX_UNSTATED_BYTES} bytes")
                partial.write(block)
                report(position)
    if expected_bytes is not None and position < expected_bytes:
        raise _PassingError(f"the answer ended after {position} of {expected_bytes} bytes")


def _check_status(url: str, response: requests.Response, partial_path: Path) -> None:
    status = f"{response.status_code} {response.reason}"
    if response.status_code in PASSING_STATUSES:
        after = response.headers.get("Retry-After")
        try:
            asked_seconds = None if after is None else urllib3.Retry().parse_retry_after(after)
        except urllib3.exceptions.InvalidHeader:
            asked_seconds = None
        raise _PassingError(status, asked_seconds)
    if response.status_code == 416:  # it has no bytes there: what we hold is too long, or of another file
        partial_path.unlink(missing_ok=True)
        raise _PassingError(f"{status}; starting over")
    if response.status_code not in (200, 206):
        raise PlaceError(f"{url}: {status}")


def _agreed_range(url: str, response: requests.Response, start: int) -> tuple[int, int | None]:
    """Return where the answer's bytes begin, and how many the whole file has, where the server says so."""
    if response.status_code == 200:
        if start:
            _LOG.warning("%s: the server ignores where to continue; starting over", url)
        length = response.headers.get("Content-Length", "")
        return 0, int(length) if length.isdecimal() else None
    found = _CONTENT_RANGE.fullmatch(response.headers.get("Content-Range", ""))
    if found is None or int(found["start"]) != start:
        raise PlaceError(f"{url}: asked for bytes from {start}, answered {response.headers.get('Content-Range')!r}")
    return start, int(found["total"]) if found["total"] != "*" else None


def _blocks(response: requests.Response, stop: threading.Event) -> Iterator[bytes]:
    """Yield the answer's bytes as they are sent, whatever Content-Encoding says, and as soon as they are there.

    `iter_content` would unpack a .tgz that a server labels as gzip-encoded, and drops what it has gathered of a block
    when the connection breaks.
    """
    while block := response.raw.read1(_BLOCK_BYTES, decode_content=False):
        if stop.is_set():
            raise StoppedError("stopped; what was received is kept")
        yield block
