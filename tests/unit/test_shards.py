"""Shards hold every line once, in step; parts that are whole survive a kill, and nothing else does."""

import functools
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import msgspec
import pytest

from aiayn.errors import CorpusError
from aiayn.text.shards import Shard, map_shards, part_path, read_shard, split_into_shards
from aiayn.text.worker_pool import TaskProgress

KEY = "0123abcd"


class NumCharacters(msgspec.Struct, frozen=True):
    """What the work of these tests finds in a shard."""

    num_characters: int


def write_sides(folder: Path, source: bytes, target: bytes) -> dict[str, Path]:
    """Write two files and return their paths."""
    paths = {"en": folder / "train.en", "de": folder / "train.de"}
    paths["en"].write_bytes(source)
    paths["de"].write_bytes(target)
    return paths


def shards_of(num_shards: int) -> list[Shard]:
    """Return shards of two lines each, `0`, `1`, ... in both languages."""
    return [
        Shard(index=index, first_line=2 * index, num_lines=2, offset_by_language={"en": 4 * index, "de": 4 * index})
        for index in range(num_shards)
    ]


def copy_lines(shard: Shard, folder: Path, *, path: Path, journal: Path, failing: int | None = None) -> NumCharacters:
    """Copy a shard's lines into its part, and note its index in a journal; one shard may fail half way."""
    with (folder / "copy").open("w", encoding="utf-8", newline="\n") as copy:
        lines = list(read_shard(path, shard.offset_by_language["en"], shard.num_lines))
        copy.write("".join(f"{line}\n" for line in lines))
        with journal.open("a") as notes:
            notes.write(f"{shard.index}\n")
        if shard.index == failing:
            while not (folder.parent / "00000").exists():  # so that one part is whole
                time.sleep(0.01)
            raise CorpusError(f"shard {failing}: a fault for this test")
    return NumCharacters(num_characters=sum(map(len, lines)))


def die_at_once(shard: Shard, folder: Path) -> NumCharacters:
    """End the process without a word, as the kernel does when memory runs out."""
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError


@pytest.fixture
def text(tmp_path: Path) -> Path:
    """Write the ten lines 0 to 9."""
    path = tmp_path / "train.en"
    path.write_bytes(b"".join(f"{number}\n".encode() for number in range(10)))
    return path


def journal_of(tmp_path: Path) -> list[str]:
    """Return the indices of the shards that were worked on, sorted."""
    path = tmp_path / "journal"
    return sorted(path.read_text().split()) if path.exists() else []


def copy_all(tmp_path: Path, text: Path, *, num_processes: int = 1, key: str = KEY, failing: int | None = None) -> str:
    """Copy all shards and return the parts' text, one after the other."""
    work = functools.partial(copy_lines, path=text, journal=tmp_path / "journal", failing=failing)
    folder = tmp_path / "parts"
    found = map_shards(
        work, shards_of(5), NumCharacters, folder=folder, key=key, num_processes=num_processes, what="copy"
    )
    assert found == [NumCharacters(num_characters=2)] * 5
    return "".join((part_path(folder, key, shard) / "copy").read_text() for shard in shards_of(5))


