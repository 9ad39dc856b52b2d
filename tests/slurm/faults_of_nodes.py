"""What nodes a training may get: eight ranks on one, two of them, and one without the GPUs that it
promised.
"""

import platform
from pathlib import Path

import msgspec

from aiayn.runs.attempts import DONE_NAME
from aiayn.spec.cluster import read_cluster
from tests.slurm.fault_scene import EXIT_DONE, EXIT_INPUT_OR_RUN, Scene

NUM_RANKS_OF_MANY = 8
UPDATES_OF_MANY = 10
PROMISED_GPUS = 2


def eight_ranks(scene: Scene) -> None:
    """The cluster's file `cpu` as it is: 8 tasks of Slurm train what 8 processes of this machine do
    without it.
    """
    scene.compared_with = "own"
    scene.asked = read_cluster("cpu")
    scene.training = msgspec.structs.replace(
        scene.training, updates=UPDATES_OF_MANY, save_interval_updates=UPDATES_OF_MANY
    )
    scene.seconds_per_update = 0.0
    slurm_folder = scene.runs_folder
    scene.runs_folder = scene.folder / "local-runs"
    scene.must_end(
        scene.start("--launcher", "local", "--num-ranks", str(NUM_RANKS_OF_MANY)), EXIT_DONE
    )
    local_digests = scene.digests()
    scene.runs_folder = slurm_folder
    scene.must_end(scene.start(), EXIT_DONE)
    scene.what = (
        f"cluster file cpu, {UPDATES_OF_MANY} updates; tensors of `--launcher local --num-ranks 8`"
    )
    scene.require_jobs(1)
    scene.require_tasks(1, NUM_RANKS_OF_MANY)
    assert scene.starts == [0]
    assert scene.digests() == local_digests


def two_nodes(scene: Scene) -> None:
    """One rank on each of two nodes, which are one machine and its loopback: they train what two
    ranks of one node do.
    """
    scene.ask(num_nodes=2, ranks_per_node=1)
    scene.must_end(scene.start(), EXIT_DONE)
    scene.what = "one rank on each of two nodes"
    scene.require_jobs(1)
    scene.require_tasks(2, 2)
    (job,) = scene.jobs()
    for index in range(2):
        output = Path(scene.run_folder, "submitit", f"{job}_{index}_log.out").read_text(
            encoding="utf-8"
        )
        assert "interface of the ranks: lo\n" in output, output
    assert scene.starts == [0]


def promised_gpus(scene: Scene) -> None:
    """Slurm gives two GPUs, torch sees none: the job does not train on the node's CPUs, and names
    the node.
    """
    scene.compared_with = "none"
    scene.ask(ranks_per_node=PROMISED_GPUS, gpus_per_node=PROMISED_GPUS)
    scene.training = msgspec.structs.replace(scene.training, device="auto")
    driver = scene.start()
    scene.must_end(driver, EXIT_INPUT_OR_RUN)
    scene.what = (
        f"`device: auto` on a node that promised {PROMISED_GPUS} GPUs and has none: exit"
        f" {EXIT_INPUT_OR_RUN}"
    )
    assert f"{platform.node()}: torch sees 0 GPUs, expected {PROMISED_GPUS}" in driver.output, (
        driver.output
    )
    scene.require_jobs(1)
    assert scene.starts == []
    assert not (scene.run_folder / DONE_NAME).exists()
