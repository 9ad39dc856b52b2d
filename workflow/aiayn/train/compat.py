"""Contains every patch of fairseq-fixed 0.12.3.1, with its reason. Each process that uses fairseq
loads this module, because the module `plugin` imports it.

1. `install`: torch 2.6 and later load checkpoints with `weights_only=True`. fairseq's checkpoints
   contain a few harmless classes of argparse and numpy besides tensors. The patch declares these
   classes safe, so that torch's check of all other classes stays on.
2. `install_batching`: fairseq cuts a data set into batches in a compiled function, which an
   installation without a compiler lacks. Without the compiled function, fairseq drops the last
   batch of a data set unless its number of sentences is a multiple of 8. The last batch has the
   longest sentences, so the longest sentences would never be trained on, validated on or decoded.
3. `install_ranks`: fairseq sums the gradients of several ranks (processes) with two copies for each
   parameter. After each update, fairseq also sums the ranks' logs and waits for the sum.
   `train/gradients.py` avoids the copies, and `train/trainer.py` avoids most of the waits.
4. `install_loaders`: in a training on a GPU, torch's data loader processes make the batches. A
   signal that goes to all processes of a job would end the data loaders before the training could
   save a checkpoint.
5. `training_config`: in every command, the library hydra warns six times about how fairseq calls
   it. The patch suppresses these warnings.
6. `install_saving`: fairseq copies `checkpoint_last.pt` in place (a kill leaves an empty file),
   does not fsync, and writes the optimiser's state into each checkpoint. `train/checkpoints.py`
   replaces fairseq's function that saves. fairseq also cannot stop at a signal, so our wrapper of
   its training loop checks after each update whether a signal came.
"""

import argparse
import functools
import itertools
import math
import multiprocessing
import signal
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import numpy._core as np_core
import torch

from aiayn.errors import ConfigError
from aiayn.train.request import StopFlag

SaveFunction = Callable[[Any, Any, float | None], None]


def install() -> None:
    """Let `torch.load(weights_only=True)` read fairseq's checkpoints. It is safe to call this
    function twice.
    """
    # fairseq up to 0.10 saves its arguments as a Namespace, and some numbers are numpy's. The
    # pickle of such a number refers to a function of numpy and to the class of its dtype.
    harmless: list[Any] = [argparse.Namespace, np.dtype, np.ndarray]
    harmless += [np_core.multiarray.scalar, np_core.multiarray._reconstruct]
    harmless += [type(np.dtype(kind)) for kind in ("float32", "float64", "int32", "int64", "bool")]
    torch.serialization.add_safe_globals(harmless)


def install_batching() -> None:
    """Let fairseq cut data sets into batches by `batch_by_size` of this module.

    It is safe to call this function twice.
    """
    from fairseq.data import data_utils

    # fairseq's data sets look the function up in this module at each call.
    data_utils.batch_by_size = batch_by_size


def batch_by_size(
    indices: Sequence[int],
    num_tokens_fn: Callable[[int], int],
    num_tokens_vec: Sequence[int] | None = None,
    max_tokens: float | None = None,
    max_sentences: int | None = None,
    required_batch_size_multiple: int = 1,
    fixed_shapes: Any = None,
) -> list[np.ndarray]:
    """Cut a list of sentences into batches, in order. fairseq has a function with the same name and
    result, except that this function keeps the last batch.

    The size of a batch is its number of sentences times the length of its longest sentence. A batch
    takes as many sentences as `max_tokens` and `max_sentences` allow. The number of sentences of a
    batch is rounded down to a multiple of `required_batch_size_multiple`, unless it is smaller than
    `required_batch_size_multiple`.

    Args:
        indices: the indices of the sentences.
        num_tokens_fn: number of tokens of a sentence, called only if `num_tokens_vec` is missing.
        num_tokens_vec: number of tokens of each sentence, in the order of `indices`.
        max_tokens: limit of tokens in a batch, with padding. None, 0 or less is no limit.
        max_sentences: limit of sentences in a batch. None, 0 or less is no limit.
        required_batch_size_multiple: the number of sentences is rounded down to a multiple of this.
        fixed_shapes: must be None. fairseq sets this argument for `--num-batch-buckets` and on
            TPUs, which are not supported here.

    Raises:
        ConfigError: if `fixed_shapes` is set, or if a sentence has more than `max_tokens` tokens.
    """
    if fixed_shapes is not None:
        raise ConfigError(
            "batches of fixed shapes are left to fairseq's compiled functions: omit"
            " --num-batch-buckets"
        )
    index_array = np.asarray(indices)
    if num_tokens_vec is None:
        num_tokens_vec = [num_tokens_fn(index) for index in index_array]
    # fairseq passes None or -1 where there is no limit.
    token_limit: float = math.inf
    if max_tokens and max_tokens > 0:
        token_limit = max_tokens
    sentence_limit = len(index_array)
    if max_sentences and max_sentences > 0:
        sentence_limit = max_sentences
    ends = _batch_ends(
        np.asarray(num_tokens_vec).tolist(),
        token_limit,
        sentence_limit,
        required_batch_size_multiple,
    )
    return [index_array[begin:end] for begin, end in itertools.pairwise([0, *ends])]


