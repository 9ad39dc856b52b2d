"""Turns words into BLEU's sufficient statistics, and these into one number (Papineni et al. 2002,
orders 1 to 4).

Statistics are an integer array of shape (num_segments, 10), columns in sacreBLEU's order:
hypothesis length, reference length, matched 1- to 4-grams, hypothesis 1- to 4-grams. Any sum of
rows is a corpus.

multi-bleu.perl and fairseq-score agree on this arithmetic and differ in what a word is:

| | multi-bleu.perl | fairseq-score |
|---|---|---|
| words are separated by | ASCII white space (perl's `split` of bytes): a no-break space joins | Unicode white space |
| an empty line counts | no word | one word, the end of sentence; two empty lines match |
| `<unk>` in the reference | is a word | never matches |
| `<pad>` first, `</s>` or `<pad>` last | are words | are trimmed |
| -lc | ASCII letters only | not used here |

sacreBLEU's compute_bleu without smoothing is the arithmetic of both; only where multi-bleu.perl
dies (no hypothesis has a word) there is 0 instead.

One thing of fairseq-score is omitted: libbleu.cpp compares hashes of n-grams, taken over the bytes
of the words' numbers as `char`. Where that type is signed, as on x86, many bigrams share a hash
(`il faut` and `faut il`, in one text), and up to 0.01 BLEU too much is printed; tests/oracle shows
that nothing else differs. Here an n-gram is its words.
"""  # noqa: E501

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
    """Words as multi-bleu.perl finds them: perl's `split` and Python's on bytes both know ASCII
    white space alone.
    """
    return line.split()


def fairseq_words(line: str, *, is_reference: bool) -> list[str]:
    """Words as fairseq-score finds them (Dictionary.encode_line, then bleu_trim in libbleu.cpp).

    `<pad>` in front is trimmed, `<pad>` and `</s>` behind; the list is never empty: it keeps the
    end of an empty line.
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
    """Sufficient statistics of each segment, shape (num_segments, 10); a match is clipped at the
    reference's count.
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


def corpus_bleu(statistics: Statistics, *, smooth_method: str = "none") -> "BLEUScore":
    """BLEU in percent of the summed segments, with its precisions, brevity penalty, lengths and
    ratio.
    """
    from sacrebleu.metrics.bleu import BLEU  # 0.1 s, which every training and decoding would pay

    sums = statistics.sum(axis=0).tolist()
    hypothesis_length, reference_length = sums[:2]
    matches, totals = sums[2 : 2 + MAX_ORDER], sums[2 + MAX_ORDER :]
    return BLEU.compute_bleu(
        matches, totals, hypothesis_length, reference_length, smooth_method=smooth_method
    )


def _count_by_ngram(words: Sequence[Hashable], order: int) -> Counter[tuple[Hashable, ...]]:
    # The shifted copies end at different places on purpose: the shortest is the last n-gram's.
    return Counter(zip(*(words[start:] for start in range(order)), strict=False))
