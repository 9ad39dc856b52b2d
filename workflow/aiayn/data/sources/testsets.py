"""Reads public test sets by name, exactly as published: from sacreBLEU's archive, or a mirror's plain text.

sacreBLEU's table of test sets says where an archive is published, its MD5 and its members. Archives lie where sacreBLEU
keeps them (variable SACREBLEU, by default ~/.sacrebleu), so each finds what the other has downloaded, also offline.
sacreBLEU's extracted text is not used, because sacreBLEU replaces all white space by blanks (NBSP in 11 lines of
newstest2013.de); segments are read from the archive. Plain text of a mirror, with the published MD5, is put there, too.
"""

import hashlib
import logging
import os
import re
import tempfile
from pathlib import Path
from typing import Any

import sacrebleu
from sacrebleu.dataset import DATASETS
from sacrebleu.dataset.fake_sgml import FakeSGMLDataset

from aiayn.data.sources.archives import open_members
from aiayn.data.sources.download import PublishedFile, WrongFileError, download_file, named_mirror, verify_file
from aiayn.data.sources.joining import append_member
from aiayn.data.text.lines import read_lines
from aiayn.errors import ConfigError, CorpusError, FetchError, ScoreError, did_you_mean
from aiayn.provenance import replace_on_success
from aiayn.spec.recipe import UNKNOWN, ArchiveSource, PublicTestset, split_checksum
from aiayn.spec.system import CONFIG_FOLDER, read_corpus

_LOG = logging.getLogger(__name__)
# Our names to sacreBLEU's. newstest2014 is the full set of 3,003 lines, as in the paper; sacreBLEU's
# `wmt14` is the filtered one of 2,737.
SACREBLEU_NAME_BY_TESTSET = {
    "newstest2013": "wmt13",
    "newstest2014": "wmt14/full",
    "newstest2014_filtered": "wmt14",
}
_UNKNOWN_FIELDS = ("docid", "genre", "origlang")  # sacreBLEU keeps them beside the text; plain text has none


def public_references(testset: str, language_pair: str) -> list[str]:
    """Return the reference lines of a public test set, downloading it if it is not in sacreBLEU's cache.

    Raises:
        ScoreError: if sacreBLEU has no such test set or not in this language pair, or with several references a line.
        FetchError: if it cannot be had.
    """
    target_language = target_language_of(language_pair)
    name = SACREBLEU_NAME_BY_TESTSET.get(testset, testset)
    if name not in DATASETS:
        known = ", ".join([*SACREBLEU_NAME_BY_TESTSET, "and sacreBLEU's own names (wmt17, ...)"])
        raise ScoreError(
            f"test set {testset!r}: not a public one; give its references with --references FILE (known: {known})"
        )
    if language_pair not in DATASETS[name].langpairs:
        raise ScoreError(
            f"test set {testset!r}: not published for {language_pair}; it has {', '.join(DATASETS[name].langpairs)}"
        )
    published = _published_in_recipe(testset, language_pair)
    if published is not None:
        try:
            return read_public_testset(testset, published, language_pair, mirror=named_mirror(None))[target_language]
        except FetchError as error:
            reason = str(error).split("; ", 1)[0]  # what follows names flags of `fetch`
            raise FetchError(
                f"test set {testset!r}: not here, and not downloaded: give its references with --references FILE, or "
                f"set AIAYN_MIRROR to a copy of the sources; {reason}"
            ) from error
    try:
        paths = sacrebleu.get_reference_files(name, language_pair)
    except (OSError, EOFError, SystemExit) as error:  # sacreBLEU exits on a wrong MD5 and on a failed download
        raise FetchError(
            f"test set {testset!r} ({name}): give --references FILE, or put its archive into sacreBLEU's cache "
            f"(variable SACREBLEU, by default ~/.sacrebleu): sacreBLEU could not download it ({error})"
        ) from error
    if len(paths) != 1:
        raise ScoreError(
            f"test set {testset!r} ({name}): {len(paths)} references a line, the definitions here take one; give it "
            f"with --references FILE ({', '.join(paths)})"
        )
    return list(read_lines(Path(paths[0])))


