"""Describes the devices on which a training runs: GPUs or CPU cores of this machine, the devices of
a cluster, or GPUs of a given kind.
"""

import math
import os
from typing import Any

import msgspec

from aiayn.machine import cpu_flops_per_second_per_core, gpu_names
from aiayn.spec.cluster import ClusterSpec
from aiayn.spec.hardware import (
    CPU,
    CPU_PRECISIONS,
    NUM_PAPER_GPUS,
    PAPER_GPU,
    HardwareSpec,
    SourcedValue,
    precision_refusal,
)
from aiayn.spec.training import Precision


def _assume(value: float, source: str) -> SourcedValue:
    return SourcedValue(value=value, kind="assumption", source=source)


# For GPUs without a link in hardware.yaml, and between nodes.
UNKNOWN_LINK = _assume(1.6e10, "one direction of PCIe 3.0 x16")


class Machine(msgspec.Struct, frozen=True, kw_only=True):
    """The devices of one training: `num_devices` GPUs, or CPU cores if `gpu` is ''. The price
    `dollars_per_hour` is for one device.

    `chosen_by` says where the description of the devices comes from, such as `this machine`.
    `rate_by_precision` has the operations per second of one device in each precision that the
    device supports. For a GPU that is not in hardware.yaml, `rate_by_precision` is empty, so the
    hours of a training cannot be predicted. `cluster` is None if the training does not run on a
    cluster.
    """

    gpu: str
    num_devices: int
    num_ranks: int
    num_nodes: int
    rate_by_precision: dict[Precision, SourcedValue]
    memory_bytes_per_second: SourcedValue | None = None
    link: SourcedValue = UNKNOWN_LINK
    dollars_per_hour: SourcedValue | None = None
    chosen_by: str
    cluster: ClusterSpec | None = None

    @property
    def words(self) -> str:
        """The devices as a text, such as `8 H100` or `2 CPU cores`."""
        if self.gpu:
            return f"{self.num_devices} {self.gpu}"
        return f"{self.num_devices} CPU core{'' if self.num_devices == 1 else 's'}"

    @property
    def device(self) -> str:
        """The kind of the devices as a word: GPU or core."""
        return "GPU" if self.gpu else "core"

    def precision_refusal(self, precision: Precision) -> str:
        """Return the reason why this machine does not support a precision, or '' if the machine
        supports the precision or has an unknown GPU.
        """
        # Nothing is known about the GPU. The training itself checks it (`require_precision`).
        if not self.rate_by_precision:
            return ""
        return precision_refusal(
            precision, f"a {self.gpu}" if self.gpu else CPU, self.rate_by_precision
        )

    @property
    def assumptions(self) -> list[str]:
        """Sentences about the values that are assumed because hardware.yaml does not have them."""
        texts = []
        if self.rate_by_precision and self.gpu and self.num_ranks > 1 and self.link == UNKNOWN_LINK:
            ends = "between nodes" if self.num_nodes > 1 else f"of {self.gpu}"
            texts.append(f"link {ends}: not known; {UNKNOWN_LINK.value / 1e9:g} GB/s are assumed")
        return texts


def machine_of_gpus(
    name: str,
    num_gpus: int,
    num_nodes: int,
    hardware: HardwareSpec,
    chosen_by: str,
    cluster: ClusterSpec | None = None,
) -> Machine:
    """Return a machine of `num_gpus` GPUs with this product name. If hardware.yaml does not
    describe the GPU, the speed of the machine (`rate_by_precision`) is empty.
    """
    key = hardware.find_name(name)
    # Nothing is assumed about a card that is not in the file, so its hours are not predicted.
    figures: dict[str, Any] = {"rate_by_precision": {}}
    if key is not None:
        spec = hardware.gpu_by_name[key]
        figures = {
            "rate_by_precision": spec.rate_by_precision,
            "memory_bytes_per_second": spec.memory_bytes_per_second,
            "dollars_per_hour": spec.dollars_per_hour,
        }
        # The link in the file connects GPUs of the same node. Between nodes the network decides.
        if spec.link_bytes_per_second is not None and num_nodes == 1:
            figures["link"] = spec.link_bytes_per_second
    return Machine(
        gpu=key or name,
        num_devices=num_gpus,
        num_ranks=num_gpus,
        num_nodes=num_nodes,
        chosen_by=chosen_by,
        cluster=cluster,
        **figures,
    )


