"""Tells whether rank 0 of a run is running, as far as this machine sees: by its lock, process number and heartbeat.

A lock is inspected without being taken, so that a process that takes it at that moment succeeds.
"""

import datetime
import errno
import fcntl
import logging
import os
import struct
import sys
from collections.abc import Callable
from pathlib import Path
from typing import IO

from aiayn.clock import MACHINE_CLOCK, Clock
from aiayn.runs.attempts import HEARTBEAT_SECONDS, RANK_LOCK_NAME, heartbeat_ns

logger = logging.getLogger(__name__)
HEARTBEAT_WAIT_SECONDS = 3 * HEARTBEAT_SECONDS  # enough to see a running rank 0
# Without a heartbeat for so long rank 0 has ended, even if its lock is held or cannot be seen: fifteen heartbeats, so
# that neither a slow file system nor cached file attributes look like an end.
HEARTBEAT_TIMEOUT_SECONDS = 60.0
POLL_SECONDS = 0.1
_NO_LOCKS = (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP)  # an NFS without lockd; a Lustre without `flock`
_TAKEN = (errno.EACCES, errno.EAGAIN)  # by another process
_FLOCK = "hhqqi"  # Linux's struct flock: type, whence, start, length, process


def is_being_trained(run_folder: Path) -> bool:
    """Return whether rank 0 of a run is running: it holds its lock, or, on a file system without locks, touches it.

    There a negative answer takes HEARTBEAT_WAIT_SECONDS.
    """
    is_locked = is_held(run_folder / RANK_LOCK_NAME)
    return is_heartbeat_advancing(run_folder, HEARTBEAT_WAIT_SECONDS) if is_locked is None else is_locked


def rank_zero_process(run_folder: Path) -> int | None:
    """Return the process number that rank 0 wrote into its lock; valid on its machine, while it is running."""
    try:
        text = (run_folder / RANK_LOCK_NAME).read_text(encoding="utf-8")
    except FileNotFoundError:
        return None
    return int(text) if text.isdecimal() else None


def last_heartbeat(run_folder: Path) -> str | None:
    """Return when rank 0 last touched its lock (UTC, by the file system's clock)."""
    beat_ns = heartbeat_ns(run_folder)
    if beat_ns is None:
        return None
    return datetime.datetime.fromtimestamp(beat_ns // 10**9, datetime.UTC).isoformat(timespec="seconds")


def is_heartbeat_advancing(
    run_folder: Path, seconds: float, clock: Clock = MACHINE_CLOCK, check: Callable[[], None] = lambda: None
) -> bool:
    """Return whether rank 0 touches its lock within so many seconds, by this machine's clock alone.

    `check` is called while waiting, and may raise to end the wait.
    """
    before, deadline = heartbeat_ns(run_folder), clock.now() + seconds
    while clock.now() < deadline:
        clock.pause(POLL_SECONDS, check)
        if heartbeat_ns(run_folder) != before:
            return True
    return False


def is_held(path: Path) -> bool | None:
    """Return whether another process holds a lock, None on a file system without locks; a missing file is not held."""
    try:
        lock = path.open("rb" if sys.platform == "linux" else "r+b")
    except FileNotFoundError:
        return False
    with lock:
        try:
            if sys.platform == "linux":
                wanted = struct.pack(_FLOCK, fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
                kind, *_ = struct.unpack(_FLOCK, fcntl.fcntl(lock, fcntl.F_GETLK, wanted))
                return bool(kind != fcntl.F_UNLCK)
            fcntl.lockf(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)  # closing the file frees it
        except OSError as error:
            if error.errno in _NO_LOCKS:
                return None
            if error.errno not in _TAKEN:
                raise
            return True
    return False


def take_lock(lock: IO[str], otherwise: str) -> bool:
    """Take a lock, or return False if another process has it.

    On a file system without locks it excludes no process, and a warning says what `otherwise` is not prevented.
    """
    try:
        fcntl.lockf(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno in _TAKEN:
            return False
        logger.warning(f"{lock.name}: {error.strerror}: only Slurm prevents {otherwise}")
    return True
