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


Rates = dict[Outcome, float]


def rates(
    true_difference: float, sds: tuple[float, ...], num_seeds: int, shape: str = "normal"
) -> tuple[Rates, Rates]:
    """Return how often each outcome comes, as fractions: by the rule, and by the pooled sd alone.

    The judged system's mean is `true_difference` BLEU above the printed number. `sds` are the true
    standard deviations over seeds: first the judged system's, then those for pooling.
    """
    rng = np.random.default_rng(1706)
    counts, counts_by_pooled_sd = Counter[Outcome](), Counter[Outcome | None]()
    for _ in range(NUM_TRIALS):
        noise = NOISE_BY_SHAPE[shape](rng, (len(sds), num_seeds))
        values = PRINTED_BLEU + noise * np.asarray(sds)[:, np.newaxis]  # (num_systems, num_seeds)
        values[0] += true_difference
        values_by_system = {str(index): row for index, row in enumerate(values.tolist())}
        pooled = pool_sd(values_by_system, with_bartlett=False)
        verdict = judge(PRINTED_BLEU, values[0].tolist(), pooled)
        counts[verdict.outcome] += 1
        counts_by_pooled_sd[verdict.outcome_by_pooled_sd] += 1
    return (
        {outcome: counts[outcome] / NUM_TRIALS for outcome in Outcome},
        {outcome: counts_by_pooled_sd[outcome] / NUM_TRIALS for outcome in Outcome},
    )


@pytest.mark.parametrize(
    ("sds", "num_seeds", "side"), [(ALONE, 3, -1), (ALONE, 10, 1), (POOLED, 3, 1), (POOLED, 10, -1)]
)
def test_on_the_margin_neither_error_is_more_frequent_than_stated(
    sds: tuple[float, ...], num_seeds: int, side: int
) -> None:
    by_rule, by_pooled_sd = rates(side * MARGIN_BLEU, sds, num_seeds)
    for outcomes in (by_rule, by_pooled_sd):
        assert outcomes[Outcome.REPRODUCED] <= allowed(ALPHA)
        assert outcomes[Outcome.NOT_REPRODUCED] <= allowed(ALPHA / 2)
    three_errors = 3 * math.sqrt(ALPHA * (1 - ALPHA) / NUM_TRIALS)
    assert by_pooled_sd[Outcome.REPRODUCED] >= ALPHA - three_errors  # and no rarer
    assert 0 < by_rule[Outcome.REPRODUCED] <= by_pooled_sd[Outcome.REPRODUCED]


@pytest.mark.parametrize("shape", ["uniform", "laplace"])
def test_other_shapes_of_noise_keep_the_rate_of_a_wrong_reproduced(shape: str) -> None:
    by_rule, _ = rates(MARGIN_BLEU, POOLED, 5, shape)
    assert by_rule[Outcome.REPRODUCED] <= allowed(ALPHA)


# Decision 0014 and docs/checks.md print these. A noisy system among three calm systems, and four
# systems of one spread.
NOISY = (0.4, 0.1, 0.1, 0.1)


def test_a_noisy_system_among_calm_systems_keeps_the_rates_unlike_by_the_pooled_sd() -> None:
    by_rule, by_pooled_sd = rates(MARGIN_BLEU, NOISY, 3)
    assert by_rule[Outcome.REPRODUCED] <= allowed(ALPHA)
    assert by_rule[Outcome.NOT_REPRODUCED] <= allowed(ALPHA / 2)
    assert by_pooled_sd[Outcome.REPRODUCED] == pytest.approx(0.18, abs=0.04)
    assert by_pooled_sd[Outcome.NOT_REPRODUCED] == pytest.approx(0.15, abs=0.04)


@pytest.mark.parametrize(
    ("sds", "num_seeds", "power", "power_by_pooled_sd"),
    [
        (POOLED, 3, 0.53, 0.80),
        ((0.2,) * 4, 3, 0.77, 0.98),
        ((0.1,) * 4, 3, 1.0, 1.0),
        (NOISY, 3, 0.22, 0.75),
        # Not printed: alone, a system is reproduced more often with more seeds.
        (ALONE, 3, 0.49, 0.49),
        (ALONE, 5, 0.90, 0.90),
        (ALONE, 10, 1.0, 1.0),
    ],
)
def test_the_power_without_a_difference_is_as_printed(
    sds: tuple[float, ...], num_seeds: int, power: float, power_by_pooled_sd: float
) -> None:
    by_rule, by_pooled_sd = rates(0, sds, num_seeds)
    assert by_rule[Outcome.REPRODUCED] == pytest.approx(power, abs=0.05)
    assert by_pooled_sd[Outcome.REPRODUCED] == pytest.approx(power_by_pooled_sd, abs=0.05)
    assert by_rule[Outcome.NOT_REPRODUCED] < 0.01
