"""Positional encodings (section 3.5). Shapes: B sentences, T tokens, P positions, M = d_model."""

import math
from collections.abc import Callable
from typing import Self

import torch
from torch import Tensor, nn


def sinusoids(num_positions: int, d_model: int, dtype: torch.dtype = torch.float32) -> Tensor:
    """Return the positional encodings of section 3.5, shape (P, M): PE(pos, 2i) = sin(pos /
    10000^(2i / d_model)), and PE(pos, 2i + 1) is the cosine of the same angle.
    """
    angles_PI = _angles(
        num_positions, 10000.0 ** (-torch.arange(0, d_model, 2, dtype=torch.float64) / d_model)
    )
    return torch.stack([angles_PI.sin(), angles_PI.cos()], dim=-1).flatten(1).to(dtype)


def sinusoids_in_halves(
    num_positions: int, d_model: int, dtype: torch.dtype = torch.float32
) -> Tensor:
    """Return tensor2tensor's positional encodings, shape (P, M). In each row, all sines come before
    all cosines. The wavelengths go from 2 pi to exactly 10000 * 2 pi.

    Sources: `common_attention.py` of v1.0.4, and fairseq's `sinusoidal_positional_embedding.py`.
    """
    # `half - 1`: the last wavelength is exactly 10000 * 2 pi. The paper's formula stays below it.
    half = d_model // 2
    rate = math.log(10000.0) / max(1, half - 1)
    angles_PI = _angles(num_positions, torch.exp(torch.arange(half, dtype=torch.float64) * -rate))
    return torch.cat([angles_PI.sin(), angles_PI.cos()], dim=1).to(dtype)


def _angles(num_positions: int, frequencies_I: Tensor) -> Tensor:
    # In float64, because fp32 rounds an angle of 1,000 radians by up to 3e-5.
    return torch.arange(num_positions, dtype=torch.float64)[:, None] * frequencies_I


def count_positions(padding_mask_BT: Tensor) -> Tensor:
    """Return each token's position in its sentence, counted from 0 and without padding."""
    # Padding on the left of a source would get -1. It needs any valid row of the table.
    return ((~padding_mask_BT).long().cumsum(dim=1) - 1).clamp(min=0)


class Positions(nn.Module):
    """A table with a vector for each position: fixed sinusoids, or learned vectors (Table 3, row
    (E)).

    `offset` is the row of the table that the first token of a sentence uses: 0 for the paper and
    tensor2tensor, 2 for fairseq's own checkpoints.
    """

    def __init__(self, kind: str, *, max_positions: int, d_model: int, offset: int) -> None:
        super().__init__()
        self.offset = offset
        self.make_table = {"sinusoidal": sinusoids, "sinusoidal_halves": sinusoids_in_halves}.get(
            kind
        )
        # The rows below the offset are never read. fairseq's checkpoints have them.
        num_rows = max_positions + offset
        if self.make_table is None:
            self.weight = nn.Parameter(torch.empty(num_rows, d_model))
        else:
            # Not saved in checkpoints, because the config determines the table.
            self.register_buffer("weight", self.make_table(num_rows, d_model), persistent=False)

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Self:
        """Compute the table of sinusoids again if the model is converted to float64. torch itself
        would only convert the old table, which has been rounded to fp32.
        """
        # nn.Module calls `_apply` for `double()`, `to()` and `cuda()` alike.
        super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        if self.make_table is not None and self.weight.dtype == torch.float64:
            num_rows, d_model = self.weight.shape
            self.register_buffer(
                "weight", fn(self.make_table(num_rows, d_model, torch.float64)), persistent=False
            )
        return self

    def forward(self, position_BT: Tensor) -> Tensor:
        """Return the vector of each position, shape (B, T, M)."""
        return nn.functional.embedding(position_BT + self.offset, self.weight)
