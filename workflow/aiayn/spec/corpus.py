"""Defines the keys of a corpus file (YAML) and checks their values: language pair, source of the
text, test sets and segmentation.

If the text comes from published archives (kind `archives`), the corpus file has the size, checksum,
members (files in the archive), number of lines and URLs of each archive. A number of lines that
nobody published is null. If the number of lines of an archive is null, the actual number is
recorded and logged, but cannot be verified. The function `aiayn.spec.system.read_corpus` reads a
corpus file.

To add a corpus, write workflow/config/corpora/<name>.yaml and add rows with the corpus's name to a
sheet (a list of trainings). The text of a corpus without the keys `clean` and `subword` must
already be segmented into subwords, with `@@ ` inside words. The shortest corpus file refers to a
table of sentence pairs. Each line of the table of sentence pairs has split, source and target,
separated by tabs:

    name: greetings
    description: Three greetings.
    language_pair: en-de
    source:
      kind: shipped
      file: greetings.tsv
      sha256: 12ab...
      num_pairs_by_split: {train: 1, dev: 1, test: 1}
    dev_testset: dev
    test_testset: test
"""

from collections.abc import Callable
from pathlib import PurePosixPath
from typing import Annotated, Literal

import msgspec

from aiayn.spec.training import Count, Spec

# For one side, with LF. newstest's sides have 111 to 148 bytes per line.
ESTIMATED_BYTES_PER_LINE = 200
ESTIMATED_UNPACKED_PER_PACKED = 4  # if the number of lines is not published
PlacedCheck = Callable[[str, bool, object, str], None]  # key, is_right, value, expected

Checksum = Annotated[
    str,
    msgspec.Meta(pattern="^(sha256:[0-9a-f]{64}|sha1:[0-9a-f]{40}|md5:[0-9a-f]{32})$"),
]
_Url = Annotated[str, msgspec.Meta(pattern="^(https?|file)://")]
_NOT_EMPTY = msgspec.Meta(min_length=1)

ArchiveFormat = Literal["tgz", "tar", "zip"]


class SubwordSpec(Spec, frozen=True, kw_only=True):
    """The settings of byte-pair encoding (section 5.1). If `joint` is true, source and target
    language share a vocabulary.

    For sentencepiece, `vocabulary_size` counts characters and merges, without the 3 control symbols
    and 256 bytes. For subword-nmt, `vocabulary_size` counts merges only. sentencepiece learns from
    a random sample of `sample_lines` lines, drawn with `sample_seed`, or from all lines if this key
    is null. If the vocabulary is joint, the sample is drawn from the text of both languages.
    subword-nmt learns from all lines.
    """

    vocabulary_size: int
    joint: bool
    method: Literal["sentencepiece", "subword_nmt"] = "sentencepiece"
    sample_lines: Count | None = None
    sample_seed: Annotated[int, msgspec.Meta(ge=0)] = 1


class CleanSpec(Spec, frozen=True, kw_only=True):
    """The limits on the lengths of training pairs. A sentence pair that exceeds a limit is dropped.
    The value null means no limit.

    Sentence pairs with an empty side are always dropped. Test sets are never filtered. The length
    of a sentence is the number of its words, separated by blanks, after tokenisation. A pair with a
    word of more than `max_word_characters` characters is dropped. In Moses' clean-corpus-n.perl a
    word has at most 1000 characters.
    """

    max_words: int | None
    max_length_ratio: float | None
    deduplicate: bool
    max_word_characters: int | None = None


class PublicFile(Spec, frozen=True, kw_only=True):
    """A published file: its path below the corpus's base URL (`public_url`), and its SHA-256."""

    path: str
    sha256: str


class ShippedSource(Spec, frozen=True, kw_only=True, tag="shipped", tag_field="kind"):
    """A text that is part of the checkout, in a compressed file next to the corpus file.

    Each line of the compressed file has split, source and target, separated by tabs. The key
    `dictionary` is null, or a file for the baseline that translates word by word. Each line of the
    dictionary file has an English word in lower case, a tab and the word's translation.
    """

    file: str
    sha256: str
    num_pairs_by_split: dict[str, int]
    dictionary: str | None = None


class ParallelSource(Spec, frozen=True, kw_only=True, tag="parallel", tag_field="kind"):
    """Published line-aligned text files, one for each split and language, compressed by gzip or
    not.
    """

    mirror_folder: str
    public_url: str
    file_by_split: dict[str, dict[str, PublicFile]]


