"""Reads public test sets by name, exactly as published: from sacreBLEU's archive, or a mirror's
plain text.

sacreBLEU's table of test sets says where an archive is published, its MD5 and its members. Archives
lie where sacreBLEU keeps them (variable SACREBLEU, by default ~/.sacrebleu), so each finds what the
other has downloaded, also offline. sacreBLEU's extracted text is not used, because sacreBLEU
replaces all white space by blanks (NBSP in 11 lines of newstest2013.de); segments are read from the
archive. Plain text of a mirror, with the published MD5, is kept beside it.
"""

import hashlib
import io
import logging
import os
import re
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import sacrebleu
from sacrebleu.dataset import DATASETS
from sacrebleu.dataset.fake_sgml import FakeSGMLDataset

from aiayn.data.sources.archives import open_members
from aiayn.data.sources.download import PublishedFile, download_file, named_mirror
from aiayn.data.sources.joining import append_member
from aiayn.data.text.lines import read_lines
from aiayn.errors import ConfigError, CorpusError, FetchError, ScoreError, did_you_mean
from aiayn.provenance import replace_on_success
from aiayn.spec.corpus import UNKNOWN, ArchiveSource, PublicTestset, split_checksum
from aiayn.spec.system import CONFIG_FOLDER, read_corpus

_LOG = logging.getLogger(__name__)
# Our names to sacreBLEU's. newstest2014 is the full set of 3,003 lines, as in the paper;
# sacreBLEU's `wmt14` is the filtered one of 2,737.
SACREBLEU_NAME_BY_TESTSET = {
    "newstest2013": "wmt13",
    "newstest2014": "wmt14/full",
    "newstest2014_filtered": "wmt14",
}


def public_references(testset: str, language_pair: str) -> list[str]:
    """Return the reference lines of a public test set, downloading it if it is not in sacreBLEU's
    cache.

    Raises:
        ScoreError: if sacreBLEU has no such test set or not in this language pair, or with several
        references a line.
        FetchError: if it cannot be had.
    """
    target_language = target_language_of(language_pair)
    name = SACREBLEU_NAME_BY_TESTSET.get(testset, testset)
    if name not in DATASETS:
        known = ", ".join([*SACREBLEU_NAME_BY_TESTSET, "and sacreBLEU's own names (wmt17, ...)"])
        raise ScoreError(
            f"test set {testset!r}: not a public one; give its references with --references FILE"
            f" (known: {known})"
        )
    if language_pair not in DATASETS[name].langpairs:
        raise ScoreError(
            f"test set {testset!r}: not published for {language_pair}; it has"
            f" {', '.join(DATASETS[name].langpairs)}"
        )
    published = _published_in_recipe(testset, language_pair)
    if published is not None:
        try:
            return read_public_testset(
                testset, published, language_pair, mirror=named_mirror(None)
            )[target_language]
        except FetchError as error:
            reason = str(error).split("; ", 1)[0]  # what follows names flags of `fetch`
            raise FetchError(
                f"test set {testset!r}: not here, and not downloaded: give its references with"
                f" --references FILE, or set AIAYN_MIRROR to a copy of the sources; {reason}"
            ) from error
    try:
        paths = sacrebleu.get_reference_files(name, language_pair)
    except (
        OSError,
        EOFError,
        SystemExit,
    ) as error:  # sacreBLEU exits on a wrong MD5 and on a failed download
        raise FetchError(
            f"test set {testset!r} ({name}): give --references FILE, or put its archive into"
            " sacreBLEU's cache (variable SACREBLEU, by default ~/.sacrebleu): sacreBLEU could not"
            f" download it ({error})"
        ) from error
    if len(paths) != 1:
        raise ScoreError(
            f"test set {testset!r} ({name}): {len(paths)} references a line, the definitions here"
            f" take one; give it with --references FILE ({', '.join(paths)})"
        )
    return list(read_lines(Path(paths[0])))


def target_language_of(language_pair: str) -> str:
    """Return the language that a pair is translated into.

    Raises:
        ScoreError: if it is no pair of two codes of languages.
    """
    match = re.fullmatch(r"[a-z]{2,3}-([a-z]{2,3})", language_pair)
    if match is None:
        known = sorted({pair for dataset in DATASETS.values() for pair in dataset.langpairs})
        hint = did_you_mean(language_pair, known, "see --help")
        raise ScoreError(
            f"--language-pair {language_pair}: expected source and target as en-de; {hint}"
        )
    return match[1]


def archive_path(published: PublicTestset) -> Path:
    """Return where sacreBLEU keeps a test set's archive; plain text of a mirror lies in `plain`
    beside its folder.
    """
    folder = (
        Path(os.environ.get("SACREBLEU") or Path.home() / ".sacrebleu") / published.sacrebleu_name
    )
    archive_name = Path(DATASETS[published.sacrebleu_name].data[0]).name
    return folder / "raw" / f"{published.sacrebleu_name.replace('/', '_')}.{archive_name}"


