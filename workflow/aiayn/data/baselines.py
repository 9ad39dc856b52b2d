"""Makes translations without training, which a trained system must beat.

Two baselines are here (the third copies the source): replacing word by word with a dictionary,
which only the demo's corpora have, and the target side of the nearest training sentence.

The nearest sentence needs memory for all training pairs, for the words of their sources as a sparse
matrix, and for `MAX_SIMILARITIES` numbers. Memory grows with the corpus, so a corpus of more than
`MAX_TRAIN_PAIRS` is refused.
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

    Punctuation and words that the dictionary lacks stay. If a source begins with a capital, its
    translation does, too.
    """

    def translate(source: str) -> str:
        line = _WORD.sub(lambda word: dictionary.get(word[0].lower(), word[0]), source)
        return line[:1].upper() + line[1:] if source[:1].isupper() else line

    return [translate(source) for source in sources]


def _weighted_words(
    lines: Sequence[str], index_by_word: Mapping[str, int], weight_by_index: np.ndarray
) -> scipy.sparse.csr_array:
    """Return each line's counts of known words, weighted and scaled to unit length.

    The matrix has the shape (num_lines, num_words).
    """
    row_starts, word_indices, counts = [0], [], []
    for line in lines:
        for word, count in sorted(Counter(_WORD.findall(line.lower())).items()):
            if word in index_by_word:
                word_indices.append(index_by_word[word])
                counts.append(count)
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
    """Return for each source the target of the most similar training source.

    Similarity is the cosine of weighted word counts. A word that occurs in n of N training sources
    has the weight log(1 + N / n), so rare words decide. Among equally similar sources the earliest
    wins. A source without any known word therefore gets the first target.

    Raises:
        CorpusError: if training pairs are missing, or the two sides differ in length.
    """
    if len(train_sources) != len(train_targets) or not train_sources:
        raise CorpusError(
            f"nearest training sentence: {len(train_sources)} sources and"
            f" {len(train_targets)} targets; expected equally many of both and at least 1; rerun"
            " `clean` for this corpus"
        )
    num_lines_by_word: defaultdict[str, int] = defaultdict(int)
    for line in train_sources:
        for word in sorted(set(_WORD.findall(line.lower()))):
            num_lines_by_word[word] += 1
    index_by_word = {word: word_index for word_index, word in enumerate(num_lines_by_word)}
    num_lines = np.array(list(num_lines_by_word.values()), dtype=np.float64)
    weights = np.log1p(len(train_sources) / num_lines)
    # (num_words, num_train)
    train_words = _weighted_words(train_sources, index_by_word, weights).T.tocsr()
    nearest: list[int] = []
    num_sources_at_a_time = max(1, MAX_SIMILARITIES // len(train_sources))
    for start in range(0, len(sources), num_sources_at_a_time):
        words = _weighted_words(
            sources[start : start + num_sources_at_a_time], index_by_word, weights
        )
        similarities = (words @ train_words).toarray()  # (num_sources, num_train)
        # Rounded, so that equal similarities are equal on every machine.
        nearest += similarities.round(12).argmax(axis=1).tolist()
    return [train_targets[train_index] for train_index in nearest]
