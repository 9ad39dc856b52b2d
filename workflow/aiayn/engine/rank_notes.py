"""What ranks leave in a run's folder besides checkpoints: rank 0 its lock and heartbeat, all of them their errors."""

import contextlib
import errno
import fcntl
import logging
import os
import threading
from collections.abc import Iterator
from pathlib import Path

from aiayn.engine.meeting import is_peer_loss
from aiayn.engine.ranks import Rank
from aiayn.errors import LaunchError
from aiayn.runs import attempts
from aiayn.runs.rank_errors import note_error

logger = logging.getLogger(__name__)


@contextlib.contextmanager
def error_noted(run_folder: Path, rank: Rank) -> Iterator[None]:
    """Note an error that ends the block; not that yet another rank is gone, which is no cause."""
    try:
        yield
    except Exception as error:
        if not is_peer_loss(error):
            note_error(run_folder, rank.index, error)
        raise


@contextlib.contextmanager
def rank_lock(run_folder: Path) -> Iterator[None]:
    """Hold rank 0's lock in the block, and touch it every few seconds, for drivers that cannot see the lock itself.

    Raises:
        LaunchError: if another process holds it.
    """
    path = run_folder / attempts.RANK_LOCK_NAME
    with path.open("a") as lock:
        try:
            fcntl.lockf(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            if error.errno in (errno.EACCES, errno.EAGAIN):
                raise LaunchError(
                    f"{run_folder}: another process is training this run; wait for it, or end it"
                ) from error
            logger.warning(f"{path}: {error.strerror}: two jobs at once are kept apart by Slurm alone")
        lock.truncate(0)
        lock.write(str(os.getpid()))
        lock.flush()
        is_over = threading.Event()
        beat = threading.Thread(target=_beat, args=(path, is_over), daemon=True)
        beat.start()
        try:
            yield
        finally:
            is_over.set()
            beat.join()


def _beat(path: Path, is_over: threading.Event) -> None:
    while not is_over.wait(attempts.HEARTBEAT_SECONDS):
        with contextlib.suppress(OSError):
            os.utime(path)
