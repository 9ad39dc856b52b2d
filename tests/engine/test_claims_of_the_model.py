"""What readers say of the paper's model and no other test shows: its heads, its dropout, what it does not hold."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from aiayn.engine.attention import MultiHeadAttention
from aiayn.engine.transformer import AiaynTransformer
from tests.engine.models import make_batch, make_model


def make_attention() -> MultiHeadAttention:
    """Return attention of width 6 with 3 heads, d_k 2 and d_v 4, the same weights each time."""
    torch.manual_seed(1)
    return MultiHeadAttention(d_model=6, num_heads=3, d_k=2, d_v=4, score="scaled", has_biases=True, p_drop=0.0).eval()


def logits_of(model: AiaynTransformer) -> Tensor:
    """Return the logits of a fixed batch."""
    batch = make_batch()
    logits, _ = model(batch["src_tokens"], batch["src_lengths"], batch["prev_output_tokens"])
    assert isinstance(logits, Tensor)
    return logits


def test_multi_head_attention_is_the_concatenation_of_its_heads() -> None:
    """Concat(head_1, ..., head_h) W^O with head_i = softmax(Q_i K_i^T / sqrt(d_k)) V_i, each head by itself."""
    attention, rng = make_attention(), torch.Generator().manual_seed(1)
    query, memory = torch.randn(1, 5, 6, generator=rng), torch.randn(1, 7, 6, generator=rng)
    heads = []
    for head in range(3):
        keys, values = slice(2 * head, 2 * head + 2), slice(4 * head, 4 * head + 4)
        q = query[0] @ attention.q_proj.weight[keys].T + attention.q_proj.bias[keys]
        k = memory[0] @ attention.k_proj.weight[keys].T + attention.k_proj.bias[keys]
        v = memory[0] @ attention.v_proj.weight[values].T + attention.v_proj.bias[values]
        heads.append((q @ k.T / 2**0.5).softmax(dim=-1) @ v)
    expected = torch.cat(heads, dim=1) @ attention.out_proj.weight.T + attention.out_proj.bias
    torch.testing.assert_close(attention(query, memory)[0][0], expected)
    swapped = torch.cat([heads[1], heads[0], heads[2]], dim=1) @ attention.out_proj.weight.T + attention.out_proj.bias
    assert not torch.allclose(attention(query, memory)[0][0], swapped)


def dropped_shapes(model: AiaynTransformer) -> list[tuple[int, ...]]:
    """Return the shape of everything that dropout is applied to in one forward pass of training, by any route."""
    shapes: list[tuple[int, ...]] = []

    def note(module: nn.Module, inputs: tuple[Tensor, ...], output: Tensor) -> None:
        shapes.append(tuple(inputs[0].shape))

    for module in model.modules():
        if isinstance(module, nn.Dropout):
            module.register_forward_hook(note)
    logits_of(model.train())
    return shapes


def test_dropout_stands_where_section_5_4_puts_it() -> None:
    """With 2 + 2 layers: 2 sums of embeddings and positions, 2 x 2 sub-layers of the encoder, 2 x 3 of the decoder."""
    source, target = make_batch()["src_tokens"].shape, make_batch()["prev_output_tokens"].shape
    shapes = dropped_shapes(make_model(p_drop=0.1))
    assert shapes.count((*source, 8)) == 1 + 2 * 2
    assert shapes.count((*target, 8)) == 1 + 2 * 3
    assert len(shapes) == 2 + 2 * 2 + 2 * 3


@pytest.mark.parametrize("place", ["p_drop", "p_drop_attention", "p_drop_ffn"])
def test_nothing_is_dropped_where_nothing_is_asked_for(place: str) -> None:
    """In training, two passes differ if and only if something is dropped; so no other dropout hides anywhere."""
    quiet = make_model(p_drop=0.0, p_drop_attention=0.0, p_drop_ffn=0.0).train()
    assert torch.equal(logits_of(quiet), logits_of(quiet))
    changes: dict[str, Any] = {place: 0.5}
    noisy = make_model(**changes).train()
    assert not torch.equal(logits_of(noisy), logits_of(noisy))


def recurrences(model: nn.Module) -> list[str]:
    """Return the names of modules that recur or convolve."""
    kinds = (nn.RNNBase, nn.RNNCellBase, nn.modules.conv._ConvNd)
    return [type(module).__name__ for module in model.modules() if isinstance(module, kinds)]


def test_the_model_holds_no_recurrence_and_no_convolution() -> None:
    assert recurrences(make_model()) == []
    assert recurrences(nn.ModuleList([nn.LSTM(2, 2), nn.Conv1d(2, 2, 3), nn.Linear(2, 2)])) == ["LSTM", "Conv1d"]
