"""Turns a file of workflow/config/clusters/, chosen by the scale's `cluster`, into a ClusterSpec.

A cluster does not affect the tensors: an update has the same sentences on any number of ranks
(`aiayn.train.task`).
"""

import re
from pathlib import Path
from typing import Annotated, Literal

import msgspec

from aiayn.spec.strict_yaml import convert, read_document
from aiayn.spec.system import CONFIG_FOLDER
from aiayn.spec.training import Count, Spec

# Options that `sbatch_lines` must not set: the run's identity and the settings of a requeue,
# options with their own key, options that change the answer of sbatch, which submitit reads, and
# another cluster, which squeue and scancel would not know.
_NO_SBATCH_LINES = frozenset(
    {
        "array",
        "dependency",
        "error",
        "export",
        "job-name",
        "no-requeue",
        "open-mode",
        "output",
        "requeue",
        "signal",
        "account",
        "constraint",
        "cpus-per-task",
        "gpus",
        "gpus-per-node",
        "gpus-per-task",
        "gres",
        "mem",
        "nodes",
        "ntasks",
        "ntasks-per-node",
        "partition",
        "qos",
        "time",
        "chdir",
        "clusters",
        "parsable",
        "quiet",
        "test-only",
        "wait",
    }
)
# srun may be quiet, or wait. The launcher sets two options itself.
_NO_SRUN_OPTIONS = (_NO_SBATCH_LINES - {"quiet", "wait"}) | {"kill-on-bad-exit", "unbuffered"}
_LONG_NAME = re.compile(r"[A-Za-z][\w-]*", re.ASCII)


# A rank's main, autograd and pin-memory threads, and its two data loaders. Where sinfo is silent.
CPUS_PER_RANK = 4


class ClusterSpec(Spec, frozen=True, kw_only=True):
    """The nodes that a training requests from Slurm. Null means Slurm's own default.

    - A training has `num_nodes` x `ranks_per_node` ranks. With `gpus_per_node` of 0 they reduce by
      gloo on CPUs; otherwise each rank has its own GPU.
    - `gpu_request` is the option that requests the GPUs. `none` requests no GPUs, for a cluster
      that gives whole nodes and does not count GPUs.
    - `cpus_per_rank: node` shares the node's CPUs among its ranks, as sinfo counts them.
      `memory_gb_per_node: all` requests all memory of the node.
    - `signal_seconds` before the time limit, Slurm signals the job to save. The next job continues,
      up to `max_num_jobs` jobs.
    - `prologue` has lines of bash that run before Python (modules, a container's variables). A line
      that fails ends the job (`aiayn.launch.slurm.prologue`).
    - `sbatch_lines` has further options of sbatch by their long names, without leading dashes; ''
      is an option without a value. `srun_options` has further options of the srun that starts the
      ranks, such as pyxis's `container-image`.
    - `python` is the command that starts Python in each rank, such as `apptainer exec --nv IMAGE
      python3`; null means the driver's own interpreter.
    - `poll_seconds` is the interval at which a waiting driver asks for its job's state.
    """

    name: str
    description: str
    partition: str | None
    account: str | None
    qos: str | None
    constraint: str | None
    gpu_type: str | None
    num_nodes: Count
    gpus_per_node: int
    ranks_per_node: Count
    gpu_request: Literal["gpus-per-node", "gres", "none"] = "gpus-per-node"
    cpus_per_rank: Count | Literal["node"]
    memory_gb_per_node: Count | Literal["all"] | None
    time_limit_minutes: Count
    signal_seconds: int
    max_num_jobs: Count
    prologue: list[str]
    sbatch_lines: dict[str, str]
    srun_options: dict[str, str] = msgspec.field(default_factory=dict)
    python: str | None = None
    poll_seconds: Annotated[float, msgspec.Meta(gt=0)]

    @property
    def num_ranks(self) -> int:
        """The number of ranks of a training, summed over its nodes."""
        return self.num_nodes * self.ranks_per_node

    @property
    def threads_per_rank(self) -> int:
        """The number of CPUs of a rank."""
        return CPUS_PER_RANK if self.cpus_per_rank == "node" else self.cpus_per_rank


def read_cluster(name: str, config_folder: Path = CONFIG_FOLDER) -> ClusterSpec:
    """Read a cluster's file.

    Raises:
        ConfigError: if a key or value is wrong (with file and line), or if the file is absent (with
            a list of the existing files).
    """
    path = config_folder / "clusters" / f"{name}.yaml"
    document = read_document(path)
    spec = convert(document, ClusterSpec)

    def check(key: str, is_right: bool, expected: str) -> None:
        document.require(key, is_right, getattr(spec, key), expected)

    check("name", spec.name == path.stem, f"{path.stem!r}, the name of the file")
    check(
        "gpus_per_node",
        spec.gpus_per_node in (0, spec.ranks_per_node),
        "0, or ranks_per_node: a GPU for each rank",
    )
    check(
        "gpu_type", spec.gpu_type is None or spec.gpus_per_node > 0, "null, as gpus_per_node is 0"
    )
    # An option that we set ourselves would be given twice.
    for key, ours in (("sbatch_lines", _NO_SBATCH_LINES), ("srun_options", _NO_SRUN_OPTIONS)):
        for option in getattr(spec, key):
            name = option.replace("_", "-")  # Slurm understands an abbreviation, too
            is_further = _LONG_NAME.fullmatch(option) is not None and not any(
                our.startswith(name) for our in ours
            )
            expected = f"long names without dashes that no key and no launcher sets, not {option!r}"
            check(key, is_further, expected)
    # A value becomes a line of the batch file. A second line would be a command.
    for key, value in msgspec.structs.asdict(spec).items():
        parts = value if isinstance(value, list) else [value]
        if isinstance(value, dict):
            parts = [*value, *value.values()]
        is_line = not any("\n" in str(part) for part in parts)
        check(key, is_line, "a value on a single line")
    is_command = spec.python is None or spec.python.strip() != ""
    check(
        "python",
        is_command,
        "null, or a command on a single line, which Python's own arguments can follow",
    )
    is_within_limit = 0 < spec.signal_seconds < 60 * spec.time_limit_minutes
    check(
        "signal_seconds",
        is_within_limit,
        f"above 0 and below the time limit, {60 * spec.time_limit_minutes}",
    )
    return spec
