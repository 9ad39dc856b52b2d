"""How a job is started, and how signals reach the training in it."""

import os
import signal
import subprocess
from pathlib import Path

import msgspec
import pytest

import aiayn
import aiayn.launch.job
import aiayn.launch.local
from aiayn.errors import LaunchError
from aiayn.launch.code_snapshot import take_snapshot
from aiayn.launch.job import ALLOCATOR_ENVIRONMENT, TrainingJob
from aiayn.launch.launcher import Launcher, make_launcher
from aiayn.launch.slurm.job import continue_later, is_to_continue
from aiayn.train.request import StopFlag, TrainingRequest
from tests.fake_slurm import FakeSlurm
from tests.records_factory import BASE_TRAINING
from tests.slurm.cluster_processes import wait_until


def make_request(run_folder: Path, *, num_ranks: int = 1) -> TrainingRequest:
    """Return a request to train in a folder."""
    return TrainingRequest(
        run="run",
        run_folder=str(run_folder),
        corpus="corpus",
        system="base",
        seed=1,
        training=BASE_TRAINING,
        data_folder="data-bin",
        source_language="en",
        target_language="de",
        is_joint=True,
        binarized_path="record.json",
        num_models=1,
        num_ranks=num_ranks,
        threads_per_rank=3,
        commit="abc+dirty",
        command="",
    )


def submitted(request: TrainingRequest, launcher: str, code_folder: Path | None = None) -> Launcher:
    """Submit a job and return its launcher."""
    made = make_launcher(launcher, request, None)
    made.submit(request, code_folder)
    return made


class EnvironmentJob(TrainingJob):
    """A job that trains nothing and tells the environment that it finds itself in."""

    def __call__(self) -> None:
        """Write variables and the handling of INT, one a line."""
        names = ["AIAYN_COMMIT", "OMP_NUM_THREADS", "CUDA_VISIBLE_DEVICES", *ALLOCATOR_ENVIRONMENT]
        lines = [f"{name}={os.environ.get(name)}" for name in names]
        lines.append(f"ignores INT: {signal.getsignal(signal.SIGINT) is signal.SIG_IGN}")
        lines.append(f"code: {aiayn.__file__}")
        Path(self.request.run_folder, "environment").write_text("\n".join(lines), encoding="utf-8")


def test_a_local_job_gets_its_environment_and_no_ctrl_c(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(aiayn.launch.local, "TrainingJob", EnvironmentJob)
    monkeypatch.setattr(aiayn.launch.local, "list_gpus", list)
    monkeypatch.setenv("OMP_NUM_THREADS", "17")
    monkeypatch.setenv(
        "PYTHONPATH",
        os.pathsep.join(
            [
                str(Path(__file__).parent),
                str(Path(__file__).parents[2]),
                os.environ.get("PYTHONPATH", ""),
            ]
        ),
    )
    handler = signal.getsignal(signal.SIGINT)
    code_folder = take_snapshot(tmp_path)
    launcher = submitted(make_request(tmp_path), "local", code_folder)
    assert signal.getsignal(signal.SIGINT) is handler
    assert os.environ["OMP_NUM_THREADS"] == "17"
    assert "AIAYN_COMMIT" not in os.environ
    wait_until(lambda: not launcher.find()[0].is_alive, 60, "the job's end")
    lines = (tmp_path / "environment").read_text(encoding="utf-8").split("\n")
    expected = ["AIAYN_COMMIT=abc+dirty", "OMP_NUM_THREADS=3", "CUDA_VISIBLE_DEVICES="]
    assert lines == [
        *expected,
        *(f"{name}={value}" for name, value in ALLOCATOR_ENVIRONMENT.items()),
        "ignores INT: True",
        f"code: {code_folder}/aiayn/__init__.py",
    ]


@pytest.mark.parametrize(
    ("launcher", "num_ranks", "words"),
    [
        ("debug", 2, "run: 2 ranks, but `debug`"),
        (
            "local",
            1,
            r"run: the local launcher could not start a job: .*run",
        ),  # its folder cannot be written
    ],
)
def test_what_cannot_be_started_is_a_launch_error(
    launcher: str, num_ranks: int, words: str, tmp_path: Path
) -> None:
    (tmp_path / "run").touch()
    with pytest.raises(LaunchError, match=words):
        submitted(make_request(tmp_path / "run", num_ranks=num_ranks), launcher)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGUSR2, signal.SIGHUP])
def test_signals_are_noted_and_handlers_given_back(number: signal.Signals) -> None:
    handler = signal.getsignal(number)
    with StopFlag().installed() as stop:
        assert stop.signal_number is None
        os.kill(os.getpid(), number)
        assert stop.signal_number is number
    assert signal.getsignal(number) is handler


def test_a_time_limit_does_not_replace_a_request_to_end() -> None:
    with StopFlag().installed() as stop:
        os.kill(os.getpid(), signal.SIGUSR2)
        os.kill(os.getpid(), signal.SIGTERM)
        os.kill(os.getpid(), signal.SIGUSR2)
        assert stop.signal_number is signal.SIGTERM


@pytest.mark.parametrize(
    ("number", "preempted", "continues"),
    [
        (signal.SIGUSR2, "None", True),
        (signal.SIGTERM, "2026-01-01T12:00:00", True),
        (signal.SIGTERM, "None", False),
        (signal.SIGTERM, "", False),
        (signal.SIGINT, "2026-01-01T12:00:00", False),
        (signal.SIGHUP, "None", False),
    ],
)
def test_a_job_that_was_preempted_or_has_no_more_time_is_continued(
    number: signal.Signals, preempted: str, continues: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown = "   PreemptEligibleTime=2026-01-01T11:00:00"
    shown += f" PreemptTime={preempted}\n" if preempted else "\n"
    answer = subprocess.CompletedProcess([], 0, f"JobId=9\n{shown}   TimeLimit=00:30:00\n")
    monkeypatch.setattr("aiayn.launch.slurm.job.run_slurm", lambda command: answer)
    assert is_to_continue("9", number) == continues


def test_a_job_that_cannot_ask_whether_it_was_preempted_ends(
    slurm: FakeSlurm, caplog: pytest.LogCaptureFixture
) -> None:
    slurm.set_flag("down")
    assert not is_to_continue("9", signal.SIGTERM)
    assert "job 9: saved, but `scontrol show job 9` failed: Unable to contact" in caplog.text


def test_a_job_whose_time_is_up_is_requeued_as_often_as_is_allowed_and_else_ends_as_it_is(
    tmp_path: Path, slurm: FakeSlurm, caplog: pytest.LogCaptureFixture
) -> None:
    """It has saved. Where it cannot be requeued, its driver submits the next."""
    request = msgspec.structs.replace(make_request(tmp_path), max_num_jobs=3)
    continue_later(request, "9", 2)
    continue_later(request, "9", 3)
    assert slurm.calls("scontrol") == ["requeue 9"]
    assert "run: saved; not continued, as this was job 3 of 3" in caplog.text
    slurm.set_flag("down")
    continue_later(request, "9", 1)
    assert "run: saved, but `scontrol requeue 9` failed: Unable to contact" in caplog.text
