"""Where a training runs: the only importer of submitit. The driver stays light; torch is imported in the job alone.

`local` starts processes on this machine that outlive the driver if it is killed; `debug` runs in the driver's own process.
"""

import os
import signal
from pathlib import Path
from typing import Any, Literal

import msgspec

from aiayn.engine.fairseq_args import TrainingData
from aiayn.errors import LaunchError
from aiayn.machine import gpu_names
from aiayn.spec import TrainingSpec

Launcher = Literal["local", "debug"]
LAUNCHERS: tuple[Launcher, ...] = ("local", "debug")
_NO_LIMIT_MINUTES = 60 * 24 * 365


class TrainingRequest(msgspec.Struct, frozen=True, kw_only=True):
    """All that a job needs to train a run; what decides its tensors is in `training`, `seed` and the data-bin."""

    run: str
    run_folder: str
    corpus: str
    system: str
    seed: int
    training: TrainingSpec
    data: TrainingData
    num_models: int
    num_ranks: int
    threads_per_rank: int
    commit: str
    command: str


class TrainingJob:
    """What submitit pickles: calling it trains, in the job's process."""

    def __init__(self, request: TrainingRequest) -> None:
        self.request = request

    def __call__(self) -> None:
        """Train; only here is the engine imported."""
        import submitit

        from aiayn.engine.train import Rank, train_rank

        environment = submitit.JobEnvironment()
        rank = Rank(
            index=environment.global_rank,
            num_ranks=environment.num_tasks,
            job=str(environment.job_id),
            local_index=environment.local_rank,
        )
        train_rank(self.request, rank)


def submit(request: TrainingRequest, launcher: str) -> Any:
    """Start a training and return submitit's job.

    The job does not get the terminal's Ctrl-C: only the driver does, and passes it on as TERM, so that the job can save.

    Raises:
        LaunchError: if the launcher is unknown or nothing could be started.
    """
    if launcher not in LAUNCHERS:
        raise LaunchError(f"launcher {launcher!r}: expected one of {', '.join(LAUNCHERS)}")
    import submitit

    folder = Path(request.run_folder) / "submitit"
    executor = submitit.AutoExecutor(folder=folder, cluster=launcher)
    num_gpus = 0 if request.training.device == "cpu" else len(gpu_names())
    executor.update_parameters(
        name=request.run,
        timeout_min=_NO_LIMIT_MINUTES,
        tasks_per_node=request.num_ranks,
        gpus_per_node=num_gpus,
        stderr_to_stdout=True,
    )
    os.environ["AIAYN_COMMIT"] = request.commit
    os.environ["OMP_NUM_THREADS"] = str(request.threads_per_rank)  # read when torch is loaded in the job
    if num_gpus == 0:
        # glibc would give freed tensors back to the system and fault their pages in again at every update.
        os.environ.update(MALLOC_MMAP_MAX_="0", MALLOC_TRIM_THRESHOLD_=str(1 << 40))
    previous = signal.signal(signal.SIGINT, signal.SIG_IGN)  # inherited by the job
    try:
        return executor.submit(TrainingJob(request))
    except (OSError, RuntimeError) as error:
        raise LaunchError(f"{request.run}: the {launcher} launcher could not start a job: {error}") from error
    finally:
        signal.signal(signal.SIGINT, previous)

