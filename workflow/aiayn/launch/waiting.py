"""Why a job waits in Slurm's queue, where waiting alone may not help: what each of Slurm's reasons asks a person to do.

The words are those of squeue's field %r (Slurm's manual of squeue, "job reason codes").
"""

import re
from collections.abc import Sequence

from aiayn.launch.slurm_queue import LOST_RESERVATION, QueuedJob

_CLUSTER_FILE = "in the cluster's file"
# The first that fits counts. A limit per job never passes; one of many jobs together does, if they are others' too.
_ADVICE_BY_REASON = {
    r"PartitionTimeLimit": f"it asks for more time than its partition gives: lower time_limit_minutes {_CLUSTER_FILE}",
    r"PartitionNodeLimit": f"it asks for more nodes than its partition gives: lower num_nodes {_CLUSTER_FILE}",
    r"Partition(Down|Inactive)": f"its partition is closed: wait, or name another (partition) {_CLUSTER_FILE}",
    r"BadConstraints": f"no node has what it asks for: correct constraint, gpu_type or num_nodes {_CLUSTER_FILE}",
    r"InvalidAccount": f"Slurm does not take its account: name yours (account) {_CLUSTER_FILE}",
    r"InvalidQOS|QOSNotAllowed": f"Slurm does not take its QoS: name yours (qos) {_CLUSTER_FILE}",
    r"(Assoc|QOS)(Max|Min).*PerJob": f"it asks for more than one job may have: ask for less {_CLUSTER_FILE}",
    r"Assoc(Max|Grp)|AssociationJobLimit|AssociationResourceLimit|AssociationTimeLimit": (
        "a limit of your account: it starts when other jobs of the account have ended, if they fill it; else ask for "
        f"less {_CLUSTER_FILE} (`sacctmgr show associations`)"
    ),
    r"QOS(Max|Min|Grp|JobLimit|ResourceLimit|TimeLimit|UsageThreshold)": (
        "a limit of its QoS: it starts when other jobs of the QoS have ended, if they fill it; else ask for less, or "
        f"name another (qos) {_CLUSTER_FILE} (`sacctmgr show qos`)"
    ),
    r"ReqNodeNotAvail": "nodes that it needs are down, or kept for a maintenance (`scontrol show reservation`): wait",
    r"DependencyNeverSatisfied": f"what it depends on has failed: correct sbatch_lines {_CLUSTER_FILE}",
}


def waiting_advice(queued: QueuedJob, living: Sequence[QueuedJob]) -> str:
    """Return what a person can do for a job that may wait for ever, '' for one that will start by itself.

    `living` are the jobs of its name, from whichever folder: Slurm runs one of them at a time (singleton).
    """
    if queued.state == LOST_RESERVATION:
        orders = f"`scontrol update JobId={queued.job} ReservationName=ANOTHER` and `scontrol release {queued.job}`"
        return f"its reservation was deleted: {orders} (sbatch_lines {_CLUSTER_FILE} name it still)"
    if queued.is_stuck:
        return f"it waits for you: `scontrol release {queued.job}`"
    if queued.state != "PENDING":
        return ""
    if queued.reason == "Dependency":
        others = [f"{other.job} ({other.script})" for other in living if other.job != queued.job]
        return f"it waits for the end of {', '.join(others)}, of the same name" if others else ""
    found = (advice for pattern, advice in _ADVICE_BY_REASON.items() if re.match(pattern, queued.reason))
    return next(found, "")
