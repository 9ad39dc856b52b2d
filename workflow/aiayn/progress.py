"""Shows the progress of a long step on standard error: rewritten on a terminal, two lines a minute in a log."""

import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tqdm import tqdm

SECONDS_BETWEEN_LOGGED = 30.0


def progress_bar(what: str, total: int | None, unit: str, *, initial: int = 0) -> "tqdm[Any]":
    """Return tqdm's bar of `total` units (None: unknown); `initial` units were done before, and count for no rate."""
    from tqdm import tqdm  # here, as processes that work on chunks show none

    seconds = 0.5 if sys.stderr.isatty() else SECONDS_BETWEEN_LOGGED
    return tqdm(desc=what, total=total, initial=initial, unit=unit, unit_scale=True, mininterval=seconds, ascii=True)
