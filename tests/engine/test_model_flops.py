"""The formula of a training's operations agrees with torch's own counter on a step of each
architecture, full size.
"""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from fairseq import tasks
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from aiayn.cost import SentenceLengths, model_flops
from aiayn.spec.system import TrainingSpec, read_system
from aiayn.train import plugin  # registers what the flags name
from aiayn.train.compat import training_config
from tests.engine.tiny_spec import flags_of

__all__ = ["plugin"]

NUM_SYMBOLS = 4_000
NUM_SENTENCES = 2
LENGTHS = SentenceLengths(34, 27)  # unlike, so that no side is taken for the other
# fairseq's convolutional decoder convolves two places beyond a sentence's end and cuts them off,
# which no model needs.
LONG = SentenceLengths(240, 200)
EOS = 2
SYSTEMS = {
    "base": LENGTHS,
    "big": LENGTHS,
    "table3_a_h1": LENGTHS,
    "table3_b_dk16": LENGTHS,
    "additive_attention": LENGTHS,
    "learned_temperature": LENGTHS,
    "untied": LENGTHS,
    "batch_norm": LENGTHS,
    "lstm": LENGTHS,
    "fconv": LONG,
}


def _product_in_place(total: Any, left: Any, right: Any, **_: Any) -> int:
    return 2 * left[0] * left[1] * right[1]


def _convolution(words: Any, kernel: Any, *_: Any, out_shape: Any, **__: Any) -> int:
    """Return the FLOPs of a convolution over (time, batch, channels) with a kernel (width,
    inputs, outputs).
    """
    return 2 * out_shape[0] * out_shape[1] * kernel[0] * kernel[1] * kernel[2]


def _convolution_backward(gradient: Any, words: Any, kernel: Any, *_: Any, **__: Any) -> int:
    """Return the FLOPs of the gradients of input and kernel."""
    return 2 * 2 * gradient[0] * gradient[1] * kernel[0] * kernel[1] * kernel[2]


UNKNOWN_TO_TORCHS_COUNTER = {
    torch.ops.aten.addmm_: _product_in_place,
    torch.ops.aten.conv_tbc: _convolution,
    torch.ops.aten.conv_tbc_backward: _convolution_backward,
}


def count_step(training: TrainingSpec, lengths: SentenceLengths, folder: Path) -> int:
    """Return the operations that torch counts in one forward and backward pass of the model that a
    training builds.
    """
    words = "".join(f"w{index} 1\n" for index in range(NUM_SYMBOLS - 4))
    for language in ("en", "de"):
        (folder / f"dict.{language}.txt").write_text(words, encoding="utf-8", newline="\n")
    cfg = training_config(flags_of(training, folder))
    task = tasks.setup_task(cfg.task)
    model, criterion = task.build_model(cfg.model), task.build_criterion(cfg.criterion)
    optimiser = SimpleNamespace(backward=torch.Tensor.backward)
    counter = FlopCounterMode(display=False, custom_mapping=UNKNOWN_TO_TORCHS_COUNTER)
    # torch's fused LSTM and fused attention of CPUs are unknown to its counter, too
    with torch.backends.mkldnn.flags(enabled=False), sdpa_kernel(SDPBackend.MATH), counter:
        task.train_step(make_sample(lengths), model, criterion, optimiser, update_num=1)
    return int(counter.get_total_flops())


def make_sample(lengths: SentenceLengths) -> dict[str, Any]:
    """Return a batch of sentences without padding, as fairseq's collater gives it."""
    rng = torch.Generator().manual_seed(1)
    source, target = (
        torch.randint(4, NUM_SYMBOLS, (NUM_SENTENCES, int(length)), generator=rng)
        for length in (lengths.source, lengths.target)
    )
    source[:, -1] = target[:, -1] = EOS
    net_input = {
        "src_tokens": source,
        "src_lengths": torch.full((NUM_SENTENCES,), source.shape[1]),
        "prev_output_tokens": target.roll(1, dims=1),
    }
    return {
        "net_input": net_input,
        "target": target,
        "ntokens": target.numel(),
        "nsentences": NUM_SENTENCES,
    }


def by_formula(training: TrainingSpec, lengths: SentenceLengths) -> float:
    """Return the operations of that step as we count them."""
    source_tokens, target_tokens = (
        NUM_SENTENCES * length for length in (lengths.source, lengths.target)
    )
    return model_flops(
        training,
        NUM_SYMBOLS,
        source_tokens=source_tokens,
        target_tokens=target_tokens,
        lengths=lengths,
    )


@pytest.mark.slow
@pytest.mark.parametrize("system", SYSTEMS)
def test_the_formula_is_within_one_percent_of_torchs_counter(
    system: str, tmp_path: Path, record_property: Any
) -> None:
    training, lengths = read_system(system, "paper").training, SYSTEMS[system]
    counted, formula = count_step(training, lengths, tmp_path), by_formula(training, lengths)
    record_property("formula over counted", formula / counted)
    assert formula == pytest.approx(counted, rel=0.01)


def test_the_formula_of_fairseqs_own_transformer_is_torchs_count(tmp_path: Path) -> None:
    training = read_system("revisit_tiny", "multi30k").training
    assert training.architecture == "fairseq_transformer"
    assert by_formula(training, LENGTHS) == pytest.approx(
        count_step(training, LENGTHS, tmp_path), rel=0.01
    )
