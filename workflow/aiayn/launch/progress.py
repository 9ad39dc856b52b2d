"""One line a training: where it is, how fast, how long it still takes; rewritten on a terminal, spaced out in a log."""

import contextlib
import datetime
import sys
import time

from aiayn.runs.attempts import Progress

SECONDS_BETWEEN_LINES = 30.0


class ProgressLine:
    """Shows the progress of one run on standard error."""

    def __init__(self, run: str, updates: int) -> None:
        self.run = run
        self.updates = updates
        self._shown_at = 0.0
        self._first: tuple[float, int] | None = None
        self._is_terminal = sys.stderr.isatty()

    def show(self, progress: Progress | None) -> None:
        """Show progress if it is time to."""
        if progress is None:
            return
        now = time.monotonic()
        if self._first is None or progress.update < self._first[1]:  # a resumed run begins below where it was killed
            self._first = (now, progress.update)
        if now - self._shown_at >= (1.0 if self._is_terminal else SECONDS_BETWEEN_LINES):
            self._shown_at = now
            ending = "\r" if self._is_terminal else "\n"
            _print(self.text(progress, now), ending)

    def finish(self, progress: Progress | None) -> None:
        """End the line."""
        if progress is not None:
            _print(self.text(progress, time.monotonic()), "\n")

    def text(self, progress: Progress, now: float) -> str:
        """Return the line; the time left is from this driver's own clock, from the first line it saw."""
        first_time, first_update = self._first or (now, progress.update)
        rate = (progress.update - first_update) / (now - first_time) if now > first_time else 0.0
        rate = rate or progress.updates_per_second
        left = datetime.timedelta(seconds=round((self.updates - progress.update) / rate)) if rate > 0 else "unknown"
        return (
            f"{self.run}: update {progress.update}/{self.updates}, loss {progress.loss_bits:.2f} bits, "
            f"{rate:.2f} updates/s, {progress.target_tokens_per_second:.0f} target tokens/s, ETA {left}"
        )


def _print(text: str, ending: str) -> None:
    with contextlib.suppress(OSError):  # Ctrl-C also ends the `tee` behind a driver, which must live to see its job end
        print(text, end=ending, file=sys.stderr, flush=True)
