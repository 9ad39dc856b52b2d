"""Chooses the machine of a plan's trainings, GPUs of hardware.yaml or CPU cores, and checks whether they fit there."""

import math
import os
from collections.abc import Set

import msgspec

from aiayn.errors import UsageError
from aiayn.machine import cpu_flops_per_second_per_core, gpu_names
from aiayn.spec.cluster import ClusterSpec
from aiayn.spec.hardware import (
    CPU,
    CPU_PRECISIONS,
    NUM_PAPER_GPUS,
    PAPER_GPU,
    HardwareSpec,
    SourcedValue,
    UtilisationSpec,
    find_utilisation,
    precision_refusal,
)
from aiayn.spec.training import PRECISIONS, Precision, TrainingSpec

PRICE_FLAG = "--dollars-per-gpu-hour"
UNKNOWN_GPU_FLOPS_PER_SECOND = 1.0e13  # assumption: at least so fast is a GPU that hardware.yaml does not know


class JobLimits(msgspec.Struct, frozen=True, kw_only=True):
    """The jobs of one training on a cluster, as its cluster's file says: each of `minutes`, `max_num_jobs` in all.

    `signal_seconds` before the end of each it saves, and goes on in the next one.
    """

    cluster: str
    minutes: int
    signal_seconds: int
    max_num_jobs: int

    @property
    def training_minutes(self) -> float:
        """How long one job trains before it saves and ends."""
        return self.minutes - self.signal_seconds / 60

    @property
    def file(self) -> str:
        """The file to change these in."""
        return f"workflow/config/clusters/{self.cluster}.yaml"

    def count_jobs(self, hours: float) -> int:
        """Return how many jobs, one after the other, train for so long; starting and saving are not counted."""
        return max(1, math.ceil(60 * hours / self.training_minutes))


class Machine(msgspec.Struct, frozen=True, kw_only=True):
    """What one training has: `num_devices` GPUs, or CPU cores where `gpu` is ''; money and watts are of one of them.

    `chosen_by` says why these. `rate_by_precision` has the precisions that the devices have, each with the operations a
    second of one of them. `job_limits` are None where no cluster runs the trainings.
    """

    gpu: str
    num_devices: int
    num_ranks: int
    num_nodes: int
    rate_by_precision: dict[Precision, SourcedValue]
    utilisations: list[UtilisationSpec]
    dollars_per_hour: SourcedValue | None = None
    watts: SourcedValue | None = None
    chosen_by: str
    job_limits: JobLimits | None = None

    @property
    def words(self) -> str:
        """The machine of one training, in words."""
        return f"{self.num_devices} {self.gpu or ('CPU core' if self.num_devices == 1 else 'CPU cores')}"

    @property
    def device(self) -> str:
        """What hours are counted of."""
        return "GPU" if self.gpu else "core"

    @property
    def num_ranks_of_node(self) -> int:
        """The ranks of a training on its fullest node."""
        return math.ceil(self.num_ranks / self.num_nodes)

    def precision_refusal(self, precision: Precision) -> str:
        """Return why this machine does not support a precision, '' if it does."""
        return precision_refusal(precision, f"a {self.gpu}" if self.gpu else CPU, self.rate_by_precision)

    def utilisation_of(self, training: TrainingSpec) -> UtilisationSpec:
        """Return what share of the rate a training of this width and precision is taken to reach.

        Of CPUs nothing is known: fp32's share stands for either precision.
        """
        return find_utilisation(self.utilisations, training.precision if self.gpu else "fp32", training.d_model)


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
    """Return what each training runs on, on a cluster as its file asks or, by the local launcher, here.

    On a cluster and without `gpu` the cluster's `gpu_type` counts, then the paper's own, or the first that has the
    `precisions` of the trainings. Here it is this machine's first GPU, or a core; one of them, as the local launcher
    takes, unless `num_gpus` says more. A price that is given stands for hardware.yaml's.

    Raises:
        UsageError: if hardware.yaml does not know the GPU, or a number or price is of GPUs where there are none.
    """
    if launcher not in (None, "local", "debug"):
        machine = _choose_of_cluster(cluster, hardware, gpu, num_gpus, default_gpu(hardware, precisions))
    else:
        machine = _choose_here(hardware, gpu, num_gpus)
    if not machine.gpu and (num_gpus, dollars_per_gpu_hour) != (None, None):
        given = f"{PRICE_FLAG} {dollars_per_gpu_hour}" if num_gpus is None else f"--num-gpus {num_gpus}"
        raise UsageError(f"{given}: trainings have no GPU here ({machine.chosen_by}); name the kind: --gpu NAME")
    if dollars_per_gpu_hour is None:
        return machine
    price = SourcedValue(value=dollars_per_gpu_hour, kind="assumption", source=f"yours, by {PRICE_FLAG}")
    return msgspec.structs.replace(machine, dollars_per_hour=price)


def default_gpu(hardware: HardwareSpec, precisions: Set[Precision]) -> str:
    """Return the GPU that counts where none is named: the paper's own, if it has the precisions."""
    able = [name for name, gpu in hardware.gpu_by_name.items() if precisions <= gpu.rate_by_precision.keys()]
    return PAPER_GPU if PAPER_GPU in able else able[0]


