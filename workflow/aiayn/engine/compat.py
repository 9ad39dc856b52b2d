"""Every patch of fairseq-fixed 0.12.3.1, and why. Loaded in each process that uses fairseq (`plugin` imports it).

1. `install`: torch 2.6 and later load checkpoints with `weights_only=True`; fairseq's hold four harmless classes
   besides tensors, which are declared safe, instead of switching the check off.
2. `install_batching`: fairseq drops the last batch of sentences unless their number is a multiple of 8: the longest
   ones would never be trained on, validated on or decoded.
3. `install_saving`: fairseq copies `checkpoint_last.pt` in place (a kill leaves 0 bytes of it), does not fsync, and
   writes the optimiser's state into each checkpoint. Ours is `engine/checkpoints.py`. It also has no way to
   stop at a signal: our wrapper looks after each update whether it was asked to.
"""

import argparse
import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy._core as np_core
import torch

SaveFunction = Callable[[Any, Any, float | None], None]


def install() -> None:
    """Let `torch.load(weights_only=True)` read fairseq's checkpoints; safe to call twice."""
    harmless: list[Any] = [argparse.Namespace, np.dtype, np.ndarray]
    harmless += [np_core.multiarray.scalar, np_core.multiarray._reconstruct]
    harmless += [type(np.dtype(kind)) for kind in ("float32", "float64", "int32", "int64", "bool")]
    torch.serialization.add_safe_globals(harmless)


def install_batching() -> None:
    """Let batches hold every sentence, the last batch being whatever is left; safe to call twice."""
    from fairseq.data import data_utils

    original = getattr(data_utils.batch_by_size, "__wrapped__", data_utils.batch_by_size)

    @functools.wraps(original)
    def batch_by_size(indices: Any, *arguments: Any, **named: Any) -> list[Any]:
        batches = list(original(indices, *arguments, **named))
        num_batched = sum(map(len, batches))  # batches are cut from `indices` in order
        return batches if num_batched == len(indices) else [*batches, np.asarray(indices)[num_batched:]]

    data_utils.batch_by_size = batch_by_size


def install_saving(
    save: SaveFunction,
    *,
    is_due: Callable[[int], bool],
    stop_is_requested: Callable[[], bool],
    stop: type[BaseException],
) -> None:
    """Give fairseq's training loop our saving.

    `save(trainer, epoch_itr, valid_loss)` replaces fairseq's. After each update, `is_due(num_updates)` asks for a save
    beyond those at an epoch's end; `stop_is_requested()` (all ranks must answer alike) for a save and the end of
    training, by raising `stop`.
    """
    import fairseq.checkpoint_utils
    import fairseq_cli.train

    # A second training in the same process must wrap fairseq's own, not the first one's wrapper.
    original = getattr(fairseq_cli.train.validate_and_save, "__wrapped__", fairseq_cli.train.validate_and_save)

    def save_checkpoint(cfg: Any, trainer: Any, epoch_itr: Any, valid_loss: float | None) -> None:
        save(trainer, epoch_itr, valid_loss)

    @functools.wraps(original)
    def validate_and_save(
        cfg: Any, trainer: Any, task: Any, epoch_itr: Any, valid_subsets: list[str], end_of_epoch: bool
    ) -> tuple[list[float | None], bool]:
        valid_losses, should_stop = original(cfg, trainer, task, epoch_itr, valid_subsets, end_of_epoch)
        if should_stop:  # and has saved
            return valid_losses, should_stop
        is_stopping = stop_is_requested()
        if is_stopping or is_due(trainer.get_num_updates()):
            save(trainer, epoch_itr, valid_losses[0])
        if is_stopping:
            raise stop
        return valid_losses, should_stop

    fairseq.checkpoint_utils.save_checkpoint = save_checkpoint
    fairseq_cli.train.validate_and_save = validate_and_save
