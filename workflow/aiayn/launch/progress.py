"""Shows the progress of a training: one line that is rewritten on a terminal, a line per 30 s in a log."""

from typing import TYPE_CHECKING, Any

from aiayn.progress import progress_bar
from aiayn.runs.log import LogTail

if TYPE_CHECKING:
    from tqdm import tqdm


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
        if self._bar is None:
            self._bar = progress_bar(self._run, self._updates, "update", initial=log.update, is_scaled=False)
        statistics = f"loss {log.loss_bits:.2f} bits, {log.target_tokens_per_second:.0f} target tokens/s"
        self._bar.set_postfix_str(statistics, refresh=False)
        self._bar.update(log.update - self._bar.n)
        if is_last:
            self._bar.close()
