"""The readings of decision 0012: their arithmetic on small numbers, and their table on a made site."""

import math
from pathlib import Path

import msgspec
import pytest
from scipy import stats

from aiayn.paths import evaluation_record
from aiayn.records import PerplexityRecord, read_record, write_record
from analysis.conclusions.answers import Direction
from analysis.conclusions.readings import (
    correct_by_holm,
    differing_readings,
    leave_seeds_out,
    merge_seeds,
    read_pooled,
    read_welch,
)
from analysis.conclusions.tables.conclusions import lay_out_conclusions
from analysis.conclusions.tables.readings import lay_out_readings
from paper_tables.make_frame import make_frame
from paper_tables.render.tables import write_frames
from paper_tables.tables.further import lay_out_runs
from paper_tables.tables.table3 import lay_out_table3
from tests.conclusions.test_conclusions import three_against_three
from tests.laid_out import frame_of, notes_of, results_of, rows_of
from tests.records_factory import make_site, write_dev_scores

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


def test_later_seeds_of_a_config_are_in_the_readings_and_runs_but_in_no_conclusion_or_summary(
    tmp_path: Path,
) -> None:
    """Base has 2.9, 3.0 and 3.1 bits; its later seed 11 has 3.8."""
    tables = {}
    for name, later_seeds in (("without", []), ("with", ["base:11"])):
        site = three_against_three(tmp_path / name, later_seeds=later_seeds)
        write_dev_scores(site, "table3_c_n2", 1, 23.9, 2**3.6)
        if later_seeds:
            write_dev_scores(site, "base", 11, 20.0, 2**3.8)
        results = results_of(site)
        frame = make_frame(results)
        write_frames(results, frame, tmp_path / name / "frames")
        summary = (tmp_path / name / "frames/summary.tsv").read_text(encoding="utf-8")
        readings = lay_out_readings(frame)
        assert readings is not None
        row_by_reading = {row["reading"]: row["table3_c_n2"] for row in rows_of(readings)}
        tables[name] = (
            rows_of(lay_out_table3(frame)),
            rows_of(lay_out_conclusions(frame)),
            summary,
            row_by_reading,
        )
    assert tables["without"][0] == tables["with"][0]
    assert tables["without"][2] == tables["with"][2]
    for before, after in zip(tables["without"][1], tables["with"][1], strict=True):
        assert before | {"differing": ""} == after | {"differing": ""}
    assert tables["with"][3].pop("all seeds (added after a look)").startswith("+0.400")
    assert tables["without"][3] == tables["with"][3]
    assert [row["training"] for row in rows_of(lay_out_runs(frame))][
        -1
    ] == "demo_en_de base seed 11"


def test_the_table_stars_a_reading_with_another_direction_and_names_dirty_evaluations(
    tmp_path: Path,
) -> None:
    """The row is 0.6 bits worse than base (reach 0.497) and 0.4 BLEU (reach 0.99)."""
    site = three_against_three(tmp_path)
    write_dev_scores(site, "table3_c_n2", 1, 24.6, 2**3.6)
    evaluation = next(
        one
        for one in site.experiment.evaluations
        if (one.system, one.seed, one.role) == ("table3_c_n2", 1, "dev")
    )
    path = evaluation_record(site.results_folder, "demo", "perplexity", evaluation)
    record = read_record(path, PerplexityRecord)
    dirty = msgspec.structs.replace(record.provenance, is_dirty=True)
    write_record(msgspec.structs.replace(record, provenance=dirty), path)
    table = lay_out_readings(frame_of(site))
    assert table is not None
    rows = {row["reading"]: row for row in rows_of(table)}
    assert rows["Holm"]["table3_c_n2"] == "+0.600 \u00b1 0.497 [\u2020]"
    assert rows["Holm"]["num_other"] == "0"
    assert rows["BLEU on demo_dev"]["table3_c_n2"] == "-0.40 \u00b1 0.99 * [\u2020]"
    assert rows["BLEU on demo_dev"]["num_other"] == "1"
    assert (
        "Evaluated from a changed working tree (`is_dirty` in the records): table3_c_n2 seed 1."
        in notes_of(table)
    )


def test_without_an_answer_there_is_no_table(tmp_path: Path) -> None:
    assert lay_out_readings(frame_of(make_site(tmp_path))) is None
