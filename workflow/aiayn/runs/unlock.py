"""What a killed snakemake leaves in its working directory and in Slurm, and whether it may be cleaned up.

Left are its locks, which keep the next one from starting; Slurm jobs of its CPU rules, which the next one would start
a second time beside them; processes of local rules; and trainings, which the next one attaches to. Only what belongs to
drivers that are dead for certain is cleaned up.
"""

import os
import re
import shutil
import time
from pathlib import Path

import msgspec

from aiayn.errors import LaunchError, StateError
from aiayn.launch.slurm_queue import QueuedJob, cancel_jobs, find_jobs
from aiayn.runs.driver_mark import (
    LOCKS_FOLDER,
    SNAKEMAKE_FOLDER,
    DriverMark,
    Life,
    driver_life,
    list_locks,
    read_marks,
)

SECONDS_UNTIL_CANCELLED = 90.0  # Slurm's KillWait is 30 by default
POLL_SECONDS = 1.0
# What the executor plugin for Slurm prints first; all jobs of that snakemake bear it as their name.
_SLURM_NAME = re.compile(rb"SLURM run ID: (\S+)")
_HEAD_BYTES = 1 << 20
_LASTING_VERB = "train"  # a training's driver outlives snakemake on purpose


class RuleProcess(msgspec.Struct, frozen=True, kw_only=True):
    """A process of a local rule that lives on."""

    process: int
    command: str

    @property
    def may_stay(self) -> bool:
        """Whether it is a training's driver, which the next one waits for by itself."""
        return _LASTING_VERB in self.command.split(" ")[1:2]


class Driver(msgspec.Struct, frozen=True, kw_only=True):
    """A driver that left its mark: how it is, and what it has at work; `jobs` is None if Slurm does not answer."""

    mark_path: Path
    mark: DriverMark
    life: Life
    slurm_names: list[str]
    jobs: list[QueuedJob] | None
    processes: list[RuleProcess]


class Leftovers(msgspec.Struct, frozen=True, kw_only=True):
    """What there is in a working directory's `.snakemake`.

    `strange_jobs` are of a snakemake of this directory that left no mark; `strange_locks` are locks that no mark knows.
    """

    snakemake_folder: Path
    drivers: list[Driver]
    locks: list[str]
    strange_locks: list[str]
    strange_jobs: list[QueuedJob]

    @property
    def dead_drivers(self) -> list[Driver]:
        """The drivers that are dead for certain."""
        return [driver for driver in self.drivers if driver.life == "dead"]


