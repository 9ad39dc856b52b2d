"""Trains one rank of a run inside its job (section 5), by fairseq in this process, from the newest whole checkpoint."""

import contextlib
import logging
import platform
import traceback
from collections.abc import Iterator
from pathlib import Path, PurePath

import msgspec
import torch

from aiayn.errors import LaunchError
from aiayn.provenance import utc_now
from aiayn.records import write_record
from aiayn.runs import attempts
from aiayn.runs.jobs import describe_error, describe_rank_error, read_rank_errors, remove_rank_errors
from aiayn.train import compat, plugin
from aiayn.train.checkpoints import (
    CheckpointKeeper,
    load_checkpoint,
    newest_whole_full,
    remove_partial_files,
    update_of,
)
from aiayn.train.device import available_device, require_precision, require_promised_gpus, resolve_device
from aiayn.train.energy import EnergyTally, metered
from aiayn.train.fairseq_args import train_flags
from aiayn.train.node_check import check_node
from aiayn.train.rank_lock import rank_error_recorded, rank_lock
from aiayn.train.ranks import Rank, RankGroup, Start, StopVote, joined_ranks, rank_flags
from aiayn.train.rendezvous import is_peer_loss
from aiayn.train.request import StopFlag, TrainingRequest
from aiayn.train.task import AiaynTranslationTask, forget_validations
from aiayn.train.training_record import hash_inputs, make_record

logger = logging.getLogger(__name__)
__all__ = ["plugin", "resolve_device", "train_rank"]  # plugin: imported to register our classes with fairseq


class StopTraining(BaseException):
    """A signal ends the training after it has saved; no `Exception`, so that fairseq does not catch it."""


class RunContext(msgspec.Struct, frozen=True, kw_only=True):
    """What each part of a rank's training needs, derived once; `device` is `cpu` or `cuda`, as found here."""

    request: TrainingRequest
    rank: Rank
    group: RankGroup
    stop: StopFlag
    device: str


class _AttemptStart(msgspec.Struct, frozen=True, kw_only=True):
    """The start of an attempt as rank 0 recorded it, and what it found in the run's folder."""

    started: attempts.Started
    full_path: Path | None
    torn_paths: list[Path]
    input_sha256_by_path: dict[PurePath, str]


def train_rank(request: TrainingRequest, rank: Rank, stop: StopFlag) -> None:
    """Train to the end, or to a signal (`stop.agreed` is it then); rank 0 keeps the run's attempts and its record.

    Raises:
        LaunchError: if another process is training this run, or a node is bad.
        Exception: the error that ended fairseq, after attempts.jsonl has recorded it.
    """
    torch.set_num_threads(request.threads_per_rank)
    run_folder, device = request.folder, available_device(request.training.device)
    with contextlib.ExitStack() as stack:
        with rank_error_recorded(run_folder, rank):
            require_promised_gpus(request)
            require_precision(request, rank.local_rank, device)
            group = stack.enter_context(joined_ranks(rank, device))
        run = RunContext(request=request, rank=rank, group=group, stop=stop, device=device)
        if rank.rank == 0:
            _run_rank_zero(run)
        else:
            with rank_error_recorded(run_folder, rank):
                _run_worker(run)


def _run_worker(run: RunContext) -> None:
    """Run a worker rank: check its node, and train from the checkpoint that rank 0 broadcasts."""
    if not run.group.broadcast_start().is_needed:
        return
    check_node(run.group, run.device, run.request.checkpoint_folder)
    start = run.group.broadcast_start()
    if start.is_needed:
        with contextlib.suppress(StopTraining), metered(EnergyTally(), run.request, run.rank, run.group, run.device):
            _train_with_fairseq(run, start)


def _run_rank_zero(run: RunContext) -> None:
    """Run rank 0: train under the run's lock, if the run is not done.

    Work that may take minutes precedes the first broadcast, because the check's time-outs begin there.
    """
    with contextlib.ExitStack() as stack:
        with rank_error_recorded(run.request.folder, run.rank):
            stack.enter_context(rank_lock(run.request.folder))
            begin = None if attempts.is_done(run.request.folder) else _prepare_attempt(run)
            run.group.broadcast_start(Start(is_needed=begin is not None))
        if begin is not None:
            _attempt(run, begin)


