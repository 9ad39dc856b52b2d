"""Values, signatures and refusals of the metrics. What the original programs printed is in
tests/oracle.
"""

import hashlib
import math

import pytest
import sacrebleu
import sacremoses  # type: ignore[import-untyped, unused-ignore]

from aiayn.errors import ScoreError
from aiayn.records import ScoreRecord
from aiayn.scoring.definitions import METRICS
from aiayn.scoring.score import default_metrics, score_hypotheses

SENTENCE = "Der alte Mann liest heute ein gutes Buch"


def scores(
    hypotheses: list[str],
    references: list[str],
    *metrics: str,
    language: str = "de",
    testset: str = "demo_test",
) -> list[ScoreRecord]:
    """Score with everything that a test does not speak of filled in."""
    return score_hypotheses(
        hypotheses,
        references,
        metrics=metrics,
        target_language=language,
        hypotheses_sha256="5e",
        testset=testset,
    )


def values(hypothesis: str, reference: str, *metrics: str) -> list[float]:
    """Values of one German segment."""
    return [record.value for record in scores([hypothesis], [reference], *metrics)]


@pytest.mark.parametrize("metric", METRICS)
def test_a_perfect_translation_has_100_and_no_word_in_common_next_to_nothing(metric: str) -> None:
    assert values(SENTENCE, SENTENCE, metric) == pytest.approx([100])
    assert values("qqq www zzz yyy xxx", SENTENCE, metric)[0] < 5


def test_lower_casing_reaches_umlauts_in_sacrebleu_and_only_ascii_in_multi_bleu() -> None:
    metrics = ("bleu_tok_moses", "bleu_tok_moses_lc", "bleu_sacre_13a_lc")
    assert values(SENTENCE.upper(), SENTENCE, *metrics) == pytest.approx([0, 100, 100])
    with_umlaut = values("\u00c4ber " + SENTENCE, "\u00e4ber " + SENTENCE, *metrics)
    assert with_umlaut[0] == with_umlaut[1] < 100
    assert with_umlaut[2] == pytest.approx(100)


def test_a_bleu_has_its_brevity_penalty_and_chrf_none() -> None:
    """8 words of 16: exp(1 - 16 / 8)."""
    records = scores(
        [SENTENCE, ""], [SENTENCE, SENTENCE], "bleu_tok_moses", "bleu_sacre_13a", "chrf"
    )
    assert [record.brevity_penalty for record in records] == [
        pytest.approx(math.exp(-1), abs=0.03)
    ] * 2 + [None]
    (whole,) = scores([SENTENCE], [SENTENCE], "bleu_tok_moses")
    assert whole.brevity_penalty == 1


def test_tokens_as_given_are_neither_tokenised_nor_escaped() -> None:
    tokens = "ein mann & seine frau lesen."
    assert values(tokens, tokens.replace(".", " ."), "bleu_as_given")[0] < 80
    assert values(tokens, tokens.replace(".", " ."), "bleu_tok_moses") == pytest.approx([100])
    assert values("a b &amp; d e", "a b & d e", "bleu_as_given") == [0]


@pytest.mark.parametrize(
    ("metric", "before", "after"),
    [
        (
            "bleu_tok_compound_split",
            "nrefs:1|test:demo_test|lang:de|case:mixed|eff:no|tok:moses-pre2018|split:at-at|ref:raw"
            "|hyp:raw|count:multi-bleu|smooth:none",
            f"|sacremoses:{sacremoses.__version__}",
        ),
        ("bleu_sacre_13a_lc", "nrefs:1|test:demo_test|case:lc|eff:no|tok:13a|smooth:exp", ""),
    ],
)
def test_a_signature_names_every_step_the_test_set_and_the_references(
    metric: str, before: str, after: str
) -> None:
    digest = hashlib.sha256(f"{SENTENCE}\n".encode()).hexdigest()[:12]
    (record,) = scores([SENTENCE], [SENTENCE], metric)
    version = f"|version:{sacrebleu.__version__}"
    assert record.signature == f"{before}|refs:{digest}{after}{version}"


def test_no_two_metrics_share_a_signature() -> None:
    # The signature is how a reader tells two scores apart.
    assert len({record.signature for record in scores([SENTENCE], [SENTENCE], *METRICS)}) == len(
        METRICS
    )


def test_records_come_in_the_requested_order_with_the_hypotheses_digest() -> None:
    records = scores([SENTENCE], [SENTENCE], "chrf", "bleu_as_given", "bleu_sacre_13a")
    assert [record.metric for record in records] == ["chrf", "bleu_as_given", "bleu_sacre_13a"]
    assert {record.hypotheses_sha256 for record in records} == {"5e"}


@pytest.mark.parametrize(
    ("num_hypotheses", "num_references", "metric", "words"),
    [
        (2, 1, "chrf", r"demo_test: 2 hypotheses, 1 references; .* rerun `decode`"),
        (0, 0, "chrf", "demo_test: no hypotheses and no references; expected at least 1 line"),
        (1, 1, "bleu_sacre_13", r"'bleu_sacre_13' is unknown, .* did you mean 'bleu_sacre_13a' or"),
    ],
)
def test_what_cannot_be_scored_is_refused(
    num_hypotheses: int, num_references: int, metric: str, words: str
) -> None:
    with pytest.raises(ScoreError, match=words):
        scores([SENTENCE] * num_hypotheses, [SENTENCE] * num_references, metric)


@pytest.mark.parametrize(
    ("metric", "language", "defined_for"),
    [
        ("bleu_tok_compound_split", "fr", "de"),
        ("bleu_tok_compound_split_2018", "fr", "de"),
        ("bleu_tok_compound_split_quotes", "fr", "de"),
        ("bleu_tok_moses", "cs", "de, fr"),
        ("bleu_fairseq", "en", "de, fr"),
    ],
)
def test_a_procedure_without_an_original_for_the_language_is_refused(
    metric: str, language: str, defined_for: str
) -> None:
    with pytest.raises(
        ScoreError,
        match=f"'{metric}' .* language '{language}', only for {defined_for}; choose from",
    ):
        scores([SENTENCE], [SENTENCE], metric, language=language)


def test_default_metrics_are_those_with_an_original() -> None:
    split = {
        "bleu_tok_compound_split",
        "bleu_tok_compound_split_2018",
        "bleu_tok_compound_split_quotes",
    }
    german = default_metrics("de", is_segmented=False)
    assert german == [metric for metric in METRICS if metric != "bleu_as_given"]
    assert default_metrics("fr", is_segmented=False) == [
        metric for metric in german if metric not in split
    ]
    of_sacrebleu = ["bleu_sacre_13a", "bleu_sacre_13a_lc", "bleu_sacre_intl", "chrf"]
    assert default_metrics("ro", is_segmented=False) == of_sacrebleu
    assert default_metrics("de", is_segmented=True) == ["bleu_as_given"]
