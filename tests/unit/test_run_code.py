"""The code of a run's next job: that of its last one, unless there is a reason against it."""

from pathlib import Path

import msgspec
import pytest

from aiayn.launch.code_snapshot import RunCode, choose_code, is_whole, snapshot_folder, take_snapshot
from aiayn.runs.run_folder import RunFolder
from aiayn.train.request import TrainingRequest
from tests.run_folders import started, submitted
from tests.unit.test_launch import make_request

SOURCE_FOLDER = Path(__file__).parents[2] / "workflow"


@pytest.fixture
def request_(tmp_path: Path) -> TrainingRequest:
    """Return a request of a run that has a checkpoint."""
    folder = tmp_path / "runs" / "run" / "checkpoints"
    folder.mkdir(parents=True)
    (folder / "full_00000030.pt").touch()
    return msgspec.structs.replace(make_request(folder.parent), commit="new")


@pytest.fixture
def old(request_: TrainingRequest, tmp_path: Path) -> RunCode:
    """Return the code of the run's last job: this one, and a module that is gone since."""
    return trained_with(request_, tmp_path, "gone.py", "")


@pytest.fixture
def present(tmp_path: Path) -> RunCode:
    """Return the code as it now is."""
    return RunCode(folder=snapshot_folder(tmp_path / "runs"), commit="new")


def trained_with(request: TrainingRequest, folder: Path, changed: str, text: str) -> RunCode:
    """Let the run's last job have run this code with another text in one of its modules."""
    source = folder / "source"
    for path in (path for package in ("aiayn", "aiayn_fairseq") for path in (SOURCE_FOLDER / package).rglob("*.py")):
        copy = source / path.relative_to(SOURCE_FOLDER)
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_bytes(path.read_bytes())
    (source / "aiayn" / changed).write_text(text, encoding="utf-8")
    code = RunCode(folder=take_snapshot(Path(request.run_folder).parent, source), commit="old")
    request.folder.append_job(
        msgspec.structs.replace(submitted("slurm", "7"), commit="old", code_folder=str(code.folder)),
    )
    return code


def test_a_run_goes_on_with_the_code_of_its_last_job_and_says_so(
    request_: TrainingRequest, old: RunCode, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level("INFO"):
        assert choose_code(request_) == old
    assert f"run: keeps the code of its job 7 (commit old, {old.folder})" in caplog.text


def test_what_is_foreseen_is_what_will_be_chosen_and_nothing_is_written(
    request_: TrainingRequest, old: RunCode, present: RunCode
) -> None:
    assert choose_code(request_, is_dry_run=True) == old
    assert choose_code(request_, is_dry_run=True, fresh=True) == present
    (Path(request_.run_folder) / "checkpoints" / "full_00000030.pt").unlink()
    assert choose_code(request_, is_dry_run=True) == present
    assert not present.folder.exists()


def test_a_run_without_a_checkpoint_takes_the_present_code(
    request_: TrainingRequest, old: RunCode, present: RunCode
) -> None:
    (Path(request_.run_folder) / "checkpoints" / "full_00000030.pt").unlink()
    assert choose_code(request_) == present
    assert is_whole(present.folder)


def test_a_run_that_failed_takes_the_present_code(
    request_: TrainingRequest, old: RunCode, present: RunCode, caplog: pytest.LogCaptureFixture
) -> None:
    """The error may be mended in it."""
    run_folder = Path(request_.run_folder)
    RunFolder(run_folder).append_event(started(1, 0))
    RunFolder(run_folder).end_attempt(update=30, outcome="lost", reason="killed")
    assert choose_code(request_) == old
    RunFolder(run_folder).record_rank_error(5, ValueError("before an attempt began"))
    assert choose_code(request_) == present
    (run_folder / "rank5.error").unlink()
    assert choose_code(request_) == old
    RunFolder(run_folder).append_event(started(2, 0))
    RunFolder(run_folder).end_attempt(update=30, outcome="failed", reason="a bug")
    assert choose_code(request_) == present
    assert "takes the present code, not the code of its job 7" in caplog.text
    assert "the run failed with it" in caplog.text


def test_a_copy_that_was_swept_is_not_used(
    request_: TrainingRequest, old: RunCode, present: RunCode, caplog: pytest.LogCaptureFixture
) -> None:
    (old.folder / "aiayn" / "gone.py").unlink()
    assert choose_code(request_) == present
    assert "that copy is no longer whole" in caplog.text


def test_a_copy_that_cannot_read_the_request_is_not_used(
    request_: TrainingRequest, present: RunCode, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    trained_with(request_, tmp_path, "train/request.py", "class TrainingRequest: pass\n")
    assert choose_code(request_) == present
    assert "it cannot read this driver's request" in caplog.text
