"""A folder of logs is read on several processes where they are large, with what one process reads."""

import os
from pathlib import Path

import pytest

from aiayn.errors import RecordError
from analysis.logs import reader
from analysis.logs.listing import list_logs
from analysis.logs.reader import read_log, read_logs
from tests.logs.factory import TrainingText, read_folder, write


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write(
        tmp_path / "logs", {"a.log": TrainingText().text(), "b/train.log": TrainingText().changed(seed=2).text()}
    )


@pytest.fixture
def two_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader, "MIN_BYTES_PER_PROCESS", 1)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1})


@pytest.mark.usefixtures("two_processes")
def test_several_processes_read_what_one_reads(folder: Path) -> None:
    assert read_folder(folder) == {path: read_log(folder / path) for path in list_logs(folder)}


@pytest.mark.usefixtures("two_processes")
def test_a_file_that_cannot_be_read_is_refused_by_any_process(folder: Path) -> None:
    (folder / "c.log").mkdir()
    found = read_logs(folder, ["a.log", "c.log", "gone.log"])
    refusal = found["c.log"].refusal
    assert refusal is not None
    assert (refusal.line, refusal.text) == (0, "cannot be read (Is a directory)")
    assert (found["a.log"].refusal, len(found["a.log"].entries)) == (None, 1)
    assert found["gone.log"].refusal is not None


def die(path: Path) -> None:
    os._exit(1)


@pytest.mark.usefixtures("two_processes")
def test_a_process_that_dies_is_no_success(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader, "read_log", die)
    with pytest.raises(RecordError, match=r"logs: a process that reads logs died"):
        read_folder(folder)


def test_of_our_run_only_its_train_log_is_read(folder: Path) -> None:
    write(
        folder,
        {"ours/train.log": "", "ours/attempts.jsonl": "", "ours/rank0.lock": "", "ours/submitit/1_0_log.out": ""},
    )
    assert list_logs(folder) == ["a.log", "b/train.log", "ours/train.log"]
