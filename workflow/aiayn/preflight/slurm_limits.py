"""Do QoS and associations allow what trainings and CPU rules ask for? A job above a limit waits for ever.

Which limit holds (https://slurm.schedmd.com/resource_limits.html): each one where it is first set, in the partition's
QoS, the job's QoS, the association; a job's QoS with the flag OverPartQOS stands before the partition's.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence

from aiayn.preflight.asked_job import AskedJob
from aiayn.preflight.checks import Check, doubtful, failed, passed
from aiayn.preflight.slurm_accounting import Accounting, Limits
from aiayn.preflight.slurm_nodes import SlurmNode, partitions_of

_WHOSE_BY_KIND = {"MaxTRES": "a job", "MaxTRESPU": "a user", "GrpTRES": "all users together"}
_SUBJECT_BY_TRES = {"cpu": "cpus", "mem": "memory", "node": "nodes"}
_NAME_BY_TRES = {"cpu": "CPUs", "mem": "MB of memory", "node": "nodes"}


def check_limits(
    jobs: Sequence[AskedJob], nodes: Sequence[SlurmNode], accounting: Accounting, *, num_jobs: int | None, profile: str
) -> list[Check]:
    """Check each job's time and resources, and the number of jobs that `profile` submits at once."""
    if accounting.enforces_no_limits:
        return [
            passed("limits", f"Slurm enforces none (AccountingStorageEnforce={','.join(accounting.enforced or [])})")
        ]
    if accounting.associations is None or accounting.limits_by_qos is None:
        return [
            doubtful("limits", "not known: accounting does not answer", "ask the administrator for those of your QoS")
        ]
    names_by_fault: dict[tuple[str, str], list[str]] = defaultdict(list)
    names_by_doubt: dict[str, list[str]] = defaultdict(list)
    all_limits: dict[str, Limits] = {}
    for job in jobs:
        partitions = partitions_of(job, nodes)
        limits, doubt = limits_on(job, partitions, accounting)
        all_limits |= {one.owner: one for one in limits}
        for fault in (*_time_faults(job, limits), *_tres_faults(job, limits)):
            names_by_fault[fault].append(job.name)
        if doubt:
            names_by_doubt[doubt].append(job.name)
    checks = [
        failed("limits", f"{', '.join(names)}: {evidence}", advice)
        for (evidence, advice), names in names_by_fault.items()
    ]
    checks += [
        doubtful(
            "limits", f"{', '.join(names)}: {doubt}", "name account and QoS where they ask for them, or ask which hold"
        )
        for doubt, names in names_by_doubt.items()
    ]
    checks += _check_num_jobs(list(all_limits.values()), num_jobs, profile)
    return checks or [passed("limits", _words(list(all_limits.values()), num_jobs))]


def limits_on(job: AskedJob, partitions: Sequence[str], accounting: Accounting) -> tuple[list[Limits], str]:
    """Return the limits on a job, those first that hold first, and what of them is not known, '' if nothing.

    Of several partitions only a QoS that all have is certain to hold.
    """
    by_qos = accounting.limits_by_qos or {}
    association, qos = accounting.association_of(job, partitions), accounting.qos_of(job, partitions)
    of_partitions = {accounting.qos_by_partition.get(name) for name in partitions}
    partition_qos = of_partitions.pop() if len(of_partitions) == 1 else None
    of_job = by_qos.get(qos) if qos else None
    ordered = [by_qos.get(partition_qos) if partition_qos else None, of_job]
    if of_job and "overpartqos" in of_job.flags:
        ordered.reverse()
    doubts = []
    if association is None:
        doubts.append("account and its limits are not known")
    if qos is None:
        doubts.append("QoS and its limits are not known")
    doubts += [f"limits of QoS {name} are not known" for name in (qos, partition_qos) if name and name not in by_qos]
    limits = [one for one in (*ordered, association.limits if association else None) if one is not None]
    return limits, ", ".join(doubts)


def _time_faults(job: AskedJob, limits: Sequence[Limits]) -> Iterator[tuple[str, str]]:
    first = next((one for one in limits if one.max_minutes is not None), None)
    if first is None or first.max_minutes is None or job.minutes is None or job.minutes <= first.max_minutes:
        return
    evidence = f"{job.minutes:,.0f} minutes, {first.owner} allows {first.max_minutes:,.0f} (MaxWall)"
    advice = f"set {first.max_minutes:.0f} or less in {job.place_by_subject['minutes']}"
    yield evidence, f"{advice}, or name another QoS: {job.place_by_subject['qos']}"


def _tres_faults(job: AskedJob, limits: Sequence[Limits]) -> Iterator[tuple[str, str]]:
    for kind, whose in _WHOSE_BY_KIND.items():
        for tres, asked in job.num_by_tres().items():
            first = next((one for one in limits if tres in one.num_by_tres_by_kind.get(kind, {})), None)
            if first is None or asked <= first.num_by_tres_by_kind[kind][tres]:
                continue
            allowed = first.num_by_tres_by_kind[kind][tres]
            name = _NAME_BY_TRES.get(tres, tres)
            place = job.place_by_subject[_SUBJECT_BY_TRES.get(tres, "gpus")]
            evidence = f"{asked:.0f} {name} a job, {first.owner} allows {allowed:.0f} to {whose} ({kind})"
            yield evidence, f"ask for less in {place}, or name another QoS: {job.place_by_subject['qos']}"


def _check_num_jobs(limits: Sequence[Limits], num_jobs: int | None, profile: str) -> list[Check]:
    """Compare the jobs at once with what may be submitted: Slurm refuses the next one, and its rule fails."""
    if num_jobs is None:
        return []
    tight = [one for one in limits if one.max_submitted is not None and one.max_submitted < num_jobs]
    return [
        doubtful(
            "limits",
            f"jobs: {num_jobs} in {profile}, {one.owner} takes {one.max_submitted} submitted at once, all of yours "
            "together: Slurm refuses more, and their rules fail",
            f"`snakemake --profile ... --jobs {one.max_submitted}`, or fewer where you have other jobs",
        )
        for one in tight
    ]


def _words(limits: Sequence[Limits], num_jobs: int | None) -> str:
    owners = ", ".join(one.owner for one in limits)
    running = [one.max_running for one in limits if one.max_running is not None]
    waiting = bool(running) and (num_jobs is None or min(running) < num_jobs)
    return f"within those of {owners}" + (f"; of yours {min(running)} jobs run at once, more wait" if waiting else "")
