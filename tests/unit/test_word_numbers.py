"""Words are numbered once while they are remembered, and no more of them are remembered than allowed."""

import pytest

import aiayn.text.word_numbers
from aiayn.text.word_numbers import WordNumbers, join_rows


def test_rows_are_joined_with_an_end_each() -> None:
    words = WordNumbers(lambda word: [ord(character) for character in word])
    numbers, lengths = join_rows([words.row("ab  c"), words.row(""), words.row(" ")], 7)
    assert numbers.tolist() == [97, 98, 99, 7, 7, 7]
    assert lengths.tolist() == [4, 1, 1]
    numbers, lengths = join_rows([], 7)
    assert (numbers.tolist(), lengths.tolist()) == ([], [])


def test_words_seen_lately_are_remembered_and_others_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two generations of two: `a`, asked for in every line, is numbered once, whatever passes by."""
    monkeypatch.setattr(aiayn.text.word_numbers, "MAX_WORDS", 2)
    asked: list[str] = []

    def number_word(word: str) -> list[int]:
        asked.append(word)
        return [len(word)]

    words = WordNumbers(number_word)
    for index in range(20):
        words.row(f"a w{index}")
        assert len(words) <= 2
    assert asked.count("a") == 1
    assert len(asked) == 21
    words.row("w0")
    assert asked.count("w0") == 2
