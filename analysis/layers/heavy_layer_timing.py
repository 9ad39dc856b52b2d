"""Measures Table 1: seconds and operations of four types of layer against n, d, k and r.

The sizes are timed in several rounds, so that a slow moment of the machine affects all sizes. The
minimum over the rounds counts, as other work only adds time. torch counts the operations of the
timed call.

Shapes are in the names: N = n tokens, D = d, K = k, R = r.
"""

import random
import time
import zlib
from collections.abc import Callable
from statistics import median
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional
from torch.utils.flop_counter import FlopCounterMode

from aiayn.machine import cpu_name
from analysis.layers.records import LayerSize, LayerTiming, LayerType, TimedLayers

NUM_ROUNDS = 7
LEAST_SECONDS = 0.004  # duration of a timing: a quicker layer is called several times


class Sweep(NamedTuple):
    """The sizes of a type of layer: one variable at a time differs from `base`."""

    base: LayerSize
    values_by_variable: dict[str, tuple[int, ...]]

    def sizes(self) -> list[LayerSize]:
        """Return the sizes, each once."""
        sizes: dict[LayerSize, None] = {}
        for name, values in self.values_by_variable.items():
            for value in values:
                sizes[self.base._replace(**{name: value})] = None
        return list(sizes)


# Large enough that matrix products, not calls, take the time; small enough for ten seconds in all.
SWEEPS: dict[LayerType, Sweep] = {
    "self_attention": Sweep(
        LayerSize(n=512, d=512), {"n": (256, 362, 512, 724, 1024), "d": (256, 362, 512, 724, 1024)}
    ),
    "recurrent": Sweep(
        LayerSize(n=64, d=512), {"n": (32, 48, 64, 96, 128), "d": (384, 512, 724, 1024, 1448)}
    ),
    "convolutional": Sweep(
        LayerSize(n=256, d=256, k=5),
        {"n": (128, 182, 256, 362, 512), "d": (128, 182, 256, 362, 512), "k": (3, 5, 7, 11, 15)},
    ),
    "self_attention_restricted": Sweep(
        LayerSize(n=512, d=256, r=32),
        {
            "n": (256, 362, 512, 724, 1024),
            "d": (128, 182, 256, 362, 512),
            "r": (16, 24, 32, 48, 64),
        },
    ),
}


def self_attention(q_ND: Tensor, k_ND: Tensor, v_ND: Tensor) -> Tensor:
    """Return softmax(q k^T / sqrt(d)) v (equation (1)), one head: (N, D)."""
    weights_NN = (q_ND @ k_ND.T * q_ND.shape[1] ** -0.5).softmax(dim=-1)
    read_ND: Tensor = weights_NN @ v_ND
    return read_ND


def restricted_self_attention(q_ND: Tensor, k_ND: Tensor, v_ND: Tensor, *, r: int) -> Tensor:
    """Return equation (1) over the r tokens around each token, (N, D); zeros beyond the ends."""

    def windows(x_ND: Tensor) -> Tensor:
        return functional.pad(x_ND, (0, 0, r // 2, (r - 1) // 2)).unfold(0, r, 1)

    k_NDR, v_NDR = windows(k_ND), windows(v_ND)
    weights_N1R = (torch.bmm(q_ND[:, None], k_NDR) * q_ND.shape[1] ** -0.5).softmax(dim=-1)
    return torch.bmm(weights_N1R, v_NDR.mT)[:, 0]


def recurrent(x_ND: Tensor, input_DD: Tensor, state_DD: Tensor) -> Tensor:
    """Return the states h_t = tanh(x_t W + h_(t-1) U) of a simple recurrence, (N, D).

    The products with W are computed together.
    """
    from_input_ND = x_ND @ input_DD
    state_1D = torch.zeros_like(x_ND[:1])
    states = []
    for index in range(len(x_ND)):
        state_1D = torch.addmm(from_input_ND[index], state_1D, state_DD).tanh()
        states.append(state_1D)
    return torch.cat(states)


def convolutional(x_1DN: Tensor, kernel_DDK: Tensor) -> Tensor:
    """Return the convolution with a centred kernel of odd width, padded with zeros: (1, D, N)."""
    return functional.conv1d(x_1DN, kernel_DDK, padding=kernel_DDK.shape[2] // 2)


def make_call(layer: LayerType, size: LayerSize) -> Callable[[], Tensor]:
    """Return a call of one layer of this size on random vectors; the same size draws the same."""
    rng = torch.Generator().manual_seed(zlib.crc32(f"1 {layer} {size}".encode()))

    def draw(*shape: int) -> Tensor:
        return torch.randn(shape, generator=rng)

    n, d, k, r = size
    if layer == "recurrent":
        x_ND, input_DD, state_DD = draw(n, d), draw(d, d) * d**-0.5, draw(d, d) * d**-0.5
        return lambda: recurrent(x_ND, input_DD, state_DD)
    if layer == "convolutional":
        x_1DN, kernel_DDK = draw(1, d, n), draw(d, d, k) * (d * k) ** -0.5
        return lambda: convolutional(x_1DN, kernel_DDK)
    q_ND, k_ND, v_ND = draw(n, d), draw(n, d), draw(n, d)
    if layer == "self_attention":
        return lambda: self_attention(q_ND, k_ND, v_ND)
    return lambda: restricted_self_attention(q_ND, k_ND, v_ND, r=r)


def counted_flops(call: Callable[[], Tensor]) -> int:
    """Return the number of operations of a call by torch's own counter."""
    with FlopCounterMode(display=False) as counter:
        call()
    return int(counter.get_total_flops())


@torch.no_grad()
def time_layers(
    *,
    sweeps: dict[LayerType, Sweep] = SWEEPS,
    num_rounds: int = NUM_ROUNDS,
    stopwatch: Callable[[Callable[[], object], int], float] | None = None,
) -> TimedLayers:
    """Time every layer at every size on a single thread of the CPU, in fp32.

    `stopwatch(call, times)` returns the seconds of `times` calls; by default the CPU seconds of
    this process.
    """
    take = stopwatch or _cpu_seconds
    torch.set_num_threads(1)  # CPU seconds would count waiting threads
    layers = []
    for layer, sweep in sweeps.items():
        layers += [(layer, size) for size in sweep.sizes()]
    calls = [make_call(layer, size) for layer, size in layers]
    flops = [counted_flops(call) for call in calls]  # also warms up
    times = [max(1, round(LEAST_SECONDS / max(take(call, 1), 1e-6))) for call in calls]
    seconds: list[list[float]] = [[] for _ in calls]
    order, rng = list(range(len(calls))), random.Random(1)
    for _ in range(num_rounds):
        rng.shuffle(order)
        for index in order:
            seconds[index].append(take(calls[index], times[index]) / times[index])
    timings = []
    for (layer, size), count, taken in zip(layers, flops, seconds, strict=True):
        timing = LayerTiming(
            layer=layer,
            **size._asdict(),
            flops=count,
            seconds=min(taken),
            median_seconds=median(taken),
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


def _cpu_seconds(call: Callable[[], object], times: int) -> float:
    """Return the CPU seconds of this process, which do not count other processes."""
    begin = time.process_time()
    for _ in range(times):
        call()
    return time.process_time() - begin
