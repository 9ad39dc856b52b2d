"""The three normalisations, and their places in a layer."""

import pytest
import torch

from aiayn.model.norms import BatchNorm, make_norm
from tests.engine.models import make_batch, make_model


def test_epsilon_stands_beside_the_variance_or_is_added_to_the_standard_deviation() -> None:
    x = torch.tensor([[[1.0, 3.0]]])
    assert float(make_norm("layer", 2, 3.0)(x)[0, 0, 1]) == pytest.approx(1 / (1 + 3) ** 0.5)
    assert float(make_norm("layer_std", 2, 3.0)(x)[0, 0, 1]) == pytest.approx(1 / (2**0.5 + 3))


def test_batch_norm_is_over_the_tokens_that_are_no_padding() -> None:
    norm = BatchNorm(1, 1e-6).train()
    x, hidden = torch.tensor([[[1.0], [3.0], [99.0]]]), torch.tensor([[False, False, True]])
    assert norm(x, hidden).flatten().tolist() == pytest.approx([-1.0, 1.0, 0.0], abs=1e-5)
    assert float(norm.running_mean) == pytest.approx(0.2)  # 0.9 * 0 + 0.1 * 2
    norm.eval()
    assert float(norm(x, hidden)[0, 0].detach()) == pytest.approx(
        (1 - 0.2) / float(norm.running_var) ** 0.5, rel=1e-4
    )


def test_post_norm_ends_in_a_norm_and_pre_norm_in_one_more() -> None:
    post, pre = make_model(), make_model(norm_order="pre")
    assert post.encoder.layer_norm is None
    names = {name for name, _ in pre.named_parameters()} - {
        name for name, _ in post.named_parameters()
    }
    assert names == {
        f"{side}.layer_norm.{part}"
        for side in ("encoder", "decoder")
        for part in ("weight", "bias")
    }


def test_dropout_is_on_sublayers_and_sums_alone_unless_asked_for() -> None:
    """Section 5.4 names residual dropout. With it at 0 a model in training computes what it
    computes in evaluation.
    """
    batch = make_batch()

    def is_random(**changes: float) -> bool:
        model = make_model(**changes).train()
        with torch.no_grad():
            two = [
                model(batch["src_tokens"], None, batch["prev_output_tokens"])[0] for _ in range(2)
            ]
        return not torch.equal(*two)

    assert not is_random()
    for option in ("p_drop", "p_drop_attention", "p_drop_ffn"):
        assert is_random(**{option: 0.5})
