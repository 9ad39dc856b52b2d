"""Renders what a killed snakemake left behind, for a terminal."""

from collections.abc import Sequence

from aiayn.runs.status import RunStatus
from aiayn.runs.unlock import Driver, Leftovers

INDENT = "  "
NUM_SHOWN_JOBS = 10


def render_leftovers(found: Leftovers, statuses: Sequence[RunStatus]) -> str:
    """Return what there is, what it means, and which trainings go on."""
    lines = []
    for driver in found.drivers:
        lines += _driver_lines(driver)
    if found.locks:
        lines.append(f"locks: {', '.join(found.locks)}: no other snakemake that wants the same files starts meanwhile")
    if not lines:
        lines.append(f"{found.snakemake_folder}: no locks, no driver; nothing to clean up")
    alive = [status for status in statuses if status.is_alive]
    if alive:
        lines += ["", "trainings that go on; the next start attaches to them, `aiayn cancel RUN` ends one:"]
        lines += [INDENT + _run_line(status) for status in alive]
    return "\n".join(lines) + "\n"


def _driver_lines(driver: Driver) -> list[str]:
    mark = driver.mark
    life = {"alive": "at work", "dead": "dead", "unknown": "not to be seen from here"}[driver.life]
    lines = [f"snakemake: process {mark.process} on {mark.host}, begun {mark.time}: {life}"]
    if driver.slurm_names:
        none_left = "" if driver.jobs or driver.jobs is None else "; none of them is left"
        lines.append(f"{INDENT}its Slurm jobs are named {', '.join(driver.slurm_names)}{none_left}")
    if driver.jobs is None:
        lines.append(f"{INDENT}Slurm jobs: not known, squeue does not answer")
    for job in (driver.jobs or [])[:NUM_SHOWN_JOBS]:
        lines.append(f"{INDENT}Slurm job {job.job}: {job.state.lower()} {job.node or f'({job.reason})'}")
    if driver.jobs is not None and len(driver.jobs) > NUM_SHOWN_JOBS:
        lines.append(f"{INDENT}and {len(driver.jobs) - NUM_SHOWN_JOBS} more")
    for process in driver.processes:
        lines.append(f"{INDENT}process {process.process} works on: {process.command}")
    return lines


def _run_line(status: RunStatus) -> str:
    job = " ".join(part for part in (status.launcher, "job" if status.job else "", status.job) if part)
    where = status.host or (f"({status.reason})" if status.reason else "")
    return "  ".join(part for part in (status.run, status.state, job, where) if part)
