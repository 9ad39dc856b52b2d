"""Finds what a run translated a test set to, by the run's name, and the references that belong to it."""

import re
from pathlib import Path

import msgspec

from aiayn.errors import RecordError
from aiayn.paths import corpus_record
from aiayn.records import Hypotheses, RawCorpus, read_record
from aiayn.runs.names import match_run
from aiayn.spec import read_corpus
from aiayn.text.detokenise import detokenise
from aiayn.text.lines import read_lines


class Decoded(msgspec.Struct, frozen=True, kw_only=True):
    """A run's hypotheses on a test set, and whose they are."""

    scale: str
    corpus: str
    hypotheses: Hypotheses


def find_decoded(results_folder: Path, run: str, *, testset: str | None, average: str | None) -> Decoded:
    """Return the hypotheses of the run whose name begins with `run`; of its longest average, unless one is named.

    Raises:
        RecordError: if no run, or more than one, is meant, or it was decoded on no or more than one such test set.
    """
    found = [
        _read_decoded(results_folder, path) for path in sorted(results_folder.glob("*/decode/*/*/seed*/last*/*.json"))
    ]
    names = {one.hypotheses.run for one in found}
    name = match_run(run, names, place=str(results_folder), unknown="is neither a file nor a decoded run")
    of_run = [one for one in found if one.hypotheses.run == name]
    fitting = [
        one for one in of_run if testset in (None, one.hypotheses.testset) and average in (None, one.hypotheses.average)
    ]
    if len({one.hypotheses.testset for one in fitting}) != 1:
        had = ", ".join(f"{one.hypotheses.testset} ({one.hypotheses.average})" for one in of_run)
        raise RecordError(f"{name}: decoded on {had}; choose one with --testset and, where it has several, --average")
    return max(fitting, key=lambda one: int(re.sub(r"\D", "", one.hypotheses.average)))


def corpus_references(results_folder: Path, decoded: Decoded) -> list[str]:
    """Return the references of the test set that was decoded, detokenised where the corpus came in pieces.

    Raises:
        RecordError: if the record of fetch is not there.
    """
    raw = read_record(corpus_record(results_folder, decoded.scale, "fetch", decoded.corpus), RawCorpus)
    corpus = read_corpus(decoded.corpus)
    path = raw.pair_by_split[decoded.hypotheses.testset].path_by_language[corpus.target_language]
    if not corpus.is_segmented:
        return list(read_lines(path))
    return [detokenise(line, corpus) for line in read_lines(path)]


def _read_decoded(results_folder: Path, path: Path) -> Decoded:
    scale, _, corpus, *_ = path.relative_to(results_folder).parts
    return Decoded(scale=scale, corpus=corpus, hypotheses=read_record(path, Hypotheses))
