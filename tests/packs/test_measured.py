"""Every folder of paper_tables/measured: its tables follow from its own files, byte for byte, and
it is small. `test_core_alone` renders one without torch.
"""

import json
import re
import zipfile
from pathlib import Path
from typing import NamedTuple
from unittest import mock

import pytest

from aiayn.__main__ import main
from aiayn.packed import ARCHIVE_NAME, glob, is_file, read_bytes, write_archive
from aiayn.paths import PACK_README_NAME, train_record
from aiayn.records import (
    TrainRecord,
    read_record,
    read_train_record,
)
from aiayn.runs.attempts import read_events
from aiayn.spec.system import CONFIG_FOLDER, SCALES
from analysis.packs.page import write_page_of_pack
from analysis.packs.readme import render_readme
from analysis.packs.verbs.pack import MAX_MB
from paper_tables.frame import Frame
from paper_tables.layout import Table
from paper_tables.logs.pages import make_tables_from_logs
from paper_tables.render.tables import ONLY_ON_THE_PAGE, make_recorded_tables
from paper_tables.scale_results import RecordedResults
from tests.packs.first_numbers import (
    PACK,
    STUDY,
    NumberKey,
    read_first_numbers,
    read_numbers,
)

pytestmark = pytest.mark.figures
CHECKOUT = Path(__file__).resolve().parents[2]
MEASURED_FOLDER = CHECKOUT / "paper_tables" / "measured"
SHIPPED = sorted(path.parent.name for path in MEASURED_FOLDER.glob("*/trainings.tsv"))
# Packs of other groups count, too: of a former scale, or of other people.
ALL_PACKS = sorted(
    path.parent.relative_to(MEASURED_FOLDER).as_posix()
    for path in MEASURED_FOLDER.rglob("trainings.tsv")
)
RENDERED = re.compile(r"(scores|summary|verdicts)\.tsv|tables/[a-z0-9_]+\.(md|tex|csv|html)")
MAX_PAGE_MB = 1.2
HOME = re.compile(rb"(?<![\w.])/(?:home|root|Users)/")


@pytest.fixture(scope="module", params=ALL_PACKS)
def measured(request: pytest.FixtureRequest) -> Path:
    """Return a folder of measured runs."""
    return MEASURED_FOLDER / str(request.param)


def files_of(folder: Path) -> dict[str, bytes]:
    """Return the unpacked content of the files of a pack or another folder, by path."""
    return {
        path.relative_to(folder).as_posix(): read_bytes(path)
        for path in glob(folder, "**/*")
        if is_file(path)
    }


class Again(NamedTuple):
    """What is made again of a pack: the folder, and what its README is made of."""

    folder: Path
    recorded: RecordedResults
    tables: list[Table]


@pytest.fixture(scope="module")
def again(measured: Path, tmp_path_factory: pytest.TempPathFactory) -> Again:
    """Return the files made from only the folder, without figures, which take a third of the time
    and are not compared.
    """
    output = tmp_path_factory.mktemp("again")
    made = []

    def make_and_keep(recorded: RecordedResults, frame: Frame, folder: Path) -> list[Table]:
        tables = make_recorded_tables(recorded, frame, folder)
        made.append(Again(folder, recorded, tables))
        return tables

    with (
        mock.patch("paper_tables.render.draw.has_figures", return_value=False),
        mock.patch("paper_tables.logs.pages.make_recorded_tables", make_and_keep),
    ):
        assert make_tables_from_logs([measured], output).faults == ()
    (one,) = made
    assert one.folder == output / measured.name
    return one


@pytest.mark.slow
def test_the_curves_of_the_scale_are_drawn_from_the_logs_of_its_pack(tmp_path: Path) -> None:
    """The pack of decision 0013 has no row of the tables that curves are drawn of."""
    make_tables_from_logs([MEASURED_FOLDER / "multi30k"], tmp_path)
    assert list((tmp_path / "multi30k" / "figures").glob("*.svg"))


def test_the_tables_are_made_again_from_the_folder_alone_byte_for_byte(
    measured: Path, again: Again
) -> None:
    made = {name: text for name, text in files_of(again.folder).items() if RENDERED.fullmatch(name)}
    shipped = {name: text for name, text in files_of(measured).items() if RENDERED.fullmatch(name)}
    assert {"scores.tsv", "tables/table2.md", "tables/table3.md", "tables/conclusions.md"} <= set(
        shipped
    )
    assert sorted(made) == sorted(shipped)
    assert [name for name in shipped if made[name] != shipped[name]] == []


