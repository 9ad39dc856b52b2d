"""The verb: everything is written, or, so far, beside what Snakemake declared. A missing record is
named.
"""

from pathlib import Path

import msgspec
import pytest

from aiayn.errors import TableError
from aiayn.paths import train_record
from aiayn.records import write_record
from paper_tables.render.tables import make_tables
from tests.golden_files import GOLDEN_FOLDER
from tests.records_factory import Site, make_site, write_everything, write_training


def make(site: Site, *, so_far: bool) -> Path:
    return make_tables(
        site.scale, site.results_folder, so_far=so_far, queues={}, config_folder=site.config_folder
    ).report_path


def names_below(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


TABLE_FILES = {
    f"tables/{path.stem}.{suffix}"
    for path in (GOLDEN_FOLDER / "tables").glob("*.csv")
    for suffix in ("csv", "html", "md", "tex")
}
ALL_FILES = TABLE_FILES | {"scores.tsv", "summary.tsv", "verdicts.tsv", "report.html"}


def test_all_files_are_written_and_the_report_is_named(tmp_path: Path) -> None:
    site = make_site(tmp_path)
    write_everything(site)
    before = names_below(tmp_path / "results" / "demo")
    assert make(site, so_far=False) == tmp_path / "results" / "demo" / "report.html"
    assert names_below(tmp_path / "results" / "demo") - before == ALL_FILES


def test_a_missing_record_is_named_with_both_next_steps(tmp_path: Path) -> None:
    site = make_site(tmp_path)
    write_everything(site)
    train_record(site.results_folder, "demo", "demo_en_fr", "base", 2).unlink()
    with pytest.raises(TableError, match=r"demo_en_fr/base/seed2\.json: .*--so-far"):
        make(site, so_far=False)
    assert not (tmp_path / "results" / "demo" / "report.html").exists()


def test_without_any_record_the_tables_so_far_are_still_rendered(tmp_path: Path) -> None:
    site = make_site(tmp_path)
    assert make(site, so_far=True) == tmp_path / "results" / "demo" / "so-far" / "report.html"
    assert names_below(tmp_path / "results" / "demo") == {f"so-far/{name}" for name in ALL_FILES}


def test_a_training_under_an_older_spec_is_not_shown_as_the_present_one(tmp_path: Path) -> None:
    site = make_site(tmp_path)
    write_everything(site)
    path = site.config_folder / "systems" / "demo" / "base.yaml"
    path.write_text(
        path.read_text(encoding="utf-8").replace("p_drop: 0.1", "p_drop: 0.2"), encoding="utf-8"
    )
    with pytest.raises(TableError, match="demo_en_de-base-seed1-0a1b2c3d: "):
        make(site, so_far=False)
    table = make(site, so_far=True).parent / "tables" / "table2.md"
    assert "| outdated [\u2020] |" in table.read_text(encoding="utf-8")


def test_a_resolved_device_does_not_make_a_training_outdated(tmp_path: Path) -> None:
    # `auto` in a system's file is `cpu` or `cuda` in the record.
    site = make_site(
        tmp_path, en_fr_systems=[], ablation_systems=[], en_de_systems=["base"], seeds=[1]
    )
    train = write_training(site, "demo_en_de", "base", 1)
    resolved = train.training_json.replace('"device":"auto"', '"device":"cpu"')
    assert resolved != train.training_json
    path = train_record(site.results_folder, "demo", "demo_en_de", "base", 1)
    write_record(msgspec.structs.replace(train, training_json=resolved), path)
    table = make(site, so_far=True).parent / "tables" / "table3.md"
    assert "| 3,000 (n=1) |" in table.read_text(encoding="utf-8")
