"""`aiayn status` lists every run below a folder, whatever became of it."""

import fcntl
import json
import os
import platform
import time
from pathlib import Path

import pytest

import aiayn.launch.driver
import aiayn.runs.status
from aiayn.__main__ import main
from aiayn.errors import RecordError
from aiayn.launch.launcher import QUEUES
from aiayn.runs.attempts import (
    ATTEMPTS_NAME,
    DONE_NAME,
    DRIVER_LOCK_NAME,
    LOG_NAME,
    RANK_LOCK_NAME,
    Event,
    seconds_between,
)
from aiayn.runs.locks import is_held
from aiayn.runs.log import read_log_tail, read_max_update
from aiayn.runs.names import RunNameParts, match_run, split_run_name
from aiayn.runs.run_folder import RunFolder
from aiayn.runs.status import RunStatus, list_run_folders, read_statuses
from aiayn.runs.status_text import WIDTH, format_duration, render_status, render_statuses
from tests.fake_slurm import FakeSlurm
from tests.golden_files import check_golden
from tests.run_folders import (
    EPOCH,
    at,
    ended,
    job_output,
    make_run,
    settings_line,
    started,
    statistics_line,
    submitted,
    training_process,
    write_done,
    write_log,
)
from tests.slurm.no_locks import no_locks

TRACEBACK = [
    "2026-01-01 12:10:00 | ERROR | root | Traceback (most recent call last):",
    '  File "workflow/aiayn/train/checkpoints.py", line 1, in save',
    "OSError: [Errno 28] No space left on device: '/scratch/runs/wmt14_en_de-big-seed1-0a1b2c3d/checkpoints/.full.pt'",
]
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


def fill(runs: Path, slurm: FakeSlurm) -> None:
    """Put a run of every kind into a folder: seven on WMT14 by Slurm, the others here."""

    def wmt14(name: str, job: str, **parts: object) -> None:
        make_run(runs, f"wmt14_en_de-{name}", jobs=[submitted("slurm", job)], **parts)  # type: ignore[arg-type]

    # 40,000 updates in 20 minutes are 33.3 a second: the 38,000 that are left take 19 minutes.
    log = [settings_line(100_000), statistics_line(22_000, 4.5, "12:10:00"), statistics_line(62_000, 4.21, "12:30:00")]
    wmt14("base-seed1-0a1b2c3d", "4821034", events=[started(1, 0, **EIGHT_GPUS)], log=log, saved_updates=[60_000])
    slurm.put("4821034", "RUNNING", "wmt14_en_de-base-seed1-0a1b2c3d", node="gpu012")
    wmt14("base-seed2-0a1b2c3e", "4821035")
    slurm.put("4821035", "PENDING", "wmt14_en_de-base-seed2-0a1b2c3e", reason="Priority")
    wmt14("base-seed10-0a1b2c3f", "4821043")
    slurm.put("4821043", "PENDING", "wmt14_en_de-base-seed10-0a1b2c3f", reason="QOSMaxGRESPerUserLimitOfThisCluster")
    tail = [statistics_line(150_000, 3.9, "12:09:59"), *TRACEBACK]
    failure = ended(1, 30, "failed", update=149_000, reason=TRACEBACK[-1][:59], log_tail=tail)
    wmt14(
        "big-seed1-0a1b2c3d",
        "4821036",
        events=[started(1, 0, **EIGHT_GPUS | {"job": "4821036"}), failure],
        log=[settings_line(300_000)],
    )
    wmt14("table3_c_dmodel1024-seed1-0a1b2c3d", "4821037", events=[started(1, 0, **EIGHT_GPUS | {"job": "4821037"})])
    wmt14("table3_c_n2-seed1-0a1b2c3d", "4821038", events=[started(1, 0, **EIGHT_GPUS | {"job": "4821038"})])
    slurm.put("4821038", "CANCELLED", "wmt14_en_de-table3_c_n2-seed1-0a1b2c3d")
    usr2 = ended(1, 15, "stopped", update=30_000, reason="asked by SIGUSR2")
    events = [started(1, 0, **EIGHT_GPUS | {"job": "4821039"}), usr2]
    wmt14("table3_d_els0-seed1-0a1b2c3d", "4821039", events=events, saved_updates=[30_000])
    for digest in ("0a1b2c3d", "9f8e7d6c"):  # the spec was changed
        done = make_run(
            runs, f"demo_en_de-base-seed1-{digest}", events=[started(1, 0), ended(1, 2, "done", update=500)]
        )
        write_done(done, updates=500, tokens=600_000, wall_seconds=120)
    (make_run(runs, "demo_en_de-base-seed2-0a1b2c3d") / ATTEMPTS_NAME).write_text("no JSON\n", encoding="utf-8")
    make_run(runs, "notes")


