"""What a driver makes of a Slurm job's fate. Slurm's commands are stand-ins; each wait of the driver is a step in which
the test lets something happen.
"""

import contextlib
import fcntl
import os
import pickle
import re
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import pytest

import aiayn.launch.slurm_driver
import aiayn.runs.attempts
from aiayn.clock import STEP_SECONDS, Clock
from aiayn.errors import LaunchError, RunError
from aiayn.launch.code_snapshot import RunCode
from aiayn.launch.driver import drive
from aiayn.records import TrainRecord, read_record
from aiayn.runs.attempts import (
    DONE_NAME,
    RANK_LOCK_NAME,
    Ended,
    Started,
    append_event,
    end_attempt,
    read_events,
)  # fmt: skip
from aiayn.runs.jobs import output_path, read_jobs, record_rank_error
from aiayn.spec.cluster import ClusterSpec, read_cluster
from aiayn.train.request import TrainingRequest
from tests.fake_slurm import FakeSlurm, install
from tests.run_folders import write_done
from tests.unit.test_launch import make_request

Step = Callable[[], object]


@pytest.fixture
def slurm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeSlurm:
    """Return a fake Slurm that is first on PATH; the first job is 7."""
    return install(tmp_path / "slurm", monkeypatch)


@pytest.fixture
def request_(tmp_path: Path) -> TrainingRequest:
    """Return a request to train in a folder of its own."""
    (tmp_path / "runs" / "run" / "checkpoints").mkdir(parents=True)
    return msgspec.structs.replace(make_request(tmp_path / "runs" / "run"), command="aiayn train --seed 1")


@pytest.fixture
def run_folder(request_: TrainingRequest) -> Path:
    """Return the run's folder."""
    return Path(request_.run_folder)


@pytest.fixture
def cluster() -> ClusterSpec:
    """Return a cluster on which a training may have three jobs."""
    return msgspec.structs.replace(read_cluster("cpu"), max_num_jobs=3, time_limit_minutes=1440)


class StepClock(Clock):
    """A clock whose pauses take no time: each longer one is a step in which the test lets something happen."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self.happenings: list[Step] = []
        self.at_each_look: Step = lambda: None

    def now(self) -> float:
        """Return the seconds that were waited."""
        return self.seconds

    def pause(self, seconds: float, check: Callable[[], None] = lambda: None) -> None:
        """Let the next thing happen; during a shorter pause, in which the driver looks for a sign of life, none."""
        check()
        self.seconds += seconds
        if seconds > STEP_SECONDS:
            assert self.happenings, "the driver waits on"
            self.happenings.pop(0)()
        else:
            self.at_each_look()


@pytest.fixture
def clock() -> StepClock:
    """Return the driver's clock."""
    return StepClock()


@contextlib.contextmanager
def steps(clock: StepClock, *happenings: Step) -> Iterator[None]:
    """Let one thing happen at each of the driver's waits; none is to be left, and none missing."""
    clock.happenings = list(happenings)
    yield
    assert clock.happenings == []


def start(run_folder: Path, job: str = "7", update: int = 0) -> None:
    """Let rank 0 of a job begin an attempt."""
    number = 1 + sum(isinstance(event, Started) for event in read_events(run_folder))
    append_event(
        run_folder,
        Started(
            attempt=number, time="2026-01-01T12:00:00+00:00", job=job, host="n1", device="cpu", num_gpus=0,
            threads_per_rank=1, commit="", update=update,
        ),
    )  # fmt: skip


def save(run_folder: Path, update: int) -> None:
    """Leave a full checkpoint, as far as a driver looks."""
    (run_folder / "checkpoints" / f"full_{update:08d}.pt").touch()


def beat(run_folder: Path, seconds: float) -> None:
    """Let rank 0's lock have been touched at a time."""
    path = run_folder / RANK_LOCK_NAME
    path.touch()
    os.utime(path, (seconds, seconds))


def finish(run_folder: Path) -> None:
    """Train to the end."""
    write_done(run_folder, updates=500, tokens=1, wall_seconds=1)


def last_end(run_folder: Path) -> Ended:
    """Return the last event, which is an end."""
    last = read_events(run_folder)[-1]
    assert isinstance(last, Ended)
    return last


def drive_it(request: TrainingRequest, cluster: ClusterSpec, tmp_path: Path, clock: Clock) -> None:
    """Drive the training as `aiayn train` does."""
    drive(request, launcher="slurm", record_path=tmp_path / "seed1.json", cluster=cluster, clock=clock)


