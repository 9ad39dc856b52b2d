"""A real Slurm, which enforces no limits by itself, is asked before a start: what it refuses, and what we foretell."""

from pathlib import Path
from typing import Any

import msgspec
import pytest

from aiayn.launch.slurm.launcher import sbatch_text
from aiayn.price.preflight.slurm import JobRequest, check_slurm
from aiayn.spec.cluster import read_cluster
from tests.slurm.cluster import Cluster
from tests.slurm.cluster_layout import CPUS_PER_NODE, GPUS_PER_NODE, MEMORY_MIB_PER_NODE, NODES, SHORT_PARTITION
from tests.unit.test_launch import make_request

CPU = read_cluster("cpu")


def outcomes(request: JobRequest | None = None, **changes: Any) -> dict[str, str]:
    """Return the outcome of each check of a training, whose cluster's file is changed, and of a CPU rule."""
    cluster = msgspec.structs.replace(CPU, **changes)
    text = sbatch_text(make_request(Path("/tmp/runs/run")), cluster, Path("/tmp/code"))
    checks = check_slurm(cluster, text, [] if request is None else [request])
    return {check.name: check.outcome for check in checks}


def rule(*options: str, minutes: float | None = None) -> JobRequest:
    """Return what a CPU rule asks for."""
    return JobRequest(
        check="CPU rules", name="clean", command=["sbatch", "--test-only", "--ntasks=1", *options], text="#!/bin/sh\n",
        words=" ".join(options), file="config.yaml", partition=None, account=None, qos=None, minutes=minutes,
    )  # fmt: skip


def test_a_cluster_that_has_all_takes_it_and_nothing_is_submitted(on_cluster: Cluster) -> None:
    def jobs() -> set[str]:  # a controller that an earlier test killed may still take an ended job for running
        return set(on_cluster.daemons.output("squeue", "--noheader", "--format=%i").split())

    before = jobs()
    assert outcomes(rule("--mem=1000", "--time=60")) == {"training": "OK", "CPU rules": "OK", "MinJobAge": "OK"}
    assert jobs() <= before


@pytest.mark.usefixtures("on_cluster")
@pytest.mark.parametrize(
    "changes",
    [
        {"partition": "nowhere"},
        {"constraint": "fast"},
        {"gpus_per_node": GPUS_PER_NODE + 1, "ranks_per_node": GPUS_PER_NODE + 1},
        {"gpus_per_node": GPUS_PER_NODE, "gpu_type": "h100"},
        {"cpus_per_rank": CPUS_PER_NODE},
        {"memory_gb_per_node": MEMORY_MIB_PER_NODE // 1000},
        {"num_nodes": len(NODES) + 1},
    ],
)
def test_a_training_that_no_node_can_run_is_refused_by_slurm(changes: dict[str, Any]) -> None:
    assert outcomes(**changes)["training"] == "FAIL"


@pytest.mark.usefixtures("on_cluster")
@pytest.mark.parametrize(
    "options", [["--mem=65000"], ["--cpus-per-task=17"], ["--gres=gpu:9"], ["--partition=nowhere"]]
)
def test_a_rule_that_no_node_can_run_is_refused_by_slurm(options: list[str]) -> None:
    assert outcomes(rule(*options))["CPU rules"] == "FAIL"


@pytest.mark.usefixtures("on_cluster")
def test_what_slurm_does_not_check_is_checked_here() -> None:
    """A partition of one minute, and an account and a QoS that this user has not."""
    short = outcomes(partition=SHORT_PARTITION)
    assert (short["training"], short["time limit"]) == ("OK", "FAIL")
    foreign = outcomes(account="nobody", qos="nothing")
    assert foreign["training"] == "OK"
    assert foreign["account"] in ("WARN", "FAIL")
