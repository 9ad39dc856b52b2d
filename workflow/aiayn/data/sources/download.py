"""Downloads published files into a folder and verifies each by its checksum.

The URLs of a file are tried in turn. A download is written to a partial file,
`.<name>.<key>.partial`, and a later start continues the partial file. A downloaded file gets its
final name only after its checksum was verified. The name of a partial file contains a `key` made
from the published checksum, so the bytes of two versions of a file are never joined. A file with a
wrong checksum is renamed to `<name>.wrong`.
"""

import contextlib
import fcntl
import functools
import hashlib
import logging
import os
import random
import time
import urllib.parse
import urllib.request
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec
import requests
import urllib3

from aiayn.errors import ConfigError, FetchError, require_no_password
from aiayn.progress import progress_bar
from aiayn.provenance import file_sha256

_LOG = logging.getLogger(__name__)
MIRROR_VARIABLE = "AIAYN_MIRROR"
# The limit for a file of unknown size, in bytes. The largest file of WMT14 has 2.6e9.
MAX_BYTES = 8_000_000_000
# A server that sends less than 1 kB a second over a whole minute counts as dead. The next start
# continues the download.
MIN_BYTES_PER_SECOND = 1000
SPEED_SECONDS = 60.0
MAX_ATTEMPTS = 5  # in a row, at one address, without new bytes
MAX_WAIT_SECONDS = 120.0
CONNECT_TIMEOUT_SECONDS = 30.0
READ_TIMEOUT_SECONDS = 60.0  # between two blocks, not for the whole file
# Temporary errors. statmt.org answers 503 when it is busy.
PASSING_STATUSES = frozenset({408, 425, 429, 500, 502, 503, 504})
_BLOCK_BYTES = 1 << 20
# A further attempt would fail in the same way. An example is a redirect to `file://`.
_LASTING_ERRORS = (
    requests.exceptions.InvalidSchema,
    requests.exceptions.InvalidURL,
    requests.exceptions.MissingSchema,
    requests.exceptions.TooManyRedirects,
)


class PublishedFile(msgspec.Struct, frozen=True):
    """A published file at a URL. If the URL is '', the file is not downloaded, but only looked for
    in a local folder.

    The size of the file (`num_bytes`) is None if no size is published. The `checksum` of the file
    is '' if no checksum is published.
    """

    name: str
    url: str
    checksum: str
    num_bytes: int | None = None


class FoundFile(msgspec.Struct, frozen=True):
    """A verified file.

    The address that the file was downloaded from (`url`) is '' if the file was already on the disk.
    The field `checked_by` is the algorithm (such as sha256) of the published checksum, or `size` if
    no checksum is published.
    """

    path: Path
    url: str
    num_bytes: int
    sha256: str
    checked_by: str


class WrongFileError(FetchError):
    """The error for a file that differs from the published file in size or checksum."""


def named_mirror(mirror: str | None) -> str | None:
    """Return the URL of the mirror: the argument, or else the environment variable AIAYN_MIRROR, or
    else None. '' counts as None.

    Only the environment variable AIAYN_MIRROR may contain a user name and a password. The returned
    URL does not contain user name and password, so they appear in no log and no record.
    `_mirror_credentials` reads user name and password from the environment variable again.

    Raises:
        ConfigError: if the mirror is not a folder or a `file://`, `http://` or `https://` URL, or
            if the argument contains a password.
    """
    if mirror:
        require_no_password(mirror, "mirror")
    mirror = mirror or os.environ.get(MIRROR_VARIABLE) or None
    try:
        if mirror is None or urllib.parse.urlsplit(mirror).scheme in ("file", "http", "https"):
            return mirror and _without_credentials(mirror)
    except ValueError as error:  # the message does not repeat the URL, which may have a password
        raise ConfigError(f"mirror: {error}; correct its address") from error
    # A plain folder is also accepted, such as a copy on a shared disk.
    folder = Path(mirror).expanduser()
    if not folder.is_dir():
        raise ConfigError(
            f"mirror {mirror!r}: no such folder; expected a folder, file://, http:// or https://"
        )
    return folder.absolute().as_uri()


def _without_credentials(url: str) -> str:
    """Return a URL without user name and password."""
    parts = urllib.parse.urlsplit(url)
    return parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()


def _mirror_credentials(url: str) -> tuple[str, str] | None:
    """Return user name and password for a URL on the mirror, if the environment variable
    AIAYN_MIRROR contains them.

    For URLs on other servers, the Python library `requests` reads passwords from ~/.netrc.
    """
    mirror = os.environ.get(MIRROR_VARIABLE, "")
    parts = urllib.parse.urlsplit(mirror)
    base = _without_credentials(mirror).rstrip("/")
    # Credentials are sent to the mirror only, never to a public address. The `/` keeps
    # https://host.example from matching https://host.
    if parts.username is None or not url.startswith(f"{base}/"):
        return None
    return urllib.parse.unquote(parts.username), urllib.parse.unquote(parts.password or "")