@pytest.mark.usefixtures("run_folder")
class TestEnds:
    """How a job can end, and what follows."""

    def test_a_jobs_record_is_copied_and_the_job_noted(
        self, request_: TrainingRequest, cluster: ClusterSpec, run_folder: Path, slurm: FakeSlurm, tmp_path: Path,
        clock: StepClock,
    ) -> None:  # fmt: skip
        with steps(clock, lambda: slurm.set_state("7", "RUNNING"), lambda: finish(run_folder)):
            drive_it(request_, cluster, tmp_path, clock)
        assert read_record(tmp_path / "seed1.json", TrainRecord).run_folder == run_folder
        (job,) = read_jobs(run_folder)
        assert (job.launcher, job.job, job.num_ranks) == ("slurm", "7", request_.num_ranks)
        assert Path(job.code_folder, "aiayn", "launch", "job.py").is_file()

    def test_a_finished_run_asks_nobody(
        self,
        request_: TrainingRequest,
        cluster: ClusterSpec,
        run_folder: Path,
        slurm: FakeSlurm,
        tmp_path: Path,
        clock: StepClock,
    ) -> None:
        finish(run_folder)
        drive_it(request_, cluster, tmp_path, clock)
        assert slurm.num_submitted() == 0
        assert slurm.calls("squeue") == []

    def test_a_cancelled_job_is_a_persons_wish(
        self, request_: TrainingRequest, cluster: ClusterSpec, run_folder: Path, slurm: FakeSlurm, tmp_path: Path,
        clock: StepClock,
    ) -> None:  # fmt: skip
        def cancel() -> None:
            start(run_folder)
            save(run_folder, 30)
            slurm.set_state("7", "CANCELLED")

        with steps(clock, cancel), pytest.raises(RunError) as raised:
            drive_it(request_, cluster, tmp_path, clock)
        assert str(raised.value) == ("run: Slurm job 7 was cancelled at update 30 of 3000; the same command resumes it")
        assert raised.value.exit_code == 3
        assert slurm.num_submitted() == 1
        assert (last_end(run_folder).outcome, last_end(run_folder).update) == ("cancelled", 30)
        assert not (tmp_path / "seed1.json").exists()

    def test_the_next_start_after_a_cancelled_job_resumes(
        self, request_: TrainingRequest, cluster: ClusterSpec, run_folder: Path, slurm: FakeSlurm, tmp_path: Path,
        clock: StepClock,
    ) -> None:  # fmt: skip
        """The wish was for that job: squeue still shows it, and it must not end the new one."""
        slurm.set_queue(f"6|CANCELLED||0:00|run|None|{run_folder}/submitit/a.sh")
        with steps(clock, lambda: finish(run_folder)):
            drive_it(request_, cluster, tmp_path, clock)
        assert slurm.num_submitted() == 1

    def test_a_failed_training_is_not_repeated(
        self, request_: TrainingRequest, cluster: ClusterSpec, run_folder: Path, slurm: FakeSlurm, tmp_path: Path,
        clock: StepClock,
    ) -> None:  # fmt: skip
        def fail() -> None:
            start(run_folder)
            end_attempt(run_folder, update=0, outcome="failed", reason="SpaceError: the disk is full")
            slurm.set_state("7", "FAILED", "NonZeroExitCode")

        with steps(clock, fail), pytest.raises(RunError, match="run: SpaceError: the disk is full"):
            drive_it(request_, cluster, tmp_path, clock)
        assert slurm.num_submitted() == 1

    def test_a_rank_that_failed_before_rank_0_could_tell_is_named(
        self, request_: TrainingRequest, cluster: ClusterSpec, run_folder: Path, slurm: FakeSlurm, tmp_path: Path,
        clock: StepClock,
    ) -> None:  # fmt: skip
        def fail() -> None:
            start(run_folder)
            record_rank_error(run_folder, 5, LaunchError("n2: torch sees 7 GPUs, expected 8"))
            slurm.set_state("7", "FAILED", "NonZeroExitCode")

        with steps(clock, fail), pytest.raises(RunError, match=r"run: rank 5 on .*: n2: torch sees 7 GPUs"):
            drive_it(request_, cluster, tmp_path, clock)
        assert last_end(run_folder).outcome == "failed"

    @pytest.mark.parametrize("state", ["TIMEOUT", "NODE_FAIL", "PREEMPTED", "FAILED", "COMPLETED"])
    def test_whatever_else_ended_a_job_another_one_resumes(
        self, state: str, request_: TrainingRequest, cluster: ClusterSpec, run_folder: Path, slurm: FakeSlurm,
        tmp_path: Path, clock: StepClock,
    ) -> None:  # fmt: skip
        def end() -> None:
            start(run_folder)
            slurm.set_state("7", state)

        with steps(clock, end, lambda: finish(run_folder)):
            drive_it(request_, cluster, tmp_path, clock)
        assert [job.job for job in read_jobs(run_folder)] == ["7", "8"]

    def test_a_job_that_saved_as_its_time_was_up_is_continued(
        self, request_: TrainingRequest, cluster: ClusterSpec, run_folder: Path, slurm: FakeSlurm, tmp_path: Path,
        clock: StepClock,
    ) -> None:  # fmt: skip
        def stop() -> None:
            start(run_folder)
            save(run_folder, 100)
            end_attempt(run_folder, update=100, outcome="stopped", reason="asked by SIGUSR2")
            slurm.set_state("7", "COMPLETED")

        with steps(clock, stop, lambda: finish(run_folder)):
            drive_it(request_, cluster, tmp_path, clock)
        assert [job.update for job in read_jobs(run_folder)] == [0, 100]

    def test_no_more_jobs_follow_than_are_allowed(
        self, request_: TrainingRequest, cluster: ClusterSpec, run_folder: Path, slurm: FakeSlurm, tmp_path: Path,
        clock: StepClock,
    ) -> None:  # fmt: skip
        """Three: the first is started twice by Slurm itself."""

        def end(job: str, *updates: int) -> None:
            for update in updates:
                start(run_folder, job)
                save(run_folder, update)
            slurm.set_state(job, "TIMEOUT")

        with steps(clock, lambda: end("7", 100, 200), lambda: end("8", 300)):
            with pytest.raises(RunError, match=r"run: update 300 of 3000 after 3 jobs of 1440 minutes"):
                drive_it(request_, cluster, tmp_path, clock)
        assert slurm.num_submitted() == 2

    def test_what_dies_thrice_without_a_new_checkpoint_is_given_up(
        self, request_: TrainingRequest, cluster: ClusterSpec, run_folder: Path, slurm: FakeSlurm, tmp_path: Path,
        clock: StepClock,
    ) -> None:  # fmt: skip
        def die(job: str, state: str) -> Step:
            return lambda: (start(run_folder, job), slurm.set_state(job, state))

        many = msgspec.structs.replace(cluster, max_num_jobs=20)
        last = "run: 3 jobs ended without a new checkpoint.* job 9, ended as NODE_FAIL\n"
        with steps(clock, die("7", "FAILED"), die("8", "FAILED"), die("9", "NODE_FAIL")):
            with pytest.raises(RunError, match=last):
                drive_it(request_, many, tmp_path, clock)

    def test_what_dies_twice_before_it_began_is_given_up_with_what_the_batch_said(
        self, request_: TrainingRequest, cluster: ClusterSpec, run_folder: Path, slurm: FakeSlurm, tmp_path: Path,
        clock: StepClock,
    ) -> None:  # fmt: skip
        """As without Python on the node; another rank may have printed last."""

        def die(job: str) -> None:
            output_path(run_folder, job).write_text(f"srun: job {job}: python3: not found\n", encoding="utf-8")
            (run_folder / "submitit" / f"{job}_5_log.out").write_text("rank 5\n", encoding="utf-8")
            slurm.set_state(job, "FAILED", "NonZeroExitCode")

        many = msgspec.structs.replace(cluster, max_num_jobs=20)
        with steps(clock, lambda: die("7"), lambda: die("8")), pytest.raises(RunError) as raised:
            drive_it(request_, many, tmp_path, clock)
        told = str(raised.value)
        assert told.startswith("run: job 8 ended as FAILED before its training began")
        assert told.endswith("\n  srun: job 8: python3: not found")
        assert slurm.num_submitted() == 2

    def test_one_job_that_never_began_may_be_followed_by_one_that_dies_after(
        self, request_: TrainingRequest, cluster: ClusterSpec, run_folder: Path, slurm: FakeSlurm, tmp_path: Path,
        clock: StepClock,
    ) -> None:  # fmt: skip
        with steps(
            clock,
            lambda: slurm.set_state("7", "FAILED"),
            lambda: (start(run_folder, "8"), slurm.set_state("8", "FAILED")),
            lambda: finish(run_folder),
        ):
            drive_it(request_, msgspec.structs.replace(cluster, max_num_jobs=20), tmp_path, clock)
        assert slurm.num_submitted() == 3

    def test_a_job_without_enough_memory_is_repeated_only_if_it_got_on(
        self, request_: TrainingRequest, cluster: ClusterSpec, run_folder: Path, slurm: FakeSlurm, tmp_path: Path,
        clock: StepClock,
    ) -> None:  # fmt: skip
        def get_on() -> None:
            start(run_folder, "7")
            save(run_folder, 100)
            slurm.set_state("7", "OUT_OF_MEMORY")

        small = msgspec.structs.replace(cluster, memory_gb_per_node=16)
        with steps(clock, get_on, lambda: (start(run_folder, "8"), slurm.set_state("8", "OUT_OF_MEMORY"))):
            with pytest.raises(RunError, match="run: job 8 ended as OUT_OF_MEMORY") as raised:
                drive_it(request_, small, tmp_path, clock)
        assert re.search(r"memory_gb_per_node .* 16\n", str(raised.value))
        assert slurm.num_submitted() == 2


