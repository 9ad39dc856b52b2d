"""`aiayn cancel` ends what runs or waits, tells what was saved, and refuses everything else."""

import contextlib
import os
import platform
from pathlib import Path

import msgspec
import pytest

import aiayn.runs.cancel
import aiayn.runs.status
from aiayn.__main__ import main
from aiayn.runs.attempts import RANK_LOCK_NAME
from aiayn.runs.queue import Queues
from aiayn.runs.run_folder import RunFolder
from aiayn.runs.status import RunStatus
from tests.case_tables import read_cases
from tests.fake_slurm import FakeSlurm
from tests.run_folders import (
    at,
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


def cancel(run_folder: Path, *flags: str) -> int:
    return main(["cancel", "demo_en_de-base", "--runs-folder", str(run_folder.parent), *flags])


class Case(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """A case of cases/cancel.toml, which says what the fields mean."""

    name: str
    error: str = ""
    code: int = 1
    host: str = "here"
    is_slurm: bool = False
    queue: list[tuple[str, str]] = []
    flag: str = ""
    lock: str = RANK_LOCK_NAME
    is_stubborn: bool = False
    cancelled: bool = False
    node: str = "here"


CASES = msgspec.convert(read_cases("cancel.toml"), list[Case])


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_what_runs_or_waits_is_ended_and_all_else_left_alone(
    case: Case,
    tmp_path: Path,
    slurm: FakeSlurm,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:

    monkeypatch.setattr(platform, "node", lambda: case.node)
    folder = make_run(
        tmp_path / "runs",
        RUN,
        events=[started(1, 0, job="22", host=case.host)] if case.host else [],
        jobs=[submitted("slurm", "22")] if case.is_slurm else [],
        log=[settings_line(500)],
        saved_updates=[100],
    )
    for number, (state, script) in enumerate(case.queue, 22):
        slurm.put(str(number), state, RUN, reason="Priority", script=script)
    slurm.put("30", "RUNNING", "another", node="n1")
    if case.flag:
        slurm.set_flag(case.flag)
    held = training_process(folder, lock_name=case.lock, is_stubborn=case.is_stubborn)
    with held if case.lock else contextlib.nullcontext() as process:
        in_time = "0.2" if case.code == 3 else "20"
        assert cancel(folder, "--timeout-seconds", in_time) == case.code
        if process and case.code == 0:
            assert process.wait(20) == 0
        elif process:
            assert process.poll() is None
    output, errors = capsys.readouterr()
    assert case.error.replace("PID", str(process and process.pid)) in errors
    saved = (
        f"{RUN}: saved at update {120 if case.lock else 100} of 500; the same command, `snakemake`"
        " or `aiayn train`"
    )
    assert output == ("" if case.code else f"{saved}, resumes it\n")
    assert slurm.cancelled == [RUN] * case.cancelled


@pytest.fixture
def local_run(tmp_path: Path) -> Path:
    """Return the folder of a run that began here."""
    begun = started(1, 0, host=platform.node())
    return make_run(
        tmp_path / "runs", RUN, events=[begun], log=[settings_line(500)], saved_updates=[100]
    )


def test_a_lost_job_whose_lock_is_not_seen_is_named_with_the_way_to_end_it(
    tmp_path: Path,
    slurm: FakeSlurm,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """On another machine, n1, on a file system without locks."""
    monkeypatch.setattr(aiayn.runs.status, "utc_now", lambda: at(1))
    begun, jobs = started(1, 0, job="22", host="n1"), [submitted("slurm", "22")]
    folder = make_run(tmp_path / "runs", RUN, events=[begun], jobs=jobs, log=["x"], log_minutes=0)
    (folder / RANK_LOCK_NAME).write_text("1234", encoding="utf-8")
    os.utime(folder / RANK_LOCK_NAME, (0, 0))
    with no_locks():
        assert cancel(folder) == 1
    message = capsys.readouterr().err
    assert "squeue does not know of job 22; on n1, its lock cannot be seen from here" in message
    assert "nothing was done" in message
    assert "`kill -TERM 1234` of rank 0: it saves and ends" in message


def test_a_rank_that_ends_just_after_its_job_was_cancelled_is_no_error(
    local_run: Path,
    slurm: FakeSlurm,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    RunFolder(local_run).append_job(submitted("slurm", "22"))
    slurm.put("22", "RUNNING", RUN)
    # The lock is held as long as `cancel` waits for it, and free at the next look.
    wait = aiayn.runs.cancel._comes_true
    monkeypatch.setattr(
        aiayn.runs.cancel,
        "_comes_true",
        lambda condition, seconds, poll_seconds: (
            False
            if poll_seconds == aiayn.runs.cancel.POLL_SECONDS
            else wait(condition, seconds, poll_seconds)
        ),
    )
    assert cancel(local_run) == 0
    assert "saved at update 100 of 500" in capsys.readouterr().out


@pytest.mark.parametrize("is_done", [True, False])
def test_a_local_rank_that_ends_by_itself_is_not_ended(
    is_done: bool,
    local_run: Path,
    slurm: FakeSlurm,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """It ends between the look at its state and the signal."""
    with training_process(local_run) as training:
        read = aiayn.runs.cancel.read_statuses

        def read_and_end(run_folders: list[Path], queues: Queues) -> list[RunStatus]:
            statuses = read(run_folders, queues)
            training.kill()
            training.wait()
            if is_done:
                write_done(local_run, tokens=1, wall_seconds=1)
            return statuses

        monkeypatch.setattr(aiayn.runs.cancel, "read_statuses", read_and_end)
        assert cancel(local_run) == (0 if is_done else 1)
    output, errors = capsys.readouterr()
    if is_done:
        assert output == f"{RUN}: finished before it could be ended; it is done\n"
    else:
        assert "rank 0 is not running now" in errors


def test_a_lock_file_without_a_number_is_no_process(
    local_run: Path,
    slurm: FakeSlurm,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    RunFolder(local_run).append_job(submitted("slurm", "4711"))
    with training_process(local_run) as training:
        (local_run / RANK_LOCK_NAME).write_text("", encoding="utf-8")
        assert cancel(local_run) == 1
        assert "rank 0 has only just begun; repeat the command" in capsys.readouterr().err
        assert training.poll() is None
        monkeypatch.setattr(platform, "node", lambda: "login")
        assert cancel(local_run) == 1
    assert (
        f"there run `aiayn cancel {RUN}`, or `kill -TERM PROCESS` of rank 0: it saves"
        in capsys.readouterr().err
    )
