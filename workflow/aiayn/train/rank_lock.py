"""Holds rank 0's lock and touches it as a heartbeat. Records the errors of all ranks in the run's
folder.
"""

import contextlib
import logging
import os
import platform
import threading
from collections.abc import Iterator

from aiayn.errors import LaunchError
from aiayn.runs.attempts import Started
from aiayn.runs.locks import LockFile, take_lock
from aiayn.runs.run_folder import (
    HEARTBEAT_SECONDS,
    HEARTBEAT_TIMEOUT_SECONDS,
    HEARTBEAT_WAIT_SECONDS,
    RunFolder,
)
from aiayn.train.ranks import Rank
from aiayn.train.rendezvous import is_peer_loss
from aiayn.train.request import StopFlag

logger = logging.getLogger(__name__)


class BusyRunError(LaunchError):
    """A different process trains this run and records the outcome. This process has not failed."""


@contextlib.contextmanager
def rank_error_recorded(folder: RunFolder, rank: Rank) -> Iterator[None]:
    """Record an error that ends the block, unless a different rank or a different job caused it."""
    try:
        yield
    except Exception as error:
        if not is_peer_loss(error) and not isinstance(error, BusyRunError):
            folder.record_rank_error(rank.rank, error)
        raise


@contextlib.contextmanager
def rank_lock(folder: RunFolder, stop: StopFlag | None = None) -> Iterator[None]:
    """Hold rank 0's lock in the block. Touch the lock file every few seconds, as a heartbeat for
    drivers that cannot see the lock.

    Between hosts the lock is not enough: an NFS server may keep the lock of a crashed host until
    that host is back, and a lock that is local to one host does not exclude the others. There the
    heartbeat decides, by its time-out. Where locks fail, a `LockFile` takes the place of the lock,
    and the heartbeat decides whether an earlier lock file still counts.

    Raises:
        BusyRunError: if a different process trains this run.
        StopTraining: if this process gets a signal while it watches a heartbeat.
    """
    path = folder.lock_path
    stop = stop or StopFlag()
    with path.open("a") as lock, contextlib.ExitStack() as lock_files:
        # None: this file system has no locks at all. False: another process holds this lock.
        is_taken = take_lock(lock, "two jobs of one run")
        if is_taken is None:
            lock_files.callback(_take_lock_file(folder, stop).release)
        else:
            _require_no_other_rank_zero(folder, stop, is_refused=not is_taken)
        lock.truncate(0)
        lock.write(str(os.getpid()))
        lock.flush()
        is_over = threading.Event()

        def touch_lock() -> None:
            # A network file system may refuse one touch. The next one is a few seconds away.
            while not is_over.wait(HEARTBEAT_SECONDS):
                with contextlib.suppress(OSError):
                    os.utime(path)

        beat = threading.Thread(target=touch_lock, daemon=True)
        beat.start()
        try:
            yield
        finally:
            is_over.set()
            beat.join()


def _take_lock_file(folder: RunFolder, stop: StopFlag) -> LockFile:
    """Take the lock file of a run. It is used if the run's file system does not support
    locks.

    An earlier lock file that was not released counts as long as the heartbeat advances. If the
    other process is on this host, a few heartbeats are enough. Heartbeats of a different host may
    arrive late.

    Raises:
        BusyRunError: if a different process trains this run, or takes its lock file at the same
            time.
    """
    lock_file = LockFile(folder.lock_path)
    begun = folder.open_attempt()
    # A released lock file leaves no holder, but its attempt may still be open on the disk.
    holder = lock_file.holder() or (begun.host if begun else "")
    if holder:
        is_here = holder == platform.node()
        where = f"{holder}, job {begun.job}" if begun and begun.host == holder else holder
        seconds = HEARTBEAT_WAIT_SECONDS if is_here else HEARTBEAT_TIMEOUT_SECONDS
        if folder.is_heartbeat_advancing(seconds, check=stop.raise_if_any):
            raise _busy(folder, where)
        logger.warning(
            f"{folder}: no heartbeat of the training on {where} for {seconds:.0f} s: treated as"
            " ended"
        )
    if not lock_file.take():
        raise _busy(folder, "it began at the same time")
    return lock_file


def _busy(folder: RunFolder, where: str) -> BusyRunError:
    return BusyRunError(
        f"{folder}: another process is training this run ({where}); wait for it, or end it: "
        f"`aiayn cancel {folder.run}`"
    )


def _require_no_other_rank_zero(folder: RunFolder, stop: StopFlag, *, is_refused: bool) -> None:
    """Require that there is no other rank 0 that trains this run, whether or not the lock was
    refused.

    On this host the lock decides. An attempt on another host, or a lock without a recorded host, is
    running if its heartbeat advances.
    """
    begun = folder.open_attempt()
    newest = next(
        (event for event in reversed(folder.events()) if isinstance(event, Started)), None
    )
    is_here = newest is not None and newest.host == platform.node()
    if not is_refused and (begun is None or is_here):
        return
    where = f"{begun.host}, job {begun.job}" if begun else "an unknown host"
    # Here the system frees a lock with its process. Elsewhere only a heartbeat shows life.
    if is_here or folder.is_heartbeat_advancing(HEARTBEAT_TIMEOUT_SECONDS, check=stop.raise_if_any):
        raise _busy(folder, where)
    logger.warning(
        f"{folder}: no heartbeat of the training on {where} for {HEARTBEAT_TIMEOUT_SECONDS:.0f} s:"
        f" treated as ended{', though its lock is still held' if is_refused else ''}"
    )