def test_the_table_of_all_states_is_golden(runs: Path, slurm: FakeSlurm) -> None:
    fill(runs, slurm)
    text = render_statuses(read_statuses(list_run_folders(runs), QUEUES), runs)
    assert [line for line in text.split("\n") if len(line) > WIDTH] == []
    assert len(slurm.calls("squeue")) == 1
    check_golden("status/table.txt", text)


def test_the_long_form_is_golden(runs: Path, slurm: FakeSlurm) -> None:
    fill(runs, slurm)
    texts = [
        render_status(status_of(runs / f"wmt14_en_de-{name}")) for name in ("base-seed1-0a1b2c3d", "big-seed1-0a1b2c3d")
    ]
    check_golden("status/runs.txt", "\n".join(texts))


def test_an_unavailable_queue_makes_runs_unknown_and_hides_none(runs: Path, slurm: FakeSlurm) -> None:
    fill(runs, slurm)
    slurm.set_flag("down")
    states = {status.run: status.state for status in read_statuses(list_run_folders(runs), QUEUES)}
    assert states["wmt14_en_de-base-seed1-0a1b2c3d"] == states["wmt14_en_de-table3_d_els0-seed1-0a1b2c3d"] == "unknown"
    assert states["wmt14_en_de-big-seed1-0a1b2c3d"] == "failed"
    assert states["demo_en_de-base-seed1-0a1b2c3d"] == "done"
    assert len(states) == 11


def test_local_runs_ask_no_queue(runs: Path, slurm: FakeSlurm) -> None:
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
    slurm.put("22", "PENDING", "a", reason="launch failed requeued held")  # as a controller that lost its state does
    with training_process(folder):
        assert (status_of(folder).state, status_of(folder).host) == ("running", "n1")
    assert (status_of(folder).state, status_of(folder).host) == ("queued", "")


@pytest.mark.parametrize("outcome", ["lost", "failed"])
def test_the_last_error_of_a_job_that_never_began_is_what_it_printed(
    runs: Path, slurm: FakeSlurm, outcome: str
) -> None:
    earlier: list[Event] = [started(1, 0, job="22"), ended(1, 5, outcome, reason="no space", log_tail=["of the first"])]
    jobs = [submitted("slurm", "22"), submitted("slurm", "23", minutes=9)]
    folder = make_run(runs, "a", events=earlier, jobs=jobs, log=["of the first"])
    job_output(folder, "23", "bash: module: command not found\n")
    status = status_of(folder)
    assert (status.state, status.last_error) == ("lost", "job 23 ended before it began an attempt")
    assert status.log_tail == ["bash: module: command not found"]
    (folder / "rank3.error").write_text("rank 3 on n1: ImportError: libcuda.so\n\nTraceback", encoding="utf-8")
    assert status_of(folder).state == "failed"
    assert status_of(folder).last_error == "job 23, before it began an attempt: rank 3 on n1: ImportError: libcuda.so"


def test_an_attempt_that_was_lost_costs_nothing_while_the_next_job_waits(runs: Path, slurm: FakeSlurm) -> None:
    events = [started(1, 0, **EIGHT_GPUS | {"job": "22"})]
    jobs = [submitted("slurm", "22"), submitted("slurm", "23", minutes=40)]
    folder = make_run(runs, "a", events=events, jobs=jobs, log=["its last word"], log_minutes=30)
    slurm.put("23", "PENDING", "a", reason="Priority")
    assert (status_of(folder).state, status_of(folder).gpu_hours) == ("queued", 4.0)  # 30 minutes of 8 GPUs


def test_a_file_system_without_locks_damages_no_run(runs: Path) -> None:
    folder = make_run(runs, "a", events=[started(1, 0)], log=["its last word"], log_minutes=59)
    for name in (RANK_LOCK_NAME, DRIVER_LOCK_NAME):
        (folder / name).touch()
        os.utime(folder / name, (0, 0))
    with no_locks():
        status = status_of(folder)
    assert status.state == "unknown"
    assert status.reason == "on here, its lock cannot be seen from here; last activity 60 s ago"


