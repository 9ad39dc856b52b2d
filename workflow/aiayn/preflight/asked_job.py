"""What one job asks Slurm for, be it a training (the cluster's file) or a CPU rule (the profile), in the same words."""

import msgspec

from aiayn.launch.cluster_spec import ClusterSpec

MB_PER_GB = 1024  # as Slurm reads `--mem=1GB`


class AskedJob(msgspec.Struct, frozen=True, kw_only=True):
    """A job's request; CPUs, memory and GPUs are of each of its nodes, None is a choice left to Slurm's defaults.

    `partitions` is empty for the default one. `place_by_subject` says where each of partition, account, qos,
    constraint, nodes, cpus, memory, gpus and minutes is changed.
    """

    name: str
    partitions: list[str]
    account: str | None
    qos: str | None
    constraint: str | None
    num_nodes: int
    num_cpus: int
    memory_mb: int | None
    num_gpus: int
    gpu_type: str | None
    minutes: float | None
    place_by_subject: dict[str, str]

    def num_by_tres(self) -> dict[str, float]:
        """Return what it takes of each resource that Slurm tracks, over all its nodes; memory in MB."""
        num_by_tres: dict[str, float] = {"node": self.num_nodes, "cpu": self.num_nodes * self.num_cpus}
        if self.memory_mb is not None:
            num_by_tres["mem"] = self.num_nodes * self.memory_mb
        if self.num_gpus:
            num_by_tres["gres/gpu"] = self.num_nodes * self.num_gpus
            if self.gpu_type:
                num_by_tres[f"gres/gpu:{self.gpu_type.lower()}"] = self.num_nodes * self.num_gpus
        return num_by_tres


def training_job(cluster: ClusterSpec) -> AskedJob:
    """Return what one training asks for."""
    key_by_subject = {
        "partition": "partition",
        "account": "account",
        "qos": "qos",
        "constraint": "constraint",
        "cpus": "cpus_per_rank",
        "memory": "memory_gb_per_node",
        "gpus": "gpus_per_node",
        "nodes": "num_nodes",
        "minutes": "time_limit_minutes",
    }
    return AskedJob(
        name="a training",
        partitions=cluster.partition.split(",") if cluster.partition else [],
        account=cluster.account,
        qos=cluster.qos,
        constraint=cluster.constraint,
        num_nodes=cluster.num_nodes,
        num_cpus=cluster.ranks_per_node * cluster.cpus_per_rank,
        memory_mb=MB_PER_GB * cluster.memory_gb_per_node if cluster.memory_gb_per_node else None,
        num_gpus=cluster.gpus_per_node,
        gpu_type=cluster.gpu_type,
        minutes=cluster.time_limit_minutes,
        place_by_subject={subject: f"the cluster's file ({key})" for subject, key in key_by_subject.items()},
    )
