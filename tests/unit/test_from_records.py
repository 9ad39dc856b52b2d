"""Tables made only from records equal the pipeline's tables. Faulty records are named."""

import csv
import gzip
import json
import lzma
import shutil
from pathlib import Path

import msgspec
import pytest

from aiayn.__main__ import main
from aiayn.errors import RecordError
from aiayn.paths import baselines_record, evaluation_record, train_record
from aiayn.records import BaselineRecords, TrainRecord, read_record, write_record
from paper_tables.logs.from_logs import Made
from paper_tables.logs.pages import make_tables_from_logs
from tests.logs.factory import TrainingText
from tests.records_factory import BASE_TRAINING, Site, make_site, run_of, write_left, write_training


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


def training_path(site: Site, system: str, seed: int) -> Path:
    return train_record(site.results_folder, "demo", "demo_en_de", system, seed)


def dev_translations(site: Site, system: str) -> Path:
    """Return the text of a system's translations of dev with seed 1."""
    key = (system, "dev", 1)
    evaluations = site.experiment.evaluations
    evaluation = next(e for e in evaluations if (e.system, e.role, e.seed) == key)
    return evaluation_record(site.results_folder, "demo", "decode", evaluation).with_suffix(".txt")


def test_records_of_two_machines_make_one_table(site: Site, tmp_path: Path) -> None:
    whole = make(site, site.results_folder)[1]
    expected = {name: table(whole, name) for name in ("table2", "table3")}
    other_folder = (
        tmp_path / "other" / "demo"
    )  # without a sheet: the other folder's lists its trainings
    for verb in ("train", "decode", "score", "perplexity"):
        (other_folder / verb / "demo_en_de").mkdir(parents=True)
        shutil.move(
            site.results_folder / "demo" / verb / "demo_en_de" / "base",
            other_folder / verb / "demo_en_de",
        )
    _, output = make(site, site.results_folder, other_folder.parent)
    assert {name: table(output, name) for name in expected} == expected


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


def test_baselines_come_from_the_first_folder_that_has_them(site: Site, tmp_path: Path) -> None:
    expected = table(make(site, site.results_folder)[1], "baselines")
    shutil.copytree(site.results_folder, tmp_path / "other")
    for corpus, testset in site.experiment.baselines:
        record = read_record(
            baselines_record(site.results_folder, "demo", corpus, testset), BaselineRecords
        )
        scores = {}
        for name, scores_of_baseline in record.scores_by_baseline.items():
            scores[name] = [msgspec.structs.replace(s, value=1.0) for s in scores_of_baseline]
        other = msgspec.structs.replace(record, scores_by_baseline=scores)
        write_record(other, baselines_record(tmp_path / "other", "demo", corpus, testset))
    assert table(make(site, site.results_folder, tmp_path / "other")[1], "baselines") == expected
    swapped = table(make(site, tmp_path / "other", site.results_folder)[1], "baselines")
    assert swapped != expected


def test_two_runs_of_one_training_are_refused(site: Site, tmp_path: Path) -> None:
    other_path = train_record(tmp_path / "other", "demo", "demo_en_de", "base", 1)
    train = read_record(training_path(site, "base", 1), TrainRecord)
    write_record(msgspec.structs.replace(train, run="demo_en_de-base-seed1-ffffffff"), other_path)
    with pytest.raises(
        RecordError, match=r"seed1-ffffffff, but .*results has run demo_en_de-base-seed1-0a1b2c3d"
    ):
        make(site, site.results_folder, tmp_path / "other")


def test_scores_of_other_translations_are_named_and_left_out(site: Site) -> None:
    changed = dev_translations(site, "base")
    changed.write_text("something else\n", encoding="utf-8")
    made, output = make(site, site.results_folder)
    (fault,) = made.faults
    assert (fault.path, "but the scores belong to" in fault.message) == (changed, True)
    row = dev_row(output, "base")
    assert row["bleu_dev"].startswith("70.20 (n=1 of 2: 1 not scored)")  # only seed 2
    assert "n=2" in row["ppl_dev"]  # perplexity needs no translations
    assert "n=2" in dev_row(output, "big")["bleu_dev"]
    assert str(changed) in (output / "report.html").read_text(encoding="utf-8")


@pytest.mark.parametrize("fault", ["absent", "torn"])
def test_translations_that_are_absent_or_torn_are_named(site: Site, fault: str) -> None:
    path = dev_translations(site, "big")
    packed = lzma.compress(path.read_bytes() * 100)
    path.unlink()
    if fault == "torn":
        path.with_suffix(".txt.xz").write_bytes(packed[:-20])
    made, output = make(site, site.results_folder)
    messages = " ".join(fault.message for fault in made.faults)
    assert "so that its scores cannot be checked" in messages
    assert "1 not scored" in dev_row(output, "big")["bleu_dev"]


def test_seeds_trained_otherwise_are_named_and_not_averaged(site: Site) -> None:
    path = training_path(site, "big", 2)
    other_spec = msgspec.json.encode(msgspec.structs.replace(BASE_TRAINING, updates=77)).decode()
    write_record(
        msgspec.structs.replace(read_record(path, TrainRecord), training_json=other_spec), path
    )
    made, output = make(site, site.results_folder)
    (fault,) = made.faults
    assert (fault.path, "trained under another spec" in fault.message) == (path, True)
    assert "n=1 of 2: 1 outdated" in dev_row(output, "big")["bleu_dev"]


def test_a_system_is_shown_as_it_was_trained_whatever_its_file_says_now(site: Site) -> None:
    path = site.config_folder / "systems" / "demo" / "base.yaml"
    path.write_text(
        path.read_text(encoding="utf-8").replace("p_drop: 0.1", "p_drop: 0.2"), encoding="utf-8"
    )
    made, output = make(site, site.results_folder)
    assert made.faults == ()
    assert dev_row(output, "base")["P_drop"].startswith("0.1")


@pytest.mark.parametrize(
    ("training", "message"),
    [
        (
            ("demo_en_fr", "table3_c_n2", 1),
            "no sheet of scale demo lists table3_c_n2 on demo_en_fr",
        ),
        (
            ("demo_en_de", "base", 101),
            "seed 101 is a probe's (decisions 0009, 0012 and 0013), and enters no table: left out",
        ),
    ],
)
def test_a_training_that_no_table_asks_for_is_named(
    site: Site, training: tuple[str, str, int], message: str
) -> None:
    write_training(site, *training)
    made, output = make(site, site.results_folder)
    (fault,) = made.faults
    assert fault.path == train_record(site.results_folder, "demo", *training)
    assert message in fault.message
    assert "n=2" in dev_row(output, "base")["bleu_dev"]


def test_a_record_at_the_place_of_another_is_refused(site: Site) -> None:
    shutil.copy2(training_path(site, "base", 1), training_path(site, "base", 3))
    with pytest.raises(RecordError, match=r"seed3.json: records training demo_en_de base seed 1,"):
        make(site, site.results_folder)


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


def test_the_verb_takes_several_folders_and_names_what_is_left_out(
    site: Site, capsys: pytest.CaptureFixture[str]
) -> None:
    dev_translations(site, "base").unlink()
    output = site.results_folder.parent / "out"
    folders = [str(site.results_folder), site.scale.runs_folder]
    assert main(["tables", "--from-logs", *folders, "--output", str(output)]) == 0
    printed = capsys.readouterr()
    pages = f"{output / 'demo' / 'report.html'}\n{output / 'report.html'}\n"
    assert printed.out.endswith(pages)
    assert "cannot be checked" in printed.err
