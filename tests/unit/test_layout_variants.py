"""The table of variants: what each is unlike base in, and differences of the same seeds with their interval."""

import dataclasses
from pathlib import Path

import msgspec
import pytest

from paper_tables.layout import Table
from paper_tables.tables.compared import lay_out_variants
from tests.laid_out import DAGGER, PLUS_MINUS, results_of, row_of
from tests.records_factory import (
    Site,
    make_compared_site,
    make_pre_norm_site,
    write_attempt,
    write_dev_scores,
    write_everything,
)


def site_of(folder: Path, **changes: object) -> Site:
    """Return a site of one variant and nothing of the other language."""
    return make_compared_site(folder, **{"variants": ["pre_norm"]} | changes)


def table_of(site: Site) -> Table:
    """Return the table of whatever is there."""
    return lay_out_variants(results_of(site))


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return make_pre_norm_site(tmp_path)


def test_a_difference_is_of_the_same_seeds_and_of_two_each_is_shown(site: Site) -> None:
    row = row_of(table_of(site), "pre_norm")
    assert row["bleu_dev"] == f"71.00, 74.00 (n=2) {DAGGER}"
    assert row["bleu_dev_difference"] == f"+1.00, +2.00 (n=2) {DAGGER}"
    assert row["ppl_dev_difference"] == f"-0.25, -0.25 (n=2) {DAGGER}"
    assert row["bleu_dev_sacre"] == f"70.00, 73.00 (n=2) {DAGGER}"


def test_three_seeds_have_a_mean_difference_and_its_interval(tmp_path: Path) -> None:
    """+1, +2 and +3: mean 2, sd 1; t(0.975, 2 df) = 4.303, over the root of 3."""
    site = site_of(tmp_path, variant_seeds=[1, 2, 3])
    write_everything(site)
    for seed in (1, 2, 3):
        write_dev_scores(site, "base", seed, 70.0, 1.5)
        write_dev_scores(site, "pre_norm", seed, 70.0 + seed, 1.5)
    assert row_of(table_of(site), "pre_norm")["bleu_dev_difference"] == f"+2.00 {PLUS_MINUS} 2.48 (n=3) {DAGGER}"


def test_one_common_seed_has_its_difference_alone(tmp_path: Path) -> None:
    site = site_of(tmp_path, variant_seeds=[1])
    write_everything(site)
    write_dev_scores(site, "pre_norm", 1, 70.6, 1.5)  # base: 70.1
    row = row_of(table_of(site), "pre_norm")
    assert row["bleu_dev_difference"] == f"+0.50 (n=1) {DAGGER}"
    assert row["ppl_dev_difference"] == f"+0.00 (n=1) {DAGGER}"


def test_seeds_that_base_lacks_are_left_out_of_the_difference(tmp_path: Path) -> None:
    """Base has seeds 1 and 2 alone; seed 3 of the variant would move the mean."""
    site = site_of(tmp_path, variant_seeds=[1, 2, 3])
    write_everything(site)
    for seed, bleu in ((1, 71.1), (2, 71.2), (3, 99.0)):
        write_dev_scores(site, "pre_norm", seed, bleu, 1.5)
    (site.results_folder / "demo/score/demo_en_de/base/seed3/last1/demo_dev.json").unlink()
    assert row_of(table_of(site), "pre_norm")["bleu_dev_difference"] == f"+1.00, +1.00 (n=2) {DAGGER}"


def test_an_unfinished_training_is_named_and_leaves_no_difference(tmp_path: Path) -> None:
    site = site_of(tmp_path)
    write_attempt(site, "demo_en_de", "pre_norm", 1, update=50, outcome="failed")
    table = table_of(site)
    row = row_of(table, "pre_norm")
    assert row["bleu_dev"] == f"1 failed, 1 missing {DAGGER}"
    assert row["bleu_dev_difference"] == f"\u2013 {DAGGER}"
    assert any("pre_norm seed 1: failed at update 50 of 3,000" in note.text for note in table.notes)


def test_without_variants_the_table_is_empty_and_says_what_could_be_run(tmp_path: Path) -> None:
    site = site_of(tmp_path, variants=[], en_de_systems=["base"])
    write_everything(site)
    table = table_of(site)
    assert table.rows == ()
    assert [note.text.split(",")[0] for note in table.notes] == ["Not run at scale demo"]


def test_another_number_of_updates_than_was_run_is_never_printed(site: Site) -> None:
    """The scale now asks for 1,000 updates; the runs there were trained for 3,000 and are not shown."""
    shorter = dataclasses.replace(site, scale=msgspec.structs.replace(site.scale, updates=1000))
    row = row_of(table_of(shorter), "pre_norm")
    assert row["train_steps"] == row["bleu_dev"] == f"outdated {DAGGER}"
    assert "3,000" in row_of(table_of(site), "pre_norm")["train_steps"]
