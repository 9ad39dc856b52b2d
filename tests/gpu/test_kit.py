"""The kit is made, fits, and runs from a copy on a CPU; a part that fails or takes too long does not end the others."""

import json
import platform
import shutil
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.gpu import build
from tests.gpu.run import BUDGET_SECONDS, TOTAL_SECONDS

pytestmark = pytest.mark.slow

NEED_A_GPU = ("synchronisations", "memory", "nvml")
TIMES = "6"  # the machine of the tests may be a slow or a busy one


@pytest.fixture(scope="session")
def kit(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a copy of the kit for this Python, the folder that it was made in gone."""
    if (platform.system(), platform.machine()) != ("Linux", "x86_64"):
        pytest.skip("the kit is made for Linux on x86-64")
    folder = tmp_path_factory.mktemp("made") / "gpu-kit"
    try:
        build.build(folder, f"{sys.version_info.major}.{sys.version_info.minor}")
    except SystemExit as error:
        if "Could not find a version" in str(error) or "resolution" in str(error):
            pytest.skip(f"no package index: {str(error)[-200:]}")
        raise
    copy = tmp_path_factory.mktemp("copied") / "my kit"
    shutil.move(folder, copy)
    return copy


def run(kit: Path, *flags: str) -> tuple[int, dict[str, Any]]:
    """Run the kit on the CPU, and return its exit code and results."""
    out = kit / "out"
    shutil.rmtree(out, ignore_errors=True)
    command = [sys.executable, str(kit / "run.py"), "--device", "cpu", "--out", str(out), *flags]
    code = subprocess.run(command, check=False, cwd="/").returncode
    return code, json.loads((out / "results.json").read_text(encoding="utf-8"))


def test_the_parts_together_end_in_nine_minutes() -> None:
    assert sum(BUDGET_SECONDS.values()) <= TOTAL_SECONDS < 9 * 60


def test_it_is_under_64_megabytes(kit: Path) -> None:
    num_bytes = sum(path.stat().st_size for path in kit.rglob("*") if path.is_file() and "site" not in path.parts)
    assert num_bytes < 64e6
    assert [wheel.name for wheel in (kit / "wheels").glob("torch*")] == []


def test_every_part_runs_on_a_cpu_or_says_that_it_needs_a_gpu(kit: Path) -> None:
    code, results = run(kit, "--times", TIMES)
    status_by_part = {part["part"]: (part["status"], part["reason"]) for part in results["parts"]}
    expected = {part: ("not measured", "no GPU") if part in NEED_A_GPU else ("ok", "") for part in BUDGET_SECONDS}
    assert status_by_part == expected
    assert code == 0
    rows = {row["what"]: row for part in results["parts"] for row in part["rows"]}
    assert rows["stopped at 23 of 40 and resumed, the same tensors, fp32"]["value"] == "True"
    assert rows["aiayn score"]["ok"] is True
    table = (kit / "out" / "results.md").read_text(encoding="utf-8")
    assert all(f"| {what} |" in table for what in rows)
    assert "| nvml | energy by NVML | not measured: no GPU |" in table


def test_what_fails_says_why_and_the_next_part_runs(kit: Path) -> None:
    data = kit / "data" / "demo_en_de"
    data.rename(kit / "data" / "away")
    try:
        code, results = run(kit, "--times", TIMES, "--parts", "resume", "machine")
    finally:
        (kit / "data" / "away").rename(data)
    failed, fine = results["parts"]
    assert code == 1
    assert failed["status"] == "failed"
    assert "demo_en_de/binarize/record.json" in failed["reason"]
    assert fine["status"] == "ok"


def test_what_takes_too_long_is_ended_and_the_next_part_runs(kit: Path) -> None:
    code, results = run(kit, "--times", "0.1", "--parts", "pipeline", "nvml")
    assert code == 1
    assert [part["status"] for part in results["parts"]] == ["too slow", "too slow"]
    assert results["parts"][0]["seconds"] < BUDGET_SECONDS["pipeline"] / 2


def test_a_machine_without_a_gpu_gets_an_error(kit: Path) -> None:
    import torch

    if torch.cuda.is_available():
        pytest.skip("there is a GPU")
    code, results = run(kit, "--times", TIMES, "--parts", "machine", "--device", "cuda")
    assert code == 1
    assert "torch sees no GPU here" in results["parts"][0]["reason"]
    assert results["host"] == socket.gethostname()
