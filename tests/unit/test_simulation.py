"""The rule keeps its stated error rates on runs drawn from known distributions.

Each rate is allowed three binomial standard errors beyond what is stated. Seeds are fixed, so a
test cannot fail by chance; tests/benchmarks/bench_verdicts.py prints the whole table.
"""

import math

import numpy as np
import pytest

from aiayn.scoring.verdict import ALPHA, MARGIN_BLEU, Outcome
from tests.benchmarks.simulation import Rates, Scene, simulate_rates

SD = 0.27
ALONE, POOLED = (SD,), (SD,) * 4
NUM_TRIALS = 800


def allowed(fraction: float) -> float:
    """Return a stated rate with three binomial standard errors on top."""
    return fraction + 3 * math.sqrt(fraction * (1 - fraction) / NUM_TRIALS)


def rates(
    true_difference: float, sds: tuple[float, ...], num_seeds: int, shape: str = "normal"
) -> Rates:
    scene = Scene(true_difference=true_difference, sds=sds, num_seeds=num_seeds, shape=shape)
    return simulate_rates(scene, num_trials=NUM_TRIALS, rng=np.random.default_rng(1706))


@pytest.mark.parametrize(
    ("sds", "num_seeds", "side"), [(ALONE, 3, -1), (ALONE, 10, 1), (POOLED, 3, 1), (POOLED, 10, -1)]
)
def test_on_the_margin_neither_error_is_more_frequent_than_stated(
    sds: tuple[float, ...], num_seeds: int, side: int
) -> None:
    found = rates(side * MARGIN_BLEU, sds, num_seeds).fraction_by_outcome
    assert found[Outcome.REPRODUCED] <= allowed(ALPHA)
    assert found[Outcome.NOT_REPRODUCED] <= allowed(ALPHA / 2)
    assert found[Outcome.REPRODUCED] >= ALPHA - 3 * math.sqrt(
        ALPHA * (1 - ALPHA) / NUM_TRIALS
    )  # and no rarer


@pytest.mark.parametrize("shape", ["uniform", "laplace"])
def test_other_shapes_of_noise_keep_the_rate_of_a_wrong_reproduced(shape: str) -> None:
    assert rates(MARGIN_BLEU, POOLED, 5, shape).fraction_by_outcome[Outcome.REPRODUCED] <= allowed(
        ALPHA
    )


def test_without_a_difference_it_is_never_not_reproduced_and_more_seeds_reproduce_it_more_often() -> (
    None
):
    found = [rates(0, ALONE, num_seeds).fraction_by_outcome for num_seeds in (3, 5, 10)]
    assert [one[Outcome.NOT_REPRODUCED] for one in found] == [0, 0, 0]
    powers = [one[Outcome.REPRODUCED] for one in found]
    assert powers == sorted(powers)
    assert powers[0] == pytest.approx(0.49, abs=0.06)  # what the benchmark prints
    assert powers[2] > 0.99


def test_pooling_with_calmer_systems_breaks_the_stated_rate() -> None:
    found = rates(MARGIN_BLEU, (2 * SD, SD / 2, SD / 2, SD / 2), 3).fraction_by_outcome
    assert found[Outcome.REPRODUCED] > 2 * allowed(
        ALPHA
    )  # why the tables warn where Bartlett's test is small
