"""Finds trainings that cannot run on a machine, or that need more Slurm jobs than the config file
of the cluster allows.
"""

import math

import msgspec

from aiayn.errors import ConfigError
from aiayn.plan.machine import Machine
from aiayn.spec.cluster import ClusterSpec
from aiayn.spec.system import SystemSpec
from aiayn.train.fairseq_args import refuse_untrainable


class SlurmJobs(msgspec.Struct, frozen=True):
    """The number of Slurm jobs that a training needs, also in words. `advice` says what to change
    if the cluster's config file allows fewer jobs, and is '' if it allows enough.
    """

    number: int
    words: str
    advice: str


def why_unsupported(system: SystemSpec, machine: Machine) -> str:
    """Return why `aiayn train` would refuse to train a system on this machine, as `REASON; NEXT
    STEP`. Return '' if the system can be trained.
    """
    training = system.training
    # The first test is without ranks. Its errors are in the system's own settings, on any machine.
    try:
        refuse_untrainable(system.name, training)
    except ConfigError as error:
        return str(error)
    # The second test is with the machine's ranks. Its next step differs: the machine must be
    # changed. The ranks of an update must all get the same number of batches, or share one batch.
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
    """Return the path of the config file of a cluster, for messages."""
    return f"workflow/config/clusters/{cluster.name}.yaml"


def count_jobs(cluster: ClusterSpec, system: str, hours: float) -> SlurmJobs:
    """Return how many Slurm jobs, one after the other, are needed to train a system for this number
    of hours.

    The time to start each job and to save its checkpoint is not counted.
    """
    # A job saves and ends when Slurm sends its signal, `signal_seconds` before the time limit.
    minutes = cluster.time_limit_minutes - cluster.signal_seconds / 60
    number = max(1, math.ceil(60 * hours / minutes))
    in_words = f"{hours:,.1f}" if hours < 1000 else f"{hours:,.0f}"
    words = (
        f"{system}: {in_words} hours, jobs of {minutes:,g} minutes (time_limit_minutes less"
        f" signal_seconds) needed: {number:,}, allowed: {cluster.max_num_jobs}"
    )
    advice = ""
    if number > cluster.max_num_jobs:
        advice = f"raise max_num_jobs or time_limit_minutes in {cluster_file(cluster)}"
    return SlurmJobs(number, words, advice)
