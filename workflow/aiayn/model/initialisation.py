"""Initialises the weights before the first update. The paper does not say how it initialises the
weights, so each method here comes from a different source.
"""

import math

import torch
from torch import Tensor, nn

from aiayn.model.attention import MultiHeadAttention


def glorot_limit(fan_in: int, fan_out: int) -> float:
    """Return the bound of Glorot and Bengio's uniform distribution (2010, equation 16)."""
    return math.sqrt(6.0 / (fan_in + fan_out))


def initialise(model: nn.Module, kind: str) -> None:
    """Initialise all parameters except embeddings and learned positions.

    `tensor2tensor` (v1.0.4, `transformer_base`): Glorot uniform with biases 0. For Glorot's limit,
    W^Q, W^K and W^V of self-attention count as a single matrix. In cross-attention, only W^K and
    W^V count as a single matrix. `torch_nn`: the initialisation of
    torch.nn.TransformerEncoderLayer. `xavier`: Glorot uniform on every matrix of a layer, with the
    biases of torch.nn.Linear.
    """
    for name, module in model.named_modules():
        if isinstance(module, MultiHeadAttention):
            # `encoder_attn` is fairseq's name of the decoder's cross-attention.
            if kind == "xavier":
                _glorot_alone([module.q_proj, module.k_proj, module.v_proj, module.out_proj])
            else:
                _initialise_attention(
                    module, is_cross=name.endswith("encoder_attn"), is_torch_nn=kind == "torch_nn"
                )
            # Bahdanau et al. begin at 0. In the first update no gradient would then reach q and k.
            if module.score == "additive":
                nn.init.normal_(module.additive, std=module.d_k**-0.5)
        # For `torch_nn`, nn.Linear's own initialisation stays. The output layer is initialised with
        # the embeddings (`Transformer.build`).
        elif isinstance(module, nn.Linear) and name.endswith(("fc1", "fc2")) and kind != "torch_nn":
            _glorot_alone([module])
            if kind == "tensor2tensor":
                nn.init.zeros_(module.bias)


def _glorot_alone(projections: list[nn.Linear]) -> None:
    for projection in projections:
        nn.init.xavier_uniform_(projection.weight)


def _initialise_attention(
    attention: MultiHeadAttention, *, is_cross: bool, is_torch_nn: bool
) -> None:
    """Initialise the projections of an attention layer as parts of one large matrix. The
    projections of queries, keys and values form this matrix, but in cross-attention only those of
    keys and values (except with `is_torch_nn`).
    """
    inward = [attention.q_proj, attention.k_proj, attention.v_proj]
    # Glorot's limit is smaller for a wider matrix, so it matters which projections count as one
    # matrix. torch.nn joins all three also in cross-attention.
    groups = [inward[:1], inward[1:]] if is_cross and not is_torch_nn else [inward]
    for group in groups:
        limit = glorot_limit(
            group[0].in_features, sum(projection.out_features for projection in group)
        )
        for projection in group:
            nn.init.uniform_(projection.weight, -limit, limit)
    # torch.nn leaves the weights of its output projection as nn.Linear initialised them.
    if not is_torch_nn:
        nn.init.xavier_uniform_(attention.out_proj.weight)
    for projection in (*inward, attention.out_proj):
        if projection.bias is not None:
            nn.init.zeros_(projection.bias)


def initialise_embedding(
    weight_VM: Tensor, kind: str, *, padding_index: int, is_xavier: bool = False
) -> None:
    """Initialise embeddings from N(0, 1 / d_model), N(0, 1) or Xavier's uniform distribution. The
    embedding of the padding symbol is set to 0.
    """
    with torch.no_grad():
        if is_xavier and kind == "d_model":
            nn.init.xavier_uniform_(weight_VM)
        else:
            nn.init.normal_(
                weight_VM, std=1.0 if kind == "standard_normal" else weight_VM.shape[1] ** -0.5
            )
        weight_VM[padding_index] = 0.0
