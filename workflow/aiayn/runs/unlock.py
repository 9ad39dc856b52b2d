"""Finds what a killed snakemake leaves in its working directory and in Slurm, and cleans it up where that is safe.

Each snakemake writes a mark when it starts its jobs (the Snakefile's `onstart`, which snakemakes inside Slurm jobs do
not run: they are started with --no-hooks), and removes it at its end, but not after KILL, HUP or a crash of the
machine: a mark whose process has ended is of a driver that left something behind. That may be locks, which keep the
next snakemake from starting; Slurm jobs of CPU rules, which the next would start a second time; processes of local
rules; and trainings, to which the next attaches. Only leftovers of drivers that have certainly ended are cleaned up.
"""

import atexit
import os
import platform
import re
import shutil
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import msgspec

from aiayn.errors import LaunchError, RecordError, StateError
from aiayn.provenance import replace_on_success, utc_now
from aiayn.runs.queue import JobQueue, QueuedJob
from aiayn.runs.status import RunStatus

SNAKEMAKE_FOLDER = ".snakemake"
MARKS_FOLDER = "aiayn_drivers"
LOCKS_FOLDER = "locks"  # snakemake's own
SECONDS_UNTIL_CANCELLED = 90.0  # Slurm's KillWait is 30 by default
POLL_SECONDS = 1.0
NUM_SHOWN_JOBS = 10
DriverState = Literal["running", "ended", "unknown"]
_WORDS_BY_STATE = {"running": "is running", "ended": "has ended", "unknown": "cannot be seen from here"}
# What the executor plugin for Slurm prints first; all jobs of that snakemake bear it as their name.
_SLURM_NAME = re.compile(rb"SLURM run ID: (\S+)")
_HEAD_BYTES = 1 << 20
_LASTING_COMMAND = "aiayn train"  # a training's driver continues without snakemake, and the next one waits for it
_BOOT_ID_PATH = Path("/proc/sys/kernel/random/boot_id")