def download_file(files: Sequence[PublishedFile], folder: Path) -> FoundFile:
    """Return the first of several equivalent files that can be obtained, from the local `folder` or
    by download.

    A file that is already in `folder` is preferred to a download. If a URL does not deliver new
    bytes, the request is repeated with exponential backoff: the waits double, and jitter shortens
    each wait by up to a half. If a server sends the header Retry-After, the wait before the next
    request is at least that long, up to `MAX_WAIT_SECONDS`.

    Raises:
        FetchError: if no URL delivers the file. The message contains every URL, the answer of its
            server, and the next step.
    """
    reasons: list[str] = []
    # Files that are already in the folder come first, because they need no network.
    for file in files:
        with contextlib.suppress(FileNotFoundError):
            try:
                return verify_file(folder / file.name, file)
            except WrongFileError as error:
                reasons.append(_set_aside(folder / file.name, error))
    for file in files:
        try:
            if file.url:
                return _download_from(file, folder)
        except FetchError as error:
            reasons.append(str(error))
            next_step = "; trying the next address" if file is not files[-1] else ""
            _LOG.warning("%s%s", error, next_step)
    # The message shows the mirror that was used, because a wrong mirror is the likeliest mistake.
    mirror = os.environ.get(MIRROR_VARIABLE)
    now = f" (now {_without_credentials(mirror)})" if mirror else ""
    next_step = (
        f"try later, or set {MIRROR_VARIABLE}{now} to a copy, laid out as"
        " <base>/<mirror_folder>/<path>; `aiayn fetch` also takes archives from the folder in"
        " AIAYN_ARCHIVES"
    )
    if len(reasons) == 1:
        raise FetchError(f"{reasons[0]}; {next_step}")
    listed = "".join(f"\n  {reason}" for reason in reasons)
    raise FetchError(f"{files[0].name}: no address gives the published file:{listed}\n{next_step}")


def verify_file(path: Path, published: PublishedFile, url: str = "") -> FoundFile:
    """Compare a file's size and checksum with the published values.

    If no SHA-256 is published for the file, log a warning with the SHA-256 of the file.

    Raises:
        WrongFileError: if the size or checksum of the file is not the published value. The message
            contains the file or its URL, the actual value and the expected value.
        FileNotFoundError: if the file does not exist.
    """
    # A partial file has a hidden name, so messages about a download contain its URL.
    source = url or path
    num_bytes = path.stat().st_size
    if published.num_bytes not in (None, num_bytes):
        raise WrongFileError(
            f"{source}: {num_bytes} bytes, expected {published.num_bytes}: not the published file"
        )
    # An empty checksum means that nobody published one. Then only the size was compared.
    algorithm, _, expected = published.checksum.partition(":")
    digest = sha256 = file_sha256(path)
    if not algorithm:
        return FoundFile(path, url, num_bytes, sha256, "size")
    if algorithm != "sha256":
        with path.open("rb") as content:
            # A system in FIPS mode refuses MD5 unless it does not serve security.
            weak = functools.partial(hashlib.new, algorithm, usedforsecurity=False)
            digest = hashlib.file_digest(content, weak).hexdigest()
    if digest != expected:
        raise WrongFileError(
            f"{source}: {algorithm} {digest}, expected {expected}: not the published file, or"
            " damaged in transfer"
        )
    if algorithm != "sha256":
        checked = f"checked by {algorithm} only"
        _LOG.warning("%s: %s; %d bytes, sha256 %s", source, checked, num_bytes, sha256)
    return FoundFile(path, url, num_bytes, sha256, algorithm)


def _download_from(published: PublishedFile, folder: Path) -> FoundFile:
    """Download and verify the file of a URL. A local file (`file://` URL) is verified in place, and
    not copied.
    """
    path = local_path(published.url)
    # A mirror on a local disk needs no copy and no lock.
    if path is not None:
        try:
            return verify_file(path, published, published.url)
        except (FileNotFoundError, IsADirectoryError) as error:
            raise FetchError(f"{published.url}: no such file") from error
    folder.mkdir(parents=True, exist_ok=True)
    with _locked(folder / f".{published.name}.lock", published.name):
        with contextlib.suppress(FileNotFoundError, WrongFileError):
            return verify_file(folder / published.name, published)  # by another process meanwhile
        # From here on, this process holds the lock, and the file is absent or wrong.
        partial_path = _partial_path(published, folder)
        url = published.url
        _receive(url, partial_path, published.num_bytes)
        try:
            file = verify_file(partial_path, published, url)
        except WrongFileError as error:
            message = _set_aside(partial_path, error, folder / published.name)
            raise WrongFileError(message) from error
        # The bytes must be on the disk before the file gets its name. Then, after a power cut, a
        # file with this name is complete.
        with partial_path.open("rb") as received:
            os.fsync(received.fileno())
        _LOG.info("%s: %d bytes, sha256 %s", url, file.num_bytes, file.sha256)
        return msgspec.structs.replace(file, path=partial_path.replace(folder / published.name))


