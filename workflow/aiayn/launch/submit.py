"""Submits a training's job, by submitit. The driver stays light: only the job imports torch.

`local` starts processes on this machine, which continue if their driver is killed; `debug` runs in the driver's own
process; `slurm` requests nodes of a cluster, as its file in workflow/config/clusters/ says.
"""

import contextlib
import io
import os
import re
import shlex
import shutil
import signal
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec

from aiayn.errors import LaunchError
from aiayn.launch.job import TrainingJob
from aiayn.launch.prologue import prologue_lines
from aiayn.machine import gpu_names
from aiayn.runs.jobs import LAUNCHERS
from aiayn.spec.cluster import ClusterSpec
from aiayn.train.request import TrainingRequest

# glibc gives freed tensors back to the system and faults their pages in again at every update; what that costs on a CPU
# tests/benchmarks/bench_allocator.py prints.
ALLOCATOR_ENVIRONMENT = {"MALLOC_MMAP_MAX_": "0", "MALLOC_TRIM_THRESHOLD_": str(1 << 40)}
_NO_LIMIT_MINUTES = 60 * 24 * 365
# Signals wait while sbatch runs, so it must not hang for ever; sbatch itself retries a busy controller for two minutes.
_SBATCH_TIMEOUT_SECONDS = 300.0
_KILLED = (-signal.SIGKILL, 128 + signal.SIGKILL)  # by `timeout`, which then ends likewise
# What sbatch prints when it may accept the same job later: the controller does not answer, or the user has the maximum
# number of jobs. For a limit that the job itself exceeds it prints other words.
_PASSING_WORDS = re.compile(
    "unable to contact slurm controller|socket timed out|connection (refused|reset|timed out)|zero bytes were trans"
    r"|temporarily un|in standby mode|\b(assoc|qos)\w*submitjob",
    re.IGNORECASE,
)
_MANY_TIMEOUTS = 10**6  # submitit would count them; ours is `max_num_jobs`
# A driver may itself run in a job, or in a shell with variables that sbatch reads before the file. The cluster's file
# must hold. Where it says nothing, the user's own default holds.
_FOREIGN_PREFIXES = ("SLURM_", "SBATCH_", "SRUN_", "SUBMITIT_")
_FOREIGN_NAMES = ("MASTER_ADDR", "MASTER_PORT", "RANK", "WORLD_SIZE", "LOCAL_RANK")
# Which Slurm, and which user: squeue, scontrol and scancel see these, so sbatch must, too.
_SLURMS_OWN_NAMES = frozenset({"SLURM_CONF", "SLURM_CLUSTERS", "SLURM_JWT"})


class SubmissionError(LaunchError):
    """sbatch returned no job; `is_passing` if it may accept the same job later."""

    def __init__(self, message: str, *, is_passing: bool) -> None:
        super().__init__(message)
        self.is_passing = is_passing


def submit(request: TrainingRequest, launcher: str, code_folder: Path | None = None) -> Any:
    """Start a training by `local` or `debug` and return submitit's job; a local job imports our code from its folder.

    Only the driver gets the terminal's Ctrl-C. It sends TERM to the job, so that the job can save.

    Raises:
        LaunchError: if the launcher is unknown, cannot start so many ranks, or could not start a process.
    """
    if launcher not in LAUNCHERS:
        raise LaunchError(f"launcher {launcher!r}: expected one of {', '.join(LAUNCHERS)}")
    if launcher == "debug" and request.num_ranks > 1:
        raise LaunchError(f"{request.run}: {request.num_ranks} ranks, but `debug` has one process; use `local`")
    num_gpus = 0 if request.training.device == "cpu" else len(gpu_names())
    variables = _job_variables(request, is_on_cpu=num_gpus == 0)
    if code_folder is not None:
        paths = [str(code_folder), *filter(None, [os.environ.get("PYTHONPATH")])]
        variables |= {"PYTHONPATH": os.pathsep.join(paths), "PYTHONSAFEPATH": "1"}
    try:
        executor = _make_executor(request, launcher, num_gpus)
        with _inherited(variables):
            return executor.submit(TrainingJob(request))
    except (OSError, RuntimeError) as error:
        raise LaunchError(f"{request.run}: the {launcher} launcher could not start a job: {error}") from error


