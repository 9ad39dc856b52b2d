"""`aiayn train` with real jobs: Ctrl-C, a driver that dies, two drivers, jobs that fail or die."""

import os
import platform
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import msgspec
import pytest

import aiayn.launch.driver
import aiayn.spec.system
from aiayn.__main__ import main
from aiayn.errors import RunError
from aiayn.provenance import file_sha256
from aiayn.records import BinarizedCorpus, TrainRecord, read_record
from aiayn.runs.attempts import CODE_FOLDER_NAME, RANK_LOCK_NAME
from aiayn.runs.locks import is_held
from aiayn.runs.run_folder import RunFolder
from aiayn.train.rank_lock import BusyRunError
from aiayn.train.ranks import Rank
from aiayn.train.request import StopFlag, TrainingRequest
from aiayn.train.train import train_rank
from tests.engine.hooked_job import Fault, Hook, Signal, Wait, hooked
from tests.engine.tiny_training import log_text, make_request, outcomes, starts, train, updates_kept
from tests.engine.train_command import read_tiny_system
from tests.forks import fork

CHECKOUT = Path(__file__).parents[2]
LONGEST_WAIT_SECONDS = 60.0


def arguments(folder: Path, data: BinarizedCorpus) -> list[str]:
    """Return the arguments of `aiayn train` for a run below a folder."""
    binarized_path = Path(data.folder).parent / "record.json"
    flags = f"--scale demo --corpus {data.corpus} --system tiny --seed 1 --num-models 3"
    paths = ["--binarized", str(binarized_path), "--runs-folder", str(folder / "runs")]
    return ["train", *flags.split(), *paths, "--record", str(folder / "seed1.json")]


def start_driver(folder: Path, data: BinarizedCorpus) -> "subprocess.Popen[str]":
    """Start `aiayn train` in a process group of its own, its job made to wait at update 12. Return
    when it is there.
    """
    hooks = msgspec.json.encode([Wait(update=12, path=str(folder / "go"))]).decode()
    command = [
        sys.executable,
        "-m",
        "tests.engine.train_command",
        hooks,
        "--",
        *arguments(folder, data),
    ]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(CHECKOUT)}
    with (folder / "driver.log").open("w") as log:
        driver = subprocess.Popen(
            command, cwd=CHECKOUT, env=environment, stderr=log, text=True, start_new_session=True
        )
    wait_for((folder / "go.here").exists)
    return driver


def wait_for(is_so: Callable[[], bool]) -> None:
    """Wait until a condition holds, but not for ever."""
    deadline = time.monotonic() + LONGEST_WAIT_SECONDS
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def printed_by_driver(folder: Path) -> str:
    """Return what the driver has printed."""
    return (folder / "driver.log").read_text(encoding="utf-8")


def run_folder_of(folder: Path) -> Path:
    """Return the folder of the only run."""
    (run_folder,) = (
        path
        for path in (folder / "runs").iterdir()
        if path.is_dir() and path.name != CODE_FOLDER_NAME
    )
    return run_folder


def same_request(folder: Path, data: BinarizedCorpus) -> TrainingRequest:
    """Return the command's own request, to go on with it in this process."""
    return make_request(run_folder_of(folder), data)


def test_ctrl_c_saves_and_ends_within_seconds_and_the_next_start_resumes(
    tmp_path: Path, data: BinarizedCorpus, finished: TrainRecord
) -> None:
    driver = start_driver(tmp_path, data)
    os.killpg(
        driver.pid, signal.SIGINT
    )  # as a terminal does: driver, controller and job all get it
    wait_for(lambda: "SIGINT; saving before the end" in printed_by_driver(tmp_path))
    time.sleep(0.3)
    (tmp_path / "go").touch()
    begin = time.monotonic()
    assert driver.wait(LONGEST_WAIT_SECONDS) == 130
    assert time.monotonic() - begin < 15
    run_folder = run_folder_of(tmp_path)
    assert re.fullmatch(r"tiny_en_de-tiny-seed1-[0-9a-f]{8}", run_folder.name)
    assert "saved at update 12 of 40; the same command resumes it" in printed_by_driver(tmp_path)
    assert printed_by_driver(tmp_path).endswith("aiayn train: interrupted\n")
    assert outcomes(run_folder) == ["stopped"]
    assert not (tmp_path / "seed1.json").exists()
    assert not is_held(run_folder / RANK_LOCK_NAME)
    record = train(same_request(tmp_path, data))
    assert starts(run_folder) == [0, 12]
    assert record.tensors_sha256 == finished.tensors_sha256


@pytest.mark.slow
def test_a_job_outlives_its_driver_and_the_next_one_waits_for_it(
    tmp_path: Path, data: BinarizedCorpus, finished: TrainRecord
) -> None:
    driver = start_driver(tmp_path, data)
    driver.kill()
    driver.wait()
    assert is_held(run_folder_of(tmp_path) / RANK_LOCK_NAME)
    threading.Timer(1.0, (tmp_path / "go").touch).start()
    record = train(same_request(tmp_path, data), launcher="local")
    assert starts(run_folder_of(tmp_path)) == [0]
    assert outcomes(run_folder_of(tmp_path)) == ["done"]
    assert record.tensors_sha256 == finished.tensors_sha256


