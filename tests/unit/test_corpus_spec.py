"""Pairs in a corpus file are read unchanged, and an error in them is refused at its own line."""

from aiayn.spec.system import ListedSource, read_corpus


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
