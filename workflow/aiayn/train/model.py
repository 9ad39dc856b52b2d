"""Loads a trained model with its dictionaries, to translate or to be measured."""

from pathlib import Path
from typing import Any

from fairseq import models, tasks
from fairseq.checkpoint_utils import load_checkpoint_to_cpu, load_model_ensemble_and_task

from aiayn.errors import CheckpointError
from aiayn.train import plugin
from aiayn.train.checkpoints import (
    DICTIONARIES_KEY,
    dictionary_sha256s,
    load_checkpoint,
)
from aiayn.train.device import evaluated_on

__all__ = ["load_model", "plugin"]


def load_model(checkpoint_path: Path, data_folder: Path, *, device: str) -> tuple[Any, Any]:
    """Return a checkpoint's model, ready to be evaluated on a device, and its task with the
    data-bin's dictionaries.

    Raises:
        CheckpointError: if the checkpoint is absent or torn, of other dictionaries, or of a task or
            architecture that is not of those that the engine imports of fairseq.
    """
    load_checkpoint(checkpoint_path)  # a torn file is named here, in our words
    state = load_checkpoint_to_cpu(str(checkpoint_path), {"data": str(data_folder)})
    _require_known(state["cfg"], checkpoint_path)
    task = tasks.setup_task(
        state["cfg"]["task"], from_checkpoint=True
    )  # omits flags that are unknown here
    _check_dictionaries(state, task, checkpoint_path, data_folder)
    (model,), _, _ = load_model_ensemble_and_task([str(checkpoint_path)], task=task, state=state)
    return evaluated_on(device, model), task


def _require_known(config: Any, checkpoint_path: Path) -> None:
    for part, registry in (("task", tasks.TASK_REGISTRY), ("model", models.ARCH_MODEL_REGISTRY)):
        settings = config[part]
        name = getattr(settings, "_name", None) or getattr(settings, "arch", None)
        if name not in registry:
            raise CheckpointError(
                f"{checkpoint_path}: {part} {name!r} is not one that is known here; known: "
                f"{', '.join(sorted(registry))}; use fairseq-generate, and `aiayn score` on its log"
            )


def _check_dictionaries(
    state: dict[str, Any], task: Any, checkpoint_path: Path, data_folder: Path
) -> None:
    next_step = (
        f"the dictionaries in {data_folder} are not the model's; give the data-bin that it was"
        " trained on"
    )
    rows = tuple(
        len(state["model"][f"{side}.embed_tokens.weight"]) for side in ("encoder", "decoder")
    )
    sizes = (len(task.source_dictionary), len(task.target_dictionary))
    if rows != sizes:
        raise CheckpointError(
            f"{checkpoint_path}: embeds {rows} symbols, the data-bin has {sizes}: {next_step}"
        )
    trained_with = state["extra_state"].get(
        DICTIONARIES_KEY
    )  # absent from checkpoints that are not ours
    if trained_with is not None and trained_with != dictionary_sha256s(task):
        raise CheckpointError(
            f"{checkpoint_path}: embeds {rows} symbols, as many as the data-bin has, but"
            f" {next_step}"
        )
