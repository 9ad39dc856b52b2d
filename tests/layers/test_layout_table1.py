"""The fits of Table 1 are checked by hand."""

import math

import pytest

from analysis.layers.tables.table1 import fit_power_law


def test_an_exact_law_has_its_exponents_and_no_spread() -> None:
    sizes = [(n, 64) for n in (32, 64, 128, 256)] + [(64, d) for d in (16, 32, 128, 256)]
    exponents, half_widths = fit_power_law(sizes, [3e-9 * n**2 * d for n, d in sizes])
    assert exponents == pytest.approx([2.0, 1.0], abs=1e-9)
    assert half_widths == pytest.approx([0.0, 0.0], abs=1e-9)


def test_one_variable_by_hand() -> None:
    """log2 y = 0, 1, 3 at log2 n = 0, 1, 2: slope 1.5, residuals 1/6, -1/3, 1/6; t(0.975, 1) =
    12.706.
    """
    exponents, half_widths = fit_power_law([(1,), (2,), (4,)], [1, 2, 8])
    assert exponents == pytest.approx([1.5])
    assert half_widths == pytest.approx([12.7062 * math.sqrt(1 / 6 / 2)], rel=1e-4)
