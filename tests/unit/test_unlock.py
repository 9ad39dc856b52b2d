"""What a killed snakemake leaves is cleaned up only if its driver has certainly ended, by the driver's mark."""

import contextlib
import os
import platform
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

import aiayn.runs.unlock
from aiayn.__main__ import main
from aiayn.errors import RecordError
from aiayn.runs.unlock import DriverMark, driver_state, list_locks, mark_driver, read_marks, start_of_process
from tests.fake_slurm import FakeSlurm
from tests.run_folders import make_run, submitted

SLURM_NAME = "aiayn_bc7f6f8f-51c9-4af9-b9a8-7dad100417c2"
DRIVING = """
import sys, time
from aiayn.runs.unlock import mark_driver
mark_driver([sys.argv[1]])
print("marked", flush=True)
time.sleep(600 if sys.argv[2] == "works" else 0)
"""


@pytest.fixture
def folder(tmp_path: Path, slurm: FakeSlurm, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a working directory with the locks and the log of a snakemake that sends its jobs to Slurm."""
    monkeypatch.setattr(aiayn.runs.unlock, "POLL_SECONDS", 0.01)
    folder = tmp_path / "work"
    (folder / ".snakemake" / "locks").mkdir(parents=True)
    for name in ("0.input.lock", "0.output.lock"):
        (folder / ".snakemake" / "locks" / name).write_text("results/x.json\n", encoding="utf-8")
    (folder / ".snakemake" / "log").mkdir()
    (folder / ".snakemake" / "log" / "1.snakemake.log").write_text(
        f"SLURM run ID: {SLURM_NAME}\nMinJobAge 300s\n", encoding="utf-8"
    )
    monkeypatch.chdir(folder)
    return folder


@contextlib.contextmanager
def driver(folder: Path, state: str = "works") -> Iterator[subprocess.Popen[str]]:
    """Run a process that marks itself as the driver of a directory."""
    log_path = folder / ".snakemake" / "log" / "1.snakemake.log"
    command = [sys.executable, "-c", DRIVING, str(log_path), state]
    with subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, text=True, process_group=0) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "marked\n"
            yield process
        finally:
            process.kill()


def kill_a_driver(folder: Path) -> DriverMark:
    """Leave behind what a driver leaves that was killed."""
    with driver(folder):
        pass
    (mark,) = read_marks(folder / ".snakemake").values()
    return mark


def marks_left(folder: Path) -> int:
    return len(read_marks(folder / ".snakemake"))


def test_a_mark_says_who_drives_and_goes_with_its_driver(folder: Path) -> None:
    with driver(folder) as process:
        (mark,) = read_marks(folder / ".snakemake").values()
        assert (mark.process, mark.host, mark.folder) == (process.pid, platform.node(), str(folder))
        assert mark.changed_ns_by_lock == list_locks(folder / ".snakemake")
        assert driver_state(mark) == "running"
    assert driver_state(mark) == "ended"
    assert marks_left(folder) == 1  # it was killed
    with driver(folder, "ends") as process:
        process.wait(timeout=20)
    assert marks_left(folder) == 1


def test_the_fork_of_a_driver_leaves_the_mark_alone(tmp_path: Path) -> None:
    code = (
        "import os, sys\nfrom aiayn.runs.unlock import mark_driver, read_marks\nfrom pathlib import Path\n"
        "mark_driver([])\nchild = os.fork()\nif child == 0: sys.exit()\n"
        "os.waitpid(child, 0)\nprint(len(read_marks(Path('.snakemake'))))"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout == "1\n"
    assert marks_left(tmp_path) == 0


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({}, "running"),
        ({"process_start": 1}, "ended"),  # its number is another process's by now
        ({"process": 4_194_305}, "ended"),  # above Linux's highest
        ({"boot": "another"}, "ended"),
        ({"host": "elsewhere"}, "unknown"),
        ({"namespace": "pid:[1]"}, "unknown"),  # another container
        ({"process_start": 0}, "unknown"),  # a system that does not tell
    ],
)
def test_the_state_of_a_driver_is_certain_or_unknown(tmp_path: Path, change: dict[str, object], expected: str) -> None:
    mark_driver([], tmp_path)
    (mark,) = read_marks(tmp_path / ".snakemake").values()
    assert driver_state(msgspec.structs.replace(mark, **change)) == expected


def test_a_zombie_has_ended() -> None:
    with subprocess.Popen([sys.executable, "-c", ""], stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        child.stdout.read()
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
        assert start_of_process(child.pid) is None
    assert start_of_process(os.getpid()) is not None


def test_a_damaged_mark_is_named(folder: Path) -> None:
    (folder / ".snakemake" / "aiayn_drivers").mkdir()
    (folder / ".snakemake" / "aiayn_drivers" / "x.json").write_text("{}", encoding="utf-8")
    with pytest.raises(RecordError, match=r"x\.json: not a driver's mark: .*then delete it"):
        read_marks(folder / ".snakemake")


def test_the_jobs_and_locks_of_an_ended_driver_are_cleaned_up(
    folder: Path, slurm: FakeSlurm, capsys: pytest.CaptureFixture[str]
) -> None:
    slurm.put("31", "RUNNING", SLURM_NAME, node="n1")
    slurm.put("32", "PENDING", SLURM_NAME, reason="Priority")
    slurm.put("33", "RUNNING", "demo_en_de-base-seed1-0a1b2c3d", node="n2")
    make_run(folder / "runs", "demo_en_de-base-seed1-0a1b2c3d", jobs=[submitted("slurm", "33")])
    mark = kill_a_driver(folder)
    assert main(["unlock", "--dry-run"]) == 0
    planned = capsys.readouterr().out
    assert f"snakemake: process {mark.process} on {mark.host}, begun {mark.time}: has ended" in planned
    assert "  Slurm job 31: running n1\n  Slurm job 32: pending (Priority)\n" in planned
    assert "  demo_en_de-base-seed1-0a1b2c3d  running  slurm job 33  n2\n" in planned
    assert "would cancel Slurm jobs 31 32\nwould remove the locks in" in planned
    assert (slurm.cancelled, len(list_locks(folder / ".snakemake")), marks_left(folder)) == ([], 2, 1)
    assert main(["unlock"]) == 0
    assert "cancelled Slurm jobs 31 32\nremoved the locks in" in capsys.readouterr().out
    assert slurm.cancelled == [SLURM_NAME]
    assert not (folder / ".snakemake" / "locks").exists()
    assert main(["unlock"]) == 0
    assert "nothing to clean up" in capsys.readouterr().out


def test_a_driver_at_work_is_left_alone(folder: Path, slurm: FakeSlurm, capsys: pytest.CaptureFixture[str]) -> None:
    slurm.put("31", "RUNNING", SLURM_NAME, node="n1")
    with driver(folder) as process:
        assert main(["unlock"]) == 1
        assert f"is running; wait for it, or end it in order: kill -INT {process.pid}" in capsys.readouterr().err
    assert (slurm.cancelled, len(list_locks(folder / ".snakemake"))) == ([], 2)


def test_the_jobs_of_an_ended_driver_go_while_another_driver_has_the_locks(folder: Path, slurm: FakeSlurm) -> None:
    slurm.put("31", "RUNNING", SLURM_NAME, node="n1")
    kill_a_driver(folder)
    (folder / ".snakemake" / "log" / "2.snakemake.log").write_text("SLURM run ID: other\n", encoding="utf-8")
    slurm.put("41", "RUNNING", "other", node="n1")
    mark_driver([str(folder / ".snakemake" / "log" / "2.snakemake.log")])  # this process: alive
    assert main(["unlock"]) == 1
    assert slurm.cancelled == [SLURM_NAME]
    assert len(list_locks(folder / ".snakemake")) == 2


def test_a_driver_on_another_machine_is_not_judged(
    folder: Path, slurm: FakeSlurm, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    slurm.put("31", "RUNNING", SLURM_NAME, node="n1")
    kill_a_driver(folder)
    host = platform.node()
    monkeypatch.setattr(platform, "node", lambda: "elsewhere")
    assert main(["unlock"]) == 1
    message = capsys.readouterr().err
    assert f"whether it is running cannot be seen from here; run `aiayn unlock` on {host}" in message
    assert f"scancel --name {SLURM_NAME}; snakemake --unlock; rm " in message
    assert (slurm.cancelled, len(list_locks(folder / ".snakemake"))) == ([], 2)


def test_an_unavailable_queue_leaves_everything_as_it_is(
    folder: Path, slurm: FakeSlurm, capsys: pytest.CaptureFixture[str]
) -> None:
    kill_a_driver(folder)
    slurm.set_flag("down")
    assert main(["unlock"]) == 1
    assert "has ended, but squeue does not answer" in capsys.readouterr().err
    assert len(list_locks(folder / ".snakemake")) == 2


def test_jobs_that_do_not_end_keep_the_locks(
    folder: Path, slurm: FakeSlurm, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(aiayn.runs.unlock, "SECONDS_UNTIL_CANCELLED", 0.1)
    slurm.put("31", "RUNNING", SLURM_NAME, node="n1")
    slurm.set_flag("ignoring")
    kill_a_driver(folder)
    assert main(["unlock"]) == 3
    assert "nothing was unlocked, repeat the command later" in capsys.readouterr().err
    assert (len(list_locks(folder / ".snakemake")), marks_left(folder)) == (2, 1)


def test_locks_that_no_mark_knows_are_left(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["unlock"]) == 1
    assert "0.input.lock, 0.output.lock are of a snakemake without a mark" in capsys.readouterr().err
    kill_a_driver(folder)
    path = folder / ".snakemake" / "locks" / "0.input.lock"
    os.utime(path, ns=(1, 1))  # another snakemake's by now
    assert main(["unlock"]) == 1
    assert "locks: 0.input.lock are of a snakemake without a mark" in capsys.readouterr().err
    assert path.exists()


@pytest.mark.parametrize("more", [[], ["--dry-run"]])
def test_a_missing_folder_is_refused(folder: Path, more: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["unlock", "--directory", str(folder / "nope"), *more]) == 1
    seen = capsys.readouterr()
    assert f"{folder}/nope: no such folder; name the one where snakemake ran" in seen.err
    assert seen.out == ""


def test_jobs_of_a_snakemake_without_a_mark_are_named_and_left(
    folder: Path, slurm: FakeSlurm, capsys: pytest.CaptureFixture[str]
) -> None:
    slurm.put("31", "RUNNING", SLURM_NAME, node="n1")
    assert main(["unlock", "--dry-run"]) == 1
    assert "if you know that it has ended: scancel 31" in capsys.readouterr().err


@pytest.mark.parametrize(("verb", "code"), [("decode", 1), ("train", 0)])
def test_a_rule_that_still_works_here_keeps_the_locks_but_a_trainings_driver_does_not(
    folder: Path, verb: str, code: int, capsys: pytest.CaptureFixture[str]
) -> None:
    command = folder / "aiayn"  # in its process group and directory, as snakemake starts it
    command.write_text("import time\nprint('begun', flush=True)\ntime.sleep(600)\n", encoding="utf-8")
    with driver(folder) as snakemake:
        rule = subprocess.Popen(
            [sys.executable, str(command), verb, "--seed", "1"], stdout=subprocess.PIPE, cwd=folder,
            process_group=snakemake.pid,
        )  # fmt: skip
        assert rule.stdout is not None
        rule.stdout.readline()
    try:
        assert main(["unlock"]) == code
        message = capsys.readouterr()
        assert f"process {rule.pid} is running: aiayn {verb} --seed 1" in message.out
        assert ("its rule is running" in message.err) == bool(code)
        assert rule.poll() is None
        assert bool(list_locks(folder / ".snakemake")) == bool(code)
    finally:
        rule.kill()
        rule.wait()
        rule.stdout.close()
