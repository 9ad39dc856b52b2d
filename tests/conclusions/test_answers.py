"""The six answers of decision 0012, on numbers that are checked by hand."""

import pytest

from aiayn.scoring.verdict import PooledSd
from analysis.conclusions.answers import (
    ContrastAnswer,
    Estimate,
    Relation,
    answer_contrast,
    answer_family,
    estimate_difference,
)

# The experiment's own: sd 0.0161, df 19, two seeds against six. t(0.975, 19) = 2.093, t(0.95, 19) =
# 1.729.
POOLED = PooledSd(
    sd=0.0161,
    degrees_of_freedom=19,
    num_systems=15,
    smallest_sd=0.0,
    largest_sd=0.03,
    bartlett_p=None,
)


def estimate(difference: float) -> Estimate:
    return estimate_difference(difference, POOLED, 2, 6)


def test_an_estimate_has_the_reach_of_the_pooled_sd() -> None:
    """A standard error of 0.0161 x sqrt(1/2 + 1/6) = 0.01315, a reach of 0.0275, a one-sided reach
    of 0.0227.
    """
    found = estimate(0.006)
    assert found.standard_error == pytest.approx(0.01315, abs=1e-5)
    assert found.reach == pytest.approx(0.0275, abs=1e-4)
    assert found.smallest_margin() == pytest.approx(0.006 + 0.0227, abs=1e-4)
    assert found.smallest_margin(15) > found.smallest_margin()


@pytest.mark.parametrize(
    ("relation", "printed", "difference", "expected"),
    [
        ("above", 0.105, 0.10, ContrastAnswer.AS_PRINTED),
        ("below", -0.078, -0.17, ContrastAnswer.AS_PRINTED),
        ("above", 0.105, -0.04, ContrastAnswer.REVERSED),
        ("below", -0.078, 0.04, ContrastAnswer.REVERSED),
        ("above", 0.105, 0.006, ContrastAnswer.ABSENT),  # -0.021 to 0.034 excludes 0.105
        ("below", -0.012, -0.001, ContrastAnswer.TOO_SMALL),  # -0.029 to 0.026 includes -0.012
        (
            "above",
            0.045,
            0.0274,
            ContrastAnswer.UNDECIDED,
        ),  # within the reach, but 0.0274 + 0.0227 is above 0.05
        ("above", 0.045, 0.0276, ContrastAnswer.AS_PRINTED),
        ("equivalent", 0.0, 0.076, ContrastAnswer.DIFFERS),
        ("equivalent", 0.0, -0.04, ContrastAnswer.DIFFERS),
        ("equivalent", 0.0, 0.01, ContrastAnswer.AS_PRINTED),
        ("equivalent", 0.0, 0.0274, ContrastAnswer.UNDECIDED),
    ],
)
def test_an_answer_follows_from_the_interval_the_printed_effect_and_the_margin(
    relation: Relation, printed: float, difference: float, expected: ContrastAnswer
) -> None:
    assert answer_contrast(relation, printed, estimate(difference)) is expected


def test_p_values_of_equivalence_are_of_the_nearer_end_of_the_margin() -> None:
    """A difference on the margin has p 0.5, and p 0.95 beyond it by the one-sided reach."""
    assert estimate(0.05).p_within(0.05) == pytest.approx(0.5)
    assert estimate(-0.05 - 0.02274).p_within(0.05) == pytest.approx(0.95, abs=1e-3)
    assert estimate(0.05 - 0.02274).p_within(0.05) == pytest.approx(0.05, abs=1e-3)


def test_holm_runs_over_the_differences_and_over_the_equivalences_apart() -> None:
    asked: dict[str, tuple[Relation, float, Estimate]] = {
        "far": ("above", 0.3, estimate(0.3)),
        "near": ("above", 0.3, estimate(0.0)),
        "at the edge": ("above", 0.057, estimate(0.036)),
    }
    found = answer_family(asked)
    edge = found["at the edge"]
    assert edge.holm_difference == pytest.approx(2 * edge.estimate.p_difference)
    assert found["far"].holm_difference == pytest.approx(3 * found["far"].estimate.p_difference)
    assert found["near"].holm_within == pytest.approx(3 * found["near"].estimate.p_within(0.05))
    assert (edge.answer, edge.is_within_margin) == (ContrastAnswer.AS_PRINTED, False)
    assert (edge.has_difference_by_holm, found["near"].has_difference_by_holm) == (True, False)
    assert edge.corrected_smallest_margin == edge.estimate.smallest_margin(3)
