"""Takes locks on files, and checks whether a file is locked. The check does not take the lock, so
it does not disturb a process that takes the lock at the same moment.

The locks are POSIX record locks (`fcntl`), which NFS shares between machines. The operating system
frees a lock when the process that holds it ends.
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
# The answers of a file system without locks: NFS without lockd, Lustre mounted without `flock`.
_NO_LOCKS = (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP)
# A different process holds the lock. POSIX allows either answer.
_TAKEN = (errno.EACCES, errno.EAGAIN)
_RELEASED = "released"  # what a lock file contains at the end, in place of a host
_FLOCK = "hhqqi"  # Linux's struct flock: type, whence, start, length, process


def is_held(path: Path) -> bool | None:
    """Return whether a different process holds the lock of a file, or None on a file system that
    does not support locks. If the file is missing, return False.

    The process that holds the lock must not call this function: closing the file would release the
    lock (POSIX).
    """
    try:
        lock = path.open("rb")
    except FileNotFoundError:
        return False
    with lock:
        try:
            # The query F_GETLK does not take the lock. A test that takes it would make rank 0 fail
            # if rank 0 started at this moment. Start 0 and length 0 mean the whole file.
            flock = struct.pack(_FLOCK, fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
            kind, *_ = struct.unpack(_FLOCK, fcntl.fcntl(lock, fcntl.F_GETLK, flock))
        except OSError as error:
            if error.errno in _NO_LOCKS:
                return None
            raise
    # The kernel has set the type to F_UNLCK if the lock could be taken.
    return bool(kind != fcntl.F_UNLCK)


def take_lock(lock: IO[str], otherwise: str) -> bool | None:
    """Take the lock of an open file and return True. Return False if a different process holds the
    lock.

    On a file system that does not support locks, log a warning and return None. `otherwise`
    completes the warning: it is the problem that is not prevented without a lock.

    Raises:
        OSError: if the lock cannot be taken for a different reason, such as a broken disk.
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
    """A lock for file systems that do not support locks. The file `<lock>.<number>` with the
    highest number is the lock.

    A process takes the lock by creating the file with the next number exclusively, so only one of
    several processes can take the lock. The lock file contains the name of the host of the process.
    After the process has ended normally, the lock file contains `released`. If the lock file
    contains a host, the heartbeat shows whether the process is alive. The newest lock file is never
    removed, because after its removal two processes could create files with the same number.
    """

    def __init__(self, lock_path: Path) -> None:
        self._lock_path = lock_path
        numbers = [int(path.suffix[1:]) for path in self._paths()]
        self._number = max(numbers, default=0)

    def holder(self) -> str:
        """Return the name of the host in the newest lock file. Return '' if the process that wrote
        the file has released the lock, or if there are no lock files.
        """
        try:
            text = self._path(self._number).read_text(encoding="utf-8")
        except FileNotFoundError:
            return ""
        # An empty file is a file that its process has created and not written yet.
        return "" if text == _RELEASED else text or "an unknown host"

    def take(self) -> bool:
        """Take the lock by creating the next lock file. Return False if a different process was
        faster.
        """
        number = self._number + 1
        try:
            # Exclusive creation is atomic on file systems without locks, too.
            with self._path(number).open("x", encoding="utf-8") as file:
                file.write(platform.node())
        except FileExistsError:
            return False
        # Since `_number` was read, others may have taken higher numbers and removed this one.
        if any(int(path.suffix[1:]) > number for path in self._paths()):
            self._path(number).unlink()
            return False
        self._number = number
        for path in self._paths():
            if int(path.suffix[1:]) < number:
                path.unlink(missing_ok=True)
        return True

    def release(self) -> None:
        """Mark the lock file as released, so that no process need look for a heartbeat."""
        self._path(self._number).write_text(_RELEASED, encoding="utf-8")

    def _path(self, number: int) -> Path:
        return self._lock_path.with_name(f"{self._lock_path.name}.{number}")

    def _paths(self) -> list[Path]:
        """Return all lock files in the folder. The folder is listed, because a network file system
        may cache whether a name exists.
        """
        prefix = f"{self._lock_path.name}."
        names = [name for name in os.listdir(self._lock_path.parent) if name.startswith(prefix)]
        return [
            self._lock_path.with_name(name) for name in names if name[len(prefix) :].isdecimal()
        ]
