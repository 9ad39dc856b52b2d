"""What others published, laid out: like by like, and ours only beside the same test set and definition."""

from pathlib import Path

import pytest

from paper_tables.layout import Table
from paper_tables.tables.further import lay_out_reference
from tests.laid_out import results_of, rows_of
from tests.records_factory import EIGHT_P100, Site, make_site, write_everything


def table_of(site: Site) -> Table:
    return lay_out_reference(results_of(site))


@pytest.fixture
def paper_site(tmp_path: Path) -> Site:
    site = make_site(tmp_path, "paper", has_baselines=False)
    write_everything(site, base_bleu=27, hardware=EIGHT_P100)
    return site


def test_at_another_scale_there_is_nothing_of_ours(tmp_path: Path) -> None:
    site = make_site(tmp_path)
    write_everything(site)
    table = table_of(site)
    assert {row["ours"] for row in rows_of(table)} == {""}
    assert [note.text for note in table.notes] == [
        "Scale demo has none of these test sets, so nothing of ours stands beside them."
    ]
    assert table.signatures == ()


def test_at_the_papers_scale_ours_is_shown_in_the_same_definition_only(paper_site: Site) -> None:
    table = table_of(paper_site)
    beside = {
        (row["language_pair"], row["system"], row["testset"], row["metric"]): row["ours"]
        for row in rows_of(table)
        if row["ours"]
    }
    assert beside["en-de", "base", "newstest2014", "bleu_tok_compound_split"].startswith("27.")
    assert "(n=2)" in beside["en-de", "base", "newstest2014", "bleu_tok_compound_split"]
    assert ("en-fr", "big", "newstest2014", "bleu_sacre_13a") in beside
    assert {testset for _, _, testset, _ in beside} == {"newstest2013", "newstest2014"}  # the filtered set is another
    assert "other" not in {metric for *_, metric in beside}
    assert table.signatures != ()
