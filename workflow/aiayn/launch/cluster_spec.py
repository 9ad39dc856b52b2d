"""What a Slurm cluster wants to be asked for: one file of workflow/config/clusters/, chosen by the scale's `cluster`.

Nothing here decides a tensor: an update is the same sentences on any number of ranks (`aiayn.engine.task`).
"""

from pathlib import Path

from aiayn.errors import ConfigError
from aiayn.spec import CONFIG_FOLDER
from aiayn.strict_yaml import convert, read_document
from aiayn.training_spec import Spec

_AT_LEAST_ONE = (
    "num_nodes", "ranks_per_node", "cpus_per_rank", "time_limit_minutes", "max_num_jobs", "memory_gb_per_node",
)  # fmt: skip
# What a further sbatch line must not say: the run's identity and what a requeue needs, or what has a key of its own.
_NO_SBATCH_LINES = frozenset(
    {
        *(
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
        ),
        *("account", "constraint", "cpus-per-task", "gpus", "gpus-per-node", "gpus-per-task", "gres", "mem", "nodes"),
        *("ntasks", "ntasks-per-node", "partition", "qos", "time"),
    }
)


class ClusterSpec(Spec, frozen=True, kw_only=True):
    """How a training asks Slurm for nodes; null leaves a choice to Slurm's own default.

    A training runs `num_nodes` x `ranks_per_node` ranks. With `gpus_per_node` of 0 they reduce by gloo on CPUs, else
    each rank has a GPU of its own. `signal_seconds` before the time limit the job is told to save, and goes on in the
    next one, `max_num_jobs` in all. `prologue` are shell lines before Python (modules, a container's variables);
    `sbatch_lines` are further options by their long names, without dashes in front, '' for one without a value.
    `poll_seconds` is how often a waiting driver
    asks for its job's state.
    """

    name: str
    description: str
    partition: str | None
    account: str | None
    qos: str | None
    constraint: str | None
    gpu_type: str | None
    num_nodes: int
    gpus_per_node: int
    ranks_per_node: int
    cpus_per_rank: int
    memory_gb_per_node: int | None
    time_limit_minutes: int
    signal_seconds: int
    max_num_jobs: int
    prologue: list[str]
    sbatch_lines: dict[str, str]
    poll_seconds: float

    @property
    def num_ranks(self) -> int:
        """The ranks of a training, over all its nodes."""
        return self.num_nodes * self.ranks_per_node


def cluster_path(name: str, config_folder: Path = CONFIG_FOLDER) -> Path:
    """Return the file of a cluster."""
    return config_folder / "clusters" / f"{name}.yaml"


def read_cluster(name: str, config_folder: Path = CONFIG_FOLDER) -> ClusterSpec:
    """Read a cluster's file.

    Raises:
        ConfigError: with file and line, if a key or value is wrong; without the file, naming those that there are.
    """
    path = cluster_path(name, config_folder)
    if not path.is_file():
        known = ", ".join(sorted(other.stem for other in path.parent.glob("*.yaml")))
        raise ConfigError(f"{path}: no such cluster; known: {known}; copy one of them to {path.name} and edit it")
    document = read_document(path)
    spec = convert(document, ClusterSpec)

    def check(key: str, is_right: bool, expected: str) -> None:
        if not is_right:
            raise ConfigError(f"{document.place(key)}: {key} is {getattr(spec, key)!r}; expected {expected}")

    check("name", spec.name == path.stem, f"{path.stem!r}, as the file is called")
    for key in _AT_LEAST_ONE:
        value = getattr(spec, key)
        check(key, value is None or value >= 1, "a whole number of 1 or more")
    check("gpus_per_node", spec.gpus_per_node in (0, spec.ranks_per_node), "0, or ranks_per_node: a GPU for each rank")
    check("gpu_type", spec.gpu_type is None or spec.gpus_per_node > 0, "null, as gpus_per_node is 0")
    for option in spec.sbatch_lines:
        is_ours = option.replace("_", "-") in _NO_SBATCH_LINES
        check("sbatch_lines", not is_ours and not option.startswith("-"), f"no {option!r}, which is not to be set here")
    check("poll_seconds", spec.poll_seconds > 0, "a number of seconds above 0")
    is_within_limit = 0 < spec.signal_seconds < 60 * spec.time_limit_minutes
    check("signal_seconds", is_within_limit, f"above 0 and below the time limit, {60 * spec.time_limit_minutes}")
    return spec
