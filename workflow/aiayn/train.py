"""The driver of one training: submits, waits, shows progress, resumes what died, and copies the finished run's record.

It imports no torch. What is true is `<run folder>/done.json`, written by the job's rank 0; everything else is told in
attempts.jsonl. A driver that is killed leaves its job running; the next one waits for it.
"""

import contextlib
import fcntl
import logging
import math
import os
import shutil
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import IO, Any

from aiayn import attempts
from aiayn.errors import LaunchError, RunError
from aiayn.launch import TrainingRequest, submit
from aiayn.progress import ProgressLine
from aiayn.provenance import replace_on_success

logger = logging.getLogger(__name__)
ATTEMPTS_WITHOUT_PROGRESS = 3
POLL_SECONDS = 0.5
SECONDS_BETWEEN_SIGNALS = 5.0  # a job that is just starting may miss the first
SHOWN_LINES = 15  # of a failed run's log
DRIVER_LOCK_NAME = "driver.lock"


class Interruption:
    """The first INT, TERM or HUP that the driver got; it is passed on to the job, which saves and ends."""

    def __init__(self) -> None:
        self.signal_number: signal.Signals | None = None

    @contextlib.contextmanager
    def installed(self) -> Iterator["Interruption"]:
        """Take over the signals for the length of the block."""
        numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
        previous = {number: signal.signal(number, self._note) for number in numbers}
        try:
            yield self
        finally:
            for number, handler in previous.items():
                signal.signal(number, handler)

    def _note(self, number: int, frame: FrameType | None) -> None:
        self.signal_number = self.signal_number or signal.Signals(number)

    @property
    def name(self) -> str:
        """The signal's name."""
        return self.signal_number.name if self.signal_number else ""

    def raise_if_any(self, state: str) -> None:
        """End the driver if it got a signal; `state` is what it leaves behind."""
        if self.signal_number is None:
            return
        logger.info(state)
        if self.signal_number == signal.SIGINT:
            raise KeyboardInterrupt
        raise RunError(f"ended by {self.name}; {state}")


def drive(request: TrainingRequest, *, launcher: str, record_path: Path, fresh: bool = False) -> None:
    """Bring one run to its end and copy its record to `record_path`.

    Raises:
        RunError: if the run failed, was stopped, or died thrice without progress; exit code 3, no record.
        KeyboardInterrupt: after Ctrl-C, once the job has saved.
    """
    run_folder = Path(request.run_folder)
    run_folder.mkdir(parents=True, exist_ok=True)
    done_path = run_folder / attempts.DONE_NAME
    with Interruption().installed() as interruption, _driver_lock(request, interruption):
        if fresh:
            _set_aside(run_folder)
        attempts_left = ATTEMPTS_WITHOUT_PROGRESS
        while not done_path.exists():
            update_before, num_events_before = _newest_update(run_folder), len(attempts.read_events(run_folder))
            _attend_one_job(request, launcher, interruption)
            if done_path.exists():
                break
            _judge_end(request, attempts.read_events(run_folder)[num_events_before:], interruption)
            attempts_left = (
                ATTEMPTS_WITHOUT_PROGRESS if _newest_update(run_folder) > update_before else attempts_left - 1
            )
            if attempts_left == 0:
                reason = f"died {ATTEMPTS_WITHOUT_PROGRESS} times without a new checkpoint"
                raise RunError(_failure(request, reason, _job_output(run_folder)))
    with replace_on_success(record_path) as partial_path:
        shutil.copyfile(done_path, partial_path)
    logger.info(f"{request.run}: done, record {record_path}")


def _attend_one_job(request: TrainingRequest, launcher: str, interruption: Interruption) -> None:
    """Wait for the end of the job that trains this run; submit one if there is none."""
    run_folder = Path(request.run_folder)
    rank_lock_path = run_folder / attempts.RANK_LOCK_NAME
    if _is_locked(rank_lock_path):
        logger.info(f"{request.run}: a job of an earlier driver is training it; waiting for that one")
        _wait(
            request, lambda: not _is_locked(rank_lock_path), lambda: _terminate_lock_owner(rank_lock_path), interruption
        )
    else:
        job = submit(request, launcher)
        logger.info(f"{request.run}: {launcher} job {job.job_id}, log {run_folder / attempts.LOG_NAME}")
        _wait(request, job.done, lambda: _terminate_local_job(job), interruption)


