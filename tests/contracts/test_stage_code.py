"""An edit of a stage's code needs a higher number of the stage, or a test that its output is the same.

`stage_code.tsv` has the history of each stage: a line for each digest of its modules, with the
stage's number. After an edit, raise the number in `aiayn/stages.py` and add a line. Or add a line
with the same number, and in the last column the test that shows that the output is unchanged.
"""

import csv
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import pytest

from aiayn.stages import STAGE_VERSIONS
from tests.contracts.stage_code import LIBRARY, MODULES_BY_STAGE, code_of, modules_of, stage_digest

CHECKOUT = Path(__file__).resolve().parents[2]
HISTORY = Path(__file__).with_name("stage_code.tsv")
NOT_OF_A_STAGE = {  # in the folders of stages, but without influence on an output
    "data/text/prefixes.py",
    "data/text/foreign.py",
    "decode/exported.py",
}


class Line(NamedTuple):
    """A state of a stage's code. `unchanged_shown_by` is a test, if the number is the line's above."""

    stage: str
    number: int
    digest: str
    unchanged_shown_by: str


def read_history() -> dict[str, list[Line]]:
    """Return the lines of the file by stage."""
    history: dict[str, list[Line]] = {}
    with HISTORY.open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file, delimiter="\t"):
            line = Line(
                row["stage"], int(row["number"]), row["digest"], row["unchanged_shown_by"] or ""
            )
            history.setdefault(line.stage, []).append(line)
    return history


def problems(lines: list[Line], digest: str, number: int) -> list[str]:
    """Return what is wrong with the history of a stage whose code and number are these."""
    faults = []
    for before, after in pairwise(lines):
        if after.number < before.number:
            faults.append(f"number {after.number} comes after {before.number}")
        elif after.number == before.number and not after.unchanged_shown_by:
            faults.append(f"{after.digest} has the number of {before.digest} and names no test")
    if lines[-1].digest != digest:
        faults.append(
            f"the code has changed: its digest is {digest}, expected {lines[-1].digest}. Raise the"
            " number in aiayn/stages.py if the output changes, and add a line to"
            f" {HISTORY.name}; else add a line with the test that shows it"
        )
    if lines[-1].number != number:
        faults.append(f"its number is {number}, expected {lines[-1].number}, as in the last line")
    return faults


@pytest.mark.parametrize("stage", MODULES_BY_STAGE)
def test_an_edit_of_a_stage_has_a_higher_number_or_a_test(stage: str) -> None:
    lines = read_history()[stage]
    assert problems(lines, stage_digest(stage), STAGE_VERSIONS[stage]) == []
    for line in lines:
        path, _, name = line.unchanged_shown_by.partition("::")
        if path:
            assert f"def {name}(" in (CHECKOUT / path).read_text(encoding="utf-8")


def test_every_stage_and_every_module_of_their_folders_is_counted() -> None:
    assert set(MODULES_BY_STAGE) == set(STAGE_VERSIONS) - {"tables"}
    counted = {path for stage in MODULES_BY_STAGE for path in modules_of(stage)}
    names = {path.relative_to(LIBRARY).as_posix() for path in counted} | NOT_OF_A_STAGE
    for folder in ("data", "train", "model", "decode"):
        for path in (LIBRARY / folder).rglob("*.py"):
            if path.name != "__init__.py":
                assert path.relative_to(LIBRARY).as_posix() in names


def test_comments_docstrings_and_local_names_do_not_count_and_everything_else_does() -> None:
    before = 'def f(x):\n    """Double."""\n    y = x * 2\n    return [y for z in x]\n'
    same = "def f(x):\n    # twice\n    w = x * 2\n    return [w for v in x]\n"
    assert code_of(before) == code_of(same)
    for edit in (
        ("* 2", "* 3"),
        ("f(x)", "f(x, y=1)"),
        ("return [y", "return [x"),
        ("def f", "def g"),
    ):
        assert code_of(before.replace(*edit)) != code_of(before)
