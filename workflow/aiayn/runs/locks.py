"""Takes and inspects locks on files. A lock is inspected without being taken: who takes it at that
moment succeeds.
"""

import errno
import fcntl
import logging
import os
import struct
from pathlib import Path
from typing import IO

logger = logging.getLogger(__name__)
_NO_LOCKS = (
    errno.ENOLCK,
    errno.ENOSYS,
    errno.EOPNOTSUPP,
)  # an NFS without lockd; a Lustre without `flock`
_TAKEN = (errno.EACCES, errno.EAGAIN)  # by another process
_FLOCK = "hhqqi"  # Linux's struct flock: type, whence, start, length, process


def is_held(path: Path) -> bool | None:
    """Return whether another process holds a lock, None on a file system without locks; a missing
    file is not held.
    """
    try:
        lock = path.open("rb")
    except FileNotFoundError:
        return False
    with lock:
        try:
            wanted = struct.pack(_FLOCK, fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
            kind, *_ = struct.unpack(_FLOCK, fcntl.fcntl(lock, fcntl.F_GETLK, wanted))
        except OSError as error:
            if error.errno in _NO_LOCKS:
                return None
            raise
    return bool(kind != fcntl.F_UNLCK)


def take_lock(lock: IO[str], otherwise: str) -> bool:
    """Take a lock, or return False if another process has it.

    On a file system without locks it excludes no process, and a warning says what `otherwise` is
    not prevented.
    """
    try:
        fcntl.lockf(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno in _TAKEN:
            return False
        logger.warning(
            f"{lock.name}: {error.strerror}: only a cluster's queue prevents {otherwise}"
        )
    return True
