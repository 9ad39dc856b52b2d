"""Get a corpus's text: shipped with its file, listed in it, or downloaded from its public places or a mirror.

What is downloaded is verified by its published checksum. A *mirror* is a base, `file://` or `http(s)://`, under which
each source has a folder of its name and below it the relative path of its public place.
"""

import shutil
import tempfile
import time
from pathlib import Path

import msgspec

from aiayn.errors import CorpusError, FetchError
from aiayn.provenance import file_sha256, gather_provenance, replace_outputs_on_success
from aiayn.records import FetchedArchive, RawCorpus, TextPair
from aiayn.sources.archive_corpus import fetch_archives
from aiayn.sources.download import PublishedFile, Sleep, download_file, named_mirror
from aiayn.sources.recipe import ArchiveSource
from aiayn.sources.testsets import write_public_testsets
from aiayn.spec import (
    CONFIG_FOLDER,
    CorpusSpec,
    ListedSource,
    ParallelSource,
    PublicFile,
    SegmentedSource,
    ShippedSource,
)
from aiayn.text.lines import open_bytes, read_lines, text_pair, write_lines

ARCHIVES_FOLDER = Path("results/archives")  # of all corpora, which share archives; kept for the next fetch
_BLOCK_BYTES = 1 << 20


def fetch_corpus(
    spec: CorpusSpec,
    *,
    mirror: str | None,
    record_path: Path,
    archives_folder: Path = ARCHIVES_FOLDER,
    sleep: Sleep = time.sleep,
) -> RawCorpus:
    """Write `<split>.<language>` beside the record, for training and all test sets, and return the record.

    `mirror` null means the environment's AIAYN_MIRROR, and without that the public place. `archives_folder` keeps
    archives for the next fetch.

    Raises:
        ConfigError: for a mirror that is no URL.
        FetchError: if a file cannot be had or is not the published one.
        CorpusError: if the sides of a split differ in their number of lines, or are empty.
        SpaceError: if archives and their text would not fit on the disk.
    """
    splits = ("train", *spec.testsets)
    archive_by_name: dict[str, FetchedArchive] = {}
    with replace_outputs_on_success(record_path) as folder:
        if isinstance(spec.source, ShippedSource):
            _write_shipped(spec, spec.source, folder)
        elif isinstance(spec.source, ListedSource):
            _write_listed(spec.source, folder)
        elif isinstance(spec.source, ArchiveSource):
            archive_by_name = _join(spec, spec.source, folder, archives_folder, named_mirror(mirror), sleep)
        else:
            _download(spec.source, splits, named_mirror(mirror), folder, sleep)
        pair_by_split = {split: _pair(spec, split, folder, record_path.parent) for split in splits}
    sha256_by_path = {archive.path: archive.sha256 for archive in archive_by_name.values()}
    return RawCorpus(
        provenance=msgspec.structs.replace(gather_provenance(), input_sha256_by_path=sha256_by_path),
        corpus=spec.name,
        pair_by_split=pair_by_split,
        archive_by_name=archive_by_name,
    )


def _pair(spec: CorpusSpec, split: str, written_folder: Path, final_folder: Path) -> TextPair:
    languages = (spec.source_language, spec.target_language)
    return text_pair({language: written_folder / f"{split}.{language}" for language in languages}, final_folder)


def _write_shipped(spec: CorpusSpec, source: ShippedSource, folder: Path) -> None:
    path = CONFIG_FOLDER / "corpora" / source.file
    found = file_sha256(path) if path.is_file() else "absent"
    if found != source.sha256:
        raise FetchError(f"{path}: sha256 {found}, expected {source.sha256}; restore it: `git checkout {path}`")
    pairs_by_split: dict[str, list[list[str]]] = {split: [] for split in ("train", *spec.testsets)}
    for line in read_lines(path):
        split, *pair = line.split("\t")
        pairs_by_split[split].append(pair)
    for split, pairs in pairs_by_split.items():
        for language, side in zip((spec.source_language, spec.target_language), zip(*pairs, strict=True), strict=True):
            write_lines(side, folder / f"{split}.{language}")


def _write_listed(source: ListedSource, folder: Path) -> None:
    for split, pairs in source.pairs_by_split.items():
        for language in pairs[0]:  # read_corpus saw to it that all pairs have the same two
            write_lines((pair[language] for pair in pairs), folder / f"{split}.{language}")


def _join(
    spec: CorpusSpec,
    source: ArchiveSource,
    folder: Path,
    archives_folder: Path,
    mirror: str | None,
    sleep: Sleep,
) -> dict[str, FetchedArchive]:
    languages = (spec.source_language, spec.target_language)
    write_public_testsets(
        source, spec.testsets, spec.language_pair, folder, mirror, sleep=sleep
    )  # the small ones first
    return fetch_archives(source, languages, folder, archives_folder, mirror, sleep=sleep)


def _download(
    source: ParallelSource | SegmentedSource,
    splits: tuple[str, ...],
    mirror: str | None,
    folder: Path,
    sleep: Sleep,
) -> None:
    for split in splits:
        for language, public_file in source.file_by_split[split].items():
            url, name = file_url(source, public_file, mirror), Path(public_file.path).name
            with tempfile.TemporaryDirectory(dir=folder.parent) as temporary:
                published = PublishedFile(name, [url], checksum=f"sha256:{public_file.sha256}")
                packed_path = download_file([published], Path(temporary), sleep=sleep).path
                _copy_text(url, packed_path, folder / f"{split}.{language}")


def file_url(source: ParallelSource | SegmentedSource, public_file: PublicFile, mirror: str | None) -> str:
    """Return where a published file is to be had: below the mirror, or at its public place if that is null."""
    if mirror is None:
        return f"{source.public_url.rstrip('/')}/{public_file.path}"
    return f"{mirror.rstrip('/')}/{source.mirror_folder}/{public_file.path}"


def _copy_text(url: str, packed_path: Path, into: Path) -> None:
    """Copy a file's text, unpacked if its name ends in `.gz`."""
    try:
        with open_bytes(packed_path) as unpacked, into.open("wb") as text:
            shutil.copyfileobj(unpacked, text, _BLOCK_BYTES)
    except CorpusError as error:
        raise CorpusError(
            f"{url}: no whole gzip file ({error.__cause__}), though its sha256 is the corpus file's; put that "
            "of a whole one there"
        ) from error
