"""Error rates and power of the verdict's rule, and error rates of the paired tests, on data whose truth is known.

    python tests/benchmarks/bench_verdicts.py          about a minute of one core

The rule: margin 0.5 BLEU, alpha 0.05. On the margin REPRODUCED is wrong, and so is NOT REPRODUCED; without a difference
REPRODUCED is right, and its rate is the power. Systems vary with sd 0.27 over seeds, but for the last scene, where the
judged one varies four times as much as those that its sd is pooled with.
"""

import sys
import time
from collections import Counter
from pathlib import Path

import numpy as np
from sacrebleu.metrics.bleu import BLEU

from analysis.questions.significance import Method, compare_segments
from analysis.scoring.verdict import ALPHA, MARGIN_BLEU, Outcome, judge_family

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.benchmarks.simulation import Scene, simulate_rates, simulate_verdict
from tests.benchmarks.table import tell

NUM_TRIALS = 1000
NUM_SEEDS = (3, 5, 10)
SD = 0.27
SDS_BY_POOLING = {
    "alone": (SD,),
    "pooled over 4 systems": (SD,) * 4,
    "pooled with 3 calmer ones": (2 * SD, SD / 2, SD / 2, SD / 2),
}
DIFFERENCES = (0.0, MARGIN_BLEU, 1.0, 2.0)
NUM_CELLS, NUM_TABLES = 14, 1000
NUM_CORPORA, NUM_SEGMENTS, NUM_RESAMPLES = 300, 100, 300


def print_rates() -> None:
    """Print how often each outcome comes, by true difference, pooling and number of seeds, in percent."""
    print(
        f"{'true difference':<17}{'standard deviation':<28}{'seeds':>5}  {'REPRODUCED':>10}  NOT REPRODUCED  UNDECIDED"
    )
    for difference in DIFFERENCES:
        for pooling, sds in SDS_BY_POOLING.items():
            for num_seeds in NUM_SEEDS:
                scene = Scene(true_difference=difference, sds=sds, num_seeds=num_seeds)
                found = simulate_rates(scene, num_trials=NUM_TRIALS, rng=np.random.default_rng(1706))
                reproduced, not_reproduced, undecided = (
                    100 * found.fraction_by_outcome[outcome]
                    for outcome in (Outcome.REPRODUCED, Outcome.NOT_REPRODUCED, Outcome.UNDECIDED)
                )
                print(
                    f"{difference:<17g}{pooling:<28}{num_seeds:>5}  {reproduced:>8.1f} %  {not_reproduced:>12.1f} %  "
                    f"{undecided:>7.1f} %"
                )
                if difference == MARGIN_BLEU and num_seeds == NUM_SEEDS[0]:
                    tell(
                        f"verdicts of {NUM_TRIALS:,} runs on the margin, {num_seeds} seeds, sd {pooling}",
                        f"wrongly REPRODUCED {reproduced:.1f} %, wrongly NOT REPRODUCED {not_reproduced:.1f} %",
                        f"the rule allows {100 * ALPHA:g} % and {50 * ALPHA:g} %",
                    )
    error = 100 * (ALPHA * (1 - ALPHA) / NUM_TRIALS) ** 0.5
    print(f"{NUM_TRIALS} trials each: one standard error at {100 * ALPHA:g} % is {error:.1f}\n")


def print_family_rates() -> None:
    """Print how often a table of cells on the margin has a wrong REPRODUCED, and how often after Holm's correction."""
    rng = np.random.default_rng(1706)
    scene = Scene(true_difference=MARGIN_BLEU, sds=SDS_BY_POOLING["pooled over 4 systems"], num_seeds=5)
    num_wrong = num_wrong_corrected = 0
    for _ in range(NUM_TABLES):
        verdicts = [simulate_verdict(scene, rng) for _ in range(NUM_CELLS)]
        family = judge_family(verdicts)
        num_wrong += any(one.outcome is Outcome.REPRODUCED for one in verdicts)
        num_wrong_corrected += any(one.outcome is Outcome.REPRODUCED for one in family.corrected if one is not None)
        stated = family.chance_wrongly_reproduced
    print(
        f"{NUM_TABLES} tables of {NUM_CELLS} cells on the margin, 5 seeds: {100 * num_wrong / NUM_TABLES:.1f} % hold a "
        f"wrong REPRODUCED (stated: {100 * stated:.1f} %), {100 * num_wrong_corrected / NUM_TABLES:.1f} % after Holm's "
        f"correction (stated: at most {100 * ALPHA:g} %)\n"
    )


def print_paired_rates() -> None:
    """Print how often each paired test calls two equally good systems different."""
    methods: tuple[Method, ...] = ("bootstrap", "randomisation")
    num_significant: Counter[str] = Counter()
    rng = np.random.default_rng(1706)
    for _ in range(NUM_CORPORA):
        sides = [_counted_segments(rng) for _ in range(2)]
        for method in methods:
            comparison = compare_segments(
                *sides, scorer=BLEU(smooth_method="none"), metric="bleu", signature="nrefs:1", method=method,
                num_resamples=NUM_RESAMPLES, seed=1,
            )  # fmt: skip
            num_significant[method] += comparison.is_significant
            num_significant[f"{method}, sacreBLEU's own p"] += comparison.sacrebleu_p_value < ALPHA
    for test, count in num_significant.items():
        print(f"{test}: {count} of {NUM_CORPORA} pairs of equal systems called different at {ALPHA}")


def _counted_segments(rng: np.random.Generator) -> np.ndarray:
    """Return BLEU's statistics of segments of 20 words, each right with chance 0.6; shape (NUM_SEGMENTS, 10)."""
    is_right = rng.random((NUM_SEGMENTS, 20)) < 0.6
    lengths = np.full((NUM_SEGMENTS, 2), 20)
    matches = [
        np.stack([is_right[:, start : 20 - order + start + 1] for start in range(order)]).all(axis=0).sum(axis=1)
        for order in range(1, 5)
    ]
    totals = np.tile(20 - np.arange(4), (NUM_SEGMENTS, 1))
    return np.concatenate([lengths, np.stack(matches, axis=1), totals], axis=1)


def main() -> None:
    """Print all three, and the processor's seconds that they took."""
    begin = time.process_time()
    print_rates()
    print_family_rates()
    print_paired_rates()
    print(f"{time.process_time() - begin:.0f} s of one core")


if __name__ == "__main__":
    main()
