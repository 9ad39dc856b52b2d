"""Measures the costs in Table 1: seconds and operations of four types of layer against n, d, k and
r.

`sizes.csv` lists the sizes of the layers. In each size at most one variable differs from the middle
size. The middle size is so large that the time is spent in products of matrices, and not in calls
of functions. The sizes are timed in several rounds, so that a slow moment of the machine affects
all sizes. The time of a layer is the minimum over all its calls, because other work on the machine
only adds time.

The suffix of a tensor's name is its shape: N = n tokens, D = width d, R = r neighbours.
"""

import math
import time
from functools import partial
from pathlib import Path
from timeit import repeat
from typing import Any

import msgspec
import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.flop_counter import FlopCounterMode

from aiayn.printed import read_rows
from analysis.layers.records import LayerSize, LayerTiming

SIZES_PATH = Path(__file__).with_name("sizes.csv")
NUM_ROUNDS = 7


def self_attention(q_ND: Tensor, k_ND: Tensor, v_ND: Tensor) -> Tensor:
    """Return the self-attention of one head, softmax(q k^T / sqrt(d)) v (equation (1)), shape (N,
    D).
    """
    # Written out, because torch's fused form would not show the cost of the formula.
    weights_NN = (q_ND @ k_ND.mT * q_ND.shape[-1] ** -0.5).softmax(dim=-1)
    return torch.matmul(weights_NN, v_ND)


def restricted_self_attention(q_ND: Tensor, k_ND: Tensor, v_ND: Tensor, *, r: int) -> Tensor:
    """Return the self-attention of each token to the r tokens around it, shape (N, D). Beyond the
    ends of the sequence are zeros.
    """
    around = (0, 0, r // 2, (r - 1) // 2)
    k_NRD, v_NRD = (functional.pad(x, around).unfold(0, r, 1).mT for x in (k_ND, v_ND))
    # Each token is a batch of its own, with a single query.
    return self_attention(q_ND[:, None], k_NRD, v_NRD)[:, 0]


def make_call(size: LayerSize) -> partial[Any]:
    """Return a function that calls one layer of this size on random vectors."""
    n, d, k_or_r = size.n, size.d, size.k_or_r
    if size.layer == "recurrent":
        return partial(nn.RNN(d, d, bias=False), torch.randn(n, d))
    if size.layer == "convolutional":
        convolution = nn.Conv1d(d, d, k_or_r, padding="same", bias=False)
        return partial(convolution, torch.randn(1, d, n))
    vectors = torch.randn(3, n, d)
    if size.layer == "self_attention":
        return partial(self_attention, *vectors)
    return partial(restricted_self_attention, *vectors, r=k_or_r)


@torch.no_grad()
def time_layers() -> list[LayerTiming]:
    """Measure the time of layers of all sizes on one CPU thread in fp32, in CPU seconds of this
    process.
    """
    torch.set_num_threads(1)  # CPU seconds would count waiting threads
    torch.manual_seed(1)
    sizes = [size for _, size in read_rows(SIZES_PATH, LayerSize)]
    calls = [make_call(size) for size in sizes]
    least_seconds = [math.inf] * len(sizes)
    for _ in range(NUM_ROUNDS):
        for index, call in enumerate(calls):
            # Five calls (the default): the first call after another layer is slow.
            five_calls = repeat(call, timer=time.process_time, number=1)
            least_seconds[index] = min(least_seconds[index], *five_calls)
    timings = []
    for size, call, seconds in zip(sizes, calls, least_seconds, strict=True):
        with FlopCounterMode(display=False) as counter:
            call()
        flops = counter.get_total_flops()
        timings.append(LayerTiming(**msgspec.structs.asdict(size), flops=flops, seconds=seconds))
    return timings