def test_the_run_that_the_table_takes_as_an_example_can_be_asked_for(runs: Path) -> None:
    for seed in (1, 10):
        make_run(runs, f"demo_en_de-base-seed{seed}-0a1b2c3d", events=[started(1, 0), ended(1, 1, "stopped")])
    first, tenth = (
        render_statuses(read_statuses(folders, QUEUES), runs).rstrip("\n").rpartition(", as ")[2]
        for folders in (list_run_folders(runs), list_run_folders(runs)[1:])
    )
    assert (first, tenth) == ("demo_en_de-base-seed1", "demo_en_de-base-seed10")
    for folder in list_run_folders(runs)[1:]:
        folder.rename(runs / "x")
    assert render_statuses(read_statuses(list_run_folders(runs)[1:], QUEUES), runs).endswith(", as x\n")


def test_a_local_run_is_running_while_rank_0_holds_its_lock(runs: Path) -> None:
    log = [settings_line(3000), statistics_line(100, 5.0, "12:01:00"), statistics_line(700, 4.0, "12:11:00")]
    folder = make_run(runs, "a", events=[started(1, 0)], log=log)
    with training_process(folder):
        status = status_of(folder)
    assert (status.state, status.update, status.updates, status.loss_bits) == ("running", 700, 3000, 4.0)
    assert status.eta_seconds == 2300  # 600 updates in 600 s, 2300 are left
    assert status.wall_hours == 1.0
    last_touched = seconds_between(EPOCH, at(45))
    os.utime(folder / RANK_LOCK_NAME, (last_touched, last_touched))
    status = status_of(folder)
    assert (status.state, status.eta_seconds, status.wall_hours) == ("lost", None, 0.75)  # its log ended at 12:30


def test_a_resumed_run_shows_its_first_update_until_its_log_has_more(runs: Path) -> None:
    events: list[Event] = [started(1, 0), ended(1, 20, "lost", update=600), started(2, 40, update=600)]
    log = [settings_line(3000), statistics_line(700, 4.0, "12:11:00")]
    folder = make_run(runs, "a", events=events, log=log, saved_updates=[500, 600])
    with training_process(folder):
        assert status_of(folder).update == 600
        write_log(folder, [*log, settings_line(3000, "12:41:00")], 41)
        assert (status_of(folder).update, status_of(folder).target_tokens_per_second) == (600, None)
        write_log(folder, [*log, settings_line(3000, "12:41:00"), statistics_line(650, 4.0, "12:42:00")], 42)
        assert status_of(folder).update == 650


def test_gpu_hours_are_summed_over_attempts(runs: Path) -> None:
    events: list[Event] = [
        started(1, 0, **EIGHT_GPUS),
        ended(1, 15, "lost", reason="killed"),
        started(2, 30, **EIGHT_GPUS),
    ]
    folder = make_run(runs, "a", events=events)
    with training_process(folder):
        status = status_of(folder)
    assert (status.gpu_hours, status.wall_hours, len(status.attempts)) == (6.0, 0.75, 2)  # 15 and 30 minutes of 8 GPUs
    assert (status.state, status.last_error) == ("running", "killed")
    assert "Last error, of an earlier attempt: killed" in render_status(status)


def test_a_driver_before_its_job_is_a_run_that_starts(runs: Path) -> None:
    folder = make_run(runs, "a")
    with training_process(folder, lock_name=DRIVER_LOCK_NAME):
        assert (status_of(folder).state, status_of(folder).reason, status_of(folder).is_attended) == (
            "queued", "starting", True,
        )  # fmt: skip
    assert status_of(folder).state == "lost"


def test_a_torn_record_and_an_empty_folder_are_damaged_and_hide_no_other(runs: Path) -> None:
    torn = make_run(runs, "demo_en_de-base-seed1-0a1b2c3d", events=[started(1, 0)])
    (torn / DONE_NAME).write_text('{"run": ', encoding="utf-8")
    make_run(runs, "demo_en_de-base-seed2-0a1b2c3d")
    make_run(runs, "demo_en_de-base-seed3-0a1b2c3d", events=[started(1, 0), ended(1, 1, "stopped")])
    (runs / "a file").touch()
    (runs / "code" / "0123").mkdir(parents=True)
    first, second, third = read_statuses(list_run_folders(runs), QUEUES)
    assert (first.state, second.state, third.state) == ("damaged", "damaged", "stopped")
    assert "done.json: not a TrainRecord" in first.reason
    assert "no attempt and no job in it" in second.reason