def read_public_testset(
    testset: str, published: PublicTestset, language_pair: str, *, mirror: str | None
) -> dict[str, list[str]]:
    """Return a test set's lines by language: of the archive here, of plain text, or of the
    archive's public place.

    Raises:
        ConfigError: if sacreBLEU has no such test set.
        FetchError: naming what was tried and where a copy may be put.
        CorpusError: if the numbers of lines are not the published one.
    """
    dataset, languages = DATASETS.get(published.sacrebleu_name), language_pair.split("-")
    if not isinstance(dataset, FakeSGMLDataset) or language_pair not in dataset.langpairs:
        raise ConfigError(
            f"test set {testset!r}: sacreBLEU has no {published.sacrebleu_name!r} of sgm files for"
            f" {language_pair}; correct sacrebleu_name in the corpus file"
        )
    place, path = f"test set {testset!r} ({published.sacrebleu_name})", archive_path(published)
    members = dict(zip(dataset.langpairs[language_pair], languages, strict=True))

    def read_archive(urls: Sequence[str]) -> dict[str, list[str]]:
        archive = PublishedFile(path.name, urls, checksum=f"md5:{dataset.md5[0]}")
        return _read_archive(download_file([archive], path.parent).path, members, published, place)

    sources = [partial(read_archive, dataset.data)]
    plain_folder = path.parents[1] / "plain" / language_pair
    if set(published.plain_by_language) == set(languages) and (
        mirror is not None or plain_folder.is_dir()
    ):
        sources.insert(0, partial(_read_plain, published, languages, plain_folder, mirror))
    if path.exists():
        sources.insert(0, partial(read_archive, ()))
    reasons: list[str] = []
    for read in sources:
        try:
            lines_by_language = read()
            break
        except FetchError as error:
            reasons.append(str(error))
            _LOG.warning("%s: %s", place, error)
    else:
        raise FetchError(
            f"{place}: {'; '.join(reasons)}; put its archive {dataset.data[0]} into sacreBLEU's"
            f" cache as {path} (variable SACREBLEU), or name a --mirror with its plain text"
        )
    for language, lines in lines_by_language.items():
        if len(lines) != published.num_lines:
            raise CorpusError(
                f"test set {testset!r} ({language}): {len(lines)} lines, published"
                f" {published.num_lines}; delete {path.parents[1]} and fetch it again"
            )
    return lines_by_language


def _read_archive(
    path: Path, language_by_member: dict[str, str], published: PublicTestset, place: str
) -> dict[str, list[str]]:
    """Return the segments of an archive's members, by language."""
    lines_by_language = {}
    for member, stream in open_members(path, "tgz", language_by_member):
        language, segments = language_by_member[member], io.BytesIO()
        append_member(stream, segments, f"{path}: {member}", is_markup=True)
        lines_by_language[language] = segments.getvalue().decode().split("\n")[:-1]
        plain = published.plain_by_language.get(language)
        algorithm, expected = split_checksum(plain.checksum if plain else UNKNOWN)
        if (
            expected
            and hashlib.new(algorithm, segments.getvalue(), usedforsecurity=False).hexdigest()
            != expected
        ):
            _LOG.warning("%s (%s): another MD5 than the published plain text's", place, language)
    return {language: lines_by_language[language] for language in language_by_member.values()}


def _read_plain(
    published: PublicTestset, languages: Sequence[str], folder: Path, mirror: str | None
) -> dict[str, list[str]]:
    """Return the plain text that lies in a folder; what it lacks comes from the mirror into it, for
    the next time.
    """
    lines_by_language = {}
    for language in languages:
        plain = published.plain_by_language[language]
        path = folder / Path(plain.path).name
        urls = (
            []
            if mirror is None
            else [f"{mirror.rstrip('/')}/{published.mirror_folder}/{plain.path}"]
        )
        file = download_file([PublishedFile(path.name, urls, checksum=plain.checksum)], folder)
        if file.path != path:  # a file of a local mirror stays there
            with replace_on_success(path) as partial_path:
                partial_path.write_bytes(file.path.read_bytes())
        lines_by_language[language] = list(read_lines(path))
    return lines_by_language


def _published_in_recipe(testset: str, language_pair: str) -> PublicTestset | None:
    """Return what the paper's recipe of a language pair says of a test set, None if it says
    nothing.
    """
    name = f"wmt14_{language_pair.replace('-', '_')}"
    if not (CONFIG_FOLDER / "corpora" / f"{name}.yaml").exists():
        return None
    source = read_corpus(name).source
    return source.testset_by_name.get(testset) if isinstance(source, ArchiveSource) else None
