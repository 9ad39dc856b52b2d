"""The readings of decision 0012: their arithmetic on small numbers, and their table on a made site."""

import math
from pathlib import Path

import msgspec
import pytest
from scipy import stats

from analysis.conclusions.answers import Direction
from analysis.conclusions.readings import (
    correct_by_holm,
    differing_readings,
    leave_seeds_out,
    merge_seeds,
    read_pooled,
    read_welch,
)
from analysis.conclusions.tables.readings import lay_out_readings
from tests.laid_out import frame_of
from tests.records_factory import make_site

VALUES = {
    "base": {5: 2.50, 6: 2.54, 7: 2.52},
    "same": {5: 2.52, 6: 2.53},
    "worse": {5: 2.70, 6: 2.72},
    "single": {5: 2.30},
}
ROWS = ("same", "worse", "single")


def test_a_pooled_reading_gives_better_worse_and_no_difference() -> None:
    reading = read_pooled("text", "bits on another text", VALUES, ROWS, "base")
    found = [reading.direction(row) for row in (*ROWS, "absent")]
    assert found == [Direction.NEITHER, Direction.WORSE, Direction.BETTER, None]
    bleu = read_pooled("metric", "BLEU", VALUES, ROWS, "base", less_is_better=False)
    assert bleu.direction("worse") is Direction.BETTER
    assert differing_readings([reading, bleu], "worse", Direction.WORSE) == ["BLEU"]


def test_welch_takes_the_controls_own_variance_and_that_pooled_over_the_rows() -> None:
    """With one row of two seeds it is scipy's own test of unequal variances."""
    values = {"base": VALUES["base"], "worse": VALUES["worse"]}
    (estimate,) = read_welch(values, ["worse"], "base", "Welch").estimate_by_row.values()
    expected = stats.ttest_ind(
        list(values["worse"].values()), list(values["base"].values()), equal_var=False
    )
    assert estimate.p_difference == pytest.approx(expected.pvalue)
    assert estimate.degrees_of_freedom == pytest.approx(expected.df)


def test_one_seed_on_a_side_has_the_rows_variance_and_a_control_of_one_seed_has_none() -> None:
    single = read_welch(VALUES, ["single"], "base", "Welch").estimate_by_row["single"]
    rows = math.sqrt((0.01**2 / 2 + 0.02**2 / 2) / 2)  # of `same` and `worse`
    assert single.standard_error == pytest.approx(math.sqrt(rows**2 + 0.02**2 / 3))
    reading = read_welch({**VALUES, "base": {5: 2.5}}, ROWS, "base", "Welch")
    assert reading.estimate_by_row == {}
    assert set(reading.missing.values()) == {"base has 1 seed(s), expected 2 or more"}
    alone = read_pooled("text", "bits", {"base": {5: 2.5}, "single": {5: 2.3}}, ["single"], "base")
    assert alone.missing == {"single": "base has 1 seed(s), expected 2 or more"}


def test_a_row_without_a_value_is_named() -> None:
    reading = read_pooled("horizon", "60 %", {**VALUES, "worse": {}}, ROWS, "base")
    assert (reading.direction("worse"), reading.missing) == (None, {"worse": "worse has no value"})


def test_holm_makes_a_small_difference_of_many_no_difference() -> None:
    """One p-value of 0.03 among four: four times that is above 0.05."""
    reading = read_pooled("variance", "", VALUES, ("same",), "base")
    edge = msgspec.structs.replace(
        reading.estimate_by_row["same"], difference=0.0, standard_error=0.01
    )
    near = msgspec.structs.replace(
        edge, difference=0.01 * float(stats.t.ppf(1 - 0.03 / 2, edge.degrees_of_freedom))
    )
    family = {"near": near, "b": edge, "c": edge, "d": edge}
    plain = msgspec.structs.replace(reading, estimate_by_row=family)
    assert plain.direction("near") is Direction.WORSE
    assert correct_by_holm(plain, "Holm").direction("near") is Direction.NEITHER


def test_each_seed_of_the_control_is_left_out_in_turn_and_later_seeds_are_added() -> None:
    readings = leave_seeds_out(VALUES, ["same"], "base")
    assert [reading.name for reading in readings] == [
        "without base 5",
        "without base 6",
        "without base 7",
    ]
    assert readings[0].estimate_by_row["same"].difference == pytest.approx(2.525 - 2.53)
    merged = merge_seeds(VALUES, {"base": {11: 2.6}, "other": {5: 3.0}})
    assert merged["base"] == {5: 2.50, 6: 2.54, 7: 2.52, 11: 2.6}
    assert merged["other"] == {5: 3.0}
    assert VALUES["base"] == {5: 2.50, 6: 2.54, 7: 2.52}


def test_without_an_answer_there_is_no_table(tmp_path: Path) -> None:
    assert lay_out_readings(frame_of(make_site(tmp_path))) is None
