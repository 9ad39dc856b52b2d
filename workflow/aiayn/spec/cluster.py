"""Reads a YAML file of workflow/config/clusters/ as a ClusterSpec. The key `cluster` of a scale's
config selects the file.

The choice of cluster does not change what a training computes: an update has the same sentences on
any number of ranks (training processes, see `aiayn.train.task`).
"""

import re
from pathlib import Path
from typing import Annotated, Literal

import msgspec

from aiayn.spec.strict_yaml import convert, read_document
from aiayn.spec.system import CONFIG_FOLDER
from aiayn.spec.training import Count, Spec

# Options that `sbatch_lines` must not set. The first decide the job's identity, logs and requeue.
# Then come options with their own key in ClusterSpec. The last change the job's folder, the output
# of sbatch (which submitit parses), or the cluster (squeue and scancel would ask a different one).
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
# Nothing parses the output of srun, so srun may be quiet or wait. The launcher sets
# kill-on-bad-exit itself, and submitit sets unbuffered.
_NO_SRUN_OPTIONS = (_NO_SBATCH_LINES - {"quiet", "wait"}) | {"kill-on-bad-exit", "unbuffered"}
# An option's long name, such as `mail-type`. `--mail-type` and `mail-type=END` do not match.
_LONG_NAME = re.compile(r"[A-Za-z][\w-]*", re.ASCII)


# For the threads of a rank (main, autograd, pin-memory) and its two data loaders. Used if sinfo
# does not tell how many CPUs a node has.
CPUS_PER_RANK = 4


class ClusterSpec(Spec, frozen=True, kw_only=True):
    """The nodes that a training requests from Slurm, and how its job runs there. A key with the
    value null is left to Slurm's own default.

    - A training has as many ranks (processes) as nodes times ranks per node (`num_nodes` x
      `ranks_per_node`). Without GPUs (`gpus_per_node` is 0), the ranks use CPUs and the backend
      gloo. With GPUs, each rank has its own GPU.
    - The key `gpu_request` selects Slurm's option that requests the GPUs. Its value `none` requests
      no GPUs, for a cluster that gives whole nodes and does not count GPUs.
    - With `cpus_per_rank: node`, each rank gets an equal share of its node's CPUs (as sinfo counts
      them). With `memory_gb_per_node: all`, the job requests all memory of each node.
    - Slurm sends the job a signal to save a checkpoint `signal_seconds` seconds before the time
      limit. The next job continues the training. A training has at most `max_num_jobs` jobs.
    - The list `prologue` has lines of bash that run before Python (for modules or a container's
      variables). A line of bash that fails ends the job (`aiayn.launch.slurm.prologue`).
    - The mapping `sbatch_lines` has further options of sbatch by their long names, without leading
      dashes. An option that takes no value is written with the value ''. The mapping `srun_options`
      has further options of the srun command that starts the ranks, such as pyxis's
      `container-image`.
    - The key `python` is the command that starts Python in each rank, such as `apptainer exec --nv
      IMAGE python3`. If the command is null, each rank uses the same Python interpreter as the
      driver (the process that submits the job).
    - While it waits for its job, the driver process asks for the job's state every `poll_seconds`.
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
        """The number of a training's ranks (processes), summed over its nodes."""
        return self.num_nodes * self.ranks_per_node

    @property
    def threads_per_rank(self) -> int:
        """The number of CPUs for each rank (training process)."""
        # `aiayn.launch.slurm.nodes` replaces `node` by a number before a job is submitted. Until
        # then, and in a prediction without Slurm, this default counts.
        return CPUS_PER_RANK if self.cpus_per_rank == "node" else self.cpus_per_rank


def read_cluster(name: str, config_folder: Path = CONFIG_FOLDER) -> ClusterSpec:
    """Read the YAML file of a cluster.

    Raises:
        ConfigError: if a key or value is wrong (with file and line), or if the file is absent (with
            a list of the existing clusters).
    """
    path = config_folder / "clusters" / f"{name}.yaml"
    document = read_document(path)
    spec = convert(document, ClusterSpec)

    def check(key: str, is_right: bool, expected: str) -> None:
        document.require(key, is_right, getattr(spec, key), expected)

    # A copied file in which the name was not changed would otherwise be reported as the original.
    check("name", spec.name == path.stem, f"{path.stem!r}, the name of the file")
    check(
        "gpus_per_node",
        spec.gpus_per_node in (0, spec.ranks_per_node),
        "0, or ranks_per_node: a GPU for each rank",
    )
    check(
        # Without GPUs, the launcher would ignore their type.
        "gpu_type",
        spec.gpu_type is None or spec.gpus_per_node > 0,
        "null, as gpus_per_node is 0",
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
    # Otherwise Slurm would send the signal as soon as the job starts.
    is_within_limit = 0 < spec.signal_seconds < 60 * spec.time_limit_minutes
    check(
        "signal_seconds",
        is_within_limit,
        f"above 0 and below the time limit, {60 * spec.time_limit_minutes}",
    )
    return spec