def end_well(run_folder: Path, slurm: FakeSlurm) -> None:
    """Train to the end and say so, all but the record."""
    start(run_folder)
    end_attempt(run_folder, update=3000, outcome="done", reason="")
    slurm.set_state("7", "COMPLETED")


def hide_record(run_folder: Path, seconds: float, clock: StepClock, monkeypatch: pytest.MonkeyPatch) -> None:
    """Finish, on a file system that shows the record so many of the driver's seconds later."""
    finish(run_folder)
    shown_at = clock.now() + seconds
    list_folder = os.listdir

    def list_late(folder: Path | str) -> list[str]:
        is_shown = clock.now() >= shown_at
        return [name for name in list_folder(folder) if is_shown or name != DONE_NAME]

    monkeypatch.setattr(aiayn.runs.attempts.os, "listdir", list_late)


class TestRecords:
    """A run that has told that it is done is not trained again because its record is not seen yet."""

    def test_a_record_that_comes_late_is_waited_for(
        self, request_: TrainingRequest, cluster: ClusterSpec, run_folder: Path, slurm: FakeSlurm, tmp_path: Path,
        clock: StepClock, monkeypatch: pytest.MonkeyPatch,
    ) -> None:  # fmt: skip
        def end_late() -> None:
            end_well(run_folder, slurm)
            hide_record(run_folder, 100, clock, monkeypatch)

        with steps(clock, end_late):
            drive_it(request_, cluster, tmp_path, clock)
        assert read_record(tmp_path / "seed1.json", TrainRecord).run_folder == run_folder
        assert slurm.num_submitted() == 1

    def test_the_next_driver_waits_for_it_too(
        self, request_: TrainingRequest, cluster: ClusterSpec, run_folder: Path, slurm: FakeSlurm, tmp_path: Path,
        clock: StepClock, monkeypatch: pytest.MonkeyPatch,
    ) -> None:  # fmt: skip
        end_well(run_folder, slurm)
        with steps(clock):
            hide_record(run_folder, 100, clock, monkeypatch)
            drive_it(request_, cluster, tmp_path, clock)
        assert slurm.num_submitted() == 0

    def test_one_that_does_not_come_ends_the_driver_and_the_next_one_has_it_written_anew(
        self, request_: TrainingRequest, cluster: ClusterSpec, run_folder: Path, slurm: FakeSlurm, tmp_path: Path,
        clock: StepClock, caplog: pytest.LogCaptureFixture,
    ) -> None:  # fmt: skip
        """Rank 0 was killed between its two last words."""
        with steps(clock, lambda: end_well(run_folder, slurm)), pytest.raises(RunError) as raised:
            drive_it(request_, cluster, tmp_path, clock)
        assert f"120 s there is no {run_folder / DONE_NAME}" in str(raised.value)
        assert slurm.num_submitted() == 1
        with caplog.at_level("INFO"), steps(clock, lambda: finish(run_folder)):
            drive_it(request_, cluster, tmp_path, clock)
        assert "its done.json is gone" in caplog.text
        assert slurm.num_submitted() == 2


