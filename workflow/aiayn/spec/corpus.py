"""Types and checks of a corpus file: language pair, source of the text, test sets, and how it is split in pieces.

`aiayn.spec.system.read_corpus` reads it.
"""

from typing import Literal

import msgspec

from aiayn.spec.recipe import ArchiveSource, PlacedCheck, check_archives
from aiayn.spec.training import Spec

_CONTINUATION = "@@"  # at a word's end it would join the next one, once translations are put together


class SubwordSpec(Spec, frozen=True, kw_only=True):
    """Byte-pair encoding (section 5.1); `joint`: one vocabulary of both languages, else one each.

    `vocabulary_size` counts characters and merges by sentencepiece, whose three control symbols and 256 bytes come on
    top; by subword-nmt it counts merges alone. sentencepiece learns from `sample_lines` lines, drawn with
    `sample_seed` from both sides if joint, or from all (null); subword-nmt from all.
    """

    vocabulary_size: int
    joint: bool
    method: Literal["sentencepiece", "subword_nmt"] = "sentencepiece"
    sample_lines: int | None = None
    sample_seed: int = 1


class CleanSpec(Spec, frozen=True, kw_only=True):
    """Which training pairs are dropped, beside those with an empty side; null drops none. Test sets are never touched.

    Lengths are in `unit`: words (what blanks separate), tokens (words after `tokenise`) or pieces (after segment).
    `max_word_characters`: a pair with a longer word or token goes; Moses' clean-corpus-n.perl has 1000.
    """

    max_words: int | None
    max_length_ratio: float | None
    deduplicate: bool
    unit: Literal["words", "tokens", "pieces"] = "words"
    max_word_characters: int | None = None

    def length_reason(self, num_source: int, num_target: int) -> str | None:
        """Return `empty_side`, `too_long`, `length_ratio` or None for the lengths of a pair's sides.

        The ratio is of the longer side to the shorter, and a pair of just the limit stays, as in clean-corpus-n.perl.
        """
        shorter, longer = (num_source, num_target) if num_source < num_target else (num_target, num_source)
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
    """Text in a packed file beside the corpus file: a line a pair, of split, source and target, with tabs between.

    `dictionary` is a file of lines of an English word, in lower case, a tab and its translation; null if there is none.
    """

    file: str
    sha256: str
    num_pairs_by_split: dict[str, int]
    dictionary: str | None = None


class ParallelSource(Spec, frozen=True, kw_only=True, tag="parallel", tag_field="kind"):
    """Plain line-aligned files, gzipped or not: file_by_language for each split (`train` and the test sets)."""

    mirror_folder: str
    public_url: str
    file_by_split: dict[str, dict[str, PublicFile]]


class SegmentedSource(ParallelSource, frozen=True, kw_only=True, tag="segmented"):
    """Files of text that others tokenised and segmented, `@@ ` inside words; skips clean and segment."""


class ListedSource(Spec, frozen=True, kw_only=True, tag="listed", tag_field="kind"):
    """A few pairs, written in the corpus file, a side by language; each word is a piece."""

    pairs_by_split: dict[str, list[dict[str, str]]]


class CorpusSpec(Spec, frozen=True, kw_only=True):
    """A corpus: language pair, where its text comes from, its test set of each role, and how it is split in pieces.

    `inherits` names the corpus whose keys it takes and overrides. `normalise` and `tokenise` are Moses' scripts before
    November 2018, run on training text and test sets; `moses_aggressive` is `tokenizer.perl -a`.
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
    """Call `check(key, is_right, value, expected)` for every rule that a corpus's values must keep together."""
    splits = {"train"}
    names_by_key = {"dev_testset": [corpus.dev_testset], "test_testset": [corpus.test_testset]}
    for key, names in {**names_by_key, "further_testsets": corpus.further_testsets}.items():
        for name in names:
            check(key, name not in splits, name, "a name that no other split of the corpus has")
            splits.add(name)
    needs_subword = not corpus.is_segmented
    expected = "given, as the text comes in words" if needs_subword else "absent: the text comes in pieces"
    check("subword", (corpus.subword is not None) == needs_subword, corpus.subword, expected)
    check("clean", (corpus.clean is not None) == needs_subword, corpus.clean, expected)
    if corpus.clean is not None:
        units = ("words" if corpus.tokenise == "none" else "tokens", "pieces")
        expected = f"{' or '.join(units)}, as tokenise is {corpus.tokenise}"
        check("clean.unit", corpus.clean.unit in units, corpus.clean.unit, expected)
    if corpus.subword is not None:
        num_lines = corpus.subword.sample_lines
        expected = "at least one line, or null for all"
        check("subword.sample_lines", num_lines is None or num_lines > 0, num_lines, expected)
        expected = "null: subword_nmt learns from the counts of all words"
        is_sampled = num_lines is None or corpus.subword.method == "sentencepiece"
        check("subword.sample_lines", is_sampled, num_lines, expected)
        check("subword.sample_seed", corpus.subword.sample_seed >= 0, corpus.subword.sample_seed, "0 or more")
    if isinstance(corpus.source, ParallelSource):
        for split in ("train", *corpus.testsets):
            languages = sorted(corpus.source.file_by_split.get(split, {}))
            expected = f"one file of each language of {corpus.language_pair} for split {split}"
            is_whole = languages == sorted((corpus.source_language, corpus.target_language))
            check("source.file_by_split", is_whole, f"{split}: {languages}", expected)
    elif isinstance(corpus.source, ShippedSource):
        sizes = corpus.source.num_pairs_by_split
        check("source.num_pairs_by_split", set(sizes) == splits, sizes, f"the splits {', '.join(sorted(splits))}")
    elif isinstance(corpus.source, ListedSource):
        _check_pairs(corpus, corpus.source, check)
    elif isinstance(corpus.source, ArchiveSource):
        check_archives(corpus.source, (corpus.source_language, corpus.target_language), corpus.testsets, check)


def _check_pairs(corpus: CorpusSpec, source: ListedSource, check: PlacedCheck) -> None:
    """Check that the splits are those of the corpus, that no pair lacks a side, and that every side is words."""
    splits = ("train", *corpus.testsets)
    for split in splits:
        pairs = source.pairs_by_split.get(split)
        check("source.pairs_by_split", bool(pairs), f"{split}: {pairs}", f"at least one pair of split {split}")
    for split, pairs in source.pairs_by_split.items():
        key = f"source.pairs_by_split.{split}"
        check(key, split in splits, split, f"one of the splits that the corpus names: {', '.join(splits)}")
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
