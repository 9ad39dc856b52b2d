"""The table of the wing, made of a small demo, is the golden file in tests/price/tables."""

from pathlib import Path

from tests.support.golden_tables import check_tables, lay_out_demo


def test_the_table_is_the_golden_one(tmp_path: Path) -> None:
    check_tables(lay_out_demo(tmp_path), ["costs"], Path(__file__).parent / "tables", "csv")
