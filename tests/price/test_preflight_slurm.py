"""What Slurm says to trainings and CPU rules before anything is submitted; tests/slurm asks a real one."""

import re
from pathlib import Path
from typing import Any

import msgspec
import pytest

from aiayn.errors import ConfigError
from aiayn.price.preflight.checks import Check
from aiayn.price.preflight.slurm import JobRequest, check_slurm, find_profile, read_profile
from aiayn.spec.cluster import read_cluster
from aiayn.spec.system import CHECKOUT, CONFIG_FOLDER
from tests.fake_cluster import FakeCluster

PLAIN = msgspec.structs.replace(read_cluster("plain"), partition="gpu", gpu_type="h100", time_limit_minutes=1440)
RULES = JobRequest(
    check="CPU rules", name="decode, score", command=["sbatch", "--test-only", "--mem=8000"], text="#!/bin/sh\n",
    words="--mem=8000", file="mine/config.yaml", partition=None, account=None, qos=None, minutes=480,
)  # fmt: skip
TRAIN = "set-resources: {train: {launcher: slurm}}\n"
DEMO = ["--configfile", str(CONFIG_FOLDER / "demo.yaml")]


def slurm(
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    cluster: FakeCluster | None = None,
    rules: JobRequest = RULES,
    **changes: Any,
) -> dict[str, Check]:
    """Return the checks by name, of several of a name the worst; `changes` are to the cluster's file."""
    (cluster or FakeCluster()).install(folder / "bin", monkeypatch)
    ranks = {"OK": 0, "WARN": 1, "FAIL": 2}
    checks = check_slurm(msgspec.structs.replace(PLAIN, **changes), "the sbatch file\n", [rules])
    return {check.name: check for check in sorted(checks, key=lambda check: ranks[check.outcome])}


def test_variables_of_the_job_around_it_are_hidden_from_sbatch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    FakeCluster().install(tmp_path / "bin", monkeypatch)
    (tmp_path / "bin" / "sbatch").write_text(f"#!/bin/sh\nexport -p > {tmp_path}/environment\n", encoding="utf-8")
    monkeypatch.setenv("SBATCH_TIMELIMIT", "1")
    check_slurm(PLAIN, "", [])
    assert "SBATCH_TIMELIMIT" not in (tmp_path / "environment").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("partitions", "changes", "allowed"),
    [
        ("gpu*|2-00:00:00\n", {}, None),
        ("gpu*|infinite\n", {}, None),
        ("gpu|1-00:00:00\n", {}, None),
        ("gpu|23:59:00\n", {}, "1,439"),
        ("cpu*|12:00:00\ngpu|infinite\n", {"partition": None}, "720"),
        ("gpu|30:00\nbig|2-0\n", {"partition": "gpu,big"}, None),
        ("gpu|30:00\nbig|45\n", {"partition": "gpu,big"}, "45"),
        ("cpu|30:00\n", {}, None),  # sbatch says that there is no such partition
    ],
)
def test_a_partitions_time_limit_is_compared(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, partitions: str, changes: dict[str, Any], allowed: str | None
) -> None:
    """Where Slurm does not enforce it (EnforcePartLimits=NO) the job would wait for ever."""
    none = msgspec.structs.replace(RULES, minutes=None)
    check = slurm(tmp_path, monkeypatch, FakeCluster(partitions=partitions), none, **changes).get("time limit")
    if allowed is None:
        assert check is None
    else:
        assert check is not None
        assert (check.outcome, "a training: 1,440 minutes, partition " in check.evidence) == ("FAIL", True)
        assert f"allows {allowed}" in check.evidence


ASSOCIATIONS = "ours|physics|normal,long\nours|maths|normal\n"


@pytest.mark.parametrize(
    ("associations", "changes", "outcome", "evidence"),
    [
        (ASSOCIATIONS, {"account": "physics", "qos": "long"}, None, ""),
        (ASSOCIATIONS, {"account": "art"}, "FAIL", "a training: account 'art' is not among yours"),
        (ASSOCIATIONS, {"qos": "short"}, "FAIL", "a training: qos 'short' is not among yours"),
        (ASSOCIATIONS, {"account": "maths", "qos": "long"}, "FAIL", "qos 'long'"),
        (ASSOCIATIONS.replace("ours|maths", "theirs|maths"), {"account": "maths"}, "FAIL", "account 'maths'"),
        ("", {"account": "art"}, "WARN", "account art: unknown"),
        ("\n", {"account": "art"}, "WARN", "account art: unknown"),
        ("", {}, None, ""),
    ],
)
def test_account_and_qos_are_compared_where_accounting_answers(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    associations: str,
    changes: dict[str, str],
    outcome: str | None,
    evidence: str,
) -> None:
    check = slurm(tmp_path, monkeypatch, FakeCluster(associations=associations), **changes).get("account")
    assert (check.outcome if check else None) == outcome
    assert check is None or evidence in check.evidence