# What changed of the numbers that were shipped first, by file and column, with the reason.
WITHDRAWN = "one seed is asked for, no longer three, as the public number is of one run"
TRAINED = "two seeds of En-Fr base were trained"
NO_NEGATIVE_ZERO = "a difference that rounds to zero has a plus"
MOVED = "the study has it, no longer the table of conclusions"
CHANGED_NUMBERS = {
    ("tables/costs.csv", "multi30k_revisit_en_de revisit_tiny", "seeds"): WITHDRAWN,
    ("tables/replications.csv", "revisit_tiny", "ours"): WITHDRAWN,
    (
        "tables/testsets.csv",
        "multi30k_revisit_en_de revisit_tiny last10",
        "bleu_test_2016_flickr",
    ): WITHDRAWN,
    (
        "tables/conclusions.csv",
        "table3_c_n8 minus base bits_per_subword",
        "effects",
    ): NO_NEGATIVE_ZERO,
    ("verdicts.tsv", "2 base bleu_en_fr both", "num_seeds"): TRAINED,
    ("tables/readings.csv", "updates 80 % of the updates", "table3_c_n8"): NO_NEGATIVE_ZERO,
}
CHANGED_COLUMNS = {
    ("tables/conclusions.csv", "at_rates"): MOVED,
    ("tables/conclusions.csv", "differing"): MOVED,
    ("tables/horizon.csv", "best"): "an interval was added",
}


def read_shipped(name: str) -> str:
    """Return the text of a table of the pack, or of the study that took over two of its tables."""
    is_of_study = name in ("tables/horizon.csv", "tables/readings.csv")
    path = CHECKOUT / (f"{STUDY}/{Path(name).name}" if is_of_study else f"{PACK}/{name}")
    return path.read_text(encoding="utf-8")


def changed_numbers(numbers: dict[NumberKey, str]) -> list[tuple[NumberKey, str, str | None]]:
    """Return each first number that is not found again, with its value now."""
    changed = []
    for key, value in read_first_numbers().items():
        if numbers.get(key) != value:
            changed.append((key, value, numbers.get(key)))
    return changed


def test_every_number_that_was_shipped_first_is_found_again_under_its_key() -> None:
    """Scores, means and verdicts at full precision, cells of tables as they are shown."""
    changed = changed_numbers(read_numbers(read_shipped))
    unexplained = []
    for (name, row, column), value, now in changed:
        if (name, row, column) not in CHANGED_NUMBERS and (name, column) not in CHANGED_COLUMNS:
            unexplained.append((name, row, column, value, now))
    assert unexplained == []
    # No exception is left that explains nothing.
    assert {(key[0], key[2]) for key, *_ in changed} >= set(CHANGED_COLUMNS)
    assert {key for key, *_ in changed} >= set(CHANGED_NUMBERS)


def test_a_changed_or_missing_number_is_noticed() -> None:
    numbers = read_numbers(read_shipped)
    score = ("scores.tsv", "multi30k_en_de base 5 last1 val bleu_tok_moses", "value")
    mean = ("summary.tsv", "multi30k_en_de base last1 val bleu_tok_moses", "mean")
    before = len(changed_numbers(numbers))
    numbers[score] = numbers[score][:-1]
    del numbers[mean]
    assert len(changed_numbers(numbers)) == before + 2


def test_the_readme_is_made_again_from_the_folder_alone_byte_for_byte(
    measured: Path, again: Again
) -> None:
    """The test of the page gathers the records as the verb that packs them does."""
    tables = [table for table in again.tables if table.name not in ONLY_ON_THE_PAGE]
    readme = render_readme(again.recorded, tables)
    assert (measured / PACK_README_NAME).read_text(encoding="utf-8") == readme


def test_the_picture_is_drawn_again_from_the_folder_alone_byte_for_byte(
    measured: Path, again: Again
) -> None:
    for name in ("picture.svg", "picture.tsv"):
        drawn, shipped = again.folder / name, measured / name
        assert drawn.is_file() == shipped.is_file()
        assert not drawn.is_file() or drawn.read_bytes() == shipped.read_bytes()


DRAWING = re.compile(r'<svg [^>]*class="figure".*?</svg>', re.S)


