"""Tests whether two systems' scores on one test set differ by more than the choice of its sentences explains.

sacreBLEU's own tests (`sacrebleu.significance.PairedTest`) over the statistics of each segment:

* `bootstrap`: paired bootstrap resampling (Koehn 2004), segments drawn with replacement, the same for both systems;
* `randomisation`: approximate randomisation (Riezler and Maxwell 2005), each segment's two translations swapped or not.

This module corrects three of its faults; `sacrebleu_p_value` is its own value.

* Its seed is the variable SACREBLEU_SEED, read when the test is made. The variable is set for the test and restored, so
  that a seed is an argument.
* Its bootstrap centres the resampled differences after it has removed their signs, and so counts about one tail: of
  equal systems it calls one pair in ten different at 0.05, not one in twenty (tests/benchmarks/bench_verdicts.py).
  Here the same resamples are centred with their signs, and both tails counted.
* It counts resamples that differ by more than was measured, never those that differ by as much: identical translations
  have p = 1 / (n + 1), and so has a difference of one sentence. Of m segments that differ, swapping all or none gives
  the measured difference, two of 2^m ways: no p-value is below 2^(1 - m).

Both tests are of the choice of sentences, neither of the choice of a seed: for that see `analysis.scoring.seeds`.
"""

import contextlib
import os
from collections.abc import Iterator
from typing import Any, Literal

import msgspec
import numpy as np
import numpy.typing as npt
from sacrebleu.metrics.base import Metric
from sacrebleu.significance import PairedTest

from aiayn.errors import ScoreError
from analysis.scoring.count_ngrams import Statistics

Method = Literal["bootstrap", "randomisation"]
Differences = npt.NDArray[np.float64]  # (num_resamples,), in the metric's unit

ALPHA = 0.05
NUM_RESAMPLES_BY_METHOD: dict[Method, int] = {"bootstrap": 1000, "randomisation": 10_000}  # sacreBLEU's defaults
MAX_DRAWN_SEGMENTS = 40_000_000  # sacreBLEU holds all resamples at once: 1.6 GB of float32 at BLEU's 10 statistics
_SHORT_BY_METHOD = {"bootstrap": "bs", "randomisation": "ar"}  # as a signature prints them
_SEED_VARIABLE = "SACREBLEU_SEED"
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


class _CountedMetric:
    """A metric whose segments are counted already: its `hypotheses` are the rows of statistics."""

    def __init__(self, metric: Metric) -> None:
        self._metric = metric
        self._aggregate_and_compute = metric._aggregate_and_compute
        self._compute_score_from_stats = metric._compute_score_from_stats

    def _extract_corpus_statistics(self, hypotheses: Statistics, references: None) -> Statistics:
        return hypotheses

    def get_signature(self) -> Any:
        self._metric.num_refs = 1
        return self._metric.get_signature()


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
    of_baseline, of_system = _run_sacrebleu(baseline, system, scorer, short, num_resamples, seed)
    references, separator, others = signature.partition("|")  # the test's fields are put behind the first
    interval = None
    differences = (
        _resampled_differences(baseline, system, scorer, num_resamples, seed) if method == "bootstrap" else None
    )
    difference = float(of_system.score) - float(of_baseline.score)
    p_value = float(of_system.p_value)
    if differences is not None:
        p_value = _two_sided_p(differences, difference)
        low, high = np.quantile(differences, _INTERVAL_QUANTILES)
        interval = (float(low), float(high))
    num_differing = int((baseline != system).any(axis=1).sum())
    p_value = max(p_value, 1.0 if num_differing == 0 else 2.0 ** (1 - num_differing))
    return PairedComparison(
        metric=metric,
        signature=f"{references}|{short}:{num_resamples}|seed:{seed}{separator}{others}", method=method,
        num_resamples=num_resamples, seed=seed, num_segments=len(baseline), num_differing=num_differing,
        baseline=float(of_baseline.score), system=float(of_system.score),
        difference=difference, interval=interval,
        p_value=p_value, sacrebleu_p_value=float(of_system.p_value), is_significant=p_value < ALPHA,
    )  # fmt: skip


def _run_sacrebleu(
    baseline: Statistics, system: Statistics, scorer: Metric, short: str, num_resamples: int, seed: int
) -> tuple[Any, Any]:
    """Return sacreBLEU's results of baseline and system; the system's has the p-value."""
    with _sacrebleu_seed(seed):
        test = PairedTest(
            [("baseline", baseline), ("system", system)],  # type: ignore[list-item, unused-ignore]
            {"metric": _CountedMetric(scorer)},  # type: ignore[dict-item, unused-ignore]
            references=None,
            test_type=short,
            n_samples=num_resamples,
        )
    _, results_by_name = test()
    of_baseline, of_system = next(results for name, results in results_by_name.items() if name != "System")
    return of_baseline, of_system


def _two_sided_p(differences: Differences, difference: float) -> float:
    """Return how often resampled differences lie as far from their mean as the measured one from 0 (Koehn 2004).

    The measured one counts as a resample, so that no p-value is 0.
    """
    num_as_far = int((np.abs(differences - differences.mean()) >= abs(difference)).sum())
    return (num_as_far + 1) / (len(differences) + 1)


def _check_request(num_segments: int, num_resamples: int, seed: int) -> None:
    if seed < 1:
        raise ScoreError(f"seed {seed}: expected 1 or more; sacreBLEU reads 0 as no seed, which cannot be repeated")
    most = MAX_DRAWN_SEGMENTS // num_segments
    if not 1 <= num_resamples <= most:
        raise ScoreError(
            f"{num_resamples} resamples of {num_segments} segments: expected 1 to {most:,}, which fit in "
            "memory at once; give a smaller number"
        )


@contextlib.contextmanager
def _sacrebleu_seed(seed: int) -> Iterator[None]:
    """Set the variable from which sacreBLEU takes its seed, and put back what was there."""
    before = os.environ.get(_SEED_VARIABLE)
    os.environ[_SEED_VARIABLE] = str(seed)
    try:
        yield
    finally:
        del os.environ[_SEED_VARIABLE]
        if before is not None:
            os.environ[_SEED_VARIABLE] = before


def _resampled_differences(
    baseline: Statistics, system: Statistics, scorer: Metric, num_resamples: int, seed: int
) -> Differences:
    """Return system minus baseline over the very resamples that sacreBLEU's test draws."""
    rng = np.random.default_rng(seed)
    draws = rng.choice(len(baseline), size=(num_resamples, len(baseline)), replace=True)
    differences = [
        scorer._compute_score_from_stats(system[draw].sum(axis=0)).score
        - scorer._compute_score_from_stats(baseline[draw].sum(axis=0)).score
        for draw in draws
    ]
    return np.array(differences)
