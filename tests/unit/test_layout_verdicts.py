"""The table of verdicts: every printed BLEU has a row, and notes below it are on all rows together."""

from pathlib import Path

import msgspec
import pytest

from aiayn.printed import read_cells, read_replications
from aiayn.scoring.verdict import judge, pool_sd
from paper_tables.frame import Frame
from paper_tables.make_frame import corrected, make_frame
from paper_tables.scale_results import ScaleResults
from paper_tables.tables.verdicts import lay_out_verdicts
from tests.laid_out import notes_of, results_of, row_of
from tests.records_factory import make_site, write_everything


def make_results(folder: Path, scale: str, base_bleu: float = 27.1) -> ScaleResults:
    site = make_site(folder, scale, seeds=[1, 2, 3], ablation_seeds=[1])
    write_everything(site, base_bleu=base_bleu)
    return results_of(site, so_far=False)


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Frame:
    return make_frame(make_results(tmp_path_factory.mktemp("demo"), "demo"))


@pytest.fixture(scope="module")
def paper(tmp_path_factory: pytest.TempPathFactory) -> ScaleResults:
    """Means of 27.3, sd 0.1: base is 0.0 from its printed number."""
    return make_results(tmp_path_factory.mktemp("paper"), "paper")


def test_every_printed_bleu_has_a_row_also_where_it_is_not_run(demo: Frame) -> None:
    table = lay_out_verdicts(demo)
    num_printed = sum(join.metric.startswith("bleu_") for join in read_cells()) + len(
        read_replications()
    )
    assert table.cells.position.nunique() == num_printed
    absent = row_of(table, "Table 3: table3_a_h1")
    assert (absent["ours"], absent["difference"], absent["verdict"]) == (
        "not run",
        "",
        "NOT COMPARABLE",
    )
    assert absent["reason"] == "This system is not run at scale demo."


def test_at_a_smaller_scale_no_cell_is_judged_and_none_can_be_wrong(demo: Frame) -> None:
    assert "the rule was applied to no cell" in notes_of(lay_out_verdicts(demo))


def frame_with(
    frame: Frame, values: list[float], other_values: tuple[list[float], ...] = ()
) -> Frame:
    """Return the frame with base's verdict on Table 2 replaced by that on these values, pooled with
    other systems' values.
    """
    systems = {str(index): some for index, some in enumerate([values, *other_values])}
    verdict = judge(27.3, values, pool_sd(systems))
    first = msgspec.structs.replace(frame.cells[0], verdict=verdict)
    return msgspec.structs.replace(frame, cells=tuple(corrected([first, *frame.cells[1:]])))


def test_a_verdict_that_holm_takes_back_is_named(tmp_path: Path) -> None:
    frame = make_frame(make_results(tmp_path, "paper", base_bleu=60))  # all others are far away
    notes = notes_of(
        lay_out_verdicts(frame_with(frame, [27.03, 27.3, 27.57]))
    )  # p = 0.0425 alone, of 7
    assert "it would change: Table 2: base, bleu_en_de (REPRODUCED to UNDECIDED)." in notes


def test_one_seed_without_an_sd_of_ours_has_the_seeds_at_public_noise(paper: ScaleResults) -> None:
    frame = make_frame(paper)
    ours = row_of(
        lay_out_verdicts(frame_with(frame, [27.0, 27.1, 27.5])), "Table 2: base, bleu_en_de"
    )
    assert ours["num_seeds_to_decide"].isdecimal()
    one = row_of(lay_out_verdicts(frame_with(frame, [27.1])), "Table 2: base, bleu_en_de")
    assert "at MLPerf's sd 0.32 (En-De), " in one["num_seeds_to_decide"]
    assert "at AlgoPerf's sd 0.17 (De-En)" in one["num_seeds_to_decide"]


def test_a_note_warns_of_systems_with_different_spreads(paper: ScaleResults) -> None:
    calm = notes_of(lay_out_verdicts(make_frame(paper)))
    assert "do not share one spread" not in calm
    scores = paper.scores.copy()
    is_wild = (scores["system"] == "big") & (scores["testset"] == "newstest2014")
    scores.loc[is_wild, "value"] = scores["seed"] * 10.0
    wild = notes_of(lay_out_verdicts(make_frame(msgspec.structs.replace(paper, scores=scores))))
    assert "The systems do not share one spread" in wild


def test_both_rules_are_shown_and_a_changed_verdict_is_listed_with_its_reason(
    paper: ScaleResults,
) -> None:
    calm = [[20.0, 20.05, 20.1]] * 3
    table = lay_out_verdicts(
        frame_with(make_frame(paper), [26.9, 27.3, 27.7], other_values=tuple(calm))
    )
    ours = row_of(table, "Table 2: base, bleu_en_de")
    assert (ours["verdict"], ours["verdict_by_pooled_sd"]) == ("UNDECIDED", "REPRODUCED")
    notes = notes_of(table)
    assert (
        "Table 2: base, bleu_en_de (REPRODUCED to UNDECIDED, because its own sd 0.40 is above the"
        " pooled 0.20)" in notes
    )
    assert "With 3 seeds and an sd of 2 degrees of freedom, no difference can be" in notes
    assert "if the sd is 0.30 or more" in notes
