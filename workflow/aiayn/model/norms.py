"""Normalises a sub-layer's output (section 3.1), by layer normalisation or by the alternatives of
other implementations.

The `forward` method of every normalisation has the arguments x_BTM and padding_mask_BT. The mask is
True at padding. Only batch normalisation uses the mask. Shapes: B sentences, T tokens, M = d_model,
N tokens without padding.
"""

import torch
from torch import Tensor, nn
from torch.nn import functional

# The share of the newest batch in the running mean and variance. It is torch's default.
RUNNING_FRACTION = 0.1


class LayerNorm(nn.LayerNorm):
    """Layer normalisation (Ba et al. 2016) over the M features of a token. Epsilon is added to the
    variance, before the square root.
    """

    def forward(self, x_BTM: Tensor, padding_mask_BT: Tensor | None = None) -> Tensor:
        """Return x normalised. `padding_mask_BT` is not used."""
        return super().forward(x_BTM)


class StdLayerNorm(nn.Module):
    """Layer normalisation as in the Annotated Transformer: epsilon is added to the standard
    deviation, which is computed with M - 1 in place of M.
    """

    def __init__(self, d_model: int, eps: float) -> None:
        super().__init__()
        self.weight, self.bias = (
            nn.Parameter(torch.ones(d_model)),
            nn.Parameter(torch.zeros(d_model)),
        )
        self.eps = eps

    def forward(self, x_BTM: Tensor, padding_mask_BT: Tensor | None = None) -> Tensor:
        """Return x normalised. `padding_mask_BT` is not used."""
        # torch's standard deviation divides by M - 1, unless it is told otherwise.
        std_BT1, mean_BT1 = torch.std_mean(x_BTM, dim=-1, keepdim=True)
        return self.weight * (x_BTM - mean_BT1) / (std_BT1 + self.eps) + self.bias


class BatchNorm(nn.Module):
    """Batch normalisation. Each feature is normalised over the batch's tokens without padding.

    Training updates a running mean and variance, which evaluation uses. Each rank (process) keeps
    its own running mean and variance. The checkpoint contains the values of rank 0.
    """

    running_mean: Tensor
    running_var: Tensor

    def __init__(self, d_model: int, eps: float) -> None:
        super().__init__()
        self.weight, self.bias = (
            nn.Parameter(torch.ones(d_model)),
            nn.Parameter(torch.zeros(d_model)),
        )
        # Buffers, because statistics are saved in checkpoints but are not trained.
        self.register_buffer("running_mean", torch.zeros(d_model))
        self.register_buffer("running_var", torch.ones(d_model))
        self.eps = eps

    def forward(self, x_BTM: Tensor, padding_mask_BT: Tensor | None = None) -> Tensor:
        """Return x normalised, with zeros at padding tokens."""
        visible_BT = (
            torch.ones_like(x_BTM[..., 0], dtype=torch.bool)
            if padding_mask_BT is None
            else ~padding_mask_BT
        )
        # Padding must not enter the means, so the batch is flattened to its visible tokens.
        normalised_NM = functional.batch_norm(
            x_BTM[visible_BT],
            self.running_mean,
            self.running_var,
            self.weight,
            self.bias,
            self.training,
            RUNNING_FRACTION,
            self.eps,
        )
        # The rows return to the positions of their tokens.
        return x_BTM.new_zeros(x_BTM.shape, dtype=normalised_NM.dtype).masked_scatter(
            visible_BT[..., None], normalised_NM
        )


def make_norm(kind: str, d_model: int, eps: float) -> nn.Module:
    """Return the normalisation module for the setting `norm`: `layer`, `layer_std` or `batch`."""
    kinds: dict[str, type[nn.Module]] = {
        "layer": LayerNorm,
        "layer_std": StdLayerNorm,
        "batch": BatchNorm,
    }
    return kinds[kind](d_model, eps=eps)
