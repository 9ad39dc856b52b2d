"""What a command costs: wall and CPU seconds, and the most memory that it and all its processes held at one time.

Memory is the sum of proportional set sizes (/proc/*/smaps_rollup), in which a page that several processes share is
counted once; resident set sizes would count it for each. It is sampled, as often as it takes SAMPLING_FRACTION of a
core; a peak between two samples is missed. CPU time is the system's own count of all processes that were waited for, or
the sum of what was last seen of each where that is more (a process that nobody waits for is in no count). Linux alone.
"""

import ctypes
import os
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

MIN_SECONDS_BETWEEN_SAMPLES = 0.2
SECONDS_BETWEEN_LOOKS = 0.02  # whether the command has ended
SAMPLING_FRACTION = 0.02
_CLOCK_TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")
_NUM_LOG_LINES_SHOWN = 20
_LIBC = ctypes.CDLL(None)
_PR_SET_PDEATHSIG = 1  # linux/prctl.h


@dataclass(frozen=True)
class Cost:
    """Seconds, and peak memory in MiB."""

    wall_seconds: float = 0.0
    cpu_seconds: float = 0.0
    peak_mib: float = 0.0

    def then(self, other: "Cost") -> "Cost":
        """Return the cost of one after the other."""
        return Cost(
            self.wall_seconds + other.wall_seconds,
            self.cpu_seconds + other.cpu_seconds,
            max(self.peak_mib, other.peak_mib),
        )


@dataclass(frozen=True)
class Command:
    """A command, with the files that are its standard input and output; without the latter that goes to the log."""

    arguments: Sequence[str]
    stdin_path: Path | None = None
    stdout_path: Path | None = None


class CommandFailedError(Exception):
    """A command ended badly; its last words are in the message."""


def run_measured(command: Command, *, log_path: Path, environment: Mapping[str, str]) -> Cost:
    """Run a command to its end and return what it cost; standard error is appended to the log.

    Raises:
        CommandFailedError: if it exits with anything but 0.
    """
    begun_at = time.monotonic()
    with (
        log_path.open("ab") as log,
        (command.stdin_path or Path(os.devnull)).open("rb") as stdin,
        (command.stdout_path or log_path).open("wb" if command.stdout_path else "ab") as stdout,
    ):
        process = subprocess.Popen(
            command.arguments, stdin=stdin, stdout=stdout, stderr=log, env=environment,
            preexec_fn=_end_with_parent,  # noqa: PLW1509 (this process has no threads)
        )  # fmt: skip
        try:
            cost, status = _watch(process.pid)
        except BaseException:
            process.kill()
            raise
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        lines = log_path.read_text(encoding="utf-8", errors="replace").splitlines()[-_NUM_LOG_LINES_SHOWN:]
        raise CommandFailedError(
            f"{' '.join(command.arguments)}\nexited with {process.returncode}; the end of {log_path}:\n"
            + "\n".join(lines)
        )
    return replace(cost, wall_seconds=time.monotonic() - begun_at)


def _end_with_parent() -> None:
    """Have the kernel kill this process when its parent ends, even by SIGKILL: a later start would meet its writes."""
    _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def _watch(pid: int) -> tuple[Cost, int]:
    """Sample a process and its descendants until it ends; return CPU time and peak memory, and its wait status."""
    peak_kib, next_sample_at = 0, 0.0
    cpu_seconds_by_pid: dict[int, float] = {}
    while True:
        if (now := time.monotonic()) >= next_sample_at:
            begun_at = time.thread_time()
            pids = _with_descendants(pid)
            peak_kib = max(peak_kib, sum(_memory_kib(one) for one in pids))
            cpu_seconds_by_pid.update({one: seconds for one in pids if (seconds := _cpu_seconds(one)) is not None})
            taken = time.thread_time() - begun_at
            next_sample_at = now + max(MIN_SECONDS_BETWEEN_SAMPLES, taken / SAMPLING_FRACTION)
        ended_pid, status, usage = os.wait4(pid, os.WNOHANG)
        if ended_pid == pid:
            counted = usage.ru_utime + usage.ru_stime
            cost = Cost(cpu_seconds=max(counted, sum(cpu_seconds_by_pid.values())), peak_mib=peak_kib / 1024)
            return cost, status
        time.sleep(SECONDS_BETWEEN_LOOKS)


def _with_descendants(pid: int) -> list[int]:
    """Return a process and all below it."""
    found = [pid]
    for one in found:  # grows as it is walked through
        for children_path in Path(f"/proc/{one}/task").glob("*/children"):
            found += [int(child) for child in _read(children_path).split()]
    return found


def _memory_kib(pid: int) -> int:
    for line in _read(Path(f"/proc/{pid}/smaps_rollup")).splitlines():
        if line.startswith("Pss:"):
            return int(line.split()[1])
    return 0


def _cpu_seconds(pid: int) -> float | None:
    fields = _read(Path(f"/proc/{pid}/stat")).rpartition(")")[2].split()  # a name may hold blanks
    return (int(fields[11]) + int(fields[12])) / _CLOCK_TICKS_PER_SECOND if fields else None


def _read(path: Path) -> str:
    """Return a text of /proc, '' for a process that has ended."""
    try:
        return path.read_text(encoding="utf-8")
    except (FileNotFoundError, ProcessLookupError, PermissionError):
        return ""