def target_language_of(language_pair: str) -> str:
    """Return the language that a pair is translated into.

    Raises:
        ScoreError: if it is no pair of two codes of languages.
    """
    found = re.fullmatch(r"[a-z]{2,3}-([a-z]{2,3})", language_pair)
    if found is None:
        known = sorted({pair for dataset in DATASETS.values() for pair in dataset.langpairs})
        hint = did_you_mean(language_pair, known, "see --help")
        raise ScoreError(f"--language-pair {language_pair}: expected source and target as en-de; {hint}")
    return found[1]


def write_public_testsets(
    source: ArchiveSource, testsets: tuple[str, ...], language_pair: str, folder: Path, mirror: str | None
) -> None:
    """Write `<testset>.<language>` into `folder`, both sides of each test set.

    Raises:
        FetchError, CorpusError: as `read_public_testset`.
    """
    for testset in testsets:
        published = source.testset_by_name[testset]
        lines_by_language = read_public_testset(testset, published, language_pair, mirror=mirror)
        for language, lines in lines_by_language.items():
            (folder / f"{testset}.{language}").write_bytes(_as_bytes(lines))


def read_public_testset(
    testset: str, published: PublicTestset, language_pair: str, *, mirror: str | None
) -> dict[str, list[str]]:
    """Return a test set's lines by language: of sacreBLEU's cache, of the mirror, or of sacreBLEU's download.

    Raises:
        ConfigError: if sacreBLEU has no such test set.
        FetchError: naming what was tried and where a copy may be put.
        CorpusError: if the numbers of lines are not the published one.
    """
    dataset = DATASETS.get(published.sacrebleu_name)
    if not isinstance(dataset, FakeSGMLDataset) or language_pair not in dataset.langpairs:
        raise ConfigError(
            f"test set {testset!r}: sacreBLEU has no {published.sacrebleu_name!r} of sgm files for {language_pair}; "
            "correct sacrebleu_name in the corpus file"
        )
    cached = CachedTestset(testset, published, language_pair, dataset)
    reasons: list[str] = []
    lines_by_language = (
        cached.read_archive()
        or cached.read_text()
        or cached.fill_from_mirror(mirror, reasons)
        or cached.download(reasons)
    )
    for language, lines in lines_by_language.items():
        if len(lines) != published.num_lines:
            raise CorpusError(
                f"test set {testset!r} ({language}): {len(lines)} lines, published {published.num_lines}; delete "
                f"{cached.archive_path.parent.parent} and fetch it again"
            )
    return lines_by_language


