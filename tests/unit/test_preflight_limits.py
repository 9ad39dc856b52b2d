"""Limits of QoS and associations are each seen to hold and to be broken, and which of several holds."""

import re
from pathlib import Path
from typing import Any

import msgspec
import pytest

from aiayn.launch.cluster_spec import read_cluster
from aiayn.preflight.checks import Check
from aiayn.preflight.slurm import check_slurm
from tests.fake_cluster import CONFIG, ENFORCED, NODE, FakeCluster

# 8 GPUs, 32 CPUs and 100 GB on a node for a day; rules up to 16 CPUs and 16,000 MB for 12 hours, 100 jobs at once.
PLAIN = msgspec.structs.replace(read_cluster("plain"), memory_gb_per_node=100, gpu_type="h100")
PARTITION = "PartitionName=gpu AllowGroups=ALL AllowAccounts=ALL AllowQos=ALL Default=YES QoS={qos} State=UP\n"


def association(account: str = "physics", **values: str) -> str:
    """Return a line of `sacctmgr show associations`; what is not named is empty, as no limit is printed."""
    names = ("cluster", "account", "partition", "qos", "defaultqos", "maxwall", "maxtres", "maxsubmit", "maxjobs")
    given = {"cluster": "ours", "account": account, "qos": "normal", "defaultqos": "normal", **values}
    return "|".join(given.pop(name, "") for name in names) + "\n" + "".join(given)


def qos(name: str = "normal", **values: str) -> str:
    """Return a line of `sacctmgr show qos`."""
    names = ("name", "flags", "maxwall", "maxtres", "maxtrespu", "grptres", "maxsubmitjobspu", "maxjobspu")
    given = {"name": name, **values}
    return "|".join(given.pop(name, "") for name in names) + "\n" + "".join(given)


def limits(
    folder: Path, monkeypatch: pytest.MonkeyPatch, *, cluster: dict[str, str] | None = None, **changes: Any
) -> list[Check]:
    """Return the checks of limits; `changes` are to the cluster's file, those of `cluster` to what Slurm prints."""
    texts = {"config": CONFIG + ENFORCED, "associations": association(), "qos": qos(), **(cluster or {})}
    FakeCluster(**texts).install(folder / "bin", monkeypatch)
    checks = check_slurm(msgspec.structs.replace(PLAIN, **changes))
    return [check for check in checks if check.name == "limits"]


def test_what_no_limit_forbids_passes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    generous = {
        "associations": association(maxwall="2-00:00:00", maxtres="gres/gpu=8,mem=100G", maxsubmit="100"),
        "qos": qos(maxwall="1-00:00:00", maxtrespu="gres/gpu=8,gres/gpu:h100=8,cpu=32,node=1", maxjobspu="7"),
    }
    (check,) = limits(tmp_path, monkeypatch, cluster=generous)
    assert (check.outcome, check.evidence) == (
        "OK", "within those of QoS normal, your association with physics; of yours 7 jobs run at once, more wait",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("texts", "evidence"),
    [
        ({"qos": qos(maxwall="23:59:00")}, "^a training: 1,440 minutes, QoS normal allows 1,439 .MaxWall"),
        ({"qos": qos(maxwall="11:00:00")}, "^segment: 720 minutes, QoS normal allows 660 .MaxWall"),
        ({"associations": association(maxwall="12:00:00")}, "1,440 minutes, your association with physics allows 720"),
        ({"qos": qos(maxtrespu="gres/gpu=4")}, "8 gres/gpu a job, QoS normal allows 4 to a user .MaxTRESPU"),
        ({"qos": qos(maxtres="gres/gpu:h100=4")}, "8 gres/gpu:h100 a job, QoS normal allows 4 to a job .MaxTRES"),
        ({"qos": qos(grptres="cpu=31")}, "a training: 32 CPUs a job, QoS normal allows 31 to all users together"),
        ({"qos": qos(maxtres="node=0")}, "a training: 1 nodes a job, QoS normal allows 0"),
        ({"qos": qos(maxtres="mem=15999M")}, "segment: 16000 MB of memory a job, QoS normal allows 15999"),
        ({"qos": qos(maxtres="cpu=15")}, "clean, binarize: 16 CPUs a job|^clean: 16 CPUs a job"),
        ({"associations": association(maxtres="mem=99G")}, "102400 MB of memory a job, your association .* 101376"),
    ],
)  # fmt: skip
def test_a_limit_that_a_job_is_above_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, texts: dict[str, str], evidence: str
) -> None:
    found = [check for check in limits(tmp_path, monkeypatch, cluster=texts) if re.search(evidence, check.evidence)]
    assert [check.outcome for check in found] == ["FAIL"], limits(tmp_path, monkeypatch, cluster=texts)
    assert re.search("^(set|ask for less)", found[0].next_step)


