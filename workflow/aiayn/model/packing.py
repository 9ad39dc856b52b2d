"""Packs sentences one after the other instead of padding them, where the device has attention for that.

Only GPUs have it (`torch.nn.attention.varlen`, FlashAttention), in bf16 and without dropout on the weights; elsewhere
batches are padded and masked. Nothing here waits for a GPU: how many tokens there are is known where batches are made.

Shapes: B sentences, T tokens of the longest, N tokens of all, H heads, D = d_k = d_v.
"""

import inspect
from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

FIRST_CAPABILITY = (8, 0)  # of GPUs that FlashAttention runs on
WIDEST_HEAD, WIDTH_MULTIPLE = 256, 8


class Packing(NamedTuple):
    """Where the tokens of a padded batch are: places in (B * T), and each sentence's first among the N, and N."""

    index_N: Tensor
    start_B1: Tensor
    longest: int

    def pack(self, x_BT: Tensor) -> Tensor:
        """Return what is not padding, (1, N)."""
        return x_BT.flatten().index_select(0, self.index_N)[None]


def packing_of(padding_mask_BT: Tensor, num_tokens: int) -> Packing:
    """Return the packing of a batch with `num_tokens` beside its padding, where `padding_mask_BT` is True.

    `num_tokens` is asked for because counting them would have the host wait for the GPU.
    """
    index_N = padding_mask_BT.flatten().byte().argsort(stable=True)[:num_tokens]  # in their order, before all padding
    length_B = (~padding_mask_BT).sum(dim=1, dtype=torch.int32)
    return Packing(index_N, functional.pad(length_B.cumsum(0, dtype=torch.int32), (1, 0)), padding_mask_BT.shape[1])


def can_pack(model: Any, x: Tensor) -> bool:
    """Return whether a model's attention can be computed without padding: its form, the device and the precision."""
    if not x.is_cuda or not torch.is_autocast_enabled("cuda") or torch.get_autocast_dtype("cuda") != torch.bfloat16:
        return False
    attention = model.encoder.layers[0].self_attn
    if torch.cuda.get_device_capability(x.device) < FIRST_CAPABILITY:
        return False
    return has_packed_form(attention.score, attention.d_k, attention.d_v, attention.p_drop)


def has_packed_form(score: str, d_k: int, d_v: int, p_drop_attention: float) -> bool:
    """Return whether FlashAttention has this attention; all versions of torch that are taken here have it."""
    has_width = d_k == d_v <= WIDEST_HEAD and d_k % WIDTH_MULTIPLE == 0
    return has_width and score != "additive" and p_drop_attention == 0.0


@cache
def varlen_attention() -> Callable[..., Any]:
    """Return torch's attention of packed sentences; importing it takes 1.5 CPU seconds, which no CPU is to pay."""
    from torch.nn.attention.varlen import varlen_attn

    return varlen_attn


def attend_packed(
    q_NHD: Tensor, k_KHD: Tensor, v_KHD: Tensor, queries: Packing, keys: Packing, *, is_causal: bool, scale: float
) -> Tensor:
    """Return what each query reads from the keys of its own sentence, (N, H, D)."""
    attend = varlen_attention()
    if "window_size" in inspect.signature(attend).parameters:
        causal: dict[str, Any] = {"window_size": (-1, 0) if is_causal else (-1, -1)}
    else:
        causal = {"is_causal": is_causal}
    read_NHD: Tensor = attend(
        q_NHD, k_KHD, v_KHD, queries.start_B1, keys.start_B1, queries.longest, keys.longest, scale=scale, **causal
    )
    return read_NHD
