"""Checks that every published file of a scale exists: on this machine, on a mirror or at a public
address.

For each file, the size that the server states is compared with the published size. No file is
downloaded. Requests to the servers run in parallel.
"""

import concurrent.futures
import urllib.parse
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import requests

from aiayn.data.sources.download import local_path
from aiayn.data.sources.fetch import file_url, files_of
from aiayn.spec.corpus import ArchiveSource, CorpusSpec, ParallelSource
from analysis.price.preflight.checks import Check

TIMEOUT_SECONDS = 10.0
MAX_REQUESTS_AT_ONCE = 8


class NeededFile(NamedTuple):
    """A file that the verb `fetch` needs: the local paths where the file may be, and its sources in
    the order in which they are tried, each as (URL, published number of bytes or None).
    """

    name: str
    paths: list[Path]
    sources: list[tuple[str, int | None]]


def check_mirrors(
    corpora: Mapping[str, CorpusSpec],
    *,
    mirror: str | None,
    archives_folder: Path,
) -> list[Check]:
    """Return one check for each corpus, which fails if a file of the corpus is neither on this
    machine nor at any source.
    """
    checks = []
    # Some servers take seconds to answer, and a scale has dozens of files.
    with concurrent.futures.ThreadPoolExecutor(MAX_REQUESTS_AT_ONCE) as pool:
        for name, corpus in corpora.items():
            answers = list(pool.map(_find, needed_files(corpus, mirror, archives_folder)))
            checks.append(_check_of(f"mirrors of {name}", answers))
    return checks


def _check_of(name: str, answers: Sequence[tuple[str, str]]) -> Check:
    if not answers:
        return Check(name, "OK", "none needed: its text is shipped")
    absent = [reason for _, reason in answers if reason]
    if absent:
        advice = (
            "name a copy: `--config mirror=file:///...` or AIAYN_MIRROR, or put archives into"
            " AIAYN_ARCHIVES"
        )
        evidence = f"{len(absent)} of {len(answers)} files were not found: {'; '.join(absent)}"
        return Check(name, "FAIL", evidence, advice)
    # Files that were found are only counted for each source, such as `3 at data.statmt.org`.
    counts = Counter(source for source, _ in answers)
    listed = ", ".join(f"{number} {source}" for source, number in counts.items())
    return Check(name, "OK", f"{len(answers)} files: {listed}")


def needed_files(corpus: CorpusSpec, mirror: str | None, archives_folder: Path) -> list[NeededFile]:
    """Return every published file that a corpus needs. The result is empty if the text of the
    corpus is shipped with this project.
    """
    source = corpus.source
    needed = []
    if isinstance(source, ArchiveSource):
        for name, archive in source.joined().items():
            files = files_of(source, archive, mirror)
            paths = [archives_folder / file.name for file in files]
            sources = [(file.url, file.num_bytes) for file in files]
            needed.append(NeededFile(name, paths, sources))
        for testset in corpus.testsets:
            needed.append(_testset(source, testset, mirror))
    if isinstance(source, ParallelSource):
        for split in ("train", *corpus.testsets):
            for published in source.file_by_split[split].values():
                url = file_url(source, published, mirror)
                needed.append(NeededFile(published.path, [], [(url, None)]))
    return needed


def _testset(source: ArchiveSource, testset: str, mirror: str | None) -> NeededFile:
    """Return the file of a test set. The sources of the file are sacreBLEU's archive in the local
    cache, plain text on the mirror, and sacreBLEU's own URL, in this order.
    """
    # The import takes a while, and only WMT's test sets need it, so it is here.
    from sacrebleu.dataset import DATASETS

    from aiayn.data.sources.testsets import archive_path

    published = source.testset_by_name[testset]
    dataset = DATASETS[published.sacrebleu_name]
    urls = [dataset.data[0]]
    if mirror is not None and published.plain_by_language:
        # The mirror has both languages or none, so the last one is enough.
        plain = list(published.plain_by_language.values())[-1]
        urls.insert(0, f"{mirror.rstrip('/')}/{published.mirror_folder}/{plain.path}")
    return NeededFile(testset, [archive_path(published)], [(url, None) for url in urls])


def _find(file: NeededFile) -> tuple[str, str]:
    """Return (where the file was found, ''), or ('', why no source has the file)."""
    if any(path.is_file() for path in file.paths):
        return "are here", ""
    reasons: list[str] = []
    for url, num_bytes in file.sources:
        path = local_path(url)
        # `local_path` is None for http. A mirror may also be a folder, `file:///...`.
        if path is None:
            size, reason = _stated_bytes(url)
        else:
            size, reason = (path.stat().st_size, "") if path.is_file() else (None, "no such file")
        # Some servers answer with a page "not found" and status 200. Its size is different.
        if None not in (num_bytes, size) and size != num_bytes:
            reason = f"{size} bytes, published {num_bytes}"
        if not reason:
            host = f"at {urllib.parse.urlsplit(url).netloc}"
            return host if path is None else "on a local mirror", ""
        reasons.append(f"{url}: {reason}")
    return "", f"{file.name} ({', '.join(reasons)})"


def _stated_bytes(url: str) -> tuple[int | None, str]:
    """Return (size, reason). `size` is the number of bytes that a server states for a file, or None
    if the server does not state it. `reason` says why the file cannot be downloaded, and is '' if
    the server has the file.
    """
    # Without `identity` the server might compress its answer and state the compressed size.
    headers = {"Accept-Encoding": "identity", "User-Agent": "aiayn"}
    try:
        # With `stream` only the headers are read. The content stays on the server.
        with requests.get(url, timeout=TIMEOUT_SECONDS, headers=headers, stream=True) as answer:
            size = answer.headers.get("Content-Length", "")
            if answer.status_code != 200:
                return None, f"status {answer.status_code}"
    except requests.RequestException as error:
        return None, type(error).__name__
    return int(size) if size.isdecimal() else None, ""
