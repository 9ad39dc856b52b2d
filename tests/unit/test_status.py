"""`aiayn status` lists every run below a folder, whatever became of it."""

import fcntl
import os
import platform
from pathlib import Path

import pytest

import aiayn.launch.driver
import aiayn.runs.status
from aiayn.launch.launcher import QUEUES
from aiayn.runs.attempts import (
    DRIVER_LOCK_NAME,
    LOG_NAME,
    RANK_LOCK_NAME,
    Event,
    seconds_between,
)
from aiayn.runs.locks import is_held
from aiayn.runs.log import read_log_tail, read_max_update
from aiayn.runs.names import training_of
from aiayn.runs.run_folder import RunFolder
from aiayn.runs.status import RunStatus, list_run_folders, read_statuses
from aiayn.runs.status_text import format_duration, render_status, render_statuses
from aiayn.runs.training_state import unrecorded_statuses
from aiayn.spec.sheet import TrainingKey
from aiayn.spec.system import read_system
from tests.fake_slurm import FakeSlurm
from tests.run_folders import (
    EPOCH,
    at,
    ended,
    make_run,
    settings_line,
    started,
    statistics_line,
    submitted,
    training_process,
    write_log,
)
from tests.scenes import fill_runs
from tests.slurm.no_locks import no_locks

EIGHT_GPUS = {"device": "cuda", "num_gpus": 8, "host": "gpu012", "job": "4821034"}


@pytest.fixture
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return an empty runs folder on the machine `here`, one hour after noon."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(platform, "node", lambda: "here")
    monkeypatch.setattr(aiayn.runs.status, "utc_now", lambda: at(60))
    Path("runs").mkdir()
    return Path("runs")


def status_of(folder: Path) -> RunStatus:
    (status,) = read_statuses([folder], QUEUES)
    return status


def test_the_tables_say_what_status_says_of_every_run(runs: Path, slurm: FakeSlurm) -> None:
    fill_runs(runs, slurm)
    training = read_system("base", "demo").training
    statuses: dict[TrainingKey, list[RunStatus]] = {}
    for status in read_statuses(list_run_folders(runs), QUEUES):
        if training_in_name := training_of(status.run):
            statuses.setdefault(training_in_name, []).append(status)
    assert len(statuses) > 8
    assert len(slurm.calls("squeue")) == 1  # for all runs together
    status_by_key = unrecorded_statuses(dict.fromkeys(statuses, training), runs, QUEUES)
    assert len(slurm.calls("squeue")) == 2
    for key, status in status_by_key.items():
        words = {"not recorded" if run.state == "done" else run.state for run in statuses[key]}
        assert status.state in words, key
        assert status.run in [run.run for run in statuses[key]]
    assert len({status.state for status in status_by_key.values()}) > 5


def test_of_two_runs_of_a_training_the_newer_one_counts_unless_the_older_is_alive(
    runs: Path, slurm: FakeSlurm
) -> None:
    # A changed config leaves the folder of the earlier run.
    key = ("demo_en_de", "base", 1)
    training = read_system("base", "demo").training
    older = make_run(
        runs,
        "demo_en_de-base-seed1-aaaaaaaa",
        events=[started(1, 0, job="22"), ended(1, 5, "stopped", reason="asked", update=3)],
        jobs=[submitted("slurm", "22")],
    )
    newer = "demo_en_de-base-seed1-00000000"
    make_run(runs, newer, events=[started(1, 20), ended(1, 25, "failed", reason="no space")])
    status = unrecorded_statuses({key: training}, runs, QUEUES)[key]
    assert (status.run, status.state, status.reason) == (newer, "failed", "no space")
    slurm.put("22", "RUNNING", older.name, node="n1")
    status = unrecorded_statuses({key: training}, runs, QUEUES)[key]
    assert (status.run, status.state, status.update) == (older.name, "running", 3)
    assert status.reason == "job 22 on n1"


def test_a_run_of_seed_10_is_not_taken_for_seed_1(runs: Path) -> None:
    make_run(runs, "demo_en_de-base-seed10-aaaaaaaa", events=[started(1, 0)])
    key = TrainingKey("demo_en_de", "base", 1)
    training = read_system("base", "demo").training
    assert unrecorded_statuses({key: training}, runs, QUEUES)[key].state == "missing"


def test_local_runs_ask_no_queue(runs: Path, slurm: FakeSlurm) -> None:
    # squeue may take seconds, or be absent.
    folder = make_run(runs, "a", events=[started(1, 0)], jobs=[submitted("local", "1")])
    assert (status_of(folder).state, slurm.calls("squeue")) == ("lost", [])


def test_a_job_that_squeue_has_lost_is_shown_with_its_host(runs: Path, slurm: FakeSlurm) -> None:
    folder = make_run(runs, "a", events=[started(1, 0, job="22", host="n1")])
    RunFolder(folder).append_job(submitted("slurm", "22", minutes=5))
    with training_process(folder):
        status = status_of(folder)
        table = render_statuses([status], runs)
    assert (status.state, status.job, status.host) == ("running", "22", "n1")
    assert "\nrunning, squeue does not know of its job: a\n" in table
    slurm.put(
        "22", "PENDING", "a", reason="launch failed requeued held"
    )  # as a controller that lost its state does
    with training_process(folder):
        assert (status_of(folder).state, status_of(folder).host) == ("running", "n1")
    assert (status_of(folder).state, status_of(folder).host) == ("queued", "")


