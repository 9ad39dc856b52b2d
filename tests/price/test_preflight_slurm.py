"""The answers of `sbatch --test-only` to a training and to a CPU job; tests/slurm asks a real
Slurm.
"""

from pathlib import Path

import pytest

from aiayn.spec.cluster import read_cluster
from analysis.price.preflight.checks import Check
from analysis.price.preflight.slurm import check_slurm, sbatch_options
from tests.fake_cluster import FakeCluster

PLAIN = read_cluster("plain")


def checks_of(folder: Path, profile_text: str) -> dict[str, Check]:
    """Return the checks by name, with a profile of this text."""
    (folder / "config.yaml").write_text(profile_text, encoding="utf-8")
    return {check.name: check for check in check_slurm(PLAIN, "the sbatch file\n", folder)}


def test_variables_of_the_job_around_it_are_hidden_from_sbatch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    FakeCluster().install(tmp_path / "bin", monkeypatch)
    (tmp_path / "bin" / "sbatch").write_text(
        f"#!/bin/sh\nexport -p > {tmp_path}/environment\n", encoding="utf-8"
    )
    monkeypatch.setenv("SBATCH_TIMELIMIT", "1")
    check_slurm(PLAIN, "", None)
    assert "SBATCH_TIMELIMIT" not in (tmp_path / "environment").read_text(encoding="utf-8")


def test_a_machine_without_sbatch_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    (check,) = check_slurm(PLAIN, "", None)
    assert (check.outcome, check.evidence) == ("FAIL", "sbatch is not on PATH")


@pytest.mark.parametrize(
    ("text", "outcome", "evidence"),
    [
        ("executor: slurm\nexecutor: slurm\n", "FAIL", "config.yaml:2"),
        ("cores: 2\n", "WARN", "executor is not set"),
    ],
)
def test_a_profile_without_slurm_jobs_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, outcome: str, evidence: str
) -> None:
    FakeCluster().install(tmp_path / "bin", monkeypatch)
    check = checks_of(tmp_path, text)["CPU job"]
    assert check.outcome == outcome
    assert evidence in check.evidence


def test_resources_that_only_snakemake_can_read_are_not_given_to_sbatch() -> None:
    resources = {
        "mem_mb": "attempt * 8000",
        "runtime": "1d",
        "qos": "long",
        "constraint": "a100",
        "disk_mb": 5,
    }
    assert sbatch_options(resources) == ["--qos=long", "--constraint=a100"]
