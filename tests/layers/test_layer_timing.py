"""Table 1's layers do what their row says, cost what the formula says, and are timed in turn, the
least counting.
"""

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import nn

from aiayn.__main__ import main
from aiayn.records import read_record
from analysis.layers import heavy_layer_timing
from analysis.layers.heavy_layer_timing import (
    NUM_ROUNDS,
    make_call,
    restricted_self_attention,
    self_attention,
)
from analysis.layers.records import LayerSize, MeasureRecord
from tests.layers.timed_layers import layer_flops, timed_layers


def draw(*shape: int) -> torch.Tensor:
    return torch.randn(
        shape, generator=torch.Generator().manual_seed(sum(shape)), dtype=torch.float64
    )


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


def test_the_recurrence_is_the_formula_of_the_notes() -> None:
    with torch.no_grad():
        call = make_call(LayerSize(layer="recurrent", n=3, d=4, k_or_r=1))
        rnn, (x,) = call.func, call.args
        state = torch.zeros(4)
        for token, read in zip(x, call()[0], strict=True):
            state = torch.tanh(rnn.weight_ih_l0 @ token + rnn.weight_hh_l0 @ state)
            torch.testing.assert_close(read, state)


@pytest.mark.filterwarnings("ignore:Using padding='same' with even kernel lengths")
def test_the_record_has_the_least_time_and_torchs_operations_of_each_size(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The replaced clock counts a nanosecond for each operation. The calls of the first round take
    ten times as long.
    """
    small = timed_layers()
    lines = [f"{size.layer},{size.n},{size.d},{size.k_or_r}" for size in small]
    path = tmp_path / "sizes.csv"
    path.write_text("\n".join(["layer,n,d,k_or_r", *lines, ""]), encoding="utf-8")
    monkeypatch.setattr(heavy_layer_timing, "SIZES_PATH", path)
    timed: list[Callable[[], object]] = []

    def seconds_of(call: Callable[[], object], *, timer: object, number: int) -> list[float]:
        timed.append(call)
        slowness = 10 if len(timed) <= len(small) else 1
        flops = layer_flops(small[(len(timed) - 1) % len(small)])
        return [slowness * flops * 1e-9, 20 * flops * 1e-9]

    monkeypatch.setattr(heavy_layer_timing, "repeat", seconds_of)
    record_path = tmp_path / "record.json"
    assert main(["measure", "--record", str(record_path)]) == 0
    record = read_record(record_path, MeasureRecord)
    assert timed == timed[: len(small)] * NUM_ROUNDS
    for timing, size in zip(record.timings, small, strict=True):
        assert (timing.layer, timing.n, timing.d) == (size.layer, size.n, size.d)
        assert timing.flops == layer_flops(size)  # torch's count is the formula
        assert timing.seconds == pytest.approx(timing.flops * 1e-9)
