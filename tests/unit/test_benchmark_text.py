"""The benchmarks' text is as long, as varied and as seldom repeated as it says, and the same for the same seed."""

import os
import statistics
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from tests.benchmarks.corpus_text import (
    MEAN_WORDS,
    NUM_INVENTED_TYPES,
    PAIRS_PER_BLOCK,
    CorpusText,
    read_real_pairs,
    write_corpus_text,
)

NUM_PAIRS = PAIRS_PER_BLOCK + 5_000


def plain_pairs(num_pairs: int, num_words: int = 1_500) -> list[tuple[str, str]]:
    """Return pairs of as many words on both sides, in the place of real ones."""
    rng = np.random.default_rng(1)
    syllables = rng.choice(list("bdfgklmnprst"), size=(num_words, 3)).astype(object) + rng.choice(
        list("aeiou"), size=(num_words, 3)
    ).astype(object)
    words = syllables.sum(axis=1)
    lines = [" ".join(rng.choice(words, size=rng.integers(3, 25))) for _ in range(num_pairs)]
    return [(line, line.upper()) for line in lines]


@pytest.fixture(scope="module")
def text() -> CorpusText:
    """Return text of the full vocabulary."""
    return CorpusText(plain_pairs(2_000), seed=7)


def lines_of(text: CorpusText, num_pairs: int) -> tuple[list[str], list[str]]:
    """Return both sides, line by line."""
    source, target = ("".join(side) for side in zip(*text.blocks(num_pairs), strict=True))
    assert source.endswith("\n")
    assert target.endswith("\n")
    return source[:-1].split("\n"), target[:-1].split("\n")


def duplicate_fraction(pairs: Sequence[tuple[str, str]]) -> float:
    """Return which share of the pairs stood before."""
    return 1 - len(set(pairs)) / len(pairs)


def test_the_vocabulary_has_more_than_half_a_million_words_a_side(text: CorpusText) -> None:
    assert min(text.num_types) > NUM_INVENTED_TYPES > 500_000
    for side in text._sides:
        assert len(set(side.table.tolist())) == len(side.table)  # no word stands there twice


def test_lines_are_as_long_as_wmts_and_sides_are_in_step(text: CorpusText) -> None:
    source, target = lines_of(text, NUM_PAIRS)
    assert len(source) == len(target) == NUM_PAIRS
    num_words = [len(line.split(" ")) for line in source]
    assert statistics.mean(num_words) == pytest.approx(MEAN_WORDS, rel=0.02)
    assert statistics.stdev(num_words) == pytest.approx(16, rel=0.1)
    assert 0.003 < sum(number > 80 for number in num_words) / NUM_PAIRS < 0.02
    assert all(line.strip(" ") == line != "" and "  " not in line for line in [*source, *target])


def test_pairs_are_seldom_repeated(text: CorpusText) -> None:
    pairs = list(zip(*lines_of(text, NUM_PAIRS), strict=True))
    assert duplicate_fraction(pairs) < 0.01
    assert duplicate_fraction(pairs * 2) == pytest.approx(0.5, abs=0.005)  # repetition would be seen


def test_invented_words_follow_zipfs_law(text: CorpusText) -> None:
    # Of 24,000,000 words 15 % are invented: 3,600,000. The harmonic number of 600,000 is 13.9, so the most frequent is
    # 259,000 of them, the second half of that.
    assert text._cumulative_share[0] == pytest.approx(1 / 13.88, rel=0.001)
    source, _ = lines_of(text, PAIRS_PER_BLOCK)
    side = text._sides[0]
    rank_by_word = {
        word.strip(): rank for rank, word in enumerate(side.table[side.num_real_types :][:NUM_INVENTED_TYPES])
    }
    ranks = np.array([rank_by_word[word] for line in source for word in line.split(" ") if word in rank_by_word])
    num_words = sum(len(line.split(" ")) for line in source)
    # 0.15, and a line's one sure word where it is not drawn anyway: 0.15 + 0.85 / 24
    assert ranks.size / num_words == pytest.approx(0.185, abs=0.01)
    first, second, tenth = ((ranks == rank).sum() for rank in (0, 1, 9))
    assert first / ranks.size == pytest.approx(1 / 13.88, rel=0.05)
    assert first / second == pytest.approx(2, rel=0.1)
    assert first / tenth == pytest.approx(10, rel=0.2)


def test_a_short_text_is_the_beginning_of_a_long_one(text: CorpusText) -> None:
    short, long = lines_of(text, 1_000), lines_of(text, NUM_PAIRS)
    assert [side[:1_000] for side in long] == list(short)


def test_another_seed_gives_other_text_and_the_same_seed_the_same(text: CorpusText) -> None:
    first, again, other = (
        lines_of(CorpusText(plain_pairs(300), seed=seed, num_invented_types=5_000), 50) for seed in (1, 1, 2)
    )
    assert first == again
    assert first != other


def test_a_line_is_made_of_fragments_that_translate_each_other() -> None:
    # One pair of equally long sides: whatever is cut, the nth word of the source stands above the nth of the target.
    source = [f"alpha{letter}" for letter in "abcdefghijklmnopqrst"]
    target = [f"omega{letter}" for letter in "abcdefghijklmnopqrst"]
    made = CorpusText([(" ".join(source), " ".join(target))], seed=1, num_invented_types=20)
    num_seen = 0
    for source_line, target_line in zip(*lines_of(made, 200), strict=True):
        for above, below in zip(source_line.split(" "), target_line.split(" "), strict=True):
            if above in source and below in target:
                assert above[-1] == below[-1]
                num_seen += 1
    assert num_seen > 2_000


def test_too_little_real_text_to_invent_from_is_refused() -> None:
    with pytest.raises(ValueError, match="1 beginnings and 1 endings of real words; too few to invent 600000 words"):
        CorpusText([("abcd", "efgh")], seed=1)


@pytest.mark.skipif("AIAYN_MIRROR" not in os.environ, reason="set AIAYN_MIRROR to a base of newstest/ and multi30k/")
@pytest.mark.parametrize("language_pair", ["en-de", "en-fr"])
def test_real_text_makes_lines_of_wmts_length(language_pair: str) -> None:
    real = read_real_pairs(os.environ["AIAYN_MIRROR"], language_pair)
    made = CorpusText(real[::5], seed=1, num_invented_types=50_000)  # a fifth of it, for time
    source, target = lines_of(made, PAIRS_PER_BLOCK)
    assert statistics.mean(len(line.split(" ")) for line in source) == pytest.approx(MEAN_WORDS, rel=0.02)
    assert statistics.mean(len(line.split(" ")) for line in target) == pytest.approx(MEAN_WORDS, rel=0.15)
    assert statistics.mean(len(line.encode()) for line in source) == pytest.approx(150, rel=0.15)
    assert duplicate_fraction(list(zip(source, target, strict=True))) < 0.01
    assert len({word for line in [*source, *target] for word in line.split(" ")}) > 50_000


def test_both_sides_are_written(tmp_path: Path, text: CorpusText) -> None:
    paths = {language: tmp_path / f"train.{language}" for language in ("en", "de")}
    write_corpus_text(text, 30, paths)
    assert [path.read_text(encoding="utf-8").split("\n") for path in paths.values()] == [
        [*side, ""] for side in lines_of(text, 30)
    ]
