"""Archives give the text that is wanted, character by character, and no bad archive gets further
than its message.

Tests named `quirk` hold one peculiarity each of WMT14's real files.
"""

import errno
import gzip
import io
import os
import stat
import sys
import tarfile
import tracemalloc
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow
import pyarrow.parquet
import pytest

from aiayn.data.sources.archives import SizeLimit
from aiayn.data.sources.joining import append_archive
from aiayn.errors import ConfigError, CorpusError

EN, DE = "training/europarl-v7.de-en.en", "training/europarl-v7.de-en.de"
MEMBERS = {"en": EN, "de": DE}
TEXT = {EN: b"one\ntwo\n", DE: b"eins\nzwei\n"}


Members = Mapping[str, bytes | tarfile.TarInfo]  # a TarInfo makes a member that is not a file


def tar_bytes(content_by_name: Members, mode: str = "w:gz") -> bytes:
    """Return a tar of these members."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode=mode) as tar:  # type: ignore[call-overload, unused-ignore]
        for name, content in content_by_name.items():
            if isinstance(content, tarfile.TarInfo):
                tar.addfile(content)
            else:
                member = tarfile.TarInfo(name)
                member.size = len(content)
                tar.addfile(member, io.BytesIO(content))
    return packed.getvalue()


def zip_bytes(content_by_name: Mapping[str, bytes], method: int = zipfile.ZIP_DEFLATED) -> bytes:
    """Return a zip of these members."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", method) as archive:
        for name, content in content_by_name.items():
            archive.writestr(name, content)
    return packed.getvalue()


def special(name: str, kind: bytes, target: str = "") -> tarfile.TarInfo:
    """Return a member that is a link or a device."""
    member = tarfile.TarInfo(name)
    member.type, member.linkname = kind, target
    return member


def joined(
    folder: Path,
    packed: bytes,
    archive_format: str = "tgz",
    members: Mapping[str, str] = MEMBERS,
    max_lines: int | None = None,
    is_limited: bool = False,
) -> dict[str, bytes]:
    """Append an archive's sides to files that hold a line already, and return what the files hold
    after it.
    """
    path = folder / f"archive.{archive_format}"
    path.write_bytes(packed)
    with (folder / "en").open("wb") as en, (folder / "other").open("wb") as other:
        into = dict(zip(members, (en, other), strict=True))
        limit = SizeLimit(path) if is_limited else None
        num_lines = append_archive(
            path, archive_format, members, into, max_lines=max_lines, limit=limit
        )
    sides = dict(
        zip(members, ((folder / "en").read_bytes(), (folder / "other").read_bytes()), strict=True)
    )
    assert [side.count(b"\n") for side in sides.values()] == [num_lines, num_lines]
    return sides


def message(
    folder: Path, packed: bytes, archive_format: str = "tgz", *options: Any, **named: Any
) -> str:
    """Return what the user sees of a bad archive, with its path as PATH."""
    with pytest.raises(CorpusError) as caught:
        joined(folder, packed, archive_format, *options, **named)
    return str(caught.value).replace(str(folder / f"archive.{archive_format}"), "PATH")


@pytest.mark.parametrize("archive_format", ["tgz", "tar", "zip"])
def test_the_wanted_members_are_read_whatever_stands_beside_them(
    tmp_path: Path, archive_format: str
) -> None:
    content = {
        "training/europarl-v7.cs-en.cs": b"x\n",
        **TEXT,
        "training/europarl-v7.fr-en.fr": b"y\n" * 9,
    }
    packed = {"tgz": tar_bytes(content), "tar": tar_bytes(content, "w"), "zip": zip_bytes(content)}[
        archive_format
    ]
    assert joined(tmp_path, packed, archive_format) == {"en": TEXT[EN], "de": TEXT[DE]}
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        f"archive.{archive_format}",
        "en",
        "other",
    ]


def test_folders_links_and_a_dot_before_names_are_no_hindrance(tmp_path: Path) -> None:
    content: Members = {
        "training": special("training", tarfile.DIRTYPE),
        "training/latest": special("training/latest", tarfile.SYMTYPE, "europarl-v7.de-en.en"),
        **{f"./{name}": text for name, text in TEXT.items()},
    }
    assert joined(tmp_path, tar_bytes(content)) == {"en": TEXT[EN], "de": TEXT[DE]}


def test_a_last_line_without_line_feed_does_not_run_into_the_next_archive(tmp_path: Path) -> None:
    assert (
        joined(tmp_path, tar_bytes({EN: b"one\ntwo", DE: b"eins\nzwei\n"}))["en"] == b"one\ntwo\n"
    )


