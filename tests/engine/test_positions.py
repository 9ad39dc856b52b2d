"""Positional encodings against section 3.5's formula, and row (E)."""

import math

import pytest
import torch

from aiayn.model.positions import sinusoids
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
