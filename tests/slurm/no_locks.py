"""A file system whose locks fail, as an NFS does whose server answers no lockd: every one, in this
process.
"""

import contextlib
import errno
import fcntl
import os
from collections.abc import Iterator
from unittest import mock

LOCK_COMMANDS = frozenset({fcntl.F_GETLK, fcntl.F_SETLK, fcntl.F_SETLKW})


@contextlib.contextmanager
def no_locks() -> Iterator[None]:
    """Let it fail in the block to take a lock, and to ask about one."""
    original = fcntl.fcntl

    def refuse(*_: object) -> None:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    def control(descriptor: int, command: int, *argument: int | bytes) -> int | bytes:
        if command in LOCK_COMMANDS:
            refuse()
        return original(descriptor, command, *argument)

    with mock.patch.multiple(fcntl, lockf=refuse, flock=refuse, fcntl=control):
        yield
