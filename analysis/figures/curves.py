"""Reads the curves of trainings from their logs: loss, dev perplexity, learning rate and speed at
each line printed.

`aiayn.facts` assigns lines to sections, and sections to trainings. This module reads the
same lines again for what a section only summarises: statistics within an epoch. A curve may be
read while its log grows.

If a start resumed before the newest update of an earlier start, its own lines replace the earlier
lines. Hours count from the first line of each start and are summed over the starts. They include
repeated updates, but not the pauses between starts.
"""

import datetime
import math
import re
from collections.abc import Iterable
from pathlib import Path

import msgspec

from aiayn.facts.join import join_logs
from aiayn.facts.statistics import UPDATE, Statistics, parse_statistics
from aiayn.facts.text import LogText
from aiayn.facts.trainings import Training
from aiayn.facts.types import LogFile, Section, perplexity_of

# What fairseq prints within an epoch, by the name of its curve. Its loss is smoothed over labels,
# in base 2.
INNER_MEASURES = {"loss_bits": "loss", "learning_rate": "lr", "target_tokens_per_second": "wps"}
PERPLEXITY = "dev_ppl_per_subword"
_TIME = re.compile(rb"(\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d)")
RESTART = "restart"  # a mark, its value the number of the start
MAX_LINES = (
    2000  # of statistics within epochs that are looked into, evenly over the updates of a training
)


class CurvePoint(msgspec.Struct, frozen=True, kw_only=True):
    """A value after `update` optimiser steps and `hours` of training (None if the log does not
    print times).

    `value` is NaN or infinite if fairseq printed that, because the loss diverged or overflowed.
    """

    measure: str
    update: int
    hours: float | None
    value: float


def read_curves(path: Path, log_file: LogFile) -> list[tuple[Training, list[CurvePoint]]]:
    """Return the points of each training of a file, in order of its lines. `log_file` is its
    earlier reading.

    Raises:
        OSError: if the file cannot be opened or read.
    """
    trainings = join_logs([log_file]).trainings
    start_by_line: dict[int, _Start] = {}
    for training in trainings:
        start_by_line |= {one.line: _Start(training, one) for one in training.sections}
    current: _Start | None = None
    for number, line in LogText(path).lines():
        current = start_by_line.get(number, current)
        if current is not None:
            current.read(line)
    curves = []
    for training in trainings:
        curves.append((training, _join([start_by_line[one.line] for one in training.sections])))
    return curves


def _join(starts: Iterable["_Start"]) -> list[CurvePoint]:
    """Return all points of a training that count, with a mark for each start but the first."""
    points: list[CurvePoint] = []
    begin_hours: float | None = 0.0
    for number, start in enumerate((start for start in starts if start.points), start=1):
        resumed = start.resumed_update
        if resumed is None:
            resumed = start.points[0].update - 1
        if number > 1:
            points = [point for point in points if point.update <= resumed]
            mark = CurvePoint(
                measure=RESTART, update=resumed, hours=begin_hours, value=float(number)
            )
            points.append(mark)
        end_hours: float | None = None
        for point in start.points:
            hours = None
            if point.hours is not None and begin_hours is not None:
                hours = point.hours + begin_hours
                end_hours = max(hours, end_hours or 0.0)
            points.append(msgspec.structs.replace(point, hours=hours))
        begin_hours = end_hours
    return points


class _Start:
    """The printed values of one start. Hours are counted from its first line."""

    def __init__(self, training: Training, section: Section) -> None:
        self.resumed_update = section.whole("resumed_updates")
        self.points: list[CurvePoint] = []
        self._subset, self._num_updates = (
            training.last.dev_subset,
            max(1, training.last.last_update),
        )
        self._first_line = b""  # with a time
        self._last_update = self.resumed_update or 0
        self._last_hours: float | None = None
        self._last_slot = -1

    def read(self, line: bytes) -> None:
        """Read a further line of this start."""
        if not self._first_line and _time_of(line):
            self._first_line = line
        has_statistics = b"num_updates" in line or b'{"epoch"' in line or b"| valid on" in line
        if not self._is_skipped(line) and has_statistics:
            statistics = parse_statistics(line)
            if statistics is not None:
                self._keep(statistics, line)

    def _is_skipped(self, line: bytes) -> bool:
        """Return whether to skip a line of statistics within an epoch, because a close line was
        already read. Lines with nan or inf are never skipped.
        """
        if b'"update": ' not in line and b"num_updates=" not in line:
            return False
        update = UPDATE.search(line)
        slot = -1 if update is None else int(update[1]) * MAX_LINES // self._num_updates
        is_beside = slot == self._last_slot and b"nan" not in line and b"inf" not in line
        self._last_slot = slot
        return is_beside

    def _keep(self, statistics: Statistics, line: bytes) -> None:
        """Keep the points of a line of statistics. The line at the end of an epoch does not add
        points.
        """
        values = statistics.value_by_name
        self._last_update = statistics.update or self._last_update
        # The times of lines, else fairseq's own `wall`. A line without either follows the last.
        seconds = _seconds_between(self._first_line, line) or values.get("wall", math.nan)
        if math.isfinite(seconds) and seconds >= 0:
            self._last_hours = seconds / 3600
        measured: dict[str, float] = {}
        if statistics.kind == "inner":
            for measure, name in INNER_MEASURES.items():
                if name in values:
                    measured[measure] = values[name]
            if values.get("wps") == 0:  # of the first line: nothing to divide by
                del measured["target_tokens_per_second"]
        elif statistics.subset == self._subset and "nll_loss" in values:
            perplexity = perplexity_of(values["nll_loss"])  # as in Table 3
            measured[PERPLEXITY] = math.nan if perplexity is None else perplexity
        for measure, value in measured.items():
            point = CurvePoint(
                measure=measure, update=self._last_update, hours=self._last_hours, value=value
            )
            self.points.append(point)


def _time_of(line: bytes) -> str:
    """Return the time at the beginning of a line, without time zone, or '' if the line has no
    time.
    """
    match = _TIME.match(line) or _TIME.match(line, 1)
    return match[1].decode() if match else ""


def _seconds_between(first_line: bytes, last_line: bytes) -> float | None:
    """Return the seconds between the times of two lines, or None if a line does not have a time."""
    begin, end = _time_of(first_line), _time_of(last_line)
    if not begin or not end:
        return None
    passed = datetime.datetime.fromisoformat(end) - datetime.datetime.fromisoformat(begin)
    return passed.total_seconds()


def thin_points(points: Iterable[CurvePoint], num_updates: int) -> list[CurvePoint]:
    """Average the points of each span of `num_updates` updates. The mean is placed at the last
    printed update of its span.

    Marks of restarts, and values that are nan or inf, are kept, because a mean would hide them.
    """
    spans: dict[tuple[str, int], list[CurvePoint]] = {}
    kept: list[CurvePoint] = []
    for point in points:
        if point.measure == RESTART or not math.isfinite(point.value):
            kept.append(point)
        else:
            spans.setdefault((point.measure, (point.update - 1) // num_updates), []).append(point)
    for members in spans.values():
        mean = math.fsum(point.value for point in members) / len(members)
        kept.append(msgspec.structs.replace(members[-1], value=mean))
    return kept
