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
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

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


def changed(content: bytes, *places: int) -> bytes:
    """Return bytes whose lowest bit is changed at some places."""
    damaged = bytearray(content)
    for place in places:
        damaged[place] ^= 1
    return bytes(damaged)


def linked_zip() -> bytes:
    """Return a zip whose English side is a link."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        link = zipfile.ZipInfo(EN)
        link.external_attr = (stat.S_IFLNK | 0o777) << 16
        archive.writestr(link, "/etc/passwd")
        archive.writestr(DE, TEXT[DE])
    return packed.getvalue()


def parquet_bytes(
    pairs: list[dict[str, str | None]], row_group_size: int = 2, **options: Any
) -> bytes:
    """Return a parquet file as Hugging Face writes them: one column of mappings."""
    packed = io.BytesIO()
    pyarrow.parquet.write_table(
        pyarrow.table({"translation": pairs}), packed, row_group_size=row_group_size, **options
    )
    return packed.getvalue()


COLUMNS = {"en": "translation.en", "de": "translation.de"}
# The first block of 1 MiB ends inside the character.
ACROSS_BLOCKS = b"x" * ((1 << 20) - 1) + "\u00fc".encode() + b"\n"


class Packed(NamedTuple):
    """An archive, how it is read, and what it is refused for."""

    content: bytes
    refusal: str = ""
    archive_format: str = "tgz"
    members: Mapping[str, str] = MEMBERS
    max_lines: int | None = None
    is_limited: bool = False


def joined(folder: Path, packed: Packed) -> dict[str, bytes]:
    """Append an archive's sides to two empty files, and return what the files hold after it."""
    path = folder / f"archive.{packed.archive_format}"
    path.write_bytes(packed.content)
    limit = SizeLimit(path) if packed.is_limited else None
    with (folder / "en").open("wb") as en, (folder / "other").open("wb") as other:
        into = dict(zip(packed.members, (en, other), strict=True))
        num_lines = append_archive(
            path,
            packed.archive_format,
            packed.members,
            into,
            max_lines=packed.max_lines,
            limit=limit,
        )
    sides = [(folder / name).read_bytes() for name in ("en", "other")]
    assert [side.count(b"\n") for side in sides] == [num_lines, num_lines]
    return dict(zip(packed.members, sides, strict=True))


def check_refusal(folder: Path, packed: Packed) -> None:
    """Fail if an archive is not refused in these words, in which its path is PATH."""
    with pytest.raises(CorpusError) as caught:
        joined(folder, packed)
    path = folder / f"archive.{packed.archive_format}"
    assert packed.refusal in str(caught.value).replace(str(path), "PATH")