class TestLives:
    """A job that is alive is waited for, wherever it came from and whatever squeue says."""

    def test_a_living_job_is_attached_to_and_noted(
        self, request_: TrainingRequest, cluster: ClusterSpec, run_folder: Path, slurm: FakeSlurm, tmp_path: Path,
        clock: StepClock, caplog: pytest.LogCaptureFixture,
    ) -> None:  # fmt: skip
        """Its driver was killed between sbatch and its note."""
        slurm.set_queue(f"5|RUNNING|n1|1:00|run|None|{run_folder}/submitit/.submission_file_a.sh")
        with caplog.at_level("INFO"), steps(clock, lambda: finish(run_folder)):
            drive_it(request_, cluster, tmp_path, clock)
        assert slurm.num_submitted() == 0
        assert "run: attached to Slurm job 5" in caplog.text
        assert [(job.job, job.code_folder) for job in read_jobs(run_folder)] == [("5", "")]

    def test_a_job_of_the_same_name_in_another_folder_is_not_ours(
        self, request_: TrainingRequest, cluster: ClusterSpec, run_folder: Path, slurm: FakeSlurm, tmp_path: Path,
        clock: StepClock,
    ) -> None:  # fmt: skip
        """A copy of the project: to wait for it would end without a record."""
        slurm.set_queue("5|RUNNING|n1|1:00|run|None|/elsewhere/runs/run/submitit/a.sh")
        with steps(clock, lambda: finish(run_folder)):
            drive_it(request_, cluster, tmp_path, clock)
        assert slurm.num_submitted() == 1

    def test_a_requeued_job_is_the_same_job(
        self, request_: TrainingRequest, cluster: ClusterSpec, run_folder: Path, slurm: FakeSlurm, tmp_path: Path,
        clock: StepClock, caplog: pytest.LogCaptureFixture,
    ) -> None:  # fmt: skip
        happenings = [
            lambda: slurm.set_state("7", "COMPLETING"),
            lambda: slurm.set_state("7", "PENDING", "BeginTime", ""),
            lambda: slurm.set_state("7", "RUNNING"),
            lambda: finish(run_folder),
        ]
        with caplog.at_level("INFO"), steps(clock, *happenings):
            drive_it(request_, cluster, tmp_path, clock)
        assert slurm.num_submitted() == 1
        assert "job 7 PENDING (BeginTime)" in caplog.text

    def test_what_a_job_waits_for_is_told_once_and_a_held_one_with_the_way_out(
        self, request_: TrainingRequest, cluster: ClusterSpec, run_folder: Path, slurm: FakeSlurm, tmp_path: Path,
        clock: StepClock, caplog: pytest.LogCaptureFixture,
    ) -> None:  # fmt: skip
        happenings = [
            lambda: slurm.set_state("7", "PENDING", "Resources", ""),
            lambda: None,
            lambda: slurm.set_state("7", "PENDING", "JobHeldUser", ""),
            lambda: finish(run_folder),
        ]
        with caplog.at_level("INFO"), steps(clock, *happenings):
            drive_it(request_, cluster, tmp_path, clock)
        assert caplog.text.count("PENDING (Resources)") == 1
        assert slurm.calls("scontrol") == []  # a person's hold is left alone
        advice = "it waits for you: `scontrol release 7`, or `aiayn cancel run`"
        assert f"PENDING (JobHeldUser); {advice}" in caplog.text

    def test_a_job_that_slurm_itself_holds_is_released_three_times_then_told(
        self, request_: TrainingRequest, cluster: ClusterSpec, run_folder: Path, slurm: FakeSlurm, tmp_path: Path,
        clock: StepClock, caplog: pytest.LogCaptureFixture,
    ) -> None:  # fmt: skip
        happenings = [
            *[lambda: slurm.set_state("7", "PENDING", "launch failed requeued held", "")] * 5,
            lambda: finish(run_folder),
        ]
        with caplog.at_level("INFO"), steps(clock, *happenings):
            drive_it(request_, cluster, tmp_path, clock)
        assert [call for call in slurm.calls("scontrol") if "release" in call] == ["release 7"] * 3
        assert "Slurm could not launch job 7 and holds it: released, 3 of 3" in caplog.text
        assert "it waits for you: `scontrol release 7`" in caplog.text

    def test_a_silent_queue_is_no_death(
        self, request_: TrainingRequest, cluster: ClusterSpec, run_folder: Path, slurm: FakeSlurm, tmp_path: Path,
        clock: StepClock, caplog: pytest.LogCaptureFixture,
    ) -> None:  # fmt: skip
        happenings = [
            lambda: slurm.set_flag("down"),
            lambda: None,
            lambda: (slurm.clear_flag("down"), slurm.set_state("7", "RUNNING")),
            lambda: finish(run_folder),
        ]
        with caplog.at_level("INFO"), steps(clock, *happenings):
            drive_it(request_, cluster, tmp_path, clock)
        assert slurm.num_submitted() == 1
        told = "squeue does not answer: slurm_load_jobs error: Unable to contact slurm controller"
        assert caplog.text.count(told) == 1

    def test_a_squeue_that_does_not_understand_ends_the_driver(
        self, request_: TrainingRequest, cluster: ClusterSpec, slurm: FakeSlurm, tmp_path: Path, clock: StepClock
    ) -> None:
        text = "#!/bin/sh\necho \"squeue: unrecognized option '--me'\" >&2\nexit 1\n"
        (slurm.commands / "squeue").write_text(text, encoding="utf-8")
        with pytest.raises(LaunchError, match="squeue: unrecognized option '--me'"):
            drive_it(request_, cluster, tmp_path, clock)
        assert slurm.num_submitted() == 0

    def test_a_job_that_will_never_start_by_itself_is_told_with_the_way_out(
        self, request_: TrainingRequest, cluster: ClusterSpec, run_folder: Path, slurm: FakeSlurm, tmp_path: Path,
        clock: StepClock, caplog: pytest.LogCaptureFixture,
    ) -> None:  # fmt: skip
        slurm.set_queue("5|RUNNING|n1|1:00|run|None|/elsewhere/runs/run/submitit/a.sh")
        happenings = [
            lambda: slurm.set_state("7", "PENDING", "PartitionTimeLimit", ""),
            lambda: slurm.set_state("7", "PENDING", "Dependency", ""),
            lambda: finish(run_folder),
        ]
        with caplog.at_level("INFO"), steps(clock, *happenings):
            drive_it(request_, cluster, tmp_path, clock)
        assert re.search(r"PENDING \(PartitionTimeLimit\); .*time_limit_minutes", caplog.text)
        other = "5 (/elsewhere/runs/run/submitit/a.sh), of the same name, or `aiayn cancel run`"
        assert re.search(rf"PENDING \(Dependency\); .*{re.escape(other)}", caplog.text)

    def test_a_run_that_ends_under_a_silent_queue_is_done(
        self, request_: TrainingRequest, cluster: ClusterSpec, run_folder: Path, slurm: FakeSlurm, tmp_path: Path,
        clock: StepClock,
    ) -> None:  # fmt: skip
        with steps(clock, lambda: slurm.set_flag("down"), lambda: None, lambda: finish(run_folder)):
            drive_it(request_, cluster, tmp_path, clock)
        assert slurm.num_submitted() == 1

    def test_a_job_that_slurm_forgot_but_that_beats_is_alive(
        self, request_: TrainingRequest, cluster: ClusterSpec, run_folder: Path, slurm: FakeSlurm, tmp_path: Path,
        clock: StepClock,
    ) -> None:  # fmt: skip
        """A controller that was killed when the job was seconds old knows nothing of it; another would be a second."""

        def forget() -> None:
            start(run_folder)
            slurm.set_state("7", "")
            clock.at_each_look = lambda: beat(run_folder, clock.now())

        with steps(clock, forget, lambda: None, lambda: finish(run_folder)):
            drive_it(request_, cluster, tmp_path, clock)
        assert slurm.num_submitted() == 1

    def test_a_job_that_reappears_in_the_queue_is_waited_for(
        self, request_: TrainingRequest, cluster: ClusterSpec, run_folder: Path, slurm: FakeSlurm, tmp_path: Path,
        clock: StepClock,
    ) -> None:  # fmt: skip
        """A controller that has just restarted shows it late: it is asked again before the job counts as ended."""

        def forget() -> None:
            start(run_folder)
            queue = (slurm.folder / "queue").read_text(encoding="utf-8").strip()
            slurm.set_queue()
            clock.at_each_look = lambda: slurm.set_queue(queue)

        with steps(clock, forget, lambda: None, lambda: finish(run_folder)):
            drive_it(request_, msgspec.structs.replace(cluster, max_num_jobs=1), tmp_path, clock)
        assert slurm.num_submitted() == 1

    def test_a_job_that_slurm_forgot_and_that_is_silent_is_resumed(
        self, request_: TrainingRequest, cluster: ClusterSpec, run_folder: Path, slurm: FakeSlurm, tmp_path: Path,
        clock: StepClock,
    ) -> None:  # fmt: skip
        def forget() -> None:
            start(run_folder)
            slurm.set_state("7", "")

        with steps(clock, forget, lambda: finish(run_folder)):
            drive_it(request_, cluster, tmp_path, clock)
            assert clock.now() >= aiayn.launch.slurm_driver.GRACE_SECONDS
        assert slurm.num_submitted() == 2

    def test_a_job_that_saved_on_term_and_was_forgotten_was_most_likely_cancelled(
        self, request_: TrainingRequest, cluster: ClusterSpec, run_folder: Path, slurm: FakeSlurm, tmp_path: Path,
        clock: StepClock,
    ) -> None:  # fmt: skip
        def stop(name: str) -> Step:
            def happen() -> None:
                start(run_folder)
                end_attempt(run_folder, update=0, outcome="stopped", reason=f"asked by {name}")
                slurm.set_queue()

            return happen

        with steps(clock, stop("SIGUSR2"), lambda: finish(run_folder)):
            drive_it(request_, cluster, tmp_path, clock)
        (run_folder / DONE_NAME).unlink()
        with (
            steps(clock, stop("SIGTERM")),
            pytest.raises(RunError, match="stopped at update 0 of 3000"),
        ):
            drive_it(request_, cluster, tmp_path, clock)

    def test_rank_0s_lock_is_a_sign_of_life(
        self, request_: TrainingRequest, cluster: ClusterSpec, run_folder: Path, slurm: FakeSlurm, tmp_path: Path,
        clock: StepClock, monkeypatch: pytest.MonkeyPatch,
    ) -> None:  # fmt: skip
        """Whoever trains, no second job is submitted, as long as it is touched every now and then."""
        clock.at_each_look = lambda: beat(run_folder, clock.now() // 40)
        with rank_lock_held(run_folder), steps(clock, lambda: None, lambda: finish(run_folder)):
            drive_it(request_, cluster, tmp_path, clock)
        assert slurm.num_submitted() == 0

    def test_a_lock_that_nobody_touches_is_of_a_machine_that_went_down(
        self, request_: TrainingRequest, cluster: ClusterSpec, run_folder: Path, slurm: FakeSlurm, tmp_path: Path,
        clock: StepClock, caplog: pytest.LogCaptureFixture,
    ) -> None:  # fmt: skip
        """NFS 3 keeps it until that machine has booted, which may be never."""
        with rank_lock_held(run_folder), steps(clock, lambda: finish(run_folder)):
            drive_it(request_, cluster, tmp_path, clock)
            assert 60 <= clock.now() < 100
        assert slurm.num_submitted() == 1
        assert re.search(f"{RANK_LOCK_NAME}: .* 60 s", caplog.text)


@contextlib.contextmanager
def rank_lock_held(run_folder: Path) -> Iterator[None]:
    """Let another process hold rank 0's lock, untouched."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        with (run_folder / RANK_LOCK_NAME).open("a") as lock:
            fcntl.lockf(lock, fcntl.LOCK_EX)
            os.write(writer, b"!")
            signal.pause()
    os.read(reader, 1)
    try:
        yield
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


class TestSubmissions:
    """What is submitted, and what can go wrong between a driver and sbatch."""

    def test_a_job_runs_the_code_that_is_chosen_for_its_run_and_names_its_commit(
        self, request_: TrainingRequest, cluster: ClusterSpec, run_folder: Path, slurm: FakeSlurm, tmp_path: Path,
        clock: StepClock, monkeypatch: pytest.MonkeyPatch,
    ) -> None:  # fmt: skip
        code = RunCode(folder=tmp_path / "code of job 6", commit="old")
        monkeypatch.setattr(aiayn.launch.slurm_driver, "choose_code", lambda request: code)
        with steps(clock, lambda: finish(run_folder)):
            drive_it(request_, cluster, tmp_path, clock)
        assert [(job.code_folder, job.commit) for job in read_jobs(run_folder)] == [(str(code.folder), "old")]
        script = (slurm.folder / "7.sh").read_text(encoding="utf-8")
        assert "export AIAYN_COMMIT=old\n" in script
        assert f"export PYTHONPATH='{code.folder}'" in script
        job = pickle.loads((run_folder / "submitit" / "7_submitted.pkl").read_bytes()).function
        assert job.request.code_folder == str(code.folder)

    def test_an_sbatch_that_was_not_answered_may_have_submitted_all_the_same(
        self, request_: TrainingRequest, cluster: ClusterSpec, run_folder: Path, slurm: FakeSlurm, tmp_path: Path,
        clock: StepClock,
    ) -> None:  # fmt: skip
        slurm.set_flag("unanswered")
        with steps(clock, lambda: None, lambda: finish(run_folder)):
            drive_it(request_, cluster, tmp_path, clock)
        assert slurm.num_submitted() == 1
        assert [job.job for job in read_jobs(run_folder)] == ["7"]
        assert (run_folder / "submitit" / "7_submitted.pkl").exists()  # without it the job would fail

    def test_a_job_whose_driver_was_killed_within_sbatch_gets_what_it_is_to_run(
        self, request_: TrainingRequest, cluster: ClusterSpec, run_folder: Path, slurm: FakeSlurm, tmp_path: Path,
        clock: StepClock,
    ) -> None:  # fmt: skip
        (run_folder / "submitit").mkdir()
        (run_folder / "submitit" / "0123456789abcdef.pkl").write_bytes(b"the request")
        slurm.set_queue(f"5|PENDING||1:00|run|None|{run_folder}/submitit/.submission_file_a.sh")
        with steps(clock, lambda: finish(run_folder)):
            drive_it(request_, cluster, tmp_path, clock)
        assert (run_folder / "submitit" / "5_submitted.pkl").read_bytes() == b"the request"

    @pytest.mark.parametrize("words", ["Socket timed out on send/recv operation", "QOSMaxSubmitJobPerUserLimit"])
    def test_what_slurm_may_take_later_is_tried_again_and_told_once(
        self, words: str, request_: TrainingRequest, cluster: ClusterSpec, run_folder: Path, slurm: FakeSlurm,
        tmp_path: Path, clock: StepClock, caplog: pytest.LogCaptureFixture,
    ) -> None:  # fmt: skip
        """Thirty trainings under a limit of eight jobs a user: twenty-two wait, and leave no files for each trial."""

        def look(num_left: int) -> None:
            assert len(list((run_folder / "submitit").iterdir())) == num_left

        slurm.set_flag("refused", f"sbatch: error: {words}\n")
        with (
            caplog.at_level("INFO"),
            steps(
                clock,
                lambda: look(2),
                lambda: look(2),
                lambda: slurm.clear_flag("refused"),
                lambda: finish(run_folder),
            ),
        ):
            drive_it(request_, cluster, tmp_path, clock)
        assert slurm.num_submitted() == 1
        told = f"run: sbatch failed: sbatch: error: {words}; that may pass: the next attempt is in 60 s"
        assert caplog.text.count(told) == 1

    def test_a_run_that_is_done_while_sbatch_takes_nothing_is_done(
        self, request_: TrainingRequest, cluster: ClusterSpec, run_folder: Path, slurm: FakeSlurm, tmp_path: Path,
        clock: StepClock,
    ) -> None:  # fmt: skip
        """By a job that another machine's driver submitted."""
        slurm.set_flag("refused", "sbatch: error: QOSMaxSubmitJobPerUserLimit\n")
        with steps(clock, lambda: finish(run_folder)):
            drive_it(request_, cluster, tmp_path, clock)
        assert slurm.num_submitted() == 0

    def test_what_slurm_refuses_ends_the_driver(
        self, request_: TrainingRequest, cluster: ClusterSpec, slurm: FakeSlurm, tmp_path: Path,
        clock: StepClock,
    ) -> None:  # fmt: skip
        slurm.set_flag("refused", "sbatch: error: invalid partition")
        with steps(clock, lambda: None), pytest.raises(LaunchError, match="invalid partition"):
            drive_it(request_, cluster, tmp_path, clock)

    def test_without_slurm_the_driver_says_so(
        self,
        request_: TrainingRequest,
        cluster: ClusterSpec,
        tmp_path: Path,
        clock: StepClock,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        monkeypatch.setenv("PATH", str(tmp_path))
        with pytest.raises(LaunchError, match="run: no squeue on PATH"):
            drive_it(request_, cluster, tmp_path, clock)

    def test_another_launcher_leaves_a_slurm_jobs_run_alone(
        self, request_: TrainingRequest, cluster: ClusterSpec, run_folder: Path, slurm: FakeSlurm, tmp_path: Path,
        clock: StepClock,
    ) -> None:  # fmt: skip
        with steps(clock, lambda: slurm.set_state("7", "FAILED"), lambda: finish(run_folder)):
            drive_it(request_, cluster, tmp_path, clock)
        (run_folder / DONE_NAME).unlink()
        with pytest.raises(LaunchError, match=r"Slurm job 8 .*`--launcher slurm`"):
            drive(request_, launcher="local", record_path=tmp_path / "seed1.json")
        with pytest.raises(LaunchError, match=r"Slurm job 8 .*`--fresh`"):
            drive(request_, launcher="slurm", record_path=tmp_path / "seed1.json", cluster=cluster, fresh=True)
        slurm.set_flag("down")
        with pytest.raises(LaunchError, match=r"Slurm job 8 .*slurm_load_jobs error"):
            drive(request_, launcher="local", record_path=tmp_path / "seed1.json")

    def test_a_job_of_the_same_name_in_another_folder_does_not_keep_other_launchers_out(
        self, request_: TrainingRequest, cluster: ClusterSpec, run_folder: Path, slurm: FakeSlurm, tmp_path: Path,
        clock: StepClock,
    ) -> None:  # fmt: skip
        with steps(clock, lambda: finish(run_folder)):
            drive_it(request_, cluster, tmp_path, clock)
        slurm.set_queue("9|RUNNING|n1|1:00|run|None|/elsewhere/runs/run/submitit/a.sh")
        with steps(clock, lambda: finish(run_folder)):
            drive(
                request_,
                launcher="slurm",
                record_path=tmp_path / "seed1.json",
                cluster=cluster,
                fresh=True,
                clock=clock,
            )
        assert (run_folder / "aside-1" / DONE_NAME).exists()


@pytest.mark.parametrize(
    ("number", "error"), [(signal.SIGINT, KeyboardInterrupt), (signal.SIGTERM, RunError), (signal.SIGHUP, RunError)]
)
def test_a_signal_ends_the_driver_at_once_and_the_job_runs_on(
    number: signal.Signals,
    error: type[BaseException],
    request_: TrainingRequest,
    cluster: ClusterSpec,
    slurm: FakeSlurm,
    tmp_path: Path,
    clock: StepClock,
    caplog: pytest.LogCaptureFixture,
) -> None:
    handler = signal.getsignal(number)
    with caplog.at_level("INFO"), steps(clock, lambda: os.kill(os.getpid(), number)), pytest.raises(error):
        drive_it(request_, cluster, tmp_path, clock)
    assert signal.getsignal(number) is handler
    assert "`aiayn train --s" in caplog.text
    assert "`aiayn cancel run`, or `scancel --name=run`" in caplog.text
    assert slurm.num_submitted() == 1
    assert slurm.calls("scancel") == []


def test_a_pause_is_as_long_as_it_says_and_ends_early_by_its_check() -> None:
    began = time.monotonic()
    Clock().pause(0.7)
    assert 0.7 <= time.monotonic() - began < 5

    def check() -> None:
        raise RunError("ended by SIGTERM")

    with pytest.raises(RunError):
        Clock().pause(3600.0, check)
