"""Predicts the size of a corpus before the download: bytes on disk, and entries of the
vocabulary.
"""

import msgspec

from aiayn.spec.corpus import (
    ESTIMATED_BYTES_PER_LINE,
    ArchiveSource,
    CorpusSpec,
    ShippedSource,
)

NUM_TEXT_COPIES = 3  # raw, cleaned, and temporary parts while a stage runs
TOKENS_PER_SIDE = 32  # of a pair, about WMT14's mean with end of sentence
# fairseq stores a token in 2 bytes if there are fewer than 65,500 symbols (see
# aiayn.data.text.binarize). The index has 12 bytes for each sentence.
BYTES_PER_TOKEN, INDEX_BYTES_PER_SIDE = 2, 12
# If a text was published as subwords, its vocabulary is known only after binarize.
UNKNOWN_VOCABULARY_SIZE = 10_000


class PlannedCorpus(msgspec.Struct, frozen=True, kw_only=True):
    """The predicted size of a corpus. If the number of sentence pairs is not published, `num_pairs`
    is None and the bytes of text and data-bin are 0.

    `vocabulary_size` is the size of each of the two vocabularies, or of the joint vocabulary.
    `vocabulary_source` says in words where this size comes from. The keys of `bytes_by_archive` are
    file names, so that an archive that two corpora share can be counted once.
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
    """Return the predicted size of a corpus, from its config file."""
    num_pairs = _published_pairs(corpus)
    subword = corpus.subword
    bytes_by_archive: dict[str, int] = {}
    if isinstance(corpus.source, ArchiveSource):
        for archive in corpus.source.joined().values():
            file = archive.first_file
            bytes_by_archive[file.name] = file.num_bytes
    # A pair is two lines, one in each language.
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
    """Return the number of training sentence pairs, or None if the corpus's config file does not
    allow an estimate.
    """
    source = corpus.source
    if isinstance(source, ShippedSource):
        return source.num_pairs_by_split["train"]
    if not isinstance(source, ArchiveSource):
        return None
    num_pairs = 0
    for archive in source.joined().values():
        # This is the reverse of `text_bytes`. It gives the published number of lines or, without
        # this number, an estimate from the size of the packed file.
        num_pairs += archive.text_bytes // (2 * ESTIMATED_BYTES_PER_LINE)
    return num_pairs
