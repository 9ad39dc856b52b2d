"""Tests whether translations and references have the same sentences, order and language.

If they do not, the BLEU says nothing about the model. `aiayn score` refuses lines in another order,
and says in one line what else it doubts.
"""

import re
import shlex
from collections import Counter
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from aiayn.data.text.detokenise import join_any_pieces
from aiayn.errors import ScoreError

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
MIN_DISTINCT, MIN_VARIETY = 0.5, 0.5
MAX_UPPER = 0.5  # of the letters
MIN_CAPITALS = 5.0  # that the other text's share predicts; none by chance has one in 148
LOWER_SHARE = 0.01  # of the expected capitals, below which a text is lower-cased throughout
ORDER_SEED = 2014
MAX_SHIFT = 5  # lines that a translation may be away from its reference
MIN_BETTER = 0.5  # lines that fit better less those that fit worse, of all that are moved
MIN_MOVED_WORDS = 30  # that a move of all following lines must gain: several sentences


class Shift(NamedTuple):
    """From the line `first_line` on (from 1), each translation stands `offset` lines too late; a
    negative offset is too early: lines are missing before it.
    """

    first_line: int
    offset: int

    @property
    def command(self) -> str:
        """Return the command that moves the lines back, as a filter of stdin."""
        if self.offset < 0:
            # The hold space is empty: it is printed once for each missing line.
            return f"sed '{self.first_line}{{x;{'p;' * -self.offset}x}}'"
        return f"sed '{self.first_line},{self.first_line + self.offset - 1}d'"


def find_order_fault(
    hypotheses: Sequence[str], references: Sequence[str]
) -> tuple[str, str] | None:
    """Return why the lines are not in the references' order, and the command that helps, '' if none
    is known; None if they are in order, or if too few words agree to tell.
    """
    shift = find_shift(hypotheses, references)
    if shift is not None:
        direction = "early: lines are missing" if shift.offset < 0 else "late: lines are repeated"
        number = abs(shift.offset)
        words = f"from line {shift.first_line} on each line stands {number} too {direction}"
        return words, shift.command
    if not is_varied(hypotheses, references):
        return None
    if match_lines(hypotheses, references).share <= MAX_OUT_OF_ORDER:
        return None
    words = (
        "the words are the references', the order of the lines is not: they fit their own"
        " reference no better than another line's (of fairseq-generate give the whole log: its"
        " lines are sorted by number)"
    )
    return words, ""


def check_order(hypotheses: Sequence[str], references: Sequence[str], *, path: str) -> None:
    """Check that the lines are in the order of the references.

    Raises:
        ScoreError: with the line at which the order changes, if it is known, and the next step.
    """
    fault = find_order_fault(hypotheses, references)
    if fault is None:
        return
    words, command = fault
    step = "put both files into the order of the source"
    if command:
        step = f"move the lines back: {command} < {shlex.quote(path)} > moved.txt"
    raise ScoreError(f"{path}: {words}; {step}; --no-warning scores the lines as they are")


def find_shift(hypotheses: Sequence[str], references: Sequence[str]) -> Shift | None:
    """Return the first line from which all lines fit the references of other lines much better.

    For each offset the words in common of the lines after each place are compared with those in
    place. The best place and offset must gain `MIN_MOVED_WORDS`, and most lines must fit better.
    """
    bags = [Counter(line.split()) for line in hypotheses]
    expected = [Counter(line.split()) for line in references]
    num_lines = len(references)
    in_place = _shared_words(bags, expected, 0, num_lines)
    best, gain = None, float(MIN_MOVED_WORDS)
    for offset in range(-MAX_SHIFT, MAX_SHIFT + 1):
        if offset == 0 or len(hypotheses) != num_lines:
            continue
        moved = _shared_words(bags, expected, offset, num_lines)
        # What the lines from each place to the end gain.
        gains = np.cumsum((moved - in_place)[::-1])[::-1]
        place = int(np.argmax(gains))
        differences = np.sign(moved - in_place)[place:]
        if gains[place] > gain and differences.sum() > MIN_BETTER * len(differences):
            best, gain = Shift(place + 1, offset), float(gains[place])
    return best


def _shared_words(
    bags: Sequence[Counter[str]], expected: Sequence[Counter[str]], offset: int, num_lines: int
) -> npt.NDArray[np.int64]:
    """Return the words in common of each reference and the line `offset` after it."""
    shared = np.zeros(num_lines, dtype=np.int64)
    for index in range(max(0, -offset), min(num_lines, len(bags) - offset)):
        shared[index] = (bags[index + offset] & expected[index]).total()
    return shared


def find_doubts(hypotheses: Sequence[str], references: Sequence[str]) -> list[str]:
    """Return one sentence for each thing that may be wrong with translations that are scored."""
    doubts = []
    letters = [character for line in hypotheses for character in line if character.isalpha()]
    if sum(map(str.isupper, letters)) > MAX_UPPER * max(1, len(letters)):
        doubts.append(
            "the translations are upper case, which counts as other words; the definitions that end"
            " with _lc ignore case"
        )
    elif is_lower_cased(hypotheses, references):
        doubts.append(
            "the translations are lower case; the definitions that end with _lc ignore it"
        )
    if find_other_language(hypotheses, references) is not None:
        doubts.append(
            "the translations are not in the references' language: is it the source? Check the"
            " file, and --language-pair"
        )
    return doubts


def is_lower_cased(lines: Sequence[str], others: Sequence[str]) -> bool:
    """Return whether a text is lower-cased throughout where another text has capitals."""
    num_capitals, num_letters = _count_capitals(lines)
    num_others, num_other_letters = _count_capitals(others)
    expected = num_letters * num_others / max(1, num_other_letters)
    return expected >= MIN_CAPITALS and num_capitals <= LOWER_SHARE * expected


def _count_capitals(lines: Sequence[str]) -> tuple[int, int]:
    """Return the numbers of capitals and of letters that have case."""
    text = "".join(lines)
    num_capitals = sum(map(str.isupper, text))
    return num_capitals, num_capitals + sum(map(str.islower, text))


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
