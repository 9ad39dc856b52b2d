"""A server on the loopback with the manners of a busy public one: slow, refusing, breaking off,
forgetful, corrupt.

What it does to the next requests of a path is a list of faults, used up one by one. After the last
it behaves.
"""

import contextlib
import http.server
import re
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from types import SimpleNamespace

import pytest

FAULTS = (
    "busy",  # 503, come back in a second
    "drop",  # breaks the connection after half of what it promised
    "ignore_range",  # answers with the whole file where a part was asked for
    "wrong_range",  # answers with another part than was asked for
    "no_such_range",  # 416
    "corrupt",  # a file of the right length, with one other byte
    "labelled",  # says of a .tgz that it is gzip-encoded, as some servers do
    "unstated",  # says no length
    "endless",  # says no length, and sends the file again and again
    "to_file",  # redirects to a file of this machine
)
_SLOW_BLOCK_BYTES = 512
_FAST_BLOCK_BYTES = 1 << 20


@dataclass
class LoopbackServer:
    """What is served, what goes wrong, and what was asked: (path, Range header or '', status)."""

    url: str = ""
    content_by_path: dict[str, bytes] = field(default_factory=dict)
    faults_by_path: dict[str, list[str]] = field(default_factory=dict)
    requests: list[tuple[str, str, int]] = field(default_factory=list)
    authorizations: set[str] = field(default_factory=set)
    seconds_per_block: float = 0.0

    def serve(self, path: str, content: bytes, *faults: str) -> str:
        """Serve a file, with these faults first, and return its URL."""
        assert set(faults) <= set(FAULTS), faults
        self.content_by_path[path] = content
        self.faults_by_path[path] = list(faults)
        return self.url + path

    def asked(self, path: str) -> list[tuple[str, int]]:
        """Return (Range header, status) of each request of a path."""
        return [
            (asked_range, status)
            for asked_path, asked_range, status in self.requests
            if asked_path == path
        ]


@contextlib.contextmanager
def loopback_server() -> Iterator[LoopbackServer]:
    """Serve on a free port, each request in a thread of its own."""
    served = LoopbackServer()

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            faults = served.faults_by_path.get(self.path, [])
            _answer(served, self, faults.pop(0) if faults else "")

        def log_message(self, format: str, *args: object) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as listening:
        served.url = f"http://127.0.0.1:{listening.server_port}"
        thread = threading.Thread(target=listening.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield served
        finally:
            listening.shutdown()
            thread.join()


def record_waits(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Let a download pass over its waits between two attempts, and return the list to which it adds
    them.
    """
    waits: list[float] = []
    monkeypatch.setattr(
        "aiayn.data.sources.download.time",
        SimpleNamespace(sleep=waits.append, monotonic=time.monotonic),
    )
    return waits


def _answer(
    served: LoopbackServer, handler: http.server.BaseHTTPRequestHandler, fault: str
) -> None:
    asked_range = handler.headers.get("Range", "")
    content = served.content_by_path.get(handler.path)
    begin = (
        int(range_match[1]) if (range_match := re.fullmatch(r"bytes=(\d+)-", asked_range)) else 0
    )
    if content is None:
        status, headers, body = 404, {}, b""
    elif fault == "busy":
        status, headers, body = 503, {"Retry-After": "1"}, b""
    elif fault == "no_such_range" or begin > len(content):
        status, headers, body = 416, {}, b""
    elif begin and fault != "ignore_range":
        named = begin + 1 if fault == "wrong_range" else begin
        status, body = 206, content[begin:]
        headers = {"Content-Range": f"bytes {named}-{len(content) - 1}/{len(content)}"}
    else:
        status, headers, body = 200, {}, content
    if fault == "corrupt":
        body = bytes([body[0] ^ 1]) + body[1:]
    is_page = body.startswith(b"<")  # pip reads an index that says so
    headers["Content-Type"] = "text/html" if is_page else "application/octet-stream"
    if fault == "labelled":
        headers["Content-Encoding"] = "gzip"
    if fault == "endless":
        body *= 1000
    if fault == "to_file":
        status, headers["Location"] = 302, "file:///etc/passwd"
    served.authorizations.add(handler.headers.get("Authorization", ""))
    served.requests.append((handler.path, asked_range, status))
    handler.send_response(status)
    for name, value in headers.items():
        handler.send_header(name, value)
    if fault not in ("unstated", "endless"):
        handler.send_header("Content-Length", str(len(body)))
    handler.end_headers()
    sent = body[: len(body) // 2] if fault == "drop" else body
    block_bytes = _SLOW_BLOCK_BYTES if served.seconds_per_block else _FAST_BLOCK_BYTES
    with contextlib.suppress(ConnectionError):
        for position in range(0, len(sent), block_bytes):
            handler.wfile.write(sent[position : position + block_bytes])
            time.sleep(served.seconds_per_block)
    handler.close_connection = True
