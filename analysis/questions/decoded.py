"""Finds a run's hypotheses on a test set below a results folder, and the references of a corpus's test set."""

from pathlib import Path

import msgspec

from aiayn.data.text.detokenise import detokenise
from aiayn.data.text.lines import read_lines
from aiayn.errors import RecordError
from aiayn.paths import corpus_record, num_averaged, split_alpha
from aiayn.records import Hypotheses, RawCorpus, read_record
from aiayn.runs.names import match_run
from aiayn.spec.system import read_corpus


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
    found = []
    for path in sorted(results_folder.glob("*/decode/*/*/seed*/last*/*.json")):
        if split_alpha(path.stem)[1] is None:  # not by another search than the system's
            scale, _, corpus, *_ = path.relative_to(results_folder).parts
            found.append(Decoded(scale=scale, corpus=corpus, hypotheses=read_record(path, Hypotheses)))
    names = {one.hypotheses.run for one in found}
    name = match_run(run, names, place=str(results_folder), unknown="is neither a file nor a decoded run")
    of_run = [one for one in found if one.hypotheses.run == name]
    fitting = [
        one for one in of_run if testset in (None, one.hypotheses.testset) and average in (None, one.hypotheses.average)
    ]
    if len({one.hypotheses.testset for one in fitting}) != 1:
        had = ", ".join(f"{one.hypotheses.testset} ({one.hypotheses.average})" for one in of_run)
        raise RecordError(f"{name}: decoded on {had}; choose one with --testset and, where it has several, --average")
    return max(fitting, key=lambda one: num_averaged(one.hypotheses.average))


def read_references(results_folder: Path, scale: str, corpus_name: str, testset: str) -> list[str]:
    """Return the references of a corpus's test set, detokenised where the corpus came in pieces.

    Raises:
        RecordError: if the record of fetch is not there.
    """
    raw = read_record(corpus_record(results_folder, scale, "fetch", corpus_name), RawCorpus)
    corpus = read_corpus(corpus_name)
    path = raw.pair_by_split[testset].path_by_language[corpus.target_language]
    if not corpus.is_segmented:
        return list(read_lines(path))
    return [detokenise(line, corpus) for line in read_lines(path)]