def _receive(url: str, partial_path: Path, num_bytes: int | None) -> None:
    """Append the missing bytes of an http(s) URL to a partial file, in several attempts if needed.

    An attempt that received new bytes does not count as a failure. A file is therefore completed
    even if the server drops every connection.
    """
    num_failures = 0
    # The highest number of bytes so far shows whether an attempt made progress. A server that
    # starts over may deliver fewer bytes than the last attempt.
    most_bytes = _num_bytes_of(partial_path)
    while True:
        try:
            _receive_once(url, partial_path, num_bytes)
            return
        except _LASTING_ERRORS as error:
            raise FetchError(f"{url}: {error}") from error
        except (requests.RequestException, urllib3.exceptions.HTTPError) as error:
            reached = _num_bytes_of(partial_path)
            if "NameResolutionError" in str(error) and not reached:  # no later attempt will do
                host = urllib.parse.urlsplit(url).hostname
                raise FetchError(f"{url}: no network: {host} is not found") from error
            # This failure is the first after new bytes, or one more without them.
            num_failures = 1 if reached > most_bytes else num_failures + 1
            most_bytes = max(most_bytes, reached)
            if num_failures >= MAX_ATTEMPTS:
                raise FetchError(f"{url}: {error} (attempt {num_failures})") from error
            # Waits of 1, 2, 4 and 8 s before jitter. Jitter keeps parallel downloads from asking in
            # step.
            wait_seconds = 2.0 ** (num_failures - 1) * random.uniform(0.5, 1.0)
            wait_seconds = min(MAX_WAIT_SECONDS, max(wait_seconds, _retry_after_seconds(error)))
            state = f"{reached} bytes are there; trying again in {wait_seconds:.1f} s"
            _LOG.warning("%s: %s; %s", url, error, state)
            time.sleep(wait_seconds)


def _retry_after_seconds(error: Exception) -> float:
    """Return how many seconds the server asks its clients to wait (its header Retry-After), 0
    without that header.
    """
    # Only errors with an HTTP status have a response. A broken connection has none.
    response = getattr(error, "response", None)
    after = None if response is None else response.headers.get("Retry-After")
    try:
        return 0.0 if after is None else urllib3.Retry().parse_retry_after(after)
    except urllib3.exceptions.InvalidHeader:
        return 0.0


def _receive_once(url: str, partial_path: Path, num_bytes: int | None) -> None:
    """Request a file once, from the first missing byte on. If the partial file is already complete,
    do not send a request.

    The function reads the raw bytes of the response (`response.raw`). The method `iter_content` of
    the library requests would decompress a .tgz that a server labels as gzip-encoded, and would
    drop an incomplete block when the connection breaks.
    """
    start = _num_bytes_of(partial_path)
    if start and start == num_bytes:
        return
    if start:
        _LOG.info("%s: continuing after %d bytes", url, start)
    # Without `identity`, a server may compress the file on the fly, and the range would count other
    # bytes.
    headers = {"Accept-Encoding": "identity", "User-Agent": "aiayn"}
    if start:
        headers["Range"] = f"bytes={start}-"
    timeouts = (CONNECT_TIMEOUT_SECONDS, READ_TIMEOUT_SECONDS)
    credentials = _mirror_credentials(url)
    with requests.get(
        url, stream=True, timeout=timeouts, headers=headers, auth=credentials
    ) as response:
        start, total_bytes = _accepted_range(url, response, partial_path, start)
        if None not in (num_bytes, total_bytes) and num_bytes != total_bytes:
            raise FetchError(
                f"{url}: offers {total_bytes} bytes, the published file has {num_bytes}"
            )
        # The server's size may be absent, because chunked transfer has no Content-Length.
        expected_bytes = total_bytes if total_bytes is not None else num_bytes
        most_bytes = MAX_BYTES if num_bytes is None else num_bytes
        if expected_bytes is not None and expected_bytes > most_bytes:
            raise FetchError(f"{url}: offers {expected_bytes} bytes, more than {most_bytes}")
        name = url.rpartition("/")[2]
        with (
            # `r+b` keeps the bytes that are there, `wb` deletes them if the server starts over.
            partial_path.open("r+b" if start else "wb") as partial,
            progress_bar(name, expected_bytes, "B", initial=start) as bar,
        ):
            position = minute_position = partial.seek(start)
            minute_began = time.monotonic()
            # `read1` returns what has arrived instead of waiting for a whole block, so that a slow
            # server is noticed.
            while block := response.raw.read1(_BLOCK_BYTES, decode_content=False):
                position += len(block)
                # A server that sends without end must not fill the disk.
                if position > (most_bytes if expected_bytes is None else expected_bytes):
                    raise FetchError(f"{url}: sends more than {expected_bytes or most_bytes} bytes")
                partial.write(block)
                bar.update(len(block))
                seconds = time.monotonic() - minute_began
                if seconds >= SPEED_SECONDS:
                    _require_speed(url, position - minute_position, seconds)
                    minute_position = position
                    minute_began = time.monotonic()
    # urllib3 itself reports a body that is shorter than its Content-Length. Without that header,
    # only the published size shows it. A connection error is tried again.
    if expected_bytes is not None and position < expected_bytes:
        raise requests.ConnectionError(
            f"the answer ended after {position} of {expected_bytes} bytes"
        )


