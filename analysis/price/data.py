"""Predicts the disk that a corpus takes before training, and the size of its vocabulary."""

import msgspec

from aiayn.spec.corpus import (
    ESTIMATED_BYTES_PER_LINE,
    ArchiveSource,
    CorpusSpec,
    ShippedSource,
)

NUM_TEXT_COPIES = 3  # raw, cleaned, and the parts of a stage at work
TOKENS_PER_SIDE = 32  # of a pair, about WMT14's mean with end of sentence
# A data-bin with fewer than 65,500 symbols (aiayn.data.text.binarize).
BYTES_PER_TOKEN, INDEX_BYTES_PER_SIDE = 2, 12
UNKNOWN_VOCABULARY_SIZE = 10_000  # of text that comes in pieces, before binarize has counted them


class PlannedCorpus(msgspec.Struct, frozen=True, kw_only=True):
    """A corpus's size. `num_pairs` is None where it is not published, and its bytes are then 0.

    `vocabulary_source` says what the size of either vocabulary is taken from. `bytes_by_archive`
    has file names: corpora share archives.
    """

    corpus: str
    vocabulary_size: int
    is_joint: bool
    vocabulary_source: str
    num_pairs: int | None
    bytes_by_archive: dict[str, int]
    text_bytes: int
    data_bin_bytes: int


def plan_corpus(corpus: CorpusSpec) -> PlannedCorpus:
    """Return the size of a corpus, from its file."""
    num_pairs = _published_pairs(corpus)
    subword = corpus.subword
    bytes_by_archive: dict[str, int] = {}
    if isinstance(corpus.source, ArchiveSource):
        for archive in corpus.source.joined().values():
            file = archive.first_file
            bytes_by_archive[file.name] = file.num_bytes
    num_lines = 2 * (num_pairs or 0)
    size = UNKNOWN_VOCABULARY_SIZE
    source = "assumed: its text comes in pieces, not yet counted"
    if subword is not None:
        size = subword.vocabulary_size
        source = "as its file says"
    return PlannedCorpus(
        corpus=corpus.name,
        vocabulary_size=size,
        is_joint=subword is not None and subword.joint,
        vocabulary_source=f"{corpus.name}: {size:,}, {source}",
        num_pairs=num_pairs,
        bytes_by_archive=bytes_by_archive,
        text_bytes=ESTIMATED_BYTES_PER_LINE * NUM_TEXT_COPIES * num_lines,
        data_bin_bytes=(TOKENS_PER_SIDE * BYTES_PER_TOKEN + INDEX_BYTES_PER_SIDE) * num_lines,
    )


def _published_pairs(corpus: CorpusSpec) -> int | None:
    """Return the number of training pairs, None where the corpus's file does not say."""
    source = corpus.source
    if isinstance(source, ShippedSource):
        return source.num_pairs_by_split["train"]
    if not isinstance(source, ArchiveSource):
        return None
    num_pairs = 0
    for archive in source.joined().values():
        # The published number, where there is one.
        num_pairs += archive.text_bytes // (2 * ESTIMATED_BYTES_PER_LINE)
    return num_pairs