# The quirks of the real files.


@pytest.mark.parametrize("carriage_return", [b"\r", b"\r "])
def test_quirk_1_a_bare_carriage_return_ends_no_line(
    tmp_path: Path, carriage_return: bytes
) -> None:
    name = "training/news-commentary-v9.fr-en"
    french = b"Horaires de travail." + carriage_return + b"Planifier ... \r\n\r\nFin\n"
    sides = joined(
        tmp_path,
        tar_bytes({f"{name}.en": b"Hours.\n\nEnd\n", f"{name}.fr": french}),
        members={"en": f"{name}.en", "fr": f"{name}.fr"},
    )
    assert sides == {"en": b"Hours.\n\nEnd\n", "fr": french}
    assert (
        len(french.decode().splitlines()) == 4
    )  # what a reader of universal newlines makes of the three lines


@pytest.mark.parametrize("german", [
    # quirk 2
    *(f"eins{separator}mehr\nzwei\n" for separator in ("\u2028", "\u2029", "\u0085", "\v", "\f", "\x1c")),
    "eins\n\n",  # 3: a pair with an empty side; clean drops and counts it
    "This is English.\nzwei\n",  # 6: no translation, left to the recipe's filters
    # 9: no-break spaces, soft hyphens
    "Une bo\u00eete noire\u00a0?\u202f Donau\u00addampf\ufeff\u200b\n\u00a0\n",
])  # fmt: skip
def test_quirks_2_3_6_and_9_no_line_ends_but_at_lf_and_no_character_changes(
    tmp_path: Path, german: str
) -> None:
    assert joined(tmp_path, tar_bytes({EN: TEXT[EN], DE: german.encode()}))["de"] == german.encode()


@pytest.mark.parametrize("archive_format", ["tar", "zip"])
def test_quirk_4_gzip_files_inside_an_unpacked_tar_are_unpacked(
    tmp_path: Path, archive_format: str
) -> None:
    names = {"en": "giga-fren.release2.fixed.en.gz", "fr": "giga-fren.release2.fixed.fr.gz"}
    content = {
        names["en"]: gzip.compress(b"one\ntwo\n"),
        names["fr"]: gzip.compress("un\xa0?\ndeux\n".encode()),
    }
    packed = tar_bytes(content, "w") if archive_format == "tar" else zip_bytes(content)
    assert joined(tmp_path, packed, archive_format, names) == {
        "en": b"one\ntwo\n",
        "fr": "un\xa0?\ndeux\n".encode(),
    }


def test_quirk_5_files_may_lie_at_the_archives_root(tmp_path: Path) -> None:
    names = {"en": "commoncrawl.de-en.en", "de": "commoncrawl.de-en.de"}
    content = {
        "commoncrawl.de-en.annotation": b"http://a\n",
        names["de"]: b"eins\n",
        names["en"]: b"one\n",
    }
    assert joined(tmp_path, tar_bytes(content), members=names) == {"en": b"one\n", "de": b"eins\n"}


def test_quirk_8_members_of_markup_are_read_by_it(tmp_path: Path) -> None:
    names = {"en": "dev/newstest2012-src.en.sgm", "fr": "dev/newstest2012-ref.fr.sgm"}
    content = {
        names["en"]: (
            b'<srcset>\n<doc>\n<seg id="1">S&P rose 5 < 6</seg>\n<seg'
            b' id="2">Two</seg>\n</doc></srcset>\n'
        ),
        names[
            "fr"
        ]: "<refset>\n<seg id='1'>S&P a mont\u00e9\u2019</seg>\n<seg id='2'>Deux</seg>\n".encode(),
    }
    sides = joined(tmp_path, tar_bytes(content), members=names)
    assert sides == {
        "en": b"S&P rose 5 < 6\nTwo\n",
        "fr": "S&P a mont\u00e9\u2019\nDeux\n".encode(),
    }


# Bad archives, one each, with what the user sees. (A wrong hash never gets here: test_download.)


def test_a_truncated_archive_is_named(tmp_path: Path) -> None:
    long = {
        EN: os.urandom(3000).hex().encode() + b"\n",
        DE: os.urandom(3000).hex().encode() + b"\n",
    }
    assert message(tmp_path, tar_bytes(long)[:3000]).startswith(
        "PATH: torn, or not an archive of its format"
    )
    assert "torn, or not an archive of its format" in message(
        tmp_path, tar_bytes(long, "w")[:9000], "tar"
    )
    assert "torn, or not an archive of its format: File is not a zip file" in message(
        tmp_path, zip_bytes(TEXT)[:-30], "zip"
    )
    assert "torn, or not an archive of its format: Not a gzipped file" in message(
        tmp_path, zip_bytes(TEXT)
    )