def _prepare_attempt(run: RunContext) -> _AttemptStart:
    """Clean up after earlier attempts, find the checkpoint to resume from, and record the start."""
    run.request.checkpoint_folder.mkdir(parents=True, exist_ok=True)
    remove_partial_files(run.request.folder)
    remove_partial_files(run.request.checkpoint_folder)
    remove_rank_errors(run.request.folder)
    input_sha256_by_path = hash_inputs(run.request)
    full_path, torn_paths = newest_whole_full(run.request.checkpoint_folder)
    update = update_of(full_path) if full_path else 0
    attempts.close_lost_attempt(run.request.folder, update=update)
    started = _record_start(run, update)
    return _AttemptStart(
        started=started, full_path=full_path, torn_paths=torn_paths, input_sha256_by_path=input_sha256_by_path
    )


def _attempt(run: RunContext, begin: _AttemptStart) -> None:
    """Run one attempt on rank 0 and record its end."""
    request, run_folder = run.request, run.request.folder
    tally = EnergyTally()
    try:
        with _log_added(run_folder / attempts.LOG_NAME):
            for torn_path in begin.torn_paths:
                logger.warning(f"{torn_path}: torn; resuming from update {begin.started.update} instead")
            _require_another_job(run)
            check_node(run.group, run.device, run.request.checkpoint_folder)
            _require_same_machine(run, begin.started)
            _train_from(run, begin.full_path, tally)
        ended, hashes = utc_now(), begin.input_sha256_by_path
        record = make_record(
            request, begin.started, num_ranks=run.rank.world_size, until=ended, sha256_by_path=hashes,
            energy=tally.energy,
        )  # fmt: skip
    except StopTraining:
        reason = f"asked by {run.stop.agreed.name if run.stop.agreed else 'an unknown signal'}"
        update = attempts.newest_update(run_folder)
        attempts.end_attempt(run_folder, update=update, outcome="stopped", reason=reason, energy=tally.energy)
        return
    except BaseException as error:
        outcome, reason = _classify_failure(run_folder, error)
        update, reason = attempts.newest_update(run_folder), reason[:2000]
        attempts.end_attempt(run_folder, update=update, outcome=outcome, reason=reason, energy=tally.energy)
        raise
    attempts.end_attempt(run_folder, update=record.updates, outcome="done", reason="", time=ended, energy=tally.energy)
    write_record(record, run_folder / attempts.DONE_NAME)


def _classify_failure(run_folder: Path, error: BaseException) -> tuple[attempts.Outcome, str]:
    """Return outcome and reason of an attempt that an error ended on rank 0.

    The loss of another rank's process is only a symptom: the attempt failed if that rank has recorded an error of its
    own, else it was killed, and the next attempt may succeed.
    """
    if not is_peer_loss(error):
        return "failed", describe_rank_error(0, error)
    others = read_rank_errors(run_folder)
    lost = f"another rank was killed: {describe_error(error).partition('. ')[0]}"
    return ("failed", others[0]) if others else ("lost", lost)


def _record_start(run: RunContext, update: int) -> attempts.Started:
    started = attempts.Started(
        attempt=1 + sum(isinstance(event, attempts.Started) for event in attempts.read_events(run.request.folder)),
        time=utc_now(),
        job=run.rank.job,
        host=platform.node(),
        device=run.device,
        num_gpus=run.rank.world_size if run.device == "cuda" else 0,
        threads_per_rank=run.request.threads_per_rank,
        commit=run.request.commit,
        update=update,
    )
    attempts.append_event(run.request.folder, started)
    return started


def _require_another_job(run: RunContext) -> None:
    """Require that Slurm has not started this training more often than `max_num_jobs` allows."""
    request, rank = run.request, run.rank
    if request.max_num_jobs is not None and rank.job_number > request.max_num_jobs:
        raise LaunchError(
            f"{request.run}: Slurm started it {rank.job_number} times, expected at most {request.max_num_jobs}; repeat "
            "the command to resume it, or raise `max_num_jobs` in the cluster's file"
        )


