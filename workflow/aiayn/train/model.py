"""Loads a trained model with its dictionaries, to translate or to be measured; saves one before its
first update.
"""

from pathlib import Path
from typing import Any

import fairseq.utils
from fairseq import models, tasks
from fairseq.checkpoint_utils import load_checkpoint_to_cpu, load_model_ensemble_and_task
from omegaconf import OmegaConf

from aiayn.errors import CheckpointError
from aiayn.spec.system import TrainingSpec
from aiayn.train import compat, plugin
from aiayn.train.checkpoints import (
    DICTIONARIES_KEY,
    dictionary_sha256s,
    load_checkpoint,
    model_only_state,
    save_whole,
)
from aiayn.train.device import evaluated_on
from aiayn.train.fairseq_args import TrainingData, train_flags

__all__ = ["load_model", "plugin", "save_untrained"]


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


def save_untrained(training: TrainingSpec, data: TrainingData, *, seed: int, into: Path) -> None:
    """Write the checkpoint of a freshly initialised model, as a training with this seed would
    begin.
    """
    flags = train_flags(training, data, seed=seed, save_folder=str(into.parent), device="cpu")
    cfg = compat.training_config(flags)
    fairseq.utils.set_torch_seed(seed)
    task = tasks.setup_task(cfg.task)
    model = task.build_model(cfg.model)
    container = OmegaConf.to_container(cfg, resolve=True, enum_to_str=True)
    save_whole(model_only_state(container, model.state_dict(), 0, dictionary_sha256s(task)), into)
