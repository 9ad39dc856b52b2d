"""Fetches the text of a corpus: from a file that is shipped next to the corpus file, or by
download.

Downloads come from the public URLs or a mirror (a copy of the files), and are verified by their
published checksums. A *mirror* is a base URL (`file://` or `http(s)://`) with one folder for each
public source of files. Inside each folder of a mirror, the files have the same paths as in their
public URLs.
"""

import contextlib
import logging
import shutil
import time
from collections.abc import Mapping
from pathlib import Path, PurePath
from typing import BinaryIO

import msgspec

from aiayn.data.sources.download import (
    FoundFile,
    PublishedFile,
    download_file,
    named_mirror,
)
from aiayn.data.sources.joining import append_archive
from aiayn.data.sources.testsets import read_public_testset
from aiayn.data.text.lines import open_bytes, read_shipped, text_pair, write_lines
from aiayn.errors import CorpusError, FetchError
from aiayn.provenance import (
    gather_provenance,
    replace_outputs_on_success,
    require_free_space,
)
from aiayn.records import FetchedArchive, RawCorpus
from aiayn.spec.corpus import ArchiveSource, ArchiveSpec
from aiayn.spec.system import (
    CorpusSpec,
    ParallelSource,
    PublicFile,
    ShippedSource,
)

# Shared by all corpora, because they have archives in common. Kept for the next fetch.
ARCHIVES_FOLDER = Path("results/archives")
_LOG = logging.getLogger(__name__)


def fetch_corpus(
    spec: CorpusSpec,
    *,
    mirror: str | None,
    record_path: Path,
    archives_folder: Path = ARCHIVES_FOLDER,
) -> RawCorpus:
    """Write the text of the training set and of all test sets into the folder of the record, as
    files `<split>.<language>`.

    If the argument `mirror` is None, the mirror is the value of the environment variable
    AIAYN_MIRROR. Without a mirror, files come from their public URLs. Downloads stay in
    `archives_folder` for the next fetch. Returns the record.

    Raises:
        ConfigError: if the mirror is not a URL or a folder.
        FetchError: if a file cannot be downloaded or is not the published file.
        CorpusError: if source and target text of a split (such as train or dev) differ in their
            number of lines, or are empty.
        SpaceError: if archives and their unpacked text would not fit on the disk.
    """
    splits = ("train", *spec.testsets)
    languages = spec.languages
    archive_by_name: dict[str, FetchedArchive] = {}
    with replace_outputs_on_success(record_path) as folder:
        if isinstance(spec.source, ShippedSource):
            for split, pairs in read_shipped(spec.source).items():
                for index, language in enumerate(languages):
                    write_lines((pair[index] for pair in pairs), folder / f"{split}.{language}")
        elif isinstance(spec.source, ArchiveSource):
            base = named_mirror(mirror)
            for testset in spec.testsets:  # small, so they come before the archives
                published = spec.source.testset_by_name[testset]
                sides = read_public_testset(testset, published, spec.language_pair, mirror=base)
                for language, lines in sides.items():
                    write_lines(lines, folder / f"{testset}.{language}")
            archive_by_name = fetch_archives(spec.source, languages, folder, archives_folder, base)
        else:
            _download(spec.source, splits, named_mirror(mirror), folder, archives_folder)
        pair_by_split = {}
        for split in splits:
            paths = {language: folder / f"{split}.{language}" for language in languages}
            pair_by_split[split] = text_pair(paths, record_path.parent)
    # The archives are the inputs. They were hashed when they were verified, so they are not read
    # again.
    sha256_by_path = {archive.path: archive.sha256 for archive in archive_by_name.values()}
    return RawCorpus(
        provenance=msgspec.structs.replace(
            gather_provenance(), input_sha256_by_path=sha256_by_path
        ),
        corpus=spec.name,
        pair_by_split=pair_by_split,
        archive_by_name=archive_by_name,
    )


def _download(
    source: ParallelSource,
    splits: tuple[str, ...],
    mirror: str | None,
    folder: Path,
    archives_folder: Path,
) -> None:
    """Write `<split>.<language>` into `folder`.

    Downloaded files stay below `archives_folder`, in a folder for each source of files, so that the
    next start continues an interrupted download.
    """
    for split in splits:
        for language, public_file in source.file_by_split[split].items():
            url = file_url(source, public_file, mirror)
            path = PurePath(public_file.path)
            kept_folder = archives_folder / source.mirror_folder / path.parent
            published = PublishedFile(path.name, url, f"sha256:{public_file.sha256}")
            packed_path = download_file([published], kept_folder).path
            with (
                open_bytes(packed_path) as unpacked,
                (folder / f"{split}.{language}").open("wb") as text,
            ):
                shutil.copyfileobj(unpacked, text)


