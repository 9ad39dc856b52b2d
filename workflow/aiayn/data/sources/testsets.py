"""Reads public test sets by name, from sacreBLEU's archives or from plain text on a mirror.

sacreBLEU's table of test sets gives each archive's URL, MD5 and members. Archives are kept in
sacreBLEU's own cache (variable SACREBLEU, by default ~/.sacrebleu), so that sacreBLEU and this
module use each other's downloads, also offline. Sentences are read from a test set's archive
itself, exactly as published. sacreBLEU's extracted text is not used, because it has blanks in place
of all other white space (NBSP in 11 lines of newstest2013.de). The plain text of test sets from a
mirror, verified by its MD5, is kept in sacreBLEU's cache, too.
"""

import logging
import os
import re
from collections.abc import Sequence
from pathlib import Path

import sacrebleu
from sacrebleu.dataset import DATASETS
from sacrebleu.dataset.fake_sgml import FakeSGMLDataset

from aiayn.data.sources.archives import open_members
from aiayn.data.sources.download import PublishedFile, download_file, named_mirror
from aiayn.data.sources.joining import read_segments
from aiayn.data.text.lines import read_lines
from aiayn.errors import ConfigError, CorpusError, FetchError, ScoreError, did_you_mean
from aiayn.provenance import replace_on_success
from aiayn.spec.corpus import ArchiveSource, PublicTestset
from aiayn.spec.system import CONFIG_FOLDER, read_corpus

_LOG = logging.getLogger(__name__)
# newstest2014 is the full set of 3,003 lines, as in the paper. sacreBLEU's `wmt14` is the filtered
# set of 2,737 lines.
SACREBLEU_NAME_BY_TESTSET = {
    "newstest2013": "wmt13",
    "newstest2014": "wmt14/full",
    "newstest2014_filtered": "wmt14",
}


def public_references(testset: str, language_pair: str) -> list[str]:
    """Return the reference lines of a public test set, from sacreBLEU's cache or by download.

    Raises:
        ScoreError: if sacreBLEU does not have the test set in this language pair, or has several
        references for each line.
        FetchError: if the test set cannot be downloaded.
    """
    target_language = target_language_of(language_pair)
    name = SACREBLEU_NAME_BY_TESTSET.get(testset, testset)
    if name not in DATASETS:
        known_names = ", ".join(
            [*SACREBLEU_NAME_BY_TESTSET, "and sacreBLEU's own names (wmt17, ...)"]
        )
        raise ScoreError(
            f"test set {testset!r}: not public; give its references with --references FILE"
            f" (known: {known_names})"
        )
    if language_pair not in DATASETS[name].langpairs:
        raise ScoreError(
            f"test set {testset!r}: not published for {language_pair}; it has"
            f" {', '.join(DATASETS[name].langpairs)}"
        )
    published = _published_in_recipe(testset, language_pair)
    # A recipe knows the number of lines, and reads the archive as it was published.
    if published is not None:
        try:
            return read_public_testset(
                testset, published, language_pair, mirror=named_mirror(None)
            )[target_language]
        except FetchError as error:
            reason = str(error).split("; ", 1)[0]  # the rest lists flags of `fetch`
            raise FetchError(
                f"test set {testset!r}: absent, and not downloaded: give its references with"
                f" --references FILE, or set AIAYN_MIRROR to a copy of the sources; {reason}"
            ) from error
    try:
        paths = sacrebleu.get_reference_files(name, language_pair)
    # sacreBLEU exits on a wrong MD5 and on a failed download.
    except (OSError, EOFError, SystemExit) as error:
        raise FetchError(
            f"test set {testset!r} ({name}): give --references FILE, or put its archive into"
            " sacreBLEU's cache (variable SACREBLEU, by default ~/.sacrebleu): sacreBLEU could not"
            f" download it ({error})"
        ) from error
    # BLEU against several references is a different quantity.
    if len(paths) != 1:
        raise ScoreError(
            f"test set {testset!r} ({name}): {len(paths)} references for each line, expected 1;"
            f" name a reference with --references FILE ({', '.join(paths)})"
        )
    return list(read_lines(Path(paths[0])))


def target_language_of(language_pair: str) -> str:
    """Return the target language of a language pair.

    Raises:
        ScoreError: if `language_pair` does not consist of two language codes, as in en-de.
    """
    match = re.fullmatch(r"[a-z]{2,3}-([a-z]{2,3})", language_pair)
    if match is None:
        published_pairs = sorted(
            {pair for dataset in DATASETS.values() for pair in dataset.langpairs}
        )
        hint = did_you_mean(language_pair, published_pairs, "see --help")
        raise ScoreError(
            f"--language-pair {language_pair}: expected source and target as in en-de; {hint}"
        )
    return match[1]