OTHERS = {
    "training/europarl-v7.cs-en.cs": b"x\n",
    **TEXT,
    "training/europarl-v7.fr-en.fr": b"y\n" * 9,
}
AT_THE_ROOT = {"en": "commoncrawl.de-en.en", "de": "commoncrawl.de-en.de"}
WITHIN = {"en": "giga-fren.release2.fixed.en.gz", "fr": "giga-fren.release2.fixed.fr.gz"}
WITHIN_TEXT = {
    WITHIN["en"]: gzip.compress(TEXT[EN]),
    WITHIN["fr"]: gzip.compress("un\xa0?\ndeux\n".encode()),
}
MARKUP = {"en": "dev/newstest2012-src.en.sgm", "fr": "dev/newstest2012-ref.fr.sgm"}
MARKUP_TEXT = {
    MARKUP["en"]: (
        b'<srcset>\n<doc>\n<seg id="1">S&P rose 5 < 6</seg>\n<seg id="2">Two</seg>\n</doc></srcset>\n'
    ),
    MARKUP[
        "fr"
    ]: "<refset>\n<seg id='1'>S&P a mont\u00e9\u2019</seg>\n<seg id='2'>Deux</seg>\n".encode(),
}
GOOD_ARCHIVES = {
    "members beside other members, tgz": (Packed(tar_bytes(OTHERS)), TEXT.values()),
    "members beside other members, tar": (
        Packed(tar_bytes(OTHERS, "w"), archive_format="tar"), TEXT.values(),
    ),
    "members beside other members, zip": (
        Packed(zip_bytes(OTHERS), archive_format="zip"), TEXT.values(),
    ),
    "folders, links and a dot before names": (
        Packed(tar_bytes({
            "training": special("training", tarfile.DIRTYPE),
            "training/latest": special("training/latest", tarfile.SYMTYPE, "europarl-v7.de-en.en"),
            **{f"./{name}": text for name, text in TEXT.items()},
        })),
        TEXT.values(),
    ),
    "a last line without line feed does not run into the next archive": (
        Packed(tar_bytes({EN: b"one\ntwo", DE: TEXT[DE]})), TEXT.values(),
    ),
    # quirks 1 (a bare carriage return), 2 (other separators), 3 (an empty side, which clean drops),
    # 6 (no translation, left to the recipe's filters) and 9 (blanks and hyphens that are not seen)
    **{
        f"quirks 1, 2, 3, 6, 9: no line ends except at LF, no character changes: {german!a}": (
            Packed(tar_bytes({EN: TEXT[EN], DE: german.encode()})), (TEXT[EN], german.encode())
        )
        for german in (
            *(f"eins{separator}mehr\nzwei\n" for separator in "\r\u2028\u2029\u0085\v\f\x1c"),
            "eins\r mehr\r\n\r\n",
            "eins\n\n",
            "This is English.\nzwei\n",
            "Une bo\u00eete noire\u00a0?\u202f Donau\u00addampf\ufeff\u200b\n\u00a0\n",
        )
    },
    "quirk 4: gzip files inside an unpacked tar": (
        Packed(tar_bytes(WITHIN_TEXT, "w"), archive_format="tar", members=WITHIN),
        (TEXT[EN], "un\xa0?\ndeux\n".encode()),
    ),
    "quirk 4: gzip files inside a zip": (
        Packed(zip_bytes(WITHIN_TEXT), archive_format="zip", members=WITHIN),
        (TEXT[EN], "un\xa0?\ndeux\n".encode()),
    ),
    "quirk 5: files at the archive's root": (
        Packed(
            tar_bytes({
                "commoncrawl.de-en.annotation": b"http://a\n",
                AT_THE_ROOT["de"]: TEXT[DE],
                AT_THE_ROOT["en"]: TEXT[EN],
            }),
            members=AT_THE_ROOT,
        ),
        TEXT.values(),
    ),
    "quirk 8: members of markup": (
        Packed(tar_bytes(MARKUP_TEXT), members=MARKUP),
        (b"S&P rose 5 < 6\nTwo\n", "S&P a mont\u00e9\u2019\nDeux\n".encode()),
    ),
    "as many lines as were published": (Packed(tar_bytes(TEXT), max_lines=2), TEXT.values()),
    "as many segments of markup as were published": (
        Packed(tar_bytes(MARKUP_TEXT), members=MARKUP, max_lines=2),
        (b"S&P rose 5 < 6\nTwo\n", "S&P a mont\u00e9\u2019\nDeux\n".encode()),
    ),
    "a character across two blocks": (
        Packed(tar_bytes({EN: b"one\n", DE: ACROSS_BLOCKS})), (b"one\n", ACROSS_BLOCKS),
    ),
    "columns of a parquet file": (
        Packed(
            parquet_bytes([{"de": f"Zeile\r {i}\u2028", "en": f"line {i}"} for i in range(3)]),
            archive_format="parquet", members=COLUMNS, max_lines=3,
        ),
        (b"line 0\nline 1\nline 2\n", "Zeile\r 0\u2028\nZeile\r 1\u2028\nZeile\r 2\u2028\n".encode()),
    ),
}  # fmt: skip


@pytest.mark.parametrize(("packed", "sides"), GOOD_ARCHIVES.values(), ids=GOOD_ARCHIVES)
def test_the_wanted_text_comes_character_by_character(
    tmp_path: Path, packed: Packed, sides: Iterable[bytes]
) -> None:
    assert list(joined(tmp_path, packed).values()) == list(sides)
    names = sorted(path.name for path in tmp_path.iterdir())
    assert names == [f"archive.{packed.archive_format}", "en", "other"]


def damaged_text(changes: Members) -> bytes:
    """Return a tar of the text with other or further members."""
    return tar_bytes({**TEXT, **changes})


LONG = {name: os.urandom(3000).hex().encode() + b"\n" for name in TEXT}
ZEROS = b"a" * 1023 + b"\n"
TORN = "PATH: torn, or not an archive of its format"
LINK = f"PATH: member {EN!r} is a link or folder, expected a plain file; delete the archive"
TOO_LONG = "goes on after the 2 published lines"
TOO_LARGE = "PATH: unpacks to more than 16,777,216 bytes from"
ENCRYPTED = changed(zip_bytes(TEXT), 6, zip_bytes(TEXT).index(b"PK\x01\x02") + 8)

