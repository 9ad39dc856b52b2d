"""One local job of one training, seen from its driver: submit it or wait for an earlier driver's, and show it.

A signal to the driver is passed on to the job, which saves and ends; the driver ends after it.
"""

import contextlib
import logging
import math
import os
import platform
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from aiayn.launch.interruption import Interruption
from aiayn.launch.job import TrainingRequest, note_job
from aiayn.launch.progress import ProgressLine
from aiayn.launch.submit import submit
from aiayn.runs import attempts
from aiayn.runs.jobs import forget_noted_errors, read_jobs
from aiayn.runs.life import is_being_trained
from aiayn.runs.log import read_log_tail

logger = logging.getLogger(__name__)
POLL_SECONDS = 0.5
SECONDS_BETWEEN_SIGNALS = 5.0  # a job that is just starting may miss the first


def attend_local_job(
    request: TrainingRequest, launcher: str, interruption: Interruption, code_folder: Path | None
) -> None:
    """Wait for the end of the job that trains this run; submit one, of the code in a folder, if there is none."""
    run_folder = request.folder
    if is_being_trained(run_folder):
        logger.info(f"{request.run}: a job of an earlier driver is training it; waiting for that one")
        _wait(
            request,
            lambda: not is_being_trained(run_folder),
            lambda: _terminate_lock_owner(request, interruption),
            interruption,
        )
        return
    forget_noted_errors(run_folder)
    job = submit(request, launcher, code_folder)
    note_job(request, launcher, str(job.job_id), commit=request.commit, code_folder=str(code_folder or ""))
    logger.info(f"{request.run}: {launcher} job {job.job_id}, log {run_folder / attempts.LOG_NAME}")
    _wait(request, job.done, lambda: _terminate_local_job(job), interruption)


def _wait(
    request: TrainingRequest,
    is_over: Callable[[], bool],
    terminate: Callable[[], None],
    interruption: Interruption,
) -> None:
    """Wait for the job's end; show its progress; pass a signal on and go on waiting while the job saves."""
    run_folder = request.folder
    line = ProgressLine(request.run, request.training.updates)
    passed_on_at = -math.inf
    while not is_over():
        if interruption.signal_number is not None and time.monotonic() - passed_on_at > SECONDS_BETWEEN_SIGNALS:
            if passed_on_at == -math.inf:
                logger.info(f"{request.run}: {interruption.name}; saving before the end")
            terminate()
            passed_on_at = time.monotonic()
        line.show(read_log_tail(run_folder / attempts.LOG_NAME))
        time.sleep(POLL_SECONDS)
    line.show(read_log_tail(run_folder / attempts.LOG_NAME), is_last=True)


def _terminate_local_job(job: Any) -> None:
    """Send TERM to a local job's controller, which passes it to every rank."""
    process = getattr(job, "_process", None)
    if process is not None and process.poll() is None:
        process.send_signal(signal.SIGTERM)


def _terminate_lock_owner(request: TrainingRequest, interruption: Interruption) -> None:
    """Send TERM to the rank 0 that wrote its process number into the lock; it brings the other ranks to an end.

    Only if it is a process of this machine: on another one the number may be anybody's, and this driver ends alone.
    """
    run_folder = request.folder
    jobs = read_jobs(run_folder)
    if not jobs or jobs[-1].launcher == "slurm" or jobs[-1].host != platform.node():
        place = jobs[-1].host if jobs else "another machine"
        interruption.raise_if_any(f"{request.run}: its job goes on: it was started on {place}; end it from there")
        return
    text = (run_folder / attempts.RANK_LOCK_NAME).read_text(encoding="utf-8")
    if text.isdecimal():
        with contextlib.suppress(ProcessLookupError):
            os.kill(int(text), signal.SIGTERM)
