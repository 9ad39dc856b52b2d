"""Says on standard error how far the learning of pieces is, which can take an hour, and at the end what it took."""

import contextlib
import resource
import sys
import threading
import time
from types import TracebackType

import msgspec

SECONDS_BETWEEN_LINES = 30.0
_KIB_PER_MIB = 1024


class Learning(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How a subword model was learnt: from so many lines, drawn with a seed, or all there are (None).

    `memory_mib` is the most that the process had ever held when it was done.
    """

    num_lines: int
    sample_seed: int | None
    seconds: float
    memory_mib: int


class LearningWatch:
    """Shows a state that changes, now and then, while its block runs.

    Its facts can be had after the block.
    """

    def __init__(self, what: str) -> None:
        """Begin with nothing said; `what` opens each line."""
        self.state = "begins"
        self._seconds, self._memory_mib = 0.0, 0
        self._what = what
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._show_now_and_then, daemon=True)

    def __enter__(self) -> "LearningWatch":
        self._begun_at = time.monotonic()
        self._stderr = sys.stderr  # subword-nmt's bar is kept from it: sys.stderr is another while that learns
        self._thread.start()
        return self

    def __exit__(
        self, error_type: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._is_over.set()
        self._thread.join()
        self._look()
        if error is None:
            self._show("done")

    def learning(self, num_lines: int, sample_seed: int | None) -> Learning:
        """Return what the block took, with the lines that it learnt from."""
        return Learning(
            num_lines=num_lines, sample_seed=sample_seed, seconds=self._seconds, memory_mib=self._memory_mib
        )

    def _show_now_and_then(self) -> None:
        while not self._is_over.wait(SECONDS_BETWEEN_LINES):
            self._look()
            self._show(self.state)

    def _look(self) -> None:
        self._seconds = time.monotonic() - self._begun_at
        self._memory_mib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // _KIB_PER_MIB  # Linux counts in KiB

    def _show(self, state: str) -> None:
        with contextlib.suppress(OSError):  # the reader of standard error may be gone
            print(
                f"{self._what}: {state}, {self._seconds:.0f} s, at most {self._memory_mib:,} MiB",
                file=self._stderr,
                flush=True,
            )
