"""What ranks leave in a run's folder besides checkpoints: rank 0 its lock and heartbeat, all of them their errors."""

import contextlib
import errno
import fcntl
import logging
import os
import platform
import threading
from collections.abc import Iterator
from pathlib import Path

from aiayn.errors import LaunchError
from aiayn.runs import attempts
from aiayn.runs.heartbeat import HEARTBEAT_TIMEOUT_SECONDS, is_heartbeat_advancing
from aiayn.runs.jobs import record_rank_error
from aiayn.train.ranks import Rank
from aiayn.train.rendezvous import is_peer_loss

logger = logging.getLogger(__name__)


class BusyRunError(LaunchError):
    """Another process trains this run: nothing failed, and what it will come to is that process's to tell."""


@contextlib.contextmanager
def rank_error_recorded(run_folder: Path, rank: Rank) -> Iterator[None]:
    """Note an error that ends the block; not that yet another rank is gone, or at work, which is no cause."""
    try:
        yield
    except Exception as error:
        if not is_peer_loss(error) and not isinstance(error, BusyRunError):
            record_rank_error(run_folder, rank.rank, error)
        raise


@contextlib.contextmanager
def rank_lock(run_folder: Path) -> Iterator[None]:
    """Hold rank 0's lock in the block, and touch it every few seconds, for drivers that cannot see the lock itself.

    The lock alone does not decide between hosts: of a host that crashed an NFS server may keep it until that host is
    back, and a lock of one host's own keeps nobody else out. There the heartbeat decides, by its time-out.

    Raises:
        BusyRunError: if another process trains this run.
    """
    path = run_folder / attempts.RANK_LOCK_NAME
    with path.open("a") as lock:
        is_refused = False
        try:
            fcntl.lockf(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            is_refused = error.errno in (errno.EACCES, errno.EAGAIN)
            if not is_refused:
                logger.warning(f"{path}: {error.strerror}: two jobs at once are kept apart by Slurm alone")
        _refuse_living(run_folder, is_refused=is_refused)
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


def _refuse_living(run_folder: Path, *, is_refused: bool) -> None:
    """Refuse to train beside another rank 0, whether or not the lock was refused.

    On this host a lock tells the truth. What has begun on another, or has a lock and has told no host, is alive if it
    beats.
    """
    events = attempts.read_events(run_folder)
    begun = attempts.open_attempt(events)
    newest = next((event for event in reversed(events) if isinstance(event, attempts.Started)), None)
    is_here = newest is not None and newest.host == platform.node()
    if not is_refused and (begun is None or is_here):
        return
    where = f"{begun.host}, job {begun.job}" if begun else "an unknown host"
    if is_here or is_heartbeat_advancing(run_folder, HEARTBEAT_TIMEOUT_SECONDS):
        raise BusyRunError(
            f"{run_folder}: another process is training this run ({where}); wait for it, or end it: "
            f"`aiayn cancel {run_folder.name}`"
        )
    logger.warning(
        f"{run_folder}: the heartbeat of the training on {where} has stood still for {HEARTBEAT_TIMEOUT_SECONDS:.0f} "
        f"s: going on as if it were dead{', though its lock is still held' if is_refused else ''}"
    )


def _beat(path: Path, is_over: threading.Event) -> None:
    while not is_over.wait(attempts.HEARTBEAT_SECONDS):
        with contextlib.suppress(OSError):
            os.utime(path)
