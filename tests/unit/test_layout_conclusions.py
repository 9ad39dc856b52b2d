"""What holds of the paper's conclusions and expectations: calls checked by hand, and the tables that show them."""

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from aiayn.errors import TableError
from aiayn.printed import printed_number, read_conclusions, read_expectations, read_table
from analysis.scoring.verdict import Call, PooledSd, Relation, draw_conclusion, pool_sd
from paper_tables.layout import Table
from paper_tables.render.render import plain_text
from paper_tables.tables.conclusions import holds, lay_out_conclusions, lay_out_expectations, pair_conclusions
from tests import laid_out
from tests.laid_out import results_of
from tests.records_factory import Site, make_site, write_dev_scores, write_everything


def pool(sd: float, degrees_of_freedom: int) -> PooledSd:
    return PooledSd(
        sd=sd, degrees_of_freedom=degrees_of_freedom, num_systems=1, smallest_sd=sd, largest_sd=sd, bartlett_p=None
    )


# t(0.975, 2) = 4.303, t(0.95, 2) = 2.920. One seed against three: sqrt(1 + 1/3) = 1.1547; with sd 0.2 the standard
# error is 0.2309, the two-sided reach 0.9937, the one-sided 0.6743. t(0.975, 10) = 2.228, t(0.95, 10) = 1.812.
@pytest.mark.parametrize(
    ("relation", "values", "reference_values", "expected"),
    [
        ("below", [24.0], [24.9, 25.0, 25.1], Call.HOLDS),  # 1.00 below, the reach is 0.99
        ("below", [24.1], [24.9, 25.0, 25.1], Call.TOO_CLOSE),  # 0.90
        ("below", [26.0], [24.9, 25.0, 25.1], Call.REVERSED),
        ("above", [26.0], [24.9, 25.0, 25.1], Call.HOLDS),
        ("above", [24.0], [24.9, 25.0, 25.1], Call.REVERSED),
        ("above", [25.0], [24.9, 25.0, 25.1], Call.TOO_CLOSE),
        ("equivalent", [25.0], [24.9, 25.0, 25.1], Call.TOO_CLOSE),  # 0 apart, but 0.67 is within reach
        ("equivalent", [26.4], [24.9, 25.0, 25.1], Call.TOO_CLOSE),  # 1.40 - 0.99 = 0.41
        ("equivalent", [26.5], [24.9, 25.0, 25.1], Call.REVERSED),  # 1.50 - 0.99 = 0.51
        ("equivalent", [23.5], [24.9, 25.0, 25.1], Call.REVERSED),
    ],
)
def test_a_call_follows_from_the_rule(
    relation: Relation, values: Sequence[float], reference_values: Sequence[float], expected: Call
) -> None:
    found = draw_conclusion(relation, values, reference_values, pool(0.2, 2))
    assert found.call is expected
    assert found.reach == pytest.approx(0.6743 if relation == "equivalent" else 0.9937, abs=5e-4)


@pytest.mark.parametrize(("difference", "expected"), [(0.40, Call.HOLDS), (-0.40, Call.HOLDS), (0.45, Call.TOO_CLOSE)])
def test_systems_are_as_good_if_all_that_is_within_reach_is_within_the_margin(
    difference: float, expected: Call
) -> None:
    # 2 and 2 seeds, sd 0.05, 10 degrees of freedom: a standard error of 0.05, a reach of 0.0906
    found = draw_conclusion("equivalent", [25.0 + difference] * 2, [25.0] * 2, pool(0.05, 10))
    assert found.reach == pytest.approx(0.0906, abs=5e-4)
    assert found.call is expected


def test_without_a_system_of_two_seeds_nothing_can_be_called() -> None:
    assert pool_sd({"base": [25.0], "big": [30.0]}) is None
    found = draw_conclusion("above", [30.0], [25.0], None)
    assert (found.call, found.difference, found.reach) == (Call.NO_SEEDS, 5.0, None)
    assert "no seeds" in found.call.value


def test_seeds_without_any_spread_call_every_difference_and_no_equal_values() -> None:
    assert draw_conclusion("above", [25.1], [25.0, 25.0], pool(0.0, 1)).call is Call.HOLDS
    assert draw_conclusion("above", [25.0], [25.0, 25.0], pool(0.0, 1)).call is Call.TOO_CLOSE


def rows_of(table: Table) -> dict[tuple[str, str], dict[str, str]]:
    """Return the rows by (difference, metric)."""
    return {(row["rows"], row["metric"]): row for row in laid_out.rows_of(table)}


def test_every_printed_difference_has_the_sign_that_the_paper_concludes(tmp_path: Path) -> None:
    pairs = pair_conclusions(results_of(make_site(tmp_path)))
    printed = {pair.conclusion.name: float(pair.printed_difference) for pair in pairs}
    for pair in pairs:
        difference, relation = printed[pair.conclusion.name], pair.conclusion.relation
        assert {"above": difference > 0, "below": difference < 0, "equivalent": abs(difference) < 0.5}[relation], pair
    assert printed["one_head_bleu"] == pytest.approx(-0.9)
    assert (printed["big_en_fr_neurips"], printed["big_en_fr_arxiv"]) == (pytest.approx(2.9), pytest.approx(3.7))


