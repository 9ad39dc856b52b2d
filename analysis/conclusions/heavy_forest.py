"""Draws Table 3 as a forest: each row's difference to base, printed and ours, with the answer."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import altair as alt
import pandas as pd

from aiayn.printed import PAPER_SCALE, PublishedCell, read_table
from aiayn.scoring.scores import BITS_METRIC
from analysis.conclusions.answers import Answer
from analysis.conclusions.contrasts import Call
from analysis.conclusions.scale_contrasts import draw_contrasts
from paper_tables.frame import Frame, is_bleu
from paper_tables.render.figure import (
    FAINT,
    LABEL_WIDTH,
    OURS,
    OURS_NAME,
    PALETTE,
    PRINTED,
    PRINTED_NAME,
    ROW_HEIGHT,
    SIGNED,
    WARNING,
    WIDTH,
    Drawable,
    Figure,
    axis_of_names,
)
from paper_tables.tables.table3 import BLEU_METRIC, SYMBOL_BY_COLUMN, group_of

TOO_CLOSE = "too close to call"
# Contrasts in BLEU have calls, but no answers.
ANSWER_BY_CALL = {Call.HOLDS: "holds", Call.REVERSED: "reversed", Call.TOO_CLOSE: TOO_CLOSE}
NOT_CALLED = "not called"
MARK_BY_ANSWER = {  # shape, stroke, fill: where the interval includes 0 the mark is hollow
    PRINTED_NAME: ("diamond", PRINTED, PRINTED),
    Answer.AS_PRINTED.value: ("circle", OURS, OURS),
    Answer.REVERSED.value: ("square", WARNING, WARNING),
    Answer.DIFFERS.value: ("triangle-up", WARNING, WARNING),
    Answer.ABSENT.value: ("circle", OURS, "transparent"),
    Answer.TOO_SMALL.value: ("square", OURS, "transparent"),
    Answer.UNDECIDED.value: ("cross", OURS, "transparent"),
    "holds": ("circle", OURS, OURS),
    TOO_CLOSE: ("circle", OURS, "transparent"),
    NOT_CALLED: ("circle", PALETTE[3], "transparent"),
}
NO_SD = "base has fewer than two seeds: no interval"
FOREST_COLUMNS = (
    "group",
    "row",
    "label",
    "source",
    "scale",
    "metric",
    "num_seeds",
    "difference",
    "low",
    "high",
    "spread",
    "answer",
)


def forest_frame(cells: Frame, metric: str) -> pd.DataFrame:
    """Return the differences to base of Table 3's rows, printed and ours, in order of print.

    Ours come from the contrasts, each with its 95 % interval. A row that is not measured has only
    its printed difference. `metric` is bits a subword, or Table 3's BLEU.
    """
    printed = read_table(3)
    rows = list(dict.fromkeys(cell.row for cell in printed))
    contrasts = [
        contrast
        for contrast in draw_contrasts(cells).contrasts
        if contrast.metric == metric and contrast.table == 3
    ]
    lines: list[tuple[object, ...]] = []
    for contrast in sorted(contrasts, key=lambda contrast: rows.index(contrast.row_name)):
        row, ours, effect = contrast.row_name, contrast.ours, contrast.printed_effect
        head = ("" if row == "big" else group_of(row), row, _label_of(row, printed))
        values = (None, effect, None, None, "", PRINTED_NAME)
        lines.append((*head, PRINTED_NAME, PAPER_SCALE, metric, *values))
        if ours is not None:
            spread = NO_SD if ours.interval is None else "95 % t-interval by the pooled sd"
            low, high = ours.interval or (None, None)
            answer = ANSWER_BY_CALL.get(ours.call, NOT_CALLED)
            if contrast.answered:
                answer = contrast.answered.answer.value
            our_values = (ours.num_compared, ours.difference, low, high, spread, answer)
            lines.append((*head, OURS_NAME, cells.scale, metric, *our_values))
    return pd.DataFrame(lines, columns=list(FOREST_COLUMNS)).astype({"num_seeds": "Int64"})


def _label_of(row: str, printed: Sequence[PublishedCell]) -> str:
    """Return the label of a row: its printed settings, as the paper prints only those that differ
    from base.
    """
    if row == "big":
        return "big"
    settings = []
    for cell in printed:
        if cell.row == row and cell.column in SYMBOL_BY_COLUMN:
            is_sentence = cell.span and " " in cell.value
            settings.append(cell.value if is_sentence else f"{cell.column} {cell.value}")
    if len(settings) > 2:  # rows (A): d_k and d_v follow from h
        settings = [text for text in settings if not text.startswith(("d_k", "d_v"))]
    text = ", ".join(settings) or row
    if len(text) <= 26:
        return text
    return "learned positions" if "posit" in text else text[:25]


def draw_forest(frame: pd.DataFrame) -> alt.VConcatChart:
    """Return a line for each row, in groups: the printed difference as a diamond, ours with its
    interval and its answer.
    """
    metric = str(frame["metric"].iloc[0])
    edge = max(float(frame["difference"].abs().max()), 0.1) * 1.3  # longer bars are cut there
    scale = alt.Scale(domain=[-edge, edge], nice=False)
    marks = {name: mark for name, mark in MARK_BY_ANSWER.items() if (frame["answer"] == name).any()}
    shapes, strokes, fills = (
        alt.Scale(domain=list(marks), range=list(kind))
        for kind in zip(*marks.values(), strict=True)
    )
    groups = list(frame.groupby("group", sort=False))
    unit = "BLEU" if is_bleu(metric) else "bits a subword"
    charts = []
    for index, (group, part) in enumerate(groups):
        is_last = index == len(groups) - 1
        title = f"difference to base, {unit}"
        axis = alt.Axis(
            title=title if is_last else None,
            labels=is_last,
            ticks=is_last,
            domain=is_last,
            tickCount=6,
            labelExpr=SIGNED,
        )
        x = alt.X("difference:Q", scale=scale, axis=axis)
        y = alt.Y(
            "label:N",
            sort=list(dict.fromkeys(part["label"])),
            title=None,
            axis=axis_of_names(LABEL_WIDTH),
        )
        legend = None
        if index == 0:
            legend = alt.Legend(
                title=None, columns=3, columnPadding=4, symbolOpacity=1, symbolStrokeWidth=1.6
            )
        answer = (
            alt.Shape("answer:N", scale=shapes, legend=legend),
            alt.Stroke("answer:N", scale=strokes, legend=legend),
            alt.Fill("answer:N", scale=fills, legend=legend),
        )
        tooltip = [
            "label:N",
            "source:N",
            "answer:N",
            "scale:N",
            alt.Tooltip("difference:Q", format="+.2f"),
            "low:Q",
            "high:Q",
            "num_seeds:Q",
            "spread:N",
        ]
        zero = (
            alt.Chart(pd.DataFrame({"difference": [0.0]}))
            .mark_rule(opacity=FAINT, aria=False)
            .encode(x)
        )
        ours_first = part.iloc[::-1]  # where both agree, the printed diamond is drawn over our mark
        points = (
            alt.Chart(ours_first)
            .mark_point(opacity=1, size=62)
            .encode(x, y, *answer, tooltip=tooltip)
        )
        layers = [zero, points]
        with_ends = part.dropna(subset=["low"])
        if not with_ends.empty:
            bars = alt.Chart(with_ends).mark_rule(color=OURS, strokeWidth=2.2, clip=True)
            layers.insert(1, bars.encode(alt.X("low:Q"), y, alt.X2("high:Q")))
        letter = alt.TitleParams(
            str(group),
            orient="left",
            angle=0,
            align="left",
            baseline="middle",
            anchor="middle",
            offset=12,
        )
        plot = alt.layer(*layers).properties(
            width=WIDTH - LABEL_WIDTH, height=alt.Step(ROW_HEIGHT), title=letter
        )
        charts.append(plot)
    return alt.vconcat(*charts, spacing=6)


def describe_forest(frame: pd.DataFrame) -> str:
    """Describe our difference of each row, and the printed difference."""
    metric = str(frame["metric"].iloc[0])
    ours = frame[frame["source"] == OURS_NAME]
    words = [
        f"Forest plot of Table 3: difference to base in {metric}, {frame['row'].nunique()} rows."
    ]
    if ours.empty:
        words.append("Printed differences only; ours are not measured yet.")
    for line in ours.to_dict("records"):
        printed = frame[(frame["row"] == line["row"]) & (frame["source"] == PRINTED_NAME)][
            "difference"
        ]
        shown = f", printed {printed.iloc[0]:+.2f}" if len(printed) else ""
        words.append(
            f"{line['label']}: ours {line['difference']:+.2f},"
            f" {line['answer']} ({line['spread']}){shown}."
        )
    return " ".join(words)


_FOREST_CAPTION = (
    "A diamond is the printed row minus the printed base; next to it is our row minus our base. The"
    " mark is hollow where the interval includes 0, hollow and pink where the paper's text"
    " concludes nothing (not called), and a triangle where the paper prints the two as equal and"
    " ours differ. Bars are 95 % t-intervals by an sd pooled over all systems of two"
    " seeds or more; a bar that leaves the plot is cut. At a smaller scale than the paper's a row"
    " keeps its ratio to base, and the two compare in direction, not in size."
)
FOREST_BLEU = Figure(
    name="forest_bleu",
    title="Table 3 as differences to base, BLEU",
    caption=f"In {BLEU_METRIC}, on the development set. {_FOREST_CAPTION}",
    draw=draw_forest,
    describe=describe_forest,
)
FOREST_BITS = Figure(
    name="forest_bits",
    title="Table 3 as differences to base, bits a subword",
    caption=(
        "Perplexity's logarithm to base 2, on the development set; to the left is better."
        f" {_FOREST_CAPTION}"
    ),
    draw=draw_forest,
    describe=describe_forest,
)


def figures_of_scale(
    frame: Frame, log_path_by_run: Mapping[str, Path] | None, attention: Path | None
) -> Iterator[Drawable]:
    """Yield the forest in bits a subword, which is primary, and in BLEU."""
    yield FOREST_BITS, lambda: forest_frame(frame, BITS_METRIC)
    yield FOREST_BLEU, lambda: forest_frame(frame, BLEU_METRIC)
