"""Collects and draws curves of trainings: loss, dev perplexity, learning rate and speed, against
updates.

A frame of curves has a line for each point: run, series, seed, measure, update, value. A series is
all seeds of a system on a corpus, or all runs of one configuration. The runs of a series have the
same colour, and a band shows their range. `analysis.figures.curves` defines the measures: loss,
perplexity, learning rate and speed.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import altair as alt
import pandas as pd

from aiayn.errors import RecordError
from aiayn.facts.trainings import Training
from aiayn.packed import exists
from aiayn.runs.attempts import LOG_NAME
from aiayn.runs.names import training_of
from analysis.figures.curves import PERPLEXITY, CurvePoint, read_curves, thin_points
from paper_tables.frame import Frame
from paper_tables.render.figure import (
    INK,
    PALETTE,
    WARNING,
    WIDTH,
    Figure,
    FigureError,
    round_ticks,
)

COLUMNS = ("run", "series", "seed", "measure", "update", "value")
# More points of a curve could not be distinguished on 350 pixels.
NUM_SPANS = 200
# The limit for all curves of a measure together. With more than twenty curves, each has fewer than
# NUM_SPANS points.
MAX_POINTS = 4000
# Further series are thin and grey.
MAX_SERIES = len(PALETTE)
PANEL_HEIGHT = 92


class Panel(NamedTuple):
    """How a measure is drawn: the heading with the unit, the scale of the axis, and the number
    format of the axis in d3's notation.
    """

    measure: str
    title: str
    is_log: bool
    has_zero: bool
    number_format: str


PANELS = (
    Panel("loss_bits", "Training loss, label-smoothed (bits per target token)", False, False, "~g"),
    Panel(PERPLEXITY, "Dev perplexity per subword (log axis)", True, False, "~g"),
    Panel("learning_rate", "Learning rate", False, True, ".1~e"),
    Panel("target_tokens_per_second", "Speed (target tokens per second)", False, True, "~s"),
)


class Curve(NamedTuple):
    """The curve points of a run, with the series to which the run contributes. All seeds of a
    system are in the same series.
    """

    run: str
    series: str
    seed: int | None
    points: Sequence[CurvePoint]


def curve_frame(curves: Iterable[Curve]) -> pd.DataFrame:
    """Return the data frame of all curves. The points of all curves are averaged over the same
    spans of updates.

    A curve has about NUM_SPANS spans, or fewer if there are many curves.
    """
    curves = list(curves)
    updates = [point.update for curve in curves for point in curve.points]
    # All curves have the same spans, so that seeds are averaged at equal updates.
    num_spans = min(NUM_SPANS, max(1, MAX_POINTS // max(1, len(curves))))
    span = max(1, math.ceil(max(updates, default=1) / num_spans))
    lines = []
    for curve in curves:
        for point in thin_points(curve.points, span):
            lines.append((curve.run, curve.series, curve.seed, *point))
    # `Int64` is pandas' type for whole numbers with gaps: a foreign log does not state its seed.
    return pd.DataFrame(lines, columns=list(COLUMNS)).astype({"seed": "Int64", "value": "float64"})


def means_over_seeds(points: pd.DataFrame) -> pd.DataFrame:
    """Return the mean, lowest and highest value over seeds, for each series and update."""
    means = points.groupby(["series", "update"], sort=False, as_index=False).agg(
        value=("value", "mean"),
        low=("value", "min"),
        high=("value", "max"),
        seeds=("run", "nunique"),
    )
    return means.sort_values(["series", "update"], kind="stable")


def curves_of_scale(cells: Frame, path_by_run: Mapping[str, Path] | None = None) -> list[Curve]:
    """Return the curves of every run of a scale that has a log, finished or not.

    If `path_by_run` is not given, the logs are in the runs folder of the config, or at the paths in
    the records of the trainings.

    Raises:
        RecordError: if a log cannot be read.
    """
    if path_by_run is None:
        path_by_run = {}
        for run in cells.runs:
            # A finished training has the path of its log in its record. A running training has no
            # record.
            path = Path(cells.runs_folder) / run.status.run / LOG_NAME
            if run.train and exists(run.train.log_path):
                path = run.train.log_path
            if run.status.run and path.exists():
                path_by_run[run.status.run] = path
    # With one corpus its name would only make the legend longer.
    has_one_corpus = len({run.corpus for run in cells.runs}) == 1
    curves = []
    for run in cells.runs:
        name = run.status.run
        series = run.system
        if not has_one_corpus:
            series += f", {cells.corpora[run.corpus].language_pair}"
        if name in path_by_run:
            for _, points in _read(path_by_run[name]):
                curves.append(Curve(name, series, run.seed, points))
    return curves


def curves_of_files(named_paths: Iterable[tuple[str, Path]]) -> list[Curve]:
    """Return the curves in the given logs. Each log is a pair (name of the run, path).

    If a log contains several trainings, each training is a run.

    Raises:
        RecordError: if a log cannot be read or does not contain a training.
    """
    curves = []
    for run, path in named_paths:
        found = _read(path)
        series, seed = _series_of_path(str(path))
        if not found:
            raise RecordError(
                f"{path}: no training in it; expected a log of fairseq-train or `aiayn train`"
            )
        # The first training keeps the name of the file. The others add the line on which they
        # begin.
        for index, (training, points) in enumerate(found):
            suffix = f":{training.first.line}" if index else ""
            curves.append(Curve(run + suffix, series + suffix, seed, points))
    return curves


def _series_of_path(path: str) -> tuple[str, int | None]:
    """Return the series (the name in the legend) and the seed of a log that is not part of a
    scale's results. Series and seed are read from the name of the log's folder. If this name is not
    the name of a run, the series is the path of the log and the seed is None.

    The folders of our runs have the run's name, which contains system, corpus and seed.
    """
    training = training_of(Path(path).parent.name)
    if training is None:
        return path, None
    return f"{training.system}, {training.corpus}", training.seed


def _read(path: Path) -> list[tuple[Training, list[CurvePoint]]]:
    try:
        return read_curves(path)
    except OSError as error:
        raise RecordError(f"{path}: cannot be read ({error.strerror}); make it readable") from error


def draw_curves(frame: pd.DataFrame) -> alt.VConcatChart:
    """Return a chart with a panel for each of the four measures against updates. The panels are
    below each other.

    Raises:
        FigureError: if no value of the curves can be drawn.
    """
    # Vega cannot place nan or inf on an axis. `_layers` marks where they begin.
    finite = frame[frame["value"].map(math.isfinite)]
    # For example, the panel of perplexity is missing if the trainings did not validate.
    panels = [panel for panel in PANELS if (finite["measure"] == panel.measure).any()]
    if not panels:
        raise FigureError(
            "Curves: no printed value is a finite number: the training diverged from the beginning."
        )
    names = list(dict.fromkeys(frame["series"]))
    colour = _colour(names)
    x_scale = alt.Scale(domain=[0, float(frame["update"].max()) or 1.0], nice=False)
    charts = []
    # In d3's format `~s`, 20000 is 20k. On a shorter axis it would mix 500 with 1.5k.
    x_format = "~s" if frame["update"].max() >= 10_000 else "~g"
    for panel in panels:
        is_last = panel is panels[-1]
        # Only the last panel has labels on the x axis, because all panels share it.
        axis = alt.Axis(
            title="Update (optimiser steps)" if is_last else None,
            labels=is_last,
            ticks=is_last,
            grid=False,
            tickCount=6,
            labelFlush=True,
            labelExpr=f"datum.value ? format(datum.value, '{x_format}') : '0'",
        )
        at = alt.X("update:Q", scale=x_scale, axis=axis)
        layers = _layers(frame, finite, panel, at, colour)
        title = alt.TitleParams(
            panel.title, fontSize=11, fontWeight="normal", offset=4, frame="group"
        )
        charts.append(alt.layer(*layers).properties(width=WIDTH, height=PANEL_HEIGHT, title=title))
    stacked = alt.vconcat(*charts, spacing=10)
    # A figure with only one series does not need a legend. Its title is the series.
    return stacked if len(names) > 1 else stacked.properties(title=names[0])


def _colour(names: Sequence[str]) -> alt.Color:
    """Return the colour scale of the series. When the colours of the palette are used up, further
    series are grey.

    The chart has no legend if there is only one series.
    """
    coloured = list(names[:MAX_SERIES])
    # More colours than the palette has cannot be told apart.
    greys = [INK] * (len(names) - len(coloured))
    scale = alt.Scale(domain=list(names), range=[*PALETTE[: len(coloured)], *greys])
    legend = None
    if len(names) > 1:
        legend = alt.Legend(
            title=None, columns=2, values=coloured, symbolType="stroke", symbolOpacity=1.0
        )
    return alt.Color("series:N", scale=scale, legend=legend, sort=list(names))


def _layers(
    frame: pd.DataFrame, finite: pd.DataFrame, panel: Panel, x: alt.X, colour: alt.Color
) -> list[alt.Chart]:
    """Return the layers of a panel: the means over seeds, the bands around them, and a mark where
    values become NaN or infinite.
    """
    points = finite[finite["measure"] == panel.measure]
    if panel.is_log:
        # The logarithm of 0 does not exist.
        points = points[points["value"] > 0]
    means = means_over_seeds(points)
    axis = alt.Axis(
        title=None,
        tickCount=4,
        labelExpr=f"datum.value ? format(datum.value, '{panel.number_format}') : '0'",
    )
    scale = alt.Scale(zero=panel.has_zero)
    if panel.is_log:
        low, high = float(means["low"].min()), float(means["high"].max())
        scale = alt.Scale(type="log", nice=False, domain=[low / 1.05, high * 1.05])
        # On a logarithmic axis d3 puts a tick at each of 1, 2, ... 9 times a power of ten, too many
        # for a panel of this height.
        axis.values = round_ticks(low / 1.05, high * 1.05)
    y = alt.Y("value:Q", scale=scale, axis=axis)
    # As in the legend: the series of the whole figure, also those without a value in this panel.
    names = list(dict.fromkeys(frame["series"]))
    # A Vega expression. Python's `repr` of a list of names is also a valid JavaScript array.
    is_grey = f"indexof({names[MAX_SERIES:]!r}, datum.series) >= 0"
    opacity = alt.condition(is_grey, alt.value(0.25), alt.value(1.0))
    tooltip = [
        "series:N",
        "update:Q",
        alt.Tooltip("value:Q", format=".4g"),
        "seeds:Q",
    ]
    # The band of a single seed would be a line of zero height.
    bands = means[means["seeds"] > 1]
    layers = []
    if not bands.empty:
        band = alt.Chart(bands).mark_area(opacity=0.22, aria=False)
        layers.append(
            band.encode(x, alt.Y("low:Q", scale=scale, axis=axis), alt.Y2("high:Q"), colour)
        )
    base = alt.Chart(means)
    if means.groupby("series").size().max() > 1:
        layers.append(
            base.mark_line(clip=True).encode(x, y, colour, opacity=opacity, tooltip=tooltip)
        )
    single = means[means.groupby("series")["update"].transform("size") == 1]
    # A line needs two updates, so a single update is drawn as a point.
    if not single.empty:
        layers.append(
            alt.Chart(single).mark_point(filled=True).encode(x, y, colour, tooltip=tooltip)
        )
    # Only the first such value of each run is marked.
    not_finite = frame[(frame["measure"] == panel.measure) & ~frame["value"].map(math.isfinite)]
    if not not_finite.empty:
        layers += _not_finite_marks(not_finite.sort_values("update").drop_duplicates("run"), x)
    return layers


def _not_finite_marks(not_finite: pd.DataFrame, x: alt.X) -> list[alt.Chart]:
    """Return a vertical rule and a text at the update where the values of a curve become NaN or
    infinite.
    """
    base = alt.Chart(not_finite)
    tooltip = ["run:N", "update:Q"]
    rule = base.mark_rule(color=WARNING, strokeWidth=1.5).encode(x, tooltip=tooltip)
    # If several runs diverged, one text is enough.
    first = alt.Chart(not_finite.head(1))
    text = first.mark_text(
        align="right", dx=-5, baseline="top", dy=2, color=WARNING, fontWeight=600
    )
    return [rule, text.encode(x, y=alt.value(0), text=alt.value("not a number from here"))]


def describe_curves(frame: pd.DataFrame) -> str:
    """Return a text that describes the curves: the number of runs and updates, and the last dev
    perplexity of each series.
    """
    runs = frame["run"].nunique()
    updates = int(frame["update"].max())
    words = [f"Curves of {runs} run{'s' if runs > 1 else ''} up to update {updates:,}."]
    dev = frame[(frame["measure"] == PERPLEXITY) & frame["value"].map(math.isfinite)]
    for series in list(dict.fromkeys(dev["series"]))[:MAX_SERIES]:
        last = dev[dev["series"] == series].sort_values("update").groupby("run").tail(1)
        words.append(
            f"{series}: last dev perplexity {last['value'].mean():.3g} at update"
            f" {int(last['update'].max()):,}."
        )
    if dev.empty:
        words.append("No dev perplexity was printed.")
    return " ".join(words)


CURVES_BY_UPDATE = Figure(
    name="curves_by_update",
    title="Curves by update",
    caption=(
        "Training against optimiser steps. Lines are means over seeds, bands reach from the lowest"
        " to the highest seed. Training loss is fairseq's own, with label smoothing; dev perplexity"
        " has neither smoothing nor dropout. Work that a restart repeats is drawn only"
        " as it was done last."
    ),
    draw=draw_curves,
    describe=describe_curves,
)
