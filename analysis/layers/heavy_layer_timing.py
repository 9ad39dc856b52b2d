"""Measures Table 1: seconds and operations of four types of layer against n, d, k and r.

`sizes.csv` has the sizes. One variable at a time differs from a middle size, which is large enough
that products of matrices, not calls, take the time. The sizes are timed in several rounds, so that
a slow moment of the machine affects all of them. The minimum over the rounds counts, because other
work only adds time.

Shapes are in the names: N = n tokens, D = d, K = k, R = r.
"""

import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from statistics import median
from timeit import timeit

import msgspec
import torch
from torch import Tensor
from torch.nn import functional
from torch.utils.flop_counter import FlopCounterMode

from aiayn.machine import cpu_name
from aiayn.printed import read_rows
from analysis.layers.records import LayerSize, LayerTiming, TimedLayers

SIZES_PATH = Path(__file__).with_name("sizes.csv")
NUM_ROUNDS = 7
LEAST_SECONDS = 0.004  # of a timing: a quicker layer is called several times


def read_sizes() -> list[LayerSize]:
    """Return the sizes that are timed, 44 in all."""
    return [size for _, size in read_rows(SIZES_PATH, LayerSize)]


def self_attention(q_ND: Tensor, k_ND: Tensor, v_ND: Tensor) -> Tensor:
    """Return softmax(q k^T / sqrt(d)) v (equation (1)), one head: (N, D)."""
    # Written out, because torch's fused form would not show the cost of the formula.
    weights_NN = (q_ND @ k_ND.mT * q_ND.shape[-1] ** -0.5).softmax(dim=-1)
    read_ND: Tensor = weights_NN @ v_ND
    return read_ND


def restricted_self_attention(q_ND: Tensor, k_ND: Tensor, v_ND: Tensor, *, r: int) -> Tensor:
    """Return equation (1) over the r tokens around each token, (N, D). Zeros beyond the ends."""
    around = (0, 0, r // 2, (r - 1) // 2)
    k_NRD, v_NRD = (functional.pad(x, around).unfold(0, r, 1).mT for x in (k_ND, v_ND))
    # Each token is a batch of its own, with a single query.
    return self_attention(q_ND[:, None], k_NRD, v_NRD)[:, 0]


def recurrent(x_ND: Tensor, input_DD: Tensor, state_DD: Tensor) -> Tensor:
    """Return the states h_t = tanh(x_t W + h_(t-1) U) of a simple recurrence, (N, D).

    The products with W are computed together.
    """
    state_1D = torch.zeros_like(x_ND[:1])
    states = []
    for from_input_D in x_ND @ input_DD:
        state_1D = torch.addmm(from_input_D, state_1D, state_DD).tanh()
        states.append(state_1D)
    return torch.cat(states)


def convolutional(x_1DN: Tensor, kernel_DDK: Tensor) -> Tensor:
    """Return the convolution with a centred kernel of odd width, padded with zeros: (1, D, N)."""
    return functional.conv1d(x_1DN, kernel_DDK, padding=kernel_DDK.shape[2] // 2)


def make_call(size: LayerSize) -> Callable[[], Tensor]:
    """Return a function that calls one layer of this size on random vectors."""
    n, d = size.n, size.d
    if size.layer == "recurrent":
        return partial(recurrent, torch.randn(n, d), torch.randn(d, d), torch.randn(d, d))
    if size.layer == "convolutional":
        return partial(convolutional, torch.randn(1, d, n), torch.randn(d, d, size.k))
    vectors = torch.randn(3, n, d)
    if size.layer == "self_attention":
        return partial(self_attention, *vectors)
    return partial(restricted_self_attention, *vectors, r=size.r)


def counted_flops(call: Callable[[], Tensor]) -> int:
    """Return the number of operations of a call by torch's own counter."""
    with FlopCounterMode(display=False) as counter:
        call()
    return int(counter.get_total_flops())


@torch.no_grad()
def time_layers(sizes: Sequence[LayerSize]) -> TimedLayers:
    """Time layers of these sizes on one CPU thread in fp32, in CPU seconds of this process."""
    torch.set_num_threads(1)  # CPU seconds would count waiting threads
    torch.manual_seed(1)
    calls = [make_call(size) for size in sizes]
    flops = [counted_flops(call) for call in calls]
    # The first call after others is slow, which would hide the exponents of quick layers.
    numbers = []
    for call in calls:
        seconds_once = timeit(call, timer=time.process_time, number=1)
        numbers.append(max(1, round(LEAST_SECONDS / max(seconds_once, 1e-6))))
    rounds = []
    for _ in range(NUM_ROUNDS):
        seconds_by_call = []
        for call, number in zip(calls, numbers, strict=True):
            seconds_by_call.append(timeit(call, timer=time.process_time, number=number) / number)
        rounds.append(seconds_by_call)
    timings = []
    for size, num_flops, *seconds in zip(sizes, flops, *rounds, strict=True):
        timing = LayerTiming(
            **msgspec.structs.asdict(size),
            flops=num_flops,
            seconds=min(seconds),
            median_seconds=median(seconds),
        )
        timings.append(timing)
    return TimedLayers(
        device_name=cpu_name(),
        num_rounds=NUM_ROUNDS,
        torch_version=str(torch.__version__),
        timings=timings,
    )
