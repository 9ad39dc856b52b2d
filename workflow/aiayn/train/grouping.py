"""Chooses which batches of an update are joined into fewer and larger batches, for GPUs.

On one GPU an update consists of several batches, and their gradients are added. The host launches
about a thousand kernels for each batch. If a batch is small, the GPU computes faster than the host
launches kernels. A joined batch needs fewer kernels than the batches from which it is made. But the
batches of an update have sentences of different lengths, so a joined batch has more padding.
`choose_groups` joins the batches so that the predicted time of the update is shortest.

Without dropout, joined and separate batches give the same loss and gradient, except for rounding.
With dropout, joined and separate batches give different losses, because different elements are
dropped. `train/joining.py` joins the batches.

A place is a position of a padded batch: a source token, a target token, or padding. The number of
places of a batch is its number of sentences x (source length + target length).
"""

import itertools
from collections.abc import Sequence
from typing import NamedTuple

from aiayn.spec.training import Precision

# Predicted for an H100, not timed: about 1,130 kernels a batch (760 without bf16's casts,
# `plan/kernels.csv`), and what a kernel costs beyond its arithmetic.
KERNELS_PER_BATCH: dict[Precision, int] = {"fp32": 760, "tf32": 760, "bf16": 1130}
SECONDS_PER_KERNEL = 4e-6
FLOPS_PER_SECOND: dict[Precision, float] = {"fp32": 38e12, "tf32": 180e12, "bf16": 180e12}
# For each place. A pair of a source and a target token, which are two places, needs about six
# operations per parameter: two forward and four backward.
FLOPS_PER_PARAMETER = 3

# Numbers that a place keeps for the backward pass in each layer, in multiples of d_model and d_ff.
KEPT_PER_D_MODEL, KEPT_PER_D_FF = 13, 2
# In bf16 the numbers are half as large, but copies of the weights are kept as well.
BYTES_PER_NUMBER = 4
# The estimate is rough, so only half of a card's memory is used.
MEMORY_FRACTION = 0.5
# The weight, its gradient and Adam's two moments, all in fp32.
BYTES_PER_PARAMETER = 16
# Memory for CUDA's context, the library for matrix products, and a chunk of the logits.
RESERVED_BYTES = 3 << 30


class BatchShape(NamedTuple):
    """The shape of a padded batch: its number of sentences and its source and target lengths."""

    num_sentences: int
    source_length: int
    target_length: int


class GroupLimits(NamedTuple):
    """Limits for joining batches. `launch_places` is the time to launch the kernels of a batch, as
    the number of places (tokens and padding) that the GPU computes in the same time. `max_places`
    is the number of places that fit into the GPU's memory.
    """

    launch_places: float
    max_places: float


def group_limits(
    *,
    precision: Precision,
    num_parameters: int,
    num_layers: int,
    d_model: int,
    d_ff: int,
    memory_bytes: int,
) -> GroupLimits:
    """Return the limits for joining batches of a model on a GPU with `memory_bytes` of memory."""
    numbers_per_place = num_layers * (KEPT_PER_D_MODEL * d_model + KEPT_PER_D_FF * d_ff)
    free_bytes = (
        MEMORY_FRACTION * memory_bytes - RESERVED_BYTES - BYTES_PER_PARAMETER * num_parameters
    )
    # The time to start a batch's kernels, as the number of places that takes the same time.
    seconds_per_place = FLOPS_PER_PARAMETER * num_parameters / FLOPS_PER_SECOND[precision]
    return GroupLimits(
        launch_places=KERNELS_PER_BATCH[precision] * SECONDS_PER_KERNEL / seconds_per_place,
        max_places=free_bytes / (numbers_per_place * BYTES_PER_NUMBER),
    )


def count_places(shapes: Sequence[BatchShape]) -> int:
    """Return the number of places (tokens and padding) of a batch that joins batches of these
    shapes.
    """
    # The longest source and the longest target may be in different sentences.
    longest_pair = max(shape.source_length for shape in shapes) + max(
        shape.target_length for shape in shapes
    )
    return sum(shape.num_sentences for shape in shapes) * longest_pair


def choose_groups(shapes: Sequence[BatchShape], limits: GroupLimits) -> list[list[int]]:
    """Choose which batches to join, for the shortest predicted time. Return groups of batch
    indices.

    The batches are sorted by length, and only neighbours are joined. A group of several batches has
    at most `max_places` tokens and padding. A batch that is larger by itself is not joined.
    """
    # A joined batch of neighbours has little padding, since their lengths are similar.
    order = sorted(
        range(len(shapes)), key=lambda i: shapes[i].source_length + shapes[i].target_length
    )
    # The cheapest groups of the first n batches, for each n: their cost in places, and their ends.
    # This is a shortest path: if the best cut of n batches ends with some group, the batches before
    # that group are cut best, too.
    best: list[tuple[float, list[int]]] = [(0.0, [])]
    for end in range(1, len(order) + 1):
        candidates = []
        for begin, (cost, ends) in enumerate(best):
            num_places = count_places([shapes[index] for index in order[begin:end]])
            # A batch that exceeds the estimate of memory still has to be computed, but by itself.
            if end - begin == 1 or num_places <= limits.max_places:
                candidates.append((cost + limits.launch_places + num_places, [*ends, end]))
        best.append(min(candidates))
    ends = best[-1][1]
    return [order[begin:end] for begin, end in itertools.pairwise([0, *ends])]