def _choose_here(hardware: HardwareSpec, gpu: str | None, num_gpus: int | None) -> Machine:
    here = gpu_names()
    if gpu is None and not here:
        return machine_of_cores(1, 1, 1, hardware, "the local launcher, which takes one core by default")
    chosen_by = "the local launcher, which takes one GPU by default"
    if num_gpus is not None:
        chosen_by = f"the local launcher, by `--set-resources train:num_ranks={num_gpus}`"
    if gpu is not None and here:
        chosen_by += f"; {gpu} in place of this machine's {here[0]}"
    place = "the first GPU of this machine" if gpu is None else "--gpu"
    return machine_of_gpus(gpu or here[0], place, num_gpus or 1, 1, hardware, chosen_by)


def _choose_of_cluster(
    cluster: ClusterSpec, hardware: HardwareSpec, gpu: str | None, num_gpus: int | None, default: str
) -> Machine:
    limits = JobLimits(
        cluster=cluster.name, minutes=cluster.time_limit_minutes, signal_seconds=cluster.signal_seconds,
        max_num_jobs=cluster.max_num_jobs,
    )  # fmt: skip
    if cluster.gpus_per_node == 0 and gpu is None:
        cores = cluster.num_ranks * cluster.cpus_per_rank
        source = f"Slurm, cluster {cluster.name}: {cluster.num_ranks} ranks x {cluster.cpus_per_rank} core(s), no GPUs"
        return machine_of_cores(cores, cluster.num_ranks, cluster.num_nodes, hardware, source, limits)
    num_of_cluster = cluster.num_nodes * cluster.gpus_per_node
    number = num_gpus or num_of_cluster or NUM_PAPER_GPUS
    num_nodes = math.ceil(number / (cluster.gpus_per_node or NUM_PAPER_GPUS))
    source = f"Slurm, cluster {cluster.name}{_words_for_gpu(cluster, gpu, default)}"
    if number != num_of_cluster:
        source += f"; {number} GPUs in place of its {num_of_cluster or 'CPU cores'}"
    place = "--gpu" if gpu else f"gpu_type of cluster {cluster.name}"
    return machine_of_gpus(gpu or cluster.gpu_type or default, place, number, num_nodes, hardware, source, limits)


def _words_for_gpu(cluster: ClusterSpec, gpu: str | None, default: str) -> str:
    """Return in words why this GPU was chosen."""
    if gpu is None:
        named = f" (gpu_type {cluster.gpu_type})"
        of_default = "the paper's own GPU (section 5.2)" if default == PAPER_GPU else "the first GPU with the precision"
        return named if cluster.gpu_type else f", which names no gpu_type: {of_default}"
    return f", {gpu} in place of gpu_type {cluster.gpu_type}" if cluster.gpu_type else ", which names no gpu_type"


def machine_of_gpus(
    name: str, place: str, num_gpus: int, num_nodes: int, hardware: HardwareSpec, chosen_by: str,
    limits: JobLimits | None = None,
) -> Machine:  # fmt: skip
    """Return so many GPUs, found by a product's name that came from `place`.

    Raises:
        UsageError: if hardware.yaml does not know the GPU.
    """
    key = hardware.find_name(name)
    if key is None:
        known = ", ".join(hardware.gpu_by_name)
        raise UsageError(f"GPU {name!r} ({place}): config/hardware.yaml has {known}; name one, or add yours there")
    spec = hardware.gpu_by_name[key]
    return Machine(
        gpu=key,
        num_devices=num_gpus,
        num_ranks=num_gpus,
        num_nodes=num_nodes,
        rate_by_precision=spec.rate_by_precision,
        utilisations=hardware.utilisations,
        dollars_per_hour=spec.dollars_per_hour,
        watts=spec.watts,
        chosen_by=chosen_by,
        job_limits=limits,
    )


def machine_here(hardware: HardwareSpec, num_ranks: int, threads_per_rank: int, *, uses_gpus: bool = True) -> Machine:
    """Return what so many ranks of a training have on this machine; a GPU that is not known is taken to be slow."""
    names = gpu_names() if uses_gpus else []
    if not names:
        num_cores = min(num_ranks * threads_per_rank, os.cpu_count() or 1)
        return machine_of_cores(num_cores, num_ranks, 1, hardware, "this machine")
    unknown = SourcedValue(value=UNKNOWN_GPU_FLOPS_PER_SECOND, kind="assumption", source="not in hardware.yaml")
    gpu = hardware.find_gpu(names[0])
    return Machine(
        gpu=names[0],
        num_devices=min(num_ranks, len(names)),
        num_ranks=num_ranks,
        num_nodes=1,
        rate_by_precision=gpu.rate_by_precision if gpu else dict.fromkeys(PRECISIONS, unknown),
        utilisations=hardware.utilisations,
        chosen_by="this machine",
    )


def machine_of_cores(
    num_cores: int, num_ranks: int, num_nodes: int, hardware: HardwareSpec, chosen_by: str,
    limits: JobLimits | None = None,
) -> Machine:  # fmt: skip
    """Return so many cores, each as fast as one of this machine; in bf16 taken to be as in fp32, which is not known."""
    rate = SourcedValue(
        value=cpu_flops_per_second_per_core(), kind="assumption", source="a core of this machine, measured just now"
    )
    return Machine(
        gpu="",
        num_devices=num_cores,
        num_ranks=num_ranks,
        num_nodes=num_nodes,
        rate_by_precision=dict.fromkeys(CPU_PRECISIONS, rate),
        utilisations=hardware.utilisations,
        chosen_by=chosen_by,
        job_limits=limits,
    )
