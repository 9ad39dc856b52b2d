"""Measures Table 1: seconds and operations of four types of layer against n, d, k and r.

`sizes.csv` has the sizes. One variable at a time differs from a middle size, which is large enough
that products of matrices, not calls, take the time. The sizes are timed in several rounds, so that
a slow moment of the machine affects all of them. The minimum over the rounds counts, because other
work only adds time.

Shapes are in the names: N = n tokens, D = d, K = k, R = r.
"""

import random
import time
import zlib
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from statistics import median

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
LEAST_SECONDS = 0.004  # duration of a timing: a quicker layer is called several times
Call = Callable[[], Tensor]


def read_sizes() -> list[LayerSize]:
    """Return the sizes that are timed, 44 in all."""
    return [size for _, size in read_rows(SIZES_PATH, LayerSize)]


def self_attention(q_ND: Tensor, k_ND: Tensor, v_ND: Tensor) -> Tensor:
    """Return softmax(q k^T / sqrt(d)) v (equation (1)), one head: (N, D)."""
    weights_NN = (q_ND @ k_ND.T * q_ND.shape[1] ** -0.5).softmax(dim=-1)
    read_ND: Tensor = weights_NN @ v_ND
    return read_ND


def restricted_self_attention(q_ND: Tensor, k_ND: Tensor, v_ND: Tensor, *, r: int) -> Tensor:
    """Return equation (1) over the r tokens around each token, (N, D). Zeros beyond the ends."""

    def windows(x_ND: Tensor) -> Tensor:
        return functional.pad(x_ND, (0, 0, r // 2, (r - 1) // 2)).unfold(0, r, 1)

    scores_N1R = torch.bmm(q_ND[:, None], windows(k_ND)) * q_ND.shape[1] ** -0.5
    return torch.bmm(scores_N1R.softmax(dim=-1), windows(v_ND).mT)[:, 0]


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


def make_call(size: LayerSize) -> Call:
    """Return a function that calls one layer of this size on random vectors. The vectors depend
    only on the size.
    """
    rng = torch.Generator().manual_seed(zlib.crc32(str(size).encode()))
    draw = partial(torch.randn, generator=rng)
    n, d = size.n, size.d
    if size.layer == "recurrent":
        return partial(recurrent, draw(n, d), draw(d, d) * d**-0.5, draw(d, d) * d**-0.5)
    if size.layer == "convolutional":
        return partial(convolutional, draw(1, d, n), draw(d, d, size.k) * (d * size.k) ** -0.5)
    vectors = draw(3, n, d)
    if size.layer == "self_attention":
        return partial(self_attention, *vectors)
    return partial(restricted_self_attention, *vectors, r=size.r)


def counted_flops(call: Call) -> int:
    """Return the number of operations of a call by torch's own counter."""
    with FlopCounterMode(display=False) as counter:
        call()
    return int(counter.get_total_flops())


def cpu_seconds(call: Call, times: int) -> float:
    """Return the CPU seconds of some calls in this process. Other processes do not count."""
    begin = time.process_time()
    for _ in range(times):
        call()
    return time.process_time() - begin


@torch.no_grad()
def time_layers(
    *,
    sizes: Sequence[LayerSize] = (),
    num_rounds: int = NUM_ROUNDS,
    stopwatch: Callable[[Call, int], float] = cpu_seconds,
) -> TimedLayers:
    """Time layers, by default of the sizes of `read_sizes`, on one CPU thread in fp32."""
    torch.set_num_threads(1)  # CPU seconds would count waiting threads
    call_by_size = {size: make_call(size) for size in sizes or read_sizes()}
    flops_by_size = {size: counted_flops(call) for size, call in call_by_size.items()}

    # The operations are counted first, which warms up. Then a single call says how many to time.
    times_by_size = {}
    for size, call in call_by_size.items():
        times_by_size[size] = max(1, round(LEAST_SECONDS / max(stopwatch(call, 1), 1e-6)))
    seconds_by_size: dict[LayerSize, list[float]] = {size: [] for size in call_by_size}
    rng = random.Random(1)
    for _ in range(num_rounds):
        for size in rng.sample(list(call_by_size), len(call_by_size)):
            times = times_by_size[size]
            seconds_by_size[size].append(stopwatch(call_by_size[size], times) / times)
    timings = []
    for size, seconds in seconds_by_size.items():
        timing = LayerTiming(
            **msgspec.structs.asdict(size),
            flops=flops_by_size[size],
            seconds=min(seconds),
            median_seconds=median(seconds),
        )
        timings.append(timing)
    return TimedLayers(
        device="cpu",
        device_name=cpu_name(),
        dtype="float32",
        num_threads=1,
        clock="CPU seconds of the process",
        num_rounds=num_rounds,
        torch_version=str(torch.__version__),
        timings=timings,
    )
