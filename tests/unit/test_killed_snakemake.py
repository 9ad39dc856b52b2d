"""The lines of docs/faults.md unlock a directory and end the CPU jobs, only where no snakemake is
at work.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.fake_slurm import FakeSlurm
from tests.killed_snakemake import paste_lines

NAME = "aiayn_bc7f6f8f-51c9-4af9-b9a8-7dad100417c2"


@pytest.fixture
def folder(tmp_path: Path, slurm: FakeSlurm, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the working directory of a snakemake that was killed with a CPU job and a training in
    Slurm.
    """
    folder = tmp_path / "work"
    for name in ("locks", "log"):
        (folder / ".snakemake" / name).mkdir(parents=True)
    (folder / ".snakemake" / "locks" / "0.input.lock").write_text(
        "results/x.json\n", encoding="utf-8"
    )
    (folder / ".snakemake" / "log" / "1.snakemake.log").write_text(
        f"SLURM run ID: {NAME}\n", encoding="utf-8"
    )
    (folder / "Snakefile").write_text("rule all:\n", encoding="utf-8")
    paths = [str(slurm.commands), str(Path(sys.executable).parent), os.environ["PATH"]]
    monkeypatch.setenv("PATH", os.pathsep.join(paths))
    slurm.put("22", "RUNNING", NAME, node="n1")
    slurm.put("23", "RUNNING", "demo_en_de-base-seed1-0a1b2c3d", node="n1")
    return folder


@pytest.fixture
def unlocking(slurm: FakeSlurm) -> None:
    """Put a stand-in first on PATH that does what `snakemake --unlock` does. A test below has the
    real one.
    """
    lines = "rm -r .snakemake/locks && echo Unlocked working directory."
    slurm.replace_command("snakemake", f"#!/bin/sh\n{lines}\n")


def paste(folder: Path) -> str:
    return paste_lines(folder, os.environ).stdout


def test_locks_and_cpu_jobs_of_a_killed_snakemake_go_and_its_trainings_stay(
    folder: Path, slurm: FakeSlurm
) -> None:
    assert "Unlocked working directory" in paste(folder)
    assert not (folder / ".snakemake" / "locks").exists()
    assert slurm.cancelled == [NAME]


@pytest.mark.usefixtures("unlocking")
@pytest.mark.parametrize(
    ("command", "is_at_work"),
    [
        ("/opt/bin/snakemake --profile slurm", True),
        ("/opt/bin/aiayn fetch --corpus c", True),
        ("/opt/bin/aiayn train --corpus c", False),  # the next snakemake attaches to it
        ("/opt/bin/snakemake --mode remote", False),  # inside a Slurm job that is cancelled
        ("srun /opt/bin/snakemake --cores 1 --mode 'remote'", False),  # what starts that
    ],
)
def test_nothing_is_touched_while_a_driver_or_a_local_rule_is_at_work(
    command: str, is_at_work: bool, folder: Path, slurm: FakeSlurm
) -> None:
    with subprocess.Popen(
        ["bash", "-c", "read line", command], cwd=folder, stdin=subprocess.PIPE
    ) as process:
        assert process.stdin is not None
        printed = paste(folder)
        process.stdin.close()
    assert (folder / ".snakemake" / "locks").exists() is is_at_work
    assert slurm.cancelled == ([] if is_at_work else [NAME])
    assert (f"{process.pid} bash -c read line {command}" in printed) is is_at_work


@pytest.mark.usefixtures("unlocking")
def test_while_squeue_does_not_answer_nothing_is_unlocked(folder: Path, slurm: FakeSlurm) -> None:
    slurm.replace_command(
        "sleep", f"#!/bin/sh\nrm {slurm.folder}/down\ntest -e {folder}/.snakemake/locks\n"
    )
    slurm.set_flag("down")
    assert "Unlocked working directory" in paste(folder)
    assert not (slurm.folder / "down").exists()
