"""Checks whether translations and references have the same sentences, in the same order and
language.

If sentences, order or language differ, the BLEU says nothing about the model. `aiayn score` raises
an error for lines in a different order, and prints a warning about other differences.
"""

import re
import shlex
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from aiayn.errors import ScoreError

NUM_DECOYS = 19
MAX_OUT_OF_ORDER = 0.5
# The share of frequent words in the translations over their share in the references. A different
# language has at most 0.13.
MIN_LANGUAGE = 0.3
# The most frequent words of the references identify their language. They are a third of any German
# or French text.
NUM_FREQUENT = 25
MIN_WORDS = 200  # of either side, below which its language is not judged
# Shuffled translations of base on Multi30k have 99 % different lines and 66 % of the references'
# words. Translations of a big that does not read its source have 38 %, a repeated line has 0 %.
MIN_DISTINCT, MIN_VARIETY = 0.5, 0.5
MAX_UPPER = 0.5  # of the letters
MIN_LENGTH = 0.6  # of the references' words
MIN_UPPER = 0.01  # of the other text's share of capitals, below which a text is lower-cased
ORDER_SEED = 2014
MAX_SHIFT = 5  # lines that a translation may be away from its reference
MIN_BETTER = 0.5  # share of moved lines that fit better, minus the share that fit worse
MIN_MOVED_WORDS = 30  # words that moving all following lines must gain: several sentences


class Shift(NamedTuple):
    """A shift of translations against their references: from line `first_line` on (counted from 1),
    each translation is `offset` lines too late. If `offset` is negative, the translations are too
    early, because lines are missing before them.
    """

    first_line: int
    offset: int

    @property
    def command(self) -> str:
        """Return a shell command that reads the translations from stdin and prints them with the
        lines moved back.
        """
        if self.offset < 0:
            # The hold space is empty: it is printed once for each missing line.
            return f"sed '{self.first_line}{{x;{'p;' * -self.offset}x}}'"
        return f"sed '{self.first_line},{self.first_line + self.offset - 1}d'"


def check_order(hypotheses: Sequence[str], references: Sequence[str], *, path: str) -> None:
    """Check that the hypotheses are in the order of the references. If hypotheses and references
    have too few words in common, their order cannot be compared, and the check passes.

    Raises:
        ScoreError: if the hypotheses are in a different order than the references. The message
            contains the line from which on the order differs, if this line is known, and the next
            step.
    """
    shift = find_shift(hypotheses, references)
    if shift is not None:
        direction = "early: lines are missing" if shift.offset < 0 else "late: lines are repeated"
        words = (
            f"from line {shift.first_line} on each line stands {abs(shift.offset)} too {direction};"
            f" move the lines back: {shift.command} < {shlex.quote(path)} > moved.txt"
        )
    elif (
        is_varied(hypotheses, references)
        and share_out_of_order(hypotheses, references) > MAX_OUT_OF_ORDER
    ):
        words = (
            "the words are the references', the order of the lines is not: they fit their own"
            " reference no better than another line's (of fairseq-generate give the whole log: its"
            " lines are sorted by number); put both files into the order of the source"
        )
    else:
        return
    raise ScoreError(f"{path}: {words}; --no-warning scores the lines as they are")


def find_shift(hypotheses: Sequence[str], references: Sequence[str]) -> Shift | None:
    """Find a shift of the translations: return the line from which on translations fit the
    references some lines before or after much better than their own, and the number of lines.
    Return None if the translations are not shifted.

    For each possible `offset`, the number of words that a reference has in common with the
    translation `offset` lines later is compared with the number in common with the translation on
    its own line. The function returns the first line and the offset with the largest gain in common
    words. The gain must be above `MIN_MOVED_WORDS`, and most lines must fit better.
    """
    sides = (hypotheses, references)
    bags, expected = ([Counter(line.split()) for line in lines] for lines in sides)

    def shared_words(offset: int) -> npt.NDArray[np.int64]:
        counts = np.zeros(len(expected), dtype=np.int64)
        for index in range(max(0, -offset), min(len(expected), len(bags) - offset)):
            counts[index] = (bags[index + offset] & expected[index]).total()
        return counts

    # A shift gains words in every line after it, so the gains are summed from each line to the end.
    in_place = shared_words(0)
    best, most_words = None, MIN_MOVED_WORDS
    for offset in (*range(-MAX_SHIFT, 0), *range(1, MAX_SHIFT + 1)):
        gains = shared_words(offset) - in_place
        gains_to_end = np.cumsum(gains[::-1])[::-1]
        first = int(np.argmax(gains_to_end))
        if gains_to_end[first] > most_words and np.sign(gains[first:]).mean() > MIN_BETTER:
            best, most_words = Shift(first + 1, offset), int(gains_to_end[first])
    return best


