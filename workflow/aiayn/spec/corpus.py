"""Types and checks of a corpus file: language pair, source of the text, test sets, and how it is
split in pieces.

Of published archives (kind `archives`) it has sizes, checksums, members, counts and addresses. An
unpublished size or count is `unknown`: the observed one is recorded and logged, but verifies
nothing. `aiayn.spec.system.read_corpus` reads it.
"""

import re
from collections.abc import Callable, Iterable
from pathlib import PurePosixPath
from typing import Annotated, Literal

import msgspec

from aiayn.spec.training import Count, Spec

_CONTINUATION = (
    "@@"  # at a word's end it would join the next one, once translations are put together
)
UNKNOWN: Literal["unknown"] = "unknown"
# Of one side, with LF: newstest's sides have 111 to 148 bytes a line; what is written is checked by
# the disk itself.
ESTIMATED_BYTES_PER_LINE = 200
ESTIMATED_UNPACKED_PER_PACKED = 4  # where no number of lines is published
DIGEST_LENGTH_BY_ALGORITHM = {"sha256": 64, "sha1": 40, "md5": 32}
_CHECKSUM = re.compile(r"(?P<algorithm>[a-z0-9]+):(?P<digest>[0-9a-f]+)")
PlacedCheck = Callable[[str, bool, object, str], None]  # key, is_right, value, expected

Published = int | Literal["unknown"]
ArchiveFormat = Literal["tgz", "tar", "zip", "parquet"]


class SubwordSpec(Spec, frozen=True, kw_only=True):
    """Byte-pair encoding (section 5.1); `joint`: one vocabulary of both languages, else one each.

    `vocabulary_size` counts characters and merges by sentencepiece, whose three control symbols and
    256 bytes come on top; by subword-nmt it counts merges alone. sentencepiece learns from
    `sample_lines` lines, drawn with `sample_seed` from both sides if joint, or from all (null);
    subword-nmt from all.
    """

    vocabulary_size: int
    joint: bool
    method: Literal["sentencepiece", "subword_nmt"] = "sentencepiece"
    sample_lines: Count | None = None
    sample_seed: Annotated[int, msgspec.Meta(ge=0)] = 1


class CleanSpec(Spec, frozen=True, kw_only=True):
    """Which training pairs are dropped, beside those with an empty side; null drops none. Test sets
    are never touched.

    Lengths are in `unit`: words (what blanks separate), tokens (words after `tokenise`) or pieces
    (after segment).
    `max_word_characters`: a pair with a longer word or token goes; Moses' clean-corpus-n.perl has
    1000.
    """

    max_words: int | None
    max_length_ratio: float | None
    deduplicate: bool
    unit: Literal["words", "tokens", "pieces"] = "words"
    max_word_characters: int | None = None

    def length_reason(self, num_source: int, num_target: int) -> str | None:
        """Return `empty_side`, `too_long`, `length_ratio` or None for the lengths of a pair's
        sides.

        The ratio is of the longer side to the shorter, and a pair of just the limit stays, as in
        clean-corpus-n.perl.
        """
        shorter, longer = (
            (num_source, num_target) if num_source < num_target else (num_target, num_source)
        )
        if shorter == 0:
            return "empty_side"
        if self.max_words is not None and longer > self.max_words:
            return "too_long"
        if self.max_length_ratio is not None and longer / shorter > self.max_length_ratio:
            return "length_ratio"
        return None


class PublicFile(Spec, frozen=True, kw_only=True):
    """A published file: its path below the corpus's `public_url`, and its SHA-256."""

    path: str
    sha256: str


class ShippedSource(Spec, frozen=True, kw_only=True, tag="shipped", tag_field="kind"):
    """Text in a packed file beside the corpus file: a line a pair, of split, source and target,
    with tabs between.

    `dictionary` is a file of lines of an English word, in lower case, a tab and its translation;
    null if there is none.
    """

    file: str
    sha256: str
    num_pairs_by_split: dict[str, int]
    dictionary: str | None = None


class ParallelSource(Spec, frozen=True, kw_only=True, tag="parallel", tag_field="kind"):
    """Plain line-aligned files, gzipped or not: file_by_language for each split (`train` and the
    test sets).
    """

    mirror_folder: str
    public_url: str
    file_by_split: dict[str, dict[str, PublicFile]]


