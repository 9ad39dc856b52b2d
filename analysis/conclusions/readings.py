"""Repeats the question of difference with one change at a time: decision 0012's readings.

A quantity has values by system and seed. Each reading gives an estimate for every contrast, row
minus control, and from it a direction: better, worse, or no difference. A contrast's line names the
readings whose direction differs from decision 0009's own estimate. No reading changes an answer.
"""

import math
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Literal

import msgspec

from aiayn.scoring.verdict import ALPHA, PooledSd, holm_adjusted, pool_sd
from analysis.conclusions.answers import Direction, Estimate, estimate_difference

MIN_CONTROL_SEEDS = 2  # as decision 0009 has it
Kind = Literal["variance", "seeds", "text", "metric", "horizon"]
ValuesBySystem = Mapping[str, Mapping[int, float]]  # by system, then by seed


class Reading(msgspec.Struct, frozen=True, kw_only=True):
    """One reading of all contrasts: by row, the estimate against the control.

    `holm_by_row` has the p-values of a reading with Holm's correction, else it is None. `missing`
    says by row why a contrast has no estimate.
    """

    kind: Kind
    name: str
    estimate_by_row: Mapping[str, Estimate] = {}
    less_is_better: bool = True
    holm_by_row: Mapping[str, float] | None = None
    missing: Mapping[str, str] = {}

    def direction(self, row: str) -> Direction | None:
        """Return what the reading says about a row; None without an estimate."""
        estimate = self.estimate_by_row.get(row)
        if estimate is None:
            return None
        if self.holm_by_row is not None and self.holm_by_row[row] >= ALPHA:
            return Direction.NEITHER
        return estimate.direction(less_is_better=self.less_is_better)


def read_pooled(
    kind: Kind,
    name: str,
    values: ValuesBySystem,
    rows: Iterable[str],
    control: str,
    *,
    less_is_better: bool = True,
) -> Reading:
    """Return the reading of a quantity by decision 0009's sd, pooled over all systems."""
    pooled = _pool(values)
    reading = Reading(kind=kind, name=name, less_is_better=less_is_better)
    return _read(reading, values, rows, control, pooled, estimate_difference)


def read_welch(values: ValuesBySystem, rows: Iterable[str], control: str, name: str) -> Reading:
    """Return the reading by two variances (Welch): the control's own, and one pooled over all other
    systems.
    """
    others = dict(values)
    own = _pool({control: others.pop(control, {})})

    def estimate(difference: float, pooled: PooledSd, *numbers: int) -> Estimate:
        assert own is not None  # a control with two seeds has an sd
        return estimate_welch(difference, numbers, pooled, own)

    reading = Reading(kind="variance", name=name)
    return _read(reading, values, rows, control, _pool(others), estimate)


def _read(
    reading: Reading,
    values: ValuesBySystem,
    rows: Iterable[str],
    control: str,
    pooled: PooledSd | None,
    estimate: Callable[[float, PooledSd, int, int], Estimate],
) -> Reading:
    """Return a reading with the estimate of each row against the control, or why it has none."""
    estimates, missing = {}, {}
    num_controls = len(values.get(control, {}))
    for row in rows:
        if not values.get(row):
            missing[row] = f"{row} has no value"
        elif num_controls < MIN_CONTROL_SEEDS:
            missing[row] = (
                f"{control} has {num_controls} seed(s), expected {MIN_CONTROL_SEEDS} or more"
            )
        elif pooled is None:
            missing[row] = "no system has two seeds, so the sd is not known"
        else:
            difference = statistics.mean(values[row].values())
            difference -= statistics.mean(values[control].values())
            estimates[row] = estimate(difference, pooled, len(values[row]), num_controls)
    return msgspec.structs.replace(reading, estimate_by_row=estimates, missing=missing)


def correct_by_holm(reading: Reading, name: str) -> Reading:
    """Return a reading with Holm's correction over all of its contrasts."""
    estimates = reading.estimate_by_row
    p_values = holm_adjusted([estimate.p_difference for estimate in estimates.values()])
    holm_by_row = dict(zip(estimates, p_values, strict=True))
    return msgspec.structs.replace(reading, name=name, holm_by_row=holm_by_row)


def leave_seeds_out(values: ValuesBySystem, rows: Sequence[str], control: str) -> list[Reading]:
    """Return a reading for each seed of the control, without that seed."""
    readings = []
    for left_out in values.get(control, {}):
        kept = dict(values[control])
        del kept[left_out]
        name = f"without {control} {left_out}"
        readings.append(read_pooled("seeds", name, {**values, control: kept}, rows, control))
    return readings


def merge_seeds(values: ValuesBySystem, later: ValuesBySystem) -> dict[str, dict[int, float]]:
    """Return all values by system, the later seeds included."""
    merged = {system: dict(by_seed) for system, by_seed in values.items()}
    for system, by_seed in later.items():
        merged.setdefault(system, {}).update(by_seed)
    return merged


def differing_readings(readings: Iterable[Reading], row: str, direction: Direction) -> list[str]:
    """Return the names of the readings that give a row another direction."""
    return [reading.name for reading in readings if reading.direction(row) not in (None, direction)]


def _pool(values: ValuesBySystem) -> PooledSd | None:
    """Return the sd pooled over some systems, without Bartlett's test."""
    lists = {system: list(by_seed.values()) for system, by_seed in values.items()}
    return pool_sd(lists, with_bartlett=False)


def estimate_welch(
    difference: float, numbers: Sequence[int], pooled_rows: PooledSd, own: PooledSd
) -> Estimate:
    """Return the estimate by two variances, with the degrees of freedom of Welch and Satterthwaite.

    `numbers` are the seeds of the row and of the control.
    """
    row_part, control_part = pooled_rows.sd**2 / numbers[0], own.sd**2 / numbers[1]
    variance = row_part + control_part
    spread = row_part**2 / pooled_rows.degrees_of_freedom
    spread += control_part**2 / own.degrees_of_freedom
    return Estimate(
        difference=difference,
        standard_error=math.sqrt(variance),
        degrees_of_freedom=variance**2 / spread if spread else pooled_rows.degrees_of_freedom,
    )