class PackedFile(Spec, frozen=True, kw_only=True):
    """A published file (such as a .tgz) with the text of an archive.

    The checksum of the file is its SHA-256 (`sha256:<hex>`), or a weaker SHA-1 or MD5 (`sha1:`,
    `md5:`) if no SHA-256 is published. The mapping `path_by_place` has the path of the file below
    the base URL of each place (a public server), in the order in which downloads are tried.
    """

    num_bytes: int
    checksum: Checksum
    path_by_place: Annotated[dict[str, str], _NOT_EMPTY]

    @property
    def name(self) -> str:
        """The name of the file, which is the same on every server."""
        return PurePosixPath(next(iter(self.path_by_place.values()))).name


class ArchiveSpec(Spec, frozen=True, kw_only=True):
    """A published archive: the members with its text (a member is a file in an archive), and the
    published files that contain these members.

    If an archive is published in several formats, any of the files may be used. Members with a name
    that ends in `.gz` are decompressed. The number of lines of each language, `num_lines`, is null
    if it is not published.
    """

    num_lines: int | None
    member_by_language: dict[str, str]
    file_by_format: Annotated[dict[ArchiveFormat, PackedFile], _NOT_EMPTY]

    @property
    def first_file(self) -> PackedFile:
        """The published file of this archive that is downloaded first."""
        return next(iter(self.file_by_format.values()))

    @property
    def text_bytes(self) -> int:
        """An estimate of the unpacked size of source and target text, in bytes."""
        if self.num_lines is None:
            return ESTIMATED_UNPACKED_PER_PACKED * self.first_file.num_bytes
        return 2 * ESTIMATED_BYTES_PER_LINE * self.num_lines


class PlainText(Spec, frozen=True, kw_only=True):
    """The plain text of a test set in one language. The path of the plain text (`path`) is relative
    to the test set's folder on a mirror.
    """

    path: str
    checksum: Checksum


class PublicTestset(Spec, frozen=True, kw_only=True):
    """A public test set: its name in sacreBLEU, its number of lines and, if known, files with its
    plain text.
    """

    sacrebleu_name: str
    num_lines: int
    mirror_folder: str | None = None
    plain_by_language: dict[str, PlainText] = msgspec.field(default_factory=dict)


class ArchiveSource(Spec, frozen=True, kw_only=True, tag="archives", tag_field="kind"):
    """A training text that is joined from published archives (WMT). The list `archives` has the
    names of the archives in the order in which they are joined.

    Archives that the corpus file describes but does not list in `archives` are not used. Each
    public server has a name (*place*) and a base URL. A mirror has a folder with the name of each
    server, and the same paths below this folder.
    """

    licence: str
    archives: Annotated[list[str], _NOT_EMPTY]
    base_url_by_place: dict[str, _Url]
    archive_by_name: dict[str, ArchiveSpec]
    testset_by_name: dict[str, PublicTestset]

    def joined(self) -> dict[str, ArchiveSpec]:
        """Return the archives that are joined to the training text by name, in the order of
        joining.
        """
        return {name: self.archive_by_name[name] for name in self.archives}


class CorpusSpec(Spec, frozen=True, kw_only=True):
    """A corpus: its language pair, the source of its text, its test sets, and its segmentation into
    subwords.

    A corpus takes all keys that are not in its own file from the corpus in the key `inherits`. The
    key `tokenise` selects Moses' tokenizer (the version before November 2018) for training text and
    test sets. A corpus without the keys `clean` and `subword` was published tokenised and segmented
    into subwords, so the stages clean and segment are skipped.
    """

    name: str
    description: str
    language_pair: Literal["en-de", "en-fr", "en-es"]
    source: ShippedSource | ParallelSource | ArchiveSource
    dev_testset: str
    test_testset: str
    further_testsets: list[str] = msgspec.field(default_factory=list)
    tokenise: Literal["none", "moses"] = "none"
    clean: CleanSpec | None = None
    subword: SubwordSpec | None = None
    inherits: str | None = None

    @property
    def source_language(self) -> str:
        """The code of the language of the source sentences."""
        return self.language_pair.split("-")[0]

    @property
    def target_language(self) -> str:
        """The code of the language of the translations."""
        return self.language_pair.split("-")[1]

    @property
    def languages(self) -> tuple[str, str]:
        """The source language and the target language."""
        return self.source_language, self.target_language

    @property
    def is_segmented(self) -> bool:
        """Whether the text of the corpus was published already segmented into subwords."""
        return self.subword is None

    @property
    def testsets(self) -> tuple[str, ...]:
        """The names of all test sets of the corpus: dev, test, then the further test sets."""
        return (self.dev_testset, self.test_testset, *self.further_testsets)

    def testset_of(self, role: str) -> str:
        """Return the name of the corpus's dev or test set, depending on `role`, which is `dev` or
        `test`.
        """
        return {"dev": self.dev_testset, "test": self.test_testset}[role]


