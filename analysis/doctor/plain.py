"""Brings translations and references into one form: pieces joined, tokens detokenised; compares them without blanks."""

import functools
import re
from collections import Counter
from collections.abc import Sequence

import msgspec
import numpy as np

from aiayn.spec.system import CorpusSpec
from analysis.doctor.alignment import num_in_worse_half
from analysis.doctor.types import Translation
from analysis.scoring.system_output import Treatment, form_of, joined, prepare

NUM_FREQUENT = 25  # words of the references that identify their language; they are a third of any German or French text
MIN_WORDS = 200  # of either side, below which its language is not judged
# What Moses' tokenizer writes in place of characters, and of hyphens with -a.
_ESCAPES = (
    ("&apos;", "'"), ("&quot;", '"'), ("&lt;", "<"), ("&gt;", ">"), ("&#124;", "|"), ("&#91;", "["), ("&#93;", "]"),
    ("@-@", "-"), ("&amp;", "&"),
)  # fmt: skip


class Plain(msgspec.Struct, frozen=True):
    """Translations and references in one form: no pieces; tokens only if both are of one kind (`is_tokens`)."""

    lines: tuple[str, ...]
    references: tuple[str, ...] | None
    is_tokens: bool


def plain(one: Translation, corpus: CorpusSpec) -> Plain:
    """Return the translations and their references in one form."""
    return _plain(one.lines, one.references, corpus.target_language)


def as_text(one: Translation, corpus: CorpusSpec) -> Plain:
    """Return translations and references as scored; tokens detokenised, as printed definitions begin with text."""
    read = plain(one, corpus)
    if not read.is_tokens or read.references is None:
        return Plain(one.lines, one.references, is_tokens=False)
    sides = {"hyp": read.lines, "ref": read.references}
    normalised, _ = prepare(sides, Treatment(detokenises=True), corpus.target_language)
    return Plain(tuple(normalised["hyp"]), tuple(normalised["ref"]), is_tokens=False)


@functools.lru_cache(maxsize=8)
def _plain(lines: tuple[str, ...], references: tuple[str, ...] | None, language: str) -> Plain:
    sides = {"hyp": [joined(line) for line in lines]}
    if references is not None:
        sides["ref"] = [joined(line) for line in references]
    forms = [form_of(side) for side in sides.values()]
    if len({form.token_kinds for form in forms}) > 1:
        sides, _ = prepare(sides, Treatment(detokenises=True), language)
    normalised = [tuple(side) for side in sides.values()]
    is_tokens = all(form.is_tokens for form in forms) and len({form.token_kinds for form in forms}) == 1
    return Plain(normalised[0], normalised[1] if len(normalised) > 1 else None, is_tokens)


def words_share(lines: Sequence[str], references: Sequence[str]) -> tuple[float, float] | None:
    """Return the share of the references' most frequent words in each text; None for short texts."""
    mine, theirs = (
        Counter(word.casefold() for line in side for word in re.findall(r"[^\W\d_]+", line))
        for side in (lines, references)
    )
    if min(mine.total(), theirs.total()) < MIN_WORDS:
        return None
    frequent = [word for word, _ in theirs.most_common(NUM_FREQUENT)]
    return tuple(sum(side[word] for word in frequent) / side.total() for side in (mine, theirs))  # type: ignore[return-value]


def letters(line: str) -> str:
    """Return a line without any white space, Moses' escapes undone: equal for a line raw, tokenised and in pieces."""
    for escaped, plain in _ESCAPES:
        line = line.replace(escaped, plain)
    return "".join(line.split())


def only_letters(line: str) -> str:
    """Return a line's letters and digits alone, without case: equal however its punctuation was normalised."""
    return re.sub(r"[\W_]+", "", line).casefold()


def share_out_of_order(hypotheses: Sequence[str], references: Sequence[str], rng: np.random.Generator) -> float:
    """Return the share of hypotheses whose reference is no better than another's, twice that in the worse half.

    Words in common are counted; the decoys are references of other lines of about the same length. It is 1 if the
    references stand in random order, and near 0 for any real translation.
    """
    own_words, words = ([set(re.findall(r"\w+", joined(line))) for line in side] for side in (hypotheses, references))

    def overlaps(index: int, candidates: Sequence[int]) -> list[float]:
        first, others = own_words[index], [words[candidate] for candidate in candidates]
        return [2 * len(first & other) / max(1, len(first) + len(other)) for other in others]

    num_worse = num_in_worse_half([len(one) for one in words], len(words) // 10, overlaps, rng)
    return 2 * num_worse / max(1, len(words))
