"""Trains one rank (process) of a run inside a job (section 5). The process of the rank calls
fairseq, which resumes from the newest undamaged checkpoint of the run.

An attempt is what one job does for a run, from its start to its end. Rank 0 records attempts in the
run's attempts.jsonl.
"""

import contextlib
import logging
import platform
import traceback
from collections.abc import Iterator
from functools import partial
from pathlib import Path, PurePath

import torch

from aiayn.errors import LaunchError
from aiayn.provenance import utc_now
from aiayn.records import write_record
from aiayn.runs.attempts import AttemptOutcome, Started
from aiayn.runs.checkpoint_names import update_of
from aiayn.runs.run_folder import describe_error, describe_rank_error
from aiayn.train import compat, plugin
from aiayn.train.checkpoints import (
    RESUME_SECONDS,
    CheckpointKeeper,
    load_checkpoint,
    newest_whole_full,
    remove_partial_files,
)
from aiayn.train.device import (
    available_device,
    prepare_device,
    require_precision,
    require_promised_gpus,
    resolve_device,
)
from aiayn.train.fairseq_args import train_flags
from aiayn.train.node_check import check_node
from aiayn.train.rank_lock import BusyRunError, rank_error_recorded, rank_lock
from aiayn.train.ranks import (
    Rank,
    RankGroup,
    any_rank_stopped,
    joined_ranks,
    new_training_group,
    rank_flags,
)
from aiayn.train.rendezvous import is_peer_loss
from aiayn.train.request import StopFlag, StopTraining, TrainingRequest
from aiayn.train.task import AiaynTranslationTask, forget_validations
from aiayn.train.training_record import hash_inputs, make_record

logger = logging.getLogger(__name__)
# The import of `plugin` registers our classes with fairseq. Here the name counts as used.
__all__ = ["plugin", "train_rank"]


def train_rank(request: TrainingRequest, rank: Rank, stop: StopFlag) -> None:
    """Train to the end, or until a signal on which all ranks (processes) agree. A signal that
    stopped the training is in `stop.agreed`. Rank 0 records the attempt and, at the end, the
    training.

    Raises:
        LaunchError: if a different process is training this run, or if a node is bad.
        Exception: any error that ends fairseq. The error is first recorded in attempts.jsonl.
    """
    # Before any computation: the number of threads decides in which order a CPU adds.
    torch.set_num_threads(request.threads_per_rank)
    device = available_device(request.training.device)
    prepare_device(device)
    with contextlib.ExitStack() as stack:
        # Registered first, so it runs last, also after an error. The processes that make batches
        # ignore TERM, and this process would wait for them.
        stack.callback(compat.end_loaders)
        # A signal may come while this rank waits for a different rank.
        stack.enter_context(contextlib.suppress(StopTraining))
        with rank_error_recorded(request.folder, rank):
            require_promised_gpus(request)
            require_precision(request, rank.local_rank, device)
            group = stack.enter_context(joined_ranks(request.folder, rank, device, stop))
        RankTraining(request, rank, group, stop, device).run()


