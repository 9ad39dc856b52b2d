"""The rule's own figures: what three seeds can and cannot decide."""

from typing import Any

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
    largest_reproducible_sd,
    not_comparable,
    pool_sd,
)
from tests.case_tables import read_cases

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


@pytest.mark.parametrize("case", read_cases("verdicts.toml"), ids=lambda case: case["name"])
def test_a_verdict_is_the_one_worked_out_by_hand(case: dict[str, Any]) -> None:
    values = case["values"] if "values" in case else three_around(case["around"])
    pooled = (
        pooled_over(case["pooled"], case.get("pooled_sd", SEED_SD)) if "pooled" in case else None
    )
    verdict = judge(case["printed"], values, pooled)
    for field, expected in case["expected"].items():
        value = getattr(verdict, field)
        if isinstance(expected, float | list):
            assert value == pytest.approx(expected, abs=0.0001), field
        else:
            assert getattr(value, "name", value) == expected, field
    assert [field for field in case.get("absent", []) if getattr(verdict, field) is not None] == []


def test_the_pooled_sd_weighs_by_degrees_of_freedom() -> None:
    pooled = pool_sd({"a": [0.0, 2.0], "b": [0.0, 1.0, 2.0], "c": [5.0]})
    assert pooled is not None  # variances 2 (1 df) and 1 (2 df): (2 + 2) / 3
    assert pooled.sd == pytest.approx((4 / 3) ** 0.5)
    assert (pooled.degrees_of_freedom, pooled.num_systems) == (3, 2)
    assert (pooled.smallest_sd, pooled.largest_sd) == pytest.approx((1.0, 2**0.5))
    assert 0 < (pooled.bartlett_p or 0) <= 1


def test_systems_of_different_variance_have_a_small_p_of_bartletts_test_which_can_be_left_out() -> (
    None
):
    values = {"calm": [1.0, 1.01, 1.02, 1.03], "wild": [1.0, 5.0, 9.0, 20.0]}
    with_test, without = pool_sd(values), pool_sd(values, with_bartlett=False)
    assert with_test is not None
    assert 0 < (with_test.bartlett_p or 0) < 0.001
    assert without == msgspec.structs.replace(with_test, bartlett_p=None)


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
    verdict = not_comparable(mismatch, 3)
    assert verdict.outcome is Outcome.NOT_COMPARABLE
    assert (verdict.prediction_interval, verdict.is_printed_predicted) == (None, None)


@pytest.mark.parametrize("hundredths", range(-120, 121, 7))
def test_each_verdict_is_what_its_p_value_says(hundredths: int) -> None:
    verdict = judge(27.3, three_around(27.3 + hundredths / 100), pooled_over(4))
    assert (verdict.outcome is Outcome.REPRODUCED) == ((verdict.p_equivalent or 0) < 0.05)
    assert (verdict.outcome is Outcome.NOT_REPRODUCED) == ((verdict.p_outside or 0) < 0.05)
    assert verdict.interval is not None
    low, high = verdict.interval
    assert ((verdict.p_difference or 0) < 0.05) == (not low <= 0 <= high)


def test_three_seeds_never_reproduce_from_the_largest_reproducible_sd_on() -> None:
    """By hand: 0.5 x 3^0.5 / 2.920, t(0.95, 2 df) = 2.920. With 8 df, t = 1.860."""
    largest = largest_reproducible_sd(3, 2)
    assert largest == pytest.approx(0.2966, abs=0.0001)
    assert largest_reproducible_sd(3, 8) == pytest.approx(0.4657, abs=0.0001)
    for sd, outcome in ((largest - 0.001, Outcome.REPRODUCED), (largest, Outcome.UNDECIDED)):
        assert judge(27.3, [27.3 - sd, 27.3, 27.3 + sd], None).outcome is outcome


# Many verdicts together


def test_fourteen_tests_at_five_percent_are_as_likely_wrong_somewhere_as_not() -> None:
    assert chance_of_any(0.05, 14) == pytest.approx(0.5123, abs=0.0001)  # 1 - 0.95^14
    assert chance_of_any(0.05, 1) == pytest.approx(0.05)
    assert chance_of_any(0.05, 0) == 0


@pytest.mark.parametrize(
    ("p_values", "adjusted"),
    [
        ([0.01, 0.04, 0.03], [0.03, 0.06, 0.06]),  # 3 x 0.01, 2 x 0.03, then no less
        ([0.001, 0.011, 0.02, 0.03], [0.004, 0.033, 0.04, 0.04]),
        ([0.9, 0.6, 0.5], [1.0, 1.0, 1.0]),  # never above one
        ([0.04], [0.04]),
        ([], []),
    ],
)
def test_holm_multiplies_the_smallest_by_all_and_the_largest_by_one(
    p_values: list[float], adjusted: list[float]
) -> None:
    assert holm_adjusted(p_values) == pytest.approx(adjusted)
