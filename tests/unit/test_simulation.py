"""The rule keeps its stated error rates on runs drawn from known distributions.

The rule itself is called, including the pooling. Each rate is allowed three binomial standard
errors beyond what is stated. Seeds are fixed, so a test cannot fail by chance.
"""

import math
from collections import Counter
from collections.abc import Callable, Mapping

import numpy as np
import numpy.typing as npt
import pytest

from aiayn.scoring.verdict import ALPHA, MARGIN_BLEU, Outcome, judge, pool_sd

PRINTED_BLEU = 27.3  # Table 2, base; the rule sees differences only
SD = 0.27
ALONE, POOLED = (SD,), (SD,) * 4
NUM_TRIALS = 800
Noise = Callable[[np.random.Generator, tuple[int, int]], npt.NDArray[np.float64]]
# Each has mean 0 and variance 1; the tails of `laplace` are heavier than the normal's.
NOISE_BY_SHAPE: Mapping[str, Noise] = {
    "normal": lambda rng, shape: rng.standard_normal(shape),
    "uniform": lambda rng, shape: rng.uniform(-math.sqrt(3), math.sqrt(3), shape),
    "laplace": lambda rng, shape: rng.laplace(0, math.sqrt(0.5), shape),
}


def allowed(fraction: float) -> float:
    """Return a stated rate with three binomial standard errors on top."""
    return fraction + 3 * math.sqrt(fraction * (1 - fraction) / NUM_TRIALS)


def rates(
    true_difference: float, sds: tuple[float, ...], num_seeds: int, shape: str = "normal"
) -> dict[Outcome, float]:
    """Return how often each outcome comes, as fractions.

    The judged system's mean is `true_difference` BLEU above the printed number. `sds` are the true
    standard deviations over seeds: first the judged system's, then those for pooling.
    """
    rng, counts = np.random.default_rng(1706), Counter[Outcome]()
    for _ in range(NUM_TRIALS):
        noise = NOISE_BY_SHAPE[shape](rng, (len(sds), num_seeds))
        values = PRINTED_BLEU + noise * np.asarray(sds)[:, np.newaxis]  # (num_systems, num_seeds)
        values[0] += true_difference
        values_by_system = {str(index): row for index, row in enumerate(values.tolist())}
        pooled = pool_sd(values_by_system, with_bartlett=False)
        counts[judge(PRINTED_BLEU, values[0].tolist(), pooled).outcome] += 1
    return {outcome: counts[outcome] / NUM_TRIALS for outcome in Outcome}


@pytest.mark.parametrize(
    ("sds", "num_seeds", "side"), [(ALONE, 3, -1), (ALONE, 10, 1), (POOLED, 3, 1), (POOLED, 10, -1)]
)
def test_on_the_margin_neither_error_is_more_frequent_than_stated(
    sds: tuple[float, ...], num_seeds: int, side: int
) -> None:
    found = rates(side * MARGIN_BLEU, sds, num_seeds)
    assert found[Outcome.REPRODUCED] <= allowed(ALPHA)
    assert found[Outcome.NOT_REPRODUCED] <= allowed(ALPHA / 2)
    assert found[Outcome.REPRODUCED] >= ALPHA - 3 * math.sqrt(
        ALPHA * (1 - ALPHA) / NUM_TRIALS
    )  # and no rarer


@pytest.mark.parametrize("shape", ["uniform", "laplace"])
def test_other_shapes_of_noise_keep_the_rate_of_a_wrong_reproduced(shape: str) -> None:
    assert rates(MARGIN_BLEU, POOLED, 5, shape)[Outcome.REPRODUCED] <= allowed(ALPHA)


def test_without_a_difference_it_is_never_not_reproduced_and_more_seeds_reproduce_it_more_often() -> (
    None
):
    found = [rates(0, ALONE, num_seeds) for num_seeds in (3, 5, 10)]
    assert [one[Outcome.NOT_REPRODUCED] for one in found] == [0, 0, 0]
    powers = [one[Outcome.REPRODUCED] for one in found]
    assert powers == sorted(powers)
    assert powers[0] == pytest.approx(0.49, abs=0.06)
    assert powers[2] > 0.99


def test_pooling_with_calmer_systems_breaks_the_stated_rate() -> None:
    found = rates(MARGIN_BLEU, (2 * SD, SD / 2, SD / 2, SD / 2), 3)
    assert found[Outcome.REPRODUCED] > 2 * allowed(
        ALPHA
    )  # why the tables warn where Bartlett's test is small