def nodes_of_gpus(num_gpus: int, cluster: ClusterSpec | None) -> int:
    """Return the number of nodes that have `num_gpus` GPUs. A node has as many GPUs as a node of
    the cluster, or as the paper's machine if the cluster is None or does not have GPUs.
    """
    gpus_per_node = cluster.gpus_per_node if cluster is not None else 0
    return math.ceil(num_gpus / (gpus_per_node or NUM_PAPER_GPUS))


def machine_of_cluster(
    cluster: ClusterSpec,
    hardware: HardwareSpec,
    *,
    gpu: str | None = None,
    num_gpus: int | None = None,
    default_gpu: str = PAPER_GPU,
) -> Machine:
    """Return the devices of a training on a cluster. `gpu` and `num_gpus` replace the values of the
    cluster's YAML file. `default_gpu` is used if `gpu` is None and the file lacks the kind of GPU.
    """
    source = f"cluster {cluster.name}"
    num_nodes = cluster.num_nodes
    if cluster.gpus_per_node == 0 and gpu is None:
        cores = cluster.num_ranks * cluster.threads_per_rank
        source += f": {cluster.num_ranks} ranks x {cluster.threads_per_rank} core(s), no GPUs"
        return machine_of_cores(cores, cluster.num_ranks, num_nodes, source, cluster)
    if gpu is None and cluster.gpu_type is None:
        source += ", which names no gpu_type"
    # A cluster of CPU nodes does not give a number of GPUs. Then the paper's number is used.
    num_of_cluster = num_nodes * cluster.gpus_per_node
    number = num_gpus or num_of_cluster or NUM_PAPER_GPUS
    if number != num_of_cluster:
        source += f"; {number} GPUs in place of its {num_of_cluster or 'CPU cores'}"
        # Nodes are requested whole.
        num_nodes = nodes_of_gpus(number, cluster)
    name = gpu or cluster.gpu_type or default_gpu
    return machine_of_gpus(name, number, num_nodes, hardware, source, cluster)


def machine_here(
    hardware: HardwareSpec, num_ranks: int, threads_per_rank: int, *, uses_gpus: bool = True
) -> Machine:
    """Return the devices of this machine for a training of `num_ranks` ranks (processes)."""
    names = gpu_names() if uses_gpus else []
    if not names:
        num_cores = min(num_ranks * threads_per_rank, os.cpu_count() or 1)
        return machine_of_cores(num_cores, num_ranks, 1, "this machine")
    # Assumption: all GPUs of a machine are of the same kind.
    machine = machine_of_gpus(names[0], min(num_ranks, len(names)), 1, hardware, "this machine")
    # Messages show the driver's full name, and not the key of hardware.yaml.
    return msgspec.structs.replace(machine, gpu=names[0])


def machine_of_cores(
    num_cores: int,
    num_ranks: int,
    num_nodes: int,
    chosen_by: str,
    cluster: ClusterSpec | None = None,
) -> Machine:
    """Return a machine of `num_cores` CPU cores, each as fast as a core of this machine.

    CPUs are assumed to be as fast in bf16 as in fp32.
    """
    # Measured for each plan, because the name of a CPU does not tell its speed.
    rate = _assume(cpu_flops_per_second_per_core(), "a core of this machine, measured just now")
    return Machine(
        gpu="",
        num_devices=num_cores,
        num_ranks=num_ranks,
        num_nodes=num_nodes,
        rate_by_precision=dict.fromkeys(CPU_PRECISIONS, rate),
        chosen_by=chosen_by,
        cluster=cluster,
    )
