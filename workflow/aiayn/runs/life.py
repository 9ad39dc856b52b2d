"""Signs of life of a run's rank 0, as far as this machine sees them: its lock, its process number, its heartbeat."""

import datetime
from collections.abc import Callable
from pathlib import Path

from aiayn.clock import MACHINE_CLOCK, Clock
from aiayn.runs.attempts import HEARTBEAT_SECONDS, RANK_LOCK_NAME, heartbeat
from aiayn.runs.locks import is_held

BEATS_SECONDS = 3 * HEARTBEAT_SECONDS  # after which one who lives has been seen
# Without a heartbeat for so long rank 0 is dead, even if its lock is held or cannot be seen: fifteen beats, so that
# neither a slow file system nor file attributes in a client's cache are taken for an end.
HEARTBEAT_TIMEOUT_SECONDS = 60.0
_POLL_SECONDS = 0.1


def is_being_trained(run_folder: Path) -> bool:
    """Return whether rank 0 of a run lives: it holds its lock, or, on a file system without locks, touches the file.

    There it takes three beats of rank 0 to say no.
    """
    is_locked_by_rank = is_held(run_folder / RANK_LOCK_NAME)
    return is_beating(run_folder, BEATS_SECONDS) if is_locked_by_rank is None else is_locked_by_rank


def rank_process(run_folder: Path) -> int | None:
    """Return the process number that rank 0 wrote into its lock: of its own machine, and of the past if it is gone."""
    try:
        text = (run_folder / RANK_LOCK_NAME).read_text(encoding="utf-8")
    except FileNotFoundError:
        return None
    return int(text) if text.isdecimal() else None


def last_beat(run_folder: Path) -> str | None:
    """Return when rank 0 last touched its lock (UTC, by the file system's clock)."""
    beat_ns = heartbeat(run_folder)
    if beat_ns is None:
        return None
    return datetime.datetime.fromtimestamp(beat_ns // 10**9, datetime.UTC).isoformat(timespec="seconds")


def is_beating(
    run_folder: Path, seconds: float, clock: Clock = MACHINE_CLOCK, check: Callable[[], None] = lambda: None
) -> bool:
    """Return whether rank 0 touches its lock within so many seconds; no clock of another machine matters for that.

    `check` is called while waiting, and may raise to end it.
    """
    before, deadline = heartbeat(run_folder), clock.now() + seconds
    while clock.now() < deadline:
        clock.pause(_POLL_SECONDS, check)
        if heartbeat(run_folder) != before:
            return True
    return False
