"""Table 1 by formula: sums done by hand, the printed O(), and paths as long as signals really need."""

import pytest

from aiayn.layer_cost import (
    LAYER_TYPES,
    VARIABLES_BY_TYPE,
    LayerSize,
    LayerType,
    layer_flops,
    maximum_path_length,
    sequential_operations,
)

EXPONENTS_PRINTED: dict[LayerType, dict[str, int]] = {
    "self_attention": {"n": 2, "d": 1},
    "recurrent": {"n": 1, "d": 2},
    "convolutional": {"k": 1, "n": 1, "d": 2},
    "self_attention_restricted": {"r": 1, "n": 1, "d": 1},
}


def test_operations_by_hand() -> None:
    size = LayerSize(n=3, d=2, k=5, r=2)
    assert layer_flops("self_attention", size) == 2 * (3 * 3 * 2 + 3 * 3 * 2)  # queries by keys, weights by values
    assert layer_flops("recurrent", size) == 2 * 3 * (2 * 2 + 2 * 2)  # input and state
    assert layer_flops("convolutional", size) == 2 * 3 * 5 * 2 * 2
    assert layer_flops("self_attention_restricted", size) == 2 * 3 * (2 * 2 + 2 * 2)


@pytest.mark.parametrize("layer", LAYER_TYPES)
def test_operations_grow_as_the_printed_complexity(layer: LayerType) -> None:
    size = LayerSize(n=8, d=8, k=3, r=4)
    assert set(EXPONENTS_PRINTED[layer]) == set(VARIABLES_BY_TYPE[layer])
    for variable, exponent in EXPONENTS_PRINTED[layer].items():
        doubled = size._replace(**{variable: 2 * getattr(size, variable)})
        assert layer_flops(layer, doubled) == 2**exponent * layer_flops(layer, size)


def test_only_a_recurrence_waits_for_itself() -> None:
    assert [sequential_operations(layer, LayerSize(n=70, d=1)) for layer in LAYER_TYPES] == [1, 70, 1, 1]


def test_paths_grow_as_printed() -> None:
    size = LayerSize(n=64, d=1, k=3, r=8)
    assert maximum_path_length("self_attention", size) == 1
    assert maximum_path_length("recurrent", size) == 64
    assert maximum_path_length("self_attention_restricted", size) == 16  # 63 tokens, 4 a layer: O(n / r)
    assert maximum_path_length("convolutional", size) == 4  # 3 x 3 x 3 x 3 >= 64: O(log_k(n))
    tenfold = size._replace(n=640)
    assert maximum_path_length("convolutional", tenfold) == 6
    assert maximum_path_length("self_attention_restricted", tenfold) == 160


def test_one_token_is_reached_at_once_and_a_layer_without_reach_never_reaches_another() -> None:
    assert maximum_path_length("convolutional", LayerSize(n=1, d=1, k=1)) == 1
    with pytest.raises(ValueError, match="width 1 reaches no other token"):
        maximum_path_length("convolutional", LayerSize(n=2, d=1, k=1))
