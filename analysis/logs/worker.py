"""Reads logs in processes of their own: `python -m analysis.logs.worker` takes paths, and gives what the files hold.

A program of its own and no pool of `multiprocessing`: that imports the caller's main module again in every process,
which costs more than reading, and fails where a caller is no module.
"""

import contextlib
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import msgspec

import aiayn
from aiayn.errors import RecordError
from analysis.logs.reader import read_log
from analysis.logs.types import LogFile, LogStruct


class ReadLog(LogStruct, frozen=True, kw_only=True):
    """What one file holds, and the digest of its bytes; '' if they could not all be read."""

    file: LogFile
    digest: str


def read_one(path: str) -> ReadLog:
    """Read one file in this process; one that cannot be read has a refusal that says so."""
    log_file, digest = read_log(Path(path))
    return ReadLog(file=log_file, digest=digest)


def size_of(path: str) -> int:
    """Return a file's size in bytes; 0 if the system does not tell it, which reading will say."""
    try:
        return os.path.getsize(path)
    except OSError:
        return 0


def read_in_processes(paths: Sequence[str], num_processes: int) -> list[ReadLog]:
    """Read files on so many processes, the largest first and in turn; the result is in the order of `paths`.

    Raises:
        RecordError: if a process dies.
    """
    by_size = sorted(range(len(paths)), key=lambda index: -size_of(paths[index]))
    shares = [by_size[first::num_processes] for first in range(num_processes)]
    folders = [str(Path(module).resolve().parents[1]) for module in (__file__, aiayn.__file__ or __file__)]
    inherited = os.environ.get("PYTHONPATH", "")
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([*folders, *([inherited] if inherited else [])])}
    command = [sys.executable, "-m", "analysis.logs.worker"]
    workers = [
        subprocess.Popen(command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE) for _ in shares
    ]
    for worker, share in zip(workers, shares, strict=True):  # all begin before the first is waited for
        if worker.stdin is not None:
            with contextlib.suppress(BrokenPipeError):  # it died; its exit code will say so
                worker.stdin.write(msgspec.json.encode([paths[index] for index in share]))
                worker.stdin.close()
            worker.stdin = None
    found: dict[int, ReadLog] = {}
    for worker, share in zip(workers, shares, strict=True):
        output, _ = worker.communicate()
        if worker.returncode:
            raise RecordError(f"a process that read logs died (exit code {worker.returncode}); its message is above")
        found |= dict(zip(share, msgspec.msgpack.decode(output, type=list[ReadLog]), strict=True))
    return [found[index] for index in range(len(paths))]


def main() -> None:
    """Read the files whose paths stand on standard input, and write what they hold to standard output."""
    results = [read_one(path) for path in msgspec.json.decode(sys.stdin.buffer.read(), type=list[str])]
    sys.stdout.buffer.write(msgspec.msgpack.encode(results))


if __name__ == "__main__":
    main()
