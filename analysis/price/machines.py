"""Chooses the machine of trainings that are planned: a cluster's GPUs, this machine, or GPUs named
by the user.
"""

from collections.abc import Set

import msgspec

from aiayn.errors import UsageError
from aiayn.machine import gpu_names
from aiayn.plan.machine import Machine, machine_of_cluster, machine_of_cores, machine_of_gpus
from aiayn.spec.cluster import ClusterSpec
from aiayn.spec.hardware import PAPER_GPU, HardwareSpec, SourcedValue
from aiayn.spec.training import Precision

PRICE_FLAG = "--dollars-per-gpu-hour"


def choose_machine(
    cluster: ClusterSpec,
    hardware: HardwareSpec,
    *,
    launcher: str | None,
    gpu: str | None,
    num_gpus: int | None,
    dollars_per_gpu_hour: float | None = None,
    precisions: Set[Precision] = frozenset(),
) -> Machine:
    """Return what each training runs on, on a cluster as its file asks or, by the local launcher,
    here.

    On a cluster and without `gpu` the cluster's `gpu_type` counts, then the paper's own, or the
    first that has the `precisions` of the trainings. Here it is this machine's first GPU, or a
    core; a single device, as the local launcher takes, unless `num_gpus` is larger. A given price
    replaces the price of hardware.yaml.

    Raises:
        UsageError: if a number or a price of GPUs is given for a machine without GPUs.
    """
    if launcher not in (None, "local", "debug"):
        default = default_gpu(hardware, precisions)
        machine = machine_of_cluster(
            cluster, hardware, gpu=gpu, num_gpus=num_gpus, default_gpu=default
        )
    else:
        machine = _choose_here(hardware, gpu, num_gpus)
    if not machine.gpu and (num_gpus, dollars_per_gpu_hour) != (None, None):
        given = (
            f"{PRICE_FLAG} {dollars_per_gpu_hour}" if num_gpus is None else f"--num-gpus {num_gpus}"
        )
        raise UsageError(
            f"{given}: trainings have no GPU here ({machine.chosen_by}); name the kind: --gpu NAME"
        )
    if dollars_per_gpu_hour is None:
        return machine
    price = SourcedValue(
        value=dollars_per_gpu_hour, kind="assumption", source=f"yours, by {PRICE_FLAG}"
    )
    return msgspec.structs.replace(machine, dollars_per_hour=price)


def default_gpu(hardware: HardwareSpec, precisions: Set[Precision]) -> str:
    """Return the GPU that counts where none is named: the paper's own, if it has the precisions."""
    for name in (PAPER_GPU, *hardware.gpu_by_name):
        if precisions <= hardware.gpu_by_name[name].rate_by_precision.keys():
            break
    return name


def _choose_here(hardware: HardwareSpec, gpu: str | None, num_gpus: int | None) -> Machine:
    here = gpu_names()
    if gpu is None and not here:
        return machine_of_cores(1, 1, 1, "the local launcher, which takes one core by default")
    chosen_by = "the local launcher, which takes one GPU by default"
    if num_gpus is not None:
        chosen_by = f"the local launcher, by `--set-resources train:num_ranks={num_gpus}`"
    if gpu is not None and here:
        chosen_by += f"; {gpu} in place of this machine's {here[0]}"
    return machine_of_gpus(gpu or here[0], num_gpus or 1, 1, hardware, chosen_by)
