"""Get a corpus's text: generated, listed in its file, or downloaded from its public place or a mirror.

What is downloaded is verified by SHA-256. A *mirror* is a base, `file://` or `http(s)://`, under which each source has
a folder of its name and below it the relative path of its public place.
"""

import hashlib
import logging
import os
import sys
import time
import urllib.parse
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import requests
from tqdm import tqdm  # type: ignore[import-untyped, unused-ignore]

from aiayn.errors import ConfigError, CorpusError, FetchError
from aiayn.provenance import gather_provenance, replace_outputs_on_success
from aiayn.records import RawCorpus
from aiayn.spec import (
    ArchiveSource,
    CorpusSpec,
    GeneratedSource,
    ListedSource,
    ParallelSource,
    PublicFile,
    SegmentedSource,
)
from aiayn.text import open_bytes, text_pair, write_lines

_LOG = logging.getLogger(__name__)
MIRROR_VARIABLE = "AIAYN_MIRROR"
MAX_ATTEMPTS = 5
FIRST_WAIT_SECONDS = 1.0  # doubled after each attempt: 1, 2, 4, 8
TIMEOUT_SECONDS = 60.0
PASSING_STATUSES = frozenset({408, 425, 429, 500, 502, 503, 504})  # statmt.org answers 503 when it is busy
_BLOCK_BYTES = 1 << 20


def fetch_corpus(spec: CorpusSpec, *, mirror: str | None, record_path: Path) -> RawCorpus:
    """Write `<split>.<language>` beside the record, for training and all test sets, and return the record.

    `mirror` null means the environment's AIAYN_MIRROR, and without that the public place.

    Raises:
        ConfigError: for archives, and for a mirror that is no URL.
        FetchError: if a file cannot be had or is not the published one.
        CorpusError: if the sides of a split differ in their number of lines, or are empty.
    """
    splits = ("train", *spec.testsets)
    with replace_outputs_on_success(record_path) as folder:
        if isinstance(spec.source, GeneratedSource):
            _generate(spec, spec.source, folder)
        elif isinstance(spec.source, ListedSource):
            _write_listed(spec.source, folder)
        elif isinstance(spec.source, ParallelSource | SegmentedSource):
            _download(spec.source, splits, mirror or os.environ.get(MIRROR_VARIABLE), folder)
        else:
            raise ConfigError(_archives_message(spec, spec.source))
        pair_by_split = {
            split: text_pair({language: folder / f"{split}.{language}" for language in spec.language_pair.split("-")},
                             record_path.parent)
            for split in splits
        }  # fmt: skip
    return RawCorpus(provenance=gather_provenance(), corpus=spec.name, pair_by_split=pair_by_split)


def _archives_message(spec: CorpusSpec, source: ArchiveSource) -> str:
    return (
        f"corpus {spec.name}: archives ({', '.join(source.archives)}) are not fetched yet by this version; join their "
        "text into one file a language yourself and name these in the corpus file, as source of kind parallel (as in "
        "workflow/config/corpora/multi30k_en_de.yaml; --mirror file://... serves local files), or run a smaller scale"
    )


def _generate(spec: CorpusSpec, source: GeneratedSource, folder: Path) -> None:
    from aiayn.toy import generate_corpus

    pairs_by_split = generate_corpus(
        language_pair=spec.language_pair,
        num_train_pairs=source.num_train_pairs,
        num_dev_pairs=source.num_dev_pairs,
        num_test_pairs=source.num_test_pairs,
        seed=source.grammar_seed,
    )
    name_by_split = {"train": "train", "dev": spec.dev_testset, "test": spec.test_testset}
    for split, name in name_by_split.items():
        write_lines((pair.source for pair in pairs_by_split[split]), folder / f"{name}.{spec.source_language}")
        write_lines((pair.target for pair in pairs_by_split[split]), folder / f"{name}.{spec.target_language}")


def _write_listed(source: ListedSource, folder: Path) -> None:
    for split, pairs in source.pairs_by_split.items():
        for language in pairs[0]:  # read_corpus saw to it that all pairs have the same two
            write_lines((pair[language] for pair in pairs), folder / f"{split}.{language}")


def _download(
    source: ParallelSource | SegmentedSource, splits: tuple[str, ...], mirror: str | None, folder: Path
) -> None:
    for split in splits:
        for language, public_file in source.file_by_split[split].items():
            url = file_url(source, public_file, mirror)
            text_path = folder / f"{split}.{language}"
            if public_file.path.endswith(".gz"):
                packed_path = text_path.with_name(f"{text_path.name}.gz")
                download_file(url, public_file.sha256, packed_path)
                _unpack(url, packed_path, text_path)
            else:
                download_file(url, public_file.sha256, text_path)


