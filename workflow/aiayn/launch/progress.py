"""How far a training is, by tqdm: one line that is rewritten on a terminal, a line every half minute in a log."""

import contextlib
import sys
from typing import Any

from tqdm import tqdm

from aiayn.runs.log import LogTail

SECONDS_BETWEEN_LINES = 30.0
tqdm.monitor_interval = 0  # no thread in a driver, which forks


class _Stream:
    """Standard error as tqdm writes to it: whole lines in a log, and no error once its reader (`| tee`) is gone."""

    def __init__(self) -> None:
        self._is_terminal = sys.stderr.isatty()

    def write(self, text: str) -> None:
        """Print a line, or what rewrites one."""
        with contextlib.suppress(OSError):
            sys.stderr.write(text if self._is_terminal else f"{line}\n" if (line := text.strip()) else "")

    def flush(self) -> None:
        """Let it be seen."""
        with contextlib.suppress(OSError):
            sys.stderr.flush()


class ProgressLine:
    """Shows the progress of one run on standard error; pace and time left are of this driver's own time."""

    def __init__(self, run: str, updates: int) -> None:
        self._run = run
        self._updates = updates
        self._bar: tqdm[Any] | None = None

    def show(self, log: LogTail | None, *, is_last: bool = False) -> None:
        """Show what a log's end tells if it is time to, or for the last time."""
        if log is None or log.update is None:
            return
        if self._bar is not None and log.update < self._bar.n:  # resumed from before where it was killed
            self._bar.close()
            self._bar = None
        bar = self._bar = self._bar or self._begin(log.update)
        told = f"loss {log.loss_bits:.2f} bits, {log.target_tokens_per_second:.0f} target tokens/s"
        bar.set_postfix_str(told, refresh=False)
        bar.update(log.update - bar.n)
        if is_last:
            bar.close()

    def _begin(self, update: int) -> "tqdm[Any]":
        is_terminal = sys.stderr.isatty()
        return tqdm(
            total=self._updates, initial=update, desc=self._run, unit="update", file=_Stream(), ascii=True,
            dynamic_ncols=is_terminal, mininterval=1.0 if is_terminal else SECONDS_BETWEEN_LINES,
        )  # fmt: skip
