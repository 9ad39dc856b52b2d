"""MLPerf's public runs as table and figure, on a scale's page and from logs; never in Table 2."""

import csv
import shutil
from pathlib import Path

import msgspec
import pytest

from aiayn.__main__ import main
from aiayn.wings import registered, tables_after
from analysis.public_runs.logs import read_public_logs
from analysis.public_runs.mlperf import read_result
from analysis.public_runs.table import lay_out_public_runs, lay_out_shipped_runs
from paper_tables.layout import compact
from tests.laid_out import DASH, notes_of, rows_of
from tests.public_runs.test_mlperf import FIXTURES, GNMT, V05, V06_GOOGLE, V07


def row(system: str, round_name: str) -> dict[str, str]:
    """Return the row of a system in the table of the shipped runs."""
    rows = rows_of(compact(lay_out_public_runs()))
    return next(one for one in rows if (one["system"], one["round"]) == (system, round_name))


def table_of(folder: Path, name: str) -> list[dict[str, str]]:
    """Return the rows of a table that was written."""
    with (folder / "tables" / f"{name}.csv").open(encoding="utf-8", newline="") as lines:
        return list(csv.DictReader(line for line in lines if not line.startswith("#")))


def test_the_paper_stands_above_33_systems() -> None:
    rows = rows_of(compact(lay_out_public_runs()))
    assert len(rows) == 2 + 33
    assert [(one["system"], one["training_flops"]) for one in rows[:2]] == [("base", "3.3e18"), ("big", "2.3e19")]
    assert {one["division"] for one in rows[2:]} == {"closed"}


def test_a_row_has_time_epochs_spread_and_cost() -> None:
    found = row("dgx1_ngc19.05_pytorch", "v0.6")
    assert (found["accelerators"], found["batch"]) == ("8 x Tesla V100-SXM2-16GB", "81,920 tokens")
    assert (found["minutes"], found["epochs"]) == ("20.8 (19.4 to 26.1)", "3.2 (3 to 4)")
    assert (found["epoch"], found["bleu"], found["sd"], found["num_runs"]) == ("3", "25.29", "0.35", "10")
    # 20.8 minutes x 60 x 8 x 1.41e13
    assert found["training_flops"].startswith("1.4e17")
    assert (
        found["source"] == "mlcommons/training_results_v0.6 f312518c, NVIDIA/results/dgx1_ngc19.05_pytorch/transformer"
    )


def test_a_tpu_has_no_sustained_rate_and_so_a_dash() -> None:
    found = row("tpu-v3-32", "v0.6")
    assert (found["accelerators"], found["training_flops"], found["parameters"]) == ("16 x tpu-v3", DASH, "")
    assert found["batch"] == "512 sequences"


def test_nothing_is_compared_with_the_paper_and_the_spread_is_explained() -> None:
    table = lay_out_public_runs()
    assert "Not comparable with 28.4" in table.caption
    notes = notes_of(table)
    for words in ("0.25 in the middle of 33 systems (0.15 to 0.86; pooled 0.32)", "tried with 0.27", "means nothing"):
        assert words in notes
    assert "is an assumption of hardware.yaml" in notes
    assert table.signatures == ()


def test_runs_that_were_read_stand_before_the_shipped_ones_and_one_may_have_missed_the_target() -> None:
    training = read_result(V07)
    missed = training._replace(
        run=msgspec.structs.replace(training.run, run="b"),
        evaluations=tuple(msgspec.structs.replace(one, run="b", bleu=one.bleu - 1) for one in training.evaluations),
    )
    table = lay_out_public_runs([training, missed])
    found = rows_of(table)[2]
    assert (found["round"], found["submitter"], found["num_runs"]) == (
        "v0.7, read",
        "Dell EMC",
        "2, of which 1 reached 25.0",
    )
    assert (found["minutes"], found["epoch"], found["sd"]) == ("35.3", "3", "0.71")


def test_the_wing_is_registered() -> None:
    assert lay_out_shipped_runs in list(tables_after("table4"))
    assert read_public_logs in list(registered("log_reader"))
    modules = [make.__module__ for make in registered("scale_figures")]
    assert modules[-1] == "analysis.public_runs.heavy_figure"


@pytest.mark.figures
def test_the_figure_shows_every_run_and_names_the_spread(tmp_path: Path) -> None:
    from analysis.public_runs.heavy_figure import PUBLIC_RUNS, batch_group, describe_public_runs, public_runs_frame
    from paper_tables.render.figure import write_figure

    frame = public_runs_frame()
    assert (frame["run"].nunique(), frame["label"].nunique(), frame["is_common"].sum()) == (330, 33, 330)
    assert "Not comparable with 28.4" in PUBLIC_RUNS.caption
    assert "0.15 (v0.7 NVIDIA dgx2h_n60) to 0.86 (v0.5 NVIDIA dgx2h), 0.25 in the middle" in describe_public_runs(frame)
    assert batch_group(163_840, "tokens") == "tokens, up to 163,840"
    assert batch_group(2_048, "sequences") == "sequences, 2,048"
    (path,) = write_figure(PUBLIC_RUNS, frame, tmp_path)
    svg = path.read_text(encoding="utf-8")
    assert svg.count('<path transform="translate(') >= 330
    assert "v0.7 NVIDIA dgxa100" in svg


def test_tables_from_logs_read_the_files_and_table_2_never_has_them(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = shutil.copytree(FIXTURES / "training_results_v0.5", tmp_path / "logs")
    shutil.copytree(FIXTURES / "training_results_v0.6" / "Google", folder / "Google")
    shutil.copy(GNMT, folder / "gnmt.txt")
    output = tmp_path / "out"
    assert main(["tables", "--from-logs", str(folder), "--output", str(output)]) == 0
    assert f"aiayn tables: {folder}/gnmt.txt:1: benchmark 'gnmt'; expected 'transformer'" in capsys.readouterr().err
    read = [one for one in table_of(output, "public_runs") if one["round"].endswith(", read")]
    assert [(one["submitter"], one["num_runs"]) for one in read] == [("NVIDIA", "2"), ("Google", "1")]
    for name in ("table2", "table3"):
        rows = (output / "tables" / f"{name}.md").read_text(encoding="utf-8")
        assert "logs: " not in rows
    assert "3 public runs of MLPerf" in (output / "report.html").read_text(encoding="utf-8")


def test_without_the_reader_a_file_of_nvidias_would_be_taken_for_fairseqs() -> None:
    from aiayn.logs.reader import read_log

    assert read_log(V05).entries != ()


def test_several_folders_are_read_together(tmp_path: Path) -> None:
    first, second = V05.parent, V06_GOOGLE.parent
    output = tmp_path / "out"
    command = ["tables", "--from-logs", str(first), str(second), "--output", str(output)]
    assert main(command) == 0
    read = [one["num_runs"] for one in table_of(output, "public_runs") if one["round"].endswith(", read")]
    assert read == ["2", "1"]


@pytest.mark.parametrize("source", ["cut", "gnmt"])
def test_a_folder_of_nothing_but_files_that_are_refused_is_an_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], source: str
) -> None:
    folder = tmp_path / "logs"
    folder.mkdir()
    path = folder / "result_0.txt"
    path.write_bytes(GNMT.read_bytes() if source == "gnmt" else V07.read_bytes()[:-40])
    command = ["tables", "--from-logs", str(folder), "--output", str(tmp_path / "out")]
    assert main(command) == 1
    assert capsys.readouterr().err.startswith(f"aiayn tables: {path}:")