def file_url(source: ParallelSource, public_file: PublicFile, mirror: str | None) -> str:
    """Return a published file's URL below the mirror, or its public URL without a mirror."""
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
    """Write the joined text of all archives to the training files (`train.<language>`) in `folder`.
    Return a description of each archive, in the order in which the archives' texts are joined.

    Archives that are already in `archives_folder` under their public names are used. Missing
    archives are downloaded into `archives_folder`.

    Raises:
        FetchError: if an archive cannot be downloaded, or is not the published archive.
        CorpusError: if an archive's text is not as the corpus file describes it.
        SpaceError: before any download begins, if archives and text would not fit on the disk.
    """
    archive_by_name = source.joined()
    files_by_name = {
        name: files_of(source, archive, mirror) for name, archive in archive_by_name.items()
    }
    # Checked before the first download, because WMT14 needs tens of GB, and a full disk also ends
    # other jobs.
    num_bytes = sum(archive.text_bytes for archive in archive_by_name.values())
    for archive, files in zip(archive_by_name.values(), files_by_name.values(), strict=True):
        # An archive that is already there needs room for its text only.
        if not any((archives_folder / file.name).exists() for file in files):
            num_bytes += archive.first_file.num_bytes
    require_free_space(folder, num_bytes, "archives to download and their text")
    found_by_name = {}
    failures = []
    for name, files in files_by_name.items():
        try:  # a failure does not stop the other downloads, which the next fetch finds
            found_by_name[name] = download_file(files, archives_folder)
        except FetchError as error:
            failures.append(str(error))
    if failures:
        raise FetchError("\n".join(failures))
    fetched_by_name = {}
    # All archives are complete before the first line is written, because a download may fail after
    # hours.
    with contextlib.ExitStack() as opened:
        text_by_language = {
            language: opened.enter_context((folder / f"train.{language}").open("wb"))
            for language in languages
        }
        for name, archive in archive_by_name.items():
            fetched_by_name[name] = _append(name, archive, found_by_name[name], text_by_language)
    return fetched_by_name


def files_of(
    source: ArchiveSource, archive: ArchiveSpec, mirror: str | None
) -> list[PublishedFile]:
    """Return the published files that contain an archive's text, in the order in which their
    download is tried. The mirror's file comes first.
    """
    # A mirror may lack a file, so the public addresses follow its own.
    on_mirror, public = [], []
    for packed in archive.file_by_format.values():
        for mirror_name, path in packed.path_by_place.items():
            file = PublishedFile(
                name=packed.name,
                url=f"{source.base_url_by_place[mirror_name].rstrip('/')}/{path}",
                num_bytes=packed.num_bytes,
                checksum=packed.checksum,
            )
            public.append(file)
            if mirror is not None:
                url = f"{mirror.rstrip('/')}/{mirror_name}/{path}"
                on_mirror.append(msgspec.structs.replace(file, url=url))
    return [*on_mirror, *public]


def _append(
    name: str, archive: ArchiveSpec, file: FoundFile, into: Mapping[str, BinaryIO]
) -> FetchedArchive:
    """Append an archive's source and target text to the two files of the corpus, one for each
    language. Return a description of the archive.
    """
    began = time.monotonic()
    published = archive.num_lines
    num_lines = append_archive(file.path, archive.member_by_language, into)
    # The number of lines is a second check besides the checksum: it also finds a change in how
    # lines are split.
    if published is None:
        _LOG.warning("%s: its number of pairs is not published; %d were read", name, num_lines)
    elif num_lines != published:
        raise CorpusError(
            f"{file.path}: {num_lines:,} pairs, published {published:,} (num_lines of {name}): not"
            " the recipe's text; compare its checksum, and correct the file or num_lines"
        )
    _LOG.info("%s: %d pairs read in %.0f s", file.path, num_lines, time.monotonic() - began)
    return FetchedArchive(
        **msgspec.structs.asdict(file), num_lines=num_lines, published_num_lines=published
    )
