"""What is resampled is what is scored: the summed segments give the score of every definition."""

import pytest

from aiayn.errors import ScoreError
from analysis.scoring.score import METRICS, score_hypotheses
from analysis.scoring.segment_counts import count_segments, make_scorer

REFERENCES = [
    "Das Haus am See ist sehr alt, sagt er.",
    "Sie hat einen E-Mail-Dienst \u201egemietet\u201c und zahlt daf\u00fcr nichts.",
    "Es regnet heute nicht mehr in der Stadt.",
    "",
]
HYPOTHESES = [
    "Das Haus am See ist alt, sagt sie.",
    'Sie hat einen E-Mail-Dienst "gemietet" und zahlt nichts daf\u00fcr.',
    "Es Regnet heute nicht mehr in der Stadt.",
    "",
]


@pytest.mark.parametrize("metric", METRICS)
def test_the_summed_segments_give_the_score_of_every_definition(metric: str) -> None:
    rows = count_segments(metric, HYPOTHESES, REFERENCES, target_language="de")
    scored = score_hypotheses(
        HYPOTHESES, REFERENCES, metrics=[metric], target_language="de", hypotheses_sha256="0", testset="x"
    )[0]
    assert len(rows) == 4
    assert make_scorer(metric)._compute_score_from_stats(rows.sum(axis=0)).score == scored.value
    assert 30 < scored.value < 100


def test_a_row_is_lengths_then_matches_then_ngrams() -> None:
    rows = count_segments("bleu_as_given", ["a b c"], ["a b d"], target_language="de")
    assert rows.tolist() == [[3, 3, 2, 1, 0, 0, 3, 2, 1, 0]]


def test_an_unknown_metric_is_refused_with_the_known_ones() -> None:
    with pytest.raises(ScoreError, match=r"metric 'bleu' is unknown; expected one of bleu_tok_moses"):
        count_segments("bleu", ["a"], ["a"], target_language="de")
