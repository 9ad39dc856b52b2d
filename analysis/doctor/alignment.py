"""Estimates, from a data-bin only, the share of misaligned training pairs: pairs whose source and
target are two different sentences.

Co-occurrences of symbols are counted on one sample of pairs. The source of each pair of a second
sample is then compared with its own target and with some targets of nearly the same length from
other pairs (decoys): which target explains the source best? The target of a true pair wins. The
target of a misaligned pair is a random draw like any decoy, so its rank among the decoys is
uniform. The share of misaligned pairs is therefore twice the share of pairs that rank in the worse
half (the estimator of null hypotheses of Storey 2002, with lambda 1/2).

The two samples share no pair: two rare symbols that co-occur once would otherwise count as a
translation.
"""

from collections.abc import Sequence
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt
from scipy import sparse, stats

from aiayn.scoring.outputs.line_match import num_in_worse_half
from analysis.doctor.data_bin import UNKNOWN, Side

NUM_COUNTED = 40_000  # pairs that are counted at most; half of them if there are fewer
NUM_COMPARED = 4_000  # pairs that are compared at most
MIN_COMPARED = 400  # fewer pairs allow no estimate
MIN_OCCURRENCES = (
    8  # of a symbol on average, in what is counted: with 2 to 4, clean newstests look misaligned
)
MAX_SHARE = 0.05  # an estimate above it is an alarm
_MIN_COOCCURRENCES = 2  # of two symbols, to count as a hint of translation
_PRIOR = 5.0  # cooccurrences by chance that the prior adds
_MIN_RATIO = 1.5  # weaker hints are omitted: they are most of the table and weigh least
Scores = npt.NDArray[np.float64]
Matrix = Any  # scipy.sparse.csr_matrix; scipy has no types


class Alignment(msgspec.Struct, frozen=True, kw_only=True):
    """The estimate, with its 95 % interval by draws."""

    num_compared: int
    misaligned_share: float
    interval: tuple[float, float]

    @property
    def is_alarming(self) -> bool:
        """Whether the share is above `MAX_SHARE`."""
        return self.misaligned_share > MAX_SHARE


def estimate_misaligned(source: Side, target: Side, rng: np.random.Generator) -> Alignment | None:
    """Return the estimate for the sides of a split; None for too few pairs or too rare words."""
    num_pairs = min(len(source), len(target))
    num_counted = min(NUM_COUNTED, num_pairs // 2)
    num_compared = min(NUM_COMPARED, num_pairs - num_counted)
    if num_compared < MIN_COMPARED:
        return None
    order = rng.permutation(num_pairs)
    counted, compared = order[:num_counted], order[num_counted : num_counted + num_compared]
    presences = [_presence(side, counted) for side in (source, target)]
    if any(
        matrix.nnz < MIN_OCCURRENCES * np.count_nonzero(matrix.getnnz(axis=0))
        for matrix in presences
    ):
        return None
    hints = translation_hints(*presences)
    words = [np.unique(target.line(int(index))) for index in compared]

    def explained(pair: int, candidates: Sequence[int]) -> list[float]:
        best = _best_hints(source.line(int(compared[pair])), hints)
        return [_explained(words[candidate], best) for candidate in candidates]

    num_worse = num_in_worse_half(target.lengths[compared], num_compared // 20, explained, rng)
    low, high = stats.binomtest(num_worse, num_compared).proportion_ci(0.95)
    return Alignment(
        num_compared=num_compared,
        misaligned_share=2 * num_worse / num_compared,
        interval=(2 * float(low), min(1.0, 2 * float(high))),
    )


def _presence(side: Side, indices: npt.NDArray[np.int64]) -> Matrix:
    """Return which symbols occur in which lines, 0 or 1, shape (num_lines, num_symbols)."""
    lines = [np.unique(side.line(int(index))) for index in indices]
    columns = np.concatenate(lines)
    rows = np.repeat(np.arange(len(lines)), [len(line) for line in lines])
    is_word = columns >= UNKNOWN  # no ends of sentences
    shape = (len(lines), int(columns.max()) + 1)
    return sparse.csr_matrix(
        (np.ones(is_word.sum(), np.int32), (rows[is_word], columns[is_word])), shape=shape
    )


def translation_hints(source: Matrix, target: Matrix) -> Matrix:
    """Return log(p(t | s) / p(t)), with a prior, where it is well above 0; shape (source symbols,
    target symbols).
    """
    num_lines = source.shape[0]
    cooccurrences = (source.T @ target).tocoo()
    source_counts = np.asarray(source.sum(axis=0)).ravel()
    target_shares = np.asarray(target.sum(axis=0)).ravel() / num_lines
    by_chance = target_shares[cooccurrences.col]
    ratio = (
        (cooccurrences.data + _PRIOR * by_chance)
        / (source_counts[cooccurrences.row] + _PRIOR)
        / by_chance
    )
    is_hint = (ratio > _MIN_RATIO) & (cooccurrences.data >= _MIN_COOCCURRENCES)
    values = np.log(ratio[is_hint])
    return sparse.csr_matrix(
        (values, (cooccurrences.row[is_hint], cooccurrences.col[is_hint])),
        shape=cooccurrences.shape,
    )


def _best_hints(words: npt.NDArray[np.int64], hints: Matrix) -> Scores:
    """Return each target symbol's strongest hint from any word of a source, 0 without a hint."""
    best = np.zeros(hints.shape[1])
    for word in np.unique(words):
        if UNKNOWN <= word < hints.shape[0]:
            begin, end = hints.indptr[word], hints.indptr[word + 1]
            columns = hints.indices[begin:end]
            best[columns] = np.maximum(best[columns], hints.data[begin:end])
    return best


def _explained(words: npt.NDArray[np.int64], best: Scores) -> float:
    known = words[words < len(best)]
    return float(best[known].sum()) / max(1, len(words))
