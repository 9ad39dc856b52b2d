"""`aiayn cancel` ends what runs or waits, tells what was saved, and refuses everything else."""

import errno
import os
import platform
from collections.abc import Iterator
from pathlib import Path

import pytest

import aiayn.runs.cancel
import aiayn.runs.status
from aiayn.__main__ import main
from aiayn.runs.attempts import DRIVER_LOCK_NAME, RANK_LOCK_NAME
from tests.fake_slurm import FakeSlurm
from tests.run_folders import (
    at,
    beating,
    make_run,
    settings_line,
    started,
    submitted,
    training_process,
    write_done,
)
from tests.slurm.no_locks import no_locks

RUN = "demo_en_de-base-seed1-0a1b2c3d"


@pytest.fixture(autouse=True)
def _short_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(aiayn.runs.cancel, "QUEUE_POLL_SECONDS", 0.01)
    monkeypatch.setattr(aiayn.runs.cancel, "SECONDS_TO_FREE_A_LOCK", 0.05)


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


@pytest.fixture
def lost_run(tmp_path: Path, slurm: FakeSlurm) -> Path:
    """Return the folder of a run that began here in a Slurm job of which squeue knows nothing."""
    begun = started(1, 0, job="22", host=platform.node())
    jobs = [submitted("slurm", "22")]
    return make_run(tmp_path / "runs", RUN, events=[begun], jobs=jobs, log=[settings_line(500)])


