"""Holds the lock of a run, so that only one process at a time trains the run as rank 0, and touches
the lock file as a heartbeat. Also records the errors of all ranks (processes) in the run's folder.
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
    """Raised if a different process trains this run. The process that raises a BusyRunError has not
    failed itself, so a BusyRunError is not recorded.
    """


@contextlib.contextmanager
def rank_error_recorded(folder: RunFolder, rank: Rank) -> Iterator[None]:
    """Record an error that ends the `with` block, unless a different rank or job
    caused the error.
    """
    try:
        yield
    except Exception as error:
        if not is_peer_loss(error) and not isinstance(error, BusyRunError):
            folder.record_rank_error(rank.rank, error)
        raise


@contextlib.contextmanager
def rank_lock(folder: RunFolder, stop: StopFlag | None = None) -> Iterator[None]:
    """Hold the lock of a run in the `with` block. Touch the lock file every few seconds, as a
    heartbeat for drivers (processes that submit and watch jobs) on hosts that cannot see the lock.

    If processes on different hosts train the same run, the lock is not enough. An NFS server may
    keep the lock of a crashed host until that host is back, and a lock that is local to one host
    does not exclude processes on other hosts. So a process on a different host counts as ended if
    its heartbeat does not advance within a time-out. On a file system without locks, a `LockFile`
    replaces the lock, and the heartbeat decides whether the lock file of an earlier process still
    counts.

    Raises:
        BusyRunError: if a different process trains this run.
        StopTraining: if this process gets a signal while it watches the heartbeat of a different
            process.
    """
    path = folder.lock_path
    stop = stop or StopFlag()
    # Opened with "a", because "w" would empty the file before this process knows that it has the
    # lock.
    with path.open("a") as lock, contextlib.ExitStack() as lock_files:
        # None means that the file system does not support locks, False that the lock is held.
        is_taken = take_lock(lock, "two jobs of one run")
        if is_taken is None:
            lock_files.callback(_take_lock_file(folder, stop).release)
        else:
            _require_no_other_rank_zero(folder, stop, is_refused=not is_taken)
            # Reading a heartbeat opens and closes the lock's file, which releases the lock of this
            # process (POSIX). So it is taken again, unless a different process was faster.
            if is_taken and take_lock(lock, "two jobs of one run") is False:
                raise _busy(folder, "it began at the same time")
        # `RunFolder.rank_zero_process` reads the process number, which is valid on this host only.
        lock.truncate(0)
        lock.write(str(os.getpid()))
        lock.flush()
        is_over = threading.Event()

        def touch_lock() -> None:
            # A network file system may refuse a touch. The next touch follows in a few seconds.
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
    """Take the lock file of a run, if the run's file system does not support locks.

    A lock file of an earlier process that was not released counts as long as the heartbeat
    advances. If the earlier process is on this host, waiting for a few heartbeats is enough.
    Heartbeats from a different host may arrive late, so this function waits longer for them.

    Raises:
        BusyRunError: if a different process trains this run, or takes the run's lock file at the
            same time.
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
    # Two processes may come to this point together. Only one of them can create the next file.
    if not lock_file.take():
        raise _busy(folder, "it began at the same time")
    return lock_file


def _busy(folder: RunFolder, where: str) -> BusyRunError:
    return BusyRunError(
        f"{folder}: another process is training this run ({where}); wait for it, or end it: "
        f"`aiayn cancel {folder.run}`"
    )


def _require_no_other_rank_zero(folder: RunFolder, stop: StopFlag, *, is_refused: bool) -> None:
    """Require that no different process trains this run as rank 0. `is_refused` says whether this
    process could not take the run's lock.

    For an earlier attempt on this host, the lock decides whether the attempt is still running. An
    attempt on a different host, or a lock whose host is not recorded, counts as running if its
    heartbeat advances.
    """
    begun = folder.open_attempt()
    # The newest start tells which host held the lock last, even if that attempt has ended.
    newest = next(
        (event for event in reversed(folder.events()) if isinstance(event, Started)), None
    )
    is_here = newest is not None and newest.host == platform.node()
    if not is_refused and (begun is None or is_here):
        return
    where = f"{begun.host}, job {begun.job}" if begun else "an unknown host"
    # On this host the system frees a lock when its process ends. On a different host only a
    # heartbeat shows that the process is alive.
    if is_here or folder.is_heartbeat_advancing(HEARTBEAT_TIMEOUT_SECONDS, check=stop.raise_if_any):
        raise _busy(folder, where)
    logger.warning(
        f"{folder}: no heartbeat of the training on {where} for {HEARTBEAT_TIMEOUT_SECONDS:.0f} s:"
        f" treated as ended{', though its lock is still held' if is_refused else ''}"
    )