class SegmentedSource(ParallelSource, frozen=True, kw_only=True, tag="segmented"):
    """Files of text that others tokenised and segmented, `@@ ` inside words; skips clean and
    segment.
    """


class ListedSource(Spec, frozen=True, kw_only=True, tag="listed", tag_field="kind"):
    """A few pairs, written in the corpus file, a side by language; each word is a piece."""

    pairs_by_split: dict[str, list[dict[str, str]]]


class PackedFile(Spec, frozen=True, kw_only=True):
    """One file that holds an archive's text.

    `checksum` is `sha256:<hex>`, a weaker `sha1:` or `md5:` where no SHA-256 is published, or
    `unknown`. `path_by_place` has its path below the base URL of each public place, in the order in
    which they are tried.
    """

    num_bytes: Published
    checksum: str
    path_by_place: dict[str, str]

    @property
    def name(self) -> str:
        """The file's name, the same at every place."""
        return PurePosixPath(next(iter(self.path_by_place.values()))).name

    @property
    def published_bytes(self) -> int | None:
        """The file's size, None where none is published."""
        return None if self.num_bytes == UNKNOWN else self.num_bytes


class ArchiveSpec(Spec, frozen=True, kw_only=True):
    """A published archive: its text's members and pairs, and the files that hold them, any of which
    will do.

    Members named `.gz` are unpacked, members named `.sgm` read by their markup; a parquet file's
    member is the dotted name of a column. `num_lines` is the published number of each side.
    """

    num_lines: Published
    member_by_language: dict[str, str]
    file_by_format: dict[ArchiveFormat, PackedFile]

    @property
    def published_lines(self) -> int | None:
        """The number of lines of each side, None where none is published."""
        return None if self.num_lines == UNKNOWN else self.num_lines

    @property
    def first_file(self) -> PackedFile:
        """The file that is downloaded where all can be had."""
        return next(iter(self.file_by_format.values()))

    @property
    def text_bytes(self) -> int:
        """An estimate of what both sides take unpacked."""
        if self.published_lines is None:
            return ESTIMATED_UNPACKED_PER_PACKED * (self.first_file.published_bytes or 0)
        return 2 * ESTIMATED_BYTES_PER_LINE * self.published_lines


class PlainText(Spec, frozen=True, kw_only=True):
    """One side of a test set as plain text, where a mirror has it below the test set's folder."""

    path: str
    checksum: str


class PublicTestset(Spec, frozen=True, kw_only=True):
    """A public test set: sacreBLEU's name of it, its number of lines, and its plain text where that
    is known.
    """

    sacrebleu_name: str
    num_lines: int
    mirror_folder: str | None = None
    plain_by_language: dict[str, PlainText] = msgspec.field(default_factory=dict)


class DeadDownload(Spec, frozen=True, kw_only=True):
    """Ready-made data of a recipe that can no longer be downloaded; `rebuild` says what replaces
    it.
    """

    name: str
    url: str
    checksum: str
    num_pairs: Published
    since: str
    rebuild: str


class ArchiveSource(Spec, frozen=True, kw_only=True, tag="archives", tag_field="kind"):
    """Published archives (WMT): `archives` names those that are joined, in order; others are only
    described.

    A public place is a name and a base URL; a mirror has a folder of each place's name, with the
    same paths below.
    """

    licence: str
    archives: list[str]
    base_url_by_place: dict[str, str]
    archive_by_name: dict[str, ArchiveSpec]
    testset_by_name: dict[str, PublicTestset]
    dead_download: DeadDownload | None = None

    def joined(self) -> dict[str, ArchiveSpec]:
        """Return the archives that are joined, by name, in order."""
        return {name: self.archive_by_name[name] for name in self.archives}


