"""Measures the costs in Table 1: seconds and operations of four types of layer against n, d, k and
r.

`sizes.csv` lists the sizes of the layers. In each size at most one variable differs from the middle
size. The middle size is so large that the time is spent in products of matrices, and not in calls
of functions. The sizes are timed in several rounds, so that a slow moment of the machine affects
all sizes. The time of a layer is the minimum over the rounds, because other work on the machine
only adds time.

The suffix of a tensor's name is its shape: N = n tokens, D = width d, K = kernel width k, R = r
neighbours.
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
    """Return the 44 sizes of layers that are timed."""
    return [size for _, size in read_rows(SIZES_PATH, LayerSize)]


def self_attention(q_ND: Tensor, k_ND: Tensor, v_ND: Tensor) -> Tensor:
    """Return the self-attention of one head, softmax(q k^T / sqrt(d)) v (equation (1)), shape (N,
    D).
    """
    # Written out, because torch's fused form would not show the cost of the formula.
    weights_NN = (q_ND @ k_ND.mT * q_ND.shape[-1] ** -0.5).softmax(dim=-1)
    read_ND: Tensor = weights_NN @ v_ND
    return read_ND


def restricted_self_attention(q_ND: Tensor, k_ND: Tensor, v_ND: Tensor, *, r: int) -> Tensor:
    """Return the self-attention of each token to the r tokens around it, shape (N, D). Beyond the
    ends of the sequence are zeros.
    """
    around = (0, 0, r // 2, (r - 1) // 2)
    k_NRD, v_NRD = (functional.pad(x, around).unfold(0, r, 1).mT for x in (k_ND, v_ND))
    # Each token is a batch of its own, with a single query.
    return self_attention(q_ND[:, None], k_NRD, v_NRD)[:, 0]


def recurrent(x_ND: Tensor, input_DD: Tensor, state_DD: Tensor) -> Tensor:
    """Return the states h_t = tanh(x_t W + h_(t-1) U) of a simple recurrent layer, shape (N, D).

    The products x_t W of all tokens are computed together, before the recurrence.
    """
    state_1D = torch.zeros_like(x_ND[:1])
    states = []
    for from_input_D in x_ND @ input_DD:
        state_1D = torch.addmm(from_input_D, state_1D, state_DD).tanh()
        states.append(state_1D)
    return torch.cat(states)


def convolutional(x_1DN: Tensor, kernel_DDK: Tensor) -> Tensor:
    """Return the convolution over tokens with a centred kernel of odd width, padded with zeros,
    shape (1, D, N).
    """
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
    """Return the number of floating-point operations of a call, counted by torch."""
    with FlopCounterMode(display=False) as counter:
        call()
    return int(counter.get_total_flops())


@torch.no_grad()
def time_layers(sizes: Sequence[LayerSize]) -> TimedLayers:
    """Measure the time of layers of these sizes on one CPU thread in fp32, in CPU seconds of this
    process.
    """
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