def test_a_damaged_tar_is_named(tmp_path: Path) -> None:
    packed = bytearray(tar_bytes(TEXT))
    packed[-8] ^= 1  # gzip's own checksum of what it unpacks to
    assert "torn, or not an archive of its format: CRC check failed" in message(
        tmp_path, bytes(packed)
    )


@pytest.mark.parametrize(
    "method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA]
)
def test_whichever_byte_of_a_zip_is_damaged_it_is_named_or_its_text_is_right(
    tmp_path: Path, method: int
) -> None:
    whole = zip_bytes({EN: b"one\n" * 20, DE: b"eins\n" * 20}, method)
    right, faults = {"en": b"one\n" * 20, "de": b"eins\n" * 20}, 0
    assert joined(tmp_path, whole, "zip") == right
    for place in range(len(whole)):
        for damage in (1, 0x80):
            packed = bytearray(whole)
            packed[place] ^= damage
            try:
                assert joined(tmp_path, bytes(packed), "zip") == right  # a time or an attribute
            except CorpusError as error:
                faults += 1
                assert str(tmp_path / "archive.zip") in str(error)  # noqa: PT017
    assert faults > len(whole)


def test_a_disk_that_fails_is_not_taken_for_a_torn_archive(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(zipfile.ZipExtFile, "read", fail)
    with pytest.raises(OSError, match="Input/output error"):
        joined(tmp_path, zip_bytes(TEXT), "zip")


@pytest.mark.parametrize(
    "name", ["../../etc/passwd", "/etc/passwd", "training/../../passwd", "..\\..\\passwd", ".."]
)
@pytest.mark.parametrize("archive_format", ["tgz", "zip"])
def test_a_member_outside_the_archive_is_refused_wanted_or_not(
    tmp_path: Path, name: str, archive_format: str
) -> None:
    pack = tar_bytes if archive_format == "tgz" else zip_bytes
    seen = message(tmp_path, pack({**TEXT, name: b"root\n"}), archive_format)
    assert seen.startswith(f"PATH: member {name!r} points out of the archive")


LINK = f"PATH: member {EN!r} is a link or folder, expected a plain file; delete the archive"
BAD_ARCHIVES: list[tuple[Members, str]] = [
    (TEXT | {"dev": special("training/dev", tarfile.CHRTYPE)}, "PATH: member 'training/dev' is a"),
    (TEXT | {"dev": special("training/dev", tarfile.BLKTYPE)}, "PATH: member 'training/dev' is a"),
    (TEXT | {"dev": special("training/dev", tarfile.FIFOTYPE)}, "PATH: member 'training/dev' is a"),
    (
        TEXT | {"x": special("training/x", tarfile.SYMTYPE, "../../../etc")},
        "PATH: link 'training/x' to 'training/../../../etc' points out of the archive",
    ),
    (
        TEXT | {EN: special(EN, tarfile.SYMTYPE, "/etc/passwd")},
        f"PATH: link {EN!r} to '/etc/passwd' points out of the archive",
    ),
    (TEXT | {EN: special(EN, tarfile.SYMTYPE, "europarl-v7.de-en.de")}, LINK),
    (TEXT | {EN: special(EN, tarfile.LNKTYPE, DE)}, LINK),
    (TEXT | {f"./{EN}": b"other\n"}, f"PATH: member {EN!r} occurs twice"),
    (
        {EN: TEXT[EN], "README": b"x"},
        f"PATH: no member {DE!r}; it holds {EN}, README; correct member_by_language in the corpus"
        " file",
    ),
    (
        TEXT | {DE: b"eins\nzwei\ndrei\n"},
        f"PATH: sides of unequal numbers of lines: {EN} has 2, {DE} has 3; expected line-by-line"
        " translations; delete it and fetch it again",
    ),
    (
        TEXT | {DE: b""},
        f"PATH: {DE} is empty ({EN} has 2, {DE} has 0 lines); expected text; delete it and fetch"
        " it again",
    ),
    (
        TEXT | {DE: b"eins\nf\xfcnf\n"},
        f"PATH: {DE}:2: not UTF-8: bytes fc 6e 66 0a (invalid start byte); the archive has another"
        " encoding or is not the published archive; delete it and fetch it again",
    ),
]


@pytest.mark.parametrize(("members", "expected"), BAD_ARCHIVES)
def test_a_bad_archive_is_refused_with_its_reason(
    tmp_path: Path, members: Members, expected: str
) -> None:
    assert message(tmp_path, tar_bytes(members)).startswith(expected)


def test_of_many_members_the_first_are_named(tmp_path: Path) -> None:
    many = {EN: TEXT[EN], **{f"file{index}": b"" for index in range(9)}}
    assert "file4 and 4 more; correct" in message(tmp_path, zip_bytes(many), "zip")


def test_another_encoding_of_markup_is_named_with_its_line(tmp_path: Path) -> None:
    packed = tar_bytes({"a.sgm": b"<srcset>\n<seg>\xe9</seg>", "b": b"x\n"})
    seen = message(tmp_path, packed, members={"en": "a.sgm", "fr": "b"})
    assert "PATH: a.sgm:2: not UTF-8: bytes e9 3c" in seen


def test_a_link_in_a_zip_is_refused(tmp_path: Path) -> None:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        link = zipfile.ZipInfo(EN)
        link.external_attr = (stat.S_IFLNK | 0o777) << 16
        archive.writestr(link, "/etc/passwd")
        archive.writestr(DE, TEXT[DE])
    assert f"member {EN!r} is a link or folder" in message(tmp_path, packed.getvalue(), "zip")


def test_an_archive_without_a_checksum_that_unpacks_to_too_much_is_refused_before_it_fills_the_disk(
    tmp_path: Path,
) -> None:
    zeros = b"a" * 1023 + b"\n"
    bomb = gzip.compress(
        tar_bytes({EN: zeros * (17 << 10), DE: TEXT[DE]}, "w"), 1
    )  # 17 MiB in about 80 kB
    tracemalloc.start()
    seen = message(tmp_path, bomb, is_limited=True)
    _, peak_bytes = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert seen.startswith(f"PATH: unpacks to more than 16,777,216 bytes from {len(bomb):,} packed")
    assert peak_bytes < 6 << 20
    assert (tmp_path / "en").stat().st_size <= 16 << 20
    inner = gzip.compress(zeros * (17 << 10), 1)
    names = {"en": "a.en.gz", "fr": "a.fr.gz"}
    within = tar_bytes({"a.en.gz": inner, "a.fr.gz": inner}, "w")
    assert "more than 16,777,216" in message(tmp_path, within, "tar", names, is_limited=True)
    zipped = zip_bytes({EN: zeros * (17 << 10), DE: b""})
    assert "more than 16,777,216" in message(tmp_path, zipped, "zip", is_limited=True)
    header = special("x" * 50, b"x")  # an extended header, which tarfile takes into memory whole
    header.size = 64 << 20
    packed = gzip.compress(header.tobuf(tarfile.PAX_FORMAT) + bytes(64 << 20))
    assert "more than 16,777,216" in message(tmp_path, packed, is_limited=True)


@pytest.mark.parametrize("last", [b"", b"more", b"more\n"])
def test_a_side_may_have_as_many_lines_as_were_published_and_not_one_more(
    tmp_path: Path, last: bytes
) -> None:
    packed = tar_bytes({EN: TEXT[EN], DE: TEXT[DE] + last})
    if not last:
        assert joined(tmp_path, packed, max_lines=2) == {"en": TEXT[EN], "de": TEXT[DE]}
        return
    assert message(tmp_path, packed, max_lines=2).startswith(
        f"PATH: {DE}:3: goes on after the 2 published lines"
    )
    assert (tmp_path / "other").read_bytes() == b""


def test_a_bomb_of_many_lines_ends_at_the_first_too_many(tmp_path: Path) -> None:
    bomb = tar_bytes({EN: b"\n" * (15 << 20), DE: TEXT[DE]})  # 15 MB of empty lines
    assert f"PATH: {EN}:1001: goes on after the 1,000 published lines" in message(
        tmp_path, bomb, max_lines=1000
    )
    assert (tmp_path / "en").stat().st_size == 0
    markup = {"en": "a.sgm", "de": "b.sgm"}
    segments = "".join(f'<seg id="{number}">x</seg>\n' for number in range(1, 4)).encode()
    packed = tar_bytes({"a.sgm": segments, "b.sgm": segments})
    assert "PATH: a.sgm:3: goes on after the 2 published lines" in message(
        tmp_path, packed, "tgz", markup, 2
    )
    assert joined(tmp_path, packed, "tgz", markup, 3) == {"en": b"x\n" * 3, "de": b"x\n" * 3}


def test_a_character_across_two_blocks_is_no_fault_but_half_a_one_at_the_end_is(
    tmp_path: Path,
) -> None:
    block = 1 << 20
    text = (
        b"x" * (block - 1) + "\u00fc".encode() + b"\n"
    )  # the first block ends inside the character
    assert joined(tmp_path, tar_bytes({EN: b"one\n", DE: text}))["de"] == text
    later_fault = b"x" * (block - 2) + b"\n" + "\u00fc".encode() + b"\n\xff\n"
    assert f"{DE}:3: not UTF-8: bytes ff" in message(
        tmp_path, tar_bytes({EN: b"one\n", DE: later_fault})
    )
    assert f"{DE}:2: not UTF-8: ends inside a character" in message(
        tmp_path, tar_bytes({EN: b"1\n", DE: b"1\n\xc3"})
    )


def test_memory_is_flat_in_the_size_of_the_text(tmp_path: Path) -> None:
    peaks = []
    for num_lines in (50_000, 500_000):  # 1 and 12 MB a side
        path = tmp_path / "archive.tar"
        path.write_bytes(
            tar_bytes(
                {name: "a line of text, \u00fc too\n".encode() * num_lines for name in (EN, DE)},
                "w",
            )
        )
        tracemalloc.start()
        with (tmp_path / "en").open("wb") as en, (tmp_path / "de").open("wb") as de:
            assert append_archive(path, "tar", MEMBERS, {"en": en, "de": de}) == num_lines
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] < 1.5 * peaks[0] + (1 << 20)


