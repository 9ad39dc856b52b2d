"""Scores the translations that a record lists with the references that the record of their corpus
lists.
"""

import msgspec

from aiayn.data.text.detokenise import detokenise
from aiayn.data.text.lines import read_lines
from aiayn.errors import CorpusError
from aiayn.packed import find_packed
from aiayn.records import Hypotheses, RawCorpus, ScoreRecord, require_files, require_fitting
from aiayn.scoring.score import default_metrics, score_hypotheses
from aiayn.spec.system import read_corpus


def score_translations(decoded: Hypotheses, raw: RawCorpus) -> list[ScoreRecord]:
    """Score translations. Before scoring, translations and references are compared with the digests
    in their records.

    Raises:
        CorpusError: if the records are from different corpora, or if the translations or references
            have changed.
        ScoreError: for the reasons of `score_hypotheses`, such as different numbers of lines.
    """
    require_fitting({"--decoded": decoded, "--raw": raw})
    corpus = read_corpus(raw.corpus)
    if decoded.testset not in raw.pair_by_split:
        raise CorpusError(f"--raw: no test set {decoded.testset}; fetch {raw.corpus} again")
    reference_path = raw.pair_by_split[decoded.testset].path_by_language[corpus.target_language]
    require_files(raw, [reference_path])
    require_files(decoded, [decoded.path])
    references = list(read_lines(reference_path))
    # The references of a segmented corpus are in pieces, too. BLEU is computed on their tokens.
    if corpus.is_segmented:
        references = [detokenise(line, corpus) for line in references]
    scores = score_hypotheses(
        list(read_lines(find_packed(decoded.path) or decoded.path)),
        references,
        metrics=default_metrics(corpus.target_language, corpus.is_segmented),
        target_language=corpus.target_language,
        hypotheses_sha256=decoded.hypotheses_sha256,
        testset=decoded.testset,
    )
    # The search is part of the number: the same model with a different beam has a different score.
    return [
        msgspec.structs.replace(score, signature=f"{score.signature}|{decoded.signature}")
        for score in scores
    ]
