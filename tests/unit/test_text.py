"""Lines end at LF only, with any other characters in them; bad files are named."""

import gzip
from pathlib import Path

import pytest

from aiayn.data.text.lines import (
    count_lines,
    open_bytes,
    read_lines,
    text_pair,
    write_lines,
)
from aiayn.errors import CorpusError

# Each would end a line for str.splitlines or universal newlines: CR, VT, FF, FS, NEL, U+2028,
# U+2029; NBSP would not.
ODD_LINES = ["a\rb", "c\u2028d\u2029e", "", "f\x0b\x0c\x1c\x85g", "h\u00a0i", "last"]


def test_lines_end_at_lf_alone(tmp_path: Path) -> None:
    path = tmp_path / "text.en"
    path.write_bytes("\n".join(ODD_LINES).encode() + b"\n")
    assert list(read_lines(path)) == ODD_LINES
    assert count_lines(path) == 6


def test_a_last_line_without_lf_is_a_line_and_nothing_is_none(tmp_path: Path) -> None:
    path = tmp_path / "text.en"
    for content, lines in (
        (b"", []),
        (b"a", ["a"]),
        (b"a\n", ["a"]),
        (b"a\n\n", ["a", ""]),
        (b"a\nb", ["a", "b"]),
    ):
        path.write_bytes(content)
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


def test_gzip_is_read_as_plain_text_is(tmp_path: Path) -> None:
    path = tmp_path / "text.en.gz"
    path.write_bytes(gzip.compress(b"a\rb\nc"))
    assert list(read_lines(path)) == ["a\rb", "c"]
    assert count_lines(path) == 2


@pytest.mark.parametrize("keep", [0.5, 0.97])
def test_a_torn_gzip_file_is_named(tmp_path: Path, keep: float) -> None:
    path = tmp_path / "text.en.gz"
    packed = gzip.compress("\n".join(str(number) for number in range(10_000)).encode())
    path.write_bytes(packed[: int(len(packed) * keep)])
    with pytest.raises(CorpusError, match=r"text\.en\.gz: not a whole \.gz file.*fetch it again"):
        count_lines(path)


def test_text_that_calls_itself_gzip_is_named(tmp_path: Path) -> None:
    path = tmp_path / "text.en.gz"
    path.write_bytes(b"plain\n")
    with pytest.raises(CorpusError, match=r"text\.en\.gz: not a whole \.gz file"):
        list(read_lines(path))


def test_an_absent_file_is_named(tmp_path: Path) -> None:
    with (
        pytest.raises(CorpusError, match=r"text\.en: no such file"),
        open_bytes(tmp_path / "text.en"),
    ):
        pass


def test_a_line_that_is_not_utf_8_is_named(tmp_path: Path) -> None:
    path = tmp_path / "text.fr"
    path.write_bytes(b"bien\nd\xe9j\xe0\n")  # Latin-1
    with pytest.raises(CorpusError, match=r"text\.fr:2: not UTF-8"):
        list(read_lines(path))


def test_a_pair_is_counted_and_hashed(tmp_path: Path) -> None:
    (tmp_path / "train.en").write_bytes(b"abc\n")
    (tmp_path / "train.de").write_bytes(b"x")
    pair = text_pair(
        {"en": tmp_path / "train.en", "de": tmp_path / "train.de"}, final_folder=Path("elsewhere")
    )
    assert pair.num_lines == 1
    assert pair.path_by_language == {k: Path("elsewhere") / f"train.{k}" for k in ("en", "de")}
    # printf 'abc\n' | sha256sum
    assert (
        pair.sha256_by_language["en"]
        == "edeaaff3f1774ad2888673770c6d64097e391bc362d7d6fb34982ddf0efd18cb"
    )
