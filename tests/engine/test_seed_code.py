"""Attention as two notes on the paper print it: as printed it returns its projections, or fails;
mended, equation (1).

The code here is our own, with the faults that theirs has: one module returns `qkv` before it
attends, overwrites its dropout's rate with the dropout, and never merges its heads; the other is a
function that speaks of `self`.
"""

import math

import pytest
import torch
from torch import Tensor, nn

from aiayn.model.attention import MultiHeadAttention

WIDTH, HEADS = 8, 2


class FusedAttention(nn.Module):
    """Multi-head self-attention with one matrix for queries, keys and values."""

    def __init__(self, *, is_mended: bool) -> None:
        super().__init__()
        self.is_mended = is_mended
        self.qkv = nn.Linear(WIDTH, 3 * WIDTH)
        self.out = nn.Linear(WIDTH, WIDTH)
        if not is_mended:
            self.dropout = 0.1
        self.dropout = nn.Dropout(0.1)  # as printed, it overwrites the rate

    def forward(self, x: Tensor) -> Tensor:
        """Return, as printed, the projections; mended, what the heads read."""
        qkv: Tensor = self.qkv(x)
        if not self.is_mended:
            return qkv
        query, key, value = (
            part.unflatten(-1, (HEADS, -1)).transpose(1, 2) for part in qkv.chunk(3, dim=-1)
        )
        weights = (query @ key.transpose(-2, -1) / math.sqrt(WIDTH // HEADS)).softmax(dim=-1)
        merged = (self.dropout(weights) @ value).transpose(1, 2).flatten(2)
        projected: Tensor = self.out(merged)
        return projected


def attention_as_printed(query: Tensor, key: Tensor, value: Tensor, dropout: float = 0.1) -> Tensor:
    """Attend, in a function that asks a `self` for its scale and never uses its dropout."""
    scores = query @ key.transpose(-2, -1) / self.scale  # type: ignore[name-defined]  # noqa: F821
    attended: Tensor = scores.softmax(dim=-1) @ value
    return attended


def attention_mended(query: Tensor, key: Tensor, value: Tensor, dropout: float = 0.0) -> Tensor:
    """Attend with the scale of equation (1), and with the dropout that it is given."""
    weights = (query @ key.transpose(-2, -1) / math.sqrt(query.shape[-1])).softmax(dim=-1)
    return nn.functional.dropout(weights, dropout) @ value


def ours_of(fused: FusedAttention) -> MultiHeadAttention:
    """Return our attention with the parameters of a fused attention."""
    ours = MultiHeadAttention(
        d_model=WIDTH, num_heads=HEADS, d_k=4, d_v=4, score="scaled", has_biases=True, p_drop=0.0
    )
    parts = zip(fused.qkv.weight.chunk(3), fused.qkv.bias.chunk(3), strict=True)
    for projection, (weight, bias) in zip(
        (ours.q_proj, ours.k_proj, ours.v_proj), parts, strict=True
    ):
        projection.load_state_dict({"weight": weight, "bias": bias})
    ours.out_proj.load_state_dict(fused.out.state_dict())
    return ours


def test_fused_attention_as_printed_returns_its_projections() -> None:
    fused, x = FusedAttention(is_mended=False), torch.randn(2, 5, WIDTH)
    assert fused(x).shape == (2, 5, 3 * WIDTH)
    assert torch.equal(fused(x), fused.qkv(x))
    assert isinstance(fused.dropout, nn.Dropout), "the rate is gone"


def test_fused_attention_mended_is_equation_1() -> None:
    fused, x = FusedAttention(is_mended=True).eval(), torch.randn(2, 5, WIDTH)
    difference = float((fused(x) - ours_of(fused)(x, x)[0]).detach().abs().max())
    print(f"largest difference {difference:.1e}")
    assert difference < 1e-6


def test_the_function_as_printed_fails() -> None:
    x = torch.randn(2, 5, 4)
    with pytest.raises(NameError, match="self"):
        attention_as_printed(x, x, x)


def test_the_function_mended_is_equation_1() -> None:
    query, memory = torch.randn(2, HEADS, 5, 4), torch.randn(2, HEADS, 6, 4)
    ours = MultiHeadAttention(
        d_model=4, num_heads=1, d_k=4, d_v=4, score="scaled", has_biases=False, p_drop=0.0
    )
    for projection in (ours.q_proj, ours.k_proj, ours.v_proj, ours.out_proj):
        nn.init.eye_(projection.weight)
    for head in range(HEADS):
        mended = attention_mended(query[:, head], memory[:, head], memory[:, head])
        assert torch.allclose(mended, ours(query[:, head], memory[:, head])[0], atol=1e-6)
