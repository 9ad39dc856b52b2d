"""Archives give the text that is wanted, character by character, and no bad archive gets further
than its message.

Tests named `quirk` hold one peculiarity each of WMT14's real files.
"""

import gzip
import io
import os
import tarfile
import tracemalloc
import zipfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

import pytest

from aiayn.data.sources.joining import append_archive
from aiayn.errors import CorpusError

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


def zip_bytes(content_by_name: Mapping[str, bytes]) -> bytes:
    """Return a zip of these members."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in content_by_name.items():
            archive.writestr(name, content)
    return packed.getvalue()


def special(name: str, kind: bytes, target: str = "") -> tarfile.TarInfo:
    """Return a member that is a link or a device."""
    member = tarfile.TarInfo(name)
    member.type, member.linkname = kind, target
    return member


# The first block of 1 MiB ends inside the character.
ACROSS_BLOCKS = b"x" * ((1 << 20) - 1) + "\u00fc".encode() + b"\n"


class Packed(NamedTuple):
    """An archive, how it is read, and what it is refused for."""

    content: bytes
    refusal: str = ""
    archive_format: str = "tgz"
    members: Mapping[str, str] = MEMBERS


def joined(folder: Path, packed: Packed) -> dict[str, bytes]:
    """Append an archive's sides to two empty files, and return what the files hold after it."""
    path = folder / f"archive.{packed.archive_format}"
    path.write_bytes(packed.content)
    with (folder / "en").open("wb") as en, (folder / "other").open("wb") as other_side:
        into = dict(zip(packed.members, (en, other_side), strict=True))
        num_lines = append_archive(
            path,
            packed.members,
            into,
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
WITHIN = {"en": "giga-fren.release2.fixed.en.gz", "fr": "giga-fren.release2.fixed.fr.gz"}
WITHIN_TEXT = {
    WITHIN["en"]: gzip.compress(TEXT[EN]),
    WITHIN["fr"]: gzip.compress("un\xa0?\ndeux\n".encode()),
}
GOOD_ARCHIVES = {
    "members beside other members, tgz": (Packed(tar_bytes(OTHERS)), TEXT.values()),
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
    "a character across two blocks": (
        Packed(tar_bytes({EN: b"one\n", DE: ACROSS_BLOCKS})), (b"one\n", ACROSS_BLOCKS),
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
TORN = "PATH: torn, or not an archive of its format"
BAD_ARCHIVES = [
    Packed(tar_bytes(LONG)[:3000], TORN),
    Packed(tar_bytes(LONG, "w")[:9000], TORN, "tar"),
    Packed(zip_bytes(TEXT)[:-30], f"{TORN}: File is not a zip file", "zip"),
    Packed(zip_bytes(TEXT), f"{TORN}: truncated header"),
    Packed(
        tar_bytes({EN: TEXT[EN], "README": b"x"}),
        f"PATH: no member {DE!r}; it holds {EN}, README; correct member_by_language in the corpus file",
    ),
    Packed(
        damaged_text({EN: special(EN, tarfile.SYMTYPE, "/etc/passwd")}), f"PATH: no member {EN!r}; it holds {DE}; "
    ),
    Packed(
        zip_bytes({EN: TEXT[EN], **{f"file{index}": b"" for index in range(9)}}),
        "file4 and 4 more; correct", "zip",
    ),
    Packed(
        damaged_text({DE: b"eins\nzwei\ndrei\n"}),
        f"PATH: {EN} has 2 lines, PATH: {DE} has 3 lines; expected equal numbers, line by line"
        " translations; fetch or align the files again",
    ),
    Packed(tar_bytes({EN: b"", DE: b""}), f"PATH: {DE} has 0 lines; expected text; fetch the files again"),
]  # fmt: skip


@pytest.mark.parametrize("packed", BAD_ARCHIVES, ids=lambda packed: packed.refusal)
def test_a_bad_archive_is_refused_with_its_reason(tmp_path: Path, packed: Packed) -> None:
    check_refusal(tmp_path, packed)


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
            assert append_archive(path, MEMBERS, {"en": en, "de": de}) == num_lines
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] < 1.5 * peaks[0] + (1 << 20)
