"""`workflow/Snakefile` plans what the root's plans, from another folder and with a profile too."""

import re
from pathlib import Path

import pytest

from tests.pipeline_copy import Pipeline


def planned_jobs(snakefile: str, pipeline: Pipeline, *arguments: str) -> list[tuple[str, str]]:
    """Return (rule, number of jobs) of a dry run of the demo. The target's own rule is left out."""
    ended = pipeline.run("--snakefile", snakefile, "--dry-run", *arguments)
    assert ended.returncode == 0, ended.stdout
    jobs = re.findall(r"^(\w+) +(\d+)$", ended.stdout, re.MULTILINE)
    return sorted(
        {(rule, number) for rule, number in jobs if rule not in ("all", "default", "total")}
    )


@pytest.mark.parametrize("arguments", [(), ("--profile", "profiles/slurm")], ids=["plain", "slurm"])
def test_both_entries_plan_the_same_jobs(
    tmp_path: Path, untouched: Pipeline, arguments: tuple[str, ...]
) -> None:
    elsewhere = Pipeline(untouched.checkout, untouched.fake_folder, directory=tmp_path)
    jobs = planned_jobs("Snakefile", elsewhere, *arguments)
    assert ("train", "12") in jobs
    assert planned_jobs("workflow/Snakefile", elsewhere, *arguments) == jobs