def _require_speed(url: str, num_bytes: int, seconds: float) -> None:
    """Raise an error if a server is too slow. The bytes received so far stay on the disk, and the
    next start continues the download.

    Raises:
        FetchError: if the mean speed of the download is below MIN_BYTES_PER_SECOND.
    """
    if num_bytes < MIN_BYTES_PER_SECOND * seconds:
        raise FetchError(
            f"{url}: {num_bytes} bytes in {seconds:.0f} s, expected at least"
            f" {MIN_BYTES_PER_SECOND} bytes a second; the next start continues where this ended"
        )


def _accepted_range(
    url: str, response: requests.Response, partial_path: Path, start: int
) -> tuple[int, int | None]:
    """Return the offset in the file, in bytes, at which an HTTP response begins, and the size of
    the whole file if the server states the size.

    If a server sends a different part of the file than requested without saying so, the checksum of
    the whole file reveals this error later.

    Raises:
        requests.HTTPError: if a later attempt at the same URL may succeed.
        FetchError: if further attempts at the same URL are useless.
    """
    status = f"{response.status_code} {response.reason}"
    if response.status_code in PASSING_STATUSES:
        raise requests.HTTPError(status, response=response)
    # No bytes from `start` on: the partial file is too long, or is from a different file.
    if response.status_code == 416:
        partial_path.unlink(missing_ok=True)
        raise requests.HTTPError(f"{status}; starting over", response=response)
    if response.status_code not in (200, 206):
        raise FetchError(f"{url}: {status}")
    # 206 is a part of the file, 200 the whole file. A server may ignore the header Range.
    if response.status_code == 200 and start:
        _LOG.warning("%s: the server ignores the range asked for; starting over", url)
        start = 0
    # Content-Length counts the rest of the file, from `start` on.
    length = response.headers.get("Content-Length", "")
    return start, start + int(length) if length.isdecimal() else None


def local_path(url: str) -> Path | None:
    """Return the path of the local file that a `file://` URL refers to, None for any other URL."""
    parts = urllib.parse.urlsplit(url)
    return Path(urllib.request.url2pathname(parts.path)) if parts.scheme == "file" else None


def _num_bytes_of(path: Path) -> int:
    """Return a file's size in bytes, 0 if it does not exist."""
    return path.stat().st_size if path.exists() else 0


def _set_aside(path: Path, error: WrongFileError, named: Path | None = None) -> str:
    """Rename a file with a wrong checksum to `<name>.wrong`, so that nobody uses it. Return the
    text of the error message.
    """
    aside_path = (named or path).with_name(f"{(named or path).name}.wrong")
    path.replace(aside_path)
    _LOG.warning("%s; set aside as %s", error, aside_path)
    return f"{error}; set aside as {aside_path}"


def _partial_path(published: PublishedFile, folder: Path) -> Path:
    # Each edition of a file has its own partial file. Editions differ in their checksum, not in
    # their name.
    key = hashlib.sha256(published.checksum.encode()).hexdigest()[:8]
    return folder / f".{published.name}.{key}.partial"


@contextlib.contextmanager
def _locked(path: Path, name: str) -> Iterator[None]:
    """Allow only one process at a time to download a file.

    Two corpora may use the same archives, and may be fetched at the same time.
    """
    with path.open("wb") as lock:
        try:
            # The first try does not wait, only to be able to say that the process is waiting. The
            # lock ends with the process, even after SIGKILL.
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            _LOG.info("%s: being downloaded by another process; waiting for it", name)
            fcntl.flock(lock, fcntl.LOCK_EX)
        except OSError as error:  # a file system without locks
            reason = f"cannot be locked ({error.strerror})"
            _LOG.warning("%s: %s: do not let another process download it", name, reason)
        yield
