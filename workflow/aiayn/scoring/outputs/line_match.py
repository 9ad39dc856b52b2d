"""Tests whether translations and references have the same sentences, order and language.

If they do not, the BLEU is near 0 and says nothing about the model. The doctor tests every output.
`aiayn score` tests only outputs with a BLEU near 0.
"""

import re
from collections import Counter
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from aiayn.data.text.detokenise import join_any_pieces

Score = Callable[[int, Sequence[int]], Sequence[float]]  # how well each of some items fits one
NUM_DECOYS = 19
MAX_OUT_OF_ORDER = 0.5
# of the references' share of frequent words; another language's text has 0.13 of it at most
MIN_LANGUAGE = 0.3
# words of the references that identify their language; they are a third of any German or French
# text
NUM_FREQUENT = 25
MIN_WORDS = 200  # of either side, below which its language is not judged
# Shuffled translations of base on Multi30k have 99 % different lines and 66 % of the references'
# words. Translations of a big that does not read its source have 38 %, a repeated line has 0 %.
MIN_DISTINCT, MIN_VARIETY = 0.5, 0.3
MAX_NEAR_ZERO = (
    5.0  # BLEU: shuffled, shifted, upper-cased and other languages' lines have 0.0 to 3.7
)
MAX_UPPER = 0.5  # of the letters
ORDER_SEED = 2014


def find_doubt(hypotheses: Sequence[str], references: Sequence[str], bleu: float) -> str:
    """Return in a sentence why a BLEU near 0 may not be the model's; '' if nothing speaks for
    it.
    """
    if bleu >= MAX_NEAR_ZERO or not hypotheses:
        return ""
    letters = [character for line in hypotheses for character in line if character.isalpha()]
    if sum(map(str.isupper, letters)) > MAX_UPPER * len(letters):
        return (
            "the translations are upper case, which counts as other words; the definitions that end"
            " with _lc ignore case"
        )
    if find_other_language(hypotheses, references) is not None:
        return (
            "the translations are not in the references' language: check the file, and"
            " --language-pair"
        )
    if (
        is_varied(hypotheses, references)
        and match_lines(hypotheses, references).share > MAX_OUT_OF_ORDER
    ):
        return (
            "the lines are in another order than the references, or shifted: they fit their own"
            " reference no better than another line's; put both into the order of the source"
            " (of fairseq-generate give the whole log as --hypotheses: its lines are sorted by"
            " number)"
        )
    return ""


def variety(lines: Sequence[str], references: Sequence[str]) -> float:
    """Return the number of different words over the number in the references."""
    words = {word for line in lines for word in line.lower().split()}
    expected = {word for line in references for word in line.lower().split()}
    return len(words) / max(1, len(expected))


def is_varied(lines: Sequence[str], references: Sequence[str]) -> bool:
    """Return whether the lines differ as much as those of a model that reads its source."""
    return (
        len(set(lines)) >= MIN_DISTINCT * len(lines) and variety(lines, references) >= MIN_VARIETY
    )


def find_other_language(
    lines: Sequence[str], references: Sequence[str]
) -> tuple[float, float] | None:
    """Return the share of the references' most frequent words in each text if the lines are in
    another language; None if not, and for short texts and lines that repeat themselves.
    """
    counts, expected = _count_words(lines), _count_words(references)
    if min(counts.total(), expected.total()) < MIN_WORDS or not is_varied(lines, references):
        return None
    frequent = [word for word, _ in expected.most_common(NUM_FREQUENT)]
    share = sum(counts[word] for word in frequent) / counts.total()
    expected_share = sum(expected[word] for word in frequent) / expected.total()
    return (share, expected_share) if share < MIN_LANGUAGE * expected_share else None


def _count_words(lines: Sequence[str]) -> Counter[str]:
    return Counter(word.casefold() for line in lines for word in re.findall(r"[^\W\d_]+", line))


def match_lines(hypotheses: Sequence[str], references: Sequence[str]) -> "Misfit":
    """Return how many hypotheses fit their own reference no better than other references of about
    the same length, by words in common.

    The share is 1 for references in random order, and near 0 for a real translation.
    """
    own_words = [set(re.findall(r"\w+", join_any_pieces(line))) for line in hypotheses]
    words = [set(re.findall(r"\w+", join_any_pieces(line))) for line in references]

    def overlaps(index: int, candidates: Sequence[int]) -> list[float]:
        first, others = own_words[index], [words[candidate] for candidate in candidates]
        return [2 * len(first & other) / max(1, len(first) + len(other)) for other in others]

    rng = np.random.default_rng(ORDER_SEED)
    return count_misfits([len(one) for one in words], len(words) // 10, overlaps, rng)


class Misfit(NamedTuple):
    """How many of some items rank in the worse half among decoys.

    The partner of an item that is out of place is a random draw like any decoy, so that its rank is
    uniform. The share of such items is therefore twice the share in the worse half (the estimator
    of null hypotheses of Storey 2002, with lambda 1/2).
    """

    num_worse: int
    num_items: int

    @property
    def share(self) -> float:
        """The share of items that are out of place, about 0 to 1."""
        return 2 * self.num_worse / max(1, self.num_items)


def count_misfits(
    lengths: npt.ArrayLike, window: int, score: Score, rng: np.random.Generator
) -> Misfit:
    """Return how many items rank in the worse half among decoys: items drawn from `window`
    neighbours by length.

    `score` returns how well each of some items fits the first argument; the first of them is its
    own. Ties count half.
    """
    by_length = np.argsort(lengths, kind="stable")
    window = min(len(by_length), max(NUM_DECOYS + 1, window))
    num_decoys = min(NUM_DECOYS, window - 1)
    num_worse = 0
    for place, index in enumerate(by_length):
        begin = min(max(0, place - window // 2), len(by_length) - window)
        others = begin + rng.choice(window - 1, num_decoys, replace=False)
        decoys = by_length[others + (others >= place)]  # never the item itself
        own, *of_decoys = score(int(index), [int(index), *decoys.tolist()])
        rank = sum(one > own for one in of_decoys) + 0.5 * sum(one == own for one in of_decoys)
        num_worse += rank >= (num_decoys + 1) / 2
    return Misfit(num_worse, len(by_length))
