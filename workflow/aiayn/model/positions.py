"""Positional encodings (section 3.5). Shapes: B sentences, T tokens, P positions, M = d_model."""

import math

import torch
from torch import Tensor, nn


def sinusoids(num_positions: int, d_model: int) -> Tensor:
    """Return PE(pos, 2i) = sin(pos / 10000^(2i / d_model)) and PE(pos, 2i + 1) the cosine (section 3.5): (P, M)."""
    angles_PI = _angles(num_positions, 10000.0 ** (-torch.arange(0, d_model, 2, dtype=torch.float64) / d_model))
    return torch.stack([angles_PI.sin(), angles_PI.cos()], dim=-1).flatten(1).float()


def sinusoids_in_halves(num_positions: int, d_model: int) -> Tensor:
    """Return tensor2tensor's form: all sines, then all cosines, wavelengths 2 pi to exactly 10000 * 2 pi: (P, M).

    `common_attention.py` of v1.0.4, and fairseq's `sinusoidal_positional_embedding.py`.
    """
    half = d_model // 2
    rate = math.log(10000.0) / max(1, half - 1)
    angles_PI = _angles(num_positions, torch.exp(torch.arange(half, dtype=torch.float64) * -rate))
    return torch.cat([angles_PI.sin(), angles_PI.cos()], dim=1).float()


def _angles(num_positions: int, frequencies_I: Tensor) -> Tensor:
    return torch.arange(num_positions, dtype=torch.float64)[:, None] * frequencies_I


def count_positions(padding_mask_BT: Tensor) -> Tensor:
    """Return each token's place among those of its sentence, from 0; padding, on whichever side, is not counted."""
    return ((~padding_mask_BT).long().cumsum(dim=1) - 1).clamp(min=0)


class Positions(nn.Module):
    """A table of one vector a position: fixed sinusoids, or learned (row (E) of Table 3).

    `offset` is the row of the first token: 0 for the paper and tensor2tensor, 2 for fairseq's own checkpoints.
    """

    def __init__(self, kind: str, *, max_positions: int, d_model: int, offset: int) -> None:
        super().__init__()
        self.offset = offset
        num_rows = max_positions + offset
        if kind == "learned":
            self.weight = nn.Parameter(torch.empty(num_rows, d_model))
        else:
            make = sinusoids if kind == "sinusoidal" else sinusoids_in_halves
            self.register_buffer("weight", make(num_rows, d_model), persistent=False)

    def forward(self, position_BT: Tensor) -> Tensor:
        """Return the vectors of positions, (B, T, M)."""
        return nn.functional.embedding(position_BT + self.offset, self.weight)
