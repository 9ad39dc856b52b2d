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
ACCEPTED = "to start at 2026-01-01T12:00:00 using 1 processors on nodes n1 in partition gpu"


def checks_of(folder: Path, profile_text: str) -> dict[str, Check]:
    """Return the checks by name, with a profile of this text."""
    (folder / "config.yaml").write_text(profile_text, encoding="utf-8")
    return {check.name: check for check in check_slurm(PLAIN, "the sbatch file\n", folder)}


def test_slurm_answers_in_its_own_words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    FakeCluster(refused="*--mem=9000*").install(tmp_path / "bin", monkeypatch)
    profile = "executor: slurm\ndefault-resources: {mem_mb: %s, runtime: 5, slurm_partition: cpu}\n"
    found = checks_of(tmp_path, profile % 4000)
    assert found["training"] == Check("training", "OK", ACCEPTED)
    options = "--ntasks=1 --mem=4000 --time=5 --partition=cpu"
    assert found["CPU job"] == Check("CPU job", "OK", f"{options}: {ACCEPTED}")
    refused = checks_of(tmp_path, profile % 9000)["CPU job"]
    assert refused.outcome == "FAIL"
    assert refused.evidence.endswith(": Requested node configuration is not available")
    assert f"in {tmp_path}/config.yaml" in refused.next_step


def test_a_training_that_slurm_refuses_names_the_clusters_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    FakeCluster(refused="*sbatch*file*").install(tmp_path / "bin", monkeypatch)
    check = checks_of(tmp_path, "executor: slurm\n")["training"]
    assert (check.outcome, check.evidence) == ("FAIL", "invalid partition specified")
    assert "workflow/config/clusters/plain.yaml" in check.next_step


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
        ("executor: local\n", "WARN", "executor is local"),
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