def check_corpus(corpus: CorpusSpec, check: PlacedCheck) -> None:
    """Check the values of a corpus file. The function `check(key, is_right, value, expected)` is
    called for every rule.
    """
    splits = {"train"}
    names_by_key = {"dev_testset": [corpus.dev_testset], "test_testset": [corpus.test_testset]}
    # Splits are files with the name of the split, so two test sets must have different names.
    for key, names in {**names_by_key, "further_testsets": corpus.further_testsets}.items():
        for name in names:
            check(key, name not in splits, name, "a name that no other split of the corpus has")
            splits.add(name)
    # Limits count words, which text in subwords does not show, so `clean` and `subword` go
    # together.
    expected = "absent: without subword the text comes in pieces"
    if not corpus.is_segmented:
        expected = "given, as the text comes in words"
    check("clean", (corpus.clean is None) == corpus.is_segmented, corpus.clean, expected)
    if corpus.subword is not None:
        num_lines = corpus.subword.sample_lines
        expected = "null: subword_nmt learns from the counts of all words"
        is_sampled = num_lines is None or corpus.subword.method == "sentencepiece"
        check("subword.sample_lines", is_sampled, num_lines, expected)
    # The types allow any split and language. Which of them exist depends on other keys.
    if isinstance(corpus.source, ParallelSource):
        for split in ("train", *corpus.testsets):
            # The test sets of a corpus of parallel files are splits like `train`, and need files as
            # well.
            languages = sorted(corpus.source.file_by_split.get(split, {}))
            expected = f"a file of each language of {corpus.language_pair} for split {split}"
            is_whole = languages == sorted(corpus.languages)
            check("source.file_by_split", is_whole, f"{split}: {languages}", expected)
    elif isinstance(corpus.source, ShippedSource):
        sizes = corpus.source.num_pairs_by_split
        expected = f"the splits {', '.join(sorted(splits))}"
        # Equal sets: a split that no test set uses is probably a misspelt name.
        check("source.num_pairs_by_split", set(sizes) == splits, sizes, expected)
    elif isinstance(corpus.source, ArchiveSource):
        _check_archives(corpus, corpus.source, check)


def _check_archives(corpus: CorpusSpec, source: ArchiveSource, check: PlacedCheck) -> None:
    """Check the values about archives in a corpus file by rules that the types of the keys do not
    express.
    """
    archive_names = list(source.archive_by_name)
    # `archives` is a selection of the described archives. Archives that are not selected are
    # allowed.
    unknown = [name for name in source.archives if name not in archive_names]
    expected = f"names in archive_by_name: {', '.join(archive_names)}"
    check("source.archives", not unknown, unknown, expected)
    languages = sorted(corpus.languages)
    for name, archive in source.archive_by_name.items():
        key = f"source.archive_by_name.{name}"
        members = sorted(archive.member_by_language)
        expected = f"a member of each language: {languages}"
        check(f"{key}.member_by_language", members == languages, members, expected)
        # An address is the base URL of a place and a path, so each place must have a base URL.
        for archive_format, packed in archive.file_by_format.items():
            for public_path in packed.path_by_place:
                file_key = f"{key}.file_by_format.{archive_format}.path_by_place.{public_path}"
                is_known = public_path in source.base_url_by_place
                expected = f"a place of base_url_by_place: {', '.join(source.base_url_by_place)}"
                check(file_key, is_known, public_path, expected)
    testsets = source.testset_by_name
    for name in corpus.testsets:
        expected = f"an entry for each test set of the corpus, including {name}"
        check("source.testset_by_name", name in testsets, list(testsets), expected)
