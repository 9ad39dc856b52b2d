"""The average of a training's last checkpoints (section 6.1: the last 5 of base, the last 20 of big)."""

from pathlib import Path
from typing import Any

import torch

from aiayn.engine.checkpoints import DICTIONARIES_KEY, load_checkpoint, model_only_state, save_whole, tensors_sha256
from aiayn.errors import CheckpointError
from aiayn.provenance import gather_provenance
from aiayn.records import CheckpointRecord, TrainRecord


def average_tensors(models: list[dict[str, torch.Tensor]]) -> dict[str, torch.Tensor]:
    """Return the mean of each tensor, summed in float64 one tensor at a time, so that memory stays flat in `models`.

    Tied matrices stay tied: a tensor that shares its storage with an earlier one of the first model shares its mean.

    Raises:
        CheckpointError: if the models do not have the same tensors.
    """
    first = models[0]
    for model in models[1:]:
        if {name: t.shape for name, t in model.items()} != {name: t.shape for name, t in first.items()}:
            raise CheckpointError("the checkpoints to average are of different models; give those of one training")
    mean_by_storage: dict[tuple[int, torch.Size], torch.Tensor] = {}
    means = {}
    for name, tensor in first.items():
        storage = (tensor.data_ptr(), tensor.shape)
        if storage not in mean_by_storage:
            mean = torch.zeros_like(tensor, dtype=torch.float64)
            for model in models:
                mean += model[name]
            mean_by_storage[storage] = (mean / len(models)).to(tensor.dtype)
        means[name] = mean_by_storage[storage]
    return means


def average_checkpoints(train: TrainRecord, *, last: int, into: Path) -> CheckpointRecord:
    """Average the last `last` models of a training into one checkpoint and return its record.

    Raises:
        CheckpointError: if the training kept fewer, or one of them is absent or torn.
    """
    if not 1 <= last <= len(train.models):
        kept = [model.update for model in train.models]
        raise CheckpointError(
            f"{train.run}: asked for the last {last} checkpoints, the run kept {len(kept)} ({kept}); "
            "lower `average`, or begin the training anew with `aiayn train --fresh --num-models N`"
        )
    chosen = train.models[-last:]
    states: list[dict[str, Any]] = [load_checkpoint(model.path, is_checked=True) for model in chosen]
    means = average_tensors([state["model"] for state in states])
    dictionaries = states[-1]["extra_state"].get(DICTIONARIES_KEY, {})
    save_whole(model_only_state(states[-1]["cfg"], means, chosen[-1].update, dictionaries), into)
    return CheckpointRecord(
        provenance=gather_provenance(),
        run=train.run,
        average=f"last{last}",
        path=into,
        averaged_updates=[model.update for model in chosen],
        tensors_sha256=tensors_sha256(means),
    )
