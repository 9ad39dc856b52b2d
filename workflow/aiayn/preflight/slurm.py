"""Has Slurm what the cluster's file asks for? Said by sinfo, scontrol and sacctmgr, before a job waits for ever.

Nothing is submitted. Accounting that does not answer is not known, and no fault.
"""

import getpass
import re
import shutil
import subprocess
from collections import Counter
from collections.abc import Sequence

import msgspec

from aiayn.launch.cluster_spec import ClusterSpec
from aiayn.preflight.checks import Check, doubtful, failed, passed

COMMANDS = ("sbatch", "srun", "squeue", "scancel", "scontrol", "sinfo")
TIMEOUT_SECONDS = 20.0
UNUSABLE_STATES = ("down", "drain", "fail", "maint", "unk", "power", "reboot", "inval", "block", "future")
# Snakemake's executor looks at its jobs up to so many seconds apart: one that squeue forgets between two looks is never
# seen to end, and Snakemake waits for ever.
SECONDS_BETWEEN_LOOKS = 180
_FORMAT = "%N|%P|%a|%l|%c|%m|%G|%f|%T"
_GPU = re.compile(r"gpu(?::(?P<type>[A-Za-z][^:(,]*))?:(?P<number>\d+)")
_MIN_JOB_AGE = re.compile(r"^MinJobAge\s*=\s*(?P<seconds>\d+)", re.MULTILINE)
_TIME = re.compile(r"(?:(?P<days>\d+)-)?(?P<parts>\d+(?::\d+){0,2})")


class SlurmNode(msgspec.Struct, frozen=True, kw_only=True):
    """A node in a partition, as sinfo shows it; `limit_minutes` is None for no limit."""

    name: str
    partition: str
    is_default: bool
    is_up: bool
    limit_minutes: float | None
    num_cpus: int
    memory_mb: int
    num_gpus_by_type: dict[str, int]
    features: list[str]
    state: str

    @property
    def is_usable(self) -> bool:
        """Whether a job could run on it now or later without anybody's doing anything."""
        return not self.state.startswith(UNUSABLE_STATES)


def check_slurm(cluster: ClusterSpec) -> list[Check]:
    """Return what is known of the cluster that its file describes."""
    missing = [command for command in COMMANDS if shutil.which(command) is None]
    if missing:
        advice = "start from a machine of the cluster that has Slurm's commands, or choose `--launcher local`"
        return [failed("slurm", f"not on PATH: {', '.join(missing)}", advice)]
    nodes = list_nodes()
    if nodes is None:
        return [failed("slurm", "sinfo does not answer", "ask again when `sinfo` does, or ask the administrator")]
    partition = _partition_of(cluster, nodes)
    in_partition = [node for node in nodes if node.partition == partition]
    if not in_partition:
        known = ", ".join(sorted({node.partition for node in nodes})) or "none"
        wanted = f"partition {cluster.partition!r}" if cluster.partition else "a default partition"
        advice = f"name one of {known} in the cluster's file (partition)"
        return [failed("partition", f"{wanted}: there is none; sinfo shows {known}", advice)]
    return [
        *_check_partition(cluster, in_partition),
        _check_nodes(cluster, in_partition),
        _check_account(cluster),
        _check_min_job_age(),
    ]


def list_nodes() -> list[SlurmNode] | None:
    """Return every node of every partition, None if sinfo does not answer."""
    answer = _ask(["sinfo", "--noheader", "--Node", f"--format={_FORMAT}"])
    if answer is None:
        return None
    nodes = []
    for line in answer.splitlines():
        fields = [field.strip() for field in line.split("|")]
        if len(fields) != 1 + _FORMAT.count("|"):
            return None  # half an answer is none
        name, partition, is_up, limit, cpus, memory, gres, features, state = fields
        nodes.append(
            SlurmNode(
                name=name,
                partition=partition.rstrip("*"),
                is_default=partition.endswith("*"),
                is_up=is_up == "up",
                limit_minutes=read_minutes(limit),
                num_cpus=int(re.sub(r"\D", "", cpus) or 0),
                memory_mb=int(re.sub(r"\D", "", memory) or 0),
                num_gpus_by_type=read_gpus(gres),
                features=features.split(","),
                state=state.lower(),
            )
        )
    return nodes


def read_minutes(limit: str) -> float | None:
    """Return Slurm's `1-02:03:04`, `02:03:04`, `03:04` (minutes and seconds) in minutes; None for no limit."""
    found = _TIME.fullmatch(limit)
    if found is None:
        return None
    parts = [int(part) for part in found["parts"].split(":")]
    if found["days"] is not None:  # days-hours[:minutes[:seconds]]
        hours, minutes, seconds = [*parts, 0, 0][:3]
    else:  # [hours:]minutes:seconds, or minutes alone
        hours, minutes, seconds = [0, *parts, 0] if len(parts) == 1 else [0] * (3 - len(parts)) + parts
    return int(found["days"] or 0) * 1440 + hours * 60 + minutes + seconds / 60


def read_gpus(gres: str) -> dict[str, int]:
    """Return the number of GPUs by type of `gpu:h100:8(S:0-1),...`; '' is the type of those that have none."""
    number_by_type: Counter[str] = Counter()
    for found in _GPU.finditer(gres):
        number_by_type[found["type"] or ""] += int(found["number"])
    return dict(number_by_type)


def _partition_of(cluster: ClusterSpec, nodes: Sequence[SlurmNode]) -> str | None:
    return cluster.partition or next((node.partition for node in nodes if node.is_default), None)


