"""Translations without training, each checked by hand."""

import pytest

from aiayn.data import baselines
from aiayn.data.baselines import nearest_training_sentence, translate_word_by_word
from aiayn.data.text.lines import read_lines
from aiayn.spec.system import CONFIG_FOLDER, ShippedSource, read_corpus

TRAIN_SOURCES = [
    "The dog sees the cat.",
    "The dog sees the queen.",
    "A man buys a book.",
    "A man buys a house.",
]
TRAIN_TARGETS = [
    "Der Hund sieht die Katze.",
    "Der Hund sieht die Königin.",
    "Ein Mann kauft ein Buch.",
    "Ein Mann kauft ein Haus.",
]


def test_known_words_are_replaced_in_place_and_all_else_stays() -> None:
    words = {"if": "wenn", "the": "die", "dog": "Hund", "cat": "Katze", "sees": "sieht"}
    sources = ["If the dog sees, the CAT.", "the unicorn", ""]
    translations = ["Wenn die Hund sieht, die Katze.", "die unicorn", ""]
    assert translate_word_by_word(sources, words) == translations


@pytest.mark.parametrize(
    ("corpus", "translation"),
    [  # rightly: sind ... gegangen, zum; les, a feminine plural
        ("demo_en_de", "Gestern die Mädchen gegangen zu die Bahnhof."),
        ("demo_en_fr", "Hier le filles allé à le gare."),
    ],
)
def test_the_demos_dictionary_fails_at_order_agreement_and_contraction(
    corpus: str, translation: str
) -> None:
    source = "Yesterday the girls went to the station."
    shipped = read_corpus(corpus).source
    assert isinstance(shipped, ShippedSource)
    entries = read_lines(CONFIG_FOLDER / "corpora" / str(shipped.dictionary))
    assert translate_word_by_word([source], dict(entry.split("\t") for entry in entries)) == [
        translation
    ]


def test_a_rare_word_decides_against_a_common_one() -> None:
    train_sources = [
        "the cat",
        "the dog",
        "the bird",
        "a queen",
    ]  # "the" is in three of four, "queen" in one
    assert nearest_training_sentence(["the queen"], train_sources, ["1", "2", "3", "4"]) == ["4"]


def test_among_equals_the_earliest_training_sentence_wins() -> None:
    assert nearest_training_sentence(
        ["a b"], ["a c", "b c", "a b", "b a"], ["1", "2", "3", "4"]
    ) == ["3"]
    assert (
        nearest_training_sentence(["unheard", ""], TRAIN_SOURCES, TRAIN_TARGETS)
        == [TRAIN_TARGETS[0]] * 2
    )


def test_the_answer_does_not_depend_on_how_many_are_compared_at_a_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sources = ["The queen sees a book.", "A man sees the cat.", "A house."]
    together = nearest_training_sentence(sources, TRAIN_SOURCES, TRAIN_TARGETS)
    monkeypatch.setattr(baselines, "MAX_SIMILARITIES", 1)
    assert nearest_training_sentence(sources, TRAIN_SOURCES, TRAIN_TARGETS) == together
