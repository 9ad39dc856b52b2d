"""Positional encodings against section 3.5's formula, and row (E)."""

import math
from collections.abc import Callable

import pytest
import torch

from aiayn.model.positions import Positions, count_positions, sinusoids, sinusoids_in_halves
from tests.engine.models import make_batch, make_model


@pytest.mark.parametrize("d_model", [4, 64, 512])
def test_sinusoids_are_the_papers_formula(d_model: int) -> None:
    """PE(pos, 2i) = sin(pos / 10000^(2i / d_model)), PE(pos, 2i + 1) = cos(the same)."""
    table = sinusoids(1024, d_model)
    for position in (0, 1, 2, 17, 1023):
        for pair in {0, 1, d_model // 4, d_model // 2 - 1}:
            angle = position / 10000 ** (2 * pair / d_model)
            assert float(table[position, 2 * pair]) == pytest.approx(math.sin(angle), abs=1e-6)
            assert float(table[position, 2 * pair + 1]) == pytest.approx(math.cos(angle), abs=1e-6)


def test_the_first_position_is_0() -> None:
    assert sinusoids(3, 6)[0].tolist() == [0.0, 1.0, 0.0, 1.0, 0.0, 1.0]
    assert sinusoids_in_halves(3, 6)[0].tolist() == [0.0, 0.0, 0.0, 1.0, 1.0, 1.0]


def test_tensor2tensors_form_has_all_sines_first_and_reaches_10000_exactly() -> None:
    table = sinusoids_in_halves(2, 8)
    assert table[1].tolist() == pytest.approx(
        [wave(10000 ** -(index / 3)) for wave in (math.sin, math.cos) for index in range(4)],
        abs=1e-6,
    )


def test_an_offset_of_positions_is_a_rotation_of_the_encoding() -> None:
    """Section 3.5: PE(pos + k) is a linear function of PE(pos), the same for every pos."""
    table, shift, pair = sinusoids(50, 16).double(), 5, 2
    angle = shift / 10000 ** (2 * pair / 16)
    rotation = torch.tensor(
        [[math.cos(angle), math.sin(angle)], [-math.sin(angle), math.cos(angle)]],
        dtype=torch.float64,
    )
    two = table[:, 2 * pair : 2 * pair + 2]
    assert torch.allclose(two[:-shift] @ rotation.T, two[shift:], atol=1e-6)


def test_positions_are_counted_from_0_and_padding_is_not() -> None:
    hidden = torch.tensor([[False, False, True], [True, False, False]])
    assert count_positions(hidden).tolist() == [[0, 1, 1], [0, 0, 1]]


def test_an_offset_is_the_row_of_the_first_token() -> None:
    positions = Positions("sinusoidal", max_positions=5, d_model=4, offset=2)
    assert torch.equal(positions(torch.tensor([[0, 1]]))[0], sinusoids(7, 4)[2:4])


@pytest.mark.parametrize(
    ("kind", "make"),
    [("sinusoidal", sinusoids), ("sinusoidal_halves", sinusoids_in_halves)],
    ids=["paper", "halves"],
)
def test_sinusoids_of_a_float64_model_are_not_rounded_to_fp32(
    kind: str, make: Callable[..., torch.Tensor]
) -> None:
    positions = Positions(kind, max_positions=5, d_model=4, offset=2)
    rounded = positions.weight.clone()
    assert torch.equal(rounded, make(7, 4))
    assert torch.equal(positions.double().weight, make(7, 4, torch.float64))
    assert not torch.equal(positions.weight, rounded.double())
    assert torch.equal(positions.float().weight, rounded)


def test_learned_positions_are_parameters_of_either_side_and_sinusoids_are_none() -> None:
    learned, fixed = make_model(positions="learned"), make_model()
    names = {name for name, _ in learned.named_parameters()} - {
        name for name, _ in fixed.named_parameters()
    }
    assert names == {"encoder.embed_positions.weight", "decoder.embed_positions.weight"}
    assert learned.encoder.embed_positions.weight.shape == (40, 8)
    assert "encoder.embed_positions.weight" not in fixed.state_dict()


def test_without_positions_the_order_of_words_would_not_matter() -> None:
    """A decoder that sees a source in two orders: with positions it differs, with their table at 0
    it does not.
    """
    model, batch = make_model(), make_batch(source_lengths=(4,), target_lengths=(3,))
    turned = batch["src_tokens"][:, [1, 0, 2, 3]]

    def difference() -> float:
        with torch.no_grad():
            two = [
                model(source, None, batch["prev_output_tokens"])[0]
                for source in (batch["src_tokens"], turned)
            ]
        return float((two[0] - two[1]).abs().max())

    assert difference() > 1e-3
    model.encoder.embed_positions.weight.zero_()
    assert difference() < 1e-6
