"""The rule's own figures: what three seeds can and cannot decide."""

import msgspec
import pytest

from aiayn.scoring.verdict import (
    Conditions,
    Outcome,
    PooledSd,
    chance_of_any,
    find_condition_mismatch,
    holm_adjusted,
    judge,
    judge_family,
    not_comparable,
    pool_sd,
)

SEED_SD = 0.27  # BLEU, about what seeds vary by
PAPER = Conditions(
    scale="paper", corpus="wmt14_en_de", testset="newstest2014", metric="bleu_tok_compound_split"
)


def pooled_over(num_systems: int, sd: float = SEED_SD) -> PooledSd:
    """Return the standard deviation pooled over systems of three seeds each."""
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
    assert verdict.largest_equivalent_difference == pytest.approx(
        0.5 - 2.920 * 0.27 / 3**0.5, abs=0.001
    )
    assert 0.04 < (verdict.largest_equivalent_difference or 0) < 0.05


def test_pooled_over_four_systems_they_could_call_a_fifth_equivalent() -> None:
    verdict = judge(27.3, three_around(27.3), pooled_over(4))
    assert verdict.largest_equivalent_difference == pytest.approx(
        0.21, abs=0.005
    )  # t(0.95, 8 df) = 1.860


def test_a_difference_of_a_tenth_is_undecided_alone_and_reproduced_when_pooled() -> None:
    alone = judge(27.3, three_around(27.2), None)
    assert alone.outcome is Outcome.UNDECIDED
    assert alone.num_seeds_to_decide == 4  # t(0.95, 3 df) = 2.353: 0.1 + 2.353 * 0.27 / 2 = 0.418
    assert judge(27.3, three_around(27.2), pooled_over(4)).outcome is Outcome.REPRODUCED


def test_two_points_below_or_above_are_not_reproduced() -> None:
    verdict = judge(27.3, three_around(25.3), None)
    assert verdict.outcome is Outcome.NOT_REPRODUCED
    assert verdict.interval == pytest.approx(
        (-2 - 0.671, -2 + 0.671), abs=0.001
    )  # 4.303 * 0.27 / 3^0.5
    assert judge(27.3, three_around(29.3), None).outcome is Outcome.NOT_REPRODUCED


def test_a_difference_of_the_margin_itself_cannot_be_decided_by_any_number() -> None:
    verdict = judge(27.0, [26.0, 26.5, 27.0], None)
    assert (verdict.outcome, verdict.num_seeds_to_decide) == (Outcome.UNDECIDED, None)


def test_noisy_seeds_could_call_nothing_equivalent() -> None:
    verdict = judge(27.3, [26.3, 27.3, 28.3], None)
    assert (verdict.outcome, verdict.largest_equivalent_difference) == (Outcome.UNDECIDED, None)
    assert (
        verdict.num_seeds_to_decide == 13
    )  # t(0.95, 12 df) = 1.782, over 13^0.5: 0.494; with 12 seeds 0.518


def test_the_printed_number_is_one_run_and_is_held_against_one_more_of_ours() -> None:
    verdict = judge(28.4, three_around(27.3), None)
    assert verdict.prediction_half_width == pytest.approx(
        1.341, abs=0.001
    )  # 4.303 * 0.27 * (1 + 1/3)^0.5
    assert verdict.prediction_interval == pytest.approx((27.3 - 1.341, 27.3 + 1.341), abs=0.001)
    assert verdict.is_printed_predicted is True
    assert judge(28.7, three_around(27.3), None).is_printed_predicted is False
    assert judge(25.9, three_around(27.3), None).is_printed_predicted is False


def test_inside_the_prediction_interval_is_no_verdict() -> None:
    verdict = judge(28.4, [26.4, 27.3, 28.2], None)  # sd 0.9: the interval is 9 wide
    assert (verdict.is_printed_predicted, verdict.outcome) == (True, Outcome.UNDECIDED)
    outside = judge(27.5, three_around(27.3), pooled_over(30, sd=0.02))
    assert (outside.is_printed_predicted, outside.outcome) == (False, Outcome.REPRODUCED)


def test_a_prediction_takes_the_df_of_the_sd_and_the_seeds_of_the_cell() -> None:
    verdict = judge(27.3, three_around(27.3), pooled_over(4))
    assert verdict.prediction_half_width == pytest.approx(
        2.306 * 0.27 * (4 / 3) ** 0.5, abs=0.001
    )  # 8 df, n = 3
    alone = judge(27.3, [27.1], pooled_over(4))
    assert alone.prediction_half_width == pytest.approx(2.306 * 0.27 * 2**0.5, abs=0.001)


