"""Every architecture and variant, built small by fairseq from a training's flags, has the size that
its spec says.

Building takes half a second, most of it fairseq's reading of flags: what changes no count comes
several at a time, and only one system of each architecture comes with every sharing of embeddings.
"""

from pathlib import Path
from typing import Any

import msgspec
import pytest
from fairseq import tasks

from aiayn.cost import num_parameters
from aiayn.spec.system import TrainingSpec
from aiayn.train import plugin  # registers what the flags name
from aiayn.train.compat import training_config
from tests.engine.tiny_spec import TRAINING, flags_of

__all__ = ["plugin"]

NUM_SPECIAL_SYMBOLS = 4  # fairseq's <s>, <pad>, </s>, <unk>
SOURCE_SIZE, TARGET_SIZE = 27, 23
TINY = msgspec.structs.replace(
    TRAINING, num_layers=2, d_model=12, d_ff=20, num_heads=3, d_k=4, d_v=4
)
FAIRSEQ: dict[str, Any] = {
    "architecture": "fairseq_transformer", "norm_epsilon": 1e-5, "positions": "sinusoidal_halves",
    "initialisation": "fairseq",
}  # fmt: skip
CHANGES: dict[str, dict[str, Any]] = {
    "base": {},
    "one_head_in_three_layers": {"num_heads": 1, "d_k": 12, "d_v": 12, "num_layers": 3},
    "narrow_keys": {"d_k": 2},
    "wide_keys_and_values": {"d_k": 5, "d_v": 7},
    "pre_norm_batch_norm": {"norm": "batch", "norm_order": "pre"},
    "additive_without_biases": {"attention": "additive", "attention_biases": False},
    "temperature_and_learned_positions": {"attention": "temperature", "positions": "learned"},
    "nothing_more_1": {
        "attention": "unscaled",
        "embeddings": "standard_normal",
        "initialisation": "torch_nn",
        "norm": "layer_std",
    },
    "nothing_more_2": {
        "attention": "sqrt_d_model",
        "positions": "sinusoidal_halves",
        "initialisation": "xavier",
        "p_drop_attention": 0.1,
        "p_drop_ffn": 0.1,
    },
    "fairseq_transformer": FAIRSEQ,
    "fairseq_transformer_pre_norm": FAIRSEQ | {"norm_order": "pre", "positions": "learned"},
    "lstm": {"architecture": "lstm"},
    "lstm_one_layer": {"architecture": "lstm", "num_layers": 1},
    "lstm_of_one_width": {"architecture": "lstm", "d_ff": 12},
    "fconv": {"architecture": "fconv"},
    "fconv_of_one_width": {"architecture": "fconv", "d_ff": 12},
}

ONE_OF_EACH_ARCHITECTURE = ("base", "fairseq_transformer", "lstm", "fconv")
CASES = [(name, True, True) for name in CHANGES] + [
    (name, is_joint, is_tied)
    for name in ONE_OF_EACH_ARCHITECTURE
    for is_joint, is_tied in ((True, False), (False, True), (False, False))
]


def write_dictionaries(folder: Path, *, is_joint: bool) -> None:
    """Write a data-bin that has dictionaries only: all that a model is built from."""
    for language, size in (("en", SOURCE_SIZE), ("de", SOURCE_SIZE if is_joint else TARGET_SIZE)):
        entries = "".join(
            f"{'x' if is_joint else language}{index} 1\n"
            for index in range(size - NUM_SPECIAL_SYMBOLS)
        )
        (folder / f"dict.{language}.txt").write_text(entries, encoding="utf-8", newline="\n")


def count_built(training: TrainingSpec, folder: Path, *, is_joint: bool) -> int:
    """Return how many trained parameters the model has that a training would build."""
    write_dictionaries(folder, is_joint=is_joint)
    cfg = training_config(flags_of(training, folder, is_joint=is_joint))
    model = tasks.setup_task(cfg.task).build_model(cfg.model)
    return sum(parameter.numel() for parameter in model.parameters() if parameter.requires_grad)


@pytest.mark.parametrize(("name", "is_joint", "is_tied"), CASES)
def test_the_built_model_has_exactly_the_counted_size(
    name: str, is_joint: bool, is_tied: bool, tmp_path: Path
) -> None:
    training = msgspec.structs.replace(TINY, tied_embeddings=is_tied, **CHANGES[name])
    built = count_built(training, tmp_path, is_joint=is_joint)
    target_size = SOURCE_SIZE if is_joint else TARGET_SIZE
    assert built == num_parameters(training, SOURCE_SIZE, is_joint, target_size)
