"""The code that only a GPU runs computes what the CPU's does, and the host waits for nothing;
proved without a GPU.
"""

from typing import Any

import pytest
import torch
from torch import Tensor

from aiayn.model.fused_loss import label_smoothed_nll
from aiayn.train.optimiser import AiaynAdam, AiaynAdamConfig, clip_on_device
from tests.engine.models import PAD, WaitsForTheHost, make_batch, make_model

FORMS: list[dict[str, Any]] = [
    {},
    {"norm_order": "pre", "positions": "learned", "attention_biases": False},
    {"attention": "temperature", "share_embeddings": "none"},
    {"attention": "unscaled", "norm": "layer_std"},
]


def step(model: Any, batch: dict[str, Any], num_tokens: int | None) -> tuple[Tensor, Tensor]:
    """Return the smoothed loss and all gradients as one list."""
    model.zero_grad()
    loss, _ = model(
        batch["src_tokens"],
        None,
        batch["prev_output_tokens"],
        target_BT=batch["target"],
        eps_ls=0.1,
        num_tokens=num_tokens,
    )
    loss.backward()
    gradients = [
        parameter.grad.flatten() for parameter in model.parameters() if parameter.grad is not None
    ]
    return loss.detach(), torch.cat(gradients)


def padded_batch() -> dict[str, Any]:
    """Return sentences of very different lengths."""
    return make_batch(source_lengths=(3, 9, 5), target_lengths=(7, 2, 4))


def test_the_loss_is_the_same_to_the_bit_whether_tokens_are_counted_here_or_before() -> None:
    torch.manual_seed(1)
    features, weight = (
        torch.randn(3, 5, 6, requires_grad=True),
        torch.randn(11, 6, requires_grad=True),
    )
    target = torch.randint(2, 11, (3, 5))
    target[1, 3:] = PAD
    results = []
    for num_tokens in (None, 13):
        sums = label_smoothed_nll(
            features, weight, target, eps_ls=0.1, padding_index=PAD, num_tokens=num_tokens
        )
        gradients = torch.autograd.grad(sums[0], [features, weight])
        results.append([*sums, *gradients])
    assert all(torch.equal(one, other) for one, other in zip(*results, strict=True))


@pytest.mark.parametrize("max_norm", [0.0, 0.5])
def test_gradients_are_clipped_as_fairseq_clips_them(max_norm: float) -> None:
    from fairseq.utils import clip_grad_norm_

    torch.manual_seed(1)
    sides = [
        [torch.nn.Parameter(torch.zeros(3, 2)), torch.nn.Parameter(torch.zeros(4))]
        for _ in range(2)
    ]
    for ours, theirs in zip(*sides, strict=True):
        ours.grad = torch.randn_like(ours)
        theirs.grad = ours.grad.clone()
    assert float(clip_on_device(sides[0], max_norm)) == pytest.approx(
        float(clip_grad_norm_(sides[1], max_norm))
    )
    for ours, theirs in zip(*sides, strict=True):
        torch.testing.assert_close(ours.grad, theirs.grad)


@pytest.mark.parametrize("form", FORMS)
def test_a_step_of_a_counted_batch_asks_nothing_of_the_gpu(form: dict[str, Any]) -> None:
    """Forward, backward, norm of the gradient and Adam."""
    model, batch = make_model(**form).train(), padded_batch()
    optimiser = AiaynAdam(AiaynAdamConfig(lr=[1e-4]), list(model.parameters())).optimizer
    num_tokens = int(batch["target"].ne(PAD).sum())
    with WaitsForTheHost() as waits:
        step(model, batch, num_tokens)
        clip_on_device(list(model.parameters()), 1.0)
        optimiser.step()
    assert waits.num_operators > 200
    assert waits.found == []


def test_a_batch_that_is_not_counted_is_seen_to_ask() -> None:
    model, batch = make_model(), padded_batch()
    with WaitsForTheHost() as waits:
        step(model, batch, None)
    assert waits.found == ["_local_scalar_dense"]