def test_without_an_sd_or_where_not_comparable_nothing_is_predicted() -> None:
    for verdict in (
        judge(27.3, [27.3], None),
        judge(27.3, [], None),
        not_comparable("Another corpus", 3),
    ):
        assert (verdict.prediction_interval, verdict.prediction_half_width) == (None, None)
        assert verdict.is_printed_predicted is None


def test_two_seeds_are_never_enough_however_close() -> None:
    verdict = judge(27.3, [27.3, 27.3], pooled_over(4, sd=0.01))
    assert (verdict.outcome, verdict.interval) == (Outcome.UNDECIDED, None)
    assert (verdict.p_difference, verdict.p_equivalent, verdict.p_outside) == (None, None, None)
    assert verdict.reason == "Too few seeds: the rule asks for 3 or more."
    assert verdict.num_seeds_to_decide == 3


def test_one_seed_says_its_difference_and_no_more_and_none_nothing() -> None:
    verdict = judge(41.02, [41.5], None)
    assert verdict.difference == pytest.approx(0.48)
    assert (verdict.outcome, verdict.pooled, verdict.num_seeds_to_decide) == (
        Outcome.UNDECIDED,
        None,
        None,
    )
    assert judge(27.3, [], None).outcome is Outcome.UNDECIDED


def test_the_pooled_sd_weighs_by_degrees_of_freedom() -> None:
    pooled = pool_sd({"a": [0.0, 2.0], "b": [0.0, 1.0, 2.0], "c": [5.0]})
    assert pooled is not None  # variances 2 (1 df) and 1 (2 df): (2 + 2) / 3
    assert pooled.sd == pytest.approx((4 / 3) ** 0.5)
    assert (pooled.degrees_of_freedom, pooled.num_systems) == (3, 2)
    assert (pooled.smallest_sd, pooled.largest_sd) == pytest.approx((1.0, 2**0.5))
    assert 0 < (pooled.bartlett_p or 0) <= 1


def test_systems_of_different_variance_have_a_small_p_of_bartletts_test() -> None:
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
        (
            "testset",
            "newstest2013",
            "Another test set: ours is newstest2013, the printed number's newstest2014",
        ),
        (
            "metric",
            "chrf",
            "Another definition: ours is chrf, the printed number's bleu_tok_compound_split",
        ),
    ],
)
def test_each_condition_mismatch_is_named(key: str, value: str, words: str) -> None:
    assert find_condition_mismatch(PAPER, PAPER) is None
    mismatch = find_condition_mismatch(msgspec.structs.replace(PAPER, **{key: value}), PAPER)
    assert mismatch == words
    assert not_comparable(mismatch, 3).outcome is Outcome.NOT_COMPARABLE


def test_the_p_values_of_three_seeds_can_be_worked_out_by_hand() -> None:
    # With 2 degrees of freedom P(t > x) is 1 / 2 - x / (2 (2 + x^2)^0.5).
    verdict = judge(
        27.3, [27.3, 28.3, 29.3], None
    )  # d = 1, sd 1, e = 1 / 3^0.5, 2 degrees of freedom
    assert verdict.p_difference == pytest.approx(0.2254, abs=0.0001)  # 2 P(t > 1.732)
    assert verdict.p_equivalent == pytest.approx(0.7611, abs=0.0001)  # P(t > -0.866)
    assert verdict.p_outside == pytest.approx(2 * (1 - 0.7611), abs=0.0001)  # 2 P(t > 0.866)


@pytest.mark.parametrize("hundredths", range(-120, 121, 7))
def test_each_verdict_is_what_its_p_value_says(hundredths: int) -> None:
    verdict = judge(27.3, three_around(27.3 + hundredths / 100), pooled_over(4))
    assert (verdict.outcome is Outcome.REPRODUCED) == ((verdict.p_equivalent or 0) < 0.05)
    assert (verdict.outcome is Outcome.NOT_REPRODUCED) == ((verdict.p_outside or 0) < 0.05)
    assert verdict.interval is not None
    low, high = verdict.interval
    assert ((verdict.p_difference or 0) < 0.05) == (not low <= 0 <= high)


def test_a_difference_that_is_surely_there_may_still_be_no_difference_that_matters() -> None:
    verdict = judge(27.3, [27.39, 27.40, 27.41], None)
    assert verdict.p_difference is not None
    assert verdict.p_difference < 0.01  # 0.1 / (0.01 / 3^0.5) = 17.3 standard errors
    assert verdict.outcome is Outcome.REPRODUCED


