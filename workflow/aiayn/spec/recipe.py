"""Types and checks of a corpus file of kind `archives`: sizes, checksums, members, counts and addresses of archives.

An unpublished size or count is `unknown`: the observed one is recorded and logged, but verifies nothing.
"""

import re
from collections.abc import Callable, Iterable
from pathlib import PurePosixPath
from typing import Literal

import msgspec

from aiayn.spec.training import Spec

UNKNOWN: Literal["unknown"] = "unknown"
# Of one side, with LF: newstest's sides have 111 to 148 bytes a line; what is written is checked by the disk itself.
ESTIMATED_BYTES_PER_LINE = 200
ESTIMATED_UNPACKED_PER_PACKED = 4  # where no number of lines is published
DIGEST_LENGTH_BY_ALGORITHM = {"sha256": 64, "sha1": 40, "md5": 32}
_CHECKSUM = re.compile(r"(?P<algorithm>[a-z0-9]+):(?P<digest>[0-9a-f]+)")
PlacedCheck = Callable[[str, bool, object, str], None]  # key, is_right, value, expected

Published = int | Literal["unknown"]
ArchiveFormat = Literal["tgz", "tar", "zip", "parquet"]


class PackedFile(Spec, frozen=True, kw_only=True):
    """One file that holds an archive's text.

    `checksum` is `sha256:<hex>`, a weaker `sha1:` or `md5:` where no SHA-256 is published, or `unknown`.
    `path_by_place` has its path below the base URL of each public place, in the order in which they are tried.
    """

    num_bytes: Published
    checksum: str
    path_by_place: dict[str, str]

    @property
    def name(self) -> str:
        """The file's name, the same at every place."""
        return PurePosixPath(next(iter(self.path_by_place.values()))).name

    @property
    def published_bytes(self) -> int | None:
        """The file's size, None where none is published."""
        return None if self.num_bytes == UNKNOWN else self.num_bytes


class ArchiveSpec(Spec, frozen=True, kw_only=True):
    """A published archive: its text's members and pairs, and the files that hold them, any of which will do.

    Members named `.gz` are unpacked, members named `.sgm` read by their markup. A parquet file is only
    described; its members are the dotted names of columns. `num_lines` is the published number of each side.
    """

    num_lines: Published
    member_by_language: dict[str, str]
    file_by_format: dict[ArchiveFormat, PackedFile]

    @property
    def published_lines(self) -> int | None:
        """The number of lines of each side, None where none is published."""
        return None if self.num_lines == UNKNOWN else self.num_lines

    @property
    def first_file(self) -> PackedFile:
        """The file that is downloaded where all can be had."""
        return next(iter(self.file_by_format.values()))

    @property
    def text_bytes(self) -> int:
        """An estimate of what both sides take unpacked."""
        if self.published_lines is None:
            return ESTIMATED_UNPACKED_PER_PACKED * (self.first_file.published_bytes or 0)
        return 2 * ESTIMATED_BYTES_PER_LINE * self.published_lines


class PlainText(Spec, frozen=True, kw_only=True):
    """One side of a test set as plain text, where a mirror has it below the test set's folder."""

    path: str
    checksum: str


class PublicTestset(Spec, frozen=True, kw_only=True):
    """A public test set: sacreBLEU's name of it, its number of lines, and its plain text where that is known."""

    sacrebleu_name: str
    num_lines: int
    mirror_folder: str | None = None
    plain_by_language: dict[str, PlainText] = msgspec.field(default_factory=dict)


class DeadDownload(Spec, frozen=True, kw_only=True):
    """Ready-made data of a recipe that can no longer be downloaded; `rebuild` says what replaces it."""

    name: str
    url: str
    checksum: str
    num_pairs: Published
    since: str
    rebuild: str


