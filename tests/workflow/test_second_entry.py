"""`workflow/Snakefile` plans what the root's plans, from another folder and with a profile too."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).resolve().parents[2]


def planned_jobs(snakefile: str, folder: Path, *arguments: str) -> list[tuple[str, str]]:
    """Return (rule, number of jobs) of a dry run of the demo; the target's own rule is left out."""
    command = [
        sys.executable,
        "-m",
        "snakemake",
        "--snakefile",
        str(CHECKOUT / snakefile),
        "--directory",
        str(folder),
        "--configfile",
        str(CHECKOUT / "workflow/config/demo.yaml"),
        "--dry-run",
        "--cores",
        "2",
        *arguments,
    ]
    ended = subprocess.run(command, cwd=CHECKOUT, capture_output=True, text=True, check=True)
    jobs = re.findall(r"^(\w+) +(\d+)$", ended.stdout + ended.stderr, re.MULTILINE)
    return sorted(
        {(rule, number) for rule, number in jobs if rule not in ("all", "default", "total")}
    )


@pytest.mark.parametrize("arguments", [(), ("--profile", "profiles/slurm")], ids=["plain", "slurm"])
def test_both_entries_plan_the_same_jobs(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    jobs = planned_jobs("Snakefile", tmp_path, *arguments)
    assert ("train", "12") in jobs
    assert planned_jobs("workflow/Snakefile", tmp_path, *arguments) == jobs
