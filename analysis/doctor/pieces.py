"""Pieces and lines: joined without a tokenizer, compared without their blanks, and whose line a translation is of."""

import re
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

WORD_BEGIN = "\u2581"  # sentencepiece's
CONTINUED = re.compile(r"@@( |$)")  # subword-nmt's
NUM_DECOYS = 19
# What Moses' tokenizer writes in place of characters, and of hyphens with -a.
_ESCAPES = (
    ("&apos;", "'"), ("&quot;", '"'), ("&lt;", "<"), ("&gt;", ">"), ("&#124;", "|"), ("&#91;", "["), ("&#93;", "]"),
    ("@-@", "-"), ("&amp;", "&"),
)  # fmt: skip
_BEFORE_PUNCTUATION = re.compile(r"\w [.,;!?](?: |$)")


def joined(pieces: str) -> str:
    """Return pieces as words: `@@ ` goes, and so does what sentencepiece puts in place of blanks."""
    if WORD_BEGIN in pieces:
        return pieces.replace(" ", "").replace(WORD_BEGIN, " ").strip()
    return CONTINUED.sub("", pieces).strip()


def letters(line: str) -> str:
    """Return a line without any white space, Moses' escapes undone: equal for a line raw, tokenised and in pieces."""
    for escaped, plain in _ESCAPES:
        line = line.replace(escaped, plain)
    return "".join(line.split())


def only_letters(line: str) -> str:
    """Return a line's letters and digits alone, without case: equal however its punctuation was normalised."""
    return re.sub(r"[\W_]+", "", line).casefold()


def has_marks(line: str) -> bool:
    """Tell whether a line still holds marks of pieces."""
    return WORD_BEGIN in line or CONTINUED.search(line) is not None


def has_escapes(line: str) -> bool:
    """Tell whether a line still holds what Moses' tokenizer writes in place of a character."""
    return any(escaped in line for escaped, _ in _ESCAPES)


def is_tokenised(line: str) -> bool:
    """Tell whether a punctuation mark stands apart from the word before it."""
    return _BEFORE_PUNCTUATION.search(line) is not None


def share(lines: Sequence[str], is_so: npt.NDArray[np.bool_] | list[bool]) -> float:
    """Return the share of lines of which something holds, 0 for none."""
    return sum(map(bool, is_so)) / max(1, len(lines))


def share_out_of_order(hypotheses: Sequence[str], references: Sequence[str], rng: np.random.Generator) -> float:
    """Return the share of hypotheses whose reference is no better than another's, twice that in the worse half.

    Words in common are counted; the decoys are references of other lines of about the same length. It is 1 if the
    references stand in random order, and near 0 for any translation worth the name.
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
