"""Estimates, from a data-bin only, the share of misaligned training pairs: pairs whose source and
target are two different sentences.

Co-occurrences of symbols are counted on one sample of pairs. The source of each pair of a second
sample is then compared with its own target and with some targets of nearly the same length from
other pairs: `aiayn.scoring.outputs.line_match` says how many targets are explained no better than
these.

The two samples share no pair: two rare symbols that co-occur once would otherwise count as a
translation.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse

from aiayn.scoring.outputs.line_match import Misfit, count_misfits
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
Matrix = Any  # scipy.sparse.csr_matrix; scipy has no types


def estimate_misaligned(source: Side, target: Side, rng: np.random.Generator) -> Misfit | None:
    """Return the estimate for the sides of a split; None for too few pairs or too rare words."""
    num_pairs = min(len(source), len(target))
    num_counted = min(NUM_COUNTED, num_pairs // 2)
    num_compared = min(NUM_COMPARED, num_pairs - num_counted)
    if num_compared < MIN_COMPARED:
        return None
    drawn = rng.permutation(num_pairs)[: num_counted + num_compared]
    sources, targets = _presence(source, drawn), _presence(target, drawn)
    counted = [side[:num_counted] for side in (sources, targets)]
    for side in counted:
        if side.nnz < MIN_OCCURRENCES * np.count_nonzero(side.getnnz(axis=0)):
            return None
    hints = translation_hints(*counted)
    sources, targets = sources[num_counted:], targets[num_counted:]
    num_words = np.maximum(1, targets.getnnz(axis=1))

    def explained(pair: int, candidates: Sequence[int]) -> list[float]:
        hinted = sources[pair] @ hints
        shares = (targets[candidates] @ hinted.T).toarray().ravel() / num_words[candidates]
        return shares.tolist()  # type: ignore[no-any-return]

    lengths = target.lengths[drawn[num_counted:]]
    return count_misfits(lengths, num_compared // 20, explained, rng)


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
