"""Turns two texts into a metric's statistics of each segment, from which sacreBLEU's paired tests resample.

The definitions are those of `score.py`: a row of statistics is what that metric counts in one segment, and the score
of the summed rows is the one that `score` prints. BLEU's rows have 10 columns in sacreBLEU's order (see
`count_ngrams`), chrF's 18.
"""

from collections.abc import Sequence

import numpy as np
from sacrebleu.metrics.base import Metric
from sacrebleu.metrics.bleu import BLEU

from aiayn.count_ngrams import Statistics
from aiayn.errors import ScoreError
from analysis.scoring.score import (
    ALL_METRICS,
    PROCEDURE_BY_METRIC,
    SACREBLEU_BY_METRIC,
    Text,
    procedure_bleu,
    sacrebleu_scorer,
)


def make_scorer(metric: str) -> Metric:
    """Return sacreBLEU's object that turns a metric's summed statistics into its score.

    Raises:
        ScoreError: if there is no such metric.
    """
    if metric in PROCEDURE_BY_METRIC:
        return BLEU(tokenize="none", smooth_method="none", force=True)
    if metric not in SACREBLEU_BY_METRIC:
        raise ScoreError(f"metric {metric!r} is unknown; expected one of {', '.join(ALL_METRICS)}")
    return sacrebleu_scorer(metric)


def count_segments(
    metric: str, hypotheses: Sequence[str], references: Sequence[str], *, target_language: str
) -> Statistics:
    """Return the statistics of each segment, shape (num_segments, num_statistics).

    Raises:
        ScoreError: if there is no such metric.
        ValueError: if hypotheses and references differ in their number of lines.
    """
    if metric not in PROCEDURE_BY_METRIC:
        return np.array(make_scorer(metric)._extract_corpus_statistics(list(hypotheses), [list(references)]))
    procedure = PROCEDURE_BY_METRIC[metric]
    rows = []
    for hypothesis, reference in zip(hypotheses, references, strict=True):
        bleu = procedure_bleu(procedure, Text([hypothesis], target_language), Text([reference], target_language))
        rows.append([bleu.sys_len, bleu.ref_len, *bleu.counts, *bleu.totals])
    return np.array(rows, dtype=np.int64)