def find_leftovers(folder: Path) -> Leftovers:
    """Look at what is in a working directory, in Slurm's queue and among this machine's processes; change nothing.

    Raises:
        StateError: if there is no such folder.
        RecordError: if a mark is damaged.
    """
    if not folder.is_dir():
        raise StateError(f"{folder}: no such folder; name the one where snakemake was at work")
    snakemake_folder = folder.resolve() / SNAKEMAKE_FOLDER
    marks = read_marks(snakemake_folder)
    names_by_log = _slurm_names_by_log(snakemake_folder)
    queue = find_jobs() if any(names_by_log.values()) else []
    alive = None if queue is None else [job for job in queue if job.is_alive]
    drivers = []
    for path, mark in marks.items():
        names = [name for log in mark.logs for name in names_by_log.pop(Path(log).name, [])]
        drivers.append(
            Driver(
                mark_path=path,
                mark=mark,
                life=driver_life(mark),
                slurm_names=names,
                jobs=_jobs_named(alive, names),
                processes=_rule_processes(mark),
            )
        )
    locks = list_locks(snakemake_folder)
    known = {(name, changed) for driver in drivers for name, changed in driver.mark.changed_ns_by_lock.items()}
    return Leftovers(
        snakemake_folder=snakemake_folder,
        drivers=drivers,
        locks=list(locks),
        strange_locks=[name for name, changed in locks.items() if (name, changed) not in known],
        strange_jobs=_jobs_named(alive, [name for names in names_by_log.values() for name in names]) or [],
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


def _rule_processes(mark: DriverMark) -> list[RuleProcess]:
    """Return the driver's own `aiayn` processes: of its process group, at work in its directory."""
    if driver_life(mark) == "unknown":
        return []
    found = []
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
            found.append(RuleProcess(process=process, command=" ".join(["aiayn", *words[names.index("aiayn") + 1 :]])))
    return sorted(found, key=lambda one: one.process)


def refusals(found: Leftovers) -> list[str]:
    """Return why the locks may not be removed, each with what to do; none if they may."""
    reasons = []
    for driver in found.drivers:
        who = f"snakemake {driver.mark.process} on {driver.mark.host}, begun {driver.mark.time}"
        if driver.life == "alive":
            reasons.append(
                f"{who}: is at work; wait for it, or end it in order: kill -INT {driver.mark.process} "
                "(or Ctrl-C in its terminal)"
            )
        elif driver.life == "unknown":
            reasons.append(
                f"{who}: whether it lives cannot be known from here; run `aiayn unlock` on {driver.mark.host}, in the "
                "same container if it was in one. If that machine is gone for good: "
                + "; ".join([*(f"scancel --name {name}" for name in driver.slurm_names), "snakemake --unlock"])
                + f"; rm {driver.mark_path}"
            )
        elif driver.jobs is None:
            reasons.append(f"{who}: is dead, but squeue does not say which of its jobs live; repeat when it answers")
        else:
            for process in (one for one in driver.processes if not one.may_stay):
                reasons.append(
                    f"{who}: is dead, its rule still works: process {process.process}, {process.command}; "
                    f"wait for its end, or end it: kill {process.process}"
                )
    if found.strange_jobs:
        numbers = " ".join(job.job for job in found.strange_jobs)
        reasons.append(
            f"Slurm jobs {numbers}: of a snakemake of this directory that left no mark; if you know that it is dead: "
            f"scancel {numbers}"
        )
    if found.strange_locks:
        reasons.append(
            f"{found.snakemake_folder / LOCKS_FOLDER}: {', '.join(found.strange_locks)} are of a snakemake without a "
            "mark: it is about to start, or was killed before its first job, or is of another pipeline. If none is at "
            "work in this directory, on any machine: `snakemake --unlock`"
        )
    return reasons


def planned(found: Leftovers) -> list[str]:
    """Return what `clean_up` would do, a line each."""
    jobs = [job.job for driver in found.dead_drivers for job in driver.jobs or []]
    lines = [f"would cancel Slurm jobs {' '.join(jobs)}"] if jobs else []
    if found.locks and not refusals(found):
        lines.append(f"would remove the locks in {found.snakemake_folder / LOCKS_FOLDER}")
    return lines


def clean_up(found: Leftovers) -> list[str]:
    """Cancel the Slurm jobs of dead drivers and wait for their end; remove the locks if nothing speaks against it.

    Returns what was done, a line each; what was found is looked at again before the locks go.

    Raises:
        LaunchError: if scancel fails, or a job does not end in time; locks and marks are as before then.
    """
    done = []
    for driver in found.dead_drivers:
        for name in sorted({job.name for job in driver.jobs or []}):
            _cancel_and_wait(name)
            numbers = " ".join(job.job for job in driver.jobs or [] if job.name == name)
            done.append(f"cancelled Slurm jobs {numbers}")
    found = find_leftovers(found.snakemake_folder.parent)
    if refusals(found):
        return done
    if found.locks:
        shutil.rmtree(found.snakemake_folder / LOCKS_FOLDER)  # as `snakemake --unlock` does
        done.append(f"removed the locks in {found.snakemake_folder / LOCKS_FOLDER}")
    for driver in found.dead_drivers:
        driver.mark_path.unlink(missing_ok=True)
        done.append(f"forgot snakemake {driver.mark.process}; the same command goes on from where it was")
    return done


def _cancel_and_wait(name: str) -> None:
    cancel_jobs(name)
    deadline = time.monotonic() + SECONDS_UNTIL_CANCELLED
    while time.monotonic() < deadline:
        jobs = find_jobs(name)
        if jobs is not None and not any(job.is_alive for job in jobs):
            return
        time.sleep(POLL_SECONDS)
    raise LaunchError(
        f"{name}: scancel was sent, but after {SECONDS_UNTIL_CANCELLED:.0f} s squeue still shows jobs of it, or does "
        "not answer; nothing was unlocked, repeat this later"
    )
