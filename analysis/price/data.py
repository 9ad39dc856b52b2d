"""Predicts what a corpus takes before training: disk, and each stage's hours, assumed or measured
by Snakemake.
"""

import csv
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

# Assumptions, of one core: `benchmarks/<scale>/<verb>/` has what a stage really took, which then
# counts instead.
DOWNLOAD_BYTES_PER_SECOND = 20e6
PAIRS_PER_SECOND_BY_VERB = {
    "fetch": 100_000,
    "clean": 50_000,
    "segment": 50_000,
    "binarize": 15_000,
}
MOSES_PAIRS_PER_SECOND = 8_000  # of clean with Moses' scripts
NUM_TEXT_COPIES = 3  # raw, cleaned, and the parts of a stage at work
TOKENS_PER_SIDE = 32  # of a pair, about WMT14's mean with end of sentence
BYTES_PER_TOKEN, INDEX_BYTES_PER_SIDE = (
    2,
    12,
)  # of a data-bin with fewer than 65,500 symbols (aiayn.data.text.binarize)
UNKNOWN_VOCABULARY_SIZE = 10_000  # of text that comes in pieces, before binarize has counted them


class PlannedCorpus(msgspec.Struct, frozen=True, kw_only=True):
    """A corpus's size and what its stages take. Bytes and pairs are None where they are not
    published.

    `vocabulary_size` is the target's, `vocabulary_source` what says so. Snakemake has measured the
    hours of `measured_verbs`; the hours of other stages are assumed. `bytes_by_archive` has file
    names: corpora share archives.
    """

    corpus: str
    source_vocabulary_size: int
    vocabulary_size: int
    is_joint: bool
    vocabulary_source: str
    num_pairs: int | None
    bytes_by_archive: dict[str, int]
    text_bytes: int | None
    data_bin_bytes: int | None
    hours_by_verb: dict[str, float]
    measured_verbs: list[str]

    @property
    def hours(self) -> float:
        """The hours of all stages, one after the other."""
        return sum(self.hours_by_verb.values())


def plan_corpus(
    corpus: CorpusSpec,
    scale: str,
    *,
    results_folder: Path | None = None,
    benchmarks_folder: Path | None = None,
) -> PlannedCorpus:
    """Return what a corpus takes, by its data-bin's record if it exists, else by its file.

    Without folders nothing but its file is looked at.

    Raises:
        RecordError: if the data-bin's record is unreadable.
    """
    path = corpus_record(results_folder, scale, "binarize", corpus.name) if results_folder else None
    data = read_record(path, BinarizedCorpus) if path and path.exists() else None
    num_train = data.num_pairs_by_split.get("train") if data else num_pairs(corpus, "train")
    archives = corpus.source.joined().values() if isinstance(corpus.source, ArchiveSource) else ()
    bytes_by_archive = {
        archive.first_file.name: archive.first_file.num_bytes for archive in archives
    }
    text_bytes, data_bin_bytes = None, None
    if num_train is not None:
        text_bytes = 2 * ESTIMATED_BYTES_PER_LINE * NUM_TEXT_COPIES * num_train
        bytes_per_side = TOKENS_PER_SIDE * BYTES_PER_TOKEN + INDEX_BYTES_PER_SIDE
        data_bin_bytes = 2 * bytes_per_side * num_train
    verbs = (
        ["fetch", "binarize"] if corpus.is_segmented else ["fetch", "clean", "segment", "binarize"]
    )
    hours_by_verb, measured_verbs = {}, []
    for verb in verbs:
        hours = None
        if benchmarks_folder:
            hours = _measured_hours(benchmarks_folder / scale / verb / f"{corpus.name}.tsv")
        if hours is None:
            hours = _assumed_hours(verb, corpus, num_train or 0, sum(bytes_by_archive.values()))
        else:
            measured_verbs.append(verb)
        hours_by_verb[verb] = hours
    sizes, is_joint, source = _vocabulary(corpus, data)
    return PlannedCorpus(
        corpus=corpus.name,
        source_vocabulary_size=sizes[0],
        vocabulary_size=sizes[1],
        is_joint=is_joint,
        vocabulary_source=source,
        num_pairs=num_train,
        bytes_by_archive=bytes_by_archive,
        text_bytes=text_bytes,
        data_bin_bytes=data_bin_bytes,
        hours_by_verb=hours_by_verb,
        measured_verbs=measured_verbs,
    )


def num_pairs(corpus: CorpusSpec, split: str) -> int | None:
    """Return the number of a split's pairs (`train` or a test set's), None where the corpus's file
    does not say.
    """
    source = corpus.source
    if isinstance(source, ShippedSource):
        return source.num_pairs_by_split[split]
    if not isinstance(source, ArchiveSource):
        return None
    if split == "train":
        return sum(
            archive.text_bytes
            // (2 * ESTIMATED_BYTES_PER_LINE)  # the published number, where there is one
            for archive in source.joined().values()
        )
    return source.testset_by_name[split].num_lines


def _vocabulary(
    corpus: CorpusSpec, data: BinarizedCorpus | None
) -> tuple[tuple[int, int], bool, str]:
    """Return the sizes of source and target, whether they are one dictionary, and what says so."""
    if data is not None:
        sizes = data.vocabulary_size_by_language
        pair = (sizes[data.source_language], sizes[data.target_language])
        return (
            pair,
            training_data(data).is_joint,
            f"{corpus.name}: {pair[1]:,}, counted in its data-bin",
        )
    if corpus.subword is None:
        size, is_joint, source = (
            UNKNOWN_VOCABULARY_SIZE,
            False,
            "assumed: its text comes in pieces, not yet counted",
        )
    else:
        size, is_joint, source = (
            corpus.subword.vocabulary_size,
            corpus.subword.joint,
            "as its file says",
        )
    return (size, size), is_joint, f"{corpus.name}: {size:,}, {source}"


def _assumed_hours(verb: str, corpus: CorpusSpec, num_pairs: int, download_bytes: int) -> float:
    rate = PAIRS_PER_SECOND_BY_VERB[verb]
    if verb == "clean" and corpus.tokenise != "none":
        rate = MOSES_PAIRS_PER_SECOND
    download_seconds = download_bytes / DOWNLOAD_BYTES_PER_SECOND if verb == "fetch" else 0.0
    return (num_pairs / rate + download_seconds) / 3600


def _measured_hours(path: Path) -> float | None:
    """Return the hours in a benchmark file of Snakemake, None if it does not exist."""
    if not path.is_file():
        return None
    with path.open(encoding="utf-8", newline="") as lines:
        rows = list(csv.DictReader(lines, delimiter="\t"))
    try:
        return sum(float(row["s"]) for row in rows) / len(rows) / 3600 if rows else None
    except (KeyError, ValueError):
        return None
