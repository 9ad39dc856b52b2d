"""The table of the wing, made of a small demo, is the golden file in tests/layers/tables; it is made
with and without a record of seconds.
"""

from pathlib import Path

from aiayn.paths import scale_record
from paper_tables.render.tables import make_tables
from tests.records_factory import make_site, write_everything
from tests.support.golden_tables import check_tables, lay_out_demo


def test_the_table_is_the_golden_one(tmp_path: Path) -> None:
    check_tables(lay_out_demo(tmp_path), ["table1"], Path(__file__).parent / "tables", "csv")


def test_without_layer_timing_no_record_of_it_is_needed(tmp_path: Path) -> None:
    site = make_site(tmp_path, has_layer_timing=False)
    write_everything(site)
    make_tables(
        site.scale, site.results_folder, so_far=False, queues={}, config_folder=site.config_folder
    )
    folder = site.results_folder / "demo"
    table_path = folder / "tables" / "table1.md"
    assert "Exponent in seconds" in table_path.read_text(encoding="utf-8")  # measured by itself
    table_path.unlink()
    scale_record(site.results_folder, "demo", "measure").unlink()
    make_tables(
        site.scale, site.results_folder, so_far=False, queues={}, config_folder=site.config_folder
    )
    assert not table_path.exists()
    assert (folder / "tables" / "table2.md").exists()