def _check_partition(cluster: ClusterSpec, nodes: Sequence[SlurmNode]) -> list[Check]:
    first = nodes[0]
    limit = "no limit" if first.limit_minutes is None else f"limit {first.limit_minutes:,.0f} minutes"
    evidence = f"{first.partition}: {'up' if first.is_up else 'not up'}, {limit}, {len(nodes)} nodes"
    if not first.is_up:
        return [failed("partition", evidence, "name another in the cluster's file (partition), or ask when it is up")]
    if first.limit_minutes is not None and cluster.time_limit_minutes > first.limit_minutes:
        advice = f"set time_limit_minutes to {first.limit_minutes:.0f} or less: trainings go on in the next job"
        return [failed("partition", f"{evidence}, below time_limit_minutes {cluster.time_limit_minutes}", advice)]
    return [passed("partition", evidence)]


def _check_nodes(cluster: ClusterSpec, nodes: Sequence[SlurmNode]) -> Check:
    """Count the nodes that have all that one node of a training needs."""
    needs = f"{cluster.gpus_per_node} {cluster.gpu_type or ''} GPUs".replace("  ", " ")
    needs += f", {cluster.ranks_per_node * cluster.cpus_per_rank} CPUs"
    needs += f", {cluster.memory_gb_per_node} GB" if cluster.memory_gb_per_node else ""
    needs += f", {cluster.constraint}" if cluster.constraint else ""
    reasons: Counter[str] = Counter()
    num_fit = 0
    for node in nodes:
        reason = _reason_against(cluster, node)
        reasons[reason] += bool(reason)
        num_fit += not reason
    listed = "; ".join(f"{number} {reason}" for reason, number in reasons.items() if reason)
    evidence = f"{num_fit} of {len(nodes)} nodes have {needs}, {cluster.num_nodes} needed a training"
    evidence += f" ({listed})" if listed else ""
    if num_fit < cluster.num_nodes:
        advice = "ask for less in the cluster's file (gpus_per_node, cpus_per_rank, ...), or name another partition"
        return failed("nodes", evidence, advice)
    return passed("nodes", evidence)


def _reason_against(cluster: ClusterSpec, node: SlurmNode) -> str:
    """Return why a node is of no use to a training, '' if it is."""
    gpu_type = (cluster.gpu_type or "").lower()
    numbers = [n for kind, n in node.num_gpus_by_type.items() if not gpu_type or kind.lower() == gpu_type]
    num_cpus = cluster.ranks_per_node * cluster.cpus_per_rank
    is_word = cluster.constraint is not None and re.fullmatch(r"\w+", cluster.constraint) is not None
    if not node.is_usable:
        return f"is {node.state}"
    if sum(numbers) < cluster.gpus_per_node:
        return f"with {sum(numbers)} such GPUs"
    if node.num_cpus < num_cpus:
        return f"with {node.num_cpus} CPUs"
    if node.memory_mb < 1000 * (cluster.memory_gb_per_node or 0):
        return f"with {node.memory_mb} MB"
    if is_word and cluster.constraint not in node.features:  # expressions are Slurm's to judge
        return f"without feature {cluster.constraint}"
    return ""


def _check_account(cluster: ClusterSpec) -> Check:
    """Compare account and QoS with this user's associations, where accounting answers."""
    asked = [(key, value) for key, value in (("account", cluster.account), ("qos", cluster.qos)) if value is not None]
    command = ["sacctmgr", "--noheader", "--parsable2", "show", "associations", f"user={getpass.getuser()}"]
    answer = _ask([*command, "format=account,qos"]) if shutil.which("sacctmgr") else None
    lines = [line.split("|") for line in answer.splitlines() if line.count("|") == 1] if answer is not None else []
    known = {"account": {line[0] for line in lines}, "qos": {name for line in lines for name in line[1].split(",")}}
    words = ", ".join(f"{key} {value}" for key, value in asked) or "Slurm's defaults for account and QoS"
    if answer is None or not lines:
        evidence = f"{words}: not known, accounting {'does not answer' if answer is None else 'lists none for you'}"
        return (
            doubtful("account", evidence, "ask the administrator, or submit one job")
            if asked
            else passed("account", evidence)
        )
    wrong = [(key, value) for key, value in asked if value not in known[key]]
    if wrong:
        key, value = wrong[0]
        advice = f"name one of {', '.join(sorted(known[key]))} in the cluster's file ({key})"
        return failed("account", f"{key} {value!r} is not among yours", advice)
    return passed("account", words)


def _check_min_job_age() -> Check:
    """Say whether squeue shows an ended job long enough to be seen; Slurm's default is 300 s, and 0 is for ever."""
    found = _MIN_JOB_AGE.search(_ask(["scontrol", "show", "config"]) or "")
    if found is None:
        advice = f"ask the administrator whether it is {SECONDS_BETWEEN_LOOKS} s or more"
        return doubtful("MinJobAge", "not known, `scontrol show config` does not tell", advice)
    seconds = int(found["seconds"])
    evidence = f"squeue shows an ended job {f'for {seconds} s' if seconds else 'for ever'}"
    if 0 < seconds < SECONDS_BETWEEN_LOOKS:
        advice = "ask the administrator for MinJobAge=300; until then run CPU rules on this machine: `--executor local`"
        evidence += f", below the {SECONDS_BETWEEN_LOOKS} s between two looks: Snakemake would wait for ever"
        return failed("MinJobAge", evidence, advice)
    return passed("MinJobAge", evidence)


def _ask(command: Sequence[str]) -> str | None:
    try:
        answer = subprocess.run(
            command, capture_output=True, text=True, errors="replace", check=False, timeout=TIMEOUT_SECONDS,
            stdin=subprocess.DEVNULL,
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired):
        return None
    return answer.stdout if answer.returncode == 0 else None
