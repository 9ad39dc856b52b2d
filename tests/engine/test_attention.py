"""Attention is equation (1) with its masks, and each variant is what its name says, in cases done
by hand.
"""

import math

import pytest
import torch

from aiayn.model.attention import (
    MultiHeadAttention,
    additive_mask,
    chosen_kernels,
)
from tests.engine.models import make_batch, make_model

KINDS = ["scaled", "unscaled", "sqrt_d_model", "temperature", "additive"]


def make_attention(
    score: str = "scaled",
    *,
    d_model: int = 6,
    num_heads: int = 2,
    d_k: int = 3,
    d_v: int = 3,
    has_biases: bool = True,
) -> MultiHeadAttention:
    torch.manual_seed(5)
    attention = MultiHeadAttention(
        d_model=d_model,
        num_heads=num_heads,
        d_k=d_k,
        d_v=d_v,
        score=score,
        has_biases=has_biases,
        p_drop=0.0,
    )
    if score == "additive":
        torch.nn.init.normal_(attention.additive)
    return attention


def identity_attention(score: str) -> MultiHeadAttention:
    """Return one head whose four projections are the identity, so that q, k and v are the input
    itself.
    """
    attention = make_attention(score, d_model=4, num_heads=1, d_k=4, d_v=4, has_biases=False)
    for projection in (attention.q_proj, attention.k_proj, attention.v_proj, attention.out_proj):
        torch.nn.init.eye_(projection.weight)
    return attention


@pytest.mark.parametrize(
    ("score", "first_score"),
    [("scaled", 1.0), ("unscaled", 2.0), ("sqrt_d_model", 1.0), ("temperature", 1.0)],
)
def test_each_kind_divides_by_what_its_name_says(score: str, first_score: float) -> None:
    query = torch.tensor([[[2.0, 0, 0, 0]]])
    memory = torch.tensor([[[1.0, 0, 0, 0], [0.0, 0, 0, 0]]])
    _, weights = identity_attention(score)(query, memory, needs_weights=True)
    assert weights is not None
    assert float(weights[0, 0, 0, 0]) == pytest.approx(1 / (1 + math.exp(-first_score)))


def test_with_several_heads_sqrt_d_model_is_another_scale() -> None:
    query, memory = torch.randn(2, 3, 6), torch.randn(2, 5, 6)
    _, of_keys = make_attention("scaled")(query, memory, needs_weights=True)  # sqrt(3)
    _, of_model = make_attention("sqrt_d_model")(query, memory, needs_weights=True)  # sqrt(6)
    assert of_keys is not None
    assert of_model is not None
    ratio = (of_keys.log() - of_keys.log()[..., :1])[..., 1:] / (
        of_model.log() - of_model.log()[..., :1]
    )[..., 1:]
    assert torch.allclose(ratio, torch.full_like(ratio, math.sqrt(2)), rtol=1e-3)


def test_additive_attention_by_hand() -> None:
    """v = (1, 1, 0, 0): the score is tanh(q_1 + k_1) + tanh(q_2 + k_2)."""
    attention = identity_attention("additive")
    with torch.no_grad():
        attention.additive[:] = torch.tensor([1.0, 1.0, 0.0, 0.0])
    query, memory = (
        torch.tensor([[[0.5, 0.0, 9.0, 9.0]]]),
        torch.tensor([[[0.5, 1.0, 3, 3], [-0.5, 0.0, 4, 4]]]),
    )
    _, weights = attention(query, memory, needs_weights=True)
    scores = torch.tensor([math.tanh(1.0) + math.tanh(1.0), 0.0])
    assert weights is not None
    assert torch.allclose(weights[0, 0, 0], scores.softmax(0))


def test_a_learned_temperature_begins_at_sqrt_d_k() -> None:
    attention = make_attention("temperature", d_k=9)
    assert float(attention.temperature) == 3.0
    x = torch.randn(1, 4, 6)
    attention(x, x)[0].sum().backward()
    assert attention.temperature.grad is not None
    assert float(attention.temperature.grad.abs()) > 0


@pytest.mark.parametrize("score", KINDS)
def test_weights_on_request_are_rows_that_sum_to_one_and_change_no_output(score: str) -> None:
    attention, x = make_attention(score), torch.randn(2, 5, 6)
    hidden = torch.tensor([[False] * 5, [False] * 3 + [True] * 2])
    output, weights = attention(x, x, padding_mask_BK=hidden, needs_weights=True)
    unseen, nothing = attention(x, x, padding_mask_BK=hidden)
    assert weights is not None
    assert torch.allclose(weights.sum(-1), torch.ones(2, 2, 5))
    assert float(weights[1, :, :, 3:].abs().max()) == 0.0
    assert torch.allclose(output, unseen, atol=1e-6)
    assert nothing is None or score == "additive"


