"""A real Slurm is asked before a start by `sbatch --test-only`."""

from pathlib import Path
from typing import Any

import msgspec
import pytest

from aiayn.experiment import read_experiment
from aiayn.launch.slurm.launcher import sbatch_text
from aiayn.launch.slurm.nodes import with_node_cpus
from aiayn.launch.slurm.queue import SlurmQueue
from aiayn.spec.cluster import read_cluster
from aiayn.spec.hardware import read_hardware
from aiayn.spec.system import CONFIG_FOLDER, read_scale
from analysis.price.machines import choose_machine
from analysis.price.plan import make_plan
from analysis.price.preflight.slurm import check_slurm
from analysis.price.preflight.trial import try_training
from tests.slurm.cluster import Cluster
from tests.slurm.cluster_layout import CPUS_PER_NODE, GPUS_PER_NODE, MEMORY_MIB_PER_NODE, NODES
from tests.unit.test_launch import make_request

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
@pytest.mark.parametrize("gpu_request", ["gpus-per-node", "gres", "none"])
def test_slurm_takes_each_request_for_gpus_and_all_memory(tmp_path: Path, gpu_request: str) -> None:
    changes = {"gpus_per_node": GPUS_PER_NODE, "memory_gb_per_node": "all"}
    assert outcomes(tmp_path, gpu_request=gpu_request, **changes)["training"] == "OK"


@pytest.mark.usefixtures("on_cluster")
def test_a_rank_has_its_share_of_a_nodes_cpus() -> None:
    cluster = with_node_cpus(msgspec.structs.replace(CPU, cpus_per_rank="node"))
    assert cluster.threads_per_rank == CPUS_PER_NODE // CPU.ranks_per_node


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


@pytest.mark.usefixtures("on_cluster")
@pytest.mark.parametrize("begins_late", [False, True])
def test_a_trial_of_two_ranks_or_one_that_waits_too_long(tmp_path: Path, begins_late: bool) -> None:
    """The whole of `preflight --train`, with gloo; the job that waits is cancelled."""
    scale = msgspec.structs.replace(
        read_scale(CONFIG_FOLDER / "demo.yaml"), runs_folder=str(tmp_path / "runs")
    )
    lines = {"begin": "now+1hour"} if begins_late else {}
    cluster = msgspec.structs.replace(CPU, ranks_per_node=2, sbatch_lines=lines)
    experiment = read_experiment(scale)
    machine = choose_machine(cluster, read_hardware(), launcher="slurm", gpu=None, num_gpus=None)
    plan = make_plan(experiment, machine, read_hardware(), tmp_path / "results")
    checks = try_training(experiment, cluster, plan, wait_minutes=0.05 if begins_late else 5)
    outcome_by_name = {check.name: check.outcome for check in checks}
    if not begins_late:
        outcome_by_name.pop("speed")  # two ranks of many others on this machine
        names = ("trial", "collectives", "resume", "ranks")
        assert outcome_by_name == dict.fromkeys(names, "OK")
        return
    assert outcome_by_name == {"trial": "FAIL"}
    assert "waited longer than 0.05 minutes (--wait) and was cancelled" in checks[0].evidence
    (folder,) = (tmp_path / "runs").glob("preflight-*")
    assert [job for job in SlurmQueue().find(folder.name) if job.is_alive] == []
