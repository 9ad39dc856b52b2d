"""Inside the job: one rank of one training (section 5), by fairseq in this process, from its newest whole checkpoint."""

import fcntl
import logging
import os
import platform
import signal
import sys
import traceback
from pathlib import Path
from types import FrameType
from typing import Any

import msgspec
import torch
import torch.distributed

from aiayn import attempts
from aiayn.engine import compat, plugin
from aiayn.engine.checkpoints import (
    CheckpointKeeper,
    count_parameters,
    list_checkpoints,
    load_checkpoint,
    newest_whole_full,
    remove_partial_files,
    tensors_sha256,
    update_of,
)
from aiayn.engine.fairseq_args import train_flags
from aiayn.errors import AiaynError, LaunchError
from aiayn.launch import TrainingRequest
from aiayn.provenance import gather_provenance, utc_now
from aiayn.records import Hardware, SavedModel, TrainRecord, write_record

logger = logging.getLogger(__name__)
UPDATES_BETWEEN_STOP_CHECKS = 10  # with several ranks, which must agree by an all-reduce


class StopTraining(BaseException):
    """The training was asked to save and end; no `Exception`, so that fairseq's handlers let it pass."""


class Rank(msgspec.Struct, frozen=True, kw_only=True):
    """This process among those of the job."""

    index: int
    num_ranks: int
    job: str
    local_index: int


class StopFlag:
    """Set by TERM, INT or USR2 between two byte codes, read by the training loop after an update."""

    def __init__(self) -> None:
        self.signal_name = ""
        self._num_checks = 0

    def install(self) -> None:
        """Take over the signals; submitit's own handlers would ignore TERM."""
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGUSR2, signal.SIGHUP):
            signal.signal(number, self._set)

    def _set(self, number: int, frame: FrameType | None) -> None:
        self.signal_name = signal.Signals(number).name

    def is_set_anywhere(self) -> bool:
        """Return whether any rank was signalled; with several ranks asked of all, every few updates."""
        if not torch.distributed.is_initialized():
            return bool(self.signal_name)
        self._num_checks += 1
        if self._num_checks % UPDATES_BETWEEN_STOP_CHECKS:
            return False
        device = "cuda" if torch.distributed.get_backend() == "nccl" else "cpu"
        flag = torch.tensor([int(bool(self.signal_name))], device=device)
        torch.distributed.all_reduce(flag, op=torch.distributed.ReduceOp.MAX)
        return bool(flag.item())


