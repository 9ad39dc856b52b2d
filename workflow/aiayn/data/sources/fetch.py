"""Fetches a corpus's text: shipped with its file, listed in it, or downloaded from its public
places or a mirror.

What is downloaded is verified by its published checksum. A *mirror* is a base, `file://` or
`http(s)://`, under which each source has a folder of its name and below it the relative path of its
public place.
"""

import contextlib
import logging
import shutil
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import BinaryIO

import msgspec

from aiayn.data.sources.archives import SizeLimit
from aiayn.data.sources.download import (
    FoundFile,
    PublishedFile,
    download_file,
    missing_bytes,
    named_mirror,
)
from aiayn.data.sources.joining import append_archive
from aiayn.data.sources.testsets import read_public_testset
from aiayn.data.text.lines import open_bytes, read_lines, text_pair, write_lines
from aiayn.errors import CorpusError, FetchError
from aiayn.provenance import (
    file_sha256,
    gather_provenance,
    replace_outputs_on_success,
    require_free_space,
)
from aiayn.records import FetchedArchive, RawCorpus
from aiayn.spec.corpus import UNKNOWN, ArchiveSource, ArchiveSpec
from aiayn.spec.system import (
    CONFIG_FOLDER,
    CorpusSpec,
    ListedSource,
    ParallelSource,
    PublicFile,
    ShippedSource,
)

ARCHIVES_FOLDER = Path(
    "results/archives"
)  # of all corpora, which share archives; kept for the next fetch
_LOG = logging.getLogger(__name__)


def fetch_corpus(
    spec: CorpusSpec,
    *,
    mirror: str | None,
    record_path: Path,
    archives_folder: Path = ARCHIVES_FOLDER,
) -> RawCorpus:
    """Write `<split>.<language>` beside the record, for training and all test sets, and return the
    record.

    `mirror` null means the environment's AIAYN_MIRROR, and without that the public place.
    `archives_folder` keeps archives for the next fetch.

    Raises:
        ConfigError: for a mirror that is no URL.
        FetchError: if a file cannot be had or is not the published one.
        CorpusError: if the sides of a split differ in their number of lines, or are empty.
        SpaceError: if archives and their text would not fit on the disk.
    """
    splits, languages = ("train", *spec.testsets), (spec.source_language, spec.target_language)
    archive_by_name: dict[str, FetchedArchive] = {}
    with replace_outputs_on_success(record_path) as folder:
        if isinstance(spec.source, ShippedSource):
            _write_shipped(spec, spec.source, folder)
        elif isinstance(spec.source, ListedSource):
            for split, pairs in spec.source.pairs_by_split.items():
                for language in pairs[0]:  # read_corpus saw to it that all pairs have the same two
                    write_lines((pair[language] for pair in pairs), folder / f"{split}.{language}")
        elif isinstance(spec.source, ArchiveSource):
            base = named_mirror(mirror)
            for testset in spec.testsets:  # the small ones first
                published = spec.source.testset_by_name[testset]
                sides = read_public_testset(testset, published, spec.language_pair, mirror=base)
                for language, lines in sides.items():
                    write_lines(lines, folder / f"{testset}.{language}")
            archive_by_name = fetch_archives(spec.source, languages, folder, archives_folder, base)
        else:
            _download(spec.source, splits, named_mirror(mirror), folder)
        pair_by_split = {
            split: text_pair(
                {language: folder / f"{split}.{language}" for language in languages},
                record_path.parent,
            )
            for split in splits
        }
    sha256_by_path = {archive.path: archive.sha256 for archive in archive_by_name.values()}
    return RawCorpus(
        provenance=msgspec.structs.replace(
            gather_provenance(), input_sha256_by_path=sha256_by_path
        ),
        corpus=spec.name,
        pair_by_split=pair_by_split,
        archive_by_name=archive_by_name,
    )


def _write_shipped(spec: CorpusSpec, source: ShippedSource, folder: Path) -> None:
    path = CONFIG_FOLDER / "corpora" / source.file
    sha256 = file_sha256(path) if path.is_file() else "absent"
    if sha256 != source.sha256:
        raise FetchError(
            f"{path}: sha256 {sha256}, expected {source.sha256}; restore it: `git checkout {path}`"
        )
    pairs_by_split: dict[str, list[list[str]]] = {split: [] for split in ("train", *spec.testsets)}
    for line in read_lines(path):
        split, *pair = line.split("\t")
        pairs_by_split[split].append(pair)
    for split, pairs in pairs_by_split.items():
        for language, side in zip(
            (spec.source_language, spec.target_language), zip(*pairs, strict=True), strict=True
        ):
            write_lines(side, folder / f"{split}.{language}")


def _download(
    source: ParallelSource, splits: tuple[str, ...], mirror: str | None, folder: Path
) -> None:
    for split in splits:
        for language, public_file in source.file_by_split[split].items():
            url, name = file_url(source, public_file, mirror), Path(public_file.path).name
            with tempfile.TemporaryDirectory(dir=folder.parent) as temporary:
                published = PublishedFile(name, [url], checksum=f"sha256:{public_file.sha256}")
                packed_path = download_file([published], Path(temporary)).path
                with (
                    open_bytes(packed_path) as unpacked,
                    (folder / f"{split}.{language}").open("wb") as text,
                ):
                    shutil.copyfileobj(unpacked, text)


