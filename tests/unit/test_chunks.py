"""Chunks hold every line once, in step. Results come in order. Whatever ends the work ends it
whole.
"""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from aiayn.data.text import chunks
from aiayn.data.text.chunks import Chunk, map_chunks
from aiayn.errors import CorpusError


def write_sides(folder: Path, source: bytes, target: bytes) -> dict[str, Path]:
    """Write two files and return their paths."""
    paths = {"en": folder / "train.en", "de": folder / "train.de"}
    paths["en"].write_bytes(source)
    paths["de"].write_bytes(target)
    return paths


def sides_of(chunk: Chunk) -> tuple[list[str], list[str]]:
    """Return both sides' lines."""
    return chunk.lines("en"), chunk.lines("de")


def slower_at_first(chunk: Chunk) -> list[str]:
    """Return one side's lines, the first chunk's after the others'."""
    time.sleep(0.5 if chunk.first_line == 1 else 0)
    return chunk.lines("en")


def die_at_once(chunk: Chunk) -> None:
    """End the process without a word, as the kernel does when memory runs out."""
    os.kill(os.getpid(), signal.SIGKILL)


def fail_at_three(chunk: Chunk) -> None:
    """Refuse one line."""
    if chunk.first_line == 3:
        raise CorpusError("line 3: a fault for this test")


@pytest.fixture(autouse=True)
def _lines_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Take a line a chunk, and a process for each line, unless a test says otherwise."""
    monkeypatch.setattr(chunks, "LINES_PER_CHUNK", 1)
    monkeypatch.setattr(chunks, "LINES_PER_PROCESS", 1)


@pytest.mark.parametrize("lines_per_chunk", [1, 2, 3, 4, 5, 7, 100])
@pytest.mark.parametrize("ending", ["\n", ""])
def test_chunks_hold_every_line_once_and_in_step(
    tmp_path: Path, lines_per_chunk: int, ending: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(chunks, "LINES_PER_CHUNK", lines_per_chunk)
    sides = [
        [f"s{number}" * (number % 4) for number in range(1, 8)],
        [str(number) for number in range(1, 8)],
    ]
    paths = write_sides(tmp_path, *(("\n".join(side) + ending).encode() for side in sides))
    chunks_of_lines = list(map_chunks(sides_of, paths, num_processes=1, what="look"))
    assert [len(target) for _, target in chunks_of_lines] == [
        min(lines_per_chunk, 7 - first) for first in range(0, 7, lines_per_chunk)
    ]
    assert [line for source, _ in chunks_of_lines for line in source] == sides[0]
    assert [line for _, target in chunks_of_lines for line in target] == sides[1]


def test_results_are_in_the_order_of_the_text(tmp_path: Path) -> None:
    paths = write_sides(tmp_path, b"".join(b"%d\n" % number for number in range(20)), b"\n" * 20)
    results = map_chunks(slower_at_first, paths, num_processes=2, what="look")
    assert [line for lines in results for line in lines] == [str(number) for number in range(20)]


def test_a_line_that_is_not_utf_8_is_named_by_its_number_in_the_file(tmp_path: Path) -> None:
    paths = write_sides(tmp_path, b"un\ndeux\ntrois\nd\xe9j\xe0\n", b"1\n2\n3\n4\n")
    with pytest.raises(CorpusError, match=r"train\.en:4: not UTF-8"):
        list(map_chunks(sides_of, paths, num_processes=1, what="look"))


@pytest.mark.parametrize(("num_source", "num_target"), [(2, 1), (0, 0)])
def test_uneven_and_empty_sides_are_refused_with_both_counts(
    tmp_path: Path, num_source: int, num_target: int
) -> None:
    paths = write_sides(tmp_path, b"a\n" * num_source, b"b\n" * num_target)
    counts = rf"train\.en has {num_source} lines, .*train\.de has {num_target} lines"
    with pytest.raises(CorpusError, match=counts):
        list(map_chunks(sides_of, paths, num_processes=1, what="look"))


@pytest.mark.parametrize("num_processes", [1, 2])
def test_an_error_ends_all_as_itself(tmp_path: Path, num_processes: int) -> None:
    paths = write_sides(tmp_path, b"a\n" * 9, b"b\n" * 9)
    with pytest.raises(CorpusError, match=r"^line 3: a fault for this test$"):
        list(map_chunks(fail_at_three, paths, num_processes=num_processes, what="look"))


def test_a_process_that_is_killed_is_named(tmp_path: Path) -> None:
    paths = write_sides(tmp_path, b"a\nb\n", b"c\nd\n")
    with pytest.raises(CorpusError, match=r"^dying: a process of 2 was killed"):
        list(map_chunks(die_at_once, paths, num_processes=2, what="dying"))


SLOW_WORK = """
import os, sys, time
from pathlib import Path
from aiayn.data.text import chunks

def work(chunk):
    (Path(sys.argv[1]).parent / f"begun-{os.getpid()}").touch()
    time.sleep(60)

if __name__ == "__main__":
    chunks.LINES_PER_CHUNK = chunks.LINES_PER_PROCESS = 1
    list(chunks.map_chunks(work, {"en": Path(sys.argv[1])}, num_processes=2, what="slow"))
"""


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_a_signal_ends_all_processes_at_once(tmp_path: Path, number: signal.Signals) -> None:
    """Send SIGINT to the parent only. After Ctrl-C, its processes also get it, and ignore it."""
    (tmp_path / "slow_work.py").write_text(SLOW_WORK)
    (tmp_path / "train.en").write_bytes(b"a\n" * 9)
    parent = subprocess.Popen(
        [sys.executable, str(tmp_path / "slow_work.py"), str(tmp_path / "train.en")]
    )
    deadline = time.monotonic() + 180
    while len(begun := [path.name.split("-")[1] for path in tmp_path.glob("begun-*")]) < 2:
        assert time.monotonic() < deadline
        assert parent.poll() is None
        time.sleep(0.05)
    parent.send_signal(number)
    assert parent.wait(timeout=120) != 0
    while any(Path(f"/proc/{process}").exists() for process in begun):
        assert time.monotonic() < deadline, "a process outlived its parent"
        time.sleep(0.05)