def test_the_page_is_made_again_byte_for_byte_and_needs_no_other_file(tmp_path: Path) -> None:
    """Only the drawing of the curves may differ: its widths follow the fonts of the machine.

    If it fails after a change of the page: `make report`, and look at the page.
    """
    pack = MEASURED_FOLDER / "multi30k"
    write_page_of_pack(pack, tmp_path / "report.html")
    shipped, made = (
        (folder / "report.html").read_text(encoding="utf-8") for folder in (pack, tmp_path)
    )
    assert DRAWING.sub("", made) == DRAWING.sub("", shipped)
    drawings = DRAWING.findall(shipped)
    assert len(drawings) == 1
    assert all(name in drawings[0] for name in ("Table 3 (A): heads", "Table 3 (C): size", "big"))
    assert len(shipped.encode()) <= MAX_PAGE_MB * 1e6
    links = re.findall(r'(?:href|src)="([^"]*)"', shipped)
    anchors = set(re.findall(r'\bid="([^"]*)"', shipped))
    assert len(links) > 100
    assert [link for link in links if not link.startswith("#") or link[1:] not in anchors] == []
    assert not re.search(r"20\d\d-\d\d-\d\dT\d\d:", shipped)  # no time of its making


# Big's seed 6 kept five checkpoints, too few for the paper's average of 20.
FOUND_BY_RUN = {"multi30k_en_de-big-seed6-f0c41c99": ["average"]}


@pytest.mark.parametrize("scale", SHIPPED)
def test_the_doctor_finds_nothing_unknown_in_shipped_runs_and_reads_their_packed_files(
    scale: str, capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)  # away from runs of our own
    for path in glob(MEASURED_FOLDER / scale / "train", "*/*/seed*.json"):
        run = read_record(path, TrainRecord).run
        exit_code = main(["doctor", run, "--results", str(MEASURED_FOLDER), "--json"])
        diagnosis = json.loads(capsys.readouterr().out)
        found = [finding["cause"] for finding in diagnosis["findings"]]
        assert found == FOUND_BY_RUN.get(run, []), run
        assert exit_code == bool(found)
        assert diagnosis["files"]["log"].endswith(f"{run}/train.log.xz")
        assert ".txt.xz" in diagnosis["files"]["translations"]


@pytest.mark.parametrize("scale", SHIPPED)
def test_a_shipped_number_is_followed_to_its_packed_log(
    scale: str, capsys: pytest.CaptureFixture[str]
) -> None:
    config = CONFIG_FOLDER / f"{scale}.yaml"
    arguments = ["--configfile", str(config), "--results", str(MEASURED_FOLDER), "--json"]
    assert main(["where", "table2:base:bleu_en_de", *arguments]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["sources"]
    key = found["cell"]["key"]
    for source in found["sources"]:
        path = train_record(MEASURED_FOLDER, scale, key["corpus"], key["system"], source["seed"])
        train = read_train_record(path, MEASURED_FOLDER / scale / "runs")
        assert train.run == source["run"]
        assert read_events(train.run_folder)[-1].update == train.updates
        log = read_bytes(train.log_path.with_name("train.log.xz"))
        assert f'"num_updates": "{train.updates}"'.encode() in log


def test_it_is_named_for_its_scale_and_small(measured: Path) -> None:
    assert measured.name in SCALES
    assert (
        sum(path.stat().st_size for path in measured.rglob("*") if path.is_file()) <= MAX_MB * 1e6
    )


@pytest.mark.parametrize("archive_path", sorted(MEASURED_FOLDER.rglob(ARCHIVE_NAME)), ids=str)
def test_the_archive_is_made_again_from_its_content_byte_for_byte(
    archive_path: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "unpacked"
    with zipfile.ZipFile(archive_path) as archive:
        archive.extractall(folder)
    paths = [path for path in folder.rglob("*") if path.is_file()]
    assert len(paths) > 100
    write_archive(folder, reversed(paths), tmp_path / ARCHIVE_NAME)
    assert (tmp_path / ARCHIVE_NAME).read_bytes() == archive_path.read_bytes()


def test_every_packed_file_can_be_unpacked_and_names_no_home_folder(measured: Path) -> None:
    for name, content in files_of(measured).items():
        assert not HOME.search(content), name


def test_every_run_of_the_records_has_its_log_and_its_attempts(measured: Path) -> None:
    runs = {path.parent.name for path in glob(measured / "runs", "*/train.log.xz")}
    for run in runs:
        log = read_bytes(measured / "runs" / run / "train.log.xz")
        assert b"save_dir='/" not in log, run
    assert runs == {path.parent.name for path in glob(measured / "runs", "*/attempts.jsonl")}
    assert len(runs) == len(glob(measured / "train", "*/*/seed*.json")) > 0
