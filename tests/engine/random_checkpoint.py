"""A checkpoint whose every parameter is drawn at random, and what a model says of one pair of
sentences.
"""

from pathlib import Path
from typing import Any

import fairseq.utils
import torch
from fairseq import tasks
from omegaconf import OmegaConf

from aiayn.records import BinarizedCorpus
from aiayn.spec.system import TrainingSpec
from aiayn.train import compat
from aiayn.train.average import first_names
from aiayn.train.checkpoints import dictionary_sha256s, model_only_state, save_whole
from tests.engine.tiny_spec import flags_of

SOURCE = ["\u2581the", "<unk>", "\u2581", "s", "e", "e"]
TARGET = ["\u2581", "d", "i", "e", "<unk>", "\u2581", "a", "n"]


def save_untrained(training: TrainingSpec, data: BinarizedCorpus, into: Path) -> None:
    """Write the checkpoint of a freshly initialised model, as a training with seed 1 would begin."""
    cfg = compat.training_config(flags_of(training, data.folder, is_joint=data.is_joint))
    fairseq.utils.set_torch_seed(1)
    task = tasks.setup_task(cfg.task)
    model = task.build_model(cfg.model)
    container = OmegaConf.to_container(cfg, resolve=True, enum_to_str=True)
    save_whole(model_only_state(container, model.state_dict(), 0, dictionary_sha256s(task)), into)


def save_random(folder: Path, data: BinarizedCorpus, training: TrainingSpec) -> Path:
    """Write a checkpoint and return its path. A bias of 0 or a gain of 1 would hide what an export
    loses.
    """
    save_untrained(training, data, folder / "untrained.pt")
    state = torch.load(folder / "untrained.pt", weights_only=True)
    generator = torch.Generator().manual_seed(1)
    tensors: dict[str, torch.Tensor] = state["model"]
    for name in sorted(set(first_names(tensors).values())):
        if tensors[name].is_floating_point() and not name.endswith("running_var"):
            tensors[name] += 0.2 * torch.randn(tensors[name].shape, generator=generator)
    torch.save(state, folder / "random.pt")
    return folder / "random.pt"


def log_probabilities(model: Any, task: Any, source: list[str], target: list[str]) -> list[float]:
    """Return the log-probability of each target piece after the pieces before it, and of the end of
    sentence.
    """
    source_ids, target_ids = (
        dictionary.encode_line(" ".join(pieces), add_if_not_exist=False).long()[None]
        for dictionary, pieces in (
            (task.source_dictionary, source),
            (task.target_dictionary, target),
        )
    )
    begun = torch.cat([target_ids[:, -1:], target_ids[:, :-1]], dim=1)
    with torch.no_grad():
        lengths = [torch.tensor([source_ids.shape[1]])] if hasattr(model, "get_targets") else []
        output = model(source_ids, *lengths, begun)  # fairseq's take lengths and return a pair
        logits = output[0] if lengths else output
    values: list[float] = (
        logits[0].log_softmax(dim=-1).gather(1, target_ids[0][:, None])[:, 0].tolist()
    )
    return values
