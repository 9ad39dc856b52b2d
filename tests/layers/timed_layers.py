"""Timings of Table 1's layers that follow their formulas, for the tests of its table and of its
measuring.
"""

import msgspec

from analysis.layers.records import LayerSize, LayerTiming, LayerType

K_OR_R_BY_LAYER: dict[LayerType, int] = {
    "self_attention": 1,
    "recurrent": 1,
    "convolutional": 5,
    "self_attention_restricted": 8,
}


def layer_flops(size: LayerSize) -> int:
    """Return the operations of a layer of Table 1 forward, counting only matrix products.

    Self-attention is equation (1) itself, queries by keys and weights by values; the projections
    before and after it are none of Table 1's O(n^2 d). A recurrent layer multiplies both its input
    and its state by d x d weights.
    """
    n, d, k_or_r = size.n, size.d, size.k_or_r
    multiplications = {
        "self_attention": 2 * n * n * d,
        "recurrent": 2 * n * d * d,
        "convolutional": k_or_r * n * d * d,
        "self_attention_restricted": 2 * k_or_r * n * d,
    }
    return 2 * multiplications[size.layer]


def timed_layers() -> list[LayerTiming]:
    """Return timings at 1e10 operations a second; every second size is 10 % slower."""
    timings = []
    for layer, k_or_r in K_OR_R_BY_LAYER.items():
        base = LayerSize(layer=layer, n=64, d=64, k_or_r=k_or_r)
        sizes = [base]
        for name in ("n", "d", "k_or_r") if k_or_r > 1 else ("n", "d"):
            for power in (1, 2, 3):
                value = getattr(base, name) * 2**power
                sizes.append(msgspec.structs.replace(base, **{name: value}))
        for index, size in enumerate(sizes):
            flops = layer_flops(size)
            seconds = flops / 1e10 * (1.1 if index % 2 else 1.0)
            timing = LayerTiming(**msgspec.structs.asdict(size), flops=flops, seconds=seconds)
            timings.append(timing)
    return timings
