"""Trains inside a submitted job, in every rank's process, and requeues the job when its time is nearly up.

submitit imports it from the copy of the code that was taken when the job was submitted. Only here, in the job, is torch
imported.
"""

import logging
import os
import platform
import signal
from pathlib import Path

import aiayn
from aiayn.errors import LaunchError
from aiayn.launch.slurm_queue import run_slurm
from aiayn.provenance import utc_now
from aiayn.runs.attempts import newest_update
from aiayn.runs.jobs import SubmittedJob, append_job, record_rank_error
from aiayn.train.request import StopFlag, TrainingRequest, num_restarts

logger = logging.getLogger(__name__)


class TrainingJob:
    """What submitit pickles: calling it trains, in the job's process.

    `visible_gpus` is the driver's choice of GPUs (CUDA_VISIBLE_DEVICES), which `local` would renumber; Slurm sets its
    own.
    """

    def __init__(self, request: TrainingRequest) -> None:
        self.request = request
        self.visible_gpus = os.environ.get("CUDA_VISIBLE_DEVICES")

    def __call__(self) -> None:
        """Train; only here is the engine imported."""
        with StopFlag().installed() as stop:  # first of all: the imports take seconds
            self._train(stop)
        if stop.signal_number is not None and _is_in_driver():
            signal.raise_signal(stop.signal_number)  # the driver has its handler back, and must end too

    def _train(self, stop: StopFlag) -> None:
        import submitit

        environment = submitit.JobEnvironment()
        is_slurm = environment.name() == "slurm"
        if is_slurm:
            # The partial result of a killed rank would make submitit fail at the end of a requeued job.
            environment.paths.result_pickle.with_suffix(".pkl.save_tmp").unlink(missing_ok=True)
            hosts = environment.hostnames
            os.environ["MASTER_ADDR"] = hosts[0] if len(hosts) > 1 else "127.0.0.1"  # one node needs no network
            if not self.request.gpus_per_node:
                os.environ["CUDA_VISIBLE_DEVICES"] = ""  # where devices are not confined it would see other people's
        elif self.visible_gpus is not None and self.request.training.device != "cpu":
            os.environ["CUDA_VISIBLE_DEVICES"] = self.visible_gpus
        try:
            if is_slurm:
                require_own_code(self.request.code_folder)
            from aiayn.train.ranks import Rank
            from aiayn.train.train import train_rank
        except Exception as error:  # the next job would repeat it
            record_rank_error(self.request.folder, environment.global_rank, error)
            raise
        rank = Rank(
            rank=environment.global_rank,
            world_size=environment.num_tasks,
            job=str(environment.job_id),
            local_rank=environment.local_rank,
            job_number=self.request.num_earlier_jobs + num_restarts() + 1,
        )
        try:
            train_rank(self.request, rank, stop)
        except Exception:
            if not _is_in_driver():
                raise
            logger.exception(f"{self.request.run}: failed")  # submitit would open a debugger and wait at its prompt
        if is_slurm and rank.rank == 0 and stop.agreed == signal.SIGUSR2:
            continue_later(self.request, rank.job, rank.job_number)


def record_job(request: TrainingRequest, launcher: str, job: str, *, commit: str = "", code_folder: str = "") -> None:
    """Record a job that a driver of this machine submitted for a run, or found in the queue."""
    append_job(
        request.folder,
        SubmittedJob(
            time=utc_now(), launcher=launcher, job=job, host=platform.node(), num_ranks=request.num_ranks,
            update=newest_update(request.folder), commit=commit, code_folder=code_folder,
        ),
    )  # fmt: skip


def require_own_code(code_folder: str | None) -> None:
    """Require that this code is the copy that was taken when the job was submitted; None: unknown.

    Raises:
        LaunchError: naming both.
    """
    here = Path(aiayn.__file__).resolve()
    if code_folder is not None and not here.is_relative_to(Path(code_folder).resolve()):
        raise LaunchError(
            f"{platform.node()}: aiayn was imported from {here.parent}, expected from {code_folder}, the copy of the "
            "code that this run was submitted with; let PYTHONPATH reach Python in the container (pyxis: "
            "`srun_options: {container-env: PYTHONPATH}`, Apptainer: `--env PYTHONPATH=$PYTHONPATH`), and mount the "
            "runs folder there"
        )


def _is_in_driver() -> bool:
    """Return whether this job runs in its driver's process, by the `debug` launcher."""
    import submitit

    return bool(submitit.JobEnvironment().name() == "debug")


def continue_later(request: TrainingRequest, job: str, job_number: int) -> None:
    """Requeue this job, which has saved because its time is nearly up; that needs no driver.

    After `max_num_jobs` it ends instead. Where Slurm refuses to requeue, the job ends, and the driver submits the next,
    now or when it is started again.
    """
    if request.max_num_jobs is not None and job_number >= request.max_num_jobs:
        logger.warning(f"{request.run}: saved; not continued, as this was job {job_number} of {request.max_num_jobs}")
        return
    try:
        run_slurm(["scontrol", "requeue", job])  # it keeps its number
    except LaunchError as error:
        logger.warning(f"{request.run}: saved, but {error}")
