"""The driver of one training: submits, waits, shows progress, resumes what died, and copies the finished run's record.

It imports no torch. What is true is `<run folder>/done.json`, written by the job's rank 0; everything else is told in
attempts.jsonl. A driver that is killed leaves its job running; the next one waits for it.
"""

import contextlib
import errno
import fcntl
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import IO

import msgspec

from aiayn.clock import MACHINE_CLOCK, STEP_SECONDS, Clock
from aiayn.errors import LaunchError, RunError
from aiayn.launch.cluster_spec import ClusterSpec
from aiayn.launch.code_snapshot import choose_code
from aiayn.launch.ends import Tries, describe_place, judge_local_end, judge_slurm_end
from aiayn.launch.interruption import Interruption
from aiayn.launch.job import TrainingRequest
from aiayn.launch.local_driver import attend_local_job
from aiayn.launch.slurm_driver import SlurmDriver
from aiayn.launch.slurm_queue import SilentQueue, ask_queue, has_slurm
from aiayn.records import read_train_record, write_record
from aiayn.runs import attempts
from aiayn.runs.jobs import read_jobs
from aiayn.runs.life import is_being_trained

logger = logging.getLogger(__name__)


def drive(
    request: TrainingRequest,
    *,
    launcher: str,
    record_path: Path,
    fresh: bool = False,
    cluster: ClusterSpec | None = None,
    clock: Clock = MACHINE_CLOCK,
) -> None:
    """Bring one run to its end and copy its record to `record_path`; the launcher `slurm` needs a `cluster`.

    Raises:
        RunError: if the run failed, was stopped or cancelled, or died thrice without progress; exit code 3, no record.
        KeyboardInterrupt: after Ctrl-C: once a local job has saved, at once where Slurm goes on with it.
    """
    run_folder = request.folder
    run_folder.mkdir(parents=True, exist_ok=True)
    with Interruption().installed() as interruption, _driver_lock(request, interruption, clock):
        if fresh:
            _refuse_living_slurm_job(request, "end it before `--fresh`")
            _set_aside(run_folder)
        if not attempts.is_done(run_folder):
            if launcher != "slurm":
                _refuse_living_slurm_job(request, "wait for it there: `--launcher slurm`")
            _train_to_the_end(request, launcher, cluster, interruption, clock)
    # Not copied byte by byte: what it names is named from where it lies.
    write_record(read_train_record(run_folder / attempts.DONE_NAME, run_folder.parent), record_path)
    logger.info(f"{request.run}: done, record {record_path}")


def _train_to_the_end(
    request: TrainingRequest,
    launcher: str,
    cluster: ClusterSpec | None,
    interruption: Interruption,
    clock: Clock,
) -> None:
    """Let one job follow the other until the run is done, or must not go on."""
    run_folder = request.folder
    slurm = None if cluster is None or launcher != "slurm" else SlurmDriver(request, cluster, interruption, clock)
    code_folder = None
    if launcher == "local":
        code = choose_code(request)  # once a driver: later jobs run it, too
        request, code_folder = msgspec.structs.replace(request, commit=code.commit), code.folder
    tries, num_jobs = Tries(request, cluster), 0
    while True:
        update_before, num_events_before = attempts.newest_update(run_folder), len(attempts.read_events(run_folder))
        end = slurm.attend_job(num_earlier_jobs=num_jobs) if slurm else None
        if end is None:
            attend_local_job(request, launcher, interruption, code_folder)
        if attempts.is_done(run_folder):
            return
        new_events = attempts.read_events(run_folder)[num_events_before:]
        if end is None:
            judge_local_end(request, new_events, interruption)
        else:
            judge_slurm_end(request, new_events, end)
        tries.count(end, has_progress=attempts.newest_update(run_folder) > update_before)
        num_jobs += max(1, sum(isinstance(event, attempts.Started) for event in new_events))
        if cluster is not None and slurm and num_jobs >= cluster.max_num_jobs:
            raise RunError(
                f"{request.run}: {describe_place(request)} after {num_jobs} jobs of {cluster.time_limit_minutes} "
                f"minutes, the most that cluster {cluster.name} allows (max_num_jobs); the same command goes on from "
                "there"
            )


@contextlib.contextmanager
def _driver_lock(request: TrainingRequest, interruption: Interruption, clock: Clock) -> Iterator[None]:
    """Let one driver at a time look and submit; freed by the system when its owner dies."""
    with (request.folder / attempts.DRIVER_LOCK_NAME).open("w") as lock:
        has_said = False
        while not _try_lock(lock):
            if not has_said:
                logger.info(f"{request.run}: another driver is at work on this run; waiting for it")
                has_said = True
            interruption.raise_if_any(f"{request.run}: another driver goes on with it")
            clock.pause(STEP_SECONDS)
        yield


def _try_lock(lock: IO[str]) -> bool:
    """Take a lock, or return False if another process has it; on a file system without locks nobody is kept out."""
    try:
        fcntl.lockf(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno not in (errno.EACCES, errno.EAGAIN):
            logger.warning(f"{lock.name}: {error.strerror}: two drivers at once are kept apart by Slurm alone")
            return True
        return False
    return True


def _refuse_living_slurm_job(request: TrainingRequest, advice: str) -> None:
    """Refuse to touch a run that waits or trains in Slurm.

    Raises:
        LaunchError: naming the job; or if Slurm, which had the newest job, cannot be asked.
    """
    jobs = read_jobs(request.folder)
    if not jobs or jobs[-1].launcher != "slurm" or not has_slurm():
        return
    found = ask_queue(request.run)
    if isinstance(found, SilentQueue):
        raise LaunchError(
            f"{request.run}: Slurm job {jobs[-1].job} may train it, but squeue is silent: {found.reason}; try later"
        )
    living = [queued.job for queued in found if queued.is_alive and queued.trains_in(request.folder)]
    if living:
        raise LaunchError(f"{request.run}: Slurm job {', '.join(living)} is training it, or will; {advice}")


def _set_aside(run_folder: Path) -> None:
    """Move what a run has so far into a sub-folder: `--fresh` begins anew and loses nothing."""
    if is_being_trained(run_folder):
        raise LaunchError(f"{run_folder}: is being trained; end that job before `--fresh`")
    kept = (attempts.DRIVER_LOCK_NAME, "aside-")
    old = [path for path in run_folder.iterdir() if not path.name.startswith(kept)]
    if old:
        numbers = [int(path.name.removeprefix("aside-")) for path in run_folder.glob("aside-*")]
        aside_folder = run_folder / f"aside-{1 + max(numbers, default=0)}"
        aside_folder.mkdir()
        for path in old:
            path.rename(aside_folder / path.name)
        logger.info(f"{run_folder}: begun anew, the earlier run is in {aside_folder}")
