"""Means and t-intervals over seeds, by hand."""

import pytest

from aiayn.errors import ScoreError
from aiayn.scoring.scores import SCORE_COLUMNS, SUMMARY_COLUMNS, summarise_frame, tidy_frame
from aiayn.scoring.seeds import paired_differences, summarise_seeds, t_half_width


def test_three_seeds_one_apart_have_the_textbook_interval() -> None:
    summary = summarise_seeds([27.0, 28.0, 29.0])
    assert (summary.mean, summary.sd, summary.num_seeds) == (28.0, 1.0, 3)
    assert summary.half_width == pytest.approx(4.303 / 3**0.5, abs=0.001)  # t(0.975, 2 df) = 4.303


def test_two_seeds_have_the_widest_interval() -> None:
    assert t_half_width([1.0, 3.0]) == pytest.approx(
        12.706, abs=0.001
    )  # sd 2^0.5, divided by 2^0.5, t(0.975, 1 df)


def test_two_seeds_are_summarised_without_an_interval() -> None:
    summary = summarise_seeds([24.0, 26.0])
    assert (summary.mean, summary.num_seeds, summary.half_width) == (25.0, 2, None)
    assert summary.sd == pytest.approx(2**0.5)


def test_one_seed_has_a_mean_and_no_interval() -> None:
    summary = summarise_seeds([27.3])
    assert (summary.mean, summary.sd, summary.half_width) == (27.3, None, None)


def test_equal_seeds_have_no_spread_at_all() -> None:
    assert summarise_seeds([0.1, 0.1, 0.1]).sd == 0.0


def test_no_seed_is_refused() -> None:
    with pytest.raises(ScoreError, match="nothing to summarise"):
        summarise_seeds([])


def test_differences_are_taken_seed_by_seed() -> None:
    """Both spread by 10 from seed to seed, the differences by 1."""
    assert paired_differences({3: 33.0, 1: 11.0, 2: 22.0}, {1: 10.0, 2: 20.0, 3: 30.0}) == [
        1.0,
        2.0,
        3.0,
    ]


def test_only_common_seeds_make_differences() -> None:
    assert paired_differences({1: 5.0, 2: 9.0}, {2: 8.0, 3: 0.0}) == [1.0]


def test_without_a_common_seed_there_is_no_difference() -> None:
    with pytest.raises(ScoreError, match=r"seeds \[1\] and \[2, 3\]: "):
        paired_differences({1: 5.0}, {2: 8.0, 3: 0.0})


def test_the_summary_has_a_line_for_each_evaluation_and_metric() -> None:
    line: dict[str, str | int | float] = dict.fromkeys(SCORE_COLUMNS, "x")
    lines = [
        line | {"seed": seed, "value": value} for seed, value in ((1, 27.0), (2, 28.0), (3, 29.0))
    ]
    frame = summarise_frame(tidy_frame([*lines, line | {"seed": 1, "value": 5.0, "metric": "y"}]))
    assert tuple(frame.columns) == SUMMARY_COLUMNS
    assert list(frame["num_seeds"]) == [3, 1]
    assert frame["ci_low"][0] == pytest.approx(28 - 2.484, abs=0.001)
    assert frame["sd"].isna().tolist() == [False, True]


def test_no_score_gives_an_empty_summary_with_its_columns() -> None:
    assert tuple(summarise_frame(tidy_frame([])).columns) == SUMMARY_COLUMNS
