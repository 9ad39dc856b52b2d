"""A driver whose job runs on this machine: signals reach the job, and `--fresh` sets the earlier
run aside.
"""

import os
import signal
import time
from pathlib import Path

import pytest

from aiayn.errors import LaunchError, RunError
from aiayn.records import TrainRecord, read_record
from aiayn.runs.attempts import DONE_NAME, DRIVER_LOCK_NAME
from aiayn.runs.run_folder import RunFolder
from tests.driven_run import DrivenRun, LocalJob
from tests.run_folders import submitted, training_process


def test_after_a_failure_the_next_start_tries_again_and_after_the_end_none_does(
    driven: DrivenRun,
) -> None:
    with pytest.raises(RunError):
        driven.drive(lambda: driven.stop("failed", "RuntimeError: out of memory"), launcher="local")
    driven.drive(driven.finish, launcher="local")
    driven.drive(launcher="local")
    assert read_record(driven.record_path, TrainRecord) == read_record(
        driven.folder / DONE_NAME, TrainRecord
    )


def test_a_job_that_misses_the_first_signal_gets_another(driven: DrivenRun) -> None:
    """Jobs begin with seconds of imports. A signal that is lost then must not leave the driver
    waiting for ever.
    """
    signalled_at: list[float] = []

    class DeafProcess:
        """What submitit's job has of its own. It notes the signals that it gets."""

        def poll(self) -> None:
            """It lives."""

        def send_signal(self, number: int) -> None:
            signalled_at.append(driven.clock.now())

    class DeafJob(LocalJob):
        _process = DeafProcess()

        def done(self) -> bool:
            if not signalled_at:
                self.work()
            return len(signalled_at) >= 3

    driven.make_local_job = DeafJob
    with pytest.raises(KeyboardInterrupt):
        driven.drive(lambda: os.kill(os.getpid(), signal.SIGINT), launcher="local")
    assert 5 < signalled_at[1] - signalled_at[0] < 7


def interrupt(driven: DrivenRun, number: signal.Signals) -> None:
    """Let the driver get a signal as soon as it waits for something."""

    def send() -> None:
        os.kill(os.getpid(), number)
        time.sleep(0.05)  # for another process to heed what the driver sends

    driven.clock.at_each_look = send


def test_a_driver_that_waits_for_another_can_be_interrupted(driven: DrivenRun) -> None:
    interrupt(driven, signal.SIGINT)
    with (
        training_process(driven.folder, lock_name=DRIVER_LOCK_NAME),
        pytest.raises(KeyboardInterrupt),
    ):
        driven.drive(launcher="local")


def test_a_signal_ends_a_driver_that_waits_for_an_earlier_ones_job(driven: DrivenRun) -> None:
    RunFolder(driven.folder).append_job(submitted("local", "7"))
    interrupt(driven, signal.SIGTERM)
    with training_process(driven.folder) as job:
        with pytest.raises(RunError, match="its job continues; to end it: `aiayn cancel run`"):
            driven.drive(launcher="local")
        assert job.poll() is None


def test_beginning_anew_sets_the_earlier_run_aside(driven: DrivenRun) -> None:
    driven.save(10)
    driven.finish()
    for number in (1, 2):
        driven.drive(driven.finish, launcher="local", fresh=True)
        assert (driven.folder / f"aside-{number}" / DONE_NAME).exists()
    (driven.folder / "aside-2").rename(driven.folder / "aside-2-good")
    driven.drive(driven.finish, launcher="local", fresh=True)
    assert (driven.folder / "aside-2" / DONE_NAME).exists()
    assert (driven.folder / "aside-1" / "checkpoints" / "full_00000010.pt").exists()
    assert not (driven.folder / "checkpoints").exists()


def test_beginning_anew_under_a_living_job_is_refused(driven: DrivenRun) -> None:
    """Also if the other training's lock is invisible here, but its heartbeat advances."""
    with (
        training_process(driven.folder),
        pytest.raises(LaunchError, match="this run; end it before `--fresh`"),
    ):
        driven.drive(launcher="local", fresh=True)
    driven.start()
    driven.clock.at_each_look = lambda: driven.set_heartbeat(driven.clock.now())
    with pytest.raises(LaunchError, match="this run; end it before `--fresh`"):
        driven.drive(launcher="local", fresh=True)
    assert list(Path(driven.folder).glob("aside-*")) == []
