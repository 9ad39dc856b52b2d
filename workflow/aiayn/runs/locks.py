"""Tells whether a lock file is held, without taking it: who wants it at that moment is not turned away."""

import errno
import fcntl
import os
import struct
import sys
from pathlib import Path

_NO_LOCKS = (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP)  # an NFS without lockd; a Lustre without `flock`
_FLOCK = "hhqqi"  # Linux's struct flock: type, whence, start, length, process


def is_locked(path: Path) -> bool:
    """Return whether another living process holds the lock; a file that is not there is held by nobody.

    Raises:
        OSError: if the file system has no locks.
    """
    try:
        lock = path.open("rb" if sys.platform == "linux" else "r+b")
    except FileNotFoundError:
        return False
    with lock:
        if sys.platform == "linux":
            question = struct.pack(_FLOCK, fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
            kind, *_ = struct.unpack(_FLOCK, fcntl.fcntl(lock, fcntl.F_GETLK, question))
            return bool(kind != fcntl.F_UNLCK)
        try:
            fcntl.lockf(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)  # closing the file frees it
        except OSError:
            return True
        return False


def is_held(path: Path) -> bool | None:
    """Return what `is_locked` does; None on a file system without locks, where nobody knows."""
    try:
        return is_locked(path)
    except OSError as error:
        if error.errno not in _NO_LOCKS:
            raise
        return None