def archive_path(published: PublicTestset) -> Path:
    """Return the path that a test set's archive has in sacreBLEU's cache."""
    folder = (
        Path(os.environ.get("SACREBLEU") or Path.home() / ".sacrebleu") / published.sacrebleu_name
    )
    # The layout of sacreBLEU's cache: <name>/raw/<name with _>.<archive>, such as
    # wmt14/full/raw/wmt14_full.test-full.tgz.
    archive_name = Path(DATASETS[published.sacrebleu_name].data[0]).name
    return folder / "raw" / f"{published.sacrebleu_name.replace('/', '_')}.{archive_name}"


def read_public_testset(
    testset: str, published: PublicTestset, language_pair: str, *, mirror: str | None
) -> dict[str, list[str]]:
    """Return a test set's lines by language.

    If sacreBLEU's cache contains the test set's archive, the archive is read. Without the archive,
    plain text from the cache or the mirror is read. If archive and plain text are both missing, the
    archive is downloaded.

    Raises:
        ConfigError: if sacreBLEU does not know the test set.
        FetchError: if the test set cannot be downloaded. The message contains the URLs that were
            tried, and the folder into which a user can copy the file by hand.
        CorpusError: if source or reference does not have the published number of lines.
    """
    dataset = DATASETS.get(published.sacrebleu_name)
    languages = language_pair.split("-")
    # Only data sets of .sgm files list an archive and its members in the form that is read below.
    if not isinstance(dataset, FakeSGMLDataset) or language_pair not in dataset.langpairs:
        raise ConfigError(
            f"test set {testset!r}: sacreBLEU has no {published.sacrebleu_name!r} of sgm files for"
            f" {language_pair}; correct sacrebleu_name in the corpus file"
        )
    testset_name = f"test set {testset!r} ({published.sacrebleu_name})"
    path = archive_path(published)
    plain_folder = path.parents[1] / "plain" / language_pair
    has_plain = set(published.plain_by_language) == set(languages) and (
        mirror is not None or plain_folder.is_dir()
    )
    lines_by_language: dict[str, list[str]] = {}
    reasons: list[str] = []
    # Plain text is for machines that have a mirror but no sacreBLEU archives.
    if has_plain and not path.exists():
        try:
            lines_by_language = _read_plain(published, languages, plain_folder, mirror)
        except FetchError as error:
            reasons.append(str(error))
            _LOG.warning("%s: %s", testset_name, error)
    if not lines_by_language:
        # sacreBLEU lists the members of a pair in the order source, target.
        members = dict(zip(dataset.langpairs[language_pair], languages, strict=True))
        checksum = f"md5:{dataset.md5[0]}"
        archives = [PublishedFile(path.name, url, checksum) for url in dataset.data]
        try:
            lines_by_language = _read_archive(download_file(archives, path.parent).path, members)
        except FetchError as error:
            raise FetchError(
                f"{testset_name}: {'; '.join([*reasons, str(error)])}; put its archive"
                f" {dataset.data[0]} into sacreBLEU's cache as {path} (variable SACREBLEU), or name"
                " a --mirror with its plain text"
            ) from error
    for language, lines in lines_by_language.items():
        if len(lines) != published.num_lines:
            raise CorpusError(
                f"test set {testset!r} ({language}): {len(lines)} lines, published"
                f" {published.num_lines}; delete {path.parents[1]} and fetch it again"
            )
    return lines_by_language


def _read_archive(path: Path, language_by_member: dict[str, str]) -> dict[str, list[str]]:
    """Return the segments (sentences) of a test set's archive, by language."""
    lines_by_language = {}
    for member, stream in open_members(path, language_by_member):
        segments = read_segments(stream.read().decode("utf-8"), f"{path}: {member}")
        lines_by_language[language_by_member[member]] = list(segments)
    return lines_by_language


def _read_plain(
    published: PublicTestset, languages: Sequence[str], folder: Path, mirror: str | None
) -> dict[str, list[str]]:
    """Return the lines of a test set's plain text, by language.

    Plain text files that are not in `folder` are first copied from the mirror into `folder`, where
    the next call finds them.
    """
    lines_by_language = {}
    for language in languages:
        plain = published.plain_by_language[language]
        path = folder / Path(plain.path).name
        url = ""
        if mirror is not None:
            url = f"{mirror.rstrip('/')}/{published.mirror_folder}/{plain.path}"
        file = download_file([PublishedFile(path.name, url, plain.checksum)], folder)
        if file.path != path:  # a file of a local mirror stays there
            with replace_on_success(path) as partial_path:
                partial_path.write_bytes(file.path.read_bytes())
        lines_by_language[language] = list(read_lines(path))
    return lines_by_language


def _published_in_recipe(testset: str, language_pair: str) -> PublicTestset | None:
    """Return a test set's entry in the corpus file of WMT14 for a language pair, or None if the
    file has no entry for the test set.
    """
    name = f"wmt14_{language_pair.replace('-', '_')}"
    if not (CONFIG_FOLDER / "corpora" / f"{name}.yaml").exists():
        return None
    source = read_corpus(name).source
    # Only corpora of archives list public test sets.
    return source.testset_by_name.get(testset) if isinstance(source, ArchiveSource) else None
