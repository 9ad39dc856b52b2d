"""What counts as a word for multi-bleu.perl and for fairseq-score, and BLEU at its edges.

tests/oracle compares the arithmetic with lines that both programs printed.
"""

import pytest

from aiayn.scoring.score import words_bleu
from aiayn.scoring.words import fairseq_words, perl_words


@pytest.mark.parametrize(("hypothesis", "reference"), [("a b c x", "a b c d"), ("", "a")])
def test_no_four_gram_in_common_and_no_word_at_all_are_zero(
    hypothesis: str, reference: str
) -> None:
    assert words_bleu([hypothesis.split()], [reference.split()]).score == 0


def test_perl_splits_at_ascii_white_space_and_fairseq_at_any() -> None:
    line = "a\u00a0b\u2009c \td"
    assert perl_words(line.encode("utf-8")) == ["a\u00a0b\u2009c".encode().hex(), "64"]
    assert fairseq_words(line, is_reference=False) == ["a", "b", "c", "d"]


def test_white_space_within_a_word_of_perl_does_not_split_it() -> None:
    lines = [perl_words("a\u00a0b c d e".encode())], [perl_words("a\u00a0x c d e".encode())]
    assert words_bleu(*lines).counts == [3, 2, 1, 0]


def test_an_empty_line_is_no_word_to_perl_and_one_matching_word_to_fairseq() -> None:
    assert perl_words(b"") == []
    empty = [fairseq_words("", is_reference=False)], [fairseq_words("", is_reference=True)]
    assert words_bleu(*empty).counts == [1, 0, 0, 0]


def test_fairseq_never_matches_an_unknown_word_of_the_reference() -> None:
    hypothesis, reference = (
        fairseq_words("ja <unk>", is_reference=is_reference) for is_reference in (False, True)
    )
    assert words_bleu([hypothesis], [reference]).counts[:2] == [1, 0]
    assert words_bleu([hypothesis], [hypothesis]).counts[:2] == [2, 1]


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