BOMB_WITHIN = gzip.compress(ZEROS * (17 << 10), 1)
BAD_ARCHIVES = [
    Packed(tar_bytes(LONG)[:3000], TORN),
    Packed(tar_bytes(LONG, "w")[:9000], TORN, "tar"),
    Packed(zip_bytes(TEXT)[:-30], f"{TORN}: File is not a zip file", "zip"),
    Packed(zip_bytes(TEXT), f"{TORN}: Not a gzipped file"),
    Packed(changed(tar_bytes(TEXT), -8), f"{TORN}: CRC check failed"),  # gzip's own checksum
    Packed(ENCRYPTED, f"member {EN!r} is encrypted", "zip"),
    Packed(linked_zip(), f"member {EN!r} is a link or folder", "zip"),
    *(
        Packed(pack({**TEXT, name: b"root\n"}), f"PATH: member {name!r} points out of the archive", kind)
        for name in ("../../etc/passwd", "/etc/passwd", "training/../../passwd", "..\\..\\passwd", "..")
        for pack, kind in ((tar_bytes, "tgz"), (zip_bytes, "zip"))
    ),
    *(
        Packed(damaged_text({"dev": special("training/dev", kind)}), "PATH: member 'training/dev' is a")
        for kind in (tarfile.CHRTYPE, tarfile.BLKTYPE, tarfile.FIFOTYPE)
    ),
    Packed(
        damaged_text({"x": special("training/x", tarfile.SYMTYPE, "../../../etc")}),
        "PATH: link 'training/x' to 'training/../../../etc' points out of the archive",
    ),
    Packed(
        damaged_text({EN: special(EN, tarfile.SYMTYPE, "/etc/passwd")}),
        f"PATH: link {EN!r} to '/etc/passwd' points out of the archive",
    ),
    Packed(damaged_text({EN: special(EN, tarfile.SYMTYPE, "europarl-v7.de-en.de")}), LINK),
    Packed(damaged_text({EN: special(EN, tarfile.LNKTYPE, DE)}), LINK),
    Packed(damaged_text({f"./{EN}": b"other\n"}), f"PATH: member {EN!r} occurs twice"),
    Packed(
        tar_bytes({EN: TEXT[EN], "README": b"x"}),
        f"PATH: no member {DE!r}; it holds {EN}, README; correct member_by_language in the corpus file",
    ),
    Packed(
        zip_bytes({EN: TEXT[EN], **{f"file{index}": b"" for index in range(9)}}),
        "file4 and 4 more; correct", "zip",
    ),
    Packed(
        damaged_text({DE: b"eins\nzwei\ndrei\n"}),
        f"PATH: sides of unequal numbers of lines: {EN} has 2, {DE} has 3; expected line-by-line"
        " translations; delete it and fetch it again",
    ),
    Packed(
        damaged_text({DE: b""}),
        f"PATH: {DE} is empty ({EN} has 2, {DE} has 0 lines); expected text; delete it and fetch"
        " it again",
    ),
    Packed(
        damaged_text({DE: b"eins\nf\xfcnf\n"}),
        f"PATH: {DE}:2: not UTF-8: bytes fc 6e 66 0a (invalid start byte); the archive has another"
        " encoding or is not the published archive; delete it and fetch it again",
    ),
    Packed(damaged_text({DE: ACROSS_BLOCKS + b"\xff\n"}), f"{DE}:2: not UTF-8: bytes ff"),
    Packed(damaged_text({DE: b"1\n\xc3"}), f"{DE}:2: not UTF-8: ends inside a character"),
    Packed(
        tar_bytes({"a.sgm": b"<srcset>\n<seg>\xe9</seg>", "b": b"x\n"}),
        "PATH: a.sgm:2: not UTF-8: bytes e9 3c", members={"en": "a.sgm", "fr": "b"},
    ),
    Packed(damaged_text({DE: TEXT[DE] + b"more"}), f"PATH: {DE}:3: {TOO_LONG}", max_lines=2),
    Packed(damaged_text({DE: TEXT[DE] + b"more\n"}), f"PATH: {DE}:3: {TOO_LONG}", max_lines=2),
    Packed(tar_bytes({EN: b"\n" * (1 << 20), DE: TEXT[DE]}), f"PATH: {EN}:3: {TOO_LONG}", max_lines=2),
    Packed(
        tar_bytes({MARKUP["en"]: b"<seg>x</seg>\n" * 3, MARKUP["fr"]: b"<seg>x</seg>\n" * 3}),
        f"PATH: {MARKUP['en']}:3: {TOO_LONG}", members=MARKUP, max_lines=2,
    ),
    Packed(
        tar_bytes(dict.fromkeys(WITHIN.values(), BOMB_WITHIN), "w"),
        TOO_LARGE, "tar", WITHIN, is_limited=True,
    ),
    Packed(zip_bytes({EN: ZEROS * (17 << 10), DE: b""}), TOO_LARGE, "zip", is_limited=True),

]  # fmt: skip


