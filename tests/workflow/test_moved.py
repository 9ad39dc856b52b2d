"""Results and runs are copied to another place and the first is deleted: every verb works there.

One training of the demo, two updates long, made by the verbs of the pipeline as its rules call
them.
"""

import io
import json
import os
import shutil
from pathlib import Path
from types import SimpleNamespace

import pytest
import yaml

from aiayn.__main__ import main
from aiayn.records import (
    CheckpointRecord,
    TrainRecord,
    read_record,
)
from aiayn.spec.system import CONFIG_FOLDER
from tests.engine.pipeline_verbs import data_commands, training_commands

pytestmark = pytest.mark.slow

CORPUS, SYSTEM = (
    "demo_en_de",
    "table3_c_n2",
)  # the smallest, and one of which the tables ask for the last checkpoint
PLACE, RUN = f"{CORPUS}/{SYSTEM}/seed1", f"{CORPUS}-{SYSTEM}-seed1"
DATA = "results/demo/{}/demo_en_de/record.json"
AVERAGED = f"results/demo/average/{PLACE}/last1.json"
DECODED = f"results/demo/decode/{PLACE}/last1/demo_dev.json"
TRAINED = f"results/demo/train/{PLACE}.json"
CELL = f"table3:{SYSTEM}:bleu_dev"


def record_of(verb: str) -> str:
    """Return the record of a verb below the results."""
    on_testset = DECODED.replace("/decode/", f"/{verb}/")
    paths = {"train": TRAINED, "average": AVERAGED}
    paths |= dict.fromkeys(("decode", "perplexity", "score"), on_testset)
    return paths.get(verb, DATA.format(verb))


def make_demo(folder: Path) -> None:
    """Make one training of the demo and its numbers below a folder, which is the working directory."""
    commands = [
        *data_commands(CORPUS, record_of),
        *training_commands(
            CORPUS, record_of, scale="demo", system=SYSTEM, testset="demo_dev", updates=2
        ),
    ]
    for command in commands:
        assert main(command) == 0, command
    config = yaml.safe_load((CONFIG_FOLDER / "demo.yaml").read_text(encoding="utf-8"))
    short = config | {"updates": 2, "only": f"{SYSTEM}:1"}
    (folder / "short.yaml").write_text(yaml.safe_dump(short), encoding="utf-8")