class DriverMark(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A snakemake at work: where, since when, its logs, and the lock files that it saw, by their time of change.

    `process_start` is in the kernel's ticks since `boot`, 0 where the system has none (not Linux); a process
    number alone may be another's by now. `namespace` distinguishes containers of one machine, which cannot see one
    another's processes.
    """

    time: str
    host: str
    boot: str
    namespace: str
    process: int
    process_start: int
    process_group: int
    folder: str
    logs: list[str]
    changed_ns_by_lock: dict[str, int]


class Driver(msgspec.Struct, frozen=True, kw_only=True):
    """A driver with a mark: its state, jobs and processes; `jobs` is None if Slurm does not answer."""

    mark_path: Path
    mark: DriverMark
    state: DriverState
    slurm_names: list[str]
    jobs: list[QueuedJob] | None
    command_by_process: dict[int, str]

    @property
    def title(self) -> str:
        """Which snakemake it is."""
        return f"snakemake {self.mark.process} on {self.mark.host}, begun {self.mark.time}"


class Leftovers(msgspec.Struct, frozen=True, kw_only=True):
    """The leftovers in a working directory's `.snakemake`; `unmarked_` jobs and locks are of no driver with a mark."""

    snakemake_folder: Path
    drivers: list[Driver]
    locks: list[str]
    unmarked_locks: list[str]
    unmarked_jobs: list[QueuedJob]

    @property
    def ended_drivers(self) -> list[Driver]:
        """The drivers that have certainly ended."""
        return [driver for driver in self.drivers if driver.state == "ended"]


def mark_driver(logs: Sequence[str], folder: Path | None = None) -> None:
    """Write this process's mark below a working directory (default: the current one), until it ends."""
    folder = (folder or Path.cwd()).resolve()
    snakemake_folder = folder / SNAKEMAKE_FOLDER
    mark = DriverMark(
        time=utc_now(),
        host=platform.node(),
        boot=_boot(),
        namespace=_namespace(),
        process=os.getpid(),
        process_start=start_of_process(os.getpid()) or 0,
        process_group=os.getpgid(0),
        folder=str(folder),
        logs=[str(log) for log in logs],
        changed_ns_by_lock=list_locks(snakemake_folder),
    )
    path = snakemake_folder / MARKS_FOLDER / f"{mark.host}-{mark.process}-{mark.process_start}.json"
    with replace_on_success(path) as partial_path:
        partial_path.write_bytes(msgspec.json.format(msgspec.json.encode(mark), indent=1) + b"\n")
    atexit.register(_remove_own, path, mark.process)


def _remove_own(path: Path, process: int) -> None:
    if os.getpid() == process:  # and not a fork of it
        path.unlink(missing_ok=True)


def list_locks(snakemake_folder: Path) -> dict[str, int]:
    """Return snakemake's lock files and when each was last changed (nanoseconds since 1970)."""
    paths = sorted((snakemake_folder / LOCKS_FOLDER).glob("*.lock"))
    return {path.name: path.stat().st_mtime_ns for path in paths}


def read_marks(snakemake_folder: Path) -> dict[Path, DriverMark]:
    """Return all marks by their files, oldest first.

    Raises:
        RecordError: naming a file that holds none.
    """
    marks = {}
    for path in sorted((snakemake_folder / MARKS_FOLDER).glob("*.json")):
        try:
            marks[path] = msgspec.json.decode(path.read_bytes(), type=DriverMark)
        except FileNotFoundError:
            continue  # its driver ended just now
        except (msgspec.DecodeError, msgspec.ValidationError) as error:
            raise RecordError(
                f"{path}: not a driver's mark: {error}; make sure that no snakemake is running here, then delete it"
            ) from error
    return dict(sorted(marks.items(), key=lambda entry: entry[1].time))


def driver_state(mark: DriverMark) -> DriverState:
    """Return whether the driver is running; `unknown` on another machine or in another container."""
    if mark.host != platform.node():
        return "unknown"
    if mark.boot != _boot():
        return "ended"  # the machine has booted since
    if mark.namespace != _namespace() or not mark.process_start:
        return "unknown"
    return "running" if start_of_process(mark.process) == mark.process_start else "ended"


def start_of_process(process: int) -> int | None:
    """Return when a process began, in ticks since boot; None if there is no such process, or it is a zombie."""
    try:
        text = Path(f"/proc/{process}/stat").read_text(encoding="utf-8", errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        return None
    fields = text.rpartition(") ")[2].split(" ")  # a process's name, in parentheses, may hold blanks
    return None if fields[0] in ("Z", "X") else int(fields[19])


def _boot() -> str:
    return _BOOT_ID_PATH.read_text(encoding="utf-8").strip() if _BOOT_ID_PATH.exists() else ""


def _namespace() -> str:
    try:
        return os.readlink("/proc/self/ns/pid")
    except OSError:
        return ""


def find_leftovers(folder: Path, queue: JobQueue) -> Leftovers:
    """Look at a working directory, Slurm's queue and this machine's processes; change nothing.

    Raises:
        StateError: if there is no such folder.
        RecordError: if a mark is damaged.
    """
    if not folder.is_dir():
        raise StateError(f"{folder}: no such folder; name the one where snakemake ran")
    snakemake_folder = folder.resolve() / SNAKEMAKE_FOLDER
    marks = read_marks(snakemake_folder)
    names_by_log = _slurm_names_by_log(snakemake_folder)
    queued = queue.find_jobs() if any(names_by_log.values()) else []
    alive = None if queued is None else [job for job in queued if job.is_alive]
    drivers = []
    for path, mark in marks.items():
        names = [name for log in mark.logs for name in names_by_log.pop(Path(log).name, [])]
        drivers.append(
            Driver(
                mark_path=path,
                mark=mark,
                state=driver_state(mark),
                slurm_names=names,
                jobs=_jobs_named(alive, names),
                command_by_process=_commands_of(mark),
            )
        )
    locks = list_locks(snakemake_folder)
    known = {(name, changed) for driver in drivers for name, changed in driver.mark.changed_ns_by_lock.items()}
    return Leftovers(
        snakemake_folder=snakemake_folder,
        drivers=drivers,
        locks=list(locks),
        unmarked_locks=[name for name, changed in locks.items() if (name, changed) not in known],
        unmarked_jobs=_jobs_named(alive, [name for names in names_by_log.values() for name in names]) or [],
    )


def _jobs_named(jobs: list[QueuedJob] | None, names: list[str]) -> list[QueuedJob] | None:
    if not names:
        return []
    return None if jobs is None else [job for job in jobs if job.name in names]


def _slurm_names_by_log(snakemake_folder: Path) -> dict[str, list[str]]:
    names = {}
    for path in sorted((snakemake_folder / "log").glob("*.snakemake.log")):
        with path.open("rb") as log:
            names[path.name] = [name.decode() for name in _SLURM_NAME.findall(log.read(_HEAD_BYTES))]
    return names


def _commands_of(mark: DriverMark) -> dict[int, str]:
    """Return the driver's own `aiayn` commands by process: those of its process group, in its directory."""
    if driver_state(mark) == "unknown":
        return {}
    found = {}
    for path in Path("/proc").glob("[0-9]*"):
        process = int(path.name)
        try:
            if os.getpgid(process) != mark.process_group or os.readlink(path / "cwd") != mark.folder:
                continue
            words = (path / "cmdline").read_bytes().decode("utf-8", errors="replace").rstrip("\0").split("\0")
        except (OSError, ProcessLookupError):
            continue  # it ended, or is not ours to look at
        names = [Path(word).name for word in words[:2]]  # `python .../bin/aiayn VERB`, or `aiayn VERB`
        if "aiayn" in names:
            found[process] = " ".join(["aiayn", *words[names.index("aiayn") + 1 :]])
    return dict(sorted(found.items()))


def reasons_against_unlocking(found: Leftovers) -> list[str]:
    """Return the reasons to keep the locks, each with what to do; none if they may be removed."""
    reasons = []
    for driver in found.drivers:
        if driver.state == "running":
            reasons.append(
                f"{driver.title}: is running; wait for it, or end it in order: kill -INT {driver.mark.process} "
                "(or Ctrl-C in its terminal)"
            )
        elif driver.state == "unknown":
            reasons.append(
                f"{driver.title}: whether it is running cannot be seen from here; run `aiayn unlock` on "
                f"{driver.mark.host}, in the same container if it was in one. If that machine is gone for good: "
                + "; ".join([*(f"scancel --name {name}" for name in driver.slurm_names), "snakemake --unlock"])
                + f"; rm {driver.mark_path}"
            )
        elif driver.jobs is None:
            reasons.append(
                f"{driver.title}: has ended, but squeue does not answer: its jobs are unknown; repeat the command later"
            )
        else:
            reasons += [
                f"{driver.title}: has ended, its rule is running: process {process}, {command}; wait for its end, or "
                f"end it: kill {process}"
                for process, command in driver.command_by_process.items()
                if not f"{command} ".startswith(f"{_LASTING_COMMAND} ")
            ]
    if found.unmarked_jobs:
        numbers = " ".join(job.job for job in found.unmarked_jobs)
        reasons.append(
            f"Slurm jobs {numbers}: of a snakemake of this directory without a mark; if you know that it has ended: "
            f"scancel {numbers}"
        )
    if found.unmarked_locks:
        reasons.append(
            f"{found.snakemake_folder / LOCKS_FOLDER}: {', '.join(found.unmarked_locks)} are of a snakemake without a "
            "mark: it is about to start, or was killed before its first job, or is of another pipeline. If none is "
            "running in this directory, on any machine: `snakemake --unlock`"
        )
    return reasons


def clean_up(found: Leftovers, queue: JobQueue, *, is_dry_run: bool) -> list[str]:
    """Cancel the Slurm jobs of ended drivers, wait for their end, and remove the locks if that is safe.

    Returns what was done, or would be, a line each; it looks again before it removes the locks.

    Raises:
        LaunchError: if scancel fails, or a job does not end in time; locks and marks then stay.
    """
    done = []
    for driver in found.ended_drivers:
        if driver.jobs:
            for name in [] if is_dry_run else sorted({job.name for job in driver.jobs}):
                _cancel_and_wait(name, queue)
            numbers = " ".join(job.job for job in driver.jobs)
            done.append(f"{'would cancel' if is_dry_run else 'cancelled'} Slurm jobs {numbers}")
    found = found if is_dry_run else find_leftovers(found.snakemake_folder.parent, queue)
    if reasons_against_unlocking(found):
        return done
    locks_folder = found.snakemake_folder / LOCKS_FOLDER
    if found.locks:
        if not is_dry_run:
            shutil.rmtree(locks_folder)  # as `snakemake --unlock` does
        done.append(f"{'would remove' if is_dry_run else 'removed'} the locks in {locks_folder}")
    if not is_dry_run:
        for driver in found.ended_drivers:
            driver.mark_path.unlink(missing_ok=True)
            done.append(f"removed the mark of snakemake {driver.mark.process}; the same command resumes its work")
    return done


def _cancel_and_wait(name: str, queue: JobQueue) -> None:
    queue.cancel_jobs(name)
    deadline = time.monotonic() + SECONDS_UNTIL_CANCELLED
    while time.monotonic() < deadline:
        jobs = queue.find_jobs(name)
        if jobs is not None and not any(job.is_alive for job in jobs):
            return
        time.sleep(POLL_SECONDS)
    raise LaunchError(
        f"{name}: scancel was sent, but after {SECONDS_UNTIL_CANCELLED:.0f} s squeue still shows jobs of it, or does "
        "not answer; nothing was unlocked, repeat the command later"
    )


def render_leftovers(found: Leftovers, statuses: Sequence[RunStatus]) -> str:
    """Return the leftovers, what they mean, and which trainings continue."""
    lines = [line for driver in found.drivers for line in _driver_lines(driver)]
    if found.locks:
        lines.append(f"locks: {', '.join(found.locks)}: they keep another snakemake of the same files from starting")
    if not lines:
        lines.append(f"{found.snakemake_folder}: no locks, no driver; nothing to clean up")
    alive = [status for status in statuses if status.is_alive]
    if alive:
        lines += ["", "trainings that continue; the next start attaches to them, `aiayn cancel RUN` ends one:"]
    for status in alive:
        job = " ".join(part for part in (status.launcher, "job" if status.job else "", status.job) if part)
        where = status.host or (f"({status.reason})" if status.reason else "")
        lines.append("  " + "  ".join(part for part in (status.run, status.state, job, where) if part))
    return "\n".join(lines) + "\n"


def _driver_lines(driver: Driver) -> list[str]:
    mark, jobs = driver.mark, driver.jobs or []
    lines = []
    if driver.slurm_names:
        none_left = "" if driver.jobs != [] else "; none of them is left"
        lines.append(f"its Slurm jobs are named {', '.join(driver.slurm_names)}{none_left}")
    if driver.jobs is None:
        lines.append("Slurm jobs: unknown, squeue does not answer")
    lines += [
        f"Slurm job {job.job}: {job.state.lower()} {job.node or f'({job.reason})'}" for job in jobs[:NUM_SHOWN_JOBS]
    ]
    lines += [f"and {len(jobs) - NUM_SHOWN_JOBS} more"] if len(jobs) > NUM_SHOWN_JOBS else []
    lines += [f"process {process} is running: {command}" for process, command in driver.command_by_process.items()]
    title = f"snakemake: process {mark.process} on {mark.host}, begun {mark.time}: {_WORDS_BY_STATE[driver.state]}"
    return [title, *(f"  {line}" for line in lines)]