def train_rank(request: TrainingRequest, rank: Rank) -> None:
    """Train to the end, or to a signal; rank 0 keeps the run's attempts and writes its record.

    Raises:
        LaunchError: if another process is training this run.
        Exception: whatever ended fairseq, after it was noted in attempts.jsonl.
    """
    run_folder = Path(request.run_folder)
    torch.set_num_threads(request.threads_per_rank)
    if rank.index != 0:
        stop = StopFlag()
        stop.install()
        _train_with_fairseq(request, rank, stop, _resume_path(run_folder))
        return
    with (run_folder / attempts.RANK_LOCK_NAME).open("a") as lock:
        try:
            fcntl.lockf(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise LaunchError(f"{run_folder}: another process is training this run; wait for it, or end it") from error
        lock.truncate(0)
        lock.write(str(os.getpid()))
        lock.flush()
        if not (run_folder / attempts.DONE_NAME).exists():
            _attempt(request, rank, run_folder)


def _resume_path(run_folder: Path) -> Path | None:
    full = list_checkpoints(run_folder / "checkpoints", "full")
    return full[-1] if full else None


def _attempt(request: TrainingRequest, rank: Rank, run_folder: Path) -> None:
    """Run one attempt on rank 0 and note its end, whichever it is."""
    folder = run_folder / "checkpoints"
    folder.mkdir(parents=True, exist_ok=True)
    remove_partial_files(folder)
    full_path, torn_paths = newest_whole_full(folder)
    update = update_of(full_path) if full_path else 0
    attempts.close_lost_attempt(run_folder, update=update)
    started = _note_start(request, rank, run_folder, update)
    _write_log_to(run_folder / attempts.LOG_NAME)
    for torn_path in torn_paths:
        logger.warning(f"{torn_path}: torn, resuming from update {update} instead")
    stop = StopFlag()
    stop.install()
    try:
        if not _is_finished(full_path, request):
            _train_with_fairseq(request, rank, stop, full_path)
    except StopTraining:
        attempts.end_attempt(run_folder, update=_newest_update(folder), outcome="stopped", reason=f"asked by {stop.signal_name}")
        return
    except BaseException as error:
        reason = str(error) if isinstance(error, AiaynError) else f"{type(error).__name__}: {error}"
        logger.error(traceback.format_exc())
        attempts.end_attempt(run_folder, update=_newest_update(folder), outcome="failed", reason=reason[:2000])
        raise
    attempts.end_attempt(run_folder, update=_newest_update(folder), outcome="done", reason="")
    record = _make_record(request, run_folder, started)
    write_record(record, run_folder / attempts.DONE_NAME)


def _newest_update(folder: Path) -> int:
    full = list_checkpoints(folder, "full")
    return update_of(full[-1]) if full else 0


def _note_start(request: TrainingRequest, rank: Rank, run_folder: Path, update: int) -> attempts.Started:
    device = resolve_device(request.training.device)
    earlier = [event for event in attempts.read_events(run_folder) if isinstance(event, attempts.Started)]
    if update and earlier and earlier[0].device != device:
        raise LaunchError(
            f"{request.run}: began on {earlier[0].device}, this is {device}; resume it where it began, "
            "or begin anew with `aiayn train --fresh`"
        )
    if update and earlier and earlier[-1].threads_per_rank != request.threads_per_rank:
        logger.warning("resumed with another number of threads: sums are rounded in another order from here on")
    started = attempts.Started(
        attempt=len(earlier) + 1,
        time=utc_now(),
        job=rank.job,
        host=platform.node(),
        device=device,
        num_gpus=rank.num_ranks if device == "cuda" else 0,
        threads_per_rank=request.threads_per_rank,
        commit=request.commit,
        update=update,
    )
    attempts.append_event(run_folder, started)
    return started


def resolve_device(device: str) -> str:
    """Return `cpu` or `cuda` for `auto`, and refuse `cuda` where there is none."""
    if device == "auto":
        return "cuda" if torch.cuda.is_available() else "cpu"
    if device == "cuda" and not torch.cuda.is_available():
        raise LaunchError("device: cuda, but torch sees no GPU here; set `device: auto`, or run where one is")
    return device


def _write_log_to(path: Path) -> None:
    """Add a file to the root logger, in fairseq's own format, beside whatever fairseq prints."""
    handler = logging.FileHandler(path, encoding="utf-8")
    handler.setFormatter(logging.Formatter("%(asctime)s | %(levelname)s | %(name)s | %(message)s", "%Y-%m-%d %H:%M:%S"))
    logging.getLogger().addHandler(handler)


def _is_finished(full_path: Path | None, request: TrainingRequest) -> bool:
    """Return whether the checkpoint is the last one: fairseq would train one update more."""
    if full_path is None:
        return False
    if update_of(full_path) >= request.training.updates:
        return True
    if request.training.patience_epochs is None:
        return False
    state = load_checkpoint(full_path)["extra_state"][plugin.AiaynTranslationTask.__name__]
    return bool(state["num_validations_without_improvement"] >= request.training.patience_epochs)


def _train_with_fairseq(request: TrainingRequest, rank: Rank, stop: StopFlag, full_path: Path | None) -> None:
    import fairseq.options
    import fairseq_cli.train
    from fairseq.dataclass.utils import convert_namespace_to_omegaconf
    from fairseq.distributed import utils as distributed_utils

    folder = Path(request.run_folder) / "checkpoints"
    keeper = CheckpointKeeper(
        folder,
        num_models=request.num_models,
        updates=request.training.updates,
        save_interval_updates=request.training.save_interval_updates,
    )
    compat.install_saving(
        keeper.save, is_due=keeper.is_due, stop_is_requested=stop.is_set_anywhere, stop=StopTraining
    )
    flags = _flags(request, rank) + (["--restore-file", str(full_path)] if full_path else [])
    parser = fairseq.options.get_training_parser()
    arguments = fairseq.options.parse_args_and_arch(parser, input_args=flags)
    distributed_utils.call_main(convert_namespace_to_omegaconf(arguments), fairseq_cli.train.main)


def _flags(request: TrainingRequest, rank: Rank) -> list[str]:
    device = resolve_device(request.training.device)
    folder = str(Path(request.run_folder) / "checkpoints")
    flags = train_flags(
        request.training, request.data, seed=request.seed, save_folder=folder, device=device, num_ranks=rank.num_ranks
    )
    if rank.num_ranks == 1:
        return flags
    os.environ.setdefault("MASTER_ADDR", "127.0.0.1")
    os.environ.setdefault("MASTER_PORT", str(20000 + int(rank.job) % 40000))
    os.environ.update(RANK=str(rank.index), WORLD_SIZE=str(rank.num_ranks), LOCAL_RANK=str(rank.local_index))
    return [
        *flags, "--distributed-init-method", "env://", "--distributed-no-spawn",
        "--distributed-world-size", str(rank.num_ranks), "--distributed-rank", str(rank.index),
        "--distributed-backend", "nccl" if device == "cuda" else "gloo", "--ddp-backend", "legacy_ddp",
        "--device-id", str(rank.local_index), "--load-checkpoint-on-all-dp-ranks",
    ]  # fmt: skip


def _make_record(request: TrainingRequest, run_folder: Path, started: attempts.Started) -> TrainRecord:
    folder = run_folder / "checkpoints"
    full_path, _ = newest_whole_full(folder)
    assert full_path is not None, "a finished training has saved its last update"
    state = load_checkpoint(full_path)["extra_state"][plugin.AiaynTranslationTask.__name__]
    models = list_checkpoints(folder, "model")
    tensors: dict[str, Any] = load_checkpoint(models[-1])["model"]
    summary = attempts.summarise_attempts(attempts.read_events(run_folder))
    is_gpu = started.device == "cuda"
    return TrainRecord(
        provenance=gather_provenance(command=request.command),
        run=request.run,
        corpus=request.corpus,
        system=request.system,
        seed=request.seed,
        updates=update_of(full_path),
        wall_seconds=summary.wall_seconds,
        gpu_seconds=summary.gpu_seconds,
        hardware=Hardware(
            device=started.device,
            cpu=_cpu_name(),
            gpu=torch.cuda.get_device_name(0) if is_gpu else "",
            num_gpus=started.num_gpus,
            num_ranks=request.num_ranks,
            threads_per_rank=request.threads_per_rank,
        ),
        tokens=int(state["num_target_tokens"]),
        num_attempts=summary.num_attempts,
        num_parameters=count_parameters(tensors),
        run_folder=str(run_folder),
        log_path=str(run_folder / attempts.LOG_NAME),
        models=[SavedModel(update=update_of(path), path=str(path)) for path in models],
        tensors_sha256=tensors_sha256(tensors),
        training_json=msgspec.json.encode(request.training, order="deterministic").decode(),
    )


def _cpu_name() -> str:
    if sys.platform == "linux":
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").split("\n"):
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor()
