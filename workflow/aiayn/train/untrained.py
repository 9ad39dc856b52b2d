"""Saves the model before its first update, with which a training begins."""

from pathlib import Path

import fairseq.utils
from fairseq import tasks
from omegaconf import OmegaConf

from aiayn.spec.system import TrainingSpec
from aiayn.train import compat, plugin
from aiayn.train.checkpoints import dictionary_sha256s, model_only_state, save_whole
from aiayn.train.fairseq_args import TrainingData, train_flags

__all__ = ["plugin", "save_untrained"]


def save_untrained(training: TrainingSpec, data: TrainingData, *, seed: int, into: Path) -> None:
    """Write the checkpoint of a freshly initialised model, as a training with this seed would begin."""
    flags = train_flags(training, data, seed=seed, save_folder=str(into.parent), device="cpu")
    cfg = compat.training_config(flags)
    fairseq.utils.set_torch_seed(seed)
    task = tasks.setup_task(cfg.task)
    model = task.build_model(cfg.model)
    container = OmegaConf.to_container(cfg, resolve=True, enum_to_str=True)
    save_whole(model_only_state(container, model.state_dict(), 0, dictionary_sha256s(task)), into)
