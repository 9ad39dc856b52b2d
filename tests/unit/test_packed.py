"""A folder with an archive is read like the same folder unpacked. Damaged archives are refused."""

import json
import lzma
import os
import zipfile
from pathlib import Path

import pytest

from aiayn import packed
from aiayn.errors import FileError
from aiayn.facts.listing import list_folder
from aiayn.packed import ARCHIVE_NAME, write_archive

CONTENT = {
    "runs/one/attempts.jsonl": b'{"a": 1}\n',
    "runs/one/train.log.xz": lzma.compress(b"epoch 1\n"),
    "runs/two/attempts.jsonl": b'{"a": 2}\n',
    "runs/two/train.log": b"epoch 2\n",
    "train/corpus/base/seed1.json": b"{}",
    "train/corpus/base/seed10.json": b"{}",
}


@pytest.fixture
def loose(tmp_path: Path) -> Path:
    """Return the folder with all files on the disk."""
    for name, content in CONTENT.items():
        path = tmp_path / "loose" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    return tmp_path / "loose"


@pytest.fixture
def archived(loose: Path, tmp_path: Path) -> Path:
    """Return the folder with the same files, all but a README in the archive."""
    folder = tmp_path / "archived"
    folder.mkdir()
    paths = [path for path in loose.rglob("*") if path.is_file()]
    write_archive(loose, paths, folder / ARCHIVE_NAME)
    return folder


def walked(folder: Path) -> list[tuple[str, list[str], list[str]]]:
    def refuse(error: OSError) -> None:
        raise error

    return [
        (parent.relative_to(folder).as_posix(), folders, files)
        for parent, folders, files in packed.walk(folder, refuse, follows_links=False)
    ]


def test_packed_text_is_smaller_comes_back_and_has_the_same_bytes_again() -> None:
    content = b"update 1 of 40\n" * 1000
    text = packed.packed_bytes(content)
    assert lzma.decompress(text) == content
    assert len(text) < len(content) // 10
    assert packed.packed_bytes(content) == text


def test_an_archive_is_walked_matched_and_listed_as_its_files_are(
    loose: Path, archived: Path
) -> None:
    expected = [
        (Path(parent).relative_to(loose).as_posix(), sorted(folders), sorted(files))
        for parent, folders, files in os.walk(loose)
    ]
    assert sorted(walked(archived)) == sorted(walked(loose)) == sorted(expected)
    for pattern in ("*/*/*/seed*.json", "runs/*/train.log*", "**/*.jsonl", "**/*", "nothing/*"):
        names = sorted(path.relative_to(loose) for path in loose.glob(pattern))
        assert [path.relative_to(loose) for path in packed.glob(loose, pattern)] == names
        assert [path.relative_to(archived) for path in packed.glob(archived, pattern)] == names
    logs = ["runs/one/train.log.xz", "runs/two/train.log"]
    assert list_folder(archived).log_paths == list_folder(loose).log_paths == logs
    assert list_folder(archived / "runs").log_paths == ["one/train.log.xz", "two/train.log"]


def test_a_file_of_an_archive_is_read_unpacked_and_the_disk_comes_first(archived: Path) -> None:
    log_path = packed.find_packed(archived / "runs" / "one" / "train.log")
    assert log_path == archived / "runs" / "one" / "train.log.xz"
    assert packed.read_bytes(log_path) == packed.read_bounded(log_path, 100) == b"epoch 1\n"
    assert packed.is_file(log_path)
    assert packed.is_dir(log_path.parent)
    assert not packed.is_dir(log_path)
    assert not packed.exists(log_path.with_name("other"))
    assert packed.modified_seconds(log_path) == (archived / ARCHIVE_NAME).stat().st_mtime
    path = archived / "runs" / "two" / "attempts.jsonl"
    path.parent.mkdir(parents=True)
    path.write_bytes(b"changed")
    assert packed.read_bytes(path) == b"changed"
    assert packed.list_names(path.parent) == ["attempts.jsonl", "train.log"]
    with pytest.raises(FileNotFoundError):
        packed.read_bytes(archived / "nothing")


def test_a_replaced_archive_is_read_anew(archived: Path, tmp_path: Path) -> None:
    assert packed.exists(archived / "train")
    (tmp_path / "later").write_bytes(b"later")
    write_archive(tmp_path, [tmp_path / "later"], archived / ARCHIVE_NAME)
    assert packed.list_names(archived) == ["later"]
    assert packed.read_bytes(archived / "later") == b"later"


def test_the_same_files_give_the_same_archive_whatever_their_times_and_order(
    loose: Path, archived: Path, tmp_path: Path
) -> None:
    # A pack that is made again must not differ in git.
    paths = sorted(path for path in loose.rglob("*") if path.is_file())
    for path in paths:
        os.utime(path, (1e9, 1e9))
        path.chmod(0o600)
    write_archive(loose, reversed(paths), tmp_path / "again.zip")
    assert (tmp_path / "again.zip").read_bytes() == (archived / ARCHIVE_NAME).read_bytes()


def test_a_file_that_is_no_archive_is_refused_in_a_sentence(archived: Path) -> None:
    whole = (archived / ARCHIVE_NAME).read_bytes()
    (archived / ARCHIVE_NAME).write_bytes(whole[:-30])
    with pytest.raises(FileError, match=r"aiayn-pack.zip: not a whole zip file: .*; copy or fetch"):
        packed.exists(archived / "train")


def test_a_damaged_file_of_an_archive_is_refused(archived: Path) -> None:
    path = archived / "train" / "corpus" / "base" / "seed1.json"
    whole = (archived / ARCHIVE_NAME).read_bytes()
    with zipfile.ZipFile(archived / ARCHIVE_NAME) as archive:
        start = archive.getinfo("train/corpus/base/seed1.json").header_offset
    begin = start + 30 + len("train/corpus/base/seed1.json")
    (archived / ARCHIVE_NAME).write_bytes(whole[:begin] + b"\xff" + whole[begin + 1 :])
    with pytest.raises(FileError, match=r"seed1.json: not a whole"):
        packed.read_bounded(path, 100)


def test_a_fork_reads_through_a_file_of_its_own(archived: Path) -> None:
    # Processes that share a position in the file would read each other's bytes.
    path = archived / "runs" / "two" / "attempts.jsonl"
    assert json.loads(packed.read_bytes(path)) == {"a": 2}
    assert packed._open_archive.cache_info().currsize > 0
    reader, writer = os.pipe()
    if os.fork() == 0:
        os.write(writer, str(packed._open_archive.cache_info().currsize).encode())
        os._exit(0)
    os.wait()
    assert os.read(reader, 10) == b"0"