class CachedTestset:
    """One test set and language pair in sacreBLEU's cache."""

    def __init__(self, testset: str, published: PublicTestset, language_pair: str, dataset: Any) -> None:
        """Name a test set; `dataset` is sacreBLEU's object."""
        self._testset = testset
        self._published = published
        self._language_pair = language_pair
        self._languages = language_pair.split("-")
        self._dataset = dataset
        self._prefix = published.sacrebleu_name.replace("/", "_")
        self._folder = Path(os.environ.get("SACREBLEU") or Path.home() / ".sacrebleu") / published.sacrebleu_name
        self._place = f"test set {testset!r} ({published.sacrebleu_name})"
        self.archive_path = self._folder / "raw" / f"{self._prefix}.{Path(dataset.data[0]).name}"

    def read_archive(self) -> dict[str, list[str]] | None:
        """Return the segments of sacreBLEU's archive, None if it is not there or has another MD5."""
        try:
            verify_file(self.archive_path, self._archive())
        except FileNotFoundError:
            return None
        except WrongFileError as error:  # sacreBLEU itself would take it for right from now on
            aside_path = self.archive_path.replace(self.archive_path.with_name(f"{self.archive_path.name}.wrong"))
            _LOG.warning("%s; set aside as %s", error, aside_path)
            return None
        return self._segments(self.archive_path)

    def _segments(self, path: Path) -> dict[str, list[str]]:
        members = dict(zip(self._dataset.langpairs[self._language_pair], self._languages, strict=True))
        lines_by_language = {}
        for member, stream in open_members(path, "tgz", members):
            with tempfile.TemporaryFile() as segments:
                append_member(stream, segments, f"{path}: {member}", is_markup=True)
                segments.seek(0)
                lines_by_language[members[member]] = segments.read().decode().split("\n")[:-1]
        for language, lines in lines_by_language.items():
            if not self._is_published(language, _as_bytes(lines), if_unknown=True):
                _LOG.warning("%s (%s): another MD5 than the published plain text's", self._place, language)
        return {language: lines_by_language[language] for language in self._languages}

    def read_text(self) -> dict[str, list[str]] | None:
        """Return the plain text that a mirror filled the cache with, None if it is not there or is another text."""
        path_by_language = dict(zip(self._languages, self._text_paths("src", "ref"), strict=True))
        if not all(
            path.exists() and self._is_published(language, path.read_bytes(), if_unknown=False)
            for language, path in path_by_language.items()
        ):
            return None
        return {language: list(read_lines(path)) for language, path in path_by_language.items()}

    def fill_from_mirror(self, mirror: str | None, reasons: list[str]) -> dict[str, list[str]] | None:
        """Put a mirror's plain text, once its checksum is found right, into the cache and return it, or None."""
        plain_by_language = self._published.plain_by_language
        if mirror is None or set(plain_by_language) != set(self._languages):
            return None
        with tempfile.TemporaryDirectory() as temporary:
            path_by_language = {}
            for language, plain in plain_by_language.items():
                url = f"{mirror.rstrip('/')}/{self._published.mirror_folder}/{plain.path}"
                published = PublishedFile(Path(plain.path).name, [url], checksum=plain.checksum)
                try:
                    path_by_language[language] = download_file([published], Path(temporary)).path
                except FetchError as error:
                    reasons.append(str(error))
                    _LOG.warning("%s: %s", self._place, error)
                    return None
            for language, text_path in zip(self._languages, self._text_paths("src", "ref"), strict=True):
                with replace_on_success(text_path) as partial_path:
                    partial_path.write_bytes(path_by_language[language].read_bytes())
            unknown = "unknown\n" * self._published.num_lines
            for path in self._text_paths(*_UNKNOWN_FIELDS):
                with replace_on_success(path) as partial_path:
                    partial_path.write_text(unknown, encoding="utf-8", newline="\n")
        _LOG.info("%s: plain text of %s put into sacreBLEU's cache", self._place, mirror)
        return self.read_text()

    def download(self, reasons: list[str]) -> dict[str, list[str]]:
        """Download the archive into the cache and return the segments.

        Raises:
            FetchError: if its place does not give it.
        """
        try:
            found = download_file([self._archive()], self.archive_path.parent)
        except FetchError as error:
            raise FetchError(
                f"{self._place}: {'; '.join([*reasons, str(error)])}; put its archive {self._dataset.data[0]} into "
                f"sacreBLEU's cache as {self.archive_path} (variable SACREBLEU), or name a --mirror with its plain text"
            ) from error
        return self._segments(found.path)

    def _archive(self) -> PublishedFile:
        return PublishedFile(self.archive_path.name, self._dataset.data, checksum=f"md5:{self._dataset.md5[0]}")

    def _text_paths(self, *fields: str) -> list[Path]:
        return [self._folder / f"{self._prefix}.{self._language_pair}.{field}" for field in fields]

    def _is_published(self, language: str, content: bytes, *, if_unknown: bool) -> bool:
        """Return whether bytes are a side's published plain text; `if_unknown` where no checksum is published."""
        plain = self._published.plain_by_language.get(language)
        if plain is None or plain.checksum == UNKNOWN:
            return if_unknown
        algorithm, expected = split_checksum(plain.checksum)
        return hashlib.new(algorithm, content, usedforsecurity=False).hexdigest() == expected


def _published_in_recipe(testset: str, language_pair: str) -> PublicTestset | None:
    """Return what the paper's recipe of a language pair says of a test set, None if it says nothing."""
    name = f"wmt14_{language_pair.replace('-', '_')}"
    if not (CONFIG_FOLDER / "corpora" / f"{name}.yaml").exists():
        return None
    source = read_corpus(name).source
    return source.testset_by_name.get(testset) if isinstance(source, ArchiveSource) else None


def _as_bytes(lines: list[str]) -> bytes:
    return "".join(f"{line}\n" for line in lines).encode()
