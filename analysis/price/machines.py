"""Chooses the machine of planned trainings: a cluster's GPUs, this machine, or the GPUs that the
user states.
"""

from collections.abc import Set
from typing import Literal

from aiayn.errors import UsageError
from aiayn.machine import gpu_names
from aiayn.plan.machine import Machine, machine_of_cluster, machine_of_cores, machine_of_gpus
from aiayn.spec.cluster import ClusterSpec
from aiayn.spec.hardware import PAPER_GPU, HardwareSpec
from aiayn.spec.training import Precision


def choose_machine(
    cluster: ClusterSpec,
    hardware: HardwareSpec,
    *,
    launcher: Literal["local", "slurm"],
    gpu: str | None,
    num_gpus: int | None,
    precisions: Set[Precision] = frozenset(),
) -> Machine:
    """Return what each training runs on, on a cluster as its file asks or, by the local launcher,
    here.

    On a cluster and without `gpu` the cluster's `gpu_type` counts, then the paper's own, or the
    first that has the `precisions` of the trainings. Here it is this machine's first GPU, or a
    core. A single device, as the local launcher takes, unless `num_gpus` is larger.

    Raises:
        UsageError: if a number of GPUs is given for a machine without GPUs.
    """
    # Under Slurm the cluster's file says what a training gets. This machine may be a login node.
    if launcher == "slurm":
        default = default_gpu(hardware, precisions)
        machine = machine_of_cluster(
            cluster, hardware, gpu=gpu, num_gpus=num_gpus, default_gpu=default
        )
    else:
        # On this machine the GPU that is here counts, unless the user asks about a different one.
        name = gpu or next(iter(gpu_names()), "")
        chosen_by = "the local launcher, which takes one by default"
        machine = machine_of_cores(1, 1, 1, chosen_by)
        if name:
            machine = machine_of_gpus(name, num_gpus or 1, 1, hardware, chosen_by)
    if not machine.gpu and num_gpus is not None:
        raise UsageError(
            f"--num-gpus {num_gpus}: trainings have no GPU here ({machine.chosen_by}); name the"
            " kind: --gpu NAME"
        )
    return machine


def default_gpu(hardware: HardwareSpec, precisions: Set[Precision]) -> str:
    """Return the GPU to plan for if the user does not choose one: the paper's GPU, if it supports
    the precisions.
    """
    # In the order of hardware.yaml, the oldest cards first.
    for name in (PAPER_GPU, *hardware.gpu_by_name):
        if precisions <= hardware.gpu_by_name[name].rate_by_precision.keys():
            break
    return name
