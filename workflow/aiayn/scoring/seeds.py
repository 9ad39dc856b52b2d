"""Computes the mean, standard deviation and t-interval of a number over several seeds."""

import math
import statistics
from collections.abc import Mapping, Sequence

import msgspec
from scipy.special import stdtrit  # type: ignore[import-untyped, unused-ignore]

CONFIDENCE = 0.95
# With two seeds, the interval would be 9 standard deviations to either side.
MIN_SEEDS_OF_INTERVAL = 3


class SeedSummary(msgspec.Struct, frozen=True, kw_only=True):
    """A summary of a number over seeds: mean, standard deviation (`sd`, with divisor n - 1), and
    half the width of the 95 % t-interval of the mean.

    The standard deviation `sd` is None for a single seed. The half width of the interval
    (`half_width`) is None for fewer seeds than MIN_SEEDS_OF_INTERVAL.
    """

    num_seeds: int
    mean: float
    sd: float | None
    half_width: float | None


def t_half_width(values: Sequence[float]) -> float:
    """Return half the width of the two-sided 95 % t-interval of the mean of 2 or more values."""
    # Few seeds: Student's t, with n - 1 degrees of freedom, is much wider than the normal.
    quantile = float(stdtrit(len(values) - 1, (1 + CONFIDENCE) / 2))
    return quantile * statistics.stdev(values) / math.sqrt(len(values))


def summarise_seeds(values: Sequence[float]) -> SeedSummary:
    """Return the mean, standard deviation and t-interval of a number over its seeds. There must be
    at least one seed.
    """
    half_width = t_half_width(values) if len(values) >= MIN_SEEDS_OF_INTERVAL else None
    return SeedSummary(
        num_seeds=len(values),
        mean=statistics.mean(values),  # exact: the mean of equal values is their value
        sd=statistics.stdev(values) if len(values) > 1 else None,
        half_width=half_width,
    )


def paired_differences(
    value_by_seed: Mapping[int, float], reference_by_seed: Mapping[int, float]
) -> list[float]:
    """Return the differences between two systems seed by seed: value minus reference value for each
    seed that both systems have, in the order of the seeds.

    With the same seed, both systems see the training data in the same order, so the effect of this
    order cancels in the difference.
    """
    # A seed that only one side has cannot be paired.
    common = sorted(value_by_seed.keys() & reference_by_seed.keys())
    return [value_by_seed[seed] - reference_by_seed[seed] for seed in common]
