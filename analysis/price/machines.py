"""Chooses the machine for which the trainings of a plan are predicted: a cluster's GPUs, this
computer, or the kind of GPU that the user asks about.
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
    """Return the machine of one training: the GPUs in the cluster's config file on Slurm, or this
    computer with the local launcher.

    `gpu` replaces the kind of GPU, `num_gpus` the number of GPUs. Without `gpu`, the kind of GPU on
    Slurm is the cluster's `gpu_type`. If the cluster's file has no `gpu_type`, the paper's GPU is
    used, or the first GPU that supports the `precisions` of the trainings. With the local launcher
    the device is this computer's first GPU, or a CPU core if it has no GPU. The local launcher uses
    one device by default.

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
        # The user may ask about a GPU that this machine does not have.
        name = gpu or next(iter(gpu_names()), "")
        chosen_by = "the local launcher, which takes one by default"
        machine = machine_of_cores(1, 1, 1, chosen_by)
        if name:
            machine = machine_of_gpus(name, num_gpus or 1, 1, hardware, chosen_by)
    # The number is not ignored: the user expects the hours of GPUs.
    if not machine.gpu and num_gpus is not None:
        raise UsageError(
            f"--num-gpus {num_gpus}: trainings have no GPU here ({machine.chosen_by}); name the"
            " kind: --gpu NAME"
        )
    return machine


def default_gpu(hardware: HardwareSpec, precisions: Set[Precision]) -> str:
    """Return the kind of GPU to plan for if the user does not choose a GPU: the paper's GPU, if it
    supports the precisions of the trainings.
    """
    # P100 has fp32 only, so a config in bf16 is planned for a newer card. hardware.yaml lists the
    # oldest cards first. If no card has all precisions, the last one stays, and the plan reports
    # the precision that it lacks.
    for name in (PAPER_GPU, *hardware.gpu_by_name):
        if precisions <= hardware.gpu_by_name[name].rate_by_precision.keys():
            break
    return name
