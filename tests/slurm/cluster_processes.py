"""The cluster's processes: daemons started in the foreground of their own, known by number and time
of birth.

A process number alone may be another process's by the time it is signalled.
"""

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

POLL_SECONDS = 0.05
LONGEST_END_SECONDS = 10.0  # from TERM to KILL
DAEMON_NAMES = (
    "munged",
    "mariadbd",
    "slurmdbd",
    "slurmctld",
    "slurmscriptd",
    "slurmd",
    "slurmstepd",
)


class ClusterError(Exception):
    """The cluster could not be brought up or down. The message says where to look."""


class ClusterUnavailableError(ClusterError):
    """This machine cannot have the cluster: no root, no apt-get, or no packages. Tests skip with
    the message.
    """


def wait_until(is_so: Callable[[], bool], seconds: float, what: str) -> None:
    """Wait until something is so.

    Raises:
        ClusterError: naming `what`, if it is not so after `seconds`.
    """
    deadline = time.monotonic() + seconds
    while not is_so():
        if time.monotonic() > deadline:
            raise ClusterError(f"waited {seconds:g} s for {what}")
        time.sleep(POLL_SECONDS)


def birth_of(process: int) -> str | None:
    """Return when a process was born, in the kernel's ticks; None if it is gone, or a zombie."""
    try:
        # The command, in parentheses, may hold spaces; state and birth are fields 3 and 22 of the
        # whole line.
        fields = (
            Path(f"/proc/{process}/stat")
            .read_text(encoding="utf-8", errors="replace")
            .rpartition(") ")[2]
            .split()
        )
    except OSError:
        return None
    return None if fields[0] in ("Z", "X") else fields[19]


def start_daemon(
    command: Sequence[str], *, pid_path: Path, log_path: Path, environment: Mapping[str, str]
) -> None:
    """Start a daemon that outlives this process, and note who it is."""
    with log_path.open("ab") as log:
        process = subprocess.Popen(
            command,
            cwd=pid_path.parent,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    pid_path.write_text(f"{process.pid} {birth_of(process.pid)}\n", encoding="utf-8")


def daemon_process(pid_path: Path) -> int | None:
    """Return a daemon's process number while it lives."""
    try:
        number, birth = pid_path.read_text(encoding="utf-8").split()
    except (OSError, ValueError):
        return None
    return int(number) if birth_of(int(number)) == birth else None


def end_process(process: int, number: signal.Signals = signal.SIGTERM) -> None:
    """Signal a process and return when it is gone. KILL follows a signal that did nothing."""
    birth = birth_of(process)

    def is_gone() -> bool:
        with contextlib.suppress(ChildProcessError):
            os.waitpid(process, os.WNOHANG)  # a child of ours stays a zombie otherwise
        return birth_of(process) != birth

    if birth is None:
        return
    with contextlib.suppress(ProcessLookupError):
        os.kill(process, number)
    try:
        wait_until(is_gone, LONGEST_END_SECONDS, f"the end of process {process}")
    except ClusterError:
        os.kill(process, signal.SIGKILL)
        wait_until(is_gone, LONGEST_END_SECONDS, f"the end of process {process} after KILL")


def processes_of(folder: Path) -> list[int]:
    """Return all living processes of the cluster in a folder: daemons, and what its jobs started.

    Commands of the cluster's users are none of them, though they have its SLURM_CONF: no job is
    theirs.
    """
    numbers = [int(path.name) for path in Path("/proc").iterdir() if path.name.isdigit()]
    return [
        number
        for number in numbers
        if number != os.getpid() and _belongs(number, folder) and birth_of(number)
    ]


def _belongs(number: int, folder: Path) -> bool:
    try:
        name = Path(f"/proc/{number}/comm").read_text(encoding="utf-8", errors="replace").strip()
        command = Path(f"/proc/{number}/cmdline").read_bytes().split(b"\0")
        variables = Path(f"/proc/{number}/environ").read_bytes().split(b"\0")
        is_daemon = name in DAEMON_NAMES
        opened = (
            [os.readlink(path) for path in Path(f"/proc/{number}/fd").iterdir()]
            if is_daemon
            else []
        )
    except OSError:  # gone meanwhile
        return False
    below = os.fsencode(folder) + b"/"
    has_cluster = any(variable.startswith(b"SLURM_CONF=" + below) for variable in variables)
    if is_daemon:
        return (
            has_cluster
            or any(below in word for word in command)
            or any(str(folder) + "/" in path for path in opened)
        )
    return has_cluster and any(variable.startswith(b"SLURM_JOB_ID=") for variable in variables)


def processes_on_node(folder: Path, node: str) -> list[int]:
    """Return what would be gone if a node lost its power: its slurmd, and all of its jobs'
    processes.
    """
    return [number for number in processes_of(folder) if _is_on_node(number, node)]


def _is_on_node(number: int, node: str) -> bool:
    try:
        command = Path(f"/proc/{number}/cmdline").read_bytes().split(b"\0")
        variables = Path(f"/proc/{number}/environ").read_bytes().split(b"\0")
        opened = [os.readlink(path) for path in Path(f"/proc/{number}/fd").iterdir()]
    except OSError:
        return False
    is_its_slurmd = [b"-N", node.encode()] == [word for word in command if word][-2:]
    is_its_step = any(path.endswith(f"/slurmd.{node}.log") for path in opened)
    return is_its_slurmd or is_its_step or f"SLURMD_NODENAME={node}".encode() in variables
