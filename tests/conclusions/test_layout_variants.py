"""The table of variants: what each is unlike base in, and differences of the same seeds with their
interval.
"""

from pathlib import Path

from analysis.conclusions.tables.variants import lay_out_variants
from paper_tables.layout import Table
from tests.laid_out import DAGGER, PLUS_MINUS, frame_of, row_of
from tests.records_factory import (
    Site,
    make_compared_site,
    write_dev_scores,
    write_everything,
)


def site_of(folder: Path, **changes: object) -> Site:
    """Return a site of one variant and nothing of the other language."""
    return make_compared_site(folder, **{"variants": ["pre_norm"]} | changes)


def table_of(site: Site) -> Table:
    """Return the table of whatever is there."""
    return lay_out_variants(frame_of(site))


def test_three_seeds_have_a_mean_difference_and_its_interval(tmp_path: Path) -> None:
    """+1, +2 and +3: mean 2, sd 1; t(0.975, 2 df) = 4.303, over the root of 3."""
    site = site_of(tmp_path, variant_seeds=[1, 2, 3])
    write_everything(site)
    for seed in (1, 2, 3):
        write_dev_scores(site, "base", seed, 70.0, 1.5)
        write_dev_scores(site, "pre_norm", seed, 70.0 + seed, 1.5)
    assert (
        row_of(table_of(site), "pre_norm")["bleu_dev_difference"]
        == f"+2.00 {PLUS_MINUS} 2.48 (n=3) {DAGGER}"
    )


def test_without_variants_the_table_is_empty_and_says_what_could_be_run(tmp_path: Path) -> None:
    site = site_of(tmp_path, variants=[], en_de_systems=["base"])
    write_everything(site)
    table = table_of(site)
    assert table.cells.empty
    assert [note.text.split(",")[0] for note in table.notes] == ["Not run at scale demo"]
