"""Measures error rates and power of the verdict's rule, on data whose truth is known.

    python tests/benchmarks/bench_verdicts.py          about a minute of one core

The rule: margin 0.5 BLEU, alpha 0.05. On the margin REPRODUCED is wrong, and so is NOT REPRODUCED;
without a difference REPRODUCED is right, and its rate is the power. Systems vary with sd 0.27 over
seeds, except in the last scene, where the judged system has four times the sd of the others in the
pool.
"""

import sys
import time
from pathlib import Path

import numpy as np

from aiayn.scoring.verdict import ALPHA, MARGIN_BLEU, Outcome, judge_family

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


def print_rates() -> None:
    """Print how often each outcome comes, by true difference, pooling and number of seeds, in
    percent.
    """
    print(
        f"{'true difference':<17}{'standard deviation':<28}{'seeds':>5}  {'REPRODUCED':>10}  NOT"
        " REPRODUCED  UNDECIDED"
    )
    for difference in DIFFERENCES:
        for pooling, sds in SDS_BY_POOLING.items():
            for num_seeds in NUM_SEEDS:
                scene = Scene(true_difference=difference, sds=sds, num_seeds=num_seeds)
                found = simulate_rates(
                    scene, num_trials=NUM_TRIALS, rng=np.random.default_rng(1706)
                )
                reproduced, not_reproduced, undecided = (
                    100 * found.fraction_by_outcome[outcome]
                    for outcome in (Outcome.REPRODUCED, Outcome.NOT_REPRODUCED, Outcome.UNDECIDED)
                )
                print(
                    f"{difference:<17g}{pooling:<28}{num_seeds:>5}  {reproduced:>8.1f} % "
                    f" {not_reproduced:>12.1f} %  {undecided:>7.1f} %"
                )
                if difference == MARGIN_BLEU and num_seeds == NUM_SEEDS[0]:
                    tell(
                        f"verdicts of {NUM_TRIALS:,} runs on the margin, {num_seeds} seeds, sd"
                        f" {pooling}",
                        f"wrongly REPRODUCED {reproduced:.1f} %, wrongly NOT REPRODUCED"
                        f" {not_reproduced:.1f} %",
                        f"the rule allows {100 * ALPHA:g} % and {50 * ALPHA:g} %",
                    )
    error = 100 * (ALPHA * (1 - ALPHA) / NUM_TRIALS) ** 0.5
    print(f"{NUM_TRIALS} trials each: one standard error at {100 * ALPHA:g} % is {error:.1f}\n")


def print_family_rates() -> None:
    """Print how often a table of cells on the margin has a wrong REPRODUCED, and how often after
    Holm's correction.
    """
    rng = np.random.default_rng(1706)
    scene = Scene(
        true_difference=MARGIN_BLEU, sds=SDS_BY_POOLING["pooled over 4 systems"], num_seeds=5
    )
    num_wrong = num_wrong_corrected = 0
    for _ in range(NUM_TABLES):
        verdicts = [simulate_verdict(scene, rng) for _ in range(NUM_CELLS)]
        family = judge_family(verdicts)
        num_wrong += any(one.outcome is Outcome.REPRODUCED for one in verdicts)
        num_wrong_corrected += any(
            one.outcome is Outcome.REPRODUCED for one in family.corrected if one is not None
        )
        stated = family.chance_wrongly_reproduced
    print(
        f"{NUM_TABLES} tables of {NUM_CELLS} cells on the margin, 5 seeds:"
        f" {100 * num_wrong / NUM_TABLES:.1f} % hold a wrong REPRODUCED (stated:"
        f" {100 * stated:.1f} %), {100 * num_wrong_corrected / NUM_TABLES:.1f} % after Holm's"
        f" correction (stated: at most {100 * ALPHA:g} %)\n"
    )


def main() -> None:
    """Print both, and the processor's seconds that they took."""
    begin = time.process_time()
    print_rates()
    print_family_rates()
    print(f"{time.process_time() - begin:.0f} s of one core")


if __name__ == "__main__":
    main()