def find_doubts(hypotheses: Sequence[str], references: Sequence[str]) -> list[str]:
    """Return a sentence for each possible fault of the translations: upper or lower case, too few
    words, or a wrong language.
    """
    doubts = []
    if capitals_share(hypotheses) > MAX_UPPER:
        doubts.append(
            "the translations are upper case, which counts as other words; the definitions that end"
            " with _lc ignore case"
        )
    elif capitals_share(hypotheses) < MIN_UPPER * capitals_share(references):
        doubts.append(
            "the translations are lower case; the definitions that end with _lc ignore case"
        )
    # Cut translations are punished by the brevity penalty, not by wrong words.
    num_words, expected = (len(" ".join(lines).split()) for lines in (hypotheses, references))
    if num_words < MIN_LENGTH * expected:
        doubts.append(
            f"the translations have {num_words:,} words, the references {expected:,}: are they cut?"
        )
    if is_other_language(hypotheses, references):
        doubts.append(
            "the translations are not in the references' language: is it the source? Check the"
            " file, and --language-pair"
        )
    return doubts


def capitals_share(lines: Sequence[str]) -> float:
    """Return the share of capital letters among all upper-case and lower-case letters."""
    text = "".join(lines)
    num_capitals = sum(map(str.isupper, text))
    return num_capitals / max(1, num_capitals + sum(map(str.islower, text)))


def is_varied(lines: Sequence[str], references: Sequence[str]) -> bool:
    """Return whether translations differ from each other as much as the output of a model that does
    not ignore its source.
    """
    words, expected = (set(" ".join(text).lower().split()) for text in (lines, references))
    is_distinct = len(set(lines)) >= MIN_DISTINCT * len(lines)
    return is_distinct and len(words) >= MIN_VARIETY * max(1, len(expected))


def is_other_language(lines: Sequence[str], references: Sequence[str]) -> bool:
    """Return whether translations seem to be in a language other than that of the references: they
    contain few of the references' most frequent words. The result is False for short texts and for
    lines that repeat themselves.
    """
    # Letters only, because numbers are the same in all languages.
    counts, expected = (
        Counter(re.findall(r"[^\W\d_]+", " ".join(text).casefold())) for text in (lines, references)
    )
    if min(counts.total(), expected.total()) < MIN_WORDS or not is_varied(lines, references):
        return False
    # The most frequent words are articles and prepositions, which differ between languages.
    frequent = [word for word, _ in expected.most_common(NUM_FREQUENT)]
    share, expected_share = (
        sum(words[word] for word in frequent) / words.total() for words in (counts, expected)
    )
    return share < MIN_LANGUAGE * expected_share


def share_out_of_order(hypotheses: Sequence[str], references: Sequence[str]) -> float:
    """Estimate the share of hypotheses that are not on the line of their reference, about 0 to 1.

    For each hypothesis, the reference on its line and other references of about the same length are
    ranked by the words that they have in common with the hypothesis. If a hypothesis is on a wrong
    line, the reference on its line is as random as the other references, so the rank of this
    reference is uniform. The share of misplaced hypotheses is therefore twice the share of
    hypotheses whose reference is in the worse half of the ranks (the estimator of the share of true
    null hypotheses of Storey 2002, with lambda 1/2).
    """
    own_words, words = (
        [set(re.findall(r"\w+", line)) for line in lines] for lines in (hypotheses, references)
    )
    # A fixed seed, so that the result for a file is always the same.
    rng = np.random.default_rng(ORDER_SEED)
    # Long lines share more words by chance, so a line is compared with lines of its length.
    by_length = np.argsort([len(line_words) for line_words in words], kind="stable")
    window = min(len(words), max(NUM_DECOYS + 1, len(words) // 10))
    num_decoys = min(NUM_DECOYS, window - 1)
    num_worse = 0
    for rank, index in enumerate(by_length):
        begin = min(max(0, rank - window // 2), len(by_length) - window)
        ranks = begin + rng.choice(window - 1, num_decoys, replace=False)
        decoys = by_length[ranks + (ranks >= rank)]  # never the line itself
        first, fits = own_words[index], []
        for candidate in (index, *decoys):
            other = words[candidate]
            fits.append(2 * len(first & other) / max(1, len(first) + len(other)))
        # A tie is half a rank, as the mean of the signs says.
        num_worse += np.sign(np.subtract(fits[1:], fits[0])).sum() >= 1
    return 2 * num_worse / max(1, len(words))
