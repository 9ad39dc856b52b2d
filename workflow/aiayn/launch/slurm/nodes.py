"""Compares the file of a cluster with Slurm: finds the number of CPUs of the nodes, and finds the
key of the file that caused a refusal by sbatch.
"""

import re
from pathlib import Path

import msgspec

from aiayn.errors import ConfigError
from aiayn.launch.slurm.queue import SlurmError, run_slurm
from aiayn.spec.cluster import ClusterSpec
from aiayn.spec.strict_yaml import read_document
from aiayn.spec.system import CHECKOUT, CONFIG_FOLDER

# Each entry has a pattern for the message of sbatch, the keys of a cluster's file that it is about,
# and advice. The first match counts: `Invalid account or account/partition combination specified`
# is about both keys of the second entry.
_REFUSALS = (
    (
        r"generic resource|\bgres\b",
        ("gpu_request", "gpus_per_node", "gpu_type"),
        "gpu_request: gres asks for GPUs by --gres, and none leaves the request out, for nodes that"
        " are given whole",
    ),
    (
        r"account",
        ("account", "partition"),
        "name an account of `sacctmgr show associations user=$USER`",
    ),
    (r"partition", ("partition",), "name a partition that `sinfo -s` lists"),
    (r"\bqos\b", ("qos",), "name a QoS of `sacctmgr show associations user=$USER`"),
    (r"feature", ("constraint",), "name a feature that `sinfo -o '%P %f'` lists"),
    (r"time limit", ("time_limit_minutes",), "lower it to the limit that `sinfo -s` shows"),
    (r"memory", ("memory_gb_per_node",), "lower it, or write all for the whole node"),
    (r"cpu count", ("cpus_per_rank", "ranks_per_node"), "cpus_per_rank: node takes what is there"),
    (
        r"node (count|config)",
        (
            "num_nodes",
            "gpus_per_node",
            "gpu_type",
            "cpus_per_rank",
            "memory_gb_per_node",
            "constraint",
        ),
        "no node has all of them: compare with `sinfo --Node --format='%N %P %c %m %G %f'`",
    ),
)


def with_node_cpus(cluster: ClusterSpec) -> ClusterSpec:
    """Return the cluster after replacing `cpus_per_rank: node` by a number: the CPUs of the
    partition's smallest node, divided by the ranks of a node. If sinfo does not answer, the value
    `node` is kept.
    """
    if cluster.cpus_per_rank != "node":
        return cluster
    command = ["sinfo", "--noheader", "--format=%P|%c"]
    try:
        answer = run_slurm(command).stdout
    # A dry run also works on a machine without Slurm.
    except SlurmError:
        return cluster
    cpus = []
    for partition, _, count in (line.partition("|") for line in answer.splitlines()):
        # A line of sinfo: `gpu*|64+`. The default partition has a star. `64+` means that the nodes
        # have 64 CPUs or more.
        is_default = cluster.partition is None and partition.endswith("*")
        if is_default or partition.removesuffix("*") in (cluster.partition or "").split(","):
            cpus.append(int(count.strip().removesuffix("+")))
    if not cpus:
        return cluster
    # The smallest node decides, because Slurm may place the job on any of them.
    share = max(1, min(cpus) // cluster.ranks_per_node)
    return msgspec.structs.replace(cluster, cpus_per_rank=share)


def explain_refusal(reason: str, cluster: ClusterSpec, config_folder: Path = CONFIG_FOLDER) -> str:
    """Return the keys in the file of a cluster that may have caused an error message of sbatch,
    with their values and advice. Return '' if the message is not about a key.
    """
    matches = [line for line in _REFUSALS if re.search(line[0], reason, re.IGNORECASE)]
    if not matches:
        return ""
    _, keys, advice = matches[0]
    path = config_folder / "clusters" / f"{cluster.name}.yaml"
    try:
        document = read_document(path)
    # The file was removed or damaged after it had been read.
    except ConfigError:
        return advice
    requests = []
    given_keys = [key for key in keys if document.values.get(key) is not None]
    for key in given_keys or keys:
        value = document.values.get(key)
        # The path is relative to the checkout, because preflight prints it in a narrow column.
        location = document.location(key).removeprefix(f"{CHECKOUT}/")
        requests.append(f"{location}: {key}: {'null' if value is None else value}")
    return f"{'; '.join(requests)}; {advice}"
