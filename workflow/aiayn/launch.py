"""Where a training runs: the only importer of submitit. The driver stays light; torch is imported in the job alone.

`local` starts processes on this machine that outlive a driver that is killed; `debug` runs in the driver's own process.
"""

import contextlib
import logging
import os
import signal
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import FrameType
from typing import Any, Literal

import msgspec

from aiayn.engine.fairseq_args import TrainingData
from aiayn.errors import LaunchError
from aiayn.machine import gpu_names
from aiayn.spec import TrainingSpec

logger = logging.getLogger(__name__)
Launcher = Literal["local", "debug"]
LAUNCHERS: tuple[Launcher, ...] = ("local", "debug")
# glibc gives freed tensors back to the system and faults their pages in again at every update; what that costs on a CPU
# tests/benchmarks/bench_allocator.py prints.
ALLOCATOR_ENVIRONMENT = {"MALLOC_MMAP_MAX_": "0", "MALLOC_TRIM_THRESHOLD_": str(1 << 40)}
_NO_LIMIT_MINUTES = 60 * 24 * 365


class TrainingRequest(msgspec.Struct, frozen=True, kw_only=True):
    """All that a job needs to train a run.

    What decides its tensors is in `training`, `seed`, the data-bin and, for `embeddings: vectors`, the file of vectors
    that the embeddings start from.
    """

    run: str
    run_folder: str
    corpus: str
    system: str
    seed: int
    training: TrainingSpec
    data: TrainingData
    binarized_path: str
    num_models: int
    num_ranks: int
    threads_per_rank: int
    commit: str
    command: str
    vectors_path: str | None = None


class StopFlag:
    """Set by TERM, INT, USR2 or HUP between two byte codes; the training loop looks at it after each update."""

    def __init__(self) -> None:
        self.signal_number: signal.Signals | None = None

    @contextlib.contextmanager
    def installed(self) -> Iterator["StopFlag"]:
        """Take over the signals for the length of the block; submitit's own handlers would ignore TERM."""
        numbers = (signal.SIGTERM, signal.SIGINT, signal.SIGUSR2, signal.SIGHUP)
        previous = {number: signal.signal(number, self._set) for number in numbers}
        try:
            yield self
        finally:
            for number, handler in previous.items():
                signal.signal(number, handler)

    def _set(self, number: int, frame: FrameType | None) -> None:
        self.signal_number = signal.Signals(number)


class TrainingJob:
    """What submitit pickles: calling it trains, in the job's process.

    `visible_gpus` is the driver's own choice of GPUs (CUDA_VISIBLE_DEVICES), which `local` would number anew.
    """

    def __init__(self, request: TrainingRequest) -> None:
        self.request = request
        self.visible_gpus = os.environ.get("CUDA_VISIBLE_DEVICES")

    def __call__(self) -> None:
        """Train; only here is the engine imported."""
        with StopFlag().installed() as stop:  # first of all: the imports take seconds
            self._train(stop)
        if stop.signal_number is not None and _is_in_driver():
            signal.raise_signal(stop.signal_number)  # the driver has its handler back, and is to end too

    def _train(self, stop: StopFlag) -> None:
        import submitit

        if self.visible_gpus is not None and self.request.training.device != "cpu":
            os.environ["CUDA_VISIBLE_DEVICES"] = self.visible_gpus
        from aiayn.engine.ranks import Rank
        from aiayn.engine.train import train_rank

        environment = submitit.JobEnvironment()
        rank = Rank(
            index=environment.global_rank,
            num_ranks=environment.num_tasks,
            job=str(environment.job_id),
            local_index=environment.local_rank,
        )
        try:
            train_rank(self.request, rank, stop)
        except Exception:
            if not _is_in_driver():
                raise
            logger.exception(f"{self.request.run}: failed")  # submitit would open a debugger and wait at its prompt


def _is_in_driver() -> bool:
    """Return whether this job runs in its driver's process, by the `debug` launcher."""
    import submitit

    return bool(submitit.JobEnvironment().name() == "debug")


def submit(request: TrainingRequest, launcher: str) -> Any:
    """Start a training and return submitit's job.

    The job does not get the terminal's Ctrl-C: only the driver does, and passes TERM on, so that the job can save.

    Raises:
        LaunchError: if the launcher is unknown, cannot start so many ranks, or nothing could be started.
    """
    if launcher not in LAUNCHERS:
        raise LaunchError(f"launcher {launcher!r}: expected one of {', '.join(LAUNCHERS)}")
    if launcher == "debug" and request.num_ranks > 1:
        raise LaunchError(f"{request.run}: {request.num_ranks} ranks, but debug has this process alone; use local")
    num_gpus = 0 if request.training.device == "cpu" else len(gpu_names())
    variables = {"AIAYN_COMMIT": request.commit, "OMP_NUM_THREADS": str(request.threads_per_rank)}
    if num_gpus == 0:
        variables |= ALLOCATOR_ENVIRONMENT
    try:
        executor = _make_executor(request, launcher, num_gpus)
        with _inherited(variables):
            return executor.submit(TrainingJob(request))
    except (OSError, RuntimeError) as error:
        raise LaunchError(f"{request.run}: the {launcher} launcher could not start a job: {error}") from error


def _make_executor(request: TrainingRequest, launcher: str, num_gpus: int) -> Any:
    import submitit

    executor = submitit.AutoExecutor(folder=Path(request.run_folder) / "submitit", cluster=launcher)
    executor.update_parameters(
        name=request.run,
        timeout_min=_NO_LIMIT_MINUTES,
        tasks_per_node=request.num_ranks,
        gpus_per_node=num_gpus,
        stderr_to_stdout=True,
    )
    return executor


@contextlib.contextmanager
def _inherited(variables: Mapping[str, str]) -> Iterator[None]:
    """Let a process that is started in the block have these environment variables, and ignore INT."""
    own_value_by_name = {name: os.environ.pop(name, None) for name in variables}
    os.environ.update(variables)
    previous = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, previous)
        for name, value in own_value_by_name.items():
            os.environ.pop(name)
            if value is not None:
                os.environ[name] = value