def _require_same_machine(run: RunContext, started: attempts.Started) -> None:
    """Require the kind of device that the run began on."""
    resolve_device(run.request.training.device)
    *earlier, _ = [event for event in attempts.read_events(run.request.folder) if isinstance(event, attempts.Started)]
    if not started.update or not earlier:
        return
    if earlier[0].device != started.device:
        raise LaunchError(
            f"{run.request.run}: began on {earlier[0].device}, this is {started.device}; resume it where it began, "
            "or start again with `aiayn train --fresh`"
        )
    if earlier[-1].threads_per_rank != started.threads_per_rank:
        logger.warning("resumed with another number of threads: from here on sums are rounded in another order")


@contextlib.contextmanager
def _log_added(path: Path) -> Iterator[None]:
    """Let the root logger also write to a file, in fairseq's format, with the error that ends the block."""
    handler = logging.FileHandler(path, encoding="utf-8")
    handler.setFormatter(logging.Formatter("%(asctime)s | %(levelname)s | %(name)s | %(message)s", "%Y-%m-%d %H:%M:%S"))
    root = logging.getLogger()
    level = root.level
    root.addHandler(handler)
    root.setLevel(logging.INFO)  # for fairseq's statistics, the source of progress
    logging.getLogger("fairseq").setLevel(logging.INFO)  # a driver, in which `debug` trains, sets a higher level
    try:
        yield
    except Exception:
        logger.error(traceback.format_exc())
        raise
    finally:
        root.setLevel(level)
        root.removeHandler(handler)
        handler.close()


def _train_from(run: RunContext, full_path: Path | None, tally: EnergyTally) -> None:
    """Broadcast the start and train from a full checkpoint, or from nothing, unless the checkpoint is the last."""
    run.stop.agreed = run.stop.signal_number
    is_stopping = run.stop.agreed is not None
    is_needed = not is_stopping and not _is_finished(full_path, run.request)
    start = run.group.broadcast_start(Start(is_needed=is_needed, full_path=str(full_path) if full_path else None))
    if is_stopping:
        raise StopTraining
    if start.is_needed:
        with metered(tally, run.request, run.rank, run.group, run.device):
            _train_with_fairseq(run, start)


def _is_finished(full_path: Path | None, request: TrainingRequest) -> bool:
    """Return whether the checkpoint is the last one: fairseq would train one update more."""
    if full_path is None:
        return False
    if update_of(full_path) >= request.training.updates:
        return True
    if request.training.patience_epochs is None:
        return False
    state = load_checkpoint(full_path)["extra_state"][AiaynTranslationTask.__name__]
    return bool(state["num_validations_without_improvement"] >= request.training.patience_epochs)


def _train_with_fairseq(run: RunContext, start: Start) -> None:
    import fairseq_cli.train
    from fairseq.distributed import utils as distributed_utils

    request, training = run.request, run.request.training
    keeper = CheckpointKeeper(
        run.request.checkpoint_folder,
        num_models=request.num_models,
        updates=training.updates,
        save_interval_updates=training.save_interval_updates,
    )
    vote = StopVote(run.stop, run.rank)

    def is_due(num_updates: int) -> bool:
        keeper.require_no_failure()
        return keeper.is_due(num_updates)

    compat.install_saving(keeper.save, is_due=is_due, stop_is_requested=vote.any_rank_stopped, stop=StopTraining)
    forget_validations()
    flags = train_flags(
        training,
        request.data,
        seed=request.seed,
        save_folder=str(run.request.checkpoint_folder),
        device=run.device,
        num_ranks=run.rank.world_size,
    )
    flags += rank_flags(run.rank, run.device) + (["--restore-file", start.full_path] if start.full_path else [])
    with keeper.closed_at_end():
        distributed_utils.call_main(compat.training_config(flags), fairseq_cli.train.main)