@pytest.mark.parametrize("packed", BAD_ARCHIVES, ids=lambda packed: packed.refusal)
def test_a_bad_archive_is_refused_with_its_reason(tmp_path: Path, packed: Packed) -> None:
    check_refusal(tmp_path, packed)
    if packed.max_lines:
        sizes = [(tmp_path / name).stat().st_size for name in ("en", "other")]
        assert 0 in sizes  # the side that is too long is not written


PAIR = {"en": "a", "de": "b"}
BAD_PARQUETS = [
    Packed(parquet_bytes([PAIR, PAIR | {"de": None}]), "PATH: translation.de: row 2 is null"),
    Packed(parquet_bytes([PAIR | {"de": "b\nc"}]), "row 1 is a line feed inside it: 'b\\nc'"),
    Packed(parquet_bytes([{"en": "a"}]), "PATH: no column 'translation.de'; it has translation.en"),
    Packed(b"PAR1 and no more", "PATH: torn, or not a parquet file"),
    Packed(parquet_bytes([PAIR] * 3), f"PATH:3: {TOO_LONG}", max_lines=2),  # by its footer
    Packed(  # a dictionary of one line
        parquet_bytes([PAIR | {"en": "a" * (1 << 20)}] * 20, row_group_size=20),
        "PATH: unpacks to more than", is_limited=True,
    ),
]  # fmt: skip


@pytest.mark.parametrize("packed", BAD_PARQUETS, ids=lambda packed: packed.refusal)
def test_a_bad_parquet_file_is_named(tmp_path: Path, packed: Packed) -> None:
    check_refusal(tmp_path, packed._replace(archive_format="parquet", members=COLUMNS))


# The quirks of the real files.


# Bad archives, one each, with what the user sees. (A wrong hash never gets here: test_download.)


@pytest.mark.parametrize(
    "method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA]
)
def test_whichever_byte_of_a_zip_is_damaged_it_is_named_or_its_text_is_right(
    tmp_path: Path, method: int
) -> None:
    text = {EN: b"one\n" * 20, DE: b"eins\n" * 20}
    whole, faults = zip_bytes(text, method), 0
    assert list(joined(tmp_path, Packed(whole, archive_format="zip")).values()) == list(
        text.values()
    )
    for place in range(len(whole)):
        for damage in (1, 0x80):
            packed = bytearray(whole)
            packed[place] ^= damage
            try:
                sides = joined(tmp_path, Packed(bytes(packed), archive_format="zip"))
            except CorpusError as error:
                faults += 1
                assert str(tmp_path / "archive.zip") in str(error)  # noqa: PT017
            else:
                assert list(sides.values()) == list(text.values())  # a time or an attribute
    assert faults > len(whole)


def test_a_disk_that_fails_is_not_taken_for_a_torn_archive(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(zipfile.ZipExtFile, "read", fail)
    with pytest.raises(OSError, match="Input/output error"):
        joined(tmp_path, Packed(zip_bytes(TEXT), archive_format="zip"))


def test_an_archive_without_a_checksum_that_unpacks_to_too_much_is_refused_before_it_fills_the_disk(
    tmp_path: Path,
) -> None:
    bomb = gzip.compress(
        tar_bytes({EN: ZEROS * (17 << 10), DE: TEXT[DE]}, "w"), 1
    )  # 17 MiB in about 80 kB
    tracemalloc.start()
    check_refusal(tmp_path, Packed(bomb, f"{TOO_LARGE} {len(bomb):,} packed", is_limited=True))
    _, peak_bytes = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak_bytes < 6 << 20
    assert (tmp_path / "en").stat().st_size <= 16 << 20
    header = special("x" * 50, b"x")  # an extended header, which tarfile takes into memory whole
    header.size = 64 << 20
    packed = gzip.compress(header.tobuf(tarfile.PAX_FORMAT) + bytes(header.size))
    check_refusal(tmp_path, Packed(packed, TOO_LARGE, is_limited=True))


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


# Parquet.


def test_without_pyarrow_the_next_step_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(
        ConfigError, match="only pyarrow can read it; `pip install pyarrow`, or name other archives"
    ):
        joined(tmp_path, Packed(b"", archive_format="parquet", members=COLUMNS))
