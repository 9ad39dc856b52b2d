"""Pairs that stand in a corpus file are read as they are, and a fault in them is refused at its own line."""

from pathlib import Path

import pytest

from aiayn.errors import ConfigError
from aiayn.spec.system import CorpusSpec, ListedSource, read_corpus

LISTED = """\
name: tiny
description: two pairs
language_pair: en-es
source:
  kind: listed
  pairs_by_split:
    train:
      - {en: hello world, es: hola mundo}
      - {en: i love you, es: te amo}
    six: [{en: hello world, es: hola mundo}]
    eight:
      - {en: i love cat, es: amo gato}
dev_testset: six
test_testset: eight
"""


def read_tiny(tmp_path: Path, old: str = "", new: str = "") -> CorpusSpec:
    """Read the corpus above after one edit."""
    assert not old or LISTED.count(old) == 1
    path = tmp_path / "corpora" / "tiny.yaml"
    path.parent.mkdir(exist_ok=True)
    path.write_text(LISTED.replace(old, new) if old else LISTED, encoding="utf-8", newline="\n")
    return read_corpus("tiny", tmp_path)


def test_listed_pairs_are_read_and_are_in_pieces(tmp_path: Path) -> None:
    corpus = read_tiny(tmp_path)
    assert isinstance(corpus.source, ListedSource)
    assert corpus.source.pairs_by_split["train"][1] == {"en": "i love you", "es": "te amo"}
    assert (corpus.source_language, corpus.target_language, corpus.testsets) == ("en", "es", ("six", "eight"))
    assert corpus.is_segmented  # so neither clean nor segment has anything to do


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("{en: i love you, es: te amo}", "{en: i love you}",
         "tiny.yaml:9: source.pairs_by_split.train[1] is {'en': 'i love you'}"),
        ("{en: i love you, es: te amo}", "{en: i love you, es: te amo, fr: je t'aime}",
         "tiny.yaml:9: source.pairs_by_split.train[1] is {'en': 'i love you', 'es': 'te amo', 'fr': "),
        ("{en: i love cat, es: amo gato}", "{en: i love cat, es: ''}",
         "tiny.yaml:12: source.pairs_by_split.eight[0].es is ''"),
        ("es: te amo", "es: te  amo",
         "tiny.yaml:9: source.pairs_by_split.train[1].es is 'te  amo'"),
        ("es: te amo", "es: te@@ amo",
         "tiny.yaml:9: source.pairs_by_split.train[1].es is 'te@@ amo'"),
        ("es: te amo", "es: 7", "tiny.yaml:9: source.pairs_by_split[...][1][...]: "),
        ("    six: [{en: hello world, es: hola mundo}]\n", "",
         "tiny.yaml:6: source.pairs_by_split is 'six: None'"),
        ("six: [{en: hello world, es: hola mundo}]", "six: []",
         "tiny.yaml:6: source.pairs_by_split is 'six: []'"),
        ("    eight:\n", "    seven: [{en: i, es: yo}]\n    eight:\n",
         "tiny.yaml:11: source.pairs_by_split.seven is 'seven'"),
        ("test_testset: eight", "test_testset: six",
         "tiny.yaml:14: test_testset is 'six'"),
        ("test_testset: eight", "test_testset: eight\nfurther_testsets: [six]",
         "tiny.yaml:15: further_testsets is 'six'"),
        ("dev_testset: six", "dev_testset: train",
         "tiny.yaml:13: dev_testset is 'train'"),
    ],
)  # fmt: skip
def test_a_fault_in_listed_pairs_is_refused_with_file_line_and_key(
    tmp_path: Path, old: str, new: str, message: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        read_tiny(tmp_path, old, new)
    assert str(caught.value).replace(f"{tmp_path}/corpora/", "").startswith(message)


def test_listed_pairs_leave_nothing_to_segment(tmp_path: Path) -> None:
    subword = "test_testset: eight\nsubword: {vocabulary_size: 9, joint: true}"
    with pytest.raises(ConfigError, match=r"tiny\.yaml:15: subword is .*; expected absent: the text comes in pieces"):
        read_tiny(tmp_path, "test_testset: eight", subword)


def test_the_toy_is_the_tutorials_six_pairs_and_eight_sentences() -> None:
    corpus = read_corpus("toy_en_es")
    assert isinstance(corpus.source, ListedSource)
    pairs_by_split = corpus.source.pairs_by_split
    assert corpus.testsets == ("toy_six", "toy_eight")
    assert pairs_by_split["toy_six"] == pairs_by_split["train"]
    assert len(pairs_by_split["train"]) == 6
    trained = [pair for pair in pairs_by_split["toy_eight"] if pair in pairs_by_split["train"]]
    assert len(trained) == 6
    unseen = [pair["en"] for pair in pairs_by_split["toy_eight"] if pair not in trained]
    assert unseen == ["i love cat", "this is a cat"]


def test_every_word_of_the_toys_tests_was_trained_on() -> None:
    source = read_corpus("toy_en_es").source
    assert isinstance(source, ListedSource)
    for language, num_words in [("en", 17), ("es", 15)]:  # counted by hand: 32 words in all
        words_by_split = {
            split: {word for pair in pairs for word in pair[language].split()}
            for split, pairs in source.pairs_by_split.items()
        }
        assert len(words_by_split["train"]) == num_words
        assert words_by_split["toy_eight"] <= words_by_split["train"]
