"""The functions that run inside a Slurm job: find the address of its node, hide GPUs that the job
did not request, and requeue the job at its time limit or after a preemption.
"""

import logging
import os
import re
import signal
from typing import Any

from aiayn.errors import LaunchError
from aiayn.launch.slurm.queue import run_slurm
from aiayn.train.network import node_address
from aiayn.train.request import TrainingRequest

logger = logging.getLogger(__name__)


def prepare(request: TrainingRequest, environment: Any) -> None:
    """Set the environment variables of a rank. Call this function before torch is imported.
    `environment` is submitit's `JobEnvironment`.
    """
    # A requeued job has the same number and files. If a killed rank left a part of its result,
    # submitit would fail when it writes the result again.
    environment.paths.result_pickle.with_suffix(".pkl.save_tmp").unlink(missing_ok=True)
    if not request.gpus_per_node:
        # Not every cluster hides GPUs from jobs that did not request them. They may be in use.
        os.environ["CUDA_VISIBLE_DEVICES"] = ""


def own_address(environment: Any) -> str | None:
    """Return this node's address on the network that the job's nodes share, or None if the job has
    only one node.

    Raises:
        LaunchError: if no network leads to a second node of the job, or if the name of the second
            node leads to this node.
    """
    # The route to any other node shows which network the nodes share.
    first, *other_hosts = environment.hostnames
    if not other_hosts:
        return None
    other = other_hosts[0] if environment.node == 0 else first
    return node_address(other, environment.hostnames)


def num_restarts() -> int:
    """Return how many times Slurm has requeued this job and started it again."""
    return int(os.environ.get("SLURM_RESTART_COUNT", "0"))


def is_to_continue(job: str, number: signal.Signals) -> bool:
    """Return whether this job must requeue itself after it got a signal and saved a checkpoint.

    Slurm sends the signal USR2 shortly before the time limit. The signal TERM comes from a user, or
    from Slurm if it preempts the job with a grace time. Slurm does not requeue a preempted job that
    ends by itself in the grace time.
    """
    # USR2 is the time limit. INT and HUP come from a user who wants the run to end.
    if number != signal.SIGTERM:
        return number == signal.SIGUSR2
    try:
        answer = run_slurm(["scontrol", "show", "job", job]).stdout
    except LaunchError as error:
        logger.warning(f"job {job}: saved, but {error}")
        return False
    # In the answer of scontrol: `PreemptEligibleTime=... PreemptTime=None`, or a time if preempted.
    preempted = re.search(r"\bPreemptTime=(\S+)", answer)
    return preempted is not None and preempted[1] not in ("None", "Unknown")


def continue_later(request: TrainingRequest, job: str, job_number: int) -> None:
    """Requeue this job after it has saved a checkpoint. A job requeues itself without the driver
    (the process that submitted the job), which may have ended.

    The job is not requeued if it is the last of `max_num_jobs` jobs, or if Slurm refuses to requeue
    it. If Slurm refuses, the driver submits the next job, at once or when the driver is started
    again.
    """
    if request.max_num_jobs is not None and job_number >= request.max_num_jobs:
        logger.warning(
            f"{request.run}: saved; not continued, as this was job {job_number} of"
            f" {request.max_num_jobs}"
        )
        return
    try:
        # A requeued job keeps its number, so the driver and `aiayn status` still find it.
        run_slurm(["scontrol", "requeue", job])
    except LaunchError as error:
        logger.warning(f"{request.run}: saved, but {error}")
