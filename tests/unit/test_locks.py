"""Who trains a run, on a file system with locks and on one whose locks fail."""

import errno
import fcntl
from pathlib import Path

import msgspec
import pytest

import aiayn.runs.run_folder
from aiayn.errors import LaunchError
from aiayn.launch.driver import drive
from aiayn.runs.attempts import RANK_LOCK_NAME
from aiayn.runs.run_folder import RunFolder
from aiayn.train.request import TrainingRequest
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
    """Any process may touch the file; no process holds its lock."""
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