def file_url(source: ParallelSource, public_file: PublicFile, mirror: str | None) -> str:
    """Return a published file's URL: below the mirror, or its public one if that is null."""
    if mirror is None:
        return f"{source.public_url.rstrip('/')}/{public_file.path}"
    return f"{mirror.rstrip('/')}/{source.mirror_folder}/{public_file.path}"


def fetch_archives(
    source: ArchiveSource,
    languages: tuple[str, str],
    folder: Path,
    archives_folder: Path,
    mirror: str | None,
) -> dict[str, FetchedArchive]:
    """Write `train.<language>` into `folder` and return what was seen of each archive, in the order
    of joining.

    Archives in `archives_folder` under their public names are used; missing ones are downloaded
    into it.

    Raises:
        FetchError: if an archive cannot be had, or is not the published one.
        CorpusError: if an archive's text is not as the recipe says.
        SpaceError: before anything is downloaded, if archives and text would not fit.
    """
    archive_by_name = source.joined()
    editions_by_name = {
        name: editions_of(source, archive, mirror) for name, archive in archive_by_name.items()
    }
    if (dead := source.dead_download) is not None:
        _LOG.warning(
            "%s (%s pairs, %s) cannot be downloaded since %s; the text is rebuilt: %s",
            dead.name,
            dead.num_pairs,
            dead.checksum,
            dead.since,
            dead.rebuild,
        )
    _require_space(archive_by_name, editions_by_name, folder, archives_folder)
    found_by_name, failures = {}, []
    for (
        name,
        editions,
    ) in editions_by_name.items():  # one failure stops no other download: the rest is kept
        try:
            found_by_name[name] = download_file(editions, archives_folder)
        except FetchError as error:
            failures.append(str(error))
    if failures:
        raise FetchError("\n".join(failures))
    fetched_by_name = {}
    with contextlib.ExitStack() as opened:
        text_by_language = {
            language: opened.enter_context((folder / f"train.{language}").open("wb"))
            for language in languages
        }
        for name, archive in archive_by_name.items():
            fetched_by_name[name] = _append(name, archive, found_by_name[name], text_by_language)
    return fetched_by_name


def editions_of(
    source: ArchiveSource, archive: ArchiveSpec, mirror: str | None
) -> list[PublishedFile]:
    """Return the files that hold an archive's text, with their URLs below the mirror, if any, and
    their public ones.
    """
    editions = []
    for archive_format, packed in archive.file_by_format.items():
        paths = packed.path_by_place.items()
        urls = [f"{source.base_url_by_place[place].rstrip('/')}/{path}" for place, path in paths]
        mirror_urls = (
            []
            if mirror is None
            else [f"{mirror.rstrip('/')}/{place}/{path}" for place, path in paths]
        )
        num_bytes = packed.published_bytes
        editions.append(
            PublishedFile(
                packed.name, urls, mirror_urls, num_bytes, packed.checksum, archive_format
            )
        )
    return editions


def _append(
    name: str, archive: ArchiveSpec, file: FoundFile, into: Mapping[str, BinaryIO]
) -> FetchedArchive:
    """Append an archive's sides to the text of their languages, and return what was seen of it."""
    began, published = time.monotonic(), archive.published_lines
    limit = SizeLimit(file.path) if file.checked_by == UNKNOWN else None
    num_lines = append_archive(
        file.path, file.edition, archive.member_by_language, into, max_lines=published, limit=limit
    )
    if published is None:
        _LOG.warning(
            "%s: the number of its pairs is not published; %d are recorded", name, num_lines
        )
    elif num_lines != published:
        raise CorpusError(
            f"{file.path}: {num_lines:,} pairs, published {published:,} (num_lines of {name}): not"
            " the recipe's text; compare its checksum, and correct the file or num_lines"
        )
    _LOG.info("%s: %d pairs read in %.0f s", file.path, num_lines, time.monotonic() - began)
    return FetchedArchive(
        path=file.path,
        url=file.url,
        num_bytes=file.num_bytes,
        sha256=file.sha256,
        checked_by=file.checked_by,
        num_lines=num_lines,
        published_num_lines=published,
    )


def _require_space(
    archive_by_name: dict[str, ArchiveSpec],
    editions_by_name: dict[str, list[PublishedFile]],
    folder: Path,
    archives_folder: Path,
) -> None:
    download_bytes = sum(
        missing_bytes(editions, archives_folder) for editions in editions_by_name.values()
    )
    text_bytes = sum(archive.text_bytes for archive in archive_by_name.values())
    archives_folder.mkdir(parents=True, exist_ok=True)
    is_one_disk = archives_folder.stat().st_dev == folder.stat().st_dev
    require_free_space(archives_folder, download_bytes, "archives to download")
    require_free_space(
        folder, text_bytes + is_one_disk * download_bytes, "archives to download and their text"
    )
