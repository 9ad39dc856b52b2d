"""Who trains a run, on a file system with locks and on one whose locks fail."""

import errno
import fcntl
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

import aiayn.runs.run_folder
from aiayn.errors import LaunchError
from aiayn.launch.driver import drive
from aiayn.runs.attempts import RANK_LOCK_NAME
from aiayn.runs.locks import LockFile, take_lock
from aiayn.runs.run_folder import RunFolder
from aiayn.train.request import TrainingRequest
from tests.forks import fork
from tests.run_folders import beating
from tests.slurm.no_locks import no_locks
from tests.unit.test_launch import make_request


@pytest.fixture
def run_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the folder of a run whose rank 0 touches its lock so often that half a second tells."""
    monkeypatch.setattr(aiayn.runs.run_folder, "HEARTBEAT_WAIT_SECONDS", 0.5)
    monkeypatch.setattr(aiayn.runs.run_folder, "HEARTBEAT_POLL_SECONDS", 0.02)
    folder = tmp_path / "runs" / "run"
    folder.mkdir(parents=True)
    (folder / RANK_LOCK_NAME).touch()
    return folder


def test_without_locks_rank_0_is_known_by_its_heartbeat(run_folder: Path) -> None:
    with no_locks():
        assert not RunFolder(run_folder).is_being_trained()
        with beating(run_folder):
            assert RunFolder(run_folder).is_being_trained()


def test_with_locks_a_heartbeat_alone_does_not_count(run_folder: Path) -> None:
    """Any process may touch the file. No process holds its lock."""
    with beating(run_folder):
        assert not RunFolder(run_folder).is_being_trained()


def test_a_disk_that_fails_is_no_file_system_without_locks(
    run_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> bytes:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(fcntl, "fcntl", fail)
    with pytest.raises(OSError, match="Input/output error"):
        RunFolder(run_folder).is_being_trained()


def test_without_locks_a_run_starts_again_unless_it_is_being_trained(
    run_folder: Path, tmp_path: Path
) -> None:
    """An unknown launcher, which the command line refuses, stops it once the run is set aside."""
    request: TrainingRequest = msgspec.structs.replace(
        make_request(run_folder), command="aiayn train"
    )
    with no_locks():
        with (
            beating(run_folder),
            pytest.raises(LaunchError, match="training this run; end it before `--fresh`"),
        ):
            drive(request, launcher="local", record_path=tmp_path / "seed1.json", fresh=True)
        assert not (run_folder / "aside-1").exists()
        with pytest.raises(KeyError, match="none"):
            drive(request, launcher="none", record_path=tmp_path / "seed1.json", fresh=True)
    assert (run_folder / "aside-1" / RANK_LOCK_NAME).exists()


@pytest.mark.parametrize(
    ("error_number", "answer"), [(0, True), (errno.EAGAIN, False), (errno.ENOLCK, None)]
)
def test_a_lock_call_that_fails_is_not_a_held_lock(
    error_number: int, answer: bool | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # An NFS without lockd answers every call with an error.
    def lockf(*_: object) -> None:
        if error_number:
            raise OSError(error_number, os.strerror(error_number))

    monkeypatch.setattr(fcntl, "lockf", lockf)
    with (tmp_path / "lock").open("w") as lock:
        assert take_lock(lock, "two jobs") is answer
        error_number = errno.EIO
        with pytest.raises(OSError, match="Input/output error"):
            take_lock(lock, "two jobs")


def start_rank_zero(folder: Path, work: Callable[[], None]) -> int:
    """Be rank 0 in a fork without locks. Its exit code is 0 if it trained, 5 if it was refused."""

    def be_rank_zero() -> int:
        from aiayn.train import rank_lock

        rank_lock.HEARTBEAT_SECONDS = 0.02
        rank_lock.HEARTBEAT_WAIT_SECONDS = rank_lock.HEARTBEAT_TIMEOUT_SECONDS = 0.5
        with no_locks():
            try:
                with rank_lock.rank_lock(RunFolder(folder)):
                    work()
            except rank_lock.BusyRunError:
                return 5
        return 0

    return fork(be_rank_zero)


def exit_codes(children: list[int]) -> list[int]:
    """Return the exit codes of forks, in order of size."""
    return sorted(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children)


@pytest.mark.parametrize("earlier", ["none", "released", "killed"])
def test_without_locks_one_of_several_starts_at_once_wins(run_folder: Path, earlier: str) -> None:
    """Two terminals of one host, and a file system whose locks fail."""
    if earlier == "released":
        assert exit_codes([start_rank_zero(run_folder, lambda: None)]) == [0]
    if earlier == "killed":
        killed = start_rank_zero(run_folder, lambda: os.kill(os.getpid(), signal.SIGKILL))
        assert exit_codes([killed]) == [-signal.SIGKILL]
    children = [start_rank_zero(run_folder, lambda: time.sleep(2)) for _ in range(4)]
    assert exit_codes(children) == [0, 5, 5, 5]
    assert len(list(run_folder.glob("rank0.lock.*"))) == 1


def test_without_locks_a_later_start_waits_for_the_heartbeat_to_stop(run_folder: Path) -> None:
    trains = start_rank_zero(run_folder, lambda: time.sleep(3))
    time.sleep(0.7)
    assert exit_codes([start_rank_zero(run_folder, lambda: None)]) == [5]
    assert exit_codes([trains]) == [0]
    assert exit_codes([start_rank_zero(run_folder, lambda: None)]) == [0]


def test_a_claim_that_was_created_late_does_not_count(run_folder: Path) -> None:
    """Its process slept while others came and went, and removed the lock files before theirs."""
    late, earlier = LockFile(run_folder / RANK_LOCK_NAME), LockFile(run_folder / RANK_LOCK_NAME)
    assert earlier.take()
    earlier.release()
    assert LockFile(run_folder / RANK_LOCK_NAME).take()
    assert not late.take()
    assert [path.name for path in run_folder.glob("rank0.lock.*")] == ["rank0.lock.2"]


def test_a_claim_whose_host_is_not_yet_written_is_held(run_folder: Path) -> None:
    (run_folder / "rank0.lock.3").touch()
    assert LockFile(run_folder / RANK_LOCK_NAME).holder() == "an unknown host"