def test_an_encrypted_member_is_refused(tmp_path: Path) -> None:
    packed = bytearray(zip_bytes(TEXT))
    packed[6] |= 1
    packed[packed.index(b"PK\x01\x02") + 8] |= 1
    assert f"member {EN!r} is encrypted" in message(tmp_path, bytes(packed), "zip")


# Parquet.

COLUMNS = {"en": "translation.en", "de": "translation.de"}


def parquet_bytes(
    pairs: list[dict[str, str | None]], row_group_size: int = 2, **options: Any
) -> bytes:
    """Return a parquet file as Hugging Face writes them: one column of mappings."""
    packed = io.BytesIO()
    pyarrow.parquet.write_table(
        pyarrow.table({"translation": pairs}), packed, row_group_size=row_group_size, **options
    )
    return packed.getvalue()


def test_columns_of_a_parquet_file_are_its_sides(tmp_path: Path) -> None:
    pairs: list[dict[str, str | None]] = [
        {"de": f"Zeile\r {i}\u2028", "en": f"line {i}"} for i in range(5)
    ]
    sides = joined(tmp_path, parquet_bytes(pairs), "parquet", COLUMNS)
    assert sides["en"] == b"line 0\nline 1\nline 2\nline 3\nline 4\n"
    assert sides["de"].decode().split("\n")[4] == "Zeile\r 4\u2028"


