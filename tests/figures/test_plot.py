"""`aiayn plot` and the figures of `aiayn tables`: real logs in, pictures and sentences out."""

import lzma
import sys
from pathlib import Path

import pytest

from aiayn.__main__ import main
from paper_tables.render.draw import has_figures
from paper_tables.render.tables import make_tables
from tests.figures.test_curves import inner, start, valid
from tests.records_factory import make_site, run_of, write_everything
from tests.unit.test_report import PageReader

pytestmark = pytest.mark.figures
LOGS = Path(__file__).resolve().parents[1] / "logs"


def write_run(runs_folder: Path, seed: int, *, is_torn: bool = False) -> str:
    """Write the log of a run that is at update 30; return its name."""
    name = run_of("demo_en_de", "base", seed)
    folder = runs_folder / name
    folder.mkdir(parents=True)
    lines = [*start(0), inner(6, 10), valid(7, 10), inner(12, 20, 3.0 + seed), inner(18, 30, 2.0)]
    text = "\n".join(lines) + "\n" + (inner(20, 40)[:60] if is_torn else "")
    (folder / "train.log").write_text(text, encoding="utf-8")
    return name


def test_runs_are_drawn_and_the_paths_printed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    names = [write_run(tmp_path, seed, is_torn=seed == 2) for seed in (1, 2)]
    arguments = [
        "--runs-folder",
        str(tmp_path),
        "--output",
        str(tmp_path / "out"),
    ]
    assert main(["plot", names[0], "demo_en_de-base-seed2", *arguments]) == 0
    printed = capsys.readouterr().out.split()
    assert [Path(path).name for path in printed] == [
        "curves_by_update.svg",
        "curves_by_update.pdf",
    ]
    svg = (tmp_path / "out" / "curves_by_update.svg").read_text(encoding="utf-8")
    assert "update: 10; value: 4; series: base, demo_en_de" in svg
    assert "seeds: 2" in svg
    table = (tmp_path / "out" / "curves_by_update.tsv").read_text(encoding="utf-8")
    assert f"{names[1]}\tbase, demo_en_de\t2\tloss_bits\t20\t5.0\n" in table


def test_packed_runs_are_drawn_from_their_folders(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """As paper_tables/measured ships them; a folder without a log is named."""
    folder = tmp_path / write_run(tmp_path, 1)
    (folder / "train.log.xz").write_bytes(lzma.compress((folder / "train.log").read_bytes()))
    (folder / "train.log").unlink()
    assert main(["plot", str(folder), "--output", str(tmp_path / "out")]) == 0
    assert "seeds: 1" in (tmp_path / "out" / "curves_by_update.svg").read_text(encoding="utf-8")
    assert "curves_by_update.svg" in capsys.readouterr().out
    (folder / "train.log.xz").unlink()
    assert main(["plot", str(folder), "--output", str(tmp_path / "out")]) == 1
    assert f"{folder}: holds no train.log" in capsys.readouterr().err


@pytest.mark.parametrize(
    "name", ["fairseq06_big_enfr.log", "fairseq10_resumed.log", "fairseq12_iwslt.log"]
)
def test_foreign_logs_are_drawn(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["plot", str(LOGS / name), "--output", str(tmp_path)]) == 0
    assert "curves_by_update.svg" in capsys.readouterr().out
    assert "Dev perplexity" in (tmp_path / "curves_by_update.svg").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        (start(0), "nothing to draw"),
        (
            [
                *start(0),
                inner(1, 1, "nan").replace('"wps": "1000.0", ', "").replace('"lr": "0.001", ', ""),
            ],
            "diverged",
        ),
        (["no log of anything"], "no training"),
    ],
)
def test_a_log_without_curves_is_a_sentence_and_no_picture(
    lines: list[str], expected: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = tmp_path / "a.log"
    log.write_text("\n".join(lines) + "\n", encoding="utf-8")
    assert main(["plot", str(log), "--output", str(tmp_path / "out")]) == 1
    assert expected in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_an_unknown_run_is_refused_with_the_existing_ones(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    name = write_run(tmp_path, 1)
    assert main(["plot", "big", "--runs-folder", str(tmp_path)]) == 1
    assert name in capsys.readouterr().err


def test_without_the_extra_the_next_step_is_named(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setitem(sys.modules, "vl_convert", None)
    for module in list(sys.modules):  # those that have imported it are imported again
        if module == "paper_tables.render.figure" or module.startswith("analysis.figures.heavy_"):
            monkeypatch.delitem(sys.modules, module)
    assert not has_figures()
    name = write_run(tmp_path, 1)
    assert main(["plot", name, "--runs-folder", str(tmp_path)]) == 1
    expected = "needs vl_convert, which is not installed: type `make core` in the checkout"
    assert expected in capsys.readouterr().err
    site = make_site(tmp_path)
    write_everything(site)
    with caplog.at_level("INFO"):
        make_tables(
            site.scale,
            site.results_folder,
            so_far=False,
            queues={},
            config_folder=site.config_folder,
        )
    assert "the extra is not installed; make core" in caplog.text
    assert list((site.results_folder / "demo" / "figures").iterdir()) == []


@pytest.mark.slow
def test_tables_of_a_scale_come_with_figures(tmp_path: Path) -> None:
    site = make_site(tmp_path)
    write_everything(site)
    write_run(Path(site.scale.runs_folder), 1)
    make_tables(
        site.scale, site.results_folder, so_far=True, queues={}, config_folder=site.config_folder
    )
    folder = site.results_folder / "demo" / "so-far" / "figures"
    names = {path.stem for path in folder.glob("*.svg")}
    assert "curves" in names
    assert {path.stem for path in folder.glob("*.tsv")} == names
    assert "series: base" in (folder / "curves.svg").read_text(encoding="utf-8")
    page = (folder.parent / "report.html").read_text(encoding="utf-8")
    assert {f"figure-{name}" for name in names} <= set(PageReader(page).ids)
