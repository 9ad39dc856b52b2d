"""The kit is made, fits, and runs from a copy on a CPU. A part that fails does not end the others."""

import platform
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.gpu import build
from tests.gpu.run import PARTS

pytestmark = pytest.mark.slow

SECONDS = "3000"  # the machine of the tests may be a slow or a busy one


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


def run(kit: Path, *flags: str) -> tuple[int, str]:
    """Run the kit on the CPU, and return its exit code and table."""
    out = kit / "out"
    shutil.rmtree(out, ignore_errors=True)
    command = [sys.executable, str(kit / "run.py"), "--device", "cpu", "--out", str(out), *flags]
    code = subprocess.run(command, check=False, cwd="/").returncode
    return code, (out / "results.md").read_text(encoding="utf-8")


def test_it_is_under_64_megabytes(kit: Path) -> None:
    num_bytes = sum(
        path.stat().st_size
        for path in kit.rglob("*")
        if path.is_file() and "site" not in path.parts
    )
    assert num_bytes < 64e6
    assert [wheel.name for wheel in (kit / "wheels").glob("torch*")] == []


def test_every_part_runs_on_a_cpu_or_says_that_it_needs_a_gpu(kit: Path) -> None:
    code, table = run(kit, "--seconds", SECONDS)
    assert code == 0, table
    assert all(f"\n| {part} | " in table for part in PARTS)
    assert (
        "| resume | stopped at 23 of 40 and resumed, the same tensors, fp32 | True |  |  | yes |"
        in table
    )
    assert "| memory | peak memory of a step | not measured: no GPU |" in table


def test_what_fails_or_finds_no_time_says_so_and_the_next_part_runs(kit: Path) -> None:
    data = kit / "data" / "demo_en_de"
    data.rename(kit / "data" / "away")
    try:
        code, table = run(kit, "--seconds", SECONDS, "--parts", "resume", "machine")
    finally:
        (kit / "data" / "away").rename(data)
    assert code == 1
    assert re.search(r"\| resume \| \*\*exit code 1: .*demo_en_de/binarize/record.json", table)
    assert "| machine | torch | " in table
    code, table = run(kit, "--seconds", "5", "--parts", "pipeline", "machine")
    assert code == 1
    assert "| pipeline | **ended after 5 s" in table
    assert "| machine | **not run: no time was left** |" in table


def test_the_later_parts_measure_updates_and_layers(kit: Path) -> None:
    code, table = run(kit, "--seconds", SECONDS, "--parts", "updates", "layers", "whole")
    assert code == 0, table
    assert re.search(r"\| layers \| recurrent, n 64, d 512, fp32 \| [\d.]+ ms", table)
    assert "| whole | the whole training of base | not measured: no GPU |" in table
    for system in ("base", "lstm", "fconv"):
        assert re.search(rf"\| updates \| an update of {system}, fp32, .*\| [\d.]+ s \|", table)