def file_url(source: ParallelSource | SegmentedSource, public_file: PublicFile, mirror: str | None) -> str:
    """Return where a published file is to be had: below the mirror, or at its public place if that is null.

    Raises:
        ConfigError: if the mirror is not a `file://`, `http://` or `https://` URL.
    """
    if mirror is None:
        return f"{source.public_url.rstrip('/')}/{public_file.path}"
    if urllib.parse.urlsplit(mirror).scheme not in ("file", "http", "https"):
        raise ConfigError(
            f"mirror {mirror!r}: expected file://, http:// or https://; for a local folder write "
            f"{Path(mirror).absolute().as_uri()}"
        )
    return f"{mirror.rstrip('/')}/{source.mirror_folder}/{public_file.path}"


def download_file(url: str, sha256: str, into: Path, *, first_wait_seconds: float = FIRST_WAIT_SECONDS) -> None:
    """Copy what a URL names into a file and verify it; what may pass is tried MAX_ATTEMPTS times, with doubled waits.

    Raises:
        FetchError: naming the URL, what was found and what to do.
    """
    for attempt in range(1, MAX_ATTEMPTS + 1):
        try:
            found = _copy_with_digest(url, into)
            break
        except requests.RequestException as error:
            status = error.response.status_code if error.response is not None else None
            may_pass = status is None or status in PASSING_STATUSES
            if not may_pass or attempt == MAX_ATTEMPTS:
                raise FetchError(f"{url}: {error} (attempt {attempt}); {_next_step()}") from error
            wait_seconds = first_wait_seconds * 2 ** (attempt - 1)
            _LOG.warning("%s: %s; trying again in %.0f s", url, error, wait_seconds)
            time.sleep(wait_seconds)
    if found != sha256:
        raise FetchError(
            f"{url}: sha256 {found}, expected {sha256}: not the published file, or torn on its way; "
            f"look at what the URL serves, and {_next_step()}"
        )


def _next_step() -> str:
    mirror = os.environ.get(MIRROR_VARIABLE)
    now = f" (now {mirror})" if mirror else ""
    return (
        f"try later, or name a copy with --mirror or {MIRROR_VARIABLE}{now}, laid out as <base>/<mirror_folder>/<path>"
    )


def _copy_with_digest(url: str, into: Path) -> str:
    """Write the URL's bytes into a file and return their SHA-256."""
    digest = hashlib.sha256()
    blocks, num_bytes = _open_url(url)
    name = url.rpartition("/")[2]
    with (
        into.open("wb") as copy,
        tqdm(total=num_bytes, unit="B", unit_scale=True, desc=name, disable=not sys.stderr.isatty()) as progress,
    ):
        for block in blocks:
            digest.update(block)
            copy.write(block)
            progress.update(len(block))
    return digest.hexdigest()


def _open_url(url: str) -> tuple[Iterator[bytes], int | None]:
    """Return the blocks of a URL's bytes, and how many bytes they will be, where that is known."""
    parts = urllib.parse.urlsplit(url)
    if parts.scheme == "file":  # the one scheme that requests does not speak
        path = Path(urllib.request.url2pathname(parts.path))
        if not path.is_file():
            raise FetchError(f"{url}: no such file; {_next_step()}")
        return _file_blocks(path), path.stat().st_size
    response = requests.get(url, stream=True, timeout=TIMEOUT_SECONDS, headers={"Accept-Encoding": "identity"})
    response.raise_for_status()
    length = response.headers.get("Content-Length")
    return response.iter_content(_BLOCK_BYTES), int(length) if length else None


def _file_blocks(path: Path) -> Iterator[bytes]:
    with path.open("rb") as content:
        while block := content.read(_BLOCK_BYTES):
            yield block


def _unpack(url: str, packed_path: Path, into: Path) -> None:
    try:
        with open_bytes(packed_path) as unpacked, into.open("wb") as text:
            while block := unpacked.read(_BLOCK_BYTES):
                text.write(block)
    except CorpusError as error:
        raise CorpusError(
            f"{url}: no whole gzip file ({error.__cause__}), though its sha256 is the corpus file's; put that "
            "of a whole one there"
        ) from error
    packed_path.unlink()
