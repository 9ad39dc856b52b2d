"""On what a plan's trainings run: GPUs of hardware.yaml as the cluster's file says, or CPU cores."""

import msgspec

from aiayn.errors import UsageError
from aiayn.hardware import NUM_PAPER_GPUS, PAPER_GPU, HardwareSpec, SourcedValue
from aiayn.launch.cluster_spec import ClusterSpec
from aiayn.machine import cpu_flops_per_second_per_core, gpu_names

LAUNCHERS = ("slurm", "local")


class Machine(msgspec.Struct, frozen=True, kw_only=True):
    """What one training has: `num_devices` GPUs, or CPU cores where `gpu` is ''; money and watts are of one of them.

    `chosen_by` says why these. Operations are single precision, as sustained by large products of matrices.
    """

    gpu: str
    num_devices: int
    num_ranks: int
    num_nodes: int
    flops_per_second: SourcedValue
    dollars_per_hour: SourcedValue | None
    watts: SourcedValue | None
    chosen_by: str

    @property
    def words(self) -> str:
        """The machine of one training, as a person says it."""
        return f"{self.num_devices} {self.gpu or 'CPU core(s)'}"


def choose_machine(
    cluster: ClusterSpec, hardware: HardwareSpec, *, launcher: str | None, gpu: str | None, num_gpus: int | None
) -> Machine:
    """Return what each training runs on.

    Without `gpu` the cluster's `gpu_type` counts, then the paper's own; of the local launcher, this machine's. Without
    a launcher it is slurm for a cluster with GPUs, else local.

    Raises:
        UsageError: if hardware.yaml does not know the GPU.
    """
    launcher = launcher or ("slurm" if cluster.gpus_per_node or gpu else "local")
    if launcher == "local" and gpu is None:
        names = gpu_names()
        if names:
            return _gpus(names[0], num_gpus or 1, 1, hardware, "the first GPU of this machine")
        return _cores(1, 1, 1, "one core of this machine, as the local launcher takes by default")
    if cluster.gpus_per_node == 0 and gpu is None:
        cores = cluster.num_ranks * cluster.cpus_per_rank
        source = f"cluster {cluster.name}: {cluster.num_ranks} ranks x {cluster.cpus_per_rank} core(s), no GPUs"
        return _cores(cores, cluster.num_ranks, cluster.num_nodes, source)
    num_gpus = num_gpus or cluster.num_nodes * cluster.gpus_per_node or NUM_PAPER_GPUS
    if gpu is not None:
        return _gpus(gpu, num_gpus, cluster.num_nodes, hardware, "as asked for")
    if cluster.gpu_type is not None:
        return _gpus(cluster.gpu_type, num_gpus, cluster.num_nodes, hardware, f"gpu_type of cluster {cluster.name}")
    source = f"cluster {cluster.name} names no gpu_type: the paper's own (section 5.2); --gpu names yours"
    return _gpus(PAPER_GPU, num_gpus, cluster.num_nodes, hardware, source)


def _gpus(name: str, num_gpus: int, num_nodes: int, hardware: HardwareSpec, chosen_by: str) -> Machine:
    key = hardware.find_name(name)
    if key is None:
        known = ", ".join(hardware.gpu_by_name)
        raise UsageError(f"GPU {name!r} ({chosen_by}): config/hardware.yaml has {known}; name one, or add yours there")
    spec = hardware.gpu_by_name[key]
    return Machine(
        gpu=key,
        num_devices=num_gpus,
        num_ranks=num_gpus,
        num_nodes=num_nodes,
        flops_per_second=spec.sustained_flops_per_second,
        dollars_per_hour=spec.dollars_per_hour,
        watts=spec.watts,
        chosen_by=chosen_by,
    )


def _cores(num_cores: int, num_ranks: int, num_nodes: int, chosen_by: str) -> Machine:
    rate = SourcedValue(
        value=cpu_flops_per_second_per_core(), kind="assumption", source="a core of this machine, measured just now"
    )
    return Machine(
        gpu="",
        num_devices=num_cores,
        num_ranks=num_ranks,
        num_nodes=num_nodes,
        flops_per_second=rate,
        dollars_per_hour=None,
        watts=None,
        chosen_by=chosen_by,
    )
