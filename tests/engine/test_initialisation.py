"""What the weights are before the first update, by bound and spread."""

import math

import pytest
import torch
from torch import Tensor, nn

from aiayn.model.initialisation import glorot_limit
from aiayn.train.fairseq_model import AiaynTransformer
from tests.engine.models import PAD, make_model

WIDTH, INNER = 64, 256


def wide_model(**changes: object) -> AiaynTransformer:
    return make_model(d_model=WIDTH, d_ff=INNER, d_k=32, d_v=32, num_layers=1, **changes)


def bound(weight: Tensor) -> float:
    """Return the largest value, which for a uniform distribution of thousands of draws is within 2
    % of its bound.
    """
    return float(weight.detach().abs().max())


def test_tensor2tensor_fuses_what_it_projects_at_once() -> None:
    model = wide_model()
    layer = model.decoder.layers[0]
    for projection, num_features in (  # of input and output together
        (layer.self_attn.q_proj, 4 * WIDTH),
        (layer.self_attn.k_proj, 4 * WIDTH),
        (layer.self_attn.v_proj, 4 * WIDTH),
        (layer.encoder_attn.q_proj, 2 * WIDTH),
        (layer.encoder_attn.k_proj, 3 * WIDTH),
        (layer.encoder_attn.out_proj, 2 * WIDTH),
        (layer.fc1, WIDTH + INNER),
    ):
        assert bound(projection.weight) == pytest.approx(math.sqrt(6 / num_features), rel=0.02)
    biases = [value for name, value in model.named_parameters() if name.endswith("bias")]
    assert max(bound(one) for one in biases) == 0.0


def test_torch_nn_is_what_torchs_layers_begin_with() -> None:
    ours = wide_model(initialisation="torch_nn").encoder.layers[0]
    torch.manual_seed(1)
    theirs = nn.TransformerEncoderLayer(WIDTH, 2, INNER)
    assert bound(ours.self_attn.q_proj.weight) == pytest.approx(
        bound(theirs.self_attn.in_proj_weight), rel=0.02
    )
    for mine, other in (
        (ours.fc1, theirs.linear1),
        (ours.fc2, theirs.linear2),
        (ours.self_attn.out_proj, theirs.self_attn.out_proj),
    ):
        assert bound(mine.weight) == pytest.approx(bound(other.weight), rel=0.02)
    assert bound(ours.fc1.bias) == pytest.approx(bound(theirs.linear1.bias), rel=0.1)
    assert bound(ours.self_attn.q_proj.bias) == bound(theirs.self_attn.in_proj_bias) == 0.0


def test_xavier_is_on_every_matrix_alone_embeddings_included() -> None:
    model = wide_model(initialisation="xavier", share_embeddings="none")
    matrices = [value for value in model.parameters() if value.dim() == 2]
    assert len(matrices) == 3 + 6 + 10  # embeddings and output; an encoder's layer; a decoder's
    for matrix in matrices:
        assert bound(matrix) == pytest.approx(glorot_limit(*matrix.shape), rel=0.05)


@pytest.mark.parametrize(("kind", "std"), [("d_model", WIDTH**-0.5), ("standard_normal", 1.0)])
def test_embeddings_have_the_spread_of_their_name_and_padding_is_0(kind: str, std: float) -> None:
    weight = wide_model(embeddings=kind).encoder.embed_tokens.weight.detach()
    rows = torch.cat([weight[:PAD], weight[PAD + 1 :]])
    assert float(rows.std()) == pytest.approx(std, rel=0.05)
    assert float(weight[PAD].abs().max()) == 0.0
