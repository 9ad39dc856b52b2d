"""Has any node what a training or a CPU rule asks for? Partitions, their time limits and nodes, as sinfo shows them."""

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence

import msgspec

from aiayn.launch.cluster_spec import ClusterSpec
from aiayn.preflight.asked_job import AskedJob, training_job
from aiayn.preflight.checks import Check, failed, passed
from aiayn.preflight.slurm_answers import ask_table, read_gpus, read_minutes

UNUSABLE_STATES = ("down", "drain", "fail", "maint", "unk", "power", "reboot", "inval", "block", "future")
_FORMAT = "%N|%P|%a|%l|%c|%m|%G|%f|%T"


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

    def num_gpus(self, gpu_type: str | None) -> int:
        """Return how many GPUs of a type it has, or of any."""
        return sum(
            number for kind, number in self.num_gpus_by_type.items() if not gpu_type or kind.lower() == gpu_type.lower()
        )

    def allows(self, minutes: float | None) -> bool:
        """Return whether the partition takes a job of so many minutes."""
        return minutes is None or self.limit_minutes is None or minutes <= self.limit_minutes


def list_nodes() -> list[SlurmNode] | None:
    """Return every node of every partition, None if sinfo does not answer."""
    lines = ask_table(["sinfo", "--noheader", "--Node", f"--format={_FORMAT}"], 1 + _FORMAT.count("|"))
    if lines is None:
        return None
    nodes = []
    for name, partition, is_up, limit, cpus, memory, gres, features, state in lines:
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


def partitions_of(job: AskedJob, nodes: Sequence[SlurmNode]) -> list[str]:
    """Return the partitions in which a job may run: those that it names, else the default one, if there is one."""
    return job.partitions or list(dict.fromkeys(node.partition for node in nodes if node.is_default))


def check_training_nodes(cluster: ClusterSpec, nodes: Sequence[SlurmNode]) -> list[Check]:
    """Return the checks of a training's partition and nodes."""
    job = training_job(cluster)
    wanted = partitions_of(job, nodes)
    in_partition = [node for node in nodes if node.partition in wanted]
    if not in_partition:
        known = ", ".join(sorted({node.partition for node in nodes})) or "none"
        words = f"partition {cluster.partition!r}" if cluster.partition else "a default partition"
        advice = f"name one of {known} in the cluster's file (partition)"
        return [failed("partition", f"{words}: there is none; sinfo shows {known}", advice)]
    return [_check_partition(cluster, in_partition), _check_nodes(cluster, job, in_partition)]


def _check_partition(cluster: ClusterSpec, nodes: Sequence[SlurmNode]) -> Check:
    first = nodes[0]
    limit = "no limit" if first.limit_minutes is None else f"limit {first.limit_minutes:,.0f} minutes"
    evidence = f"{first.partition}: {'up' if first.is_up else 'not up'}, {limit}, {len(nodes)} nodes"
    if not first.is_up:
        return failed("partition", evidence, "name another in the cluster's file (partition), or ask when it is up")
    if first.limit_minutes is not None and cluster.time_limit_minutes > first.limit_minutes:
        advice = f"set time_limit_minutes to {first.limit_minutes:.0f} or less: trainings go on in the next job"
        return failed("partition", f"{evidence}, below time_limit_minutes {cluster.time_limit_minutes}", advice)
    return passed("partition", evidence)


def _check_nodes(cluster: ClusterSpec, job: AskedJob, nodes: Sequence[SlurmNode]) -> Check:
    """Count the nodes that have all that one node of a training needs."""
    needs = f"{cluster.gpus_per_node} {cluster.gpu_type or ''} GPUs".replace("  ", " ")
    needs += f", {job.num_cpus} CPUs"
    needs += f", {cluster.memory_gb_per_node} GB" if cluster.memory_gb_per_node else ""
    needs += f", {cluster.constraint}" if cluster.constraint else ""
    reasons: Counter[str] = Counter()
    num_fit = 0
    for node in nodes:
        reason = reason_against(job, node)
        reasons[reason] += bool(reason)
        num_fit += not reason
    listed = "; ".join(f"{number} {reason}" for reason, number in reasons.items() if reason)
    evidence = f"{num_fit} of {len(nodes)} nodes have {needs}, {cluster.num_nodes} needed a training"
    evidence += f" ({listed})" if listed else ""
    if num_fit < cluster.num_nodes:
        advice = "ask for less in the cluster's file (gpus_per_node, cpus_per_rank, ...), or name another partition"
        return failed("nodes", evidence, advice)
    return passed("nodes", evidence)


def reason_against(job: AskedJob, node: SlurmNode) -> str:
    """Return why a node is of no use to a job, '' if it is."""
    if not node.is_usable:
        return f"is {node.state}"
    if node.num_gpus(job.gpu_type) < job.num_gpus:
        return f"with {node.num_gpus(job.gpu_type)} such GPUs"
    if node.num_cpus < job.num_cpus:
        return f"with {node.num_cpus} CPUs"
    if node.memory_mb < (job.memory_mb or 0):
        return f"with {node.memory_mb} MB"
    if not _has_feature(job, node):
        return f"without feature {job.constraint}"
    return ""


