"""Turns words into BLEU's sufficient statistics, and statistics into BLEU (Papineni et al. 2002).

Statistics are an integer array of shape (num_segments, 10), columns in sacreBLEU's order:
hypothesis length, reference length, matched 1- to 4-grams, hypothesis 1- to 4-grams. The sum of any
rows is the statistics of a corpus of these segments.

multi-bleu.perl and fairseq-score agree on this arithmetic but have different words:

| | multi-bleu.perl | fairseq-score |
|---|---|---|
| words are separated by | ASCII white space (perl's `split` of bytes) | Unicode white space |
| words in an empty line | 0 | 1, the end of sentence; two empty lines match |
| `<unk>` in the reference | is a word | never matches |
| `<pad>` first, `</s>` or `<pad>` last | are words | are trimmed |
| -lc | ASCII letters only | not used here |

sacreBLEU's compute_bleu without smoothing has the same arithmetic. The only difference: where
multi-bleu.perl dies because the hypotheses have no words, BLEU is 0 here.

A defect of fairseq-score is not repeated: libbleu.cpp compares hashes of n-grams, computed over the
bytes of the words' numbers as `char`. If that type is signed, as on x86, many bigrams share a hash
(`il faut` and `faut il`, for example), and BLEU is up to 0.01 too high. tests/oracle shows that
nothing else differs. Here n-grams are compared by their words.
"""

from collections import Counter
from collections.abc import Hashable, Sequence
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from sacrebleu.metrics.bleu import BLEUScore

Statistics = npt.NDArray[np.int64]  # (num_segments, 10), see above

MAX_ORDER = 4  # multi-bleu.perl, fairseq-score and sacreBLEU alike
_UNKNOWN_IN_REFERENCE = "<unk> of the reference"  # holds blanks, so it equals no word


def perl_words(line: bytes) -> list[bytes]:
    """Return the words of multi-bleu.perl.

    perl's `split` and Python's `bytes.split` both split at ASCII white space only.
    """
    return line.split()


def fairseq_words(line: str, *, is_reference: bool) -> list[str]:
    """Return the words of fairseq-score (Dictionary.encode_line, then bleu_trim in libbleu.cpp).

    `<pad>` is trimmed at the beginning, `<pad>` and `</s>` at the end. The list is never empty: an
    empty line keeps its `</s>`.
    """
    words, begin = [*line.split(), "</s>"], 0
    while words[begin] == "<pad>":
        begin += 1
    while len(words) > begin + 1 and words[-1] in ("<pad>", "</s>"):
        words.pop()
    return [
        _UNKNOWN_IN_REFERENCE if is_reference and word == "<unk>" else word
        for word in words[begin:]
    ]


def segment_statistics(
    hypotheses: Sequence[Sequence[Hashable]], references: Sequence[Sequence[Hashable]]
) -> Statistics:
    """Return the sufficient statistics of each segment, shape (num_segments, 10).

    The matches of an n-gram are clipped at its count in the reference.
    """
    rows = []
    for hypothesis, reference in zip(hypotheses, references, strict=True):
        matches, totals = [], []
        for order in range(1, MAX_ORDER + 1):
            count_by_ngram = _count_by_ngram(hypothesis, order)
            matches.append((count_by_ngram & _count_by_ngram(reference, order)).total())
            totals.append(count_by_ngram.total())
        rows.append([len(hypothesis), len(reference), *matches, *totals])
    return np.array(rows, dtype=np.int64).reshape(-1, 2 + 2 * MAX_ORDER)


def corpus_bleu(statistics: Statistics) -> "BLEUScore":
    """Return BLEU in percent over all segments, with precisions, brevity penalty and lengths."""
    from sacrebleu.metrics.bleu import BLEU  # here, as it takes 0.1 s, also in training

    sums = statistics.sum(axis=0).tolist()
    hypothesis_length, reference_length = sums[:2]
    matches, totals = sums[2 : 2 + MAX_ORDER], sums[2 + MAX_ORDER :]
    return BLEU.compute_bleu(
        matches, totals, hypothesis_length, reference_length, smooth_method="none"
    )


def _count_by_ngram(words: Sequence[Hashable], order: int) -> Counter[tuple[Hashable, ...]]:
    # zip ends with the shortest of the shifted copies, at the last n-gram.
    return Counter(zip(*(words[start:] for start in range(order)), strict=False))
