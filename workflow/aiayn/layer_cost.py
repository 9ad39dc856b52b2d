"""Computes the cost of one layer of Table 1 (section 4): operations, operations in sequence, the longest path.

Pure: nothing is measured here. A layer maps a sequence of n vectors of width d to another one of that shape.
"""

from typing import Literal, NamedTuple, get_args

LayerType = Literal["self_attention", "recurrent", "convolutional", "self_attention_restricted"]
LAYER_TYPES: tuple[LayerType, ...] = get_args(LayerType)  # the rows of Table 1, in print order
VARIABLES_BY_TYPE: dict[LayerType, tuple[str, ...]] = {
    "self_attention": ("n", "d"),
    "recurrent": ("n", "d"),
    "convolutional": ("n", "d", "k"),
    "self_attention_restricted": ("n", "d", "r"),
}
FLOPS_PER_MULTIPLICATION = 2  # a multiplication and the addition that follows it


class LayerSize(NamedTuple):
    """Table 1's n, d, k and r: tokens, width, width of a kernel, tokens of a neighbourhood (1: unread)."""

    n: int
    d: int
    k: int = 1
    r: int = 1


def layer_flops(layer: LayerType, size: LayerSize) -> int:
    """Return the operations of one layer forward, of products of matrices alone.

    Self-attention is equation (1) itself, queries by keys and weights by values; the projections before and after it
    are none of Table 1's O(n^2 d). A recurrent layer multiplies both its input and its state by d x d weights.
    """
    n, d, k, r = size
    multiplications = {
        "self_attention": 2 * n * n * d,
        "recurrent": 2 * n * d * d,
        "convolutional": k * n * d * d,
        "self_attention_restricted": 2 * r * n * d,
    }
    return FLOPS_PER_MULTIPLICATION * multiplications[layer]


def sequential_operations(layer: LayerType, size: LayerSize) -> int:
    """Return how many steps of a layer must wait for one another: each state of a recurrence for the one before."""
    return size.n if layer == "recurrent" else 1


def maximum_path_length(layer: LayerType, size: LayerSize) -> int:
    """Return through how many layers, or steps of a recurrence, a signal goes from the first token to the last.

    A kernel reaches from a token to the k - 1 before it, and each layer is dilated k times as much as the one below
    (the paper's O(log_k(n))); a neighbourhood is centred and reaches r / 2 tokens, rounded down (O(n / r)).

    Raises:
        ValueError: if a layer reaches no other token, so that no number of layers connects the two ends.
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