def _batch_ends(
    num_tokens: list[int], max_tokens: float, max_sentences: int, multiple: int
) -> Iterator[int]:
    """Yield the index of the sentence after the last sentence of each batch."""
    if (longest := max(num_tokens, default=0)) > max_tokens:
        raise ConfigError(
            f"a sentence of {longest} tokens, expected at most the {max_tokens:.0f} of a batch"
            " (fairseq's --max-tokens, max_tokens_per_batch in a system's file); raise the limit"
            " or drop longer sentences"
        )
    begin, longest = 0, 0
    for index, length in enumerate(num_tokens):
        longest = max(longest, length)
        # A batch is padded to its longest sentence. So one long sentence may end a batch that is
        # far from full, and after rounding down the rest may again be too much.
        while index - begin == max_sentences or (index - begin + 1) * longest > max_tokens:
            begin += _rounded_down(index - begin, multiple)
            yield begin
            # The sentences that rounding left over, and the present one.
            longest = max(num_tokens[begin : index + 1])
    while begin < len(num_tokens):
        begin += _rounded_down(len(num_tokens) - begin, multiple)
        yield begin


def _rounded_down(size: int, multiple: int) -> int:
    return size - size % multiple if size > multiple else size


def install_ranks() -> None:
    """Let fairseq use `FlatGradients` and `AiaynTrainer` to train on several ranks (processes).

    It is safe to call this function twice.
    """
    import fairseq_cli.train
    from fairseq.models import distributed_fairseq_model

    from aiayn.train.gradients import FlatGradients
    from aiayn.train.trainer import AiaynTrainer

    # fairseq looks both names up when it makes a trainer and wraps the model.
    fairseq_cli.train.Trainer = AiaynTrainer
    distributed_fairseq_model.LegacyDistributedDataParallel = FlatGradients


def install_loaders() -> None:
    """Make the processes that prepare batches ignore signals that ask the training to stop.

    The thread that starts these data loader processes blocks the signals, and the processes inherit
    the blocked signals. `end_loaders` ends the data loaders that are left at the end of the
    training.
    """
    from fairseq.data import iterators

    class Consumer(iterators.BackgroundConsumer):  # type: ignore[misc]
        """fairseq's thread that starts the data loader processes and takes their batches."""

        def run(self) -> None:
            # In this thread only. The processes that it starts inherit the mask.
            signal.pthread_sigmask(signal.SIG_BLOCK, StopFlag.numbers)
            super().run()

    iterators.BackgroundConsumer = Consumer


def end_loaders() -> None:
    """Kill the processes that make batches, because they ignore the signal TERM, and Python would
    wait for them when it exits.
    """
    # Before the kill, because torch's handler would raise an error at each killed process.
    ignore_ended_loaders()
    for process in multiprocessing.active_children():
        process.kill()


def ignore_ended_loaders() -> None:
    """Remove torch's handler of the signal SIGCHLD. When a process that makes batches ends, the
    handler raises an error in the code that the main process is just running, for example while it
    records the end of an attempt.
    """
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)


def training_config(flags: list[str]) -> Any:
    """Convert flags of `fairseq-train` into fairseq's config object."""
    import fairseq.options
    from fairseq.dataclass.utils import convert_namespace_to_omegaconf

    # The parser is fairseq-train's own, so a flag that it does not know is an error here, too.
    arguments = fairseq.options.parse_args_and_arch(
        fairseq.options.get_training_parser(), input_args=flags
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return convert_namespace_to_omegaconf(arguments)


def install_saving(
    save: SaveFunction,
    *,
    is_due: Callable[[int], bool],
    stop_is_requested: Callable[[], bool],
    stop: type[BaseException],
) -> None:
    """Let fairseq's training loop save checkpoints by the function `save`, and stop on request.

    `save(trainer, epoch_itr, valid_loss)` replaces fairseq's function that saves a checkpoint.
    After each update, a checkpoint is also saved if `is_due(num_updates)` is True. If
    `stop_is_requested()` is True, a checkpoint is saved and the exception `stop` is raised.
    `is_due` and `stop_is_requested` must return the same value on all ranks (processes). A
    checkpoint contains the number of tokens of all ranks, so the ranks sum their logs before each
    checkpoint.
    """
    import fairseq.checkpoint_utils
    import fairseq_cli.train

    # A second training in the same process must wrap fairseq's own function, not our wrapper.
    original = getattr(
        fairseq_cli.train.validate_and_save, "__wrapped__", fairseq_cli.train.validate_and_save
    )

    def save_checkpoint(cfg: Any, trainer: Any, epoch_itr: Any, valid_loss: float | None) -> None:
        trainer.share_log()
        save(trainer, epoch_itr, valid_loss)

    @functools.wraps(original)
    def validate_and_save(
        cfg: Any,
        trainer: Any,
        task: Any,
        epoch_itr: Any,
        valid_subsets: list[str],
        end_of_epoch: bool,
    ) -> tuple[list[float | None], bool]:
        # At the end of an epoch fairseq prints the epoch's means, even if it saves nothing.
        if end_of_epoch:
            trainer.share_log()
        valid_losses, should_stop = original(
            cfg, trainer, task, epoch_itr, valid_subsets, end_of_epoch
        )
        # If fairseq stops, it has already called `save_checkpoint`.
        if should_stop:
            return valid_losses, should_stop
        is_stopping = stop_is_requested()
        if is_stopping or is_due(trainer.get_num_updates()):
            save_checkpoint(cfg, trainer, epoch_itr, valid_losses[0])
        # Only after the save: the next attempt resumes at this update.
        if is_stopping:
            raise stop
        return valid_losses, should_stop

    # fairseq's loop looks both names up at each call, so it is enough to replace them.
    fairseq.checkpoint_utils.save_checkpoint = save_checkpoint
    fairseq_cli.train.validate_and_save = validate_and_save