def test_a_parquet_file_is_refused_by_its_footer_before_it_is_read(tmp_path: Path) -> None:
    three: list[dict[str, str | None]] = [{"en": "a", "de": "b"}] * 3
    assert len(joined(tmp_path, parquet_bytes(three), "parquet", COLUMNS, max_lines=3)["en"]) == 6
    refused = message(tmp_path, parquet_bytes(three), "parquet", COLUMNS, 2)
    assert refused.startswith("PATH:3: goes on after the 2 published lines")


def test_a_parquet_file_without_a_checksum_that_unpacks_to_too_much_is_refused(
    tmp_path: Path,
) -> None:
    bomb = parquet_bytes(
        [{"en": "a" * (1 << 20), "de": "b"}] * 20, row_group_size=20
    )  # a dictionary of one line
    refused = message(tmp_path, bomb, "parquet", COLUMNS, is_limited=True)
    assert refused.startswith("PATH: unpacks to more than")


@pytest.mark.parametrize(
    ("packed", "expected"),
    [
        (
            parquet_bytes([{"en": "a", "de": "b"}, {"en": "a", "de": None}]),
            "PATH: translation.de: row 2 is null",
        ),
        (parquet_bytes([{"en": "a", "de": "b\nc"}]), "row 1 is a line feed inside it: 'b\\nc'"),
        (
            parquet_bytes([{"en": "a"}]),
            "PATH: no column 'translation.de'; it has translation.en",
        ),
        (b"PAR1 and no more", "PATH: torn, or not a parquet file"),
    ],
)
def test_a_bad_parquet_file_is_named(tmp_path: Path, packed: bytes, expected: str) -> None:
    assert expected in message(tmp_path, packed, "parquet", COLUMNS)


def test_without_pyarrow_the_next_step_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(
        ConfigError, match="only pyarrow can read it; `pip install pyarrow`, or name other archives"
    ):
        joined(tmp_path, b"", "parquet", COLUMNS)
