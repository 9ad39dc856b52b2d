"""The plan's formula against published systems, and the block of docs/checks.md that shows it."""

import os

import pytest

from aiayn.spec.system import CHECKOUT
from tests.price.throughputs import (
    Comparison,
    compare_throughputs,
    read_throughputs,
    render_comparisons,
)

BEGIN, END = "<!-- throughputs: begin -->\n", "<!-- throughputs: end -->"


@pytest.fixture(scope="module")
def comparisons() -> list[Comparison]:
    """Return the comparison of every published system that can be compared."""
    return compare_throughputs()


def test_golden_block_of_the_page_is_what_the_code_prints(comparisons: list[Comparison]) -> None:
    path = CHECKOUT / "docs/checks.md"
    page = path.read_text(encoding="utf-8")
    block = page.partition(BEGIN)[2].partition(END)[0]
    expected = render_comparisons(comparisons) + "\n"
    if os.environ.get("AIAYN_UPDATE_GOLDEN"):
        path.write_text(page.replace(block, expected), encoding="utf-8")
    else:
        assert block == expected


def test_four_of_five_eager_systems_lie_inside_the_range(comparisons: list[Comparison]) -> None:
    eager = [item for item in comparisons if item.throughput.kind == "eager"]
    assert len(eager) >= 15
    assert sum(item.is_inside for item in eager) >= 0.8 * len(eager)


def test_the_plan_is_at_most_a_tenth_faster_than_hand_fused_code(
    comparisons: list[Comparison],
) -> None:
    ratios = [item.ratio for item in comparisons if item.throughput.kind == "hand-fused"]
    assert len(ratios) >= 5
    assert max(ratios) <= 1.1


def test_ranges_are_at_most_1_6_wide(comparisons: list[Comparison]) -> None:
    assert all(1 < item.fastest / item.slowest <= 1.6 for item in comparisons)


def test_every_system_has_one_measured_value() -> None:
    for row in read_throughputs():
        assert bool(row.tokens_per_second) != bool(row.seconds_per_epoch), row.system
        assert row.measured > 0
