"""Makes run folders as jobs and drivers leave them, requests to train, and a process that seems to
train.
"""

import contextlib
import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

from aiayn.records import write_record
from aiayn.runs.attempts import (
    DONE_NAME,
    LOG_NAME,
    RANK_LOCK_NAME,
    Ended,
    Event,
    Started,
    seconds_between,
)
from aiayn.runs.run_folder import RunFolder, SubmittedJob
from tests.records_factory import CPU, TRAINED

NOON = "2026-01-01T12:00:00+00:00"
EPOCH = "1970-01-01T00:00:00+00:00"


def at(minutes: float) -> str:
    """Return the time so many minutes after noon of the first day."""
    hours, rest = divmod(round(minutes * 60), 3600)
    return f"2026-01-01T{12 + hours:02d}:{rest // 60:02d}:{rest % 60:02d}+00:00"


def started(attempt: int, minutes: float, **changes: object) -> Started:
    """Return a beginning, on one GPU-less machine if nothing else is said."""
    values: dict[str, object] = {
        "attempt": attempt,
        "time": at(minutes),
        "job": "4711",
        "host": "here",
        "device": "cpu",
        "num_gpus": 0,
        "threads_per_rank": 1,
        "commit": "",
        "update": 0,
    }
    return Started(**(values | changes))  # type: ignore[arg-type]


def ended(attempt: int, minutes: float, outcome: str, **changes: object) -> Ended:
    """Return an end."""
    values: dict[str, object] = {
        "attempt": attempt,
        "time": at(minutes),
        "update": 0,
        "outcome": outcome,
        "reason": "",
        "log_tail": [],
    }
    return Ended(**(values | changes))  # type: ignore[arg-type]


def submitted(launcher: str, job: str, minutes: float = 0, host: str = "here") -> SubmittedJob:
    """Return a submission."""
    return SubmittedJob(
        time=at(minutes),
        launcher=launcher,
        job=job,
        host=host,
        num_ranks=1,
        update=0,
        commit="",
        code_folder="",
    )


def settings_line(updates: int, clock: str = "12:00:00") -> str:
    """Return the line in which fairseq prints its settings."""
    optimization = f"'optimization': {{'_name': None, 'max_epoch': 0, 'max_update': {updates}}}"
    return (
        f"2026-01-01 {clock} | INFO | fairseq_cli.train | {{'_name': None, 'common': {{'seed': 1}},"
        f" {optimization}}}"
    )


def statistics_line(update: int, loss: float, clock: str) -> str:
    """Return a line of statistics."""
    values = {
        "epoch": 1,
        "update": 0.5,
        "loss": f"{loss}",
        "nll_loss": "2.5",
        "ppl": "5.66",
        "wps": "25000.0",
        "ups": "2",
        "wpb": "12500",
        "bsz": "400",
        "num_updates": f"{update}",
        "lr": "0.0007",
        "gnorm": "0.9",
        "train_wall": "1",
        "wall": "109",
    }
    return f"2026-01-01 {clock} | INFO | train_inner | {json.dumps(values)}"


def make_run(
    runs_folder: Path,
    run: str,
    *,
    events: Sequence[Event] = (),
    jobs: Sequence[SubmittedJob] = (),
    log: Sequence[str] = (),
    log_minutes: float = 30,
    saved_updates: Sequence[int] = (),
) -> Path:
    """Write the folder of a run. Its log last grew so many minutes after noon."""
    folder = runs_folder / run
    (folder / "checkpoints").mkdir(parents=True)
    for update in saved_updates:
        (folder / "checkpoints" / f"full_{update:08d}.pt").touch()
    for event in events:
        RunFolder(folder).append_event(event)
    for job in jobs:
        RunFolder(folder).append_job(job)
    if log:
        write_log(folder, log, log_minutes)
    return folder


def write_log(folder: Path, lines: Sequence[str], minutes: float = 30) -> None:
    """Write a run's log, last grown so many minutes after noon."""
    path = folder / LOG_NAME
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8", newline="\n")
    modified = seconds_between(EPOCH, at(minutes))
    os.utime(path, (modified, modified))


def write_done(folder: Path, *, tokens: int, wall_seconds: float) -> None:
    """Write the record of a training that is done, of 500 updates on a CPU."""
    record = msgspec.structs.replace(
        TRAINED,
        run=folder.name,
        updates=500,
        wall_seconds=wall_seconds,
        gpu_seconds=wall_seconds * CPU.num_gpus,
        hardware=CPU,
        tokens=tokens,
        run_folder=folder,
        log_path=folder / LOG_NAME,
    )
    write_record(record, folder / DONE_NAME)


def job_output(folder: Path, job: str, text: str) -> Path:
    """Let rank 0 of a job, or the sbatch file before it, have printed so much more."""
    path = folder / "submitit" / f"{job}_0_log.out"
    path.parent.mkdir(exist_ok=True)
    with path.open("a", encoding="utf-8", newline="\n") as output:
        output.write(text)
    return path


# What rank 0 does as far as others see: it holds the lock with its number in it; at TERM it saves
# first.
_TRAINING = """
import fcntl, os, pathlib, signal, sys
folder, lock_name, is_stubborn = pathlib.Path(sys.argv[1]), sys.argv[2], sys.argv[3] == "stubborn"
def save(*_):
    if not is_stubborn:
        (folder / "checkpoints" / "full_00000120.pt").touch()
        sys.exit()
signal.signal(signal.SIGTERM, save)
lock = open(folder / lock_name, "a")
fcntl.lockf(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
lock.truncate(0)
lock.write(str(os.getpid()))
lock.flush()
print("holds it", flush=True)
while True:
    signal.pause()
"""


@contextlib.contextmanager
def training_process(
    run_folder: Path, *, lock_name: str = RANK_LOCK_NAME, is_stubborn: bool = False
) -> Iterator[subprocess.Popen[str]]:
    """Run a process that holds a run's lock, and saves at update 120 on TERM unless it is stubborn."""
    command = [sys.executable, "-I", "-S", "-c", _TRAINING, str(run_folder), lock_name]
    command.append("stubborn" if is_stubborn else "willing")
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "holds it\n"
            yield process
        finally:
            process.kill()


@contextlib.contextmanager
def beating(run_folder: Path) -> Iterator[None]:
    """Touch rank 0's lock over and over, as rank 0 does while it lives."""
    is_over = threading.Event()

    def beat() -> None:
        while not is_over.wait(0.02):
            os.utime(run_folder / RANK_LOCK_NAME)

    thread = threading.Thread(target=beat)
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join()
