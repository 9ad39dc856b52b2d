"""Describes the machine of a training, GPUs of hardware.yaml or CPU cores: this one, or so many of
a kind.
"""

import math
import os

import msgspec

from aiayn.errors import UsageError
from aiayn.machine import cpu_flops_per_second_per_core, gpu_names
from aiayn.spec.hardware import (
    CPU,
    CPU_PRECISIONS,
    HardwareSpec,
    SourcedValue,
    UtilisationSpec,
    find_utilisation,
    precision_refusal,
)
from aiayn.spec.training import PRECISIONS, Precision, TrainingSpec

UNKNOWN_GPU_FLOPS_PER_SECOND = (
    1.0e13  # assumption: at least so fast is a GPU that hardware.yaml does not know
)


class JobLimits(msgspec.Struct, frozen=True, kw_only=True):
    """The jobs of one training on a cluster, as its cluster's file says: each of `minutes`,
    `max_num_jobs` in all.

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
        """Return how many jobs, one after the other, train for so long; starting and saving are not
        counted.
        """
        return max(1, math.ceil(60 * hours / self.training_minutes))


class Machine(msgspec.Struct, frozen=True, kw_only=True):
    """What one training has: `num_devices` GPUs, or CPU cores where `gpu` is ''; money and watts
    are of one of them.

    `chosen_by` says why these. `rate_by_precision` has the precisions that the devices have, each
    with the operations a second of one of them. `job_limits` are None where no cluster runs the
    trainings.
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
        return f"{self.num_devices} {self.gpu or ('CPU core' if self.num_devices == 1 else 'CPU cores')}"  # noqa: E501

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
        return precision_refusal(
            precision, f"a {self.gpu}" if self.gpu else CPU, self.rate_by_precision
        )

    def utilisation_of(self, training: TrainingSpec) -> UtilisationSpec:
        """Return what share of the rate a training of this width and precision is taken to reach.

        Of CPUs nothing is known: fp32's share stands for either precision.
        """
        return find_utilisation(
            self.utilisations, training.precision if self.gpu else "fp32", training.d_model
        )


def machine_of_gpus(
    name: str,
    place: str,
    num_gpus: int,
    num_nodes: int,
    hardware: HardwareSpec,
    chosen_by: str,
    limits: JobLimits | None = None,
) -> Machine:
    """Return so many GPUs, found by a product's name that came from `place`.

    Raises:
        UsageError: if hardware.yaml does not know the GPU.
    """
    key = hardware.find_name(name)
    if key is None:
        known = ", ".join(hardware.gpu_by_name)
        raise UsageError(
            f"GPU {name!r} ({place}): config/hardware.yaml has {known}; name one, or add yours"
            " there"
        )
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


def machine_here(
    hardware: HardwareSpec, num_ranks: int, threads_per_rank: int, *, uses_gpus: bool = True
) -> Machine:
    """Return what so many ranks of a training have on this machine; a GPU that is not known is
    taken to be slow.
    """
    names = gpu_names() if uses_gpus else []
    if not names:
        num_cores = min(num_ranks * threads_per_rank, os.cpu_count() or 1)
        return machine_of_cores(num_cores, num_ranks, 1, hardware, "this machine")
    unknown = SourcedValue(
        value=UNKNOWN_GPU_FLOPS_PER_SECOND, kind="assumption", source="not in hardware.yaml"
    )
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
    num_cores: int,
    num_ranks: int,
    num_nodes: int,
    hardware: HardwareSpec,
    chosen_by: str,
    limits: JobLimits | None = None,
) -> Machine:
    """Return so many cores, each as fast as one of this machine; in bf16 taken to be as in fp32,
    which is not known.
    """
    rate = SourcedValue(
        value=cpu_flops_per_second_per_core(),
        kind="assumption",
        source="a core of this machine, measured just now",
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
