"""The driver of one training: submits, waits, shows progress, resumes what died, and copies the finished run's record.

It imports no torch. What is true is `<run folder>/done.json`, written by the job's rank 0; everything else is told in
attempts.jsonl. A driver that is killed leaves its job running; the next one waits for it.
"""

import contextlib
import fcntl
import logging
import os
import shutil
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any

from aiayn import attempts
from aiayn.errors import LaunchError, RunError
from aiayn.launch import TrainingRequest, submit
from aiayn.progress import ProgressLine
from aiayn.provenance import replace_on_success

logger = logging.getLogger(__name__)
ATTEMPTS_WITHOUT_PROGRESS = 3
POLL_SECONDS = 0.5
DRIVER_LOCK_NAME = "driver.lock"


class Interruption:
    """The first INT, TERM or HUP that the driver got; it is passed on to the job, which saves and ends."""

    def __init__(self) -> None:
        self.signal_number: int | None = None

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
        self.signal_number = self.signal_number or number


def drive(request: TrainingRequest, *, launcher: str, record_path: Path, fresh: bool = False) -> None:
    """Bring one run to its end and copy its record to `record_path`.

    Raises:
        RunError: if the run failed, was stopped, or died thrice without progress; exit code 3, no record.
        KeyboardInterrupt: after Ctrl-C, once the job has saved.
    """
    run_folder = Path(request.run_folder)
    run_folder.mkdir(parents=True, exist_ok=True)
    done_path = run_folder / attempts.DONE_NAME
    with Interruption().installed() as interruption, _driver_lock(run_folder):
        if fresh:
            _set_aside(run_folder)
        attempts_left = ATTEMPTS_WITHOUT_PROGRESS
        while not done_path.exists():
            update_before = _newest_update(run_folder)
            if _is_locked(run_folder / attempts.RANK_LOCK_NAME):
                logger.info(f"{request.run}: a job of an earlier driver is training it; waiting for that one")
                _wait(request, lambda: not _is_locked(run_folder / attempts.RANK_LOCK_NAME), _send_to_lock_owner, interruption)
            else:
                job = submit(request, launcher)
                logger.info(f"{request.run}: {launcher} job {job.job_id}, log {run_folder / attempts.LOG_NAME}")
                _wait(request, job.done, lambda folder: _terminate(job), interruption)
            _judge_end(request, interruption)
            attempts_left = ATTEMPTS_WITHOUT_PROGRESS if _newest_update(run_folder) > update_before else attempts_left - 1
            if not done_path.exists() and attempts_left == 0:
                raise RunError(_failure(request, f"died {ATTEMPTS_WITHOUT_PROGRESS} times without a new checkpoint"))
    with replace_on_success(record_path) as partial_path:
        shutil.copyfile(done_path, partial_path)
    logger.info(f"{request.run}: done, record {record_path}")


@contextlib.contextmanager
def _driver_lock(run_folder: Path) -> Iterator[None]:
    """Let one driver at a time look and submit; freed by the system when its owner dies."""
    with (run_folder / DRIVER_LOCK_NAME).open("w") as lock:
        try:
            fcntl.lockf(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            logger.info(f"{run_folder}: another driver is at work on this run; waiting for it")
            fcntl.lockf(lock, fcntl.LOCK_EX)
        yield


def _is_locked(path: Path) -> bool:
    """Return whether a living process holds the lock (rank 0 holds it as long as it trains)."""
    if not path.exists():
        return False
    with path.open("r+") as lock:
        try:
            fcntl.lockf(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return True
        fcntl.lockf(lock, fcntl.LOCK_UN)
        return False


def _set_aside(run_folder: Path) -> None:
    """Move what a run has so far into a sub-folder: `--fresh` begins anew and loses nothing."""
    if _is_locked(run_folder / attempts.RANK_LOCK_NAME):
        raise LaunchError(f"{run_folder}: is being trained; end that job before `--fresh`")
    old = [path for path in run_folder.iterdir() if path.name != DRIVER_LOCK_NAME and not path.name.startswith("aside-")]
    if old:
        number = 1 + len(list(run_folder.glob("aside-*")))
        aside_folder = run_folder / f"aside-{number}"
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
    terminate: Callable[[Path], None],
    interruption: Interruption,
) -> None:
    """Wait for the job's end; show its progress; pass a signal on once and go on waiting while the job saves."""
    run_folder = Path(request.run_folder)
    line = ProgressLine(request.run, request.training.updates)
    has_passed_on = False
    while not is_over():
        if interruption.signal_number is not None and not has_passed_on:
            logger.info(f"{request.run}: {signal.Signals(interruption.signal_number).name}; saving before the end")
            terminate(run_folder)
            has_passed_on = True
        line.show(attempts.read_progress(run_folder))
        time.sleep(POLL_SECONDS)
    line.finish(attempts.read_progress(run_folder))


def _terminate(job: Any) -> None:
    """Send TERM to a local job's controller, which passes it to every rank."""
    process = getattr(job, "_process", None)
    if process is not None and process.poll() is None:
        process.send_signal(signal.SIGTERM)


def _send_to_lock_owner(run_folder: Path) -> None:
    """Send TERM to the rank 0 that wrote its process number into the lock."""
    text = (run_folder / attempts.RANK_LOCK_NAME).read_text(encoding="utf-8").strip()
    if text.isdigit():
        with contextlib.suppress(ProcessLookupError):
            os.kill(int(text), signal.SIGTERM)


def _judge_end(request: TrainingRequest, interruption: Interruption) -> None:
    """Raise if the attempt that just ended must not be followed by another."""
    events = attempts.read_events(Path(request.run_folder))
    last = events[-1] if events else None
    if interruption.signal_number is not None and not (Path(request.run_folder) / attempts.DONE_NAME).exists():
        update = last.update if last else 0
        logger.info(f"{request.run}: saved at update {update} of {request.training.updates}; the same command resumes it")
        if interruption.signal_number == signal.SIGINT:
            raise KeyboardInterrupt
        raise RunError(f"{request.run}: ended by {signal.Signals(interruption.signal_number).name} at update {update}")
    if isinstance(last, attempts.Ended) and last.outcome == "failed":
        raise RunError(_failure(request, last.reason))
    if isinstance(last, attempts.Ended) and last.outcome == "stopped":
        raise RunError(_failure(request, f"stopped at update {last.update}: {last.reason}; the same command resumes it"))
    if not (Path(request.run_folder) / attempts.DONE_NAME).exists():
        logger.info(f"{request.run}: its job died without a word; resuming from update {_newest_update(Path(request.run_folder))}")


def _failure(request: TrainingRequest, reason: str) -> str:
    run_folder = Path(request.run_folder)
    tail = attempts.log_tail(run_folder) or _job_output(run_folder)
    shown = "\n  ".join(tail[-15:])
    return f"{request.run}: {reason}\n  last lines of {run_folder / attempts.LOG_NAME}:\n  {shown}"


def _job_output(run_folder: Path) -> list[str]:
    """Return the last lines that the newest job printed: all there is if it died before it had a log."""
    outputs = sorted((run_folder / "submitit").glob("*_log.out"), key=lambda path: path.stat().st_mtime)
    if not outputs:
        return []
    return outputs[-1].read_text(encoding="utf-8", errors="replace").split("\n")[-attempts.LOG_TAIL_LINES :]