class ArchiveSource(Spec, frozen=True, kw_only=True, tag="archives", tag_field="kind"):
    """Published archives (WMT): `archives` names those that are joined, in order; others are only described.

    A public place is a name and a base URL; a mirror has a folder of each place's name, with the same paths below.
    """

    licence: str
    archives: list[str]
    base_url_by_place: dict[str, str]
    archive_by_name: dict[str, ArchiveSpec]
    testset_by_name: dict[str, PublicTestset]
    dead_download: DeadDownload | None = None

    def joined(self) -> dict[str, ArchiveSpec]:
        """Return the archives that are joined, by name, in order."""
        return {name: self.archive_by_name[name] for name in self.archives}


def split_checksum(checksum: str) -> tuple[str, str]:
    """Return algorithm and digest of `algorithm:digest`."""
    algorithm, _, digest = checksum.partition(":")
    return algorithm, digest


def is_checksum(checksum: str) -> bool:
    """Return whether text is a whole `sha256:`, `sha1:` or `md5:` checksum, or `unknown`."""
    match = _CHECKSUM.fullmatch(checksum)
    if match is None:
        return checksum == UNKNOWN
    return len(match["digest"]) == DIGEST_LENGTH_BY_ALGORITHM.get(match["algorithm"])


def check_archives(
    source: ArchiveSource, languages: Iterable[str], testsets: Iterable[str], check: PlacedCheck
) -> None:
    """Call `check(key, is_right, value, expected)` for every rule that a recipe's values must keep together."""
    known, languages = list(source.archive_by_name), sorted(languages)
    check("source.archives", bool(source.archives), source.archives, "at least one archive")
    check("source.archives", len(set(source.archives)) == len(source.archives), source.archives, "each once")
    for archive_index, name in enumerate(source.archives):
        check(f"source.archives[{archive_index}]", name in known, name, f"one of {', '.join(known)}")
        is_readable = "parquet" not in source.archive_by_name[name].file_by_format
        check(f"source.archives[{archive_index}]", is_readable, name, "an archive of text; Parquet is only described")
    for place, base_url in source.base_url_by_place.items():
        is_url = base_url.startswith(("http://", "https://", "file://"))
        check(f"source.base_url_by_place.{place}", is_url, base_url, "a http://, https:// or file:// URL")
    for name, archive in source.archive_by_name.items():
        key = f"source.archive_by_name.{name}"
        members = sorted(archive.member_by_language)
        check(f"{key}.member_by_language", members == languages, members, f"a member of each language: {languages}")
        check(f"{key}.file_by_format", bool(archive.file_by_format), archive.file_by_format, "at least one file")
        for archive_format, packed in archive.file_by_format.items():
            _check_file(source, packed, f"{key}.file_by_format.{archive_format}", check)
    for name in testsets:
        testset = source.testset_by_name.get(name)
        expected = f"an entry of each test set of the corpus, {name} among them"
        check("source.testset_by_name", testset is not None, list(source.testset_by_name), expected)
    for name, testset in source.testset_by_name.items():
        key = f"source.testset_by_name.{name}"
        check(key, testset.mirror_folder is not None or not testset.plain_by_language, testset.mirror_folder,
              "a mirror_folder, which plain_by_language needs")  # fmt: skip
        for language, plain in testset.plain_by_language.items():
            _check_checksum(plain.checksum, f"{key}.plain_by_language.{language}", check)
    if source.dead_download is not None:
        _check_checksum(source.dead_download.checksum, "source.dead_download", check)


def _check_file(source: ArchiveSource, packed: PackedFile, key: str, check: PlacedCheck) -> None:
    _check_checksum(packed.checksum, key, check)
    check(f"{key}.path_by_place", bool(packed.path_by_place), packed.path_by_place, "at least one public place")
    for place, path in packed.path_by_place.items():
        known = ", ".join(source.base_url_by_place)
        check(f"{key}.path_by_place.{place}", place in source.base_url_by_place, place, f"one of {known}")
        is_named_alike = PurePosixPath(path).name == packed.name
        check(f"{key}.path_by_place.{place}", is_named_alike, path, f"a path to {packed.name}, as at the first place")


def _check_checksum(checksum: str, key: str, check: PlacedCheck) -> None:
    check(f"{key}.checksum", is_checksum(checksum), checksum, "sha256:, sha1: or md5: and all its digits, or unknown")
