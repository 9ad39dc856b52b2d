"""Lays out WMT14's recipes side by side, for docs/wmt14.md: a row a property, a column a recipe."""

from collections.abc import Sequence

from tabulate import tabulate

from aiayn.spec.corpus import UNKNOWN, ArchiveSource, split_checksum
from aiayn.spec.system import CorpusSpec

Row = tuple[str, list[str]]
_NOT_SAID = "-"


def recipe_rows(corpora: Sequence[CorpusSpec]) -> list[Row]:
    """Return (what, one cell a corpus) of corpora whose text comes from archives."""
    sources = [corpus.source for corpus in corpora if isinstance(corpus.source, ArchiveSource)]
    archives = list(dict.fromkeys(name for source in sources for name in source.archives))
    rows: list[Row] = [("language pair", [corpus.language_pair for corpus in corpora])]
    rows += [(name, [_pairs_of(source, name) for source in sources]) for name in archives]
    rows += [
        ("pairs as published", [_all_pairs(source) for source in sources]),
        ("download, GB", [f"{_download_bytes(source) / 1e9:.1f}" for source in sources]),
        ("weakest checksum", [_weakest_checksum(source) for source in sources]),
        ("made for, now dead", [_NOT_SAID if s.dead_download is None else s.dead_download.name for s in sources]),
        ("normalise", [corpus.normalise for corpus in corpora]),
        ("tokenise", [corpus.tokenise for corpus in corpora]),
    ]
    return rows + _text_rows(corpora)


def rendered(names: Sequence[str], rows: Sequence[Row]) -> str:
    """Return rows as Markdown, aligned."""
    table = [[what, *cells] for what, cells in rows]
    text: str = tabulate(table, headers=["", *names], tablefmt="github", disable_numparse=True)
    return text


def _text_rows(corpora: Sequence[CorpusSpec]) -> list[Row]:
    cleans = [corpus.clean for corpus in corpora if corpus.clean is not None]  # a recipe's text is never in pieces
    subwords = [corpus.subword for corpus in corpora if corpus.subword is not None]
    sizes = [f"{one.vocabulary_size} {'merges' if one.method == 'subword_nmt' else 'pieces'}" for one in subwords]
    return [
        ("longest side", [_NOT_SAID if one.max_words is None else f"{one.max_words} {one.unit}" for one in cleans]),
        ("longer to shorter", [_NOT_SAID if (r := one.max_length_ratio) is None else f"{r:g}" for one in cleans]),
        (
            "longest word",
            [_NOT_SAID if (n := one.max_word_characters) is None else f"{n} characters" for one in cleans],
        ),
        ("duplicates", ["dropped" if one.deduplicate else "kept" for one in cleans]),
        ("subword", [one.method for one in subwords]),
        ("vocabulary", [f"{size}{', joint' if o.joint else ''}" for size, o in zip(sizes, subwords, strict=True)]),
        ("dev", [corpus.dev_testset for corpus in corpora]),
        ("test", [corpus.test_testset for corpus in corpora]),
    ]


def _pairs_of(source: ArchiveSource, name: str) -> str:
    if name not in source.archives:
        return _NOT_SAID
    num_lines = source.archive_by_name[name].num_lines
    return UNKNOWN if num_lines == UNKNOWN else f"{num_lines:,}"


def _all_pairs(source: ArchiveSource) -> str:
    counts = [archive.num_lines for archive in source.joined().values()]
    known = sum(count for count in counts if count != UNKNOWN)
    return f"{known:,}" if UNKNOWN not in counts else f"{known:,} + {UNKNOWN}"


def _download_bytes(source: ArchiveSource) -> int:
    """Return the size of each archive's first file, where that is published."""
    sizes = [next(iter(archive.file_by_format.values())).num_bytes for archive in source.joined().values()]
    return sum(size for size in sizes if size != UNKNOWN)


def _weakest_checksum(source: ArchiveSource) -> str:
    strength = ("sha256", "sha1", "md5", UNKNOWN)
    files = [packed for archive in source.joined().values() for packed in archive.file_by_format.values()]
    return max((split_checksum(packed.checksum)[0] for packed in files), key=strength.index)