def _has_feature(job: AskedJob, node: SlurmNode) -> bool:
    """Return whether a node has the one feature that is asked for; expressions are Slurm's to judge."""
    is_word = job.constraint is not None and re.fullmatch(r"\w+", job.constraint) is not None
    return not is_word or job.constraint in node.features


def check_rule_nodes(jobs: Sequence[AskedJob], nodes: Sequence[SlurmNode], profile: str) -> list[Check]:
    """Check that each CPU rule finds a partition and a node; rules that fail for one reason share a check."""
    names_by_fault: dict[tuple[str, str], list[str]] = defaultdict(list)
    for job in jobs:
        fault = _fault_of(job, nodes)
        if fault is not None:
            names_by_fault[fault].append(job.name)
    if names_by_fault:
        return [
            failed("CPU rules", f"{', '.join(names)}: {evidence}", advice)
            for (evidence, advice), names in names_by_fault.items()
        ]
    partitions = dict.fromkeys(name for job in jobs for name in partitions_of(job, nodes))
    memory_mb = max((job.memory_mb or 0 for job in jobs), default=0)
    minutes = max((job.minutes or 0 for job in jobs), default=0)
    most = f"up to {memory_mb} MB, {max((job.num_cpus for job in jobs), default=0)} CPUs, {minutes:,.0f} minutes"
    return [passed("CPU rules", f"{len(jobs)} of {profile} fit on {', '.join(partitions) or 'no partition'}: {most}")]


def _fault_of(job: AskedJob, nodes: Sequence[SlurmNode]) -> tuple[str, str] | None:
    """Return why no node can run a job, and what to do; None if one can."""
    known = {node.partition for node in nodes}
    wanted = partitions_of(job, nodes)
    absent = [name for name in wanted if name not in known]
    listed = ", ".join(sorted(known)) or "none"
    place = job.place_by_subject["partition"]
    if not wanted or absent:  # sbatch refuses a list with one unknown name
        words = f"partition {absent[0]!r}" if absent else "a default partition"
        return f"{words}: there is none; sinfo shows {listed}", f"name one of {listed} in {place}"
    up = [node for node in nodes if node.partition in wanted and node.is_up]
    named = ",".join(wanted)
    if not up:
        return f"partition {named} is not up", f"name another in {place}, or ask when it is up"
    in_time = [node for node in up if node.allows(job.minutes)]
    if not in_time:
        longest = max(node.limit_minutes or 0 for node in up)
        evidence = f"runtime is {job.minutes:,.0f} minutes, partition {named} allows {longest:,.0f}"
        return (
            evidence,
            f"set {longest:.0f} or less in {job.place_by_subject['minutes']}, or another partition: {place}",
        )
    usable = [node for node in in_time if node.is_usable]
    if not usable:
        states = ", ".join(sorted({node.state for node in in_time}))
        return f"no node of partition {named} is usable: {states}", f"ask when they are, or name another in {place}"
    if all(reason_against(job, node) for node in usable):
        return _shortage_of(job, usable, named)
    return None


def _shortage_of(job: AskedJob, nodes: Sequence[SlurmNode], partition: str) -> tuple[str, str]:
    """Return what no node of a partition has enough of, and what to do."""
    gpu_words = f"{job.gpu_type or ''} GPUs".strip()
    subjects: list[tuple[str, str, float, Callable[[SlurmNode], int]]] = [
        ("memory", "mem_mb", job.memory_mb or 0, lambda node: node.memory_mb),
        ("cpus", "threads", job.num_cpus, lambda node: node.num_cpus),
        ("gpus", gpu_words, job.num_gpus, lambda node: node.num_gpus(job.gpu_type)),
    ]
    other = f"or name another partition: {job.place_by_subject['partition']}"
    for subject, words, asked, had_by in subjects:
        largest = max(had_by(node) for node in nodes)
        if largest < asked:
            evidence = f"{words}: {asked} asked for, the largest node of partition {partition} has {largest}"
            return evidence, f"set {largest} or less in {job.place_by_subject[subject]}, {other}"
    if not any(_has_feature(job, node) for node in nodes):
        evidence = f"constraint: no node of partition {partition} has feature {job.constraint}"
        return evidence, f"name another feature in {job.place_by_subject['constraint']}, {other}"
    reasons = "; ".join(f"{node.name} {reason_against(job, node)}" for node in nodes[:3])
    needs = f"{job.memory_mb or 0} MB, {job.num_cpus} CPUs, {job.num_gpus} GPUs"
    needs += f", {job.constraint}" if job.constraint else ""
    evidence = f"no one node of partition {partition} has all of {needs} ({reasons})"
    return evidence, f"ask for less in {job.place_by_subject['memory']}, {other}"
