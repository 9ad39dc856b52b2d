"""`aiayn cancel` ends what runs or waits, tells what was saved, and refuses everything else."""

import platform
from pathlib import Path

import pytest

import aiayn.runs.cancel
from aiayn.__main__ import main
from aiayn.runs.attempts import DRIVER_LOCK_NAME, RANK_LOCK_NAME
from tests.run_folders import (
    FakeSlurm,
    make_run,
    settings_line,
    started,
    submitted,
    training_process,
    write_done,
)

RUN = "demo_en_de-base-seed1-0a1b2c3d"


@pytest.fixture
def slurm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeSlurm:
    fake = FakeSlurm(tmp_path / "slurm")
    monkeypatch.setenv("PATH", str(fake.folder), prepend=":")
    monkeypatch.setattr(aiayn.runs.cancel, "QUEUE_POLL_SECONDS", 0.01)
    return fake


@pytest.fixture
def local_run(tmp_path: Path) -> Path:
    """Return the folder of a run that began here."""
    begun = started(1, 0, host=platform.node())
    return make_run(tmp_path / "runs", RUN, events=[begun], log=[settings_line(500)], saved_updates=[100])


@pytest.fixture
def slurm_run(tmp_path: Path, slurm: FakeSlurm) -> Path:
    """Return the folder of a run whose job waits."""
    slurm.put("22", "PENDING", RUN, reason="Priority")
    return make_run(tmp_path / "runs", RUN, jobs=[submitted("slurm", "22")], saved_updates=[100])


def cancel(run_folder: Path, *flags: str) -> int:
    return main(["cancel", "demo_en_de-base", "--runs-folder", str(run_folder.parent), *flags])


def test_a_local_run_saves_and_ends(local_run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with training_process(local_run) as training:
        assert cancel(local_run) == 0
        assert training.wait(timeout=20) == 0
    assert capsys.readouterr().out == (
        f"{RUN}: saved at update 120 of 500; the same command, `snakemake` or `aiayn train`, resumes it\n"
    )


def test_a_run_that_does_not_end_in_time_is_exit_code_3(local_run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with training_process(local_run, is_stubborn=True) as training:
        assert cancel(local_run, "--timeout-seconds", "0.2") == 3
        assert training.poll() is None
    assert "was told to end, but has not within 0 s; `aiayn logs" in capsys.readouterr().err


def test_nothing_that_runs_is_exit_code_1(local_run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (local_run / RANK_LOCK_NAME).write_text("1", encoding="utf-8")  # a process of the past, of another by now
    assert cancel(local_run) == 1
    assert "nothing to end, it neither runs nor waits; it is lost" in capsys.readouterr().err


def test_a_run_that_is_done_is_left_alone(local_run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_done(local_run, updates=500, tokens=1, wall_seconds=1)
    assert cancel(local_run) == 1
    assert "it is done" in capsys.readouterr().err


def test_a_run_on_another_machine_is_named_and_left_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = make_run(tmp_path / "runs", RUN, events=[started(1, 0, host="elsewhere")])
    with training_process(folder) as training:
        assert cancel(folder) == 1
        assert training.poll() is None
    assert f"is on elsewhere, this is {platform.node()}; run `aiayn cancel {RUN}` there" in capsys.readouterr().err


def test_a_driver_that_has_not_submitted_yet_is_not_taken_for_a_training(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = make_run(tmp_path / "runs", RUN, events=[started(1, 0, host=platform.node())])  # an attempt that was lost
    with training_process(folder, lock_name=DRIVER_LOCK_NAME) as driver:
        assert cancel(folder) == 1
        assert driver.poll() is None
    assert "nothing runs yet; end that with Ctrl-C" in capsys.readouterr().err


def test_a_slurm_job_is_cancelled_by_the_runs_name(
    slurm_run: Path, slurm: FakeSlurm, capsys: pytest.CaptureFixture[str]
) -> None:
    slurm.put("23", "RUNNING", "another", node="n1")
    assert cancel(slurm_run) == 0
    assert f"--name={RUN}" in slurm.cancelled
    assert "saved at update 100; the same command" in capsys.readouterr().out
    assert cancel(slurm_run) == 1
    assert "it is cancelled, job 22 was cancelled" in capsys.readouterr().err


def test_a_slurm_job_that_stays_is_exit_code_3(slurm_run: Path, slurm: FakeSlurm) -> None:
    slurm.turn_deaf()
    assert cancel(slurm_run, "--timeout-seconds", "0.1") == 3


def test_a_silent_queue_is_exit_code_1_and_nothing_is_cancelled(
    slurm_run: Path, slurm: FakeSlurm, capsys: pytest.CaptureFixture[str]
) -> None:
    slurm.fall_silent()
    assert cancel(slurm_run) == 1
    assert "squeue does not answer" in capsys.readouterr().err
    assert slurm.cancelled == ""


def test_a_job_of_another_copy_of_the_project_is_not_cancelled_with_it(
    slurm_run: Path, slurm: FakeSlurm, capsys: pytest.CaptureFixture[str]
) -> None:
    slurm.put("23", "RUNNING", RUN, node="n1", script="/elsewhere/runs/x/submitit/job.sh")
    assert cancel(slurm_run) == 1
    assert "end this one by its number: scancel 22" in capsys.readouterr().err
    assert slurm.cancelled == ""
