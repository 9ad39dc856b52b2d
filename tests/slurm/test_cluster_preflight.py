"""A real Slurm is asked before a start by `sbatch --test-only`."""

from pathlib import Path
from typing import Any

import msgspec
import pytest

from aiayn.launch.slurm.launcher import sbatch_text
from aiayn.spec.cluster import read_cluster
from tests.slurm.cluster import Cluster
from tests.slurm.cluster_layout import CPUS_PER_NODE, GPUS_PER_NODE, MEMORY_MIB_PER_NODE, NODES
from tests.unit.test_launch import make_request

pytest.importorskip("analysis.price")  # a wing, which may be absent
from analysis.price.preflight.slurm import check_slurm

CPU = read_cluster("cpu")


def outcomes(
    folder: Path, resources: str = "{mem_mb: 1000, runtime: 60}", **changes: Any
) -> dict[str, str]:
    """Return the outcome of a training, with changes to its cluster's file, and of a CPU job with
    these resources.
    """
    (folder / "config.yaml").write_text(
        f"executor: slurm\ndefault-resources: {resources}\n", encoding="utf-8"
    )
    cluster = msgspec.structs.replace(CPU, **changes)
    text = sbatch_text(make_request(Path("/tmp/runs/run")), cluster, Path("/tmp/code"))
    return {check.name: check.outcome for check in check_slurm(cluster, text, folder)}


def test_a_cluster_that_has_all_takes_it_and_nothing_is_submitted(
    on_cluster: Cluster, tmp_path: Path
) -> None:
    def jobs() -> set[
        str
    ]:  # a controller that an earlier test killed may still take an ended job for running
        return set(on_cluster.daemons.output("squeue", "--noheader", "--format=%i").split())

    before = jobs()
    assert outcomes(tmp_path) == {"training": "OK", "CPU job": "OK"}
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
def test_a_training_that_no_node_can_run_is_refused_by_slurm(
    tmp_path: Path, changes: dict[str, Any]
) -> None:
    assert outcomes(tmp_path, **changes)["training"] == "FAIL"


@pytest.mark.usefixtures("on_cluster")
@pytest.mark.parametrize(
    "resources", ["{mem_mb: 65000}", "{slurm_partition: nowhere}", "{constraint: fast}"]
)
def test_a_cpu_job_that_no_node_can_run_is_refused_by_slurm(tmp_path: Path, resources: str) -> None:
    assert outcomes(tmp_path, resources)["CPU job"] == "FAIL"