def test_a_machine_without_slurms_commands_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    FakeCluster().install(tmp_path, monkeypatch)
    for name in ("sbatch", "srun"):
        (tmp_path / name).unlink()
    (check,) = check_slurm(PLAIN, "", [])
    assert (check.outcome, check.evidence) == ("FAIL", "not on PATH: sbatch, srun")


@pytest.mark.parametrize(
    ("config", "outcome", "evidence"),
    [
        ("MinJobAge               = 180 sec\n", "OK", "for 180 s"),
        ("MinJobAge               = 0 sec\n", "OK", "for ever"),
    ],
)
def test_a_min_job_age_of_snakemakes_interval_or_for_ever_will_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, config: str, outcome: str, evidence: str
) -> None:
    check = slurm(tmp_path, monkeypatch, FakeCluster(config=config))["MinJobAge"]
    assert (check.outcome, evidence in check.evidence) == (outcome, True), check


def write_profile(folder: Path, text: str) -> Path:
    """Write a profile of these settings, of a Slurm executor unless they say otherwise; return its folder."""
    folder.mkdir(parents=True, exist_ok=True)
    settings = text if "executor:" in text else f"executor: slurm\n{text}"
    (folder / "config.yaml").write_text(settings, encoding="utf-8")
    return folder


def test_rules_ask_for_what_snakemake_makes_of_a_profile(tmp_path: Path) -> None:
    """Threads are those of the rule files, but for set-threads and `cores`; only the demo's rules are asked for."""
    text = (
        "cores: 12\nslurm-qos: long\ndefault-resources: {slurm_partition: cpu, mem: 4GB, runtime: 1d}\n"
        "set-resources: {train: {launcher: slurm}, decode: {gres: 'gpu:a100:1', mem_mb: attempt * 8000}}\n"
        "set-threads: {segment: 3}\n"
    )
    requests, checks = read_profile(write_profile(tmp_path, text), DEMO)
    assert checks == []
    words_by_rule = {rule: request.words for request in requests for rule in request.name.split(", ")}
    common = "--qos=long --mem=4000 --time=1440 --partition=cpu"
    assert words_by_rule["score"] == f"--cpus-per-task=1 {common}"
    assert words_by_rule["segment"] == f"--cpus-per-task=3 {common}"
    assert words_by_rule["clean"] == f"--cpus-per-task=12 {common}"
    assert "--mem=8000" in words_by_rule["decode"]
    assert "--gres=gpu:a100:1" in words_by_rule["decode"]
    assert not {"train", "fetch", "tables", "all", "vectors"} & set(words_by_rule)
    minutes = {(request.partition, request.qos, request.minutes) for request in requests}
    assert minutes == {("cpu", "long", 1440.0)}


@pytest.mark.parametrize(
    ("text", "outcome", "evidence"),
    [
        ("executor: slurm\nexecutor: slurm\n", "FAIL", "config.yaml:2"),
        (f"set-threads: {{clean: many}}\n{TRAIN}", "FAIL", "many"),
    ],
)
def test_what_is_wrong_with_a_profile_is_said(tmp_path: Path, text: str, outcome: str, evidence: str) -> None:
    checks = read_profile(write_profile(tmp_path, text), DEMO)[1]
    assert [check.outcome for check in checks] == [outcome], checks
    assert re.search(evidence, checks[0].evidence), checks[0].evidence


def test_a_profile_is_looked_for_where_snakemake_looks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigError, match=r"mine/config\.yaml and .*/\.config/snakemake/mine/config\.yaml"):
        find_profile(Path("mine"))
    at_home = write_profile(tmp_path / ".config" / "snakemake" / "mine", TRAIN)
    assert find_profile(Path("mine")) == at_home / "config.yaml"
    (at_home / "config.v9+.yaml").touch()
    assert find_profile(Path("mine")) == at_home / "config.v9+.yaml"
    here = write_profile(tmp_path / "mine", TRAIN)
    assert find_profile(Path("mine")).resolve() == here / "config.yaml"


def test_outside_a_checkout_the_rules_are_not_known(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("aiayn.price.preflight.slurm.CHECKOUT", tmp_path)
    requests, (check,) = read_profile(CHECKOUT / "profiles" / "slurm", DEMO)
    assert (requests, check.outcome) == ([], "WARN")
