"""The driver of a training: what it does when jobs end well, fail, die or are stopped; jobs are stand-ins here."""

import os
import platform
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

import aiayn.launch.driver
from aiayn.errors import LaunchError, RunError
from aiayn.launch.driver import drive
from aiayn.launch.local import LocalLauncher
from aiayn.records import TrainRecord, read_record
from aiayn.runs.attempts import DONE_NAME, DRIVER_LOCK_NAME, LOG_NAME, RANK_LOCK_NAME
from aiayn.runs.run_folder import RunFolder
from aiayn.train.request import TrainingRequest
from tests.run_folders import started, submitted, training_process, write_done
from tests.unit.test_launch import make_request

Work = Callable[[Path], None]


class FakeJob:
    """A job that does all its work when it is first asked whether it is done."""

    job_id = "fake"

    def __init__(self, work: Work, run_folder: Path) -> None:
        self.work, self.run_folder = work, run_folder

    def done(self) -> bool:
        """Work, and be done."""
        self.work(self.run_folder)
        return True


def start_jobs(make: Callable[[], FakeJob], monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the launcher local start stand-ins."""

    def submit(launcher: LocalLauncher, request: TrainingRequest, code_folder: Path | None) -> str:
        launcher._job = make()
        return launcher._job.job_id

    monkeypatch.setattr(LocalLauncher, "submit", submit)


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Poll often."""
    monkeypatch.setattr(LocalLauncher, "poll_seconds", 0.01)


class DrivenJobs:
    """A run under a driver each of whose submissions is the next stand-in."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder, self.record_path = folder / "run", folder / "results" / "seed1.json"
        self.left: list[Work] = []
        start_jobs(lambda: FakeJob(self.left.pop(0), self.folder), monkeypatch)

    def drive(self, *works: Work, fresh: bool = False) -> None:
        """Drive the run; what is left of the stand-ins can be asked."""
        self.left = list(works)
        drive(make_request(self.folder), launcher="local", record_path=self.record_path, fresh=fresh)


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> DrivenJobs:
    """Return a run that has no folder yet."""
    return DrivenJobs(tmp_path, monkeypatch)


def checkpoint(run_folder: Path, update: int) -> None:
    """Leave a full checkpoint, as far as a driver looks."""
    (run_folder / "checkpoints").mkdir(exist_ok=True)
    (run_folder / "checkpoints" / f"full_{update:08d}.pt").touch()


def finish(run_folder: Path) -> None:
    """Train to the end."""
    write_done(run_folder, updates=500, tokens=1, wall_seconds=1)


def die(run_folder: Path) -> None:
    """End without a word."""
    (run_folder / "submitit").mkdir(exist_ok=True)
    (run_folder / "submitit" / "7_0_log.out").write_text("first words\nlast words\n", encoding="utf-8")


def die_after(update: int) -> Work:
    """Return a job that saves at an update, then ends without a word."""

    def work(run_folder: Path) -> None:
        checkpoint(run_folder, update)
        die(run_folder)

    return work


def fail(run_folder: Path) -> None:
    """Note an error."""
    RunFolder(run_folder).append_event(started(1, 0))
    (run_folder / LOG_NAME).write_text("epoch 1\nCUDA out of memory\n", encoding="utf-8")
    RunFolder(run_folder).end_attempt(update=0, outcome="failed", reason="RuntimeError: out of memory")


def stopped_by(name: str) -> Work:
    """Return a job that saves and ends, as a signal asks."""

    def work(run_folder: Path) -> None:
        checkpoint(run_folder, 30)
        RunFolder(run_folder).append_event(started(1, 0))
        RunFolder(run_folder).end_attempt(update=30, outcome="stopped", reason=f"asked by {name}")

    return work


@pytest.mark.parametrize(
    ("works", "num_left", "error"),
    [
        ((finish,), 0, ""),
        ((die, die, die_after(10), die, die, finish), 0, ""),  # never three without a new checkpoint
        # The checkpoint of update 10 is new once; what the job printed is then its message.
        ((die_after(10), die, die, die_after(10), finish), 1,
         r"run: 3 jobs ended without a new checkpoint[\s\S]*first words\n  last words$"),
        ((fail, finish), 1, r"run: RuntimeError: out of memory\n[\s\S]*epoch 1\n  CUDA out of memory"),
        ((stopped_by("SIGUSR2"), finish), 1, r"^run: stopped at update 30 of 3000, asked by SIGUSR2; "),
        ((stopped_by("SIGTERM"), finish), 1,
         r"^run: stopped at update 30 of 3000, asked by SIGTERM; the same command resumes it$"),
    ],
)  # fmt: skip
def test_a_job_is_followed_by_another_unless_that_would_end_likewise(
    works: tuple[Work, ...], num_left: int, error: str, run: DrivenJobs
) -> None:
    if error:
        with pytest.raises(RunError, match=error) as raised:
            run.drive(*works)
        assert raised.value.exit_code == 3
        assert not run.record_path.exists()
        assert len(run.left) == num_left
        run.drive(finish)  # the next start tries again
    else:
        run.drive(*works)
        assert run.left == []
    copied = read_record(run.record_path, TrainRecord)
    assert copied == read_record(run.folder / DONE_NAME, TrainRecord)
    assert copied.run_folder == run.folder
    run.drive()  # it is not trained again


def test_an_old_failure_is_not_taken_for_a_new_one(run: DrivenJobs) -> None:
    """The new job dies before it can tell anything: it is resumed, not reported as the failure of yesterday."""
    run.folder.mkdir()
    fail(run.folder)
    run.drive(die, finish)
    assert run.left == []


@pytest.mark.parametrize(
    ("number", "error"), [(signal.SIGINT, KeyboardInterrupt), (signal.SIGTERM, RunError), (signal.SIGHUP, RunError)]
)
def test_a_signal_ends_the_driver_after_its_job(
    number: signal.Signals, error: type[BaseException], run: DrivenJobs
) -> None:
    handler = signal.getsignal(number)
    with pytest.raises(error):
        run.drive(lambda run_folder: os.kill(os.getpid(), number))
    assert signal.getsignal(number) is handler


def test_a_job_that_misses_the_first_signal_gets_another(run: DrivenJobs, monkeypatch: pytest.MonkeyPatch) -> None:
    """Jobs begin with seconds of imports; a signal that is lost then must not leave the driver waiting for ever."""
    monkeypatch.setattr(aiayn.launch.driver, "SECONDS_BETWEEN_SIGNALS", 0.02)
    times: list[float] = []

    class Process:
        """What submitit's job has of its own; it notes the signals that it gets."""

        def poll(self) -> None:
            """It lives."""

        def send_signal(self, number: int) -> None:
            times.append(time.monotonic())

    class DeafJob(FakeJob):
        _process = Process()

        def done(self) -> bool:
            if not times:
                os.kill(os.getpid(), signal.SIGINT)
            return len(times) >= 3

    start_jobs(lambda: DeafJob(die, run.folder), monkeypatch)
    with pytest.raises(KeyboardInterrupt):
        run.drive()
    assert times[2] - times[0] >= 0.04


def send_once_heeded(number: signal.Signals) -> None:
    """Send this process a signal as soon as the driver heeds it; before, it would end the tests."""
    unheeded = signal.getsignal(number)

    def send() -> None:
        while signal.getsignal(number) is unheeded:
            time.sleep(0.01)
        os.kill(os.getpid(), number)

    threading.Thread(target=send, daemon=True).start()


def test_a_driver_that_waits_for_another_can_be_interrupted(run: DrivenJobs) -> None:
    run.folder.mkdir()
    with training_process(run.folder, lock_name=DRIVER_LOCK_NAME), pytest.raises(KeyboardInterrupt):
        send_once_heeded(signal.SIGINT)
        run.drive()


def test_a_signal_reaches_a_job_of_an_earlier_driver(run: DrivenJobs) -> None:
    run.folder.mkdir()
    (run.folder / "checkpoints").mkdir()
    RunFolder(run.folder).append_job(submitted("local", "7", host=platform.node()))
    with training_process(run.folder), pytest.raises(KeyboardInterrupt):
        send_once_heeded(signal.SIGINT)
        run.drive()
    assert (run.folder / "checkpoints" / "full_00000120.pt").exists()


def test_no_process_is_signalled_by_a_number_that_another_machine_wrote(run: DrivenJobs) -> None:
    """Here it may be anybody's; the driver ends alone."""
    run.folder.mkdir()
    RunFolder(run.folder).append_job(submitted("local", "7", host="elsewhere"))
    with training_process(run.folder) as job:
        send_once_heeded(signal.SIGTERM)
        with pytest.raises(RunError, match="its job continues; it was started on elsewhere"):
            run.drive()
        assert job.poll() is None


def test_beginning_anew_sets_the_earlier_run_aside(run: DrivenJobs) -> None:
    run.folder.mkdir()
    checkpoint(run.folder, 10)
    finish(run.folder)
    for number in (1, 2):
        run.drive(finish, fresh=True)
        assert run.left == []
        assert (run.folder / f"aside-{number}" / DONE_NAME).exists()
    assert (run.folder / "aside-1" / "checkpoints" / "full_00000010.pt").exists()
    assert not (run.folder / "checkpoints").exists()


def test_beginning_anew_under_a_living_job_is_refused(run: DrivenJobs) -> None:
    run.folder.mkdir()
    with training_process(run.folder), pytest.raises(LaunchError, match="training this run; end it before `--fresh`"):
        run.drive(fresh=True)
    assert sorted(path.name for path in run.folder.iterdir()) == [DRIVER_LOCK_NAME, RANK_LOCK_NAME]
