"""Every patch of fairseq-fixed 0.12.3.1, and why. Loaded in each process that uses fairseq (`plugin` imports it).

1. `install`: torch 2.6 and later load checkpoints with `weights_only=True`; fairseq's hold four harmless classes
   besides tensors, which are declared safe, instead of switching the check off.
2. `install_saving`: fairseq copies `checkpoint_last.pt` in place (a kill leaves 0 bytes of it), does not fsync, and
   writes the optimiser's state into each checkpoint. Ours is `engine/checkpoints.py`. It also has no way to
   stop at a signal: our wrapper looks after each update whether it was asked to.
"""

import argparse
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



def install_saving(
    save: SaveFunction, *, is_due: Callable[[int], bool], stop_is_requested: Callable[[], bool], stop: type[BaseException]
) -> None:
    """Give fairseq's training loop our saving.

    `save(trainer, epoch_itr, valid_loss)` replaces fairseq's. After each update, `is_due(num_updates)` asks for a save
    beyond those at an epoch's end; `stop_is_requested()` (all ranks must answer alike) for a save and the end of
    training, by raising `stop`.
    """
    import fairseq.checkpoint_utils
    import fairseq_cli.train

    original = fairseq_cli.train.validate_and_save

    def save_checkpoint(cfg: Any, trainer: Any, epoch_itr: Any, valid_loss: float | None) -> None:
        save(trainer, epoch_itr, valid_loss)

    def validate_and_save(
        cfg: Any, trainer: Any, task: Any, epoch_itr: Any, valid_subsets: list[str], end_of_epoch: bool
    ) -> tuple[list[float | None], bool]:
        valid_losses, should_stop = original(cfg, trainer, task, epoch_itr, valid_subsets, end_of_epoch)
        num_updates = trainer.get_num_updates()
        if not should_stop and is_due(num_updates):
            save(trainer, epoch_itr, valid_losses[0])
        if not should_stop and stop_is_requested():
            save(trainer, epoch_itr, valid_losses[0])
            raise stop
        return valid_losses, should_stop

    fairseq.checkpoint_utils.save_checkpoint = save_checkpoint
    fairseq_cli.train.validate_and_save = validate_and_save
