"""Tests whether two systems' scores on one test set differ by more than the choice of its sentences explains.

sacreBLEU's tests (`sacrebleu.significance.PairedTest`) over the statistics of each segment, with its draws:

* `bootstrap`: paired bootstrap resampling (Koehn 2004), segments drawn with replacement, the same for both systems;
* `randomisation`: approximate randomisation (Riezler and Maxwell 2005), each segment's two translations swapped or not.

Two of its faults are corrected; `sacrebleu_p_value` is what it prints itself, and a test holds it to that.

* Its bootstrap centres the resampled differences after it has removed their signs, and so counts about one tail: of
  equal systems it calls one pair in ten different at 0.05, not one in twenty (tests/benchmarks/bench_verdicts.py).
  Here the same resamples are centred with their signs, and both tails counted.
* It counts resamples that differ by more than was measured, never those that differ by as much: identical translations
  have p = 1 / (n + 1), and so has a difference of one sentence. Of m segments that differ, swapping all or none gives
  the measured difference, two of 2^m ways: no p-value is below 2^(1 - m).

Both tests are of the choice of sentences, neither of the choice of a seed: for that see `analysis.scoring.seeds`.
"""

from collections.abc import Iterable
from typing import Literal

import msgspec
import numpy as np
import numpy.typing as npt
from sacrebleu.metrics.base import Metric

from aiayn.errors import ScoreError
from analysis.scoring.count_ngrams import Statistics

Method = Literal["bootstrap", "randomisation"]
Scores = npt.NDArray[np.float64]  # in the metric's unit

ALPHA = 0.05
NUM_RESAMPLES_BY_METHOD: dict[Method, int] = {"bootstrap": 1000, "randomisation": 10_000}  # sacreBLEU's defaults
MAX_DRAWN_SEGMENTS = 40_000_000  # sacreBLEU holds all resamples at once: 1.6 GB of float32 at BLEU's 10 statistics
_SHORT_BY_METHOD = {"bootstrap": "bs", "randomisation": "ar"}  # as a signature prints them
_INTERVAL_QUANTILES = (0.025, 0.975)


class PairedComparison(msgspec.Struct, frozen=True, kw_only=True):
    """Two scores in one metric, and the paired test of their difference (system minus baseline).

    `interval` is the difference's 95 % percentile interval over the resamples, of the bootstrap alone.
    `num_differing` of `num_segments` segments differ in their statistics. `p_value` is two-sided.
    `sacrebleu_p_value` is sacreBLEU's own, without the module's correction.
    """

    metric: str
    signature: str
    method: Method
    num_resamples: int
    seed: int
    num_segments: int
    num_differing: int
    baseline: float
    system: float
    difference: float
    interval: tuple[float, float] | None
    p_value: float
    sacrebleu_p_value: float
    is_significant: bool


def compare_segments(
    baseline: Statistics,
    system: Statistics,
    *,
    scorer: Metric,
    metric: str,
    signature: str,
    method: Method,
    num_resamples: int | None = None,
    seed: int,
) -> PairedComparison:
    """Test two systems' difference on the same segments; `scorer` turns summed statistics into the score of `metric`.

    `signature` is the metric's; the test's own fields are added to it as sacreBLEU does. `num_resamples` is by default
    sacreBLEU's.

    Raises:
        ScoreError: if the seed or number of resamples is below 1, or there are more resamples than fit in memory.
    """
    if num_resamples is None:
        num_resamples = NUM_RESAMPLES_BY_METHOD[method]
    _check_request(len(baseline), num_resamples, seed)
    short = _SHORT_BY_METHOD[method]
    references, separator, others = signature.partition("|")  # the test's fields are put behind the first
    rng, num_segments, interval = np.random.default_rng(seed), len(baseline), None

    def scores_of(sums: Iterable[Statistics]) -> Scores:
        return np.array([scorer._compute_score_from_stats(one).score for one in sums])

    own = scores_of(side.sum(axis=0) for side in (baseline, system))
    difference = float(own[1] - own[0])
    if method == "bootstrap":
        draws = rng.choice(num_segments, size=(num_resamples, num_segments), replace=True)
        resampled = scores_of(system[draw].sum(axis=0) for draw in draws)
        resampled -= scores_of(baseline[draw].sum(axis=0) for draw in draws)
        low, high = np.quantile(resampled, _INTERVAL_QUANTILES)
        interval = (float(low), float(high))
        distances = np.abs(resampled)
        sacrebleu_p_value = _p_value(distances - distances.mean() > abs(difference))
        p_value = _p_value(np.abs(resampled - resampled.mean()) >= abs(difference))
    else:
        kept = rng.integers(2, size=(num_resamples, num_segments), dtype=bool)
        distances = np.abs(scores_of(kept @ baseline + ~kept @ system) - scores_of(~kept @ baseline + kept @ system))
        sacrebleu_p_value = p_value = _p_value(distances > abs(difference))
    num_differing = int((baseline != system).any(axis=1).sum())
    p_value = max(p_value, 1.0 if num_differing == 0 else 2.0 ** (1 - num_differing))
    return PairedComparison(
        metric=metric,
        signature=f"{references}|{short}:{num_resamples}|seed:{seed}{separator}{others}", method=method,
        num_resamples=num_resamples, seed=seed, num_segments=num_segments, num_differing=num_differing,
        baseline=float(own[0]), system=float(own[1]), difference=difference, interval=interval,
        p_value=p_value, sacrebleu_p_value=sacrebleu_p_value, is_significant=p_value < ALPHA,
    )  # fmt: skip


def _p_value(as_far: npt.NDArray[np.bool_]) -> float:
    """Return the share of resamples that differ as far as was measured; the measured one counts, so that none is 0."""
    return (int(as_far.sum()) + 1) / (len(as_far) + 1)


def _check_request(num_segments: int, num_resamples: int, seed: int) -> None:
    if seed < 1:
        raise ScoreError(f"seed {seed}: expected 1 or more; sacreBLEU reads 0 as no seed, which cannot be repeated")
    most = MAX_DRAWN_SEGMENTS // num_segments
    if not 1 <= num_resamples <= most:
        raise ScoreError(
            f"{num_resamples} resamples of {num_segments} segments: expected 1 to {most:,}, which fit in "
            "memory at once; give a smaller number"
        )
