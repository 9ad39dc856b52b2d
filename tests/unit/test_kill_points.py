"""`clean` and `binarize` over older results, killed before each operation on files in turn: a
record never stands next to files of another run, and the next start ends as an undisturbed one.
"""

import os
import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path
from unittest import mock

import msgspec
import pytest

from aiayn.data.text.clean import clean_corpus
from aiayn.packed import file_problem
from aiayn.records import (
    BinarizedCorpus,
    ParallelText,
    RawCorpus,
    Record,
    read_record,
    recorded_files,
    write_record,
)
from aiayn.spec.system import CleanSpec
from tests.forks import fork
from tests.small_corpus import SMALL
from tests.unit.test_binarize import LINES_BY_NAME, binarized, write_text

KILLED = 9
OPERATIONS = ("fsync", "mkdir", "rename", "replace", "rmdir", "unlink")
OTHER_LINES = {**LINES_BY_NAME, "train.en": ["b", "a b", "c"], "dev.en": ["b a"]}
CLEANED = msgspec.structs.replace(
    SMALL, clean=CleanSpec(max_words=9, max_length_ratio=9.0, deduplicate=False)
)

Stage = Callable[[Path, dict[str, list[str]]], Record]


def clean(folder: Path, lines_by_name: dict[str, list[str]]) -> Record:
    """Clean text of its own folder next to a record."""
    names = [name for name in lines_by_name if not name.startswith("test_b")]
    raw: RawCorpus = write_text(folder / "text", {name: lines_by_name[name] for name in names})
    return clean_corpus(CLEANED, raw, record_path=folder / "record.json")


STAGES: dict[str, tuple[Stage, type[Record]]] = {
    "clean": (clean, ParallelText),
    "binarize": (binarized, BinarizedCorpus),
}


def record_path_of(stage: str, folder: Path) -> Path:
    """Return where a stage writes its record. `binarized` of the tests says it itself."""
    return folder / "record.json" if stage == "clean" else folder / "binarize" / "record.json"


def run_stage(stage: str, folder: Path, lines: dict[str, list[str]], kill_at: int = 0) -> int:
    """Run a stage and write its record, killed before an operation if `kill_at` is not 0. Return
    the number of operations.
    """
    num_calls = 0
    work, _ = STAGES[stage]

    def counted(operation: Callable[..., object]) -> Callable[..., object]:
        def call(*arguments: object, **named: object) -> object:
            nonlocal num_calls
            num_calls += 1
            if num_calls == kill_at:
                os._exit(KILLED)
            return operation(*arguments, **named)

        return call

    patches = {name: counted(getattr(os, name)) for name in OPERATIONS}
    with mock.patch.multiple(os, **patches):
        write_record(work(folder, lines), record_path_of(stage, folder))
    return num_calls


def content_by_name(folder: Path) -> dict[str, bytes]:
    """Return the outputs of a folder, without records."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.name != "record.json"
    }


@pytest.mark.slow
@pytest.mark.parametrize("stage", STAGES)
def test_at_no_kill_point_is_an_old_record_next_to_a_new_file(stage: str, tmp_path: Path) -> None:
    old, right = tmp_path / "old", tmp_path / "right"
    run_stage(stage, old, OTHER_LINES)
    shutil.copytree(old, right)
    num_points = run_stage(stage, right, LINES_BY_NAME)
    assert content_by_name(old) != content_by_name(right)
    assert num_points > 10
    for point in range(1, num_points + 1):
        folder = tmp_path / f"killed{point}"
        shutil.copytree(old, folder)
        child = fork(partial(run_stage, stage, folder, LINES_BY_NAME, kill_at=point))
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == KILLED
        record_path = record_path_of(stage, folder)
        if record_path.exists():
            record = read_record(record_path, STAGES[stage][1])
            problems = [file_problem(*entry) for entry in recorded_files(record).items()]
            assert [problem for problem in problems if problem] == [], f"kill point {point}"
        run_stage(stage, folder, LINES_BY_NAME)
        assert content_by_name(folder) == content_by_name(right), f"kill point {point}"
        shutil.rmtree(folder)
