"""Shows the progress of a long step on standard error.

On a terminal, one line is rewritten again and again. In a log file, two lines are written per
minute, and a last line at the end of the step.
"""

import contextlib
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tqdm import tqdm

SECONDS_BETWEEN_LOGGED = 30.0


class _Stream:
    """The stream to which tqdm writes: standard error. In a log file each text of tqdm becomes a
    line of its own. Errors are ignored, because the program that reads a pipe (`| tee`) may have
    ended.

    The progress bar that tqdm draws before the first unit is done is not written to a log file. The
    first bar is recognised by its rate, `?`.
    """

    def __init__(self) -> None:
        self._is_terminal = sys.stderr.isatty()

    def write(self, text: str) -> None:
        """Print a line or, on a terminal, rewrite the line."""
        with contextlib.suppress(OSError):
            if self._is_terminal:
                sys.stderr.write(text)
            elif text.strip() and "?" not in text:
                sys.stderr.write(f"{text.strip()}\n")

    def flush(self) -> None:
        """Flush standard error."""
        with contextlib.suppress(OSError):
            sys.stderr.flush()


def progress_bar(label: str, total: int | None, unit: str, *, initial: int = 0) -> "tqdm[Any]":
    """Return tqdm's progress bar for `total` units. `total` is None if the number of units is
    unknown.

    `initial` units were done before this process began, so they do not count for the rate.
    """
    from tqdm import tqdm  # imported here, because processes that work on chunks show no bar

    tqdm.monitor_interval = 0  # no thread in a process that may fork
    is_terminal = sys.stderr.isatty()
    return tqdm(
        desc=label,
        total=total,
        initial=initial,
        unit=unit,
        unit_scale=True,
        file=_Stream(),
        # Without Unicode blocks, because nobody knows in which encoding a log is read.
        ascii=True,
        dynamic_ncols=is_terminal,
        mininterval=1.0 if is_terminal else SECONDS_BETWEEN_LOGGED,
    )
