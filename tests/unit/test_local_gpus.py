"""Each local run gets GPUs of its own, by numbers or UUIDs, and a run that has ended holds none."""

import os
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from aiayn.errors import LaunchError
from aiayn.launch import local, local_gpus
from aiayn.launch.job import GPU_ALLOCATOR_NAMES, choose_gpu_variables
from aiayn.launch.launcher import SubmissionError, make_launcher
from aiayn.launch.local_gpus import lock_gpus
from aiayn.machine import Gpu, gpu_names, list_gpus
from aiayn.runs.run_folder import RunFolder
from aiayn.spec.hardware import read_hardware
from tests.run_folders import training_process
from tests.unit.test_launch import make_request

GPUS = [Gpu(str(index), f"GPU-{index}aaa", "NVIDIA A100") for index in range(2)]


@pytest.fixture(autouse=True)
def locks_in_a_folder_of_this_test(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local_gpus, "locks_folder", lambda: tmp_path / "locks")


@pytest.fixture
def nvidia_smi(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Put an nvidia-smi of two GPUs in front of the path."""
    lines = "".join(f"{', '.join(gpu)}\\n" for gpu in GPUS)
    program = tmp_path / "bin" / "nvidia-smi"
    program.parent.mkdir()
    program.write_text(f"#!/bin/sh\nprintf '{lines}'\n", encoding="utf-8")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(program.parent), prepend=":")


@pytest.mark.parametrize(
    ("visible", "indices"),
    [
        (None, [0, 1]),
        ("1", [1]),
        ("1,0", [1, 0]),
        ("GPU-1aaa", [1]),
        ("GPU-0a", [0]),
        ("", []),
        ("7", []),
    ],
)
@pytest.mark.usefixtures("nvidia_smi")
def test_gpus_are_those_that_the_user_made_visible(
    visible: str | None, indices: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    if visible is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    assert list_gpus() == [GPUS[index] for index in indices]
    assert gpu_names() == ["NVIDIA A100"] * len(indices)


MIG_LISTING = """\
GPU 0: NVIDIA A100-SXM4-40GB (UUID: GPU-0aaa)
  MIG 3g.20gb     Device  0: (UUID: MIG-c6d4f1ef-42e4-5de3-91c7-45d71c87eb3f)
  MIG 1g.5gb      Device  1: (UUID: MIG-cba663e8-9bed-5b25-b243-5985ef7c9beb)
GPU 1: NVIDIA A100-SXM4-40GB (UUID: GPU-1aaa)
"""


@pytest.mark.parametrize(
    ("visible", "profiles"),
    [
        (None, ["3g.20gb", "1g.5gb"]),
        ("MIG-cba663e8", ["1g.5gb"]),
        ("GPU-1aaa", [""]),
    ],
)
def test_mig_slices_are_gpus_of_unknown_speed_without_growing_blocks(
    visible: str | None, profiles: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A pretended nvidia-smi: only `-L` lists slices."""
    program = tmp_path / "bin/nvidia-smi"
    program.parent.mkdir()
    (tmp_path / "mig.txt").write_text(MIG_LISTING, encoding="utf-8")
    lines = "".join(f"{index}, GPU-{index}aaa, NVIDIA A100-SXM4-40GB\\n" for index in range(2))
    script = f"#!/bin/sh\nif [ $1 = -L ]; then cat {tmp_path}/mig.txt; else printf '{lines}'; fi\n"
    program.write_text(script, encoding="utf-8")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(program.parent), prepend=":")
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    if visible is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    for name in (*GPU_ALLOCATOR_NAMES, "NCCL_DEBUG"):
        monkeypatch.delenv(name, raising=False)
    names = gpu_names()
    slices = [f"NVIDIA A100-SXM4-40GB MIG {profile}" for profile in profiles if profile]
    assert names == (slices or ["NVIDIA A100-SXM4-40GB"])
    is_whole = read_hardware().find_name(names[0]) == "A100"
    assert is_whole is not bool(slices)  # a slice is not as fast as its card
    choose_gpu_variables()
    assert (GPU_ALLOCATOR_NAMES[0] in os.environ) is not bool(slices)
    assert os.environ["NCCL_DEBUG"] == "WARN"
    for name in (*GPU_ALLOCATOR_NAMES, "NCCL_DEBUG"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("NCCL_DEBUG", "INFO")
    choose_gpu_variables()
    assert os.environ["NCCL_DEBUG"] == "INFO"
    monkeypatch.delenv(GPU_ALLOCATOR_NAMES[0], raising=False)


def test_two_runs_get_two_gpus_and_a_third_waits(tmp_path: Path) -> None:
    """A run that gets too few GPUs frees those that it got."""
    first = lock_gpus(GPUS, 1, RunFolder(tmp_path / "run0"))
    with pytest.raises(SubmissionError, match="1 of this machine's 2 GPUs are free, expected 2"):
        lock_gpus(GPUS, 2, RunFolder(tmp_path / "run1"))
    second = lock_gpus(GPUS, 1, RunFolder(tmp_path / "run1"))
    assert [*first, *second] == GPUS
    with pytest.raises(
        SubmissionError,
        match="run2: 0 of this machine's 2 GPUs are free, expected 1; they train run0, run1:",
    ):
        lock_gpus(GPUS, 1, RunFolder(tmp_path / "run2"))
    second[GPUS[1]].close()
    assert list(lock_gpus(GPUS, 1, RunFolder(tmp_path / "run2"))) == [GPUS[1]]


def test_more_ranks_than_gpus_are_refused(tmp_path: Path) -> None:
    with pytest.raises(
        LaunchError, match="run: 3 ranks, but this machine has 2 GPUs that may be used; take "
    ):
        lock_gpus(GPUS, 3, RunFolder(tmp_path / "run"))


def test_a_gpu_is_free_after_its_driver_was_killed_unless_its_job_still_trains(
    tmp_path: Path,
) -> None:
    code = (
        "import sys; from pathlib import Path; from aiayn.launch import local_gpus; from"
        " aiayn.machine import Gpu; from aiayn.runs.run_folder import RunFolder;"
        f" local_gpus.locks_folder = lambda: Path({str(local_gpus.locks_folder())!r});"
        f" held = local_gpus.lock_gpus([Gpu('0', {GPUS[0].uuid!r}, '')], 1,"
        f" RunFolder(Path({str(tmp_path / 'killed')!r})));"
        " print('held', flush=True); sys.stdin.read()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as driver:
        assert driver.stdout is not None
        assert driver.stdout.readline() == "held\n"
        with pytest.raises(SubmissionError, match="they train killed"):
            lock_gpus(GPUS, 2, RunFolder(tmp_path / "run"))
        driver.kill()
    (tmp_path / "killed").mkdir()
    with training_process(tmp_path / "killed"):
        with pytest.raises(SubmissionError, match=r"1 of .* 2 GPUs are free.* they train killed"):
            lock_gpus(GPUS, 2, RunFolder(tmp_path / "run"))
        # A job of the same run may be started on it: the driver knows that rank 0 has ended.
        held = lock_gpus(GPUS[:1], 1, RunFolder(tmp_path / "killed"))
        held[GPUS[0]].close()
    assert list(lock_gpus(GPUS, 2, RunFolder(tmp_path / "run"))) == GPUS


def test_a_local_job_sees_its_gpu_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local, "list_gpus", lambda: GPUS)
    seen = []
    launchers = []  # a launcher that is gone holds no GPU
    monkeypatch.setattr(
        local,
        "TrainingJob",
        lambda request: seen.append(local.os.environ["CUDA_VISIBLE_DEVICES"]) or print,
    )
    for name in ("one", "other"):
        request = make_request(tmp_path / name)
        request = msgspec.structs.replace(
            request, training=msgspec.structs.replace(request.training, device="auto")
        )
        launchers.append(make_launcher("debug", request, None))
        launchers[-1].submit(request, None)
    assert seen == ["GPU-0aaa", "GPU-1aaa"]
