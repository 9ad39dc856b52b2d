"""Timings of Table 1's layers that follow their formulas, for the tests of its table and of its
measuring.
"""

import msgspec

from analysis.layers.records import VARIABLES_BY_TYPE, LayerSize, LayerTiming, TimedLayers


def layer_flops(size: LayerSize) -> int:
    """Return the operations of a layer of Table 1 forward, counting only matrix products.

    Self-attention is equation (1) itself, queries by keys and weights by values; the projections
    before and after it are none of Table 1's O(n^2 d). A recurrent layer multiplies both its input
    and its state by d x d weights.
    """
    n, d, k, r = size.n, size.d, size.k, size.r
    multiplications = {
        "self_attention": 2 * n * n * d,
        "recurrent": 2 * n * d * d,
        "convolutional": k * n * d * d,
        "self_attention_restricted": 2 * r * n * d,
    }
    return 2 * multiplications[size.layer]


def timed_layers() -> TimedLayers:
    """Return timings at 1e10 operations a second; every second size is 10 % slower."""
    timings = []
    for layer, variables in VARIABLES_BY_TYPE.items():
        k = 5 if "k" in variables else 1
        r = 8 if "r" in variables else 1
        base = LayerSize(layer=layer, n=64, d=64, k=k, r=r)
        sizes = [base]
        for name in variables:
            for power in (1, 2, 3):
                value = getattr(base, name) * 2**power
                sizes.append(msgspec.structs.replace(base, **{name: value}))
        for index, size in enumerate(sizes):
            flops = layer_flops(size)
            seconds = flops / 1e10 * (1.1 if index % 2 else 1.0)
            timing = LayerTiming(
                **msgspec.structs.asdict(size),
                flops=flops,
                seconds=seconds,
                median_seconds=seconds,
            )
            timings.append(timing)
    return TimedLayers(
        device="cpu",
        device_name="a CPU",
        dtype="float32",
        num_threads=1,
        clock="CPU seconds of the process",
        num_rounds=7,
        torch_version="2.0",
        timings=timings,
    )