class RankTraining:
    """The training of one rank (process). `device` is `cpu` or `cuda`.

    Only rank 0 holds the run's lock, finds the checkpoint to resume from, writes checkpoints and
    records the attempt.
    """

    # Rank 0 sets these when it prepares its attempt. Other ranks do not have them.
    started: Started
    torn_paths: list[Path]
    input_sha256_by_path: dict[PurePath, str]

    def __init__(
        self, request: TrainingRequest, rank: Rank, group: RankGroup, stop: StopFlag, device: str
    ) -> None:
        self.request = request
        self.rank = rank
        self.group = group
        self.stop = stop
        self.device = device
        self.folder = request.folder

    def run(self) -> None:
        """Train from the checkpoint whose path rank 0 broadcasts. If the run is complete, do
        nothing.
        """
        if self.rank.rank == 0:
            self._run_rank_zero()
            return
        with rank_error_recorded(self.folder, self.rank):
            full_path = self.group.broadcast_start()
            # At most the record is missing, which rank 0 makes without the other ranks.
            if full_path is None:
                return
            check_node(self.group, self.device)
            # Rank 0 records a stop for all ranks.
            with contextlib.suppress(StopTraining):
                self.train_with_fairseq(full_path)

    def train_with_fairseq(self, full_path: str) -> None:
        """Train with fairseq from a full checkpoint, or from initial weights if
        `full_path` is ''.
        """
        import fairseq_cli.train
        from fairseq.distributed import utils as distributed_utils

        request = self.request
        training = self.request.training
        save_folder = self.folder.checkpoints_path
        # In place of fairseq's saving: a thread writes the copied state while the training goes on.
        keeper = CheckpointKeeper(
            save_folder,
            num_models=request.num_models,
            updates=training.updates,
            save_interval_updates=training.save_interval_updates,
            resume_seconds=RESUME_SECONDS if self.rank.world_size == 1 else 0.0,
            before_write=self.require_own_attempt,
        )
        # fairseq calls these functions on every rank, and the ranks must make the same decisions.
        compat.install_saving(
            keeper.save,
            is_due=keeper.is_due,
            stop_is_requested=partial(any_rank_stopped, self.stop, self.rank),
            stop=StopTraining,
        )
        forget_validations()
        flags = train_flags(
            training,
            data_folder=request.data_folder,
            source_language=request.source_language,
            target_language=request.target_language,
            is_joint=request.is_joint,
            seed=request.seed,
            save_folder=str(save_folder),
            device=self.device,
            num_ranks=self.rank.world_size,
        )
        flags += rank_flags(self.rank, self.device)
        if self.rank.world_size > 1:
            # fairseq would make this group itself, with NCCL's own time-out.
            distributed_utils.get_global_group._global_group = new_training_group()
        # Without the flag fairseq looks for checkpoint_last.pt, which we never write, and begins at
        # update 0.
        if full_path:
            flags += ["--restore-file", full_path]
        # The last checkpoint may still be on its way to the disk when fairseq returns.
        with keeper.closed_at_end():
            distributed_utils.call_main(compat.training_config(flags), fairseq_cli.train.main)

    def _run_rank_zero(self) -> None:
        """On rank 0, take the run's lock and train, unless the training of the run is already
        complete.
        """
        with contextlib.ExitStack() as stack:
            with rank_error_recorded(self.folder, self.rank):
                stack.enter_context(rank_lock(self.folder, self.stop))
                # Looked up only with the lock, because a different job may have finished the run
                # while this job waited for it.
                is_done = self.folder.is_done()
                # Everything that may take minutes comes before the broadcast, because the time-outs
                # of the node check begin after it.
                full_path = None if is_done else self._prepare_attempt()
                self.group.broadcast_start(full_path)
            if not is_done:
                self._attempt(full_path)

    def require_own_attempt(self) -> None:
        """Require, on rank 0, that the attempt of this process is the run's newest attempt and
        still open. Other ranks (processes) do not check their attempt, because only rank 0 writes.

        If this machine was suspended for longer than the heartbeat's time-out, a later job may have
        closed this attempt and may already train the run.

        Raises:
            BusyRunError: if a different process has closed the attempt.
        """
        if self.rank.rank == 0 and self.folder.open_attempt() != self.started:
            raise BusyRunError(
                f"{self.folder}: attempt {self.started.attempt} on {self.started.host} was closed"
                " by another process, as it gave no heartbeat; nothing more is written here, and"
                " the newest attempt goes on"
            )

    def _end_attempt(
        self,
        outcome: AttemptOutcome,
        reason: str,
        *,
        update: int | None = None,
        time: str | None = None,
    ) -> None:
        """Record the end of this attempt.

        Raises:
            BusyRunError: if a different process has closed the attempt. Nothing is recorded if a
                BusyRunError is raised.
        """
        self.require_own_attempt()
        self.folder.end_attempt(outcome=outcome, reason=reason, update=update, time=time)

    def _prepare_attempt(self) -> str | None:
        """Clean up after earlier attempts, record the start of this attempt, and return the path of
        the checkpoint from which the training begins.

        The path is '' if there is no checkpoint, and None if the training is already complete.
        """
        folder = self.folder
        folder.checkpoints_path.mkdir(parents=True, exist_ok=True)
        remove_partial_files(folder.path)
        remove_partial_files(folder.checkpoints_path)
        # Errors of an earlier job's ranks would be taken for the cause of this job's end.
        folder.remove_rank_errors()
        self.input_sha256_by_path = hash_inputs(self.request)
        full_path, self.torn_paths = newest_whole_full(folder.checkpoints_path)
        update = update_of(full_path) if full_path else 0
        # An attempt that was killed has a start without an end. It is closed before the next start,
        # so that the hours of all attempts add up.
        folder.close_lost_attempt(update=update)
        self.started = Started(
            attempt=1 + sum(isinstance(event, Started) for event in folder.events()),
            time=utc_now(),
            job=self.rank.job,
            host=platform.node(),
            device=self.device,
            num_gpus=self.rank.world_size if self.device == "cuda" else 0,
            threads_per_rank=self.request.threads_per_rank,
            commit=self.request.commit,
            update=update,
        )
        # Recorded even if no update is left, because this attempt writes the record, which sums the
        # attempts.
        folder.append_event(self.started)
        if _is_finished(full_path, self.request):
            return None
        return str(full_path or "")

    def _attempt(self, full_path: str | None) -> None:
        """Run one attempt of the training and record how it ended. If `full_path` is None, all
        updates have already been made, and only the record of the training is missing.
        """
        folder = self.folder
        try:
            with _log_added(folder.log_path):
                for torn_path in self.torn_paths:
                    logger.warning(
                        f"{torn_path}: torn; resuming from update {self.started.update} instead"
                    )
                if full_path is not None:
                    check_node(self.group, self.device)
                    self._require_same_machine()
                    self.train_with_fairseq(full_path)
            # The record and the event use the same time, so that their seconds agree. Reading and
            # hashing the model, which follow, are not part of the training.
            ended = utc_now()
            record = make_record(
                self.request,
                self.started,
                num_ranks=self.rank.world_size,
                until=ended,
                sha256_by_path=self.input_sha256_by_path,
            )
        except StopTraining:
            compat.ignore_ended_loaders()
            reason = (
                f"asked by {self.stop.agreed.name if self.stop.agreed else 'an unknown signal'}"
            )
            self._end_attempt("stopped", reason)
            return
        # Also an interrupt is recorded: without an end the attempt would count as lost.
        except BaseException as error:
            # Otherwise torch's handler could raise an error while the end is being recorded.
            compat.ignore_ended_loaders()
            outcome, reason = self._classify_failure(error)
            self._end_attempt(outcome, reason[:2000])
            raise
        # The record comes last. To every reader, done.json means that the run has ended, so the
        # attempt must be closed before.
        self._end_attempt("done", "", update=record.updates, time=ended)
        write_record(record, folder.done_path)

    def _classify_failure(self, error: BaseException) -> tuple[AttemptOutcome, str]:
        """Return the outcome and the reason to record for an attempt that ended with an error.

        If this rank (process) only lost the connection to a second rank, the cause is at the second
        rank. If the second rank has recorded an error, the attempt counts as failed. If the second
        rank has not recorded an error, its process was killed, and the next attempt may succeed.
        """
        if not is_peer_loss(error):
            return "failed", describe_rank_error(0, error)
        errors_of_others = self.folder.rank_errors()
        # A signal to the whole job may end a process before all ranks have agreed to stop.
        if self.stop.signal_number is not None and not errors_of_others:
            return (
                "stopped",
                (
                    f"asked by {self.stop.signal_number.name}, which ended another rank before all"
                    " had saved"
                ),
            )
        lost = f"another rank was killed: {describe_error(error).partition('. ')[0]}"
        return ("failed", errors_of_others[0]) if errors_of_others else ("lost", lost)

    def _require_same_machine(self) -> None:
        """Require that this machine has the kind of device (CPU or GPU) on which the run began."""
        # Called only for its error if the system needs a GPU and this machine does not have one.
        resolve_device(self.request.training.device)
        *earlier, started = [event for event in self.folder.events() if isinstance(event, Started)]
        # If nothing of an earlier attempt is used, any kind of device will do.
        if not started.update or not earlier:
            return
        if earlier[0].device != started.device:
            raise LaunchError(
                f"{self.request.run}: began on {earlier[0].device}, this is {started.device};"
                " resume it where it began, or start again with `aiayn train --fresh`"
            )
        # Only a warning, since the training is still correct. Its tensors are not equal to the bit.
        if earlier[-1].threads_per_rank != started.threads_per_rank:
            logger.warning(
                "resumed with another number of threads: from here on sums are rounded in another"
                " order"
            )


