"""The driver of a training: what it does when jobs end well, fail, die or are stopped; jobs are stand-ins here."""

import contextlib
import fcntl
import os
import platform
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import aiayn.launch.driver
from aiayn.errors import LaunchError, RunError
from aiayn.launch.driver import drive
from aiayn.records import TrainRecord, read_record
from aiayn.runs.attempts import (
    DONE_NAME,
    DRIVER_LOCK_NAME,
    LOG_NAME,
    RANK_LOCK_NAME,
    Started,
    append_event,
    end_attempt,
)
from aiayn.runs.jobs import SubmittedJob, append_job, read_jobs
from aiayn.train.fairseq_args import TrainingData
from aiayn.train.request import TrainingRequest
from tests.records_factory import BASE_TRAINING
from tests.run_folders import write_done

Work = Callable[[Path], None]
STARTED = Started(
    attempt=1, time="2026-01-01T12:00:00+00:00", job="7", host="here", device="cpu", num_gpus=0, threads_per_rank=1,
    commit="", update=0,
)  # fmt: skip


class FakeJob:
    """A job that does all its work when it is first asked whether it is done."""

    job_id = "fake"

    def __init__(self, work: Work, run_folder: Path) -> None:
        self.work, self.run_folder = work, run_folder

    def done(self) -> bool:
        """Work, and be done."""
        self.work(self.run_folder)
        return True


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Poll often."""
    monkeypatch.setattr(aiayn.launch.driver, "POLL_SECONDS", 0.01)


@pytest.fixture
def request_(tmp_path: Path) -> TrainingRequest:
    """Return a request to train in a folder of its own."""
    data = TrainingData(folder="data-bin", source_language="en", target_language="de", is_joint=True)
    return TrainingRequest(
        run="run", run_folder=str(tmp_path / "run"), corpus="corpus", system="base", seed=1, training=BASE_TRAINING,
        data=data, binarized_path="record.json", num_models=1, num_ranks=1, threads_per_rank=1, commit="", command="",
    )  # fmt: skip


@contextlib.contextmanager
def submitted(monkeypatch: pytest.MonkeyPatch, *works: Work) -> Iterator[list[Work]]:
    """Let each submission be the next stand-in; yields those left."""
    left = list(works)
    monkeypatch.setattr(
        aiayn.launch.driver, "submit", lambda request, *_: FakeJob(left.pop(0), Path(request.run_folder))
    )
    yield left


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
    append_event(run_folder, STARTED)
    (run_folder / LOG_NAME).write_text("epoch 1\nCUDA out of memory\n", encoding="utf-8")
    end_attempt(run_folder, update=0, outcome="failed", reason="RuntimeError: out of memory")


def test_a_finished_jobs_record_is_copied(
    request_: TrainingRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with submitted(monkeypatch, finish):
        drive(request_, launcher="local", record_path=tmp_path / "results" / "seed1.json")
    copied = read_record(tmp_path / "results" / "seed1.json", TrainRecord)
    assert copied == read_record(Path(request_.run_folder) / DONE_NAME, TrainRecord)
    assert copied.run_folder == Path(request_.run_folder)


def test_a_finished_run_is_not_trained_again(
    request_: TrainingRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Path(request_.run_folder).mkdir()
    finish(Path(request_.run_folder))
    with submitted(monkeypatch):
        drive(request_, launcher="local", record_path=tmp_path / "seed1.json")
    assert read_record(tmp_path / "seed1.json", TrainRecord).run_folder == Path(request_.run_folder)


def test_a_killed_job_is_resumed_as_long_as_there_is_progress(
    request_: TrainingRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two deaths, a new checkpoint, two deaths more: never three without one."""
    with submitted(monkeypatch, die, die, die_after(10), die, die, finish) as left:
        drive(request_, launcher="local", record_path=tmp_path / "seed1.json")
    assert left == []


