"""How far all downloads of a fetch are: bytes, rate and time left, rewritten on a terminal, spaced out in a log."""

import logging
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

from tqdm import tqdm  # type: ignore[import-untyped, unused-ignore]

_LOG = logging.getLogger(__name__)
SECONDS_BETWEEN_LINES = 30.0
SECONDS_BETWEEN_REWRITES = 0.5


class TransferProgress:
    """Sums what several threads receive; the rate is of this start's own bytes, not of what lay there already."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._begun_at = clock()
        self._shown_at = self._begun_at
        self._total_bytes_by_name: dict[str, int | None] = {}
        self._num_bytes_by_name: dict[str, int] = {}
        self._initial_bytes_by_name: dict[str, int] = {}
        self._is_terminal = sys.stderr.isatty()

    def begin(self, name: str, num_bytes: int, total_bytes: int | None) -> None:
        """Enter a file of which so many bytes are there."""
        with self._lock:
            self._total_bytes_by_name[name] = total_bytes
            self._num_bytes_by_name[name] = self._initial_bytes_by_name[name] = num_bytes

    def report(self, name: str, num_bytes: int) -> None:
        """Note how many bytes of a file are there, and show the line if it is time to."""
        with self._lock:
            self._num_bytes_by_name[name] = num_bytes
            # One that starts over is behind where it began: what lay there is of no use any more.
            self._initial_bytes_by_name[name] = min(self._initial_bytes_by_name[name], num_bytes)
            now = self._clock()
            if now - self._shown_at < (SECONDS_BETWEEN_REWRITES if self._is_terminal else SECONDS_BETWEEN_LINES):
                return
            self._shown_at = now
            line = self._line(now)
        self._show(line)

    def finish(self) -> None:
        """Show where it ended, if anything was received."""
        with self._lock:
            if self._num_bytes_by_name == self._initial_bytes_by_name:
                return
            line = self._line(self._clock())
        self._show(line)
        if self._is_terminal:
            print(file=sys.stderr)

    def _line(self, now: float) -> str:
        totals = list(self._total_bytes_by_name.values())
        known = [total for total in totals if total is not None]
        total_bytes: Any = (
            sum(known) if len(known) == len(totals) else None
        )  # None: neither share nor time left is shown
        line: str = tqdm.format_meter(
            sum(self._num_bytes_by_name.values()),
            total_bytes,
            now - self._begun_at,
            initial=sum(self._initial_bytes_by_name.values()),
            prefix=f"{len(totals)} downloads",
            ascii=True,
            unit="B",
            unit_scale=True,
            ncols=100,
        )
        return line

    def _show(self, line: str) -> None:
        if self._is_terminal:
            print(f"\r{line}", end="", file=sys.stderr, flush=True)
        else:
            _LOG.info("%s", line)