def _job_variables(request: TrainingRequest, *, is_on_cpu: bool) -> dict[str, str]:
    variables = {"AIAYN_COMMIT": request.commit, "OMP_NUM_THREADS": str(request.threads_per_rank)}
    return variables | ALLOCATOR_ENVIRONMENT if is_on_cpu else variables


def _make_executor(request: TrainingRequest, launcher: str, num_gpus: int) -> Any:
    import submitit

    executor = submitit.AutoExecutor(folder=request.folder / "submitit", cluster=launcher)
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
    """Give processes that are started in the block these environment variables, and let them ignore INT."""
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


def submit_to_slurm(request: TrainingRequest, cluster: ClusterSpec, code_folder: Path) -> str:
    """Submit a training to Slurm and return its job's number; a signal waits until the number is known.

    Raises:
        SubmissionError: if sbatch fails or gets no answer; look in the queue before submitting again.
    """
    numbers = {signal.SIGINT, signal.SIGTERM, signal.SIGHUP}
    blocked_before = signal.pthread_sigmask(signal.SIG_BLOCK, numbers)
    try:
        with without_foreign_variables(cluster), contextlib.redirect_stderr(io.StringIO()):  # the error has its words
            job = TrainingJob(msgspec.structs.replace(request, code_folder=str(code_folder)))
            return str(_make_slurm_executor(request, cluster, code_folder).submit(job).job_id)
    except (OSError, RuntimeError) as error:
        reason = str(error) or f"it printed nothing, or had no answer within {_SBATCH_TIMEOUT_SECONDS:g} s"
        has_hung = getattr(error.__cause__, "returncode", 0) in _KILLED
        is_passing = has_hung or _PASSING_WORDS.search(reason) is not None
        raise SubmissionError(f"{request.run}: sbatch failed: {reason}", is_passing=is_passing) from error
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, blocked_before)


def recover_submission(run_folder: Path, job: str) -> None:
    """Name the pickled training of a job whose number sbatch did not return: submitit finds it by that number.

    It is the newest pickle without a number. The job waits a minute for it, then fails.
    """
    named_path = run_folder / "submitit" / f"{job}_submitted.pkl"
    newest_path = max(_unnumbered_pickles(run_folder), key=lambda path: path.stat().st_mtime_ns, default=None)
    if newest_path is not None and not named_path.exists():
        newest_path.rename(named_path)


def clean_submissions(run_folder: Path) -> None:
    """Remove the files of failed submissions: a driver may try for days."""
    for path in _unnumbered_pickles(run_folder):
        path.unlink()
    for path in (run_folder / "submitit").glob(".submission_file_*.sh"):
        if not path.is_symlink():  # which leads to a job's own
            path.unlink()


def _unnumbered_pickles(run_folder: Path) -> list[Path]:
    return [path for path in (run_folder / "submitit").glob("*.pkl") if "_" not in path.name]


def sbatch_text(request: TrainingRequest, cluster: ClusterSpec, code_folder: Path) -> str:
    """Return the file that `submit_to_slurm` gives to sbatch, to the byte; writes nothing and needs no Slurm."""
    executor = _make_slurm_executor(request, cluster, code_folder)
    return str(executor._make_submission_file_text(executor._submitit_command_str, ""))