def test_two_nodes_count_twice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    texts = {"qos": qos(maxtrespu="gres/gpu=8"), "nodes": f"{NODE}\n{NODE.replace('n1', 'n2')}\n"}
    assert [check.outcome for check in limits(tmp_path, monkeypatch, cluster=texts)] == ["OK"]
    (check,) = limits(tmp_path, monkeypatch, cluster=texts, num_nodes=2)
    assert check.evidence.startswith("a training: 16 gres/gpu a job, QoS normal allows 8 to a user")


def test_more_jobs_than_may_be_submitted_are_doubtful(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (check,) = limits(tmp_path, monkeypatch, cluster={"qos": qos(maxsubmitjobspu="99")})
    assert check.outcome == "WARN"
    assert re.search("^jobs: 100 in .*profiles/slurm/config.yaml, QoS normal takes 99 submitted", check.evidence)
    assert "--jobs 99" in check.next_step
    assert [one.outcome for one in limits(tmp_path, monkeypatch, cluster={"qos": qos(maxsubmitjobspu="100")})] == ["OK"]
    (check,) = limits(tmp_path, monkeypatch, cluster={"associations": association(maxsubmit="20")})
    assert "your association with physics takes 20 submitted" in check.evidence


@pytest.mark.parametrize(
    ("texts", "owner"),
    [
        ({"qos": qos(maxwall="10") + qos("part", maxwall="20")}, "QoS part allows 20"),
        ({"qos": qos(maxwall="10", flags="OverPartQOS") + qos("part", maxwall="20")}, "QoS normal allows 10"),
        ({"qos": qos(maxwall="10") + qos("part", maxtres="cpu=99")}, "QoS normal allows 10"),
        ({"qos": qos() + qos("part"), "associations": association(maxwall="30")}, "your association .* allows 30"),
    ],
)
def test_the_partitions_qos_stands_before_the_jobs_and_this_before_the_association(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, texts: dict[str, str], owner: str
) -> None:
    found = limits(tmp_path, monkeypatch, cluster={"partitions": PARTITION.format(qos="part"), **texts})
    assert {check.outcome for check in found} == {"FAIL"}
    assert all(re.search(owner, check.evidence) for check in found), found


@pytest.mark.parametrize(
    ("texts", "changes", "outcome"),
    [
        ({"associations": association(defaultqos="short")}, {}, "FAIL"),
        ({"associations": association(defaultqos="", qos="short")}, {}, "FAIL"),  # its only one
        ({"associations": association(qos="normal,short")}, {"qos": "short"}, "FAIL"),
        ({"associations": association(qos="normal,short")}, {}, "OK"),
        ({"associations": association(qos="normal,short", defaultqos="")}, {}, "WARN"),  # which, nobody knows
        ({"associations": association(defaultqos="secret")}, {}, "WARN"),  # nobody shows its limits
        ({"partitions": PARTITION.format(qos="secret")}, {}, "WARN"),
        ({"partitions": PARTITION.format(qos="N/A")}, {}, "OK"),
        ({"associations": association("maths") + association(partition="gpu", defaultqos="short")}, {}, "WARN"),
        (
            {"associations": association("maths") + association(defaultqos="short"), "default_account": "physics\n"},
            {}, "FAIL",
        ),
        ({"associations": association("maths") + association(defaultqos="short")}, {"account": "physics"}, "FAIL"),
        ({"associations": association() + association(partition="gpu", defaultqos="short")}, {}, "FAIL"),
        ({"associations": association() + association(partition="cpu", defaultqos="short")}, {}, "OK"),
        ({"associations": association() + association(cluster="theirs", defaultqos="short")}, {}, "OK"),
    ],
)  # fmt: skip
def test_the_qos_is_the_one_asked_for_or_the_associations_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, texts: dict[str, str], changes: dict[str, str], outcome: str
) -> None:
    cluster = {"qos": qos() + qos("short", maxtres="gres/gpu=1"), **texts}
    found = [
        check for check in limits(tmp_path, monkeypatch, cluster=cluster, **changes)
        if check.outcome == "OK" or "a training" in check.evidence
    ]  # fmt: skip
    assert [check.outcome for check in found] == [outcome], found


def test_silent_accounting_is_not_known_and_no_fault(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for silent in ({"associations": ""}, {"qos": ""}, {"qos": "half an answer"}, {"config": CONFIG, "qos": ""}):
        (check,) = limits(tmp_path, monkeypatch, cluster=silent)
        assert (check.outcome, check.evidence) == ("WARN", "not known: accounting does not answer")
    (check,) = limits(tmp_path, monkeypatch, cluster={"associations": "\n"})  # answers, and has nobody of this name
    assert (check.outcome, "account and its limits are not known" in check.evidence) == ("WARN", True)


def test_limits_that_slurm_does_not_enforce_are_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = CONFIG + "AccountingStorageEnforce = associations,qos\n"
    (check,) = limits(tmp_path, monkeypatch, cluster={"config": config, "qos": qos(maxwall="10")})
    assert (check.outcome, "enforces none (AccountingStorageEnforce=associations,qos)" in check.evidence) == (
        "OK",
        True,
    )