def test_a_hundred_runs_with_long_logs_take_less_than_two_seconds_of_a_core(runs: Path) -> None:
    filling = [statistics_line(number, 4.0, "12:10:00") for number in range(2000)]
    log = [settings_line(100_000), *filling]  # about half a megabyte
    for number in range(100):
        make_run(runs, f"demo_en_de-base-seed{number}-0a1b2c3d", events=[started(1, 0)], log=log)
    begin = time.process_time()
    statuses = read_statuses(list_run_folders(runs), QUEUES)
    assert time.process_time() - begin < 2
    assert [status.updates for status in statuses] == [100_000] * 100


def test_the_verb_prints_a_table_one_run_and_json(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    make_run(runs, "demo_en_de-base-seed1-0a1b2c3d", events=[started(1, 0), ended(1, 1, "stopped", reason="asked")])
    where = ["--runs-folder", str(runs)]
    assert main(["status", *where]) == 0
    assert "1 stopped" in capsys.readouterr().out
    assert main(["status", "demo_en_de-base", *where]) == 0
    assert capsys.readouterr().out.startswith("demo_en_de-base-seed1-0a1b2c3d: stopped, asked\n")
    assert main(["status", *where, "--json"]) == 0
    assert [run["state"] for run in json.loads(capsys.readouterr().out)] == ["stopped"]
    assert main(["status", "demo_en_de-base", *where, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["attempts"][0]["reason"] == "asked"
    assert main(["status", "demo_en_fr", *where]) == 1
    assert "demo_en_fr is no run; candidates:\n  demo_en_de-base-seed1-0a1b2c3d" in capsys.readouterr().err


def test_an_empty_and_a_missing_folder_differ(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["status", "--runs-folder", str(runs)]) == 0
    assert capsys.readouterr().out == f"{runs}: no runs yet\n"
    assert main(["status", "--runs-folder", str(runs / "none")]) == 1
    assert "no such folder" in capsys.readouterr().err


def test_asking_for_a_lock_does_not_try_to_take_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def take(*_: object) -> None:
        raise AssertionError("a rank 0 that wants it at this moment would be refused")

    (tmp_path / "rank0.lock").touch(mode=0o444)
    monkeypatch.setattr(fcntl, "lockf", take)
    assert not is_held(tmp_path / "rank0.lock")


def test_a_log_is_read_from_its_two_ends(tmp_path: Path) -> None:
    assert (read_log_tail(tmp_path / LOG_NAME), read_max_update(tmp_path / LOG_NAME)) == (None, None)
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
    assert (tail.update, tail.loss_bits, tail.updates_per_second) == (20, 4.5, 0.5)
    assert len(tail.lines) <= 400
    assert read_max_update(tmp_path / LOG_NAME) == 77


def test_a_loss_that_is_no_number_is_shown(runs: Path) -> None:
    folder = make_run(runs, "a", events=[started(1, 0)], log=[statistics_line(10, float("nan"), "12:00:00")])
    assert "nan bits" in render_status(status_of(folder))


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [(None, "-"), (0, "0m00s"), (250, "4m10s"), (7500, "2h05m"), (86400 * 3 + 7 * 3600, "3d07h")],
)
def test_durations_have_two_units(seconds: float | None, expected: str) -> None:
    assert format_duration(seconds) == expected


def test_a_name_is_split_from_its_end() -> None:
    parts = split_run_name("multi30k_en_de-table3_a_h1-seed12-0a1b2c3d")
    assert parts == RunNameParts(corpus="multi30k_en_de", system="table3_a_h1", seed=12, digest8="0a1b2c3d")
    assert split_run_name("aside-1") is None


def test_a_beginning_means_one_run_or_is_refused() -> None:
    def meant(run: str) -> str:
        return match_run(run, ["a-1", "a-12", "b-1"], place="runs", unknown="is no run")

    assert (meant("b"), meant("a-1")) == ("b-1", "a-1")  # a whole name is no beginning
    with pytest.raises(RecordError, match=r"runs: a is the beginning of more than one run; cand.*:\n  a-1\n  a-12$"):
        meant("a")
    with pytest.raises(RecordError, match=r"runs: c is no run; candidates:\n  a-1\n  a-12\n  b-1$"):
        meant("c")