def test_an_attempt_that_was_lost_costs_nothing_while_the_next_job_waits(
    runs: Path, slurm: FakeSlurm
) -> None:
    events = [started(1, 0, **EIGHT_GPUS | {"job": "22"})]
    jobs = [submitted("slurm", "22"), submitted("slurm", "23", minutes=40)]
    folder = make_run(runs, "a", events=events, jobs=jobs, log=["its last word"], log_minutes=30)
    slurm.put("23", "PENDING", "a", reason="Priority")
    assert (status_of(folder).state, status_of(folder).gpu_hours) == (
        "queued",
        4.0,
    )  # 30 minutes of 8 GPUs


def test_a_file_system_without_locks_damages_no_run(runs: Path) -> None:
    folder = make_run(runs, "a", events=[started(1, 0)], log=["its last word"], log_minutes=59)
    for name in (RANK_LOCK_NAME, DRIVER_LOCK_NAME):
        (folder / name).touch()
        os.utime(folder / name, (0, 0))
    with no_locks():
        status = status_of(folder)
    assert status.state == "unknown"
    assert status.reason == "on here, its lock cannot be seen from here; last activity 60 s ago"


def test_a_local_run_is_running_while_rank_0_holds_its_lock(runs: Path) -> None:
    log = [
        settings_line(3000),
        statistics_line(100, 5.0, "12:01:00"),
        statistics_line(700, 4.0, "12:11:00"),
    ]
    folder = make_run(runs, "a", events=[started(1, 0)], log=log)
    with training_process(folder):
        status = status_of(folder)
    assert (status.state, status.update, status.updates, status.loss_bits) == (
        "running",
        700,
        3000,
        4.0,
    )
    assert status.eta_seconds == 1150  # 2300 updates are left, 2 a second
    assert status.wall_hours == 1.0
    last_touched = seconds_between(EPOCH, at(45))
    os.utime(folder / RANK_LOCK_NAME, (last_touched, last_touched))
    status = status_of(folder)
    assert (status.state, status.eta_seconds, status.wall_hours) == (
        "lost",
        None,
        0.75,
    )  # its log ended at 12:30


def test_a_resumed_run_shows_its_first_update_until_its_log_has_more(runs: Path) -> None:
    events: list[Event] = [
        started(1, 0),
        ended(1, 20, "lost", update=600, reason="killed"),
        started(2, 40, update=600),
    ]
    log = [settings_line(3000), statistics_line(700, 4.0, "12:11:00")]
    folder = make_run(runs, "a", events=events, log=log, saved_updates=[500, 600])
    with training_process(folder):
        assert status_of(folder).update == 600
        write_log(folder, [*log, settings_line(3000, "12:41:00")], 41)
        assert (status_of(folder).update, status_of(folder).target_tokens_per_second) == (600, None)
        write_log(
            folder,
            [*log, settings_line(3000, "12:41:00"), statistics_line(650, 4.0, "12:42:00")],
            42,
        )
        assert status_of(folder).update == 650
        text = render_status(status_of(folder))
    assert "attempt 1 lost" in text
    assert ": killed" in text


def test_a_driver_before_its_job_is_a_run_that_starts(runs: Path) -> None:
    folder = make_run(runs, "a")
    with training_process(folder, lock_name=DRIVER_LOCK_NAME):
        assert (
            status_of(folder).state,
            status_of(folder).reason,
            status_of(folder).is_attended,
        ) == (
            "queued",
            "starting",
            True,
        )
    assert status_of(folder).state == "lost"


def test_asking_for_a_lock_does_not_try_to_take_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Taken even for a moment, it would keep a rank 0 from starting.
    def take(*_: object) -> None:
        raise AssertionError("a rank 0 that wants it at this moment would be refused")

    (tmp_path / "rank0.lock").touch(mode=0o444)
    monkeypatch.setattr(fcntl, "lockf", take)
    assert not is_held(tmp_path / "rank0.lock")


def test_a_log_is_read_from_its_two_ends(tmp_path: Path) -> None:
    assert (read_log_tail(tmp_path / LOG_NAME), read_max_update(tmp_path / LOG_NAME)) == (
        None,
        None,
    )
    filling = ["x" * 1000] * 600
    torn = statistics_line(30, 4.0, "12:00:30")[:-20]
    lines = [
        settings_line(77),
        *filling,
        statistics_line(10, 5.0, "12:00:00"),
        statistics_line(20, 4.5, "12:00:20"),
        torn,
    ]
    write_log(tmp_path, lines)
    tail = read_log_tail(tmp_path / LOG_NAME)
    assert tail is not None
    assert (tail.update, tail.loss_bits, tail.updates_per_second) == (20, 4.5, 2.0)
    assert read_max_update(tmp_path / LOG_NAME) == 77


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [(0, "0m00s"), (250, "4m10s"), (7500, "2h05m"), (86400 * 3 + 7 * 3600, "3d07h")],
)
def test_durations_have_two_units(seconds: float, expected: str) -> None:
    assert format_duration(seconds) == expected