def _make_slurm_executor(request: TrainingRequest, cluster: ClusterSpec, code_folder: Path) -> Any:
    from submitit import SlurmExecutor

    class BoundedExecutor(SlurmExecutor):  # type: ignore[misc]
        """An executor whose sbatch has a time limit, by coreutils' timeout: submitit's own has none."""

        @classmethod
        def affinity(cls) -> int:
            """Do not look for srun: to print the file needs no Slurm, and sbatch fails by itself without."""
            return 1

        def _make_submission_command(self, submission_file_path: Path) -> list[str]:
            command: list[str] = super()._make_submission_command(submission_file_path)
            bound = ["timeout", "--signal=KILL", f"{_SBATCH_TIMEOUT_SECONDS:g}"]  # sbatch has TERM blocked, as we have
            return [*bound, *command] if shutil.which("timeout") else command

    folder = request.folder / "submitit"
    executor = BoundedExecutor(folder=folder, max_num_timeout=_MANY_TIMEOUTS, python=cluster.python)
    executor.update_parameters(
        job_name=request.run,
        partition=cluster.partition,
        account=cluster.account,
        qos=cluster.qos,
        constraint=cluster.constraint,
        mem=f"{cluster.memory_gb_per_node}GB" if cluster.memory_gb_per_node else None,
        nodes=cluster.num_nodes,
        ntasks_per_node=cluster.ranks_per_node,
        cpus_per_task=cluster.cpus_per_rank,
        time=cluster.time_limit_minutes,
        signal_delay_s=cluster.signal_seconds,
        dependency="singleton",  # Slurm's own guard against two jobs of one run, from whichever machine
        stderr_to_stdout=True,
        setup=_setup_lines(request, cluster, code_folder),
        srun_args=[
            "--kill-on-bad-exit=1",  # a rank that fails ends the others
            f"--cpus-per-task={cluster.cpus_per_rank}",  # srun does not inherit it from sbatch since Slurm 22.05
            "--open-mode=append",
            *(
                f"--{name.replace('_', '-')}{'=' if value else ''}{value}"
                for name, value in cluster.srun_options.items()
            ),
        ],
        additional_parameters=_further_options(cluster),
    )
    return executor


def _further_options(cluster: ClusterSpec) -> dict[str, Any]:
    """Return the options that submitit does not name, and last the cluster's own lines."""
    options: dict[str, Any] = {
        "requeue": True,
        "open-mode": "append",
        "signal": f"USR2@{cluster.signal_seconds}",  # not what SUBMITIT_PREEMPT_SIGNAL says
    }
    if cluster.gpus_per_node:
        kind = f"{cluster.gpu_type}:" if cluster.gpu_type else ""
        options["gpus-per-node"] = f"{kind}{cluster.gpus_per_node}"
    return options | {name: True if value == "" else value for name, value in cluster.sbatch_lines.items()}


def _setup_lines(request: TrainingRequest, cluster: ClusterSpec, code_folder: Path) -> list[str]:
    """Return the shell lines before Python: the cluster's own, then the variables that they must not change."""
    variables = _job_variables(request, is_on_cpu=cluster.gpus_per_node == 0) | {"PYTHONSAFEPATH": "1"}
    exports = [f"export {name}={shlex.quote(value)}" for name, value in variables.items()]
    path_line = f"export PYTHONPATH={shlex.quote(str(code_folder))}${{PYTHONPATH:+:$PYTHONPATH}}"
    return [*prologue_lines(cluster, request.folder), *exports, path_line]


@contextlib.contextmanager
def without_foreign_variables(cluster: ClusterSpec) -> Iterator[None]:
    """Hide from sbatch the variables that would overrule a cluster's file, or are of this process's own job."""
    kept = _SLURMS_OWN_NAMES | {
        f"SBATCH_{name.upper()}" for name in ("partition", "account", "qos") if getattr(cluster, name) is None
    }
    names = [
        name
        for name in os.environ
        if (name.startswith(_FOREIGN_PREFIXES) or name in _FOREIGN_NAMES) and name not in kept
    ]
    hidden = {name: os.environ.pop(name) for name in names}
    try:
        yield
    finally:
        os.environ.update(hidden)
