"""Values, signatures and refusals of the metrics; what the original programs printed is in
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
TYPOGRAPHIC = "Der alte Mann liest \u201cheute\u201d ein gutes Buch"


def scores(
    hypotheses: list[str],
    references: list[str],
    *metrics: str,
    language: str = "de",
    testset: str = "demo_test",
    references_sha256: str | None = None,
) -> list[ScoreRecord]:
    """Score with everything that a test does not speak of filled in."""
    return score_hypotheses(
        hypotheses,
        references,
        metrics=metrics,
        target_language=language,
        hypotheses_sha256="5e",
        testset=testset,
        references_sha256=references_sha256,
    )


def values(hypothesis: str, reference: str, *metrics: str) -> list[float]:
    """Values of one German segment."""
    return [record.value for record in scores([hypothesis], [reference], *metrics)]


@pytest.mark.parametrize("metric", METRICS)
def test_a_perfect_translation_has_100_and_no_word_in_common_next_to_nothing(metric: str) -> None:
    assert values(SENTENCE, SENTENCE, metric) == pytest.approx([100])
    assert values("qqq www zzz yyy xxx", SENTENCE, metric)[0] < 5


@pytest.mark.parametrize("metric", [metric for metric in METRICS if metric != "chrf"])
def test_every_bleu_of_plain_words_is_the_one_worked_out_by_hand(metric: str) -> None:
    expected = 100 * math.exp(1 - 6 / 5) * (4 / 5 * 3 / 4 * 2 / 3 * 1 / 2) ** (1 / 4)
    assert values("aa bb cc dd ee", "aa bb cc dd ff gg", metric) == pytest.approx([expected])


def test_a_split_compound_scores_more_when_its_neighbour_is_wrong() -> None:
    plain, split = values(
        "ein rich-text Format ist gut", "ein rich-text Format war gut", *METRICS[0:3:2]
    )
    assert (METRICS[0], METRICS[2]) == ("bleu_tok_moses", "bleu_tok_compound_split")
    # 4 of 5, 2 of 4, 1 of 3, 0 of 2 against 6 of 7, 4 of 6, 3 of 5, 2 of 4
    assert plain == 0
    assert split == pytest.approx(100 * (6 / 7 * 4 / 6 * 3 / 5 * 2 / 4) ** (1 / 4))


def test_quotes_of_the_reference_cost_the_2018_script_alone() -> None:
    same = values(
        TYPOGRAPHIC,
        TYPOGRAPHIC,
        *(f"bleu_tok_compound_split{end}" for end in ("", "_2018", "_quotes")),
    )
    assert same[0] == same[2] == pytest.approx(100)
    assert same[1] < 90
    plain = values(
        TYPOGRAPHIC.replace("\u201c", '"').replace("\u201d", '"'),
        TYPOGRAPHIC,
        "bleu_tok_compound_split",
    )
    assert plain == [same[1]]


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


def test_an_empty_hypothesis_is_longer_to_fairseq_than_to_multi_bleu() -> None:
    records = scores([SENTENCE, ""], [SENTENCE, SENTENCE], "bleu_tok_moses", "bleu_fairseq")
    multi_bleu, fairseq = (record.value for record in records)  # 8 words of 16, and 8 of 9 of 16
    assert multi_bleu == pytest.approx(100 * math.exp(1 - 16 / 8))
    assert fairseq == pytest.approx(100 * math.exp(1 - 16 / 9) * (8 / 9) ** (1 / 4))


def test_tokens_as_given_are_neither_tokenised_nor_escaped() -> None:
    tokens = "ein mann & seine frau lesen."
    assert values(tokens, tokens.replace(".", " ."), "bleu_as_given")[0] < 80
    assert values(tokens, tokens.replace(".", " ."), "bleu_tok_moses") == pytest.approx([100])
    assert values("a b &amp; d e", "a b & d e", "bleu_as_given") == [0]


def test_sacrebleus_own_classes_give_the_values() -> None:
    hypotheses, references = (
        ["Das ist gut-gemeint.", "Nein!"],
        ["Das war gut-gemeint.", "Nein, nein!"],
    )
    got = [
        record.value
        for record in scores(hypotheses, references, "bleu_sacre_13a", "bleu_sacre_intl", "chrf")
    ]
    assert got == [
        sacrebleu.corpus_bleu(hypotheses, [references]).score,
        sacrebleu.corpus_bleu(hypotheses, [references], tokenize="intl").score,
        sacrebleu.corpus_chrf(hypotheses, [references]).score,
    ]
    assert len(set(got)) == 3


def test_the_signature_of_the_papers_bleu_is_this_one() -> None:
    digest = hashlib.sha256(f"{SENTENCE}\n".encode()).hexdigest()
    (record,) = scores([SENTENCE], [SENTENCE], "bleu_tok_compound_split", testset="newstest2014")
    assert record.signature == (
        "nrefs:1|test:newstest2014|lang:de|case:mixed|eff:no|tok:moses-pre2018|split:at-at|ref:raw|hyp:raw"
        f"|count:multi-bleu|smooth:none|refs:{digest[:12]}|sacremoses:{sacremoses.__version__}"
        f"|version:{sacrebleu.__version__}"
    )


def test_sacrebleus_signature_gains_the_test_set_and_the_references() -> None:
    digest = hashlib.sha256(f"{SENTENCE}\n".encode()).hexdigest()
    (record,) = scores([SENTENCE], [SENTENCE], "bleu_sacre_13a_lc")
    assert record.signature == (
        f"nrefs:1|test:demo_test|case:lc|eff:no|tok:13a|smooth:exp|refs:{digest[:12]}|version:{sacrebleu.__version__}"
    )


def test_no_two_metrics_share_a_signature() -> None:
    assert len({record.signature for record in scores([SENTENCE], [SENTENCE], *METRICS)}) == len(
        METRICS
    )


@pytest.mark.parametrize("metric", ["bleu_tok_moses", "bleu_as_given", "bleu_sacre_13a", "chrf"])
def test_other_references_another_test_set_or_digest_change_the_signature(metric: str) -> None:
    (first,) = scores([SENTENCE], [SENTENCE], metric)
    (other_reference,) = scores([SENTENCE], ["Nein ."], metric)
    (other_testset,) = scores([SENTENCE], [SENTENCE], metric, testset="demo_dev")
    (other_file,) = scores([SENTENCE], [SENTENCE], metric, references_sha256="ab" * 32)
    assert "refs:abababababab" in other_file.signature
    assert (
        len({record.signature for record in (first, other_reference, other_testset, other_file)})
        == 4
    )


def test_the_tokenizers_language_is_in_the_signature() -> None:
    (german,), (french,) = (
        scores(["l'eau"], ["l'eau"], "bleu_tok_moses", language=language)
        for language in ("de", "fr")
    )
    assert german.signature.replace("lang:de", "lang:fr") == french.signature


def test_records_come_in_the_requested_order_with_the_hypotheses_digest() -> None:
    records = scores([SENTENCE], [SENTENCE], "chrf", "bleu_as_given", "bleu_sacre_13a")
    assert [record.metric for record in records] == ["chrf", "bleu_as_given", "bleu_sacre_13a"]
    assert {record.hypotheses_sha256 for record in records} == {"5e"}


@pytest.mark.parametrize(
    ("num_hypotheses", "num_references", "metric", "words"),
    [
        (2, 1, "chrf", r"demo_test: 2 hypotheses, 1 references; .* rerun `decode`"),
        (0, 0, "chrf", "demo_test: no hypotheses and no references; expected at least 1 line"),
        (1, 1, "bleu_sacre_13", r"'bleu_sacre_13' is unknown, .* did you mean 'bleu_sacre_13a'\?"),
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
        ("bleu_tok_moses", "ja", "de, fr"),
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
