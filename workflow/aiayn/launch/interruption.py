"""The signals that end a driver or a job: noted when they come, acted on where it can tell what it leaves behind."""

import contextlib
import logging
import signal
from collections.abc import Iterator
from types import FrameType
from typing import Self

from aiayn.errors import RunError

logger = logging.getLogger(__name__)


class NotedSignal:
    """The first of its signals that this process got, between two byte codes."""

    numbers: tuple[signal.Signals, ...] = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

    def __init__(self) -> None:
        self.signal_number: signal.Signals | None = None

    @contextlib.contextmanager
    def installed(self) -> Iterator[Self]:
        """Take over the signals for the length of the block."""
        previous = {number: signal.signal(number, self._note) for number in self.numbers}
        try:
            yield self
        finally:
            for number, handler in previous.items():
                signal.signal(number, handler)

    def _note(self, number: int, frame: FrameType | None) -> None:
        self.signal_number = self.signal_number or signal.Signals(number)


class Interruption(NotedSignal):
    """The first INT, TERM or HUP that the driver got."""

    @property
    def name(self) -> str:
        """The signal's name."""
        return self.signal_number.name if self.signal_number else ""

    def raise_if_any(self, state: str) -> None:
        """End the driver if it got a signal; `state` is what it leaves behind.

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
