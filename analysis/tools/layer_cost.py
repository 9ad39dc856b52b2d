"""Computes Table 1's sequential operations and maximum path length of a layer (section 4).

Nothing is measured here. A layer maps a sequence of n vectors of width d to a sequence of the same
shape.
"""

from typing import NamedTuple, get_args

from analysis.tools.records import LayerType

LAYER_TYPES: tuple[LayerType, ...] = get_args(LayerType)  # the rows of Table 1, in print order
VARIABLES_BY_TYPE: dict[LayerType, tuple[str, ...]] = {
    "self_attention": ("n", "d"),
    "recurrent": ("n", "d"),
    "convolutional": ("n", "d", "k"),
    "self_attention_restricted": ("n", "d", "r"),
}


class LayerSize(NamedTuple):
    """Table 1's n, d, k and r: tokens, width, width of a kernel, tokens of a neighbourhood.

    A size that a layer does not have is 1.
    """

    n: int
    d: int
    k: int = 1
    r: int = 1


def sequential_operations(layer: LayerType, size: LayerSize) -> int:
    """Return the number of steps of a layer that must wait for each other.

    In a recurrence each state waits for the previous state.
    """
    return size.n if layer == "recurrent" else 1


def maximum_path_length(layer: LayerType, size: LayerSize) -> int:
    """Return the number of layers, or steps of a recurrence, from the first token to the last.

    A kernel reaches from a token to the k - 1 tokens before it, and each layer is dilated k times
    as much as the layer below (the paper's O(log_k(n))). A neighbourhood is centred and reaches
    r / 2 tokens, rounded down (O(n / r)).

    Raises:
        ValueError: if a layer reaches no other token, so that no number of layers connects the two
            ends.
    """
    distance = size.n - 1
    if layer == "self_attention" or distance == 0:
        return 1
    if layer == "recurrent":
        return size.n
    width = size.k if layer == "convolutional" else size.r
    if width < 2:
        raise ValueError(f"{layer} of width {width} reaches no other token; expected 2 or more")
    if layer == "self_attention_restricted":
        return -(-distance // (width // 2))
    num_layers, num_reached = 0, 1
    while num_reached < size.n:
        num_layers, num_reached = num_layers + 1, num_reached * width
    return num_layers
