"""The functions that run inside a Slurm job: find its node's address, hide GPUs that it did not
request, and requeue it at its time limit or after a preemption.
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
    """Set the variables of a rank, before anything heavy is imported. `environment` is
    submitit's.
    """
    # The partial result of a killed rank would make submitit fail at the end of a requeued job.
    environment.paths.result_pickle.with_suffix(".pkl.save_tmp").unlink(missing_ok=True)
    if not request.gpus_per_node:
        os.environ["CUDA_VISIBLE_DEVICES"] = (
            ""  # where devices are not confined it would see other people's
        )


def own_address(environment: Any) -> str | None:
    """Return this node's address on the network that the job's nodes share, or None if the job has
    one node.

    Raises:
        LaunchError: if no network leads to a second node, or if the name of that node leads to this
            node.
    """
    # Any other node will do: the route to it shows which network the nodes share.
    first, *other_hosts = environment.hostnames
    if not other_hosts:
        return None
    other = other_hosts[0] if environment.node == 0 else first
    return node_address(other, environment.hostnames)


def num_restarts() -> int:
    """Return how often Slurm has started this job again."""
    return int(os.environ.get("SLURM_RESTART_COUNT", "0"))


def is_to_continue(job: str, number: signal.Signals) -> bool:
    """Return whether this job, which has saved at a signal, is to be continued without its driver.

    USR2 says that its time is nearly up. TERM says that if Slurm has preempted the job with a grace
    time: a job that then ends by itself is not requeued by Slurm.
    """
    if number != signal.SIGTERM:
        return number == signal.SIGUSR2
    try:
        answer = run_slurm(["scontrol", "show", "job", job]).stdout
    except LaunchError as error:
        logger.warning(f"job {job}: saved, but {error}")
        return False
    preempted = re.search(r"\bPreemptTime=(\S+)", answer)
    return preempted is not None and preempted[1] not in ("None", "Unknown")


def continue_later(request: TrainingRequest, job: str, job_number: int) -> None:
    """Requeue this job after it has saved. Its driver may have ended.

    After `max_num_jobs` it ends instead. Where Slurm refuses to requeue, the job ends, and the
    driver submits the next, now or when it is started again.
    """
    if request.max_num_jobs is not None and job_number >= request.max_num_jobs:
        logger.warning(
            f"{request.run}: saved; not continued, as this was job {job_number} of"
            f" {request.max_num_jobs}"
        )
        return
    try:
        run_slurm(["scontrol", "requeue", job])  # it keeps its number
    except LaunchError as error:
        logger.warning(f"{request.run}: saved, but {error}")
