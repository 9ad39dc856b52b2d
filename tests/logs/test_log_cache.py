"""The cache of logs: the second reading reads nothing, and a changed file is never taken for what it was."""

import lzma
import os
from pathlib import Path

import pytest

from aiayn.errors import RecordError
from analysis.logs import cache
from analysis.logs.cache import default_cache_folder, read_folder
from analysis.logs.listing import list_logs
from analysis.logs.reader import read_log
from analysis.logs.types import LogFile, TrainingLog
from tests.logs.factory import TrainingText, write


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write(
        tmp_path / "logs", {"a.log": TrainingText().text(), "b/train.log": TrainingText().changed(seed=2).text()}
    )


def seeds(file_by_path: dict[str, LogFile]) -> dict[str, object]:
    return {
        path: entry.arguments["seed"]
        for path, log_file in file_by_path.items()
        for entry in log_file.entries
        if isinstance(entry, TrainingLog)
    }


@pytest.fixture
def read_paths(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The files that are really read, in order."""
    paths: list[str] = []
    monkeypatch.setattr(cache, "read_log", lambda path: (paths.append(path.name), read_log(path))[1])
    return paths


def test_the_second_reading_reads_no_file(folder: Path, tmp_path: Path, read_paths: list[str]) -> None:
    (folder / "a.log.xz").write_bytes(lzma.compress((folder / "a.log").read_bytes()))
    (folder / "a.log").unlink()
    first = read_folder(folder, tmp_path / "cache")
    (kept,) = (tmp_path / "cache").iterdir()
    written_ns = kept.stat().st_mtime_ns
    second = read_folder(folder, tmp_path / "cache")
    assert first == second
    assert seeds(second) == {"a.log.xz": 1, "b/train.log": 2}
    assert read_paths == ["a.log.xz", "train.log"]
    assert kept.stat().st_mtime_ns == written_ns  # nothing was read, so nothing is written


def test_without_a_cache_everything_is_read(folder: Path, read_paths: list[str]) -> None:
    assert read_folder(folder, None) == read_folder(folder, None)
    assert read_paths == ["a.log", "train.log"] * 2


def test_other_bytes_of_the_same_size_and_time_are_read_again(
    folder: Path, tmp_path: Path, read_paths: list[str]
) -> None:
    path = folder / "a.log"
    read_folder(folder, tmp_path / "cache")
    before = path.stat()
    path.write_text(path.read_text(encoding="utf-8").replace("seed=1", "seed=7"), encoding="utf-8")
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert (path.stat().st_size, path.stat().st_mtime_ns) == (before.st_size, before.st_mtime_ns)
    assert seeds(read_folder(folder, tmp_path / "cache")) == {"a.log": 7, "b/train.log": 2}
    assert read_paths == ["a.log", "train.log", "a.log"]


def test_a_moved_or_touched_file_is_not_read_again(folder: Path, tmp_path: Path, read_paths: list[str]) -> None:
    read_folder(folder, tmp_path / "cache")
    (folder / "a.log").rename(folder / "c.log")
    os.utime(folder / "c.log", (1, 1))
    assert seeds(read_folder(folder, tmp_path / "cache")) == {"b/train.log": 2, "c.log": 1}
    assert read_paths == ["a.log", "train.log"]


def test_a_torn_cache_is_no_cache(folder: Path, tmp_path: Path, read_paths: list[str]) -> None:
    expected = read_folder(folder, tmp_path / "cache")
    (cache_path,) = (tmp_path / "cache").iterdir()
    whole = cache_path.read_bytes()
    for torn in (b"", whole[:-1], whole[:100] + b"\x00" + whole[101:]):
        cache_path.write_bytes(torn)
        assert read_folder(folder, tmp_path / "cache") == expected
    assert len(read_paths) == 2 * 4


def test_what_another_reader_kept_is_not_taken(
    folder: Path, tmp_path: Path, read_paths: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    read_folder(folder, tmp_path / "cache")
    monkeypatch.setattr(cache, "reader_version", lambda: "another")
    read_folder(folder, tmp_path / "cache")
    assert len(read_paths) == 4


def test_a_cache_that_cannot_be_written_is_reported_and_left(
    folder: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "cache").write_text("a file, no folder", encoding="utf-8")
    assert seeds(read_folder(folder, tmp_path / "cache")) == {"a.log": 1, "b/train.log": 2}
    assert "the cache of logs cannot be written" in caplog.text


def test_files_that_are_gone_leave_the_cache(folder: Path, tmp_path: Path) -> None:
    read_folder(folder, tmp_path / "cache")
    (cache_path,) = (tmp_path / "cache").iterdir()
    before = cache_path.stat().st_size
    (folder / "a.log").unlink()
    read_folder(folder, tmp_path / "cache")
    assert cache_path.stat().st_size < before


@pytest.fixture
def two_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache, "MIN_BYTES_PER_PROCESS", 1)
    monkeypatch.setattr(cache, "num_cpus", lambda: 2)


@pytest.mark.usefixtures("two_processes")
def test_several_processes_read_what_one_reads(folder: Path) -> None:
    assert read_folder(folder, None) == {path: read_log(folder / path)[0] for path in list_logs(folder)}


@pytest.mark.usefixtures("two_processes")
def test_a_file_that_cannot_be_read_is_refused_by_any_process(folder: Path) -> None:
    (folder / "c.log").mkdir()
    found = read_folder(folder, None, paths=["a.log", "c.log"])
    refusal = found["c.log"].refusal
    assert refusal is not None
    assert (refusal.line, refusal.text) == (0, "cannot be read (Is a directory)")
    assert (found["a.log"].refusal, len(found["a.log"].entries)) == (None, 1)


def die(path: Path) -> None:
    os._exit(1)


@pytest.mark.usefixtures("two_processes")
def test_a_process_that_dies_is_no_success(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache, "read_log", die)
    with pytest.raises(RecordError, match=r"logs: a process that reads logs died"):
        read_folder(folder, None)


def test_of_our_run_only_its_train_log_is_read(folder: Path) -> None:
    write(
        folder,
        {"ours/train.log": "", "ours/attempts.jsonl": "", "ours/rank0.lock": "", "ours/submitit/1_0_log.out": ""},
    )
    assert list_logs(folder) == ["a.log", "b/train.log", "ours/train.log"]


def test_the_default_cache_is_the_users(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert default_cache_folder() == tmp_path / "aiayn" / "logs"
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert default_cache_folder() == Path.home() / ".cache" / "aiayn" / "logs"
