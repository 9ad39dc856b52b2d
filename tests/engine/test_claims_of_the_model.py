"""What readers say of the paper's model and no other test shows: its heads, masks and
recurrence.
"""

import pytest
import torch
from torch import Tensor, nn

from aiayn.model.attention import MultiHeadAttention
from tests.engine.models import make_model


def make_attention(*, has_biases: bool = True) -> MultiHeadAttention:
    """Return attention of width 6 with 3 heads, d_k 2 and d_v 4, the same weights each time."""
    torch.manual_seed(1)
    return MultiHeadAttention(
        d_model=6, num_heads=3, d_k=2, d_v=4, score="scaled", has_biases=has_biases, p_drop=0.0
    ).eval()


def random_tokens(num_tokens: int, seed: int) -> Tensor:
    """Return (1, T, 6)."""
    return torch.randn(1, num_tokens, 6, generator=torch.Generator().manual_seed(seed))


def part_of(projection: nn.Linear, rows: slice) -> nn.Linear:
    """Return the projection that makes some rows of another's output."""
    part = nn.Linear(
        projection.in_features, rows.stop - rows.start, bias=projection.bias is not None
    )
    part.weight = nn.Parameter(projection.weight[rows])
    if projection.bias is not None:
        part.bias = nn.Parameter(projection.bias[rows])
    return part


@pytest.mark.parametrize("has_biases", [True, False])
def test_multi_head_attention_is_the_concatenation_of_its_heads(has_biases: bool) -> None:
    """Concat(head_1, ..., head_h) W^O with head_i = softmax(Q_i K_i^T / sqrt(d_k)) V_i, each head
    by itself.
    """
    attention, query, memory = (
        make_attention(has_biases=has_biases),
        random_tokens(5, 1),
        random_tokens(7, 2),
    )
    heads = []
    for head in range(3):
        keys, values = slice(2 * head, 2 * head + 2), slice(4 * head, 4 * head + 4)
        q, k = part_of(attention.q_proj, keys)(query[0]), part_of(attention.k_proj, keys)(memory[0])
        heads.append(
            (q @ k.T / 2**0.5).softmax(dim=-1) @ part_of(attention.v_proj, values)(memory[0])
        )
    output, _ = attention(query, memory)
    torch.testing.assert_close(output[0], attention.out_proj(torch.cat(heads, dim=1)))
    assert not torch.allclose(
        output[0], attention.out_proj(torch.cat([heads[1], heads[0], heads[2]], dim=1))
    )


def test_a_mask_of_minus_1e9_hides_what_one_of_minus_infinity_hides() -> None:
    """exp(-1e9) is 0 in any float. Only where nothing may be seen do they differ: even weights, or
    not a number.
    """
    attention, x = make_attention(), random_tokens(4, 1)
    hidden = torch.tensor([[False, False, True, True]])
    _, weights = attention(x, x, padding_mask_BK=hidden, needs_weights=True)
    scores = attention(x, x, needs_weights=True)[1].log()  # up to a constant a row
    torch.testing.assert_close(
        scores.masked_fill(hidden[:, None, None], -1e9).softmax(dim=-1), weights
    )
    assert weights[..., 2:].eq(0).all()
    nothing = torch.zeros(1, 2)
    assert (nothing - 1e9).softmax(dim=-1).tolist() == [[0.5, 0.5]]
    assert (nothing - torch.inf).softmax(dim=-1).isnan().all()


def recurrences(model: nn.Module) -> list[str]:
    """Return the names of modules that recur or convolve."""
    kinds = (nn.RNNBase, nn.RNNCellBase, nn.modules.conv._ConvNd)
    return [type(module).__name__ for module in model.modules() if isinstance(module, kinds)]


def test_the_model_holds_no_recurrence_and_no_convolution() -> None:
    assert recurrences(make_model()) == []
    assert recurrences(nn.ModuleList([nn.LSTM(2, 2), nn.Conv1d(2, 2, 3), nn.Linear(2, 2)])) == [
        "LSTM",
        "Conv1d",
    ]