@contextlib.contextmanager
def _log_added(path: Path) -> Iterator[None]:
    """In the `with` block, let the root logger also write to a file, in fairseq's format. If an
    error ends the block, its traceback is written to the file, too.
    """
    handler = logging.FileHandler(path, encoding="utf-8")
    handler.setFormatter(
        logging.Formatter(
            "%(asctime)s | %(levelname)s | %(name)s | %(message)s", "%Y-%m-%d %H:%M:%S"
        )
    )
    root = logging.getLogger()
    level = root.level
    root.addHandler(handler)
    # fairseq logs its statistics at INFO. The progress of a run is read from them.
    root.setLevel(logging.INFO)
    # `aiayn` shows only fairseq's warnings, and with the launcher `debug` the training runs in the
    # process of `aiayn train`.
    logging.getLogger("fairseq").setLevel(logging.INFO)
    try:
        yield
    except Exception:
        logger.error(traceback.format_exc())
        raise
    finally:
        root.setLevel(level)
        root.removeHandler(handler)
        handler.close()


def _is_finished(full_path: Path | None, request: TrainingRequest) -> bool:
    """Return whether the training is complete at this checkpoint. From the checkpoint of a complete
    training, fairseq would make one more update.
    """
    if full_path is None:
        return False
    if update_of(full_path) >= request.training.updates:
        return True
    # Before the last update, only early stopping ends a training. Its count is in the state of the
    # task.
    if request.training.patience_epochs is None:
        return False
    state = load_checkpoint(full_path)["extra_state"][AiaynTranslationTask.__name__]
    return bool(state["num_validations_without_improvement"] >= request.training.patience_epochs)
