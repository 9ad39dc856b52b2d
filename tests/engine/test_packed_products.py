"""On a CPU the decoder's large matrices are laid out for oneDNN, and its logits stay the same."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch.nn import functional

from aiayn.decode import decoder_steps
from aiayn.decode.decoder_steps import TransformerSteps
from tests.engine.models import make_batch, make_model, randomise


@pytest.mark.parametrize("attention_biases", [True, False])
def test_packed_products_give_the_same_logits(
    monkeypatch: pytest.MonkeyPatch, attention_biases: bool
) -> None:
    model = randomise(make_model(attention_biases=attention_biases))
    source_BS = make_batch(left_pad_source=True)["src_tokens"]
    logits = []
    for least_packed in (1, 1 << 20):
        monkeypatch.setattr(decoder_steps, "LEAST_PACKED", least_packed)
        steps = TransformerSteps(model)
        assert (steps.output.packed_weight is not None) == (least_packed == 1)
        with torch.inference_mode():
            steps.start(source_BS)
            first_NV = steps.logits(torch.full((len(source_BS),), 2)).clone()
            steps.keep(torch.arange(len(source_BS)), None)
            second_NV = steps.logits(first_NV[:, : steps.num_symbols].argmax(dim=1)).clone()
        logits.append((first_NV, second_NV))
    for packed_NV, plain_NV in zip(*logits, strict=True):
        assert torch.allclose(packed_NV, plain_NV, atol=1e-5)
        assert float(plain_NV.std()) > 0.1


def takes_fewer(weight: torch.Tensor) -> torch.Tensor:
    raise RuntimeError("mkldnn::_linear_pointwise() expected at most 4 argument(s)")


def is_doubled(x: torch.Tensor, weight: torch.Tensor, bias: Any, *_: Any) -> torch.Tensor:
    return 2 * functional.linear(x, weight, bias)


@pytest.mark.parametrize(
    "operators",
    [
        {},
        {"_reorder_linear_weight": takes_fewer, "_linear_pointwise": is_doubled},
        {"_reorder_linear_weight": torch.clone, "_linear_pointwise": takes_fewer},
        {"_reorder_linear_weight": torch.clone, "_linear_pointwise": is_doubled},
    ],
    ids=["absent", "other arguments", "too few arguments", "another product"],
)
def test_without_the_private_operators_the_product_is_torchs(
    monkeypatch: pytest.MonkeyPatch, operators: dict[str, Callable[..., Any]]
) -> None:
    monkeypatch.setattr(decoder_steps, "LEAST_PACKED", 1)
    monkeypatch.setattr(torch.ops, "mkldnn", SimpleNamespace(**operators))
    weight, bias = torch.randn(6, 4), torch.randn(6)
    linear, x = decoder_steps._Linear(weight, bias), torch.randn(3, 4)
    assert linear.packed_weight is None
    assert torch.equal(linear(x), functional.linear(x, weight, bias))
