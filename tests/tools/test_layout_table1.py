"""Table 1 shows what was measured of its layers, and why an exponent is missing; its fits are
checked by hand.
"""

import math
from typing import Any

import msgspec
import pytest

from aiayn.errors import TableError
from analysis.tools.records import TimedLayers
from analysis.tools.tables.table1 import fit_power_law, lay_out_layers
from paper_tables.layout import compact
from tests.laid_out import rows_of
from tests.tools.timed_layers import timed_layers

POINTS: list[dict[str, float]] = [
    *({"n": n, "d": 64.0} for n in (32.0, 64.0, 128.0, 256.0)),
    *({"n": 64.0, "d": d} for d in (16.0, 32.0, 128.0, 256.0)),
]


def test_what_was_derived_says_so_and_what_was_measured_where() -> None:
    table = lay_out_layers(timed_layers())
    assert any("Derived, not measured" in note.text for note in table.notes)
    ((_, _, signature),) = table.signatures
    for words in ("device:cpu", "a CPU", "dtype:float32", "threads:1", "torch:2.0"):
        assert words in signature


def test_without_measurements_the_columns_of_exponents_are_left_out_and_the_command_is_named() -> (
    None
):
    table = compact(lay_out_layers(None))
    assert not [column for column in table.columns if "exponent" in column.name]
    assert "aiayn measure" in table.notes[0].text
    assert table.signatures == ()


@pytest.mark.parametrize("seconds", [0.0, float("nan"), -1.0])
def test_seconds_that_cannot_be_give_a_dash_and_a_reason(seconds: float) -> None:
    layers = timed_layers()
    broken = [msgspec.structs.replace(layers.timings[0], seconds=seconds), *layers.timings[1:]]
    table = lay_out_layers(msgspec.structs.replace(layers, timings=broken))
    assert rows_of(table)[0]["seconds_exponent_of_n"] == "\u2013"
    assert rows_of(table)[1]["seconds_exponent_of_n"] != "\u2013"
    assert any(
        note.text.startswith("self_attention, seconds: no exponents:") for note in table.notes
    )


def test_a_type_of_layer_that_was_not_timed_is_blank() -> None:
    layers = timed_layers()
    some: TimedLayers = msgspec.structs.replace(
        layers, timings=[one for one in layers.timings if one.layer != "recurrent"]
    )
    row = rows_of(lay_out_layers(some))[1]
    assert (row["flops_exponent_of_n"], row["seconds_exponent_of_n"]) == ("", "")
    assert row["complexity_per_layer"] == "O(n * d^2)"


def law(point: dict[str, float]) -> float:
    return float(3e-9 * point["n"] ** 2 * point["d"])


def test_an_exact_law_has_its_exponents_and_no_spread() -> None:
    fitted = fit_power_law(["n", "d"], POINTS, [law(point) for point in POINTS])
    assert fitted["n"] == pytest.approx((2.0, 0.0), abs=1e-9)
    assert fitted["d"] == pytest.approx((1.0, 0.0), abs=1e-9)


def test_one_variable_by_hand() -> None:
    """log2 y = 0, 1, 3 at log2 n = 0, 1, 2: slope 1.5, residuals 1/6, -1/3, 1/6; t(0.975, 1) =
    12.706.
    """
    fitted = fit_power_law(["n"], [{"n": n} for n in (1, 2, 4)], [1, 2, 8])
    assert fitted["n"] == pytest.approx((1.5, 12.7062 * math.sqrt(1 / 6 / 2)), rel=1e-4)


@pytest.mark.parametrize(
    ("points", "values", "words"),
    [
        (POINTS[:3], [1, 2, 3], "3 sizes for 3 unknowns"),
        (POINTS, [math.nan, *[1.0] * 7], "value nan"),
        (POINTS, [0.0, *[1.0] * 7], r"value 0\.0"),
        ([{"n": n, "d": 2 * n} for n in (1, 2, 4, 8)], [1, 2, 3, 4], "n, d; vary"),
        ([{"n": n, "d": 64} for n in (1, 2, 4, 8)], [1, 2, 3, 4], "n, d; vary"),
    ],
)
def test_what_cannot_be_fitted_is_refused(points: Any, values: list[float], words: str) -> None:
    with pytest.raises(TableError, match=words):
        fit_power_law(["n", "d"], points, values)