def test_every_row_of_table_3_that_the_text_mentions_has_a_line() -> None:
    rows = {conclusion.row for conclusion in read_conclusions()}
    assert rows == {
        "table3_a_h1", "table3_a_h32", "table3_b_dk16", "table3_b_dk32", "table3_c_n2", "table3_c_n4", "table3_c_n8",
        "table3_c_dmodel256", "table3_c_dmodel1024", "table3_c_dff1024", "table3_c_dff4096", "table3_d_pdrop0",
        "table3_d_els0", "table3_e_learned", "big",
    }  # fmt: skip


def test_the_table_shows_printed_ours_reach_and_call(tmp_path: Path) -> None:
    site = make_site(tmp_path, seeds=[1, 2, 3], en_de_systems=["base"], ablation_systems=["table3_c_n2"])
    write_everything(site)
    for seed, bleu in ((1, 24.8), (2, 25.0), (3, 25.2)):  # sd 0.2, 2 degrees of freedom
        write_dev_scores(site, "base", seed, bleu)
    write_dev_scores(site, "table3_c_n2", 1, 23.9)
    row = rows_of(lay_out_conclusions(results_of(site)))[("table3_c_n2 minus base", "bleu_tok_compound_split")]
    assert row["printed"] == "-2.1"
    assert row["ours"] == "-1.10 (n=1 and 3) [\u2020]"
    assert (row["reach"], row["call"]) == ("0.99", "holds here")


def test_a_number_of_a_smaller_scale_is_marked(tmp_path: Path) -> None:
    site = make_site(tmp_path, "multi30k")
    write_everything(site)
    table = lay_out_conclusions(results_of(site))
    ours = [row["ours"] for row in rows_of(table).values() if "n=" in row["ours"]]
    assert ours
    assert all(text.endswith("[\u2021]") for text in ours)
    (legend,) = [note.text for note in table.notes if note.mark == "\u2021"]
    assert "multi30k" in legend


def test_a_scale_of_single_seeds_calls_nothing_and_says_why(tmp_path: Path) -> None:
    site = make_site(tmp_path, seeds=[1], ablation_seeds=[1])
    write_everything(site)
    rows = rows_of(lay_out_conclusions(results_of(site)))
    row = rows[("table3_c_n2 minus base", "bleu_tok_compound_split")]
    assert (row["reach"], row["call"]) == ("", "cannot be called: no seeds")


def test_rows_that_are_not_run_or_not_measured_say_so(tmp_path: Path) -> None:
    site = make_site(tmp_path)
    rows = rows_of(lay_out_conclusions(results_of(site)))
    assert rows[("table3_a_h1 minus base", "ppl_per_subword")]["ours"] == "not run"
    assert rows[("table3_c_n2 minus base", "ppl_per_subword")]["ours"] == "not measured [\u2020]"


def test_a_conclusion_from_a_cell_that_no_run_fills_is_refused(
    copied_folder: Path, spoil: Callable[[str, str, str], None]
) -> None:
    spoil("conclusions", "table3_a_h1,base,bleu_dev", "gnmt_rl,base,bleu_dev")
    with pytest.raises(TableError, match=r"conclusions.csv:2: Table 3, row gnmt_rl, column bleu_dev is not joined"):
        read_conclusions(copied_folder)


def expectations(site: Site) -> Table:
    return lay_out_expectations(results_of(site))


@pytest.fixture
def site(tmp_path: Path) -> Site:
    made = make_site(tmp_path, ablation_systems=["table3_c_n2"], ablation_seeds=[1, 2])
    write_everything(made)
    return made


def test_equal_values_hold_in_neither_direction() -> None:
    above, below = read_expectations()
    assert (above.relation, below.relation) == ("above", "below")
    assert holds(above, 6.11, 4.92)
    assert not holds(above, 4.92, 4.92)
    assert holds(below, 4.67, 4.92)
    assert not holds(below, 4.92, 4.92)


def test_every_expectation_is_what_table_3_prints() -> None:
    printed = {cell.row: cell.value for cell in read_table(3) if cell.column == "ppl_dev"}
    for expectation in read_expectations():
        ours, reference = (printed_number(printed[row]) for row in (expectation.system, expectation.reference))
        assert holds(expectation, ours, reference), expectation.name


def test_a_seed_that_disagrees_is_printed(site: Site) -> None:
    write_dev_scores(site, "table3_c_n2", 1, 50.0, 1.75)
    write_dev_scores(site, "table3_c_n2", 2, 50.0, 1.25)  # base has 1.50
    row = expectations(site).rows[0]
    assert plain_text(row.cells[2]) == "seed 1: 1.75 > 1.50; seed 2: 1.25 not > 1.50 [\u2020]"
    assert plain_text(row.cells[3]) == "held in 1 of 2 seeds [\u2020]"


def test_seeds_that_agree_are_counted(site: Site) -> None:
    for seed in (1, 2):
        write_dev_scores(site, "table3_c_n2", seed, 50.0, 1.75)
    assert plain_text(expectations(site).rows[0].cells[3]) == "held in all 2 seeds [\u2020]"


def test_a_system_that_is_not_run_has_no_row(site: Site) -> None:
    assert len(expectations(site).rows) == 1
