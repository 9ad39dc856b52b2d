"""Predicts the disk that a corpus takes before training, and the size of its vocabulary."""

from pathlib import Path

import msgspec

from aiayn.paths import corpus_record
from aiayn.records import BinarizedCorpus, read_record
from aiayn.spec.corpus import (
    ESTIMATED_BYTES_PER_LINE,
    ArchiveSource,
    CorpusSpec,
    ShippedSource,
)
from aiayn.train.fairseq_args import training_data

NUM_TEXT_COPIES = 3  # raw, cleaned, and the parts of a stage at work
TOKENS_PER_SIDE = 32  # of a pair, about WMT14's mean with end of sentence
# A data-bin with fewer than 65,500 symbols (aiayn.data.text.binarize).
BYTES_PER_TOKEN, INDEX_BYTES_PER_SIDE = 2, 12
UNKNOWN_VOCABULARY_SIZE = 10_000  # of text that comes in pieces, before binarize has counted them


class PlannedCorpus(msgspec.Struct, frozen=True, kw_only=True):
    """A corpus's size; `num_pairs` is None where it is not published, and its bytes are then 0.

    `vocabulary_size` is the target's, `vocabulary_source` what says so. `bytes_by_archive` has file
    names: corpora share archives.
    """

    corpus: str
    source_vocabulary_size: int
    vocabulary_size: int
    is_joint: bool
    vocabulary_source: str
    num_pairs: int | None
    bytes_by_archive: dict[str, int]
    text_bytes: int
    data_bin_bytes: int


def plan_corpus(corpus: CorpusSpec, scale: str, results_folder: Path) -> PlannedCorpus:
    """Return what a corpus takes, by its data-bin's record if it exists, else by its file.

    Raises:
        RecordError: if the data-bin's record is unreadable.
    """
    path = corpus_record(results_folder, scale, "binarize", corpus.name)
    data = read_record(path, BinarizedCorpus) if path.exists() else None
    num_pairs = data.num_pairs_by_split.get("train") if data else _published_pairs(corpus)
    bytes_by_archive: dict[str, int] = {}
    if isinstance(corpus.source, ArchiveSource):
        for archive in corpus.source.joined().values():
            file = archive.first_file
            bytes_by_archive[file.name] = file.num_bytes
    num_lines = 2 * (num_pairs or 0)
    sizes, is_joint, source = _vocabulary(corpus, data)
    return PlannedCorpus(
        corpus=corpus.name,
        source_vocabulary_size=sizes[0],
        vocabulary_size=sizes[1],
        is_joint=is_joint,
        vocabulary_source=f"{corpus.name}: {sizes[1]:,}, {source}",
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


def _vocabulary(
    corpus: CorpusSpec, data: BinarizedCorpus | None
) -> tuple[tuple[int, int], bool, str]:
    """Return the sizes of source and target, whether they are one dictionary, and what says so."""
    if data is not None:
        sizes = data.vocabulary_size_by_language
        pair = (sizes[data.source_language], sizes[data.target_language])
        return pair, training_data(data).is_joint, "counted in its data-bin"
    if corpus.subword is None:
        source = "assumed: its text comes in pieces, not yet counted"
        return (UNKNOWN_VOCABULARY_SIZE, UNKNOWN_VOCABULARY_SIZE), False, source
    size = corpus.subword.vocabulary_size
    return (size, size), corpus.subword.joint, "as its file says"
