"""Says why a training could not be trained on a machine, or not within its cluster's jobs."""

import math

from aiayn.errors import ConfigError
from aiayn.plan.machine import Machine
from aiayn.spec.cluster import ClusterSpec
from aiayn.spec.system import SystemSpec
from aiayn.train.fairseq_args import refuse_untrainable


def why_unsupported(system: SystemSpec, machine: Machine) -> str:
    """Return why `aiayn train` would refuse a system on a machine, with the next step after a
    semicolon; '' if not.
    """
    training = system.training
    try:
        refuse_untrainable(system.name, training)
    except ConfigError as error:
        return str(error)
    try:
        refuse_untrainable(system.name, training, num_ranks=machine.num_ranks)
    except ConfigError:
        advice = "give --num-gpus, and snakemake's `--set-resources train:num_ranks=N`,"
        if machine.cluster is not None:
            keys = "gpus_per_node and ranks_per_node" if machine.gpu else "ranks_per_node"
            advice = f"set {keys} in {cluster_file(machine.cluster)} so that all ranks are"
        return (
            f"{system.name}: batches_per_update {training.batches_per_update} cannot be shared by"
            f" {machine.num_ranks} ranks; {advice} a divisor or a multiple of"
            f" {training.batches_per_update}"
        )
    return ""


def cluster_file(cluster: ClusterSpec) -> str:
    """Return the file that describes a cluster, to be shown."""
    return f"workflow/config/clusters/{cluster.name}.yaml"


def training_minutes(cluster: ClusterSpec) -> float:
    """Return how long a job trains before it saves and ends; the next job continues."""
    return cluster.time_limit_minutes - cluster.signal_seconds / 60


def count_jobs(cluster: ClusterSpec, hours: float) -> int:
    """Return how many jobs, one after the other, train for so long; starting and saving are not
    counted.
    """
    return max(1, math.ceil(60 * hours / training_minutes(cluster)))


def exceeded_limit(cluster: ClusterSpec, system: str, hours: float) -> str:
    """Return why a training needs more jobs than its cluster's file allows; '' if it does not."""
    num_jobs = count_jobs(cluster, hours)
    if num_jobs <= cluster.max_num_jobs:
        return ""
    in_words = f"{hours:,.1f}" if hours < 1000 else f"{hours:,.0f}"
    return (
        f"{system}: {in_words} hours are {num_jobs:,} jobs of"
        f" {training_minutes(cluster):,g} minutes (time_limit_minutes less signal_seconds),"
        f" {cluster.max_num_jobs} are allowed; raise max_num_jobs or time_limit_minutes in"
        f" {cluster_file(cluster)}"
    )
