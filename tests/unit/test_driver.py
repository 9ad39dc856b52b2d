"""What a driver does, as one table (cases/driver.toml): the queue's answers and the run's events,
then jobs, outcome and words.

Slurm's commands and the jobs of this machine are stand-ins. At each wait of the driver the next
event of a case happens. The first job is 7.
"""

import functools
import os
import pickle
import re
import shlex
import signal
import time
from pathlib import Path

import msgspec
import pytest

import aiayn.launch.driver
import aiayn.runs.run_folder
from aiayn.errors import LaunchError, RunError
from aiayn.launch.code_snapshot import snapshot_folder, take_snapshot
from aiayn.launch.launcher import SubmissionError
from aiayn.records import TrainRecord, read_record
from aiayn.runs.attempts import DONE_NAME, AttemptOutcome
from aiayn.runs.clock import Clock
from aiayn.runs.run_folder import RunFolder
from tests.case_tables import read_cases
from tests.driven_run import DrivenRun, LocalJob, Step
from tests.fake_slurm import FakeSlurm
from tests.run_folders import job_output, submitted, training_process, write_log


class Happenings:
    """What may happen to a run: the commands of cases/driver.toml, each with its arguments."""

    def __init__(self, driven: DrivenRun) -> None:
        self.driven, self.slurm = driven, driven.slurm
        self.finish = driven.finish

    def happen(self, text: str) -> None:
        """Do what the commands of a line say."""
        for command in text.split("; "):
            name, *arguments = shlex.split(command)
            getattr(self, name)(*arguments)

    def nothing(self) -> None: ...

    def squeue(self, state: str, reason: str = "None", job: str = "7") -> None:
        """Show another state of a job. '' forgets it."""
        self.slurm.set_state(job, state, reason, "" if state == "PENDING" else "n1")

    def begin(self, job: str = "7", *saved: str) -> None:
        """Begin an attempt for each checkpoint."""
        for update in saved or ("",):
            self.driven.start(job)
            if update:
                self.save(update)

    def save(self, update: str) -> None:
        self.driven.save(int(update))

    def attempt(self, outcome: AttemptOutcome, reason: str, update: str = "0") -> None:
        self.driven.stop(outcome, reason, update=int(update))

    def flag(self, name: str, text: str = "") -> None:
        self.slurm.set_flag(name, text)

    def clear(self, name: str) -> None:
        self.slurm.clear_flag(name)

    def cluster(self, key: str, value: str) -> None:
        """Change the cluster of three jobs of 1440 minutes."""
        self.driven.change_cluster(**{key: int(value)})

    def queue(self, *lines: str) -> None:
        self.slurm.set_queue(*lines)

    def in_queue(self, job: str, state: str) -> None:
        self.slurm.put(job, state, "run", script=f"{self.driven.folder}/submitit/a.sh")

    def rank_error(self) -> None:
        error = LaunchError("n2: torch sees 7 GPUs, expected 8")
        self.driven.request.folder.record_rank_error(5, error)

    def prints(self, job: str) -> None:
        """Let the batch script of a job print."""
        job_output(self.driven.folder, job, f"srun: job {job}: python3: not found\n")

    def log(self, *lines: str) -> None:
        write_log(self.driven.folder, lines)

    def beat(self) -> None:
        """Touch rank 0's lock at each look from now on."""
        driven = self.driven
        driven.clock.at_each_look = lambda: driven.set_heartbeat(driven.clock.now())

    def reappear(self) -> None:
        lines = (self.slurm.folder / "queue").read_text(encoding="utf-8").strip()
        self.queue()
        self.driven.clock.at_each_look = lambda: self.queue(lines)

    def unnumbered_pickle(self) -> None:
        """Leave what a driver leaves that was killed within sbatch."""
        (self.driven.folder / "submitit").mkdir()
        (self.driven.folder / "submitit" / "0123456789abcdef.pkl").write_bytes(b"the request")

    def has_two_files(self) -> None:
        """Check that tries, which may go on for days, leave no further files."""
        assert len(list((self.driven.folder / "submitit").iterdir())) == 2


