"""Records the signals that end a driver; the driver ends where it can say what continues without it."""

import logging
import signal

from aiayn.errors import RunError
from aiayn.train.request import NotedSignal

logger = logging.getLogger(__name__)


class Interruption(NotedSignal):
    """The first INT, TERM or HUP that the driver got."""

    @property
    def name(self) -> str:
        """The signal's name."""
        return self.signal_number.name if self.signal_number else ""

    def raise_if_any(self, state: str) -> None:
        """End the driver if it got a signal; `state` says what continues without it.

        Raises:
            KeyboardInterrupt: after INT.
            RunError: after another signal; exit code 3.
        """
        if self.signal_number is None:
            return
        logger.info(state)
        if self.signal_number == signal.SIGINT:
            raise KeyboardInterrupt
        raise RunError(f"ended by {self.name}; {state}")
