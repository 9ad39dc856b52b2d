"""Makes translations without training, which a trained system must beat.

Copying the source, replacing word by word, and the target side of the nearest training sentence.
The second needs a dictionary, which only the demo's corpora have.

Memory: the third holds all training pairs as text and the words of their sources as a sparse
matrix, 12 bytes a different word of a line, and, for some test sentences at a time,
`MAX_SIMILARITIES` numbers. It grows with the corpus, so that more than `MAX_TRAIN_PAIRS` are
refused.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence

import numpy as np
import scipy.sparse

from aiayn.errors import ConfigError, CorpusError

MAX_SIMILARITIES = 1 << 25  # held at a time: 256 MiB of float64
MAX_TRAIN_PAIRS = 1_000_000  # some GB; WMT14's millions would take tens
_WORD = re.compile(r"\w+")


def require_few_pairs(num_pairs: int, corpus: str) -> None:
    """Refuse a corpus whose training pairs would not fit into memory.

    Raises:
        ConfigError: naming the corpus, its number of pairs and the limit.
    """
    if num_pairs > MAX_TRAIN_PAIRS:
        raise ConfigError(
            f"corpus {corpus}: {num_pairs:,} training pairs; baselines hold them all in memory and"
            f" take at most {MAX_TRAIN_PAIRS:,}: set `has_baselines: false` in the scale's config"
        )


def translate_word_by_word(sources: Sequence[str], dictionary: Mapping[str, str]) -> list[str]:
    """Return each source with its words replaced in place, from a dictionary of lower-case words.

    A word that the dictionary lacks stays; punctuation stays; a sentence that began with a capital
    begins with one.
    """

    def translate(source: str) -> str:
        line = _WORD.sub(lambda word: dictionary.get(word[0].lower(), word[0]), source)
        return line[:1].upper() + line[1:] if source[:1].isupper() else line

    return [translate(source) for source in sources]


def _weighted_words(
    lines: Sequence[str], index_by_word: Mapping[str, int], weight_by_index: np.ndarray
) -> scipy.sparse.csr_array:
    """Return a row of unit length a line (num_lines x num_words): counts of the known words, times
    their weights.
    """
    row_starts, word_indices, counts = [0], [], []
    for line in lines:
        num_by_word = Counter(_WORD.findall(line.lower()))
        known = [
            (index_by_word[word], num)
            for word, num in sorted(num_by_word.items())
            if word in index_by_word
        ]
        word_indices += [word_index for word_index, _ in known]
        counts += [num for _, num in known]
        row_starts.append(len(word_indices))
    indices = np.array(word_indices, dtype=np.int64)
    values = np.array(counts, dtype=np.float64) * weight_by_index[indices]
    rows = np.repeat(np.arange(len(lines)), np.diff(row_starts))
    lengths = np.sqrt(np.bincount(rows, weights=values**2, minlength=len(lines)))
    values /= lengths[rows]
    return scipy.sparse.csr_array(
        (values, indices, row_starts), shape=(len(lines), len(index_by_word))
    )


def nearest_training_sentence(
    sources: Sequence[str], train_sources: Sequence[str], train_targets: Sequence[str]
) -> list[str]:
    """Return for each source the target of the training source most like it.

    Likeness is the cosine of word counts, a word in n of N training sources weighing log(1 + N /
    n): rare words decide. Among equals the earliest wins; so a source without a known word gets the
    first target.

    Raises:
        CorpusError: if there are no training pairs, or the two sides differ in length.
    """
    if len(train_sources) != len(train_targets) or not train_sources:
        raise CorpusError(
            f"nearest training sentence: {len(train_sources)} sources and"
            f" {len(train_targets)} targets; expected as many of both, at least one; rerun `clean`"
            " for this corpus"
        )
    num_lines_by_word: defaultdict[str, int] = defaultdict(int)
    for line in train_sources:
        for word in sorted(set(_WORD.findall(line.lower()))):
            num_lines_by_word[word] += 1
    index_by_word = {word: word_index for word_index, word in enumerate(num_lines_by_word)}
    num_lines = np.array(list(num_lines_by_word.values()), dtype=np.float64)
    weights = np.log1p(len(train_sources) / num_lines)
    train_words = _weighted_words(
        train_sources, index_by_word, weights
    ).T.tocsr()  # (num_words, num_train)
    nearest: list[int] = []
    num_sources_at_a_time = max(1, MAX_SIMILARITIES // len(train_sources))
    for start in range(0, len(sources), num_sources_at_a_time):
        words = _weighted_words(
            sources[start : start + num_sources_at_a_time], index_by_word, weights
        )
        similarities = (words @ train_words).toarray()  # (num_sources, num_train)
        nearest += (
            similarities.round(12).argmax(axis=1).tolist()
        )  # rounded: equals stay equal on every machine
    return [train_targets[train_index] for train_index in nearest]
