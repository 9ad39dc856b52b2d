"""Tables made only from records equal the pipeline's tables. What records of several folders and
faulty records become is in the transcript `tables_from_records`.
"""

import csv
import gzip
import json
import shutil
from pathlib import Path

import pytest

from aiayn.__main__ import main
from paper_tables.logs.from_logs import Made
from paper_tables.logs.pages import make_tables_from_logs
from tests.logs.factory import TrainingText
from tests.records_factory import Site, make_site, run_of, write_left


@pytest.fixture
def site(tmp_path: Path) -> Site:
    made = make_site(tmp_path / "made", en_fr_systems=["base"], ablation_systems=["table3_c_n2"])
    write_left(made)
    return made


def make(site: Site, *folders: Path) -> tuple[Made, Path]:
    output = site.results_folder.parent / "out"
    shutil.rmtree(output, ignore_errors=True)
    return make_tables_from_logs(list(folders), output, site.config_folder), output


def table(output: Path, name: str, scale: str = "demo") -> list[dict[str, str]]:
    with (output / scale / "tables" / f"{name}.csv").open(encoding="utf-8", newline="") as lines:
        return list(csv.DictReader(lines))


def dev_row(output: Path, system: str) -> dict[str, str]:
    return next(
        row for row in table(output, "table3") if row["system"].startswith(f"{system}, ours")
    )


def test_later_seeds_of_a_second_pack_stay_out_of_the_printed_rows(
    site: Site, tmp_path: Path
) -> None:
    expected = table(make(site, site.results_folder)[1], "table3")
    later = make_site(
        tmp_path / "later", en_de_systems=[], en_fr_systems=[], ablation_systems=[],
        later_seeds=["base:21,22"], has_baselines=False, has_layer_timing=False,
    )  # fmt: skip
    write_left(later)
    _, output = make(site, site.results_folder, later.results_folder)
    assert table(output, "table3") == expected
    sheet = later.results_folder / "demo" / "trainings.tsv"
    sheet.write_text(sheet.read_text("utf-8").replace("decision0012", "table3"), "utf-8")
    _, output = make(site, site.results_folder, later.results_folder)
    assert "n=4" in dev_row(output, "base")["bleu_dev"]  # a table asked for these seeds, too


def test_results_of_an_earlier_version_take_the_sheet_of_their_scale(
    site: Site, caplog: pytest.LogCaptureFixture
) -> None:
    expected = table(make(site, site.results_folder)[1], "table3")
    assert "no such file" not in caplog.text
    sheet = site.results_folder / "demo" / "trainings.tsv"
    sheet.unlink()
    assert table(make(site, site.results_folder)[1], "table3") == expected
    assert f"{sheet}: no such file; the trainings are those of " in caplog.text


def test_a_system_is_shown_as_it_was_trained_whatever_its_file_says_now(site: Site) -> None:
    path = site.config_folder / "systems" / "demo" / "base.yaml"
    path.write_text(
        path.read_text(encoding="utf-8").replace("p_drop: 0.1", "p_drop: 0.2"), encoding="utf-8"
    )
    made, output = make(site, site.results_folder)
    assert made.faults == ()
    assert dev_row(output, "base")["P_drop"].startswith("0.1")


def logs_rows(output: Path) -> dict[str, dict[str, str]]:
    return {row["file"]: row for row in table(output.parent, "logs", output.name)}


def test_logs_of_runs_with_records_are_listed_with_the_tables_that_they_fill(site: Site) -> None:
    run = run_of("demo_en_de", "base", 1)
    runs = Path(site.scale.runs_folder)
    (runs / run / "train.log").write_text(
        TrainingText().changed(task="aiayn").text(), encoding="utf-8"
    )
    _, output = make(site, site.results_folder, runs)
    name = f"{runs.as_posix()}/{run}/train.log"
    row = logs_rows(output)[name]
    assert row["fills"] == "the tables of scale demo, by its records"
    assert not any(file.startswith(site.results_folder.as_posix()) for file in logs_rows(output))
    assert not (output / "tables" / "table2.md").exists()  # no training is without records


def test_a_foreign_log_beside_runs_of_ours_has_tables_of_its_own(
    site: Site, tmp_path: Path
) -> None:
    (tmp_path / "others").mkdir()
    (tmp_path / "others" / "a.log.gz").write_bytes(
        gzip.compress(TrainingText(num_epochs=20).text().encode())
    )
    output = tmp_path / "out"
    made = make_tables_from_logs(
        [site.results_folder, tmp_path / "others"], output
    )  # by the paper's own systems
    assert made.pages == (output / "demo" / "report.html", output / "report.html")
    assert "logs: base" in (output / "tables" / "table3.md").read_text(encoding="utf-8")
    assert "logs: base" not in (output / "demo" / "tables" / "table3.md").read_text(
        encoding="utf-8"
    )


def test_the_json_has_table_2_of_the_records_and_table_2_of_the_logs(
    site: Site, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "others").mkdir()
    (tmp_path / "others" / "a.log").write_text(TrainingText(num_epochs=2).text(), encoding="utf-8")
    folders = [str(site.results_folder), str(tmp_path / "others")]
    assert main(["tables", "--from-logs", *folders, "--output", str(tmp_path), "--json"]) == 0
    tables = json.loads(capsys.readouterr().out)["tables"]
    assert [table["title"] for table in tables] == ["Table 2", "Table 2, from logs"]
    assert all(table["csv"].startswith("model,") for table in tables)
