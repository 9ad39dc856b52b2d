"""Reads the curves of trainings from their logs: the loss, dev perplexity, learning rate and speed
in each line of a log.

`aiayn.facts` splits a log into sections, one for each start of fairseq, and groups the sections of
one training. `aiayn.facts` keeps only summaries of the values within an epoch. This module reads
the lines of the log again to get all values. A curve may be read while the training still writes
its log. If a restarted training resumed before the newest update in the log, the lines of the
restart replace the earlier lines of the same updates.
"""

import math
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from aiayn.facts.join import join_logs
from aiayn.facts.reader import read_log
from aiayn.facts.statistics import parse_statistics
from aiayn.facts.text import LogText
from aiayn.facts.trainings import Training
from aiayn.facts.types import Section, perplexity_of

# What fairseq prints within an epoch, by the name of its curve. Its loss is smoothed over labels,
# in base 2.
INNER_MEASURES = {"loss_bits": "loss", "learning_rate": "lr", "target_tokens_per_second": "wps"}
PERPLEXITY = "dev_ppl_per_subword"


class CurvePoint(NamedTuple):
    """The value of a measure, such as the dev perplexity, after `update` optimiser steps.

    `value` is NaN or infinite if fairseq printed NaN or inf, because the loss diverged or
    overflowed.
    """

    measure: str
    update: int
    value: float


def read_curves(path: Path) -> list[tuple[Training, list[CurvePoint]]]:
    """Return the curve points of each training in a log file, in the order of the lines.

    Raises:
        OSError: if the log file cannot be opened or read.
    """
    # The first reading finds the sections. Their line numbers tell the second reading where each
    # begins.
    trainings = join_logs([read_log(path)]).trainings
    # A start is known by the line on which it begins.
    start_by_line: dict[int, _Start] = {}
    for training in trainings:
        for section in training.sections:
            start_by_line[section.line] = _Start(training, section)
    current: _Start | None = None
    for number, line in LogText(path).lines():
        current = start_by_line.get(number, current)
        if current is not None:
            current.read(line)
    # A file may hold several trainings, for example if it was appended to by a later command.
    curves = []
    for training in trainings:
        starts = [start_by_line[section.line] for section in training.sections]
        curves.append((training, _join(starts)))
    return curves


def _join(starts: Iterable["_Start"]) -> list[CurvePoint]:
    """Return the curve points of a training from all its starts. If a restart repeated updates,
    only the values of the repetition are kept.
    """
    points: list[CurvePoint] = []
    for start in starts:
        if start.points:
            # Without a checkpoint the log does not say from where the start goes on, so the update
            # before its first printed line is taken.
            resumed = start.resumed_update
            if resumed is None:
                resumed = start.points[0].update - 1
            # Updates after the checkpoint were lost with the process and were trained a second
            # time.
            points = [point for point in points if point.update <= resumed]
            points += start.points
    return points


class _Start:
    """Collects the values in the log lines of one start of a training. A training that was
    interrupted has several starts.
    """

    def __init__(self, training: Training, section: Section) -> None:
        self.resumed_update = section.whole("resumed_updates")
        self.points: list[CurvePoint] = []
        # A log may have several `--valid-subset`. Only the dev set is drawn.
        self._subset = training.last.dev_subset
        self._last_update = self.resumed_update or 0

    def read(self, line: bytes) -> None:
        """Read the next log line of this start, and keep the values in this line."""
        # A search for bytes costs far less than parsing, and most lines of a log are not
        # statistics. The three texts occur in lines within an epoch or at its end, in lines of
        # JSON, and in lines of a validation.
        if b"num_updates" not in line and b'{"epoch"' not in line and b"| valid on" not in line:
            return
        statistics = parse_statistics(line)
        if statistics is None:
            return
        values = statistics.value_by_name
        # Lines that do not state their update get the update of the line before.
        self._last_update = statistics.update or self._last_update
        measured: dict[str, float] = {}
        # The line at the end of an epoch repeats means over the epoch, so it does not add points.
        if statistics.kind == "inner":
            for measure, name in INNER_MEASURES.items():
                if name in values:
                    measured[measure] = values[name]
            # In the first line of a log fairseq prints a speed of 0, because no time has been
            # measured yet.
            if values.get("wps") == 0:
                del measured["target_tokens_per_second"]
        elif statistics.subset == self._subset and "nll_loss" in values:
            # Table 3 has the perplexity of the likelihood, without label smoothing.
            perplexity = perplexity_of(values["nll_loss"])
            measured[PERPLEXITY] = math.nan if perplexity is None else perplexity
        for measure, value in measured.items():
            self.points.append(CurvePoint(measure, self._last_update, value))


def thin_points(points: Iterable[CurvePoint], num_updates: int) -> list[CurvePoint]:
    """Average the curve points within each span of `num_updates` updates. The mean is placed at the
    last update of the span that is in the log.

    Values that are nan or inf are not averaged but kept, because a mean would hide them.
    """
    # Updates count from 1, so `update - 1` puts the updates 1 to `num_updates` into the first span.
    spans: dict[tuple[str, int], list[CurvePoint]] = {}
    thinned: list[CurvePoint] = []
    for point in points:
        if math.isfinite(point.value):
            spans.setdefault((point.measure, (point.update - 1) // num_updates), []).append(point)
        else:
            thinned.append(point)
    for members in spans.values():
        mean = math.fsum(point.value for point in members) / len(members)
        thinned.append(members[-1]._replace(value=mean))
    return thinned
