"""BLEU's arithmetic on words that can be counted by eye."""

import math

import pytest

from aiayn.scoring.count_ngrams import corpus_bleu, fairseq_words, perl_words, segment_statistics


def words(line: str) -> list[str]:
    """Words of a line."""
    return line.split()


def test_a_match_is_clipped_at_the_references_count() -> None:  # Papineni et al. 2002, example 2
    statistics = segment_statistics(
        [words("the the the the the the the")], [words("the cat is on the mat")]
    )
    assert statistics.tolist() == [[7, 6, 2, 0, 0, 0, 7, 6, 5, 4]]


def test_precisions_brevity_penalty_and_score_are_those_worked_out_by_hand() -> None:
    score = corpus_bleu(segment_statistics([words("a b c d e")], [words("a b c d f g")]))
    assert score.precisions == pytest.approx([100 * 4 / 5, 100 * 3 / 4, 100 * 2 / 3, 100 * 1 / 2])
    assert (score.sys_len, score.ref_len, score.ratio) == (5, 6, 5 / 6)
    assert score.bp == pytest.approx(math.exp(1 - 6 / 5))
    assert score.score == pytest.approx(
        100 * math.exp(-1 / 5) * (1 / 5) ** (1 / 4)
    )  # 4/5 * 3/4 * 2/3 * 1/2 = 1/5


def test_a_corpus_is_the_sum_of_its_segments_and_not_the_mean_of_their_scores() -> None:
    statistics = segment_statistics(
        [words("a b c d"), words("x y z w")], [words("a b c d"), words("p q r s")]
    )
    assert corpus_bleu(statistics[:1]).score == pytest.approx(100)
    assert corpus_bleu(statistics[1:]).score == 0
    assert corpus_bleu(statistics).score == pytest.approx(50)  # 4 of 8, 3 of 6, 2 of 4, 1 of 2


def test_no_four_gram_in_common_is_zero_without_smoothing() -> None:
    statistics = segment_statistics([words("a b c x")], [words("a b c d")])
    assert corpus_bleu(statistics).score == 0


def test_no_words_at_all_is_zero() -> None:
    assert corpus_bleu(segment_statistics([[]], [["a"]])).score == 0


def test_sides_of_unequal_length_are_refused() -> None:
    with pytest.raises(ValueError, match="longer than"):
        segment_statistics([["a"]], [["a"], ["b"]])


def test_perl_splits_at_ascii_white_space_and_fairseq_at_any() -> None:
    line = "a\u00a0b\u2009c \td"
    assert perl_words(line.encode("utf-8")) == ["a\u00a0b\u2009c".encode(), b"d"]
    assert fairseq_words(line, is_reference=False) == ["a", "b", "c", "d"]


def test_an_empty_line_is_no_word_to_perl_and_one_matching_word_to_fairseq() -> None:
    assert perl_words(b"") == []
    empty = [fairseq_words("", is_reference=False)], [fairseq_words("", is_reference=True)]
    assert segment_statistics(*empty).tolist() == [[1, 1, 1, 0, 0, 0, 1, 0, 0, 0]]


def test_fairseq_never_matches_an_unknown_word_of_the_reference() -> None:
    hypothesis, reference = (
        fairseq_words("ja <unk>", is_reference=is_reference) for is_reference in (False, True)
    )
    assert segment_statistics([hypothesis], [reference])[0, 2:4].tolist() == [1, 0]
    assert segment_statistics([hypothesis], [hypothesis])[0, 2:4].tolist() == [2, 1]


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("<pad> <pad> a </s> b </s> <pad>", ["a", "</s>", "b"]),
        ("</s> </s>", ["</s>"]),
        ("<pad>", ["</s>"]),
        ("a <pad>", ["a"]),
    ],
)
def test_fairseq_trims_padding_and_ends_of_sentence(line: str, expected: list[str]) -> None:
    assert fairseq_words(line, is_reference=False) == expected
