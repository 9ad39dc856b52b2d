"""Shows the progress of a long step on standard error.

On a terminal, one line is rewritten. In a log, two lines are written per minute, and a last line at
the end.
"""

import contextlib
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tqdm import tqdm

SECONDS_BETWEEN_LOGGED = 30.0


class _Stream:
    """Standard error as tqdm's output. In a log each text becomes a whole line. An error is ignored
    if the reader of a pipe (`| tee`) has ended.

    The bar that tqdm draws before anything is done is not written to a log. It can be recognised by
    its rate `?`.
    """

    def __init__(self) -> None:
        self._is_terminal = sys.stderr.isatty()

    def write(self, text: str) -> None:
        """Print a line, or rewrite it on a terminal."""
        with contextlib.suppress(OSError):
            if self._is_terminal:
                sys.stderr.write(text)
            elif text.strip() and "?" not in text:
                sys.stderr.write(f"{text.strip()}\n")

    def flush(self) -> None:
        """Flush standard error."""
        with contextlib.suppress(OSError):
            sys.stderr.flush()


def progress_bar(
    label: str, total: int | None, unit: str, *, initial: int = 0, is_scaled: bool = True
) -> "tqdm[Any]":
    """Return tqdm's bar of `total` units (None: unknown).

    `initial` units were done before this process began, so the rate does not count them.
    """
    from tqdm import tqdm  # imported here, because processes that work on chunks show no bar

    tqdm.monitor_interval = 0  # no thread in a process that may fork
    is_terminal = sys.stderr.isatty()
    return tqdm(
        desc=label,
        total=total,
        initial=initial,
        unit=unit,
        unit_scale=is_scaled,
        file=_Stream(),
        # Without Unicode blocks, because nobody knows in which encoding a log is read.
        ascii=True,
        dynamic_ncols=is_terminal,
        mininterval=1.0 if is_terminal else SECONDS_BETWEEN_LOGGED,
    )