class CorpusSpec(Spec, frozen=True, kw_only=True):
    """A corpus: language pair, where its text comes from, its test set of each role, and how it is
    split in pieces.

    `inherits` names the corpus whose keys it takes and overrides. `normalise` and `tokenise` are
    Moses' scripts before November 2018, run on training text and test sets; `moses_aggressive` is
    `tokenizer.perl -a`.
    """

    name: str
    description: str
    language_pair: Literal["en-de", "en-fr", "en-es"]
    source: ShippedSource | ParallelSource | SegmentedSource | ListedSource | ArchiveSource
    dev_testset: str
    test_testset: str
    further_testsets: list[str] = msgspec.field(default_factory=list)
    normalise: Literal["none", "moses"] = "none"
    tokenise: Literal["none", "moses", "moses_aggressive"] = "none"
    clean: CleanSpec | None = None
    subword: SubwordSpec | None = None
    inherits: str | None = None

    @property
    def source_language(self) -> str:
        """The language that is translated from."""
        return self.language_pair.split("-")[0]

    @property
    def target_language(self) -> str:
        """The language that is translated into."""
        return self.language_pair.split("-")[1]

    @property
    def is_segmented(self) -> bool:
        """True if the text is segmented already."""
        return isinstance(self.source, SegmentedSource | ListedSource)

    @property
    def testsets(self) -> tuple[str, ...]:
        """All test sets: dev, test, then the further ones."""
        return (self.dev_testset, self.test_testset, *self.further_testsets)

    def testset_of(self, role: str) -> str:
        """Return the test set that plays a role, `dev` or `test`."""
        return {"dev": self.dev_testset, "test": self.test_testset}[role]


def check_corpus(corpus: CorpusSpec, check: PlacedCheck) -> None:
    """Call `check(key, is_right, value, expected)` for every rule that a corpus's values must keep
    together.
    """
    splits = {"train"}
    names_by_key = {"dev_testset": [corpus.dev_testset], "test_testset": [corpus.test_testset]}
    for key, names in {**names_by_key, "further_testsets": corpus.further_testsets}.items():
        for name in names:
            check(key, name not in splits, name, "a name that no other split of the corpus has")
            splits.add(name)
    needs_subword = not corpus.is_segmented
    expected = (
        "given, as the text comes in words" if needs_subword else "absent: the text comes in pieces"
    )
    check("subword", (corpus.subword is not None) == needs_subword, corpus.subword, expected)
    check("clean", (corpus.clean is not None) == needs_subword, corpus.clean, expected)
    if corpus.clean is not None:
        units = ("words" if corpus.tokenise == "none" else "tokens", "pieces")
        expected = f"{' or '.join(units)}, as tokenise is {corpus.tokenise}"
        check("clean.unit", corpus.clean.unit in units, corpus.clean.unit, expected)
    if corpus.subword is not None:
        num_lines = corpus.subword.sample_lines
        expected = "null: subword_nmt learns from the counts of all words"
        is_sampled = num_lines is None or corpus.subword.method == "sentencepiece"
        check("subword.sample_lines", is_sampled, num_lines, expected)
    if isinstance(corpus.source, ParallelSource):
        for split in ("train", *corpus.testsets):
            languages = sorted(corpus.source.file_by_split.get(split, {}))
            expected = f"one file of each language of {corpus.language_pair} for split {split}"
            is_whole = languages == sorted((corpus.source_language, corpus.target_language))
            check("source.file_by_split", is_whole, f"{split}: {languages}", expected)
    elif isinstance(corpus.source, ShippedSource):
        sizes = corpus.source.num_pairs_by_split
        check(
            "source.num_pairs_by_split",
            set(sizes) == splits,
            sizes,
            f"the splits {', '.join(sorted(splits))}",
        )
    elif isinstance(corpus.source, ListedSource):
        _check_pairs(corpus, corpus.source, check)
    elif isinstance(corpus.source, ArchiveSource):
        check_archives(
            corpus.source, (corpus.source_language, corpus.target_language), corpus.testsets, check
        )


def _check_pairs(corpus: CorpusSpec, source: ListedSource, check: PlacedCheck) -> None:
    """Check that the splits are those of the corpus, that no pair lacks a side, and that every side
    is words.
    """
    splits = ("train", *corpus.testsets)
    for split in splits:
        pairs = source.pairs_by_split.get(split)
        check(
            "source.pairs_by_split",
            bool(pairs),
            f"{split}: {pairs}",
            f"at least one pair of split {split}",
        )
    for split, pairs in source.pairs_by_split.items():
        key = f"source.pairs_by_split.{split}"
        check(
            key,
            split in splits,
            split,
            f"one of the splits that the corpus names: {', '.join(splits)}",
        )
        for pair_index, pair in enumerate(pairs):
            is_whole = sorted(pair) == sorted((corpus.source_language, corpus.target_language))
            expected = f"one side of each language of {corpus.language_pair}"
            check(f"{key}[{pair_index}]", is_whole, pair, expected)
            for language, line in pair.items():
                expected = "words with one blank between two, none ending in @@"
                words = line.split()
                is_right = bool(words) and line == " ".join(words)
                is_right = is_right and not any(word.endswith(_CONTINUATION) for word in words)
                check(f"{key}[{pair_index}].{language}", is_right, line, expected)


