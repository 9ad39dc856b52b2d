"""Table 1's layers do what their row says, cost what the formula says, and are timed in turn, the
least counting.
"""

import itertools
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import nn

from aiayn.__main__ import main
from aiayn.records import read_record
from analysis.layers import heavy_layer_timing
from analysis.layers.heavy_layer_timing import (
    LEAST_SECONDS,
    convolutional,
    counted_flops,
    make_call,
    read_sizes,
    recurrent,
    restricted_self_attention,
    self_attention,
    time_layers,
)
from analysis.layers.records import VARIABLES_BY_TYPE, LayerSize, LayerType, MeasureRecord
from tests.layers.timed_layers import layer_flops

VALUES = {"n": (8, 16, 32, 64), "d": (8, 16, 32, 64), "k": (5, 7, 9), "r": (5, 7, 9)}


def small_sizes(layer: LayerType) -> list[LayerSize]:
    """Return sizes of a layer, small enough to be timed in a test."""
    variables = VARIABLES_BY_TYPE[layer]
    base = {"n": 8, "d": 8, "k": 3 if "k" in variables else 1, "r": 4 if "r" in variables else 1}
    sizes = []
    for name in variables:
        for value in VALUES[name]:
            sizes.append(LayerSize(layer=layer, **base | {name: value}))
    return sizes


def draw(*shape: int) -> torch.Tensor:
    return torch.randn(
        shape, generator=torch.Generator().manual_seed(sum(shape)), dtype=torch.float64
    )


@pytest.mark.parametrize("layer", VARIABLES_BY_TYPE)
def test_torchs_count_is_the_formula(layer: LayerType) -> None:
    for size in small_sizes(layer):
        call = make_call(size)
        assert counted_flops(call) == layer_flops(size)
        assert sorted(call().shape)[-2:] == sorted((size.n, size.d))


def test_self_attention_is_torchs_own() -> None:
    q, k, v = draw(3, 6, 4)
    expected = nn.functional.scaled_dot_product_attention(q, k, v)
    torch.testing.assert_close(self_attention(q, k, v), expected)


@pytest.mark.parametrize("r", [2, 3, 4])
def test_restricted_attention_is_attention_over_the_tokens_around_and_zeros_beyond_the_ends(
    r: int,
) -> None:
    q, k, v = draw(3, 6, 4)
    read = restricted_self_attention(q, k, v, r=r)
    for index in range(6):
        places = range(index - r // 2, index - r // 2 + r)
        keys, values = (
            torch.stack(
                [
                    one[place] if 0 <= place < 6 else torch.zeros(4, dtype=torch.float64)
                    for place in places
                ]
            )
            for one in (k, v)
        )
        torch.testing.assert_close(
            read[index], self_attention(q[index : index + 1], keys, values)[0]
        )


def test_the_recurrence_is_torchs_own() -> None:
    x, into, state = draw(5, 3), draw(3, 3), draw(3, 3).T
    rnn = nn.RNN(3, 3, bias=False).double()
    with torch.no_grad():
        rnn.weight_ih_l0.copy_(into.T)
        rnn.weight_hh_l0.copy_(state.T)
        torch.testing.assert_close(recurrent(x, into, state), rnn(x)[0])


def test_the_least_of_the_rounds_counts_and_all_sizes_take_turns(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The replaced clock counts a nanosecond for each operation. The first call of each size, which
    says how many calls a timing takes, and the first round take ten times as long.
    """
    timed: list[tuple[Callable[[], torch.Tensor], int]] = []

    def seconds_of(call: Callable[[], torch.Tensor], *, timer: object, number: int) -> float:
        timed.append((call, number))
        slowness = 10 if len(timed) <= 2 * len(sizes) else 1
        return number * counted_flops(call) * 1e-9 * slowness

    monkeypatch.setattr(heavy_layer_timing, "timeit", seconds_of)
    sizes = list(itertools.chain.from_iterable(map(small_sizes, VARIABLES_BY_TYPE)))
    layers = time_layers(sizes)
    for timing, size in zip(layers.timings, sizes, strict=True):
        assert (timing.layer, timing.n, timing.d) == (size.layer, size.n, size.d)
        assert timing.seconds == pytest.approx(timing.flops * 1e-9)
    first, rounds = timed[: len(sizes)], timed[len(sizes) :]
    assert [number for _, number in first] == [1] * len(sizes)
    # A timing takes as many calls as fill LEAST_SECONDS, by the first call.
    for (_, number), timing in zip(rounds[: len(sizes)], layers.timings, strict=True):
        assert number == round(LEAST_SECONDS / (10 * timing.flops * 1e-9)) > 1
    assert rounds == rounds[: len(sizes)] * layers.num_rounds


def test_a_convolution_is_centred() -> None:
    kernel = torch.zeros(1, 1, 3)
    kernel[0, 0, 1] = 1.0
    x = torch.arange(4.0)[None, None]
    assert torch.equal(convolutional(x, kernel), x)


def test_the_record_says_on_what_it_was_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert len(read_sizes()) == 44
    sizes = list(itertools.chain.from_iterable(map(small_sizes, VARIABLES_BY_TYPE)))
    monkeypatch.setattr(heavy_layer_timing, "read_sizes", lambda: sizes)
    path = tmp_path / "record.json"
    assert main(["measure", "--record", str(path)]) == 0
    layers = read_record(path, MeasureRecord).layers
    assert (layers.device, layers.dtype, layers.num_threads) == ("cpu", "float32", 1)
    assert layers.torch_version == torch.__version__
    assert layers.device_name in layers.signature
    assert len(layers.timings) == len(sizes)
