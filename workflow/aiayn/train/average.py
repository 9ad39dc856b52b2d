"""Averages a training's last checkpoints (section 6.1: the last 5 of base, the last 20 of big)."""

from collections.abc import Iterable
from pathlib import Path

import torch

from aiayn.errors import CheckpointError
from aiayn.provenance import gather_provenance, replace_outputs_on_success
from aiayn.records import CheckpointRecord, TrainRecord
from aiayn.train.checkpoints import (
    DICTIONARIES_KEY,
    load_checkpoint,
    model_only_state,
    require_recorded,
    save_whole,
    tensors_sha256,
)


def average_tensors(models: Iterable[dict[str, torch.Tensor]]) -> dict[str, torch.Tensor]:
    """Return the mean of each tensor over several models, summed in float64. The models are read
    one at a time.

    Tied matrices stay tied: tensors that share their memory in the first model share one mean.

    Raises:
        CheckpointError: if the models differ in the names or shapes of their tensors.
    """
    sums: dict[str, torch.Tensor] = {}
    first_name_by_name: dict[str, str] = {}
    dtype_by_name: dict[str, torch.dtype] = {}
    num_models = 0
    for model in models:
        # The first model sets names, shapes and ties. All other models must agree with it.
        if not num_models:
            first_name_by_name = first_names(model)
            shapes = {name: tensor.shape for name, tensor in model.items()}
            dtype_by_name = {name: tensor.dtype for name, tensor in model.items()}
            firsts = dict.fromkeys(first_name_by_name.values())
            sums = {name: torch.zeros(shapes[name], dtype=torch.float64) for name in firsts}
        if {name: tensor.shape for name, tensor in model.items()} != shapes:
            raise CheckpointError(
                "the checkpoints belong to different models; name checkpoints of one training"
            )
        for name, total in sums.items():
            # In float64: twenty float32 values would be rounded at each addition.
            total.add_(model[name])
        num_models += 1
    # The last model is a mapped file. Its pages are freed before the means need memory.
    del model
    means: dict[str, torch.Tensor] = {}
    for name in list(sums):
        # Each sum is freed as its mean is made, so that both are never in memory in full.
        means[name] = (sums.pop(name) / num_models).to(dtype_by_name[name])
    return {name: means[first] for name, first in first_name_by_name.items()}


def first_names(model: dict[str, torch.Tensor]) -> dict[str, str]:
    """Return, by name of a tensor, the first name under which the model has the same matrix."""
    # The shape is part of the key, because a smaller view may begin at the same address.
    first_name_by_storage: dict[tuple[int, torch.Size], str] = {}
    return {
        name: first_name_by_storage.setdefault((tensor.data_ptr(), tensor.shape), name)
        for name, tensor in model.items()
    }


def average_checkpoints(train: TrainRecord, *, last: int, record_path: Path) -> CheckpointRecord:
    """Average the last `last` model checkpoints of a training, write the averaged checkpoint next
    to the record of the average, and return this record.

    Raises:
        CheckpointError: if the training kept fewer checkpoints, or a checkpoint is absent, damaged,
            or not the checkpoint in the record of the training.
    """
    if not 1 <= last <= len(train.models):
        saved_updates = [model.update for model in train.models]
        raise CheckpointError(
            f"{train.run}: the last {last} checkpoints are to be averaged, the run kept"
            f" {len(saved_updates)} ({saved_updates}); lower `average`, or train again with"
            " `aiayn train --fresh --num-models N`"
        )
    chosen = train.models[-last:]
    # Only the last model has a digest in the record. The checksums of the others are checked below.
    require_recorded(chosen[-1].path, train)
    means = average_tensors(
        load_checkpoint(model.path, is_checked=True)["model"] for model in chosen
    )
    # All models of a training have the same config and dictionaries, so the average takes them from
    # the last model.
    newest = load_checkpoint(chosen[-1].path)
    dictionaries = newest["extra_state"].get(DICTIONARIES_KEY, {})
    path = record_path.with_suffix(".pt")
    # The old record is removed before the new checkpoint appears, and the caller writes the new
    # record afterwards. So a record is never next to a checkpoint of a different average.
    with replace_outputs_on_success(record_path) as folder:
        state = model_only_state(newest["cfg"], means, chosen[-1].update, dictionaries)
        save_whole(state, folder / path.name)
    return CheckpointRecord(
        provenance=gather_provenance(),
        run=train.run,
        average=f"last{last}",
        path=path,
        averaged_updates=[model.update for model in chosen],
        tensors_sha256=tensors_sha256(means),
    )