class Case(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """A case of cases/driver.toml, which says what the fields mean."""

    name: str
    steps: list[str]
    jobs: tuple[str, ...] = ("7",)
    error: str = ""
    logged: list[str] = []
    before: str = "nothing"
    outcome: str = ""
    released: int = 0
    launcher: str = "slurm"


CASES = msgspec.convert(read_cases("driver.toml"), list[Case])


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_driver_does_with_a_job_as_its_queue_and_its_run_say(
    case: Case, driven: DrivenRun, caplog: pytest.LogCaptureFixture
) -> None:
    happen = Happenings(driven).happen
    happen(case.before)
    steps = [functools.partial(happen, step) for step in case.steps]
    with caplog.at_level("INFO"):
        if case.error:
            with pytest.raises((RunError, LaunchError)) as raised:
                driven.drive(*steps, launcher=case.launcher)
            assert re.search(case.error, str(raised.value)), raised.value
            assert raised.value.exit_code == 3
        else:
            driven.drive(*steps, launcher=case.launcher)
            assert read_record(driven.record_path, TrainRecord).run_folder == driven.folder
    assert driven.record_path.exists() is not bool(case.error)
    assert tuple(driven.jobs) == case.jobs
    is_by_slurm = case.launcher == "slurm"
    assert driven.slurm.num_submitted() == is_by_slurm * len(set(case.jobs) - {"5"})
    assert sum("release" in call for call in driven.slurm.calls("scontrol")) == case.released
    for pattern in case.logged:
        messages = [message for message in caplog.messages if re.search(pattern, message)]
        assert len(messages) == 1, pattern
    if case.outcome:
        newest = driven.request.folder.newest_update()
        assert (driven.last_end.outcome, driven.last_end.update) == (case.outcome, newest)
    for job in driven.jobs:  # without it a job would fail
        has_pickle = (driven.folder / "submitit" / f"{job}_submitted.pkl").exists()
        assert has_pickle or case.name.startswith(("an alive job", "local"))
    assert case.name != "a finished run asks no queue" or driven.slurm.calls("squeue") == []


def test_a_recorded_job_has_its_code_chosen_once_and_where_it_resumes(
    driven: DrivenRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However the checkout changes, a driver's later jobs run the code of its first."""
    copied: list[Path] = []
    monkeypatch.setattr(
        aiayn.launch.driver,
        "take_snapshot",
        lambda folder: (copied.append(folder), take_snapshot(folder))[1],
    )
    saved = "attempt stopped 'asked by SIGUSR2' 100; squeue COMPLETED"
    driven.drive(lambda: Happenings(driven).happen(saved), driven.finish)
    first, second = driven.request.folder.jobs()
    assert (first.launcher, first.num_ranks, first.update, second.update) == (
        "slurm",
        driven.request.num_ranks,
        0,
        100,
    )
    assert Path(first.code_folder, "aiayn", "launch", "job.py").is_file()
    assert copied == [driven.folder.parent]
    assert second.code_folder == first.code_folder


def test_a_run_with_a_checkpoint_runs_the_present_code_and_names_its_commit(
    driven: DrivenRun, tmp_path: Path
) -> None:
    (driven.folder / "checkpoints").mkdir(exist_ok=True)
    driven.save(30)
    RunFolder(driven.folder).append_job(
        msgspec.structs.replace(
            submitted("slurm", "6"), commit="old", code_folder=str(tmp_path / "code of job 6")
        )
    )
    driven.drive(driven.finish)
    job = driven.request.folder.jobs()[-1]
    assert (job.job, job.commit) == ("7", driven.request.commit)
    assert job.code_folder == str(snapshot_folder(driven.folder.parent))
    script = (driven.slurm.folder / "7.sh").read_text(encoding="utf-8")
    assert f"export AIAYN_COMMIT={driven.request.commit}\n" in script
    assert f"export PYTHONPATH={job.code_folder}" in script.replace("'", "")
    pickled = pickle.loads((driven.folder / "submitit" / "7_submitted.pkl").read_bytes()).function
    assert pickled.request.code_folder == job.code_folder


def hide_record(driven: DrivenRun, seconds: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """Finish, on a file system that shows the record so many of the driver's seconds later."""
    driven.finish()
    shown_at = driven.clock.now() + seconds
    list_folder = os.listdir

    def list_late(folder: Path | str) -> list[str]:
        is_shown = driven.clock.now() >= shown_at
        return [name for name in list_folder(folder) if is_shown or name != DONE_NAME]

    monkeypatch.setattr(aiayn.runs.run_folder.os, "listdir", list_late)


def test_a_late_record_is_awaited(driven: DrivenRun, monkeypatch: pytest.MonkeyPatch) -> None:
    ended = "attempt done '' 3000; squeue COMPLETED"
    driven.drive(lambda: (Happenings(driven).happen(ended), hide_record(driven, 4, monkeypatch)))
    assert driven.slurm.num_submitted() == 1


def test_no_job_is_submitted_while_rank_0_holds_its_lock_and_touches_it(driven: DrivenRun) -> None:
    driven.clock.at_each_look = lambda: driven.set_heartbeat(driven.clock.now() // 40)
    with training_process(driven.folder):
        driven.drive(lambda: None, driven.finish)
    assert driven.slurm.num_submitted() == 0


def test_a_held_lock_without_a_heartbeat_is_of_a_machine_that_went_down(driven: DrivenRun) -> None:
    """NFS 3 keeps it until that machine has booted, which may be never."""
    with training_process(driven.folder):
        driven.drive(driven.finish)
    assert 60 <= driven.clock.now() < 100
    assert driven.slurm.num_submitted() == 1


def test_a_squeue_that_is_missing_ends_the_driver(
    driven: DrivenRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(driven.folder))
    with pytest.raises(
        LaunchError,
        match=r"run: no squeue on PATH: this machine has no Slurm; .* `--launcher local`",
    ):
        driven.drive()
    assert driven.slurm.num_submitted() == 0


@pytest.mark.parametrize("launcher", ["slurm", "local"])
@pytest.mark.parametrize(
    ("number", "error"),
    [(signal.SIGINT, KeyboardInterrupt), (signal.SIGTERM, RunError), (signal.SIGHUP, RunError)],
)
def test_a_signal_ends_the_driver_after_its_job_here_and_at_once_where_that_runs_on(
    number: signal.Signals,
    error: type[BaseException],
    launcher: str,
    driven: DrivenRun,
    slurm: FakeSlurm,
    caplog: pytest.LogCaptureFixture,
) -> None:
    handler = signal.getsignal(number)
    with caplog.at_level("INFO"), pytest.raises(error):
        driven.drive(lambda: os.kill(os.getpid(), number), launcher=launcher)
    assert signal.getsignal(number) is handler
    if launcher == "local":
        return
    assert "`aiayn train --s" in caplog.text
    assert "`aiayn cancel run`, or `scancel --name=run`" in caplog.text
    assert slurm.num_submitted() == 1
    assert slurm.calls("scancel") == []


@pytest.mark.parametrize("launcher", ["slurm", "local"])
def test_after_a_signal_no_job_is_submitted(
    launcher: str, driven: DrivenRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        aiayn.launch.driver,
        "place_beginning",
        lambda request: os.kill(os.getpid(), signal.SIGTERM),
    )
    with pytest.raises(RunError, match="run: no job of this run is known; the same command sub"):
        driven.drive(launcher=launcher)
    assert driven.jobs == []
    assert driven.slurm.num_submitted() == 0


@pytest.mark.parametrize("launcher", ["slurm", "local"])
def test_a_driver_that_waits_to_submit_does_not_say_that_a_job_continues(
    launcher: str, driven: DrivenRun, caplog: pytest.LogCaptureFixture
) -> None:
    """Slurm refuses a job for now, or all GPUs of this machine are in use."""
    driven.slurm.set_flag("refused", "sbatch: error: QOSMaxSubmitJobPerUserLimit")

    def refuse(work: Step) -> LocalJob:
        work()
        raise SubmissionError("run: 0 of this machine's 2 GPUs are free", is_passing=True)

    driven.make_local_job = refuse
    submission = [lambda: None] if launcher == "local" else []
    with caplog.at_level("INFO"), pytest.raises(KeyboardInterrupt):
        driven.drive(*submission, lambda: os.kill(os.getpid(), signal.SIGINT), launcher=launcher)
    assert "continues" not in caplog.text
    assert "run: no job of this run is known; the same command submits one" in caplog.text


def test_a_pause_is_as_long_as_it_says_and_ends_early_by_its_check() -> None:
    began = time.monotonic()
    Clock().pause(0.7)
    assert 0.7 <= time.monotonic() - began < 5

    def check() -> None:
        raise RunError("ended by SIGTERM")

    with pytest.raises(RunError):
        Clock().pause(3600.0, check)
