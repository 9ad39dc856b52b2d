"""Takes and inspects locks on files. Inspecting does not take the lock, so it never makes a process
fail that takes the lock at this moment.
"""

import errno
import fcntl
import logging
import os
import platform
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
_RELEASED = "released"  # what a lock file contains at the end, in place of a host
_FLOCK = "hhqqi"  # Linux's struct flock: type, whence, start, length, process


def is_held(path: Path) -> bool | None:
    """Return whether a different process holds a lock, or None on a file system without locks. A
    missing file is not held.
    """
    try:
        lock = path.open("rb")
    except FileNotFoundError:
        return False
    with lock:
        try:
            # Asking who holds the lock does not take it: a test by taking would keep rank 0 from
            # starting.
            flock = struct.pack(_FLOCK, fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
            kind, *_ = struct.unpack(_FLOCK, fcntl.fcntl(lock, fcntl.F_GETLK, flock))
        except OSError as error:
            if error.errno in _NO_LOCKS:
                return None
            raise
    return bool(kind != fcntl.F_UNLCK)


def take_lock(lock: IO[str], otherwise: str) -> bool | None:
    """Take a lock and return True. Return False if a different process holds it.

    On a file system without locks, return None and warn that `otherwise` is not prevented.

    Raises:
        OSError: if the lock fails for another reason, such as a broken disk.
    """
    try:
        fcntl.lockf(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno in _TAKEN:
            return False
        if error.errno not in _NO_LOCKS:
            raise
        logger.warning(f"{lock.name}: {error.strerror}: a lock cannot prevent {otherwise}")
        return None
    return True


class LockFile:
    """A lock where the file system has none: the newest of the files `<lock>.<number>` is valid.

    A process takes the lock by creating the next file exclusively, so that one of several succeeds.
    The file contains the host of the process, and also `released` after the process has ended
    normally. If `released` is missing, the heartbeat shows whether the process is alive. The newest
    file is never removed, because two processes could then create the same number.
    """

    def __init__(self, lock_path: Path) -> None:
        self._lock_path = lock_path
        numbers = [int(path.suffix[1:]) for path in self._paths()]
        self._number = max(numbers, default=0)

    def holder(self) -> str:
        """Return the host of the newest file, '' if its process ended in order, or none exists."""
        try:
            text = self._path(self._number).read_text(encoding="utf-8")
        except FileNotFoundError:
            return ""
        return "" if text == _RELEASED else text or "an unknown host"  # not yet written

    def take(self) -> bool:
        """Create the next file. Return False if a different process was faster."""
        number = self._number + 1
        try:
            # Exclusive creation is atomic on file systems without locks, too.
            with self._path(number).open("x", encoding="utf-8") as file:
                file.write(platform.node())
        except FileExistsError:
            return False
        # Others may have come and gone while this process slept.
        if any(int(path.suffix[1:]) > number for path in self._paths()):
            self._path(number).unlink()
            return False
        self._number = number
        for path in self._paths():
            if int(path.suffix[1:]) < number:
                path.unlink(missing_ok=True)
        return True

    def release(self) -> None:
        """Mark the file as released, so that the next process need not look for a heartbeat."""
        self._path(self._number).write_text(_RELEASED, encoding="utf-8")

    def _path(self, number: int) -> Path:
        return self._lock_path.with_name(f"{self._lock_path.name}.{number}")

    def _paths(self) -> list[Path]:
        """List all lock files. A listed folder is read again where a file system caches names."""
        prefix = f"{self._lock_path.name}."
        names = [name for name in os.listdir(self._lock_path.parent) if name.startswith(prefix)]
        return [
            self._lock_path.with_name(name) for name in names if name[len(prefix) :].isdecimal()
        ]
