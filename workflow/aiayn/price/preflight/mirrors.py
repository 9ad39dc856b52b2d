"""Checks in parallel that every published file of a scale exists here, on a mirror or at a public source location.

Each server is asked for the first byte, and the size that it states is compared with the published one; nothing else is
downloaded.
"""

import concurrent.futures
import re
import urllib.parse
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec
import requests

from aiayn.data.sources.download import local_path, places_of
from aiayn.data.sources.fetch import editions_of, file_url
from aiayn.price.preflight.checks import Check
from aiayn.spec.corpus import ArchiveSource, CorpusSpec, ParallelSource

TIMEOUT_SECONDS = 10.0
MAX_REQUESTS_AT_ONCE = 8
_CONTENT_RANGE = re.compile(r"bytes 0-0/(?P<total>\d+)")


class NeededFile(msgspec.Struct, frozen=True, kw_only=True):
    """A file: its possible local paths, and (URL, published bytes or None) of each source, in the order of trial."""

    name: str
    paths: list[Path]
    sources: list[tuple[str, int | None]]


def check_mirrors(
    corpora: Mapping[str, CorpusSpec], *, mirror: str | None, archives_folder: Path, is_offline: bool
) -> list[Check]:
    """Return one check a corpus: FAIL if a file is neither here nor at a source.

    `is_offline`: no request is sent; then only local files count, and `file://` mirrors.
    """
    checks = []
    with concurrent.futures.ThreadPoolExecutor(MAX_REQUESTS_AT_ONCE) as pool:
        for name, corpus in corpora.items():
            needed = needed_files(corpus, mirror, archives_folder)
            answers = list(pool.map(lambda file: _find(file, is_offline=is_offline), needed))
            checks.append(_check_of(f"mirrors of {name}", list(zip(needed, answers, strict=True)), is_offline))
    return checks


def _check_of(
    name: str, answers: Sequence[tuple[NeededFile, tuple[str, list[tuple[str, str]]]]], is_offline: bool
) -> Check:
    if not answers:
        return Check(name, "OK", "none needed: its text is shipped")
    absent = [(file, reasons) for file, (where, reasons) in answers if not where]
    if absent:
        listed = "; ".join(f"{file.name} ({_in_short(reasons)})" for file, reasons in absent)
        advice = "name a copy: `--config mirror=file:///...` or AIAYN_MIRROR, or put archives into AIAYN_ARCHIVES"
        if is_offline:
            advice = f"fetch them while online (`snakemake data`), or {advice}"
        return Check(name, "FAIL", f"{len(absent)} of {len(answers)} files were not found: {listed}", advice)
    counts: dict[str, int] = {}
    for _, (where, _) in answers:
        counts[where] = counts.get(where, 0) + 1
    listed = ", ".join(f"{number} {where}" for where, number in counts.items())
    return Check(name, "OK", f"{len(answers)} files: {listed}")


def _in_short(reasons: Sequence[tuple[str, str]]) -> str:
    """Return the answers of sources: one by its URL, several by their hosts."""
    if len(reasons) == 1:
        return f"{reasons[0][0]}: {reasons[0][1]}"
    pairs = dict.fromkeys((_host(url) or "local mirror", reason) for url, reason in reasons)
    return ", ".join(f"{host}: {reason}" for host, reason in pairs) or "not tried: offline"


def _host(url: str) -> str:
    return urllib.parse.urlsplit(url).netloc


def needed_files(corpus: CorpusSpec, mirror: str | None, archives_folder: Path) -> list[NeededFile]:
    """Return every published file of a corpus; none for text that is shipped with the corpus's file."""
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
            NeededFile(name=published.path, paths=[], sources=[(file_url(source, published, mirror), None)])
            for split in ("train", *corpus.testsets)
            for published in source.file_by_split[split].values()
        ]
    return []


def _testset(source: ArchiveSource, testset: str, mirror: str | None) -> NeededFile:
    """Return a test set: sacreBLEU's archive in its cache, plain text on a mirror, or sacreBLEU's own URL."""
    from sacrebleu.dataset import DATASETS

    from aiayn.data.sources.testsets import archive_path

    published = source.testset_by_name[testset]
    dataset = DATASETS[published.sacrebleu_name]
    urls = [dataset.data[0]]
    if mirror is not None and published.plain_by_language:
        plain = list(published.plain_by_language.values())[-1]  # where one side lies, the other does
        urls.insert(0, f"{mirror.rstrip('/')}/{published.mirror_folder}/{plain.path}")
    return NeededFile(name=testset, paths=[archive_path(published)], sources=[(url, None) for url in urls])


def _find(file: NeededFile, *, is_offline: bool) -> tuple[str, list[tuple[str, str]]]:
    """Return where a file was found, '' if nowhere, and the reasons of the sources tried before."""
    if any(path.is_file() for path in file.paths):
        return "lie here", []
    reasons: list[tuple[str, str]] = []
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
            return ("on a local mirror" if path is not None else f"at {_host(url)}"), reasons
        reasons.append((url, reason))
    return "", reasons


def _stated_bytes(url: str) -> tuple[int | None, str]:
    """Return the size that a server states of a file, None if it states none; and why it lacks it, '' if it has it."""
    headers = {"Accept-Encoding": "identity", "User-Agent": "aiayn", "Range": "bytes=0-0"}
    try:
        with requests.get(url, timeout=TIMEOUT_SECONDS, headers=headers, stream=True) as answer:
            status = answer.status_code
            match = _CONTENT_RANGE.fullmatch(answer.headers.get("Content-Range", ""))
            size = match["total"] if match else answer.headers.get("Content-Length") if status == 200 else None
    except requests.RequestException as error:
        return None, type(error).__name__
    if status not in (200, 206):
        return None, f"status {status}"
    return int(size) if size is not None and size.isdecimal() else None, ""
