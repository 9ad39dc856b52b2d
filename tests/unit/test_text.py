"""Lines end at LF only, with any other characters in them. Bad files are named."""

import gzip
from pathlib import Path

import pytest

from aiayn.data.text.lines import (
    count_lines,
    read_lines,
    text_pair,
    write_lines,
)
from aiayn.errors import CorpusError

# Each would end a line for str.splitlines or universal newlines: CR, VT, FF, FS, NEL, U+2028,
# U+2029; NBSP would not.
ODD_LINES = ["a\rb", "c\u2028d\u2029e", "", "f\x0b\x0c\x1c\x85g", "h\u00a0i", "last"]


@pytest.mark.parametrize(
    ("content", "lines"),
    [
        ("\n".join([*ODD_LINES, ""]).encode(), ODD_LINES),
        (b"", []),
        (b"a", ["a"]),
        (b"a\n", ["a"]),
        (b"a\n\n", ["a", ""]),
        (b"a\nb", ["a", "b"]),
    ],
)
@pytest.mark.parametrize("suffix", ["", ".gz"])
def test_lines_end_at_lf_alone_and_the_last_may_have_none(
    content: bytes, lines: list[str], suffix: str, tmp_path: Path
) -> None:
    path = tmp_path / f"text.en{suffix}"
    path.write_bytes(gzip.compress(content) if suffix else content)
    assert list(read_lines(path)) == lines
    assert count_lines(path) == len(lines)


def test_written_lines_come_back(tmp_path: Path) -> None:
    path = tmp_path / "text.en"
    assert write_lines(ODD_LINES, path) == 6
    assert path.read_bytes().count(b"\n") == 6
    assert list(read_lines(path)) == ODD_LINES


def test_a_line_with_a_line_feed_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CorpusError, match=r"text\.en:2: a line feed inside a line"):
        write_lines(["one", "two\nthree"], tmp_path / "text.en")


PACKED = gzip.compress("\n".join(map(str, range(10_000))).encode())


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("text.en.gz", PACKED[: len(PACKED) // 2], r"not a whole \.gz file.*fetch it again"),
        ("text.en.gz", PACKED[:-600], r"not a whole \.gz file.*fetch it again"),
        ("text.en.gz", b"plain\n", r"not a whole \.gz file.*fetch it again"),
        ("text.en", None, "no such file"),
        ("text.fr", b"bien\nd\xe9j\xe0\n", "2: not UTF-8"),  # Latin-1
    ],
)
def test_a_bad_file_is_named(
    name: str, content: bytes | None, message: str, tmp_path: Path
) -> None:
    if content is not None:
        (tmp_path / name).write_bytes(content)
    with pytest.raises(CorpusError, match=rf"{name}:( )?{message}"):
        list(read_lines(tmp_path / name))


def test_a_pair_is_counted_and_hashed(tmp_path: Path) -> None:
    (tmp_path / "train.en").write_bytes(b"abc\n")
    (tmp_path / "train.de").write_bytes(b"x")
    paths = {language: tmp_path / f"train.{language}" for language in ("en", "de")}
    pair = text_pair(paths, final_folder=Path("elsewhere"))
    assert pair.num_lines == 1
    assert pair.path_by_language == {k: Path("elsewhere") / f"train.{k}" for k in ("en", "de")}
    # printf 'abc\n' | sha256sum
    digest = "edeaaff3f1774ad2888673770c6d64097e391bc362d7d6fb34982ddf0efd18cb"
    assert pair.sha256_by_language["en"] == digest


def test_sides_of_unequal_length_are_named_with_both_counts(tmp_path: Path) -> None:
    paths = {language: tmp_path / f"dev.{language}" for language in ("en", "de")}
    paths["en"].write_bytes(b"a\nb\n")
    paths["de"].write_bytes(b"x\n")
    with pytest.raises(CorpusError, match=r"dev\.en has 2 lines, .*dev\.de has 1 lines"):
        text_pair(paths)
