"""The table of verdicts: every printed BLEU has a row, and notes below it are on all rows together."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pandas as pd
import pytest

from aiayn.printed import read_cells, read_replications
from analysis.scoring.verdict import judge
from paper_tables.cell_verdicts import VERDICT_COLUMNS, JudgedCell, corrected, judge_cells, verdict_frame
from paper_tables.scale_results import ScaleResults
from paper_tables.tables.verdicts import format_p, lay_out_verdicts
from tests.laid_out import notes_of, results_of, row_of
from tests.records_factory import make_site, write_everything


def make_results(folder: Path, scale: str, base_bleu: float = 27.1) -> ScaleResults:
    site = make_site(folder, scale, seeds=[1, 2, 3], ablation_seeds=[1])
    write_everything(site, base_bleu=base_bleu)
    return results_of(site, so_far=False)


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> ScaleResults:
    return make_results(tmp_path_factory.mktemp("demo"), "demo")


@pytest.fixture(scope="module")
def paper(tmp_path_factory: pytest.TempPathFactory) -> ScaleResults:
    """Means of 27.3, sd 0.1: base is 0.0 from its printed number."""
    return make_results(tmp_path_factory.mktemp("paper"), "paper")


def frame_line(frame: pd.DataFrame, table: str, row: str) -> dict[str, Any]:
    values = frame[(frame["table"] == table) & (frame["row"] == row)].iloc[0]
    return {str(name): value for name, value in values.items()}


def test_every_printed_bleu_has_a_row_also_where_it_is_not_run(demo: ScaleResults) -> None:
    table = lay_out_verdicts(demo, judge_cells(demo))
    num_printed = sum(join.metric.startswith("bleu_") for join in read_cells()) + len(read_replications())
    assert len(table.rows) == num_printed
    absent = row_of(table, "Table 3: table3_a_h1")
    assert (absent["ours"], absent["difference"], absent["verdict"]) == ("not run", "", "NOT COMPARABLE")
    assert absent["reason"] == "This system is not run at scale demo."


def test_at_a_smaller_scale_no_cell_is_judged_and_none_can_be_wrong(demo: ScaleResults) -> None:
    assert "the rule was applied to no cell" in notes_of(lay_out_verdicts(demo, judge_cells(demo)))


def test_the_family_is_stated_with_its_number_its_chances_and_what_correction_changes(paper: ScaleResults) -> None:
    judged = judge_cells(paper)
    notes = notes_of(lay_out_verdicts(paper, judged))
    num_judged = sum(cell.verdict.p_equivalent is not None for cell in judged)
    assert num_judged == 7  # Table 2: base and big, both languages, one in two editions; Table 3: base and big
    assert "applied to 7 cell(s), each at 0.05" in notes
    assert "would be 0.302, 1 - (1 - 0.05)^7" in notes  # 1 - 0.6983
    assert "one wrong NOT REPRODUCED 0.162" in notes  # 1 - 0.975^7
    assert "it would change: none." in notes


def test_a_verdict_shows_its_p_values_and_those_by_holm(paper: ScaleResults) -> None:
    row = row_of(lay_out_verdicts(paper, judge_cells(paper)), "Table 2: base, bleu_en_de")
    assert row["verdict"] == "REPRODUCED"
    assert row["p_equivalent"] == "<0.001 (<0.001)"
    assert row["p_outside"] == "1.000 (1.000)"


def test_the_file_has_the_p_values_of_each_verdict_and_the_family_in_every_line(paper: ScaleResults) -> None:
    frame = verdict_frame(judge_cells(paper))
    assert tuple(frame.columns) == VERDICT_COLUMNS
    line = frame_line(frame, "2", "base")
    assert line["outcome"] == line["outcome_holm"] == "REPRODUCED"
    assert 0 < float(str(line["p_equivalent"])) < float(str(line["p_equivalent_holm"])) < 0.05
    assert set(frame["num_judged"]) == {7}
    assert set(frame["chance_wrongly_reproduced"].round(3)) == {0.302}
    assert pd.isna(frame_line(frame, "3", "table3_a_h1")["p_equivalent"])


def test_a_row_has_the_verdict_and_whether_the_printed_number_could_be_one_more_run(paper: ScaleResults) -> None:
    judged = judge_cells(paper)
    table = lay_out_verdicts(paper, judged)
    assert row_of(table, "Table 2: base, bleu_en_de")["prediction"].startswith("inside 27.0")
    assert row_of(table, "Table 2: big, bleu_en_de")["prediction"].startswith("outside 27.0")  # 28.4; ours 27.3
    assert row_of(table, "Table 3: table3_a_h1")["prediction"] == ""
    for words in ("Verdict: is the mean of our runs", "Inside says that one run cannot be told from ours",
                  "It is no REPRODUCED"):  # fmt: skip
        assert words in notes_of(table)
    frame = verdict_frame(judged)
    line = frame_line(frame, "2", "base")
    assert line["printed_in_prediction"] == "inside"
    assert line["prediction_high"] - line["mean"] == pytest.approx(line["prediction_half_width"])
    assert pd.isna(frame_line(frame, "3", "table3_a_h1")["prediction_low"])


def test_a_cell_that_is_not_comparable_has_no_prediction(demo: ScaleResults) -> None:
    judged = judge_cells(demo)
    assert set(verdict_frame(judged)["printed_in_prediction"].dropna()) == set()
    assert "one run cannot be told" not in notes_of(lay_out_verdicts(demo, judged))


def test_the_spread_of_public_runs_is_cited_at_the_papers_scale_alone(paper: ScaleResults, demo: ScaleResults) -> None:
    cited = "it enters no verdict. Source: mlcommons/training_results_v0.5"
    assert cited in notes_of(lay_out_verdicts(paper, judge_cells(paper)))
    assert cited not in notes_of(lay_out_verdicts(demo, judge_cells(demo)))


def cell_with(judged: list[JudgedCell], values: list[float]) -> list[JudgedCell]:
    """Return the judged cells with base's verdict on Table 2 replaced by that on these values, unpooled."""
    first = judged[0]
    return corrected([replace(first, verdict=judge(27.3, values, None)), *judged[1:]])


def test_a_verdict_that_holm_takes_back_is_named(tmp_path: Path) -> None:
    results = make_results(tmp_path, "paper", base_bleu=60)  # all others are far away
    judged = cell_with(judge_cells(results), [27.03, 27.3, 27.57])  # p = 0.0425 alone, of 7
    notes = notes_of(lay_out_verdicts(results, judged))
    assert "it would change: Table 2: base, bleu_en_de (REPRODUCED to UNDECIDED)." in notes


def test_a_note_warns_of_systems_with_different_spreads(paper: ScaleResults) -> None:
    results = paper
    calm = notes_of(lay_out_verdicts(results, judge_cells(results)))
    assert "do not share one spread" not in calm
    scores = results.scores.copy()
    is_wild = (scores["system"] == "big") & (scores["testset"] == "newstest2014")
    scores.loc[is_wild, "value"] = scores["seed"] * 10.0
    results = msgspec.structs.replace(results, scores=scores)
    wild = notes_of(lay_out_verdicts(results, judge_cells(results)))
    assert "The systems do not share one spread" in wild


@pytest.mark.parametrize(("p_value", "text"), [(0.5, "0.500"), (0.0014, "0.001"), (0.00099, "<0.001"), (0.0, "<0.001")])
def test_a_p_value_has_three_decimals_and_is_never_zero(p_value: float, text: str) -> None:
    assert format_p(p_value) == text