def test_two_drivers_at_once_train_once_and_both_get_the_record(
    run_folder: Path, data: BinarizedCorpus
) -> None:
    # A person and snakemake may start the same training.
    request = make_request(run_folder, data, updates=4)
    drive = partial(aiayn.launch.driver.drive, request, launcher="debug")
    children = [
        fork(partial(drive, record_path=Path(f"{run_folder}-{index}.json"))) for index in range(2)
    ]
    assert [os.waitpid(child, 0)[1] for child in children] == [0, 0]
    assert starts(run_folder) == [0]
    first, second = (
        read_record(Path(f"{run_folder}-{index}.json"), TrainRecord) for index in range(2)
    )
    assert first == second


@pytest.fixture
def tiny_system(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the command train the tiny system, in this process."""
    monkeypatch.setattr("aiayn.plan.feasibility.read_system", read_tiny_system)


@pytest.mark.usefixtures("tiny_system")
def test_a_failing_job_is_exit_code_3_with_the_last_log_lines(
    tmp_path: Path, data: BinarizedCorpus, capsys: pytest.CaptureFixture[str]
) -> None:
    with hooked(Fault(update=12, message="the disk is on fire")):
        assert main([*arguments(tmp_path, data), "--launcher", "debug"]) == 3
    message = capsys.readouterr().err
    message_start = (
        f"rank 0 on {platform.node()}: RuntimeError: the disk is on fire\n  last lines, more"
    )
    assert f"aiayn train: {run_folder_of(tmp_path).name}: {message_start}" in message
    assert message.rstrip().endswith("RuntimeError: the disk is on fire")
    assert not (tmp_path / "seed1.json").exists()
    assert outcomes(run_folder_of(tmp_path)) == ["failed"]
    assert updates_kept(run_folder_of(tmp_path), "full") == [
        10
    ]  # the earlier checkpoint is untouched
    assert "the disk is on fire" in log_text(run_folder_of(tmp_path))


class TakeOver(Hook, frozen=True, kw_only=True):
    """Another host takes the run over, as after this one stood still."""

    folder: str

    def act(self) -> None:
        """Close the attempt as lost and begin another."""
        folder = RunFolder(Path(self.folder))
        begun = folder.open_attempt()
        assert begun is not None
        folder.close_lost_attempt(update=10)
        folder.append_event(msgspec.structs.replace(begun, attempt=2, host="n2", update=10))


def test_a_rank_whose_run_another_has_taken_over_writes_nothing_more(
    run_folder: Path, data: BinarizedCorpus
) -> None:
    run_folder.mkdir()
    request = make_request(run_folder, data)
    rank = Rank(rank=0, world_size=1, job="7", local_rank=0)
    with (
        TakeOver(update=12, folder=str(run_folder)).installed(),
        pytest.raises(BusyRunError, match=r"attempt 1 on .* was closed by another process"),
    ):
        train_rank(request, rank, StopFlag())
    assert updates_kept(run_folder, "full") == [10]
    assert outcomes(run_folder) == ["lost"]
    assert starts(run_folder) == [0, 10]  # the other's attempt stays open
    assert not request.folder.is_done()
    assert request.folder.rank_errors() == []


@pytest.mark.usefixtures("tiny_system")
def test_ctrl_c_in_debug_is_exit_code_130(tmp_path: Path, data: BinarizedCorpus) -> None:
    with hooked(Signal(update=3, number=signal.SIGINT)):
        assert main([*arguments(tmp_path, data), "--launcher", "debug"]) == 130
    assert updates_kept(run_folder_of(tmp_path), "full") == [3]
    assert outcomes(run_folder_of(tmp_path)) == ["stopped"]


class ChangeFolder(Hook, frozen=True, kw_only=True):
    """The job's working directory becomes another."""

    def act(self) -> None:
        """Change it."""
        os.chdir("/")


@pytest.mark.usefixtures("tiny_system")
def test_a_job_in_another_working_directory_finds_its_inputs(
    tmp_path: Path, data: BinarizedCorpus, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A prologue or a container may change it. What the record names is hashed before anything is
    trained.
    """
    binarized_path = Path(data.folder).parent / "record.json"
    monkeypatch.chdir(binarized_path.parent)
    named = [
        argument.replace(str(binarized_path), "record.json")
        for argument in arguments(tmp_path, data)
    ]
    assert "record.json" in named
    with hooked(ChangeFolder(update=3)):
        assert main([*named, "--updates", "4", "--launcher", "debug"]) == 0
    inputs = read_record(tmp_path / "seed1.json", TrainRecord).provenance.input_sha256_by_path
    assert inputs == {binarized_path: file_sha256(binarized_path)}


def test_a_missing_input_is_reported_before_the_first_update(
    run_folder: Path, data: BinarizedCorpus
) -> None:
    with pytest.raises(
        RunError, match=r"/no/record.json: no such file on this host, an input of this training"
    ):
        train(make_request(run_folder, data, binarized_path="/no/record.json"))
    assert starts(run_folder) == []


def test_cuda_without_a_gpu_is_noted_as_a_failure(run_folder: Path, data: BinarizedCorpus) -> None:
    # A job that fell back to the CPU would run for weeks.
    import torch

    if torch.cuda.is_available():
        pytest.skip("there is a GPU")
    with pytest.raises(
        RunError, match="device: cuda, but torch sees no GPU here; set `device: auto`"
    ):
        train(make_request(run_folder, data, device="cuda"))
    assert outcomes(run_folder) == ["failed"]