def test_seeds_without_any_spread_are_certain_except_on_the_margin() -> None:
    verdicts = [judge(27.0, [mean] * 3, None) for mean in (27.25, 27.5, 27.75)]
    assert [verdict.p_equivalent for verdict in verdicts] == [0.0, 0.5, 1.0]
    assert [verdict.p_outside for verdict in verdicts] == [1.0, 1.0, 0.0]
    outcomes = [verdict.outcome for verdict in verdicts]
    assert outcomes == [Outcome.REPRODUCED, Outcome.UNDECIDED, Outcome.NOT_REPRODUCED]


@pytest.mark.parametrize(
    ("values", "outcome"),
    [
        ([27.3] * 3, "Equivalent: both one-sided tests reject a difference of 0.5 BLEU or more."),
        (
            [25.3, 25.4, 25.5],
            "The 95 % interval of the difference lies outside the margin of 0.5 BLEU.",
        ),
        (
            [26.8, 27.3, 27.8],
            "Neither equivalent within 0.5 BLEU nor outside it: the seeds leave both open.",
        ),
        ([27.3], "Too few seeds: the rule asks for 3 or more."),
    ],
)
def test_each_verdict_says_its_reason_in_a_sentence(values: list[float], outcome: str) -> None:
    assert judge(27.3, values, None).reason == outcome


def test_bartletts_test_decides_nothing_and_can_be_left_out() -> None:
    values = {"a": [0.0, 2.0, 1.0], "b": [0.0, 1.0, 2.5]}
    with_test, without = pool_sd(values), pool_sd(values, with_bartlett=False)
    assert with_test is not None
    assert without is not None
    assert (without.sd, without.degrees_of_freedom, without.bartlett_p) == (with_test.sd, 4, None)


# Many verdicts together


def test_fourteen_tests_at_five_percent_are_as_likely_wrong_somewhere_as_not() -> None:
    assert chance_of_any(0.05, 14) == pytest.approx(0.5123, abs=0.0001)  # 1 - 0.95^14
    assert chance_of_any(0.05, 1) == pytest.approx(0.05)
    assert chance_of_any(0.05, 0) == 0


def test_holm_multiplies_the_smallest_by_all_and_the_largest_by_one() -> None:
    assert holm_adjusted([0.01, 0.04, 0.03]) == pytest.approx(
        [0.03, 0.06, 0.06]
    )  # 3 x 0.01, 2 x 0.03, then no less


def test_holm_never_exceeds_one_nor_turns_the_order() -> None:
    assert holm_adjusted([0.9, 0.6, 0.5]) == [1.0, 1.0, 1.0]
    adjusted = holm_adjusted([0.001, 0.011, 0.02, 0.03])
    assert adjusted == sorted(adjusted)


def test_one_cell_needs_no_correction() -> None:
    assert holm_adjusted([0.04]) == [0.04]
    assert holm_adjusted([]) == []


def test_correction_takes_back_a_verdict_that_holds_alone() -> None:
    close = judge(27.3, [27.2, 27.3, 27.4], None)  # e = 0.0577: P(t > 8.66, 2 df) = 0.0065
    barely = judge(27.3, [27.03, 27.3, 27.57], None)  # e = 0.156: P(t > 3.207, 2 df) = 0.0425
    family = judge_family([close, barely, not_comparable("Another scale", 3)])
    assert (close.outcome, barely.outcome) == (Outcome.REPRODUCED, Outcome.REPRODUCED)
    first, second, third = family.corrected
    assert first is not None
    assert second is not None
    assert third is None
    assert first.p_equivalent == pytest.approx(0.0131, abs=0.0001)
    assert second.p_equivalent == pytest.approx(0.0425, abs=0.0001)
    three = judge_family([barely, barely, barely]).corrected  # 3 x 0.0425
    assert [one.outcome for one in three if one is not None] == [Outcome.UNDECIDED] * 3


def test_only_cells_that_the_rule_was_applied_to_are_counted() -> None:
    far = judge(27.3, [20.0, 20.1, 20.2], None)
    too_few = judge(27.3, [27.3], None)
    family = judge_family([far, too_few, not_comparable("Another scale", 3)])
    assert family.num_judged == 1
    assert family.chance_wrongly_reproduced == pytest.approx(0.05)
    assert family.chance_wrongly_not_reproduced == pytest.approx(0.025)
    assert [one.outcome if one else None for one in family.corrected] == [
        Outcome.NOT_REPRODUCED,
        None,
        None,
    ]


def test_no_verdict_is_no_family() -> None:
    family = judge_family([])
    assert (family.num_judged, family.chance_wrongly_reproduced, family.corrected) == (0, 0.0, ())