@pytest.fixture
def unseen_run(tmp_path: Path, slurm: FakeSlurm, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Return the folder of such a run on another machine, n1, on a file system without locks."""
    monkeypatch.setattr(aiayn.runs.status, "utc_now", lambda: at(1))
    monkeypatch.setattr(aiayn.runs.cancel, "HEARTBEAT_WAIT_SECONDS", 0.3)
    begun = started(1, 0, job="22", host="n1")
    jobs = [submitted("slurm", "22")]
    with no_locks():
        yield make_run(tmp_path / "runs", RUN, events=[begun], jobs=jobs, log=["x"], log_minutes=0)


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
    assert "still running after 0 s" in capsys.readouterr().err


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
    assert f"is on elsewhere, this is {platform.node()}; run `aiayn cancel {RUN}` there, or" in capsys.readouterr().err


def test_a_process_of_another_user_is_named_and_left_alone(
    local_run: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError(errno.EPERM, "Operation not permitted")

    with training_process(local_run) as training, monkeypatch.context() as patched:
        patched.setattr(os, "kill", refuse)
        assert cancel(local_run, "--timeout-seconds", "1") == 1
    assert f"process {training.pid} is another user's" in capsys.readouterr().err


def test_a_driver_that_has_not_submitted_yet_is_not_taken_for_a_training(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = make_run(tmp_path / "runs", RUN, events=[started(1, 0, host=platform.node())])  # an attempt that was lost
    with training_process(folder, lock_name=DRIVER_LOCK_NAME) as driver:
        assert cancel(folder) == 1
        assert driver.poll() is None
    assert "end the driver with Ctrl-C" in capsys.readouterr().err


def test_a_slurm_job_is_cancelled_by_the_runs_name(
    slurm_run: Path, slurm: FakeSlurm, capsys: pytest.CaptureFixture[str]
) -> None:
    slurm.put("23", "RUNNING", "another", node="n1")
    assert cancel(slurm_run) == 0
    assert slurm.cancelled == [RUN]
    assert "saved at update 100; the same command" in capsys.readouterr().out
    assert cancel(slurm_run) == 1
    assert "it is cancelled, job 22 was cancelled" in capsys.readouterr().err


def test_a_slurm_job_that_stays_is_exit_code_3(slurm_run: Path, slurm: FakeSlurm) -> None:
    slurm.set_flag("ignoring")
    assert cancel(slurm_run, "--timeout-seconds", "0.1") == 3


def test_an_unavailable_queue_is_exit_code_1_and_nothing_is_cancelled(
    slurm_run: Path, slurm: FakeSlurm, capsys: pytest.CaptureFixture[str]
) -> None:
    slurm.set_flag("down")
    assert cancel(slurm_run) == 1
    assert "squeue does not answer" in capsys.readouterr().err
    assert slurm.cancelled == []


def test_a_job_of_another_copy_of_the_project_is_not_cancelled_with_it(
    slurm_run: Path, slurm: FakeSlurm, capsys: pytest.CaptureFixture[str]
) -> None:
    slurm.put("23", "RUNNING", RUN, node="n1", script="/elsewhere/runs/x/submitit/job.sh")
    assert cancel(slurm_run) == 1
    assert "end this one by its number: scancel 22" in capsys.readouterr().err
    assert slurm.cancelled == []


def test_a_job_that_squeue_has_lost_is_ended_here_as_a_local_one(
    lost_run: Path, slurm: FakeSlurm, capsys: pytest.CaptureFixture[str]
) -> None:
    with training_process(lost_run) as training:
        assert cancel(lost_run) == 0
        assert training.wait(timeout=20) == 0
    assert "saved at update 120 of 500; the same command" in capsys.readouterr().out
    assert slurm.cancelled == []


def test_a_job_that_squeue_has_lost_elsewhere_is_named_with_the_way_to_end_it(
    lost_run: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    here = platform.node()
    with training_process(lost_run) as training:
        monkeypatch.setattr(platform, "node", lambda: "login")
        assert cancel(lost_run) == 1
        assert training.poll() is None
    assert capsys.readouterr().err == (
        f"aiayn cancel: {RUN}: squeue does not know of its job, but rank 0 is running: it is on {here}, "
        f"this is login; run `aiayn cancel {RUN}` there, or `ssh {here} kill -TERM {training.pid}`: it saves and ends\n"
    )


def test_a_job_that_squeue_has_lost_ends_with_the_one_that_waits_in_its_place(
    lost_run: Path, slurm: FakeSlurm, capsys: pytest.CaptureFixture[str]
) -> None:
    slurm.put("22", "PENDING", RUN, reason="launch failed requeued held")
    with training_process(lost_run) as training:
        assert cancel(lost_run) == 0
        assert training.wait(timeout=20) == 0
    assert slurm.cancelled == [RUN]
    assert "saved at update 120" in capsys.readouterr().out


def test_a_lost_job_whose_lock_is_not_seen_is_named_with_the_way_to_end_it_if_it_has_a_heartbeat(
    unseen_run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (unseen_run / RANK_LOCK_NAME).write_text("1234", encoding="utf-8")
    os.utime(unseen_run / RANK_LOCK_NAME, (0, 0))
    assert cancel(unseen_run) == 1
    message = capsys.readouterr().err
    assert "squeue does not know of job 22; on n1, its lock cannot be seen from here" in message
    assert "no heartbeat within 0 s; nothing was done" in message
    with beating(unseen_run):
        assert cancel(unseen_run) == 1
    assert "but rank 0 is running: it is on n1, this is" in (message := capsys.readouterr().err)
    assert "`ssh n1 kill -TERM 1234`: it saves and ends" in message


def test_a_lock_file_without_a_number_is_no_process(
    lost_run: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with training_process(lost_run) as training:
        (lost_run / RANK_LOCK_NAME).write_text("", encoding="utf-8")
        assert cancel(lost_run) == 1
        assert "rank 0 has only just begun; nothing was done" in capsys.readouterr().err
        assert training.poll() is None
        monkeypatch.setattr(platform, "node", lambda: "login")
        assert cancel(lost_run) == 1
    assert f"run `aiayn cancel {RUN}` there: it saves and ends" in capsys.readouterr().err


def test_an_unavailable_queue_is_named_though_the_job_runs(
    lost_run: Path, slurm: FakeSlurm, capsys: pytest.CaptureFixture[str]
) -> None:
    slurm.set_flag("down")
    with training_process(lost_run) as training:
        assert cancel(lost_run) == 1
        assert training.poll() is None
    assert "squeue does not answer; nothing was done" in capsys.readouterr().err
