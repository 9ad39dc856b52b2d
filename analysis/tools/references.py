"""Reads the references of a test set in a results folder."""

from pathlib import Path

from aiayn.data.text.detokenise import detokenise
from aiayn.data.text.lines import read_lines
from aiayn.paths import corpus_record
from aiayn.records import RawCorpus, read_record
from aiayn.spec.system import read_corpus


def read_references(results_folder: Path, scale: str, corpus_name: str, testset: str) -> list[str]:
    """Return the references of a corpus's test set, detokenised if the corpus came in pieces.

    Raises:
        RecordError: if the record of fetch is missing.
    """
    raw = read_record(corpus_record(results_folder, scale, "fetch", corpus_name), RawCorpus)
    corpus = read_corpus(corpus_name)
    path = raw.pair_by_split[testset].path_by_language[corpus.target_language]
    lines = list(read_lines(path))
    return [detokenise(line, corpus) for line in lines] if corpus.is_segmented else lines
