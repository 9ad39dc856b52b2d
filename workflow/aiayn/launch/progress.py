"""Shows the progress of a training by tqdm: one line that is rewritten on a terminal, a line per 30 s in a log."""

import contextlib
import sys
from typing import Any

from tqdm import tqdm

from aiayn.runs.log import LogTail

SECONDS_BETWEEN_LINES = 30.0
tqdm.monitor_interval = 0  # no thread in a driver, which forks


class _Stream:
    """Standard error for tqdm: whole lines in a log, and no error when its reader (`| tee`) has ended."""

    def __init__(self) -> None:
        self._is_terminal = sys.stderr.isatty()

    def write(self, text: str) -> None:
        """Print a line, or rewrite it on a terminal."""
        with contextlib.suppress(OSError):
            sys.stderr.write(text if self._is_terminal else f"{line}\n" if (line := text.strip()) else "")

    def flush(self) -> None:
        """Flush standard error."""
        with contextlib.suppress(OSError):
            sys.stderr.flush()


class ProgressLine:
    """Shows the progress of one run on standard error; speed and time left are measured by this driver."""

    def __init__(self, run: str, updates: int) -> None:
        self._run = run
        self._updates = updates
        self._bar: tqdm[Any] | None = None

    def show(self, log: LogTail | None, *, is_last: bool = False) -> None:
        """Show the statistics at the log's end, if it is time to or `is_last`."""
        if log is None or log.update is None:
            return
        if self._bar is not None and log.update < self._bar.n:  # resumed from an earlier update
            self._bar.close()
            self._bar = None
        bar = self._bar = self._bar or self._begin(log.update)
        statistics = f"loss {log.loss_bits:.2f} bits, {log.target_tokens_per_second:.0f} target tokens/s"
        bar.set_postfix_str(statistics, refresh=False)
        bar.update(log.update - bar.n)
        if is_last:
            bar.close()

    def _begin(self, update: int) -> "tqdm[Any]":
        is_terminal = sys.stderr.isatty()
        return tqdm(
            total=self._updates, initial=update, desc=self._run, unit="update", file=_Stream(), ascii=True,
            dynamic_ncols=is_terminal, mininterval=1.0 if is_terminal else SECONDS_BETWEEN_LINES,
        )  # fmt: skip
