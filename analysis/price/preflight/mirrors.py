"""Checks in parallel that every published file of a scale exists here, on a mirror or at a public
source location.

Each server is asked for the first byte, and the size that it states is compared with the published
one; nothing else is downloaded.
"""

import concurrent.futures
import re
import urllib.parse
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec
import requests

from aiayn.data.sources.download import local_path, places_of
from aiayn.data.sources.fetch import editions_of, file_url
from aiayn.spec.corpus import ArchiveSource, CorpusSpec, ParallelSource
from analysis.price.preflight.checks import Check

TIMEOUT_SECONDS = 10.0
MAX_REQUESTS_AT_ONCE = 8
_CONTENT_RANGE = re.compile(r"bytes 0-0/(?P<total>\d+)")


class NeededFile(msgspec.Struct, frozen=True, kw_only=True):
    """A file: its possible local paths, and (URL, published bytes or None) of each source, in the
    order of trial.
    """

    name: str
    paths: list[Path]
    sources: list[tuple[str, int | None]]


class Answer(NamedTuple):
    """Where a file was found; `place` is "" if it was not, and `reason` says why."""

    name: str
    place: str
    reason: str


def check_mirrors(
    corpora: Mapping[str, CorpusSpec],
    *,
    mirror: str | None,
    archives_folder: Path,
    is_offline: bool,
) -> list[Check]:
    """Return one check a corpus: FAIL if no source has a file that is missing here.

    `is_offline`: no request is sent; then only local files count, and `file://` mirrors.
    """
    checks = []
    with concurrent.futures.ThreadPoolExecutor(MAX_REQUESTS_AT_ONCE) as pool:
        for name, corpus in corpora.items():
            needed = needed_files(corpus, mirror, archives_folder)
            answers = list(pool.map(lambda file: _find(file, is_offline=is_offline), needed))
            checks.append(_check_of(f"mirrors of {name}", answers, is_offline))
    return checks


def _check_of(name: str, answers: Sequence[Answer], is_offline: bool) -> Check:
    if not answers:
        return Check(name, "OK", "none needed: its text is shipped")
    absent = [f"{answer.name} ({answer.reason})" for answer in answers if not answer.place]
    if absent:
        advice = (
            "name a copy: `--config mirror=file:///...` or AIAYN_MIRROR, or put archives into"
            " AIAYN_ARCHIVES"
        )
        if is_offline:
            advice = f"fetch them while online (`snakemake data`), or {advice}"
        evidence = f"{len(absent)} of {len(answers)} files were not found: {'; '.join(absent)}"
        return Check(name, "FAIL", evidence, advice)
    counts = Counter(answer.place for answer in answers)
    listed = ", ".join(f"{number} {place}" for place, number in counts.items())
    return Check(name, "OK", f"{len(answers)} files: {listed}")


def needed_files(corpus: CorpusSpec, mirror: str | None, archives_folder: Path) -> list[NeededFile]:
    """Return every published file of a corpus; none for text that is shipped with the corpus's
    file.
    """
    source = corpus.source
    if isinstance(source, ArchiveSource):
        needed = []
        for name, archive in source.joined().items():
            editions = editions_of(source, archive, mirror)
            paths = [archives_folder / edition.name for edition in editions]
            sources = [(url, edition.num_bytes) for edition, url in places_of(editions)]
            needed.append(NeededFile(name=name, paths=paths, sources=sources))
        return needed + [_testset(source, testset, mirror) for testset in corpus.testsets]
    if isinstance(source, ParallelSource):
        return [
            NeededFile(
                name=published.path, paths=[], sources=[(file_url(source, published, mirror), None)]
            )
            for split in ("train", *corpus.testsets)
            for published in source.file_by_split[split].values()
        ]
    return []


def _testset(source: ArchiveSource, testset: str, mirror: str | None) -> NeededFile:
    """Return a test set: sacreBLEU's archive in its cache, plain text on a mirror, or sacreBLEU's
    own URL.
    """
    from sacrebleu.dataset import DATASETS

    from aiayn.data.sources.testsets import archive_path

    published = source.testset_by_name[testset]
    dataset = DATASETS[published.sacrebleu_name]
    urls = [dataset.data[0]]
    if mirror is not None and published.plain_by_language:
        # The mirror has both languages or none, so the last one is enough.
        plain = list(published.plain_by_language.values())[-1]
        urls.insert(0, f"{mirror.rstrip('/')}/{published.mirror_folder}/{plain.path}")
    return NeededFile(
        name=testset, paths=[archive_path(published)], sources=[(url, None) for url in urls]
    )


def _find(file: NeededFile, *, is_offline: bool) -> Answer:
    """Return where a file was found, or the answer of each source that was tried."""
    if any(path.is_file() for path in file.paths):
        return Answer(file.name, "are here", "")
    reasons: list[str] = []
    for url, num_bytes in file.sources:
        path = local_path(url)
        if path is None and is_offline:
            continue
        if path is None:
            size, reason = _stated_bytes(url)
        else:
            size, reason = (path.stat().st_size, "") if path.is_file() else (None, "no such file")
        if None not in (num_bytes, size) and size != num_bytes:
            reason = f"{size} bytes, published {num_bytes}"
        if not reason:
            host = f"at {urllib.parse.urlsplit(url).netloc}"
            return Answer(file.name, host if path is None else "on a local mirror", "")
        reasons.append(f"{url}: {reason}")
    return Answer(file.name, "", ", ".join(reasons) or "not tried: offline")


def _stated_bytes(url: str) -> tuple[int | None, str]:
    """Return the size that a server states of a file, None if it states none; and why it lacks it,
    '' if it has it.
    """
    headers = {"Accept-Encoding": "identity", "User-Agent": "aiayn", "Range": "bytes=0-0"}
    try:
        with requests.get(url, timeout=TIMEOUT_SECONDS, headers=headers, stream=True) as answer:
            status = answer.status_code
            match = _CONTENT_RANGE.fullmatch(answer.headers.get("Content-Range", ""))
            size = match["total"] if match else None
            if size is None and status == 200:
                size = answer.headers.get("Content-Length")
    except requests.RequestException as error:
        return None, type(error).__name__
    if status not in (200, 206):
        return None, f"status {status}"
    return int(size) if size is not None and size.isdecimal() else None, ""
