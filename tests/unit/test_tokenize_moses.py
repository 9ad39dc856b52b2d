"""The steps before multi-bleu.perl, on lines whose outcome the original scripts' regular
expressions decide.
"""

import pytest

from aiayn.data.text.tokenize_moses import (
    replace_unicode_punctuation,
    split_compounds,
    tokenize_lines,
)


def test_marks_become_tokens_and_escaped_ones_stay_escaped() -> None:
    assert tokenize_lines(['Er sagte: "Ja & nein".'], "de") == [
        "Er sagte : &quot; Ja &amp; nein &quot; ."
    ]


def test_an_abbreviation_keeps_its_dot_at_the_end_of_a_line_as_before_2018() -> None:
    assert tokenize_lines(["Sie lebt in den U.S."], "de") == [
        "Sie lebt in den U.S."
    ]  # since 2018: U.S .


def test_french_apostrophes_stay_left_and_german_ones_do_not() -> None:
    assert tokenize_lines(["l'eau"], "fr") == ["l&apos; eau"]
    assert tokenize_lines(["l'eau"], "de") == ["l &apos; eau"]


def test_a_no_break_space_separates_and_a_soft_hyphen_is_a_token() -> None:
    assert tokenize_lines(["dix\u00a0mille", "Laut\u00adsprecher"], "fr") == [
        "dix mille",
        "Laut \u00ad sprecher",
    ]


def test_control_characters_vanish_without_a_blank() -> None:
    assert tokenize_lines(["ab\x1fcd", "ab\x07cd", "ab\tcd"], "de") == ["abcd", "abcd", "ab cd"]


def test_an_empty_line_has_no_token_and_remains_a_line() -> None:
    assert tokenize_lines(["", "ja", "  "], "de") == ["", "ja", ""]


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("\u201cJa\u201d, sagt\u2019s \u2026", '"Ja", sagt\'s ...'),
        ("\u201eJa\u201c", '\u201eJa"'),  # the low quote is not in the script's list
        ("Ende\u3002   Anfang", "Ende. Anfang"),
        ("\uff11\uff12", '"2'),  # the script's own slip, repaired in 2019
        ("\u00abJa\u00bb \u2013 nein", "\u00abJa\u00bb \u2013 nein"),
    ],
)
def test_typographic_marks_become_the_scripts_ascii(line: str, expected: str) -> None:
    assert replace_unicode_punctuation(line) == expected


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("rich-text format", "rich ##AT##-##AT## text format"),
        ("a-b-c", "a ##AT##-##AT## b-c"),  # b is used up
        ("ab-cd-ef", "ab ##AT##-##AT## cd ##AT##-##AT## ef"),
        (
            "a-\u00e9-c",
            "a ##AT##-##AT## \u00e9 ##AT##-##AT## c",
        ),  # e acute has two bytes: one for each hyphen
        ("ja - nein -1 Ein-", "ja - nein -1 Ein-"),
        (
            "rich @-@ text",
            "rich @ ##AT##-##AT## @ text",
        ),  # why text from tokenizer.perl -a must not come here
    ],
)
def test_a_hyphen_between_two_words_is_split(line: str, expected: str) -> None:
    assert split_compounds(line.encode("utf-8")).decode("utf-8") == expected