def split_checksum(checksum: str) -> tuple[str, str]:
    """Return algorithm and digest of `algorithm:digest`."""
    algorithm, _, digest = checksum.partition(":")
    return algorithm, digest


def is_checksum(checksum: str) -> bool:
    """Return whether text is a whole `sha256:`, `sha1:` or `md5:` checksum, or `unknown`."""
    match = _CHECKSUM.fullmatch(checksum)
    if match is None:
        return checksum == UNKNOWN
    return len(match["digest"]) == DIGEST_LENGTH_BY_ALGORITHM.get(match["algorithm"])


def check_archives(
    source: ArchiveSource, languages: Iterable[str], testsets: Iterable[str], check: PlacedCheck
) -> None:
    """Call `check(key, is_right, value, expected)` for every rule that a recipe's values must keep
    together.
    """
    known, languages = list(source.archive_by_name), sorted(languages)
    check("source.archives", bool(source.archives), source.archives, "at least one archive")
    check(
        "source.archives",
        len(set(source.archives)) == len(source.archives),
        source.archives,
        "each once",
    )
    for archive_index, name in enumerate(source.archives):
        check(
            f"source.archives[{archive_index}]", name in known, name, f"one of {', '.join(known)}"
        )
    for place, base_url in source.base_url_by_place.items():
        is_url = base_url.startswith(("http://", "https://", "file://"))
        check(
            f"source.base_url_by_place.{place}",
            is_url,
            base_url,
            "a http://, https:// or file:// URL",
        )
    for name, archive in source.archive_by_name.items():
        key = f"source.archive_by_name.{name}"
        members = sorted(archive.member_by_language)
        check(
            f"{key}.member_by_language",
            members == languages,
            members,
            f"a member of each language: {languages}",
        )
        check(
            f"{key}.file_by_format",
            bool(archive.file_by_format),
            archive.file_by_format,
            "at least one file",
        )
        for archive_format, packed in archive.file_by_format.items():
            _check_file(source, packed, f"{key}.file_by_format.{archive_format}", check)
    for name in testsets:
        testset = source.testset_by_name.get(name)
        expected = f"an entry of each test set of the corpus, {name} among them"
        check("source.testset_by_name", testset is not None, list(source.testset_by_name), expected)
    for name, testset in source.testset_by_name.items():
        key = f"source.testset_by_name.{name}"
        check(
            key,
            testset.mirror_folder is not None or not testset.plain_by_language,
            testset.mirror_folder,
            "a mirror_folder, which plain_by_language needs",
        )
        for language, plain in testset.plain_by_language.items():
            _check_checksum(plain.checksum, f"{key}.plain_by_language.{language}", check)
    if source.dead_download is not None:
        _check_checksum(source.dead_download.checksum, "source.dead_download", check)


def _check_file(source: ArchiveSource, packed: PackedFile, key: str, check: PlacedCheck) -> None:
    _check_checksum(packed.checksum, key, check)
    check(
        f"{key}.path_by_place",
        bool(packed.path_by_place),
        packed.path_by_place,
        "at least one public place",
    )
    for place, path in packed.path_by_place.items():
        known = ", ".join(source.base_url_by_place)
        check(
            f"{key}.path_by_place.{place}",
            place in source.base_url_by_place,
            place,
            f"one of {known}",
        )
        is_named_alike = PurePosixPath(path).name == packed.name
        check(
            f"{key}.path_by_place.{place}",
            is_named_alike,
            path,
            f"a path to {packed.name}, as at the first place",
        )


def _check_checksum(checksum: str, key: str, check: PlacedCheck) -> None:
    check(
        f"{key}.checksum",
        is_checksum(checksum),
        checksum,
        "sha256:, sha1: or md5: and all its digits, or unknown",
    )