def test_three_killed_jobs_without_a_new_checkpoint_end_the_driver(
    request_: TrainingRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The checkpoint of update 10 is new once; then its message is what the job printed."""
    with submitted(monkeypatch, die_after(10), die, die, die_after(10), finish) as left:
        with pytest.raises(RunError, match="run: 3 jobs ended without a new checkpoint") as raised:
            drive(request_, launcher="local", record_path=tmp_path / "seed1.json")
    assert left == [finish]
    assert str(raised.value).endswith("first words\n  last words")
    assert raised.value.exit_code == 3
    assert not (tmp_path / "seed1.json").exists()


def test_what_failed_is_not_repeated(
    request_: TrainingRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with submitted(monkeypatch, fail, finish) as left:
        with pytest.raises(RunError, match="run: RuntimeError: out of memory") as raised:
            drive(request_, launcher="local", record_path=tmp_path / "seed1.json")
        assert left == [finish]
        assert "epoch 1\n  CUDA out of memory" in str(raised.value)
        drive(request_, launcher="local", record_path=tmp_path / "seed1.json")  # the next start tries again


def test_an_old_failure_is_not_taken_for_a_new_one(
    request_: TrainingRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The new job dies before it can tell anything: it is resumed, not reported as the failure of yesterday."""
    Path(request_.run_folder).mkdir()
    fail(Path(request_.run_folder))
    with submitted(monkeypatch, die, finish) as left:
        drive(request_, launcher="local", record_path=tmp_path / "seed1.json")
    assert left == []


def test_what_somebody_stopped_is_not_resumed_at_once(
    request_: TrainingRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def be_stopped(run_folder: Path) -> None:
        checkpoint(run_folder, 30)
        append_event(run_folder, STARTED)
        end_attempt(run_folder, update=30, outcome="stopped", reason="asked by SIGTERM")

    with submitted(monkeypatch, be_stopped), pytest.raises(RunError) as raised:
        drive(request_, launcher="local", record_path=tmp_path / "seed1.json")
    assert str(raised.value) == "run: stopped at update 30 of 3000, asked by SIGTERM; the same command resumes it"


@pytest.mark.parametrize(
    ("number", "error"), [(signal.SIGINT, KeyboardInterrupt), (signal.SIGTERM, RunError), (signal.SIGHUP, RunError)]
)
def test_a_signal_ends_the_driver_after_its_job(
    number: signal.Signals,
    error: type[BaseException],
    request_: TrainingRequest,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    handler = signal.getsignal(number)
    with submitted(monkeypatch, lambda run_folder: os.kill(os.getpid(), number)), pytest.raises(error):
        drive(request_, launcher="local", record_path=tmp_path / "seed1.json")
    assert signal.getsignal(number) is handler


def test_a_job_that_misses_the_first_signal_gets_another(
    request_: TrainingRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
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

    monkeypatch.setattr(aiayn.launch.driver, "submit", lambda *_: DeafJob(die, tmp_path))
    with pytest.raises(KeyboardInterrupt):
        drive(request_, launcher="local", record_path=tmp_path / "seed1.json")
    assert times[2] - times[0] >= 0.04


def lock_in_another_process(path: Path, seconds: float) -> int:
    """Let a fork hold a lock for some time, and return its process number once it has it."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        with path.open("a") as lock:
            fcntl.lockf(lock, fcntl.LOCK_EX)
            lock.write(str(os.getpid()))
            lock.flush()
            os.write(writer, b"!")
            time.sleep(seconds)
            os._exit(0)
    os.read(reader, 1)
    os.close(reader)
    os.close(writer)
    return child


def test_a_second_driver_waits_for_the_first(
    request_: TrainingRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And finds the run done: it submits nothing."""
    run_folder = Path(request_.run_folder)
    run_folder.mkdir()
    child = lock_in_another_process(run_folder / DRIVER_LOCK_NAME, 0.3)
    threading.Timer(0.1, finish, [run_folder]).start()
    begin = time.monotonic()
    with submitted(monkeypatch):
        drive(request_, launcher="local", record_path=tmp_path / "seed1.json")
    assert time.monotonic() - begin > 0.2
    os.waitpid(child, 0)


def send_once_heeded(number: signal.Signals) -> None:
    """Send this process a signal as soon as the driver heeds it; before, it would end the tests."""
    unheeded = signal.getsignal(number)

    def send() -> None:
        while signal.getsignal(number) is unheeded:
            time.sleep(0.01)
        os.kill(os.getpid(), number)

    threading.Thread(target=send, daemon=True).start()


def test_a_driver_that_waits_for_another_can_be_interrupted(
    request_: TrainingRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_folder = Path(request_.run_folder)
    run_folder.mkdir()
    child = lock_in_another_process(run_folder / DRIVER_LOCK_NAME, 60)
    send_once_heeded(signal.SIGINT)
    with submitted(monkeypatch), pytest.raises(KeyboardInterrupt):
        drive(request_, launcher="local", record_path=tmp_path / "seed1.json")
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)


def test_a_living_job_of_a_driver_that_died_is_waited_for(
    request_: TrainingRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_folder = Path(request_.run_folder)
    run_folder.mkdir()
    child = lock_in_another_process(run_folder / RANK_LOCK_NAME, 2.0)  # longer than copying the code takes
    threading.Timer(0.1, finish, [run_folder]).start()
    with submitted(monkeypatch):
        drive(request_, launcher="local", record_path=tmp_path / "seed1.json")
    os.waitpid(child, 0)


def test_a_signal_reaches_a_job_of_an_earlier_driver(
    request_: TrainingRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_folder = Path(request_.run_folder)
    run_folder.mkdir()
    append_job(run_folder, submitted_on(platform.node()))
    child = lock_in_another_process(run_folder / RANK_LOCK_NAME, 60)
    send_once_heeded(signal.SIGINT)
    with submitted(monkeypatch), pytest.raises(KeyboardInterrupt):
        drive(request_, launcher="local", record_path=tmp_path / "seed1.json")
    assert os.waitpid(child, 0)[1] == signal.SIGTERM


def submitted_on(host: str) -> SubmittedJob:
    """Return a job that a driver on some machine submitted there."""
    return SubmittedJob(
        time="2026-01-01T12:00:00+00:00", launcher="local", job="7", host=host, num_ranks=1, update=0, commit="",
        code_folder="",
    )  # fmt: skip


def test_no_process_is_signalled_by_a_number_that_another_machine_wrote(
    request_: TrainingRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Here it may be anybody's; the driver ends alone."""
    run_folder = Path(request_.run_folder)
    run_folder.mkdir()
    append_job(run_folder, submitted_on("elsewhere"))
    child = lock_in_another_process(run_folder / RANK_LOCK_NAME, 60)
    send_once_heeded(signal.SIGTERM)
    with submitted(monkeypatch), pytest.raises(RunError, match="its job continues; it was started on elsewhere"):
        drive(request_, launcher="local", record_path=tmp_path / "seed1.json")
    assert os.waitpid(child, os.WNOHANG) == (0, 0)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)


def test_every_job_is_noted_with_its_code(
    request_: TrainingRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with submitted(monkeypatch, die_after(10), finish):
        drive(request_, launcher="local", record_path=tmp_path / "seed1.json")
    first, second = read_jobs(Path(request_.run_folder))
    assert (first.launcher, first.job, first.host, first.update) == ("local", "fake", platform.node(), 0)
    assert second.update == 10
    assert Path(first.code_folder, "aiayn", "launch", "driver.py").is_file()
    assert Path(first.code_folder).parent == tmp_path / "code"
    assert second.code_folder == first.code_folder


def test_beginning_anew_sets_the_earlier_run_aside(
    request_: TrainingRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_folder = Path(request_.run_folder)
    run_folder.mkdir()
    checkpoint(run_folder, 10)
    finish(run_folder)
    for number in (1, 2):
        with submitted(monkeypatch, finish) as left:
            drive(request_, launcher="local", record_path=tmp_path / "seed1.json", fresh=True)
        assert left == []
        assert (run_folder / f"aside-{number}" / DONE_NAME).exists()
    assert (run_folder / "aside-1" / "checkpoints" / "full_00000010.pt").exists()
    assert not (run_folder / "checkpoints").exists()


def test_beginning_anew_under_a_living_job_is_refused(
    request_: TrainingRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_folder = Path(request_.run_folder)
    run_folder.mkdir()
    child = lock_in_another_process(run_folder / RANK_LOCK_NAME, 60)
    with submitted(monkeypatch), pytest.raises(LaunchError, match="training this run; end it before `--fresh`"):
        drive(request_, launcher="local", record_path=tmp_path / "seed1.json", fresh=True)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    assert sorted(path.name for path in run_folder.iterdir()) == [DRIVER_LOCK_NAME, RANK_LOCK_NAME]


def test_the_driver_loads_no_engine() -> None:
    """All that the verb imports, and a submission: neither torch nor fairseq comes along."""
    program = (
        "import sys, aiayn.cli.train, aiayn.launch.driver, aiayn.plan.feasibility, aiayn.launch.submit\n"
        "import aiayn.data.text.binarize, aiayn.machine\n"
        "aiayn.machine.cpu_flops_per_second_per_core()\n"
        "import submitit; submitit.AutoExecutor('unused', cluster='local')\n"
        "print([name for name in ('torch', 'fairseq', 'omegaconf', 'pandas') if name in sys.modules])"
    )
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    listed = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True, env=environment)
    assert listed.stdout == b"[]\n", listed.stderr