def test_a_mask_has_the_type_that_attention_computes_in_and_rows_that_a_gpu_need_not_copy() -> None:
    padding_mask = torch.zeros(2, 21, dtype=torch.bool)
    assert additive_mask(padding_mask, torch.float32).dtype == torch.float32
    with torch.autocast("cpu", dtype=torch.bfloat16):
        mask = additive_mask(padding_mask, torch.float32)
    assert mask.dtype == torch.bfloat16
    assert mask.shape == (2, 1, 1, 21)
    assert mask.stride(0) == 32


def test_the_kernels_are_named_that_torch_chooses() -> None:
    options = {"num_heads": 2, "p_drop": 0.0, "dtype": torch.float32, "device": torch.device("cpu")}
    assert chosen_kernels(d_k=4, d_v=4, **options) == "masked: flash, causal: flash"
    assert chosen_kernels(d_k=4, d_v=8, **options) == "masked: math, causal: math"


@pytest.mark.parametrize(("d_k", "d_v"), [(3, 3), (2, 5), (5, 2)])
@pytest.mark.parametrize("is_causal", [False, True])
@pytest.mark.parametrize("is_padded", [False, True])
def test_fused_kernels_attend_and_learn_as_equation_1_also_where_d_k_is_not_d_v(
    d_k: int, d_v: int, is_causal: bool, is_padded: bool
) -> None:
    """The rows (B) of Table 3 have a smaller d_k than d_v, which needs other kernels of torch."""
    attention = make_attention(d_k=d_k, d_v=d_v).double()
    x, direction = torch.randn(2, 2, 5, 6, dtype=torch.float64).unbind()
    x.requires_grad_()
    hidden = torch.tensor([[False] * 5, [False] * 3 + [True] * 2]) if is_padded else None
    results = []
    for needs_weights in (False, True):  # with weights, the equation as it is written
        output, _ = attention(
            x, x, padding_mask_BK=hidden, is_causal=is_causal, needs_weights=needs_weights
        )
        results.append(
            (output, *torch.autograd.grad((output * direction).sum(), [x, *attention.parameters()]))
        )
    for fused, written in zip(*results, strict=True):
        torch.testing.assert_close(
            fused, written, rtol=1e-5, atol=1e-6
        )  # the written one has its softmax in fp32


@pytest.mark.parametrize("attention", KINDS)
def test_a_later_target_token_changes_nothing_before_it(attention: str) -> None:
    """The masked decoder with its shifted input: token i is predicted only from the tokens
    before it (3.1).
    """
    model, batch = make_model(attention=attention), make_batch()
    before, _ = model(**batch)
    batch["prev_output_tokens"][:, 2] = 9
    after, _ = model(**batch)
    assert torch.allclose(before[:, :2], after[:, :2])
    assert not torch.allclose(before[:, 2:], after[:, 2:])


def test_the_whole_models_weights_are_given_on_request() -> None:
    model, batch = make_model(), make_batch()
    memory = model.encoder(batch["src_tokens"], needs_weights=True)
    _, extra = model.decoder(batch["prev_output_tokens"], memory, needs_weights=True)
    assert [weights.shape for weights in memory["weights"]] == [(3, 2, 7, 7)] * 2
    assert [[part.shape for part in layer] for layer in extra["weights"]] == [
        [(3, 2, 6, 6), (3, 2, 6, 7)]
    ] * 2


def test_gradients_on_a_cpu_are_added_in_the_order_queries_keys_values() -> None:
    """Floating-point sums depend on the order, and records promise equal tensors to the bit."""
    generator = torch.Generator().manual_seed(1)
    attention = make_attention()
    values = torch.randn(2, 5, 6, generator=generator)
    gradients = []
    for project in (
        lambda x: attention._project(x, x),
        lambda x: (attention.q_proj(x), attention.k_proj(x), attention.v_proj(x)),
        lambda x: (attention.k_proj(x), attention.v_proj(x), attention.q_proj(x)),
    ):
        x_BQM = values.clone().requires_grad_()
        total = x_BQM.new_zeros(())
        for outputs in project(x_BQM):
            total = total + outputs.pow(3).sum()
        gradients.append(torch.autograd.grad(total, x_BQM)[0])
    assert torch.equal(gradients[0], gradients[1])
    assert not torch.equal(gradients[1], gradients[2])  # the order can be seen
