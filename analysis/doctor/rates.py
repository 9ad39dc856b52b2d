"""Compares the learning rates that a log prints with the schedule of the spec (section 5.3).

fairseq sets the rate of the next step when a step ends, so that a line at update u may print that of u or of u + 1,
depending on the scheduler; either is right.
"""

import math
from collections.abc import Sequence
from pathlib import Path

import msgspec

from aiayn.schedule import learning_rate
from aiayn.spec.system import TrainingSpec
from analysis.logs.lines import LogText
from analysis.logs.statistics import parse_statistics

TOLERANCE = 0.05  # a rate further off than that is another rate
MAX_RATES = 4000  # of a longer log, as many evenly spaced lines


class LoggedRate(msgspec.Struct, frozen=True):
    """A printed rate: the line, the update, the value."""

    line: int
    update: int
    rate: float


def read_rates(path: Path) -> tuple[LoggedRate, ...]:
    """Return every rate that a log prints with its update, in order of line."""
    rates = []
    for block in LogText(path).blocks():
        for number, line in block:
            if b"lr" not in line or b"num_updates" not in line:
                continue
            statistics_of_line = parse_statistics(line)
            values = statistics_of_line.value_by_name if statistics_of_line else {}
            if "lr" in values and values.get("num_updates", 0) >= 1:
                rates.append(LoggedRate(number, int(values["num_updates"]), values["lr"]))
    return tuple(rates[:: max(1, len(rates) // MAX_RATES)])


def expected_rate(training: TrainingSpec, update: int) -> float:
    """Return the rate of an update by the spec."""
    if training.schedule == "equation_3":
        return learning_rate(update, d_model=training.d_model, warmup_steps=training.warmup_steps)
    peak, initial = training.peak_learning_rate or 0.0, training.initial_learning_rate or 0.0
    if training.schedule == "constant":
        return peak
    if update < training.warmup_steps:
        return initial + (peak - initial) * update / training.warmup_steps
    return peak * math.sqrt(training.warmup_steps / update)


def deviation(training: TrainingSpec, rate: LoggedRate) -> float:
    """Return the printed rate over the expected one, that of this or of the next update, whichever is nearer to it."""
    ratios = [rate.rate / expected_rate(training, update) for update in (rate.update, rate.update + 1)]
    return min(ratios, key=lambda ratio: abs(math.log(ratio)) if ratio > 0 else math.inf)


def wrong_rates(training: TrainingSpec, rates: Sequence[LoggedRate]) -> list[LoggedRate]:
    """Return the printed rates that are off by more than TOLERANCE."""
    return [rate for rate in rates if abs(deviation(training, rate) - 1) > TOLERANCE]
