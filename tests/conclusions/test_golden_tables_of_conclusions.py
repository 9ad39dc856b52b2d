"""The tables of the wing, made of a small demo, are the golden files in tests/conclusions/tables."""

import re
from pathlib import Path

import pytest

from analysis.conclusions.wing import WING
from paper_tables.layout import Table
from paper_tables.render.report import render_page
from tests.records_factory import EIGHT_P100, make_site, write_everything
from tests.support.golden_tables import RENDERERS, check_tables, lay_out_demo
from tests.unit.test_report import page_of
from tests.unit.test_scale_precision import notes_of, tables_of

FOLDER = Path(__file__).parent / "tables"


@pytest.fixture(scope="module")
def demo_tables(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Table]:
    return lay_out_demo(tmp_path_factory.mktemp("demo"))


@pytest.mark.parametrize("suffix", sorted(RENDERERS))
def test_the_rendered_tables_are_the_golden_ones(
    demo_tables: dict[str, Table], suffix: str
) -> None:
    names = [table.name for table in WING.tables if table.name in demo_tables]
    check_tables(demo_tables, names, FOLDER, suffix, in_every_format=("conclusions",))


def test_each_number_of_ours_opens_its_run(demo_tables: dict[str, Table]) -> None:
    page = render_page("T", "S", [demo_tables["conclusions"]], (), None)
    numbers = re.findall(r'<td class="ours[^"]*"[^>]*>([^/]*; n=.*?)</td>', page)
    assert numbers
    assert [number for number in numbers if "popovertarget" not in number] == []


def test_what_was_not_run_has_a_line_and_no_table(tmp_path: Path) -> None:
    site = make_site(tmp_path)
    write_everything(site)
    page = page_of(site, so_far=False)
    for name in ("variants", "architectures"):
        part = page.partition(f'<section id="{name}">')[2].partition("</section>")[0]
        assert "<table" not in part, name
        assert "snakemake --profile profiles/local" in part, name


def test_conclusions_say_that_the_systems_were_trained_in_another_precision(tmp_path: Path) -> None:
    site = make_site(tmp_path, precision="bf16")
    write_everything(site, hardware=EIGHT_P100)
    assert notes_of(tables_of(site), "Trained in bf16")["conclusions"]
