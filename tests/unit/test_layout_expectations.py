"""Directions fixed beforehand: counted seed by seed, and a seed that disagrees is printed."""

from pathlib import Path

import pytest

from aiayn.errors import TableError
from aiayn.printed import PUBLISHED_FOLDER, printed_number, read_expectations, read_table
from paper_tables.layout import Table
from paper_tables.render.render import plain_text
from paper_tables.tables.conclusions import holds, lay_out_expectations
from tests.laid_out import results_of
from tests.records_factory import Site, make_site, write_everything, write_scores


def ppl_of(site: Site, system: str, seed: int, value: float) -> None:
    for evaluation in site.experiment.evaluations:
        if (evaluation.system, evaluation.seed, evaluation.role) == (system, seed, "dev"):
            write_scores(site, evaluation, {"bleu_tok_compound_split": 50.0, "ppl_per_subword": value})


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
    ppl_of(site, "table3_c_n2", 1, 1.75)
    ppl_of(site, "table3_c_n2", 2, 1.25)  # base has 1.50
    row = expectations(site).rows[0]
    assert plain_text(row.cells[2]) == "seed 1: 1.75 > 1.50; seed 2: 1.25 not > 1.50 [\u2020]"
    assert plain_text(row.cells[3]) == "held in 1 of 2 seeds [\u2020]"


def test_seeds_that_agree_are_counted(site: Site) -> None:
    for seed in (1, 2):
        ppl_of(site, "table3_c_n2", seed, 1.75)
    assert plain_text(expectations(site).rows[0].cells[3]) == "held in all 2 seeds [\u2020]"


def test_a_system_that_is_not_run_has_no_row(site: Site) -> None:
    assert len(expectations(site).rows) == 1


def test_a_name_given_twice_is_refused(tmp_path: Path) -> None:
    text = (PUBLISHED_FOLDER / "expectations.csv").read_text(encoding="utf-8")
    (tmp_path / "expectations.csv").write_text(text + text.split("\n")[1] + "\n", encoding="utf-8")
    with pytest.raises(TableError, match=r"expectations\.csv:4: fewer_layers .*expectations\.csv:2"):
        read_expectations(tmp_path)
