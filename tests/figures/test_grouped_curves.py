"""The figure of all curves: groups, the axis with an outlier, and names that do not overlap."""

import itertools

import pandas as pd
import pytest

from analysis.figures.heavy_curves import COLUMNS
from analysis.figures.heavy_grouped_curves import (
    CURVES,
    LINE_HEIGHT,
    PANEL_HEIGHT,
    axis_domain,
    group_series,
    place_labels,
    without_common_corpus,
)
from paper_tables.render.figure import FigureError
from tests.support.drawings import svg_of


def frame_of(last_by_series: dict[str, float]) -> pd.DataFrame:
    """Return a frame of curves that fall from ten times their last value."""
    lines = []
    for series, last in last_by_series.items():
        for update, factor in ((100, 10.0), (200, 2.0), (300, 1.0)):
            point = (update, last * factor)
            lines.append((series, series, 1, "dev_ppl_per_subword", *point))
    return pd.DataFrame(lines, columns=list(COLUMNS))


def test_rows_are_grouped_by_their_letter_with_base_in_each_and_no_panel_has_too_many() -> None:
    rows = [f"table3_c_n{number}" for number in range(8)]
    assert group_series(["base", "big", "table3_a_h1", *rows]) == [
        ("Table 3 (A): heads", ["base", "table3_a_h1"]),
        ("Table 3 (C): size", ["base", *rows[:4]]),
        ("Table 3 (C): size, continued", ["base", *rows[4:]]),
        ("Other systems", ["base", "big"]),
    ]
    assert group_series(["base"]) == [("Other systems", ["base"])]


def test_base_on_a_second_corpus_is_a_curve_like_all_others() -> None:
    assert group_series(["base, en-de", "big, en-de", "base, en-fr"]) == [
        ("Other systems", ["base, en-de", "big, en-de", "base, en-fr"])
    ]
    assert group_series(["base, en-de", "base, en-fr"]) == [
        ("Other systems", ["base, en-de", "base, en-fr"])
    ]


def test_the_corpus_is_left_out_of_names_that_all_have_it() -> None:
    assert list(without_common_corpus(pd.Series(["base, en-de", "big, en-de"]))) == ["base", "big"]
    two = ["base, en-de", "big, en-fr"]
    assert list(without_common_corpus(pd.Series(two))) == two


def test_an_outlier_does_not_set_the_axis_and_its_name_says_where_it_is() -> None:
    usual = {"base": 6.0, "table3_a_h1": 6.1, "table3_a_h4": 5.9}
    ends = pd.Series(usual)
    with_outlier = pd.Series({**usual, "table3_a_h16": 400.0})
    assert axis_domain(5.0, with_outlier) == axis_domain(5.0, ends)
    assert axis_domain(5.0, ends) == pytest.approx((4.75, 9.76))
    labels = place_labels(with_outlier, axis_domain(5.0, ends)).set_index("series")
    assert labels.loc["table3_a_h16", "text"] == "h16: 400, above"
    assert labels.loc["table3_a_h16", "pixel"] == 0
    svg = svg_of(CURVES, frame_of({**usual, "table3_a_h16": 400.0}))
    assert "h16: 400, above" in svg
    assert "h1<" in svg


@pytest.mark.parametrize("value", [5.0, 7.0, 9.9])
def test_names_of_equal_curves_do_not_overlap_and_stay_in_the_panel(value: float) -> None:
    ends = pd.Series({f"s{number}": value + number / 1000 for number in range(7)})
    labels = place_labels(ends, (4.0, 10.0))
    pixels = list(labels["pixel"])
    assert all(below - above >= LINE_HEIGHT - 1e-9 for above, below in itertools.pairwise(pixels))
    assert min(pixels) >= 0
    assert max(pixels) <= PANEL_HEIGHT
    assert list(labels["series"]) == [f"s{number}" for number in reversed(range(7))]


def test_without_validations_the_loss_is_drawn_and_without_numbers_nothing() -> None:
    loss = frame_of({"base": 6.0}).assign(measure="loss_bits")
    assert "Training loss" in svg_of(CURVES, loss)
    assert "the training loss is drawn" in CURVES.describe(loss)
    with pytest.raises(FigureError, match="no finite loss or perplexity yet"):
        CURVES.chart(loss.assign(value=float("nan")))