@pytest.fixture(scope="module")
def first(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the demo's folder. It is gone. `kept` beside it is what is copied."""
    folder, here = tmp_path_factory.mktemp("cluster") / "first", Path.cwd()
    folder.mkdir()
    os.chdir(folder)
    try:
        make_demo(folder)
    finally:
        os.chdir(here)
    folder.rename(folder.with_name("kept"))
    return folder


@pytest.fixture(scope="module")
def moved(first: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder with the copied results and runs, which kept their times."""
    return Path(
        shutil.copytree(first.with_name("kept"), tmp_path_factory.mktemp("laptop") / "second")
    )


@pytest.fixture
def there(moved: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the folder of the copy, which is the working directory."""
    monkeypatch.chdir(moved)
    return moved


def printed_by(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """Return what a verb prints."""
    capsys.readouterr()
    exit_code = main(list(arguments))
    printed = capsys.readouterr()
    assert exit_code == 0, printed.err
    return printed.out


def files_of_the_doctor(capsys: pytest.CaptureFixture[str], *flags: str) -> dict[str, str]:
    """Return what the doctor read, by its kind. Two updates may have causes and symptoms (exit code
    1).
    """
    capsys.readouterr()
    assert main(["doctor", RUN, "--json", *flags]) in (0, 1)
    files: dict[str, str] = json.loads(capsys.readouterr().out)["files"]
    return files


def test_no_record_of_this_version_names_the_first_folder(first: Path) -> None:
    records = [
        *first.with_name("kept").glob("results/**/*.json"),
        *first.with_name("kept").glob("runs/*/done.json"),
    ]
    assert len(records) == 10
    assert [path for path in records if str(first.parent) in path.read_text(encoding="utf-8")] == []


@pytest.mark.usefixtures("there")
def test_translate_reads_sentences(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(
        "sys.stdin", SimpleNamespace(buffer=io.BytesIO(b"The dog\n"), isatty=lambda: False)
    )
    assert printed_by(capsys, "translate", RUN).count("\n") == 1


@pytest.mark.usefixtures("there")
def test_status_tells_of_the_run_and_where_its_log_is(capsys: pytest.CaptureFixture[str]) -> None:
    status = json.loads(printed_by(capsys, "status", RUN, "--json"))
    assert (status["state"], status["update"]) == ("done", 2)
    assert "done training" in Path(status["log_path"]).read_text(encoding="utf-8")


@pytest.mark.usefixtures("there")
def test_where_follows_a_cell_to_its_run(capsys: pytest.CaptureFixture[str]) -> None:
    answer = json.loads(printed_by(capsys, "where", CELL, "--configfile", "short.yaml", "--json"))
    (source,) = answer["sources"]
    assert source["run"].startswith(RUN)
    assert answer["missing"] == []


def test_the_doctor_reads_log_data_and_translations(
    there: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files = files_of_the_doctor(capsys)
    assert all((there / path).exists() for path in files.values()), files


@pytest.mark.usefixtures("there")
def test_tables_show_the_number(capsys: pytest.CaptureFixture[str]) -> None:
    printed_by(capsys, "tables", "--so-far", "--configfile", "short.yaml")
    rows = Path("results/demo/so-far/scores.tsv").read_text(encoding="utf-8").splitlines()
    place = f"{CORPUS}\t{SYSTEM}\t1\tlast1\tdemo_dev\t"
    assert any(row.startswith(f"{place}bleu_tok_compound_split\t") for row in rows)


def test_the_average_made_again_has_the_same_tensors(
    there: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    printed_by(capsys, "average", "--train", TRAINED, "--last", "1", "--record", "again/last1.json")
    again = read_record(there / "again" / "last1.json", CheckpointRecord)
    assert again.tensors_sha256 == read_record(there / AVERAGED, CheckpointRecord).tensors_sha256


@pytest.mark.usefixtures("there")
def test_plan_answers(capsys: pytest.CaptureFixture[str]) -> None:
    assert SYSTEM in printed_by(
        capsys, "plan", "--configfile", str(CONFIG_FOLDER / "demo.yaml"), "--system", SYSTEM
    )


def test_a_training_that_is_done_is_not_made_again(
    there: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its name holds digests, of the data among them: they belong to the first place."""
    flags = (
        f"--scale demo --corpus {CORPUS} --system {SYSTEM} --seed 1 --updates 2"
        f" --binarized {DATA.format('binarize')} --record again/seed1.json"
    )
    attempts_path = next(there.glob("runs/*/attempts.jsonl"))
    before = attempts_path.read_bytes()
    printed_by(capsys, "train", *flags.split())
    assert attempts_path.read_bytes() == before
    again = read_record(there / "again" / "seed1.json", TrainRecord)
    assert again.log_path.resolve() == attempts_path.with_name("train.log")
    assert [model.path.exists() for model in again.models] == [True]


def test_from_another_folder_results_and_runs_are_named(
    moved: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    runs = shutil.copytree(moved / "runs", tmp_path / "elsewhere")
    results = shutil.copytree(moved / "results", tmp_path / "further" / "results")
    flags = ["--results", str(results)]
    files = files_of_the_doctor(capsys, *flags, "--runs-folder", str(runs))
    assert all(
        Path(path).is_relative_to(tmp_path) and Path(path).exists() for path in files.values()
    ), files
    flags += ["--configfile", str(moved / "short.yaml"), "--config", f"runs_folder={runs}"]
    answer = json.loads(printed_by(capsys, "where", CELL, "--json", *flags))
    assert (len(answer["sources"]), answer["missing"]) == (1, [])


def test_a_run_that_was_not_copied_is_named_with_the_flag_that_says_where_it_is(
    moved: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    shutil.copytree(moved / "results", tmp_path / "results")
    assert main(["average", "--train", TRAINED, "--last", "1", "--record", "last1.json"]) == 1
    message = capsys.readouterr().err
    assert TRAINED in message
    assert "--runs-folder" in message
    assert not Path("last1.json").exists()
    assert "--runs-folder" in files_of_the_doctor(capsys)["log"]
