"""Defines the clock that is used by code that waits. Tests replace this clock by a clock that skips
each wait.
"""

import time
from collections.abc import Callable

STEP_SECONDS = 0.5  # between two checks of a pause


class Clock:
    """The clock of this machine."""

    def now(self) -> float:
        """Return the seconds of a monotonic clock, which is never set back."""
        return time.monotonic()

    def pause(self, seconds: float, check: Callable[[], None] = lambda: None) -> None:
        """Wait for `seconds`. `check` is called before the wait, every STEP_SECONDS during the
        wait, and after it. `check` may raise an error to end the wait.
        """
        # In short steps: `time.sleep` continues after a signal handler has returned (PEP 475), and
        # `check` sees what the handler noted.
        deadline = self.now() + seconds
        check()
        while (left := deadline - self.now()) > 0:
            time.sleep(min(left, STEP_SECONDS))
            check()


MACHINE_CLOCK = Clock()
