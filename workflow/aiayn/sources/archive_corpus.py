"""A recipe's training text: its archives brought to hand, verified, and their sides joined in the recipe's order."""

import contextlib
import logging
import time
from pathlib import Path

from aiayn.errors import CorpusError, FetchError
from aiayn.provenance import require_free_space
from aiayn.records import FetchedArchive
from aiayn.sources.archives import SizeLimit
from aiayn.sources.download import FoundFile, PublishedFile, Sleep, download_file, missing_bytes
from aiayn.sources.joining import append_archive
from aiayn.sources.recipe import UNKNOWN, ArchiveSource, ArchiveSpec, place_urls

_LOG = logging.getLogger(__name__)
# Of one side, with LF: newstest's sides have 111 to 148 bytes a line; what is written is checked by the disk itself.
ESTIMATED_BYTES_PER_LINE = 200
ESTIMATED_UNPACKED_PER_PACKED = 4  # where nobody counted lines


def fetch_archives(
    source: ArchiveSource, languages: tuple[str, str], folder: Path, archives_folder: Path, mirror: str | None,
    *, sleep: Sleep = time.sleep,
) -> dict[str, FetchedArchive]:  # fmt: skip
    """Write `train.<language>` into `folder` and return what was seen of each archive, in the order of joining.

    Archives that lie in `archives_folder` under their public names are used; what is missing is downloaded into it.

    Raises:
        FetchError: if an archive cannot be had, or is not the published one.
        CorpusError: if an archive's text is not as the recipe says.
        SpaceError: before anything is downloaded, if archives and text would not fit.
    """
    archive_by_name = source.joined()
    editions_by_name = {name: _editions(source, archive, mirror) for name, archive in archive_by_name.items()}
    _warn_of_dead_download(source)
    _require_space(archive_by_name, editions_by_name, folder, archives_folder)
    found_by_name, failures = {}, []
    for name, editions in editions_by_name.items():  # one that fails stops no other: what they bring is kept
        try:
            found_by_name[name] = download_file(editions, archives_folder, sleep=sleep)
        except FetchError as error:
            failures.append(str(error))
    if failures:
        raise FetchError("\n".join(failures))
    fetched_by_name = {}
    with contextlib.ExitStack() as opened:
        text_by_language = {
            language: opened.enter_context((folder / f"train.{language}").open("wb")) for language in languages
        }
        for name, archive in archive_by_name.items():
            found, began = found_by_name[name], time.monotonic()
            num_lines = append_archive(
                found.path,
                found.edition,
                archive.member_by_language,
                text_by_language,
                max_lines=None if archive.num_lines == UNKNOWN else archive.num_lines,
                limit=SizeLimit(found.path) if found.checked_by == UNKNOWN else None,
            )
            fetched_by_name[name] = _checked_count(name, archive, found, num_lines)
            _LOG.info("%s: %d pairs read in %.0f s", found.path, num_lines, time.monotonic() - began)
    return fetched_by_name


def _editions(source: ArchiveSource, archive: ArchiveSpec, mirror: str | None) -> list[PublishedFile]:
    editions = []
    for archive_format, packed in archive.file_by_format.items():
        mirror_urls, urls = place_urls(source, packed, mirror)
        editions.append(
            PublishedFile(
                name=packed.name,
                urls=urls,
                mirror_urls=mirror_urls,
                num_bytes=None if packed.num_bytes == UNKNOWN else packed.num_bytes,
                checksum=packed.checksum,
                edition=archive_format,
            )
        )
    return editions


def _checked_count(name: str, archive: ArchiveSpec, found: FoundFile, num_lines: int) -> FetchedArchive:
    published = None if archive.num_lines == UNKNOWN else archive.num_lines
    if published is None:
        _LOG.warning("%s: nobody published the number of its pairs; %d are recorded", name, num_lines)
    elif num_lines != published:
        raise CorpusError(
            f"{found.path}: {num_lines:,} pairs, published {published:,} (num_lines of {name}): another text than the "
            "recipe means; compare its checksum, and correct what is wrong"
        )
    return FetchedArchive(
        path=found.path,
        url=found.url,
        num_bytes=found.num_bytes,
        sha256=found.sha256,
        checked_by=found.checked_by,
        num_lines=num_lines,
        published_num_lines=published,
    )


def _warn_of_dead_download(source: ArchiveSource) -> None:
    dead = source.dead_download
    if dead is not None:
        _LOG.warning(
            "%s (%s pairs, %s) cannot be downloaded since %s; the text is rebuilt: %s",
            dead.name, dead.num_pairs, dead.checksum, dead.since, dead.rebuild,
        )  # fmt: skip


def _require_space(
    archive_by_name: dict[str, ArchiveSpec],
    editions_by_name: dict[str, list[PublishedFile]],
    folder: Path,
    archives_folder: Path,
) -> None:
    download_bytes = sum(missing_bytes(editions, archives_folder) for editions in editions_by_name.values())
    text_bytes = 0
    for name, archive in archive_by_name.items():
        if archive.num_lines == UNKNOWN:
            text_bytes += ESTIMATED_UNPACKED_PER_PACKED * (editions_by_name[name][0].num_bytes or 0)
        else:
            text_bytes += 2 * ESTIMATED_BYTES_PER_LINE * archive.num_lines
    archives_folder.mkdir(parents=True, exist_ok=True)
    if archives_folder.stat().st_dev == folder.stat().st_dev:
        require_free_space(archives_folder, download_bytes + text_bytes, "archives to download and their text")
    else:
        require_free_space(archives_folder, download_bytes, "archives to download")
        require_free_space(folder, text_bytes, "the archives' text")
