"""The plan's formula against published systems, and the block of docs/checks.md that shows it."""

import functools
import os
from collections.abc import Callable

import msgspec
import pytest

from aiayn.plan.prediction import RANGES_PATH
from aiayn.spec.system import CHECKOUT
from aiayn.speeds import published_range, read_speeds
from tests.price.throughputs import (
    Comparison,
    compare_throughputs,
    first_systems,
    leave_out_code_bases,
    range_line,
    render_comparisons,
    render_later,
)

BEGIN, END = "<!-- throughputs: begin -->\n", "<!-- throughputs: end -->"


LATER_BEGIN, LATER_END = "<!-- later systems: begin -->\n", "<!-- later systems: end -->"
RANGES_HEADER = "kind,precision,num_code_bases,num_systems,least,most"


@pytest.fixture(scope="module")
def comparisons() -> list[Comparison]:
    """Return the comparison of every published system that can be compared."""
    return compare_throughputs()


@pytest.mark.parametrize(
    ("begin", "end", "render"),
    [
        (BEGIN, END, lambda items: render_comparisons(first_systems(items))),
        (LATER_BEGIN, LATER_END, render_later),
    ],
)
def test_golden_block_of_the_page_is_what_the_code_prints(
    begin: str,
    end: str,
    render: Callable[[list[Comparison]], str],
    comparisons: list[Comparison],
) -> None:
    path = CHECKOUT / "docs/checks.md"
    page = path.read_text(encoding="utf-8")
    block = page.partition(begin)[2].partition(end)[0]
    expected = render(comparisons) + "\n"
    if os.environ.get("AIAYN_UPDATE_GOLDEN"):
        path.write_text(page.replace(begin + block, begin + expected), encoding="utf-8")
    else:
        assert block == expected


def test_golden_ranges_come_from_leaving_out_each_code_base(comparisons: list[Comparison]) -> None:
    ranges = leave_out_code_bases(first_systems(comparisons))
    lines = [RANGES_HEADER, *map(range_line, ranges)]
    expected = "".join(f"{line}\n" for line in lines)
    if os.environ.get("AIAYN_UPDATE_GOLDEN"):
        RANGES_PATH.write_text(expected, encoding="utf-8")
    else:
        assert RANGES_PATH.read_text(encoding="utf-8") == expected


def test_a_range_is_the_error_of_the_code_base_that_is_left_out(
    comparisons: list[Comparison],
) -> None:
    """Two code bases, by hand: A's systems at 1 and 4 times (its factor is 2), B's at 8.

    B is predicted by 2, so its error is 4; A by 8, so its errors are 1/8 and 1/2. The factor of
    both is 4.
    """
    by_base = {"A": (1.0, 4.0), "B": (8.0,)}
    planned = []
    for base, ratios in by_base.items():
        for ratio in ratios:
            template = next(item for item in comparisons if item.throughput.tokens_per_second)
            row = msgspec.structs.replace(
                template.throughput, code_base=base, tokens_per_second="1000"
            )
            planned.append(template._replace(throughput=row, middle=1000 * ratio))
    (both,) = leave_out_code_bases(planned)
    assert (both.num_code_bases, both.num_systems) == (2, 3)
    assert both.least == pytest.approx(4 / 8)
    assert both.most == pytest.approx(4 * 4)
    (single,) = leave_out_code_bases(planned[:2])
    assert (single.least, single.most) == (None, None)


def test_four_of_five_eager_systems_lie_inside_the_range(comparisons: list[Comparison]) -> None:
    first = first_systems(comparisons)
    eager = [item for item in first if item.throughput.kind == "eager"]
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
    for row in read_speeds():
        assert bool(row.tokens_per_second) != bool(row.seconds_per_epoch), row.system
        assert row.measured > 0


def test_the_first_systems_are_those_whose_errors_made_the_ranges() -> None:
    """A later system must not move a range: it is what the range is held against."""
    speeds = read_speeds()
    assert [speed.group for speed in speeds].count("first") == 69
    assert {speed.group for speed in speeds[:69]} == {"first"}


def test_published_speeds_of_a_card_scale_with_its_number() -> None:
    """By hand: base in fp32 on V100 is fairseq's 73,000 on 4; nobody published it on H100."""
    find = functools.partial(published_range, precision="fp32", model="base", tokens_per_gpu=4096)
    assert find("Tesla V100-SXM2", num_gpus=8) == (146_000, 146_000)
    half = published_range("V100", num_gpus=1, precision="bf16", model="big", tokens_per_gpu=600)
    # LightSeq's fairseq on 8 V100 with 512 tokens each, and on one with 1,024.
    assert half == (26_005 / 8, 8_031)
    for gpu in ("H100", "no such card"):
        assert find(gpu, num_gpus=8) is None
