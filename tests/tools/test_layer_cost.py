"""Table 1 by formula: what waits for itself, and paths as long as signals really need."""

import pytest

from analysis.tools.layer_cost import (
    LAYER_TYPES,
    LayerSize,
    maximum_path_length,
    sequential_operations,
)


def test_only_a_recurrence_waits_for_itself() -> None:
    assert [sequential_operations(layer, LayerSize(n=70, d=1)) for layer in LAYER_TYPES] == [
        1,
        70,
        1,
        1,
    ]


def test_paths_grow_as_printed() -> None:
    size = LayerSize(n=64, d=1, k=3, r=8)
    assert maximum_path_length("self_attention", size) == 1
    assert maximum_path_length("recurrent", size) == 64
    assert (
        maximum_path_length("self_attention_restricted", size) == 16
    )  # 63 tokens, 4 a layer: O(n / r)
    assert maximum_path_length("convolutional", size) == 4  # 3 x 3 x 3 x 3 >= 64: O(log_k(n))
    assert maximum_path_length("convolutional", size._replace(n=27)) == 3  # the third reaches it
    tenfold = size._replace(n=640)
    assert maximum_path_length("convolutional", tenfold) == 6
    assert maximum_path_length("self_attention_restricted", tenfold) == 160


def test_one_token_is_reached_at_once_and_a_layer_without_reach_never_reaches_another() -> None:
    assert maximum_path_length("convolutional", LayerSize(n=1, d=1, k=1)) == 1
    with pytest.raises(ValueError, match="width 1 reaches no other token"):
        maximum_path_length("convolutional", LayerSize(n=2, d=1, k=1))
