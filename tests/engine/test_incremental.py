"""Decoding step by step (`decode/decoder_steps.py`), from cached keys and values, equals one pass
over the whole.
"""

from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor

from aiayn.decode.decoder_steps import TransformerSteps
from aiayn.train.fairseq_model import AiaynTransformer, AiaynTransformerConfig
from tests.engine.table_model import make_dictionary

DICTIONARY = make_dictionary(20)
LONGEST_DIFFERENCE = 1e-5  # of logits, float32
NUM_STEPS = 7
KINDS = [
    {"norm_order": norm_order, "attention": attention}
    for norm_order in ("post", "pre")
    for attention in ("scaled", "unscaled", "sqrt_d_model", "temperature", "additive")
]
KINDS += [{"norm_order": "post", "norm": "batch"}, {"norm_order": "pre", "norm": "layer_std"}]
KINDS += [{"positions": "learned", "attention_biases": False}, {"positions": "sinusoidal_halves"}]
every_kind = pytest.mark.parametrize(
    "kind", KINDS, ids=lambda kind: "-".join(map(str, kind.values()))
)


def make_model(**kind: Any) -> AiaynTransformer:
    """Return a small model, d_k not d_v and neither d_model / h, whose biases and gains are not 0
    and 1.
    """
    values = {
        "num_layers": 2,
        "d_model": 16,
        "d_ff": 24,
        "num_heads": 2,
        "d_k": 8,
        "d_v": 6,
        "p_drop": 0.3,
    }
    values |= {"max_positions": 40, "attention_biases": True}
    torch.manual_seed(1)
    task = SimpleNamespace(source_dictionary=DICTIONARY, target_dictionary=DICTIONARY)
    model = AiaynTransformer.build_model(AiaynTransformerConfig(**values | kind), task)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() == 1:
                parameter.add_(torch.randn_like(parameter), alpha=0.1)
    return model.eval()


def make_source() -> Tensor:
    """Return three sentences of 6, 2 and 4 tokens, padded on the left, (B, S)."""
    source_BS = torch.full((3, 6), DICTIONARY.pad())
    for row, length in enumerate((6, 2, 4)):
        source_BS[row, 6 - length :] = torch.arange(4 + row, 4 + row + length)
    source_BS[:, -1] = DICTIONARY.eos()
    return source_BS


def make_target() -> Tensor:
    """Return three beginnings of a target, each of NUM_STEPS tokens with the start symbol, (B, T)."""
    target_BT = torch.randint(
        4, len(DICTIONARY), (3, NUM_STEPS), generator=torch.Generator().manual_seed(2)
    )
    target_BT[:, 0] = DICTIONARY.eos()
    return target_BT


def step_by_step(
    model: AiaynTransformer, source_BS: Tensor, target_BT: Tensor, *, kept_at_step_4: list[int]
) -> Tensor:
    """Return the logits of each step, (B, T, V); before the fifth, rows are selected as a search
    selects beams.
    """
    steps, kept = TransformerSteps(model), torch.tensor(kept_at_step_4)
    logits: list[Tensor] = []
    with torch.inference_mode():
        steps.start(source_BS)
        for step in range(target_BT.shape[1]):
            if step == 4:
                target_BT, logits = target_BT[kept], [logits_BV[kept] for logits_BV in logits]
                steps.keep(kept, kept)
            else:
                steps.keep(torch.arange(len(target_BT)), None)
            logits.append(steps.logits(target_BT[:, step])[:, : len(DICTIONARY)].clone())
    return torch.stack(logits, dim=1)


@torch.no_grad()
def at_once(model: AiaynTransformer, source_BS: Tensor, target_BT: Tensor) -> Tensor:
    """Return the same logits from one pass, (B, T, V)."""
    logits_BTV, _ = model(source_BS, source_BS.ne(DICTIONARY.pad()).sum(dim=1), target_BT)
    return logits_BTV


def largest_difference(first: Tensor, second: Tensor) -> float:
    return float((first - second).abs().max())


@every_kind
def test_step_by_step_equals_one_pass(kind: dict[str, Any]) -> None:
    """As a search does: the best go on, some twice, and sentences that are done leave the batch."""
    model, source_BS, target_BT, order = make_model(**kind), make_source(), make_target(), [2, 0, 0]
    steps_BTV = step_by_step(model, source_BS, target_BT, kept_at_step_4=order)
    whole_BTV = at_once(model, source_BS[order], target_BT[order])
    assert whole_BTV.std() > 0.1
    assert largest_difference(steps_BTV, whole_BTV) < LONGEST_DIFFERENCE
