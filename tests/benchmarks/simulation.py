"""Applies the verdict's rule to runs drawn from known distributions, and counts its outcomes.

The rule itself is called, including the pooling; nothing of it is repeated here.
"""

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence

import msgspec
import numpy as np
import numpy.typing as npt

from aiayn.scoring.verdict import Outcome, Verdict, judge, pool_sd

PRINTED_BLEU = 27.3  # Table 2, base; the rule sees differences only
Noise = Callable[
    [np.random.Generator, tuple[int, int]], npt.NDArray[np.float64]
]  # of mean 0 and variance 1

NOISE_BY_SHAPE: Mapping[str, Noise] = {
    "normal": lambda rng, shape: rng.standard_normal(shape),
    "uniform": lambda rng, shape: rng.uniform(-math.sqrt(3), math.sqrt(3), shape),
    "laplace": lambda rng, shape: rng.laplace(
        0, math.sqrt(0.5), shape
    ),  # tails heavier than the normal's
}


class Scene(msgspec.Struct, frozen=True, kw_only=True):
    """The truth: the judged system's mean is `true_difference` BLEU above the printed number.

    `sds` are the true standard deviations over seeds: first the judged system's, then those for
    pooling. A single sd is not pooled. Every system has `num_seeds` seeds.
    """

    true_difference: float
    sds: Sequence[float]
    num_seeds: int
    shape: str = "normal"


class Rates(msgspec.Struct, frozen=True, kw_only=True):
    """How often each outcome came, as fractions of `num_trials`."""

    num_trials: int
    fraction_by_outcome: dict[Outcome, float]


def simulate_verdict(scene: Scene, rng: np.random.Generator) -> Verdict:
    """Draw every system's seeds once and judge the first system."""
    noise = NOISE_BY_SHAPE[scene.shape](rng, (len(scene.sds), scene.num_seeds))
    values = PRINTED_BLEU + noise * np.asarray(scene.sds)[:, np.newaxis]  # (num_systems, num_seeds)
    values[0] += scene.true_difference
    pooled = pool_sd(
        {str(index): row for index, row in enumerate(values.tolist())}, with_bartlett=False
    )
    return judge(PRINTED_BLEU, values[0].tolist(), pooled)


def simulate_rates(scene: Scene, *, num_trials: int, rng: np.random.Generator) -> Rates:
    """Judge many draws of a scene."""
    counts = Counter(simulate_verdict(scene, rng).outcome for _ in range(num_trials))
    return Rates(
        num_trials=num_trials,
        fraction_by_outcome={outcome: counts[outcome] / num_trials for outcome in Outcome},
    )
