"""Brings translations and references into one form: pieces joined, tokens detokenised; compares them without blanks."""

import functools
import re
from collections import Counter
from collections.abc import Sequence

import msgspec
import numpy as np

from aiayn.spec.system import CorpusSpec
from analysis.doctor.types import Translation
from analysis.scoring.system_output import Treatment, form_of, joined, prepare

NUM_DECOYS = 19
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
    words = [set(letters_of_words(line)) for line in references]
    order = np.argsort([len(one) for one in words], kind="stable")
    place_of = np.empty(len(order), np.int64)
    place_of[order] = np.arange(len(order))
    window = min(len(order), max(NUM_DECOYS + 1, len(order) // 10))
    num_decoys = min(NUM_DECOYS, window - 1)
    num_worse = 0.0
    for index, hypothesis in enumerate(hypotheses):
        own_words = set(letters_of_words(hypothesis))
        begin = min(max(0, int(place_of[index]) - window // 2), len(order) - window)
        near = [int(other) for other in order[begin : begin + window] if other != index]
        decoys = rng.choice(near, num_decoys, replace=False)
        own = _overlap(own_words, words[index])
        others = [_overlap(own_words, words[int(decoy)]) for decoy in decoys]
        rank = sum(other > own for other in others) + 0.5 * sum(other == own for other in others)
        num_worse += rank >= (num_decoys + 1) / 2
    return 2 * num_worse / max(1, len(hypotheses))


def letters_of_words(line: str) -> list[str]:
    """Return the words of a line, marks of pieces gone, punctuation apart."""
    return re.findall(r"\w+", joined(line))


def _overlap(first: set[str], second: set[str]) -> float:
    return 2 * len(first & second) / max(1, len(first) + len(second))