@contextlib.contextmanager
def _driver_lock(request: TrainingRequest, interruption: Interruption) -> Iterator[None]:
    """Let one driver at a time look and submit; freed by the system when its owner dies."""
    with (Path(request.run_folder) / DRIVER_LOCK_NAME).open("w") as lock:
        has_said = False
        while not _try_lock(lock):
            if not has_said:
                logger.info(f"{request.run}: another driver is at work on this run; waiting for it")
                has_said = True
            interruption.raise_if_any(f"{request.run}: another driver goes on with it")
            time.sleep(POLL_SECONDS)
        yield


def _try_lock(lock: IO[str]) -> bool:
    try:
        fcntl.lockf(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def _is_locked(path: Path) -> bool:
    """Return whether a living process holds the lock (rank 0 holds it as long as it trains)."""
    if not path.exists():
        return False
    with path.open("r+") as lock:
        return not _try_lock(lock)  # closing it frees it


def _set_aside(run_folder: Path) -> None:
    """Move what a run has so far into a sub-folder: `--fresh` begins anew and loses nothing."""
    if _is_locked(run_folder / attempts.RANK_LOCK_NAME):
        raise LaunchError(f"{run_folder}: is being trained; end that job before `--fresh`")
    old = [
        path for path in run_folder.iterdir() if path.name != DRIVER_LOCK_NAME and not path.name.startswith("aside-")
    ]
    if old:
        numbers = [int(path.name.removeprefix("aside-")) for path in run_folder.glob("aside-*")]
        aside_folder = run_folder / f"aside-{1 + max(numbers, default=0)}"
        aside_folder.mkdir()
        for path in old:
            path.rename(aside_folder / path.name)
        logger.info(f"{run_folder}: begun anew, the earlier run is in {aside_folder}")


def _newest_update(run_folder: Path) -> int:
    names = [path.stem for path in (run_folder / "checkpoints").glob("full_*.pt")]
    return max((int(name.removeprefix("full_")) for name in names), default=0)


def _wait(
    request: TrainingRequest,
    is_over: Callable[[], bool],
    terminate: Callable[[], None],
    interruption: Interruption,
) -> None:
    """Wait for the job's end; show its progress; pass a signal on and go on waiting while the job saves."""
    run_folder = Path(request.run_folder)
    line = ProgressLine(request.run, request.training.updates)
    passed_on_at = -math.inf
    while not is_over():
        if interruption.signal_number is not None and time.monotonic() - passed_on_at > SECONDS_BETWEEN_SIGNALS:
            if passed_on_at == -math.inf:
                logger.info(f"{request.run}: {interruption.name}; saving before the end")
            terminate()
            passed_on_at = time.monotonic()
        line.show(attempts.read_progress(run_folder))
        time.sleep(POLL_SECONDS)
    line.finish(attempts.read_progress(run_folder))


def _terminate_local_job(job: Any) -> None:
    """Send TERM to a local job's controller, which passes it to every rank."""
    process = getattr(job, "_process", None)
    if process is not None and process.poll() is None:
        process.send_signal(signal.SIGTERM)


def _terminate_lock_owner(rank_lock_path: Path) -> None:
    """Send TERM to the rank 0 that wrote its process number into the lock; it brings the other ranks to an end."""
    text = rank_lock_path.read_text(encoding="utf-8")
    if text.isdigit():
        with contextlib.suppress(ProcessLookupError):
            os.kill(int(text), signal.SIGTERM)


def _judge_end(request: TrainingRequest, new_events: list[attempts.Event], interruption: Interruption) -> None:
    """Raise if the job that just ended unfinished must not be followed by another; `new_events` are what it told."""
    update = _newest_update(Path(request.run_folder))
    where = f"update {update} of {request.training.updates}"
    last = new_events[-1] if new_events else None
    if isinstance(last, attempts.Ended) and last.outcome == "failed":
        raise RunError(_failure(request, last.reason, last.log_tail))
    interruption.raise_if_any(f"{request.run}: saved at {where}; the same command resumes it")
    if isinstance(last, attempts.Ended) and last.outcome == "stopped":
        raise RunError(f"{request.run}: stopped at {where}, {last.reason}; the same command resumes it")
    logger.info(f"{request.run}: its job died without a word; resuming from {where}")


def _failure(request: TrainingRequest, reason: str, tail: list[str]) -> str:
    shown = "\n  ".join(tail[-SHOWN_LINES:])
    return f"{request.run}: {reason}\n  last lines, more in {request.run_folder}:\n  {shown}"


def _job_output(run_folder: Path) -> list[str]:
    """Return the last lines that the newest job printed: all there is if it died before it had a log."""
    outputs = sorted((run_folder / "submitit").glob("*_log.out"), key=lambda path: path.stat().st_mtime)
    return outputs[-1].read_text(encoding="utf-8", errors="replace").rstrip("\n").split("\n") if outputs else []
