"""The rule's own figures: what three seeds can and cannot decide."""

import pytest

from analysis.verdict import Conditions, Outcome, PooledSd, find_unlikeness, judge, not_comparable, pool_sd

SEED_SD = 0.27  # BLEU, about what seeds vary by
PAPER = Conditions(scale="paper", corpus="wmt14_en_de", testset="newstest2014", metric="bleu_tok_compound_split")


def pooled_over(num_systems: int, sd: float = SEED_SD) -> PooledSd:
    """Return what so many systems of three seeds each give."""
    return PooledSd(
        sd=sd,
        degrees_of_freedom=2 * num_systems,
        num_systems=num_systems,
        smallest_sd=sd,
        largest_sd=sd,
        bartlett_p=None,
    )


def three_around(mean: float) -> list[float]:
    """Return three values with that mean and standard deviation SEED_SD."""
    return [mean - SEED_SD, mean, mean + SEED_SD]


def test_three_seeds_alone_could_call_only_a_twentieth_equivalent() -> None:
    verdict = judge(27.3, three_around(27.3), None)
    assert verdict.outcome is Outcome.REPRODUCED
    assert verdict.largest_equivalent_difference == pytest.approx(0.5 - 2.920 * 0.27 / 3**0.5, abs=0.001)
    assert 0.04 < (verdict.largest_equivalent_difference or 0) < 0.05


def test_pooled_over_four_systems_they_could_call_a_fifth_equivalent() -> None:
    verdict = judge(27.3, three_around(27.3), pooled_over(4))
    assert verdict.largest_equivalent_difference == pytest.approx(0.21, abs=0.005)  # t(0.95, 8 df) = 1.860


def test_a_difference_of_a_tenth_is_undecided_alone_and_reproduced_when_pooled() -> None:
    alone = judge(27.3, three_around(27.2), None)
    assert alone.outcome is Outcome.UNDECIDED
    assert alone.num_seeds_to_decide == 4  # t(0.95, 3 df) = 2.353: 0.1 + 2.353 * 0.27 / 2 = 0.418
    assert judge(27.3, three_around(27.2), pooled_over(4)).outcome is Outcome.REPRODUCED


def test_two_points_below_are_not_reproduced() -> None:
    verdict = judge(27.3, three_around(25.3), None)
    assert verdict.outcome is Outcome.NOT_REPRODUCED
    assert verdict.interval == pytest.approx((-2 - 0.671, -2 + 0.671), abs=0.001)  # 4.303 * 0.27 / 3^0.5


def test_two_points_above_are_not_reproduced_either() -> None:
    assert judge(27.3, three_around(29.3), None).outcome is Outcome.NOT_REPRODUCED


def test_a_difference_of_the_margin_itself_cannot_be_decided_by_any_number() -> None:
    verdict = judge(27.0, [26.0, 26.5, 27.0], None)
    assert (verdict.outcome, verdict.num_seeds_to_decide) == (Outcome.UNDECIDED, None)


def test_noisy_seeds_could_call_nothing_equivalent() -> None:
    verdict = judge(27.3, [26.3, 27.3, 28.3], None)
    assert (verdict.outcome, verdict.largest_equivalent_difference) == (Outcome.UNDECIDED, None)
    assert verdict.num_seeds_to_decide == 13  # t(0.95, 12 df) = 1.782, over 13^0.5: 0.494; with 12 seeds 0.518


def test_two_seeds_are_never_enough_however_close() -> None:
    verdict = judge(27.3, [27.3, 27.3], pooled_over(4, sd=0.01))
    assert (verdict.outcome, verdict.interval) == (Outcome.UNDECIDED, None)
    assert verdict.reason == "Too few seeds: the rule asks for 3 or more."
    assert verdict.num_seeds_to_decide == 3


def test_one_seed_says_its_difference_and_no_more() -> None:
    verdict = judge(41.02, [41.5], None)
    assert verdict.difference == pytest.approx(0.48)
    assert (verdict.outcome, verdict.pooled, verdict.num_seeds_to_decide) == (Outcome.UNDECIDED, None, None)


def test_no_seed_is_undecided() -> None:
    assert judge(27.3, [], None).outcome is Outcome.UNDECIDED


def test_the_pooled_sd_weighs_by_degrees_of_freedom() -> None:
    pooled = pool_sd({"a": [0.0, 2.0], "b": [0.0, 1.0, 2.0], "c": [5.0]})
    assert pooled is not None  # variances 2 (1 df) and 1 (2 df): (2 + 2) / 3
    assert pooled.sd == pytest.approx((4 / 3) ** 0.5)
    assert (pooled.degrees_of_freedom, pooled.num_systems) == (3, 2)
    assert (pooled.smallest_sd, pooled.largest_sd) == pytest.approx((1.0, 2**0.5))
    assert 0 < (pooled.bartlett_p or 0) <= 1


def test_unlike_systems_are_told_by_bartletts_test() -> None:
    pooled = pool_sd({"calm": [1.0, 1.01, 1.02, 1.03], "wild": [1.0, 5.0, 9.0, 20.0]})
    assert pooled is not None
    assert (pooled.bartlett_p or 1) < 0.001


def test_single_seeds_have_nothing_to_pool() -> None:
    assert pool_sd({"a": [1.0], "b": [2.0]}) is None


@pytest.mark.parametrize(
    ("key", "value", "words"),
    [
        ("scale", "demo", "Another scale: ours is demo, the printed number's paper"),
        ("corpus", "wmt17", "Another corpus: ours is wmt17, the printed number's wmt14_en_de"),
        ("testset", "newstest2013", "Another test set: ours is newstest2013, the printed number's newstest2014"),
        ("metric", "bleu_sacre_13a", "Another definition: ours is bleu_sacre_13a, the printed number's bleu_tok_compo"),
    ],
)
def test_each_unlike_condition_is_named(key: str, value: str, words: str) -> None:
    values = {"scale": PAPER.scale, "corpus": PAPER.corpus, "testset": PAPER.testset, "metric": PAPER.metric}
    unlike = find_unlikeness(Conditions(**(values | {key: value})), PAPER)
    assert unlike is not None
    assert unlike.startswith(words)
    assert not_comparable(unlike, 3).outcome is Outcome.NOT_COMPARABLE


def test_like_conditions_are_like() -> None:
    assert find_unlikeness(PAPER, PAPER) is None
