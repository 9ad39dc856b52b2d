"""Reads the curves of trainings from their logs: loss, dev perplexity, learning rate and speed at each line printed.

`reader.py` assigns lines to trainings and starts. This module reads the same lines again for what `LogFile` omits:
statistics within an epoch. A curve may be read while its log grows.

Where a start resumed before the newest update of an earlier one, the later one counts. Hours are those of training:
from each start's first line, summed over the starts, repeated work included, pauses excluded.
"""

import bisect
import datetime
import math
from collections.abc import Iterable, Sequence
from pathlib import Path

import msgspec

from analysis.logs.lines import LogText
from analysis.logs.logged import dev_subset
from analysis.logs.statistics import UPDATE, Statistics, parse_statistics, time_of
from analysis.logs.types import LogFile, TrainingLog

# What fairseq prints within an epoch, by the name of its curve. Its loss is smoothed over labels, in base 2.
INNER_MEASURES = {"loss_bits": "loss", "learning_rate": "lr", "target_tokens_per_second": "wps"}
PERPLEXITY = "dev_ppl_per_subword"
RESTART = "restart"  # a mark, its value the number of the start
MAX_LINES = 2000  # of statistics within epochs that are looked into, evenly over the updates of a training


class CurvePoint(msgspec.Struct, frozen=True, kw_only=True):
    """A value after `update` optimiser steps and `hours` of training (None where the log has no times).

    `value` is not a number where fairseq printed so: a loss that diverged, or overflowed.
    """

    measure: str
    update: int
    hours: float | None
    value: float


def read_curves(path: Path, log_file: LogFile) -> list[tuple[TrainingLog, list[CurvePoint]]]:
    """Return the points of each training of a file, in order of its lines; `log_file` is its earlier reading.

    Raises:
        OSError: if the file cannot be opened or read.
    """
    trainings = [entry for entry in log_file.entries if isinstance(entry, TrainingLog)]
    starts = sorted((start.line, index) for index, log in enumerate(trainings) for start in log.starts)
    first_lines = [line for line, _ in starts]
    curves = [_Curve(training) for training in trainings]
    text = LogText(path)
    for block in text.blocks():
        for number, line in block:
            found = bisect.bisect_right(first_lines, number) - 1
            if found >= 0:
                curves[starts[found][1]].read(starts[found][0], line)
    return [(training, curve.points()) for training, curve in zip(trainings, curves, strict=True)]


class _Curve:
    """The points of one training, start by start."""

    def __init__(self, training: TrainingLog) -> None:
        self._subset = dev_subset(training)
        self._num_updates = max(1, training.last_update)
        self._starts: list[_Start] = []
        self._resumed = {start.line: start.resumed_update for start in training.starts}

    def read(self, start_line: int, line: bytes) -> None:
        """Take in a line of the start that began at `start_line`."""
        if not self._starts or self._starts[-1].line != start_line:
            self._starts.append(_Start(start_line, self._resumed.get(start_line)))
        start = self._starts[-1]
        if not start.first_time:
            start.first_time = time_of(line)
        if not start.is_skipped(line, self._num_updates) and (
            b"num_updates" in line or b'{"epoch"' in line or b"| valid on" in line
        ):
            statistics = parse_statistics(line)
            if statistics is not None:
                start.read(statistics, time_of(line), self._subset)

    def points(self) -> list[CurvePoint]:
        """Return all points that count, with a mark for each start but the first."""
        points: list[CurvePoint] = []
        offset_hours: float | None = 0.0
        for number, start in enumerate((start for start in self._starts if start.points), start=1):
            first_update = start.points[0].update
            resumed = first_update - 1 if start.resumed_update is None else start.resumed_update
            if number > 1:
                points = [point for point in points if point.update <= resumed]
                mark = CurvePoint(measure=RESTART, update=resumed, hours=offset_hours, value=float(number))
                points.append(mark)
            for point in start.points:
                has_hours = point.hours is not None and offset_hours is not None
                hours = (point.hours or 0.0) + (offset_hours or 0.0) if has_hours else None
                points.append(msgspec.structs.replace(point, hours=hours))
            newest = [point.hours for point in start.points if point.hours is not None]
            offset_hours = max(newest) + offset_hours if newest and offset_hours is not None else None
        return points


class _Start:
    """What one start printed; hours count from its first line."""

    def __init__(self, line: int, resumed_update: int | None) -> None:
        self.line, self.resumed_update = line, resumed_update
        self.first_time = ""
        self.points: list[CurvePoint] = []
        self._last_update = resumed_update or 0
        self._last_hours: float | None = None
        self._last_slot = -1

    def is_skipped(self, line: bytes, num_updates: int) -> bool:
        """Return whether a line of statistics within an epoch follows one that was read; never one without a number."""
        if b'"update": ' not in line and b"num_updates=" not in line:
            return False
        update = UPDATE.search(line)
        slot = -1 if update is None else int(update[1]) * MAX_LINES // num_updates
        is_beside = slot == self._last_slot and b"nan" not in line and b"inf" not in line
        self._last_slot = slot
        return is_beside

    def read(self, statistics: Statistics, time: str, subset: str) -> None:
        """Take in one line of statistics; those of whole epochs add nothing."""
        values = statistics.value_by_name
        update = self._last_update if statistics.update is None else statistics.update
        self._last_update = update
        hours = self._hours(time, values)
        if statistics.kind == "inner":
            for measure, name in INNER_MEASURES.items():
                value = values.get(name)
                if value is not None and not (name == "wps" and value == 0):  # of the first line: nothing to divide by
                    self.points.append(CurvePoint(measure=measure, update=update, hours=hours, value=value))
        elif statistics.kind == "valid" and statistics.subset == subset and "nll_loss" in values:
            value = _perplexity(values["nll_loss"])
            self.points.append(CurvePoint(measure=PERPLEXITY, update=update, hours=hours, value=value))

    def _hours(self, time: str, values: dict[str, float]) -> float | None:
        """Return the hours since the start's first line, by the times of lines, else by fairseq's own `wall`."""
        seconds = values.get("wall", math.nan)
        if time and self.first_time:
            begin, end = (datetime.datetime.fromisoformat(one) for one in (self.first_time, time))
            seconds = (end - begin).total_seconds() or seconds
        if math.isfinite(seconds) and seconds >= 0:
            self._last_hours = seconds / 3600
        return self._last_hours  # a validation without either follows the line before it


def _perplexity(nll_bits: float) -> float:
    """Return 2 to the loss, as Table 3 has it; no number where that is beyond any."""
    return 2.0**nll_bits if nll_bits < 1000 else math.nan


def thin_points(points: Iterable[CurvePoint], num_updates: int) -> list[CurvePoint]:
    """Return means over spans of `num_updates` updates, each at the last update of its span that was printed.

    Marks of restarts, and values that are no numbers, stay as they are: a mean would hide them.
    """
    spans: dict[tuple[str, int], list[CurvePoint]] = {}
    kept: list[CurvePoint] = []
    for point in points:
        if point.measure == RESTART or not math.isfinite(point.value):
            kept.append(point)
        else:
            spans.setdefault((point.measure, (point.update - 1) // num_updates), []).append(point)
    return kept + [_mean(members) for members in spans.values()]


def _mean(points: Sequence[CurvePoint]) -> CurvePoint:
    value = math.fsum(point.value for point in points) / len(points)
    return msgspec.structs.replace(points[-1], value=value)
