"""`aiayn doctor` and `aiayn tables --from-logs` show the same problems and notes of a folder, which
is compared with the row that the tables give it, or with the nearest.
"""

import json
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import msgspec
import pytest

from aiayn.__main__ import main
from aiayn.facts.listing import list_folder
from aiayn.facts.trainings import JoinedLogs, Problem
from aiayn.facts.types import show
from aiayn.printed import PAPER_CORPUS_BY_LANGUAGE_PAIR, PAPER_SCALE
from paper_tables.logs.from_logs import judged_folder
from tests.doctor.fixtures import FIXTURES_FOLDER
from tests.known_good.folders import EDITS, edited_texts
from tests.known_good.test_speed import REPORTS, log_of
from tests.logs.factory import write

TESTS = Path(__file__).parents[1]
FORMS = [path for path in sorted((TESTS / "logs").iterdir()) if path.suffix in (".log", ".txt")]
HONEST = [path for path in sorted((TESTS / "facts" / "honest").glob("*/*")) if path.is_dir()]
PLANTED = sorted(FIXTURES_FOLDER.glob("*/train.log"))
# Of the runs that come with the project, each with its log and its attempts, the first of each
# system: the logs of other seeds have other numbers in the same lines.
RECORDED_FOLDER = TESTS.parent / "paper_tables" / "measured" / "multi30k" / "runs"
RUNS = sorted(Path(path).parent.name for path in list_folder(RECORDED_FOLDER).log_paths)
RECORDED = list({run.rpartition("-seed")[0]: run for run in reversed(RUNS)}.values())
Shown = tuple[set[tuple[str, str, str, int]], set[str], set[str]]
Maker = Callable[[Path], object]


def copier(path: Path) -> Maker:
    """Return what copies a log or a folder of logs into a folder."""
    if path.is_dir():
        return lambda folder: shutil.copytree(path, folder, dirs_exist_ok=True)
    return lambda folder: shutil.copyfile(path, folder / path.name)


def editor(edit: Mapping[str, Any]) -> Maker:
    """Return what writes a training, its average and its translation with an edit."""
    kept = ("first.log", "generation.log", "average.log")
    texts = edited_texts(edit)
    return lambda folder: write(folder, {key: texts[key] for key in kept})


def write_slow_training(folder: Path) -> None:
    """Write the log of a training that was reported to be slow: both note its speed."""
    write(folder, {"train.log": log_of(REPORTS[0], REPORTS[0]["speed"])})


FOLDERS: dict[str, Maker] = {f"form {path.name}": copier(path) for path in FORMS}
FOLDERS |= {f"honest {path.parent.name} {path.name}": copier(path) for path in HONEST}
FOLDERS |= {f"planted {path.parent.name}": copier(path) for path in PLANTED}
FOLDERS["slow"] = write_slow_training
FOLDERS["clean"] = editor({"changes": []})
FOLDERS |= {f"edit {edit['name']}": editor(edit) for edit in EDITS}


def claim_of(judged: JoinedLogs) -> list[str]:
    """Return the flags that claim the row of the tables, or the nearest."""
    target = judged.trainings[0].target if judged.trainings else None
    if target is None:
        return ["--system", "base", "--corpus", "wmt14_en_de"]
    corpus = f"{target.scale}_{target.language_pair.replace('-', '_')}"
    if target.scale == PAPER_SCALE:
        corpus = PAPER_CORPUS_BY_LANGUAGE_PAIR[target.language_pair]
    return ["--scale", target.scale, "--system", target.system, "--corpus", corpus]


def of_tables(judged: JoinedLogs) -> Shown:
    """Return the stated problems, the quantities that nothing states, and the notes."""
    problems: list[Problem] = []
    for found in (*judged.trainings, *judged.generations):
        problems += found.problems
    stated, unstated, notes = set(), set(), set()
    for problem in problems:
        if {"ppl", "cost"}.issuperset(problem.keeps_out):
            notes.add(problem.text)  # it keeps no BLEU out
        elif problem.is_stated:
            value = json.loads(msgspec.json.encode(problem.value))  # NaN is null in JSON
            stated.add((problem.quantity, show(value), problem.expected, problem.line))
        else:
            unstated.add(problem.name)
    return stated, unstated, notes


def of_doctor(printed: str) -> Shown:
    """Return the same of a diagnosis in JSON."""
    diagnosis = json.loads(printed)
    stated = set()
    for finding in diagnosis["findings"]:
        if finding["cause"] not in ("divergence", "start", "lengths", "definition"):
            for problem in finding["evidence"]:
                place = problem["expected"], problem["line"]
                stated.add((problem["quantity"], show(problem["value"]), *place))
    unstated = {*diagnosis["not_judged"]} - {
        "the log of the training",
        "a translation of the test set",
    }
    notes = set()
    for sentence in diagnosis["notes"]:
        if sentence.startswith("Note: "):
            notes.add(sentence.removeprefix("Note: ").removesuffix("."))
    return stated, unstated, notes


def check_agreement(folder: Path, capsys: pytest.CaptureFixture[str]) -> int:
    """Compare both commands on a folder, and return its number of trainings. The doctor refuses a
    folder with several.
    """
    judged = judged_folder(folder)
    exit_code = main(["doctor", str(folder), *claim_of(judged), "--json"])
    output = capsys.readouterr()
    if len(judged.trainings) > 1:
        assert (exit_code, "give a folder of one run" in output.err) == (2, True)
    else:
        assert of_doctor(output.out.replace(f"{folder}/", "")) == of_tables(judged)
    return len(judged.trainings)


@pytest.mark.parametrize("name", FOLDERS)
def test_the_doctor_shows_the_problems_and_notes_of_the_tables(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    FOLDERS[name](tmp_path)
    num_trainings = check_agreement(tmp_path, capsys)
    assert (num_trainings > 1) == (name == "form fairseq09_wrapped.log")


@pytest.mark.parametrize("run", RECORDED)
def test_the_doctor_shows_the_problems_and_notes_of_our_recorded_runs(
    run: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert check_agreement(RECORDED_FOLDER / run, capsys) == 1
