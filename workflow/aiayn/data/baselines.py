"""Makes baseline translations without training. A trained system must score better than the
baselines.

This module has two of the three baselines. The first baseline looks up each word in a dictionary,
which only the demo's corpora have. The second baseline returns the target side of the most similar
training sentence. The third baseline, a copy of the source, needs no code here.

The second baseline keeps all training pairs in memory, the word counts of their source sentences as
a sparse matrix, and up to `MAX_SIMILARITIES` similarities. The memory for a baseline grows with the
corpus, so a corpus of more than `MAX_TRAIN_PAIRS` pairs raises an error.
"""

import re
from collections.abc import Mapping, Sequence

import numpy as np
import scipy.sparse

from aiayn.errors import ConfigError, CorpusError

MAX_SIMILARITIES = 1 << 25  # held at a time: 256 MiB of float64
MAX_TRAIN_PAIRS = 1_000_000  # some GB; WMT14's millions would take tens
_WORD = re.compile(r"\w+")


def require_few_pairs(num_pairs: int, corpus: str) -> None:
    """Raise an error if a corpus has more training pairs than fit into memory.

    Raises:
        ConfigError: if there are too many training pairs. The message contains the corpus, the
            number of pairs and the limit.
    """
    if num_pairs > MAX_TRAIN_PAIRS:
        raise ConfigError(
            f"corpus {corpus}: {num_pairs:,} training pairs; baselines hold them all in memory and"
            f" take at most {MAX_TRAIN_PAIRS:,}: set `has_baselines: false` in the scale's config"
        )


def translate_word_by_word(sources: Sequence[str], dictionary: Mapping[str, str]) -> list[str]:
    """Return each source sentence with each word replaced by its translation in a dictionary of
    lower-case words. The order of the words does not change.

    Punctuation and words that are not in the dictionary are copied. If a source sentence begins
    with a capital letter, its translation begins with a capital letter, too.
    """

    def translate(source: str) -> str:
        line = _WORD.sub(lambda word: dictionary.get(word[0].lower(), word[0]), source)
        return line[:1].upper() + line[1:] if source[:1].isupper() else line

    return [translate(source) for source in sources]


def _count_words(lines: Sequence[str], index_by_word: Mapping[str, int]) -> scipy.sparse.csr_array:
    """Return how often each line contains each known word, shape (num_lines, num_words)."""
    # scipy's CSR format: the words of line i are word_indices[row_starts[i]:row_starts[i + 1]].
    row_starts, word_indices = [0], []
    for line in lines:
        source_words = _WORD.findall(line.lower())
        word_indices += [index_by_word[word] for word in source_words if word in index_by_word]
        row_starts.append(len(word_indices))
    counts = scipy.sparse.csr_array(
        (np.ones(len(word_indices)), word_indices, row_starts),
        shape=(len(lines), len(index_by_word)),
    )
    # A word that occurs twice in a line has two entries, which are added here.
    counts.sum_duplicates()
    return counts


def _unit_rows(counts: scipy.sparse.csr_array, weights: np.ndarray) -> scipy.sparse.csr_array:
    """Return word counts multiplied by the weights of the words, each row of the matrix scaled to
    unit length.
    """
    rows = scipy.sparse.csr_array(counts.multiply(weights))
    lengths = np.sqrt(rows.multiply(rows).sum(axis=1))
    # A line without known words stays zero, and is equally far from all others.
    lengths[lengths == 0] = 1.0
    return scipy.sparse.csr_array(rows.multiply(1 / lengths[:, None]))


def nearest_training_sentence(
    sources: Sequence[str], train_sources: Sequence[str], train_targets: Sequence[str]
) -> list[str]:
    """Return for each source sentence the target sentence of the most similar training pair.

    The similarity of two source sentences is the cosine of their weighted word counts. A word that
    occurs in n of N training sources has the weight log(1 + N / n), so rare words weigh most. Among
    equally similar training sources the earliest wins. A source sentence without any known word
    therefore gets the target of the first training pair.

    Raises:
        CorpusError: if there are no training pairs, or if sources and targets differ in number.
    """
    if len(train_sources) != len(train_targets) or not train_sources:
        raise CorpusError(
            f"nearest training sentence: {len(train_sources)} sources and"
            f" {len(train_targets)} targets; expected equally many of both and at least 1; rerun"
            " `clean` for this corpus"
        )
    index_by_word: dict[str, int] = {}
    for line in train_sources:
        for word in _WORD.findall(line.lower()):
            index_by_word.setdefault(word, len(index_by_word))
    train_counts = _count_words(train_sources, index_by_word)
    # After `sum_duplicates` each line has one entry for each of its words, so entries count lines.
    num_lines_by_word = np.bincount(train_counts.indices, minlength=len(index_by_word))
    weights = np.log1p(len(train_sources) / num_lines_by_word)
    train_words = _unit_rows(train_counts, weights).T.tocsr()  # (num_words, num_train)
    nearest: list[int] = []
    # The similarities of a source to all training sentences are a dense row, so only as many
    # sources are compared at a time as fit into MAX_SIMILARITIES numbers.
    num_sources_at_a_time = max(1, MAX_SIMILARITIES // len(train_sources))
    for start in range(0, len(sources), num_sources_at_a_time):
        counts = _count_words(sources[start : start + num_sources_at_a_time], index_by_word)
        similarities = (_unit_rows(counts, weights) @ train_words).toarray()
        # Rounded, so that equal similarities are equal on every machine.
        nearest += similarities.round(12).argmax(axis=1).tolist()
    return [train_targets[train_index] for train_index in nearest]