@pytest.mark.parametrize("lines_per_shard", [1, 2, 3, 4, 5, 7, 100])
@pytest.mark.parametrize("ending", ["\n", ""])
def test_shards_hold_every_line_once_and_in_step(tmp_path: Path, lines_per_shard: int, ending: str) -> None:
    sides = [[f"s{number}" * (number % 4) for number in range(1, 8)], [str(number) for number in range(1, 8)]]
    paths = write_sides(tmp_path, *(("\n".join(side) + ending).encode() for side in sides))
    shards = split_into_shards(paths, lines_per_shard=lines_per_shard)
    assert [shard.index for shard in shards] == list(range(-(-7 // lines_per_shard)))
    assert [shard.first_line for shard in shards] == list(range(0, 7, lines_per_shard))
    for language, side in zip(("en", "de"), sides, strict=True):
        found = [
            list(read_shard(paths[language], shard.offset_by_language[language], shard.num_lines)) for shard in shards
        ]
        assert [line for lines in found for line in lines] == side


def test_shards_are_found_across_blocks_of_reading(tmp_path: Path) -> None:  # lines of 1, 2, 3, ... KiB, 10 MiB in all
    lines = [str(number).ljust(1024 * number, "x") for number in range(1, 141)]
    content = "".join(f"{line}\n" for line in lines).encode()
    paths = write_sides(tmp_path, content, b"\n" * 140)
    shards = split_into_shards(paths, lines_per_shard=9)
    found = [list(read_shard(paths["en"], shard.offset_by_language["en"], shard.num_lines)) for shard in shards]
    assert [line for part in found for line in part] == lines
    assert [shard.offset_by_language["de"] for shard in shards] == list(range(0, 140, 9))


def test_crlf_bare_cr_and_unicode_line_ends_shift_nothing(tmp_path: Path) -> None:
    lines = ["a\rb\r", "c\u2028d", "\u2029", "e\u0085f\x0b\x0c", "g"]
    paths = write_sides(tmp_path, "".join(f"{line}\n" for line in lines).encode(), b"1\n2\n3\n4\n5\n")
    shards = split_into_shards(paths, lines_per_shard=2)
    assert [shard.num_lines for shard in shards] == [2, 2, 1]
    last = shards[-1]
    assert list(read_shard(paths["en"], last.offset_by_language["en"], last.num_lines)) == ["g"]
    assert list(read_shard(paths["de"], last.offset_by_language["de"], last.num_lines)) == ["5"]


def test_uneven_sides_are_refused_with_both_counts(tmp_path: Path) -> None:
    paths = write_sides(tmp_path, b"a\nb\n", b"c\n")
    with pytest.raises(CorpusError, match=r"train\.en has 2 lines, .*train\.de has 1 lines; expected as many in each"):
        split_into_shards(paths)


def test_empty_sides_are_refused(tmp_path: Path) -> None:
    with pytest.raises(CorpusError, match=r"train\.en has 0 lines, .*train\.de has 0 lines; expected text"):
        split_into_shards(write_sides(tmp_path, b"", b""))


def test_absent_and_gzipped_files_are_refused(tmp_path: Path) -> None:
    with pytest.raises(CorpusError, match=r"absent\.en: no such file; rerun"):
        split_into_shards({"en": tmp_path / "absent.en"})
    with pytest.raises(CorpusError, match=r"a\.en\.gz: gzipped; expected plain text"):
        split_into_shards({"en": tmp_path / "a.en.gz"})


def test_a_line_that_is_not_utf_8_is_named_by_its_number_in_the_file(tmp_path: Path) -> None:
    path = tmp_path / "train.fr"
    path.write_bytes(b"un\ndeux\ntrois\nd\xe9j\xe0\n")
    assert list(read_shard(path, 3, 2)) == ["deux", "trois"]
    with pytest.raises(CorpusError, match=r"train\.fr:4: not UTF-8"):
        list(read_shard(path, 3, 3))


def test_a_file_that_became_shorter_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "train.fr"
    path.write_bytes(b"un\ndeux\n")
    with pytest.raises(CorpusError, match=r"train\.fr: ends after line 2; it had more when it was split"):
        list(read_shard(path, 3, 2))


@pytest.mark.parametrize("num_processes", [1, 2])
def test_results_and_parts_are_those_of_the_shards_in_order(tmp_path: Path, text: Path, num_processes: int) -> None:
    assert copy_all(tmp_path, text, num_processes=num_processes) == text.read_text()
    assert journal_of(tmp_path) == ["0", "1", "2", "3", "4"]


def test_whole_parts_are_taken_and_absent_or_unreadable_ones_made_again(
    tmp_path: Path, text: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    copy_all(tmp_path, text)
    folder = tmp_path / "parts" / KEY
    (folder / "00001").rename(folder / ".00001.partial")  # as a kill leaves it
    (folder / "00002" / "result.json").write_text('{"shard":')
    (folder / "00003" / "result.json").write_bytes((folder / "00002" / "copy").read_bytes())
    (folder / "00009").mkdir()  # of an earlier, larger text
    (tmp_path / "journal").unlink()
    assert copy_all(tmp_path, text) == text.read_text()
    assert journal_of(tmp_path) == ["1", "2", "3"]
    assert sorted(path.name for path in folder.iterdir()) == ["00000", "00001", "00002", "00003", "00004"]
    assert "copy: 2 of 5 shards are there from an earlier start" in capsys.readouterr().err


def test_a_part_of_other_lines_is_made_again(tmp_path: Path, text: Path) -> None:
    copy_all(tmp_path, text)
    other = msgspec.structs.replace(shards_of(1)[0], num_lines=1)
    work = functools.partial(copy_lines, path=text, journal=tmp_path / "journal")
    found = map_shards(work, [other], NumCharacters, folder=tmp_path / "parts", key=KEY, num_processes=1, what="copy")
    assert found == [NumCharacters(num_characters=1)]


def test_parts_of_another_key_are_removed(tmp_path: Path, text: Path) -> None:
    copy_all(tmp_path, text, key="old")
    copy_all(tmp_path, text)
    assert [path.name for path in (tmp_path / "parts").iterdir()] == [KEY]


@pytest.mark.parametrize("num_processes", [1, 2])
def test_an_error_ends_all_as_itself_and_whole_parts_stay(tmp_path: Path, text: Path, num_processes: int) -> None:
    with pytest.raises(CorpusError, match=r"^shard 1: a fault for this test$"):
        copy_all(tmp_path, text, num_processes=num_processes, failing=1)
    assert not (tmp_path / "parts" / KEY / "00001").exists()
    (tmp_path / "journal").unlink()
    assert copy_all(tmp_path, text) == text.read_text()
    assert "1" in journal_of(tmp_path)
    assert len(journal_of(tmp_path)) < 5


def test_a_process_that_is_killed_is_told(tmp_path: Path) -> None:
    with pytest.raises(CorpusError, match=r"^dying: one of 2 processes was killed .*smaller --num-processes"):
        map_shards(die_at_once, shards_of(2), NumCharacters, folder=tmp_path, key=KEY, num_processes=2, what="dying")


SLOW_WORK = """
import functools, os, sys, time
from pathlib import Path
sys.path.insert(0, {tests!r})
from test_shards import KEY, NumCharacters, shards_of
from aiayn.text.shards import map_shards

def work(shard, folder, *, notes):
    (folder / "torn").write_text("half")
    (notes / f"begun-{{shard.index}}-{{os.getpid()}}").touch()
    if shard.index >= 2:
        time.sleep(60)
    return NumCharacters(num_characters=7)

if __name__ == "__main__":
    noted = functools.partial(work, notes=Path(sys.argv[2]))
    map_shards(noted, shards_of(5), NumCharacters, folder=Path(sys.argv[1]), key=KEY, num_processes=2, what="slow")
"""


def test_a_kill_ends_the_processes_and_a_restart_goes_on_with_whole_parts(tmp_path: Path, text: Path) -> None:
    script = tmp_path / "slow_work.py"
    script.write_text(SLOW_WORK.format(tests=str(Path(__file__).parent)))
    notes = tmp_path / "notes"
    notes.mkdir()
    driver = subprocess.Popen([sys.executable, str(script), str(tmp_path / "parts"), str(notes)])
    deadline = time.monotonic() + 60
    while len(begun := [path.name.split("-") for path in notes.iterdir()]) < 4:  # shards 2 and 3 sleep
        assert time.monotonic() < deadline
        assert driver.poll() is None
        time.sleep(0.05)
    driver.kill()
    driver.wait()
    while any(Path(f"/proc/{process}").exists() for _, _, process in begun):
        assert time.monotonic() < deadline, "a process outlived its driver"
        time.sleep(0.05)
    work = functools.partial(copy_lines, path=text, journal=tmp_path / "journal")
    found = map_shards(
        work, shards_of(5), NumCharacters, folder=tmp_path / "parts", key=KEY, num_processes=1, what="copy"
    )
    assert [one.num_characters for one in found] == [7, 7, 2, 2, 2]
    assert journal_of(tmp_path) == ["2", "3", "4"]
    names = [path.name for path in (tmp_path / "parts" / KEY / "00002").iterdir()]
    assert sorted(names) == ["copy", "result.json"]


def test_rate_and_time_left_are_of_this_start(capsys: pytest.CaptureFixture[str]) -> None:
    progress = TaskProgress("clean", 1_000, "lines", 10)
    progress.begin(500, 5)
    progress.add(100)
    line = progress.text(progress._begun_at + 2)  # 100 lines in 2 s; 400 are left
    assert line == "clean: 600/1,000 lines, 6/10 shards, 50 lines/s, ETA 0:00:08"
    progress.finish()
    assert "600/1,000" in capsys.readouterr().err
