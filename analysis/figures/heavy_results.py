"""Draws results next to the printed ones: BLEU against training cost, and verdicts.

The frames are made of the same data as the tables: `ScaleResults`, judged cells and the printed
values.
"""

import itertools
import math
from collections.abc import Sequence
from typing import Literal

import altair as alt
import pandas as pd

from aiayn.printed import (
    PAPER_SCALE,
    printed_number,
    read_table,
)
from aiayn.scoring.seeds import summarise_seeds
from aiayn.scoring.verdict import MARGIN_BLEU
from paper_tables.frame import Frame, PrintedCell
from paper_tables.layout import NAME_BY_PAIR
from paper_tables.render.figure import (
    FAINT,
    INK,
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
    Figure,
    FigureError,
    axis_of_names,
)

BOTH = alt.Scale(domain=[PRINTED_NAME, OURS_NAME], range=[PRINTED, OURS])
SHAPES = alt.Scale(domain=[PRINTED_NAME, OURS_NAME], range=["diamond", "circle"])


# ---- Table 2: BLEU against training cost
# --------------------------------------------------------------------------

COST_COLUMNS = ("panel", "label", "source", "bleu", "low", "high", "flops", "flops_of", "num_seeds")
BY_FOOTNOTE = "footnote 5: seconds x GPUs x sustained rate"
BY_FORMULA = "model FLOPs: operations a token x tokens"

Align = Literal["left", "right", "center"]
SHIFT_BY_ALIGN: dict[Align, int] = {"left": 7, "right": -7, "center": 0}
LINE_PIXELS = 11
# Where a label is drawn: on which side of its dot, and how many lines above it. Printed labels that
# would overlap on the right of their dots are listed.
RIGHT_OF_THE_DOT: tuple[Align, int] = ("left", 0)
LABEL_PLACES: dict[tuple[str, str], tuple[Align, int]] = {
    ("EN-DE", "ConvS2S Ensemble"): ("right", 0),
    ("EN-DE", "GNMT + RL Ensemble"): ("center", 1),
    ("EN-FR", "ConvS2S Ensemble"): ("right", 1),
    ("EN-FR", "GNMT + RL Ensemble"): ("right", 0),
    ("EN-FR", "MoE"): ("right", 0),
    ("EN-FR", "Deep-Att + PosUnk Ensemble"): ("center", -2),
    ("EN-FR", "GNMT + RL"): ("right", 0),
}


def cost_frame(cells: Frame) -> pd.DataFrame:
    """Return Table 2's systems with BLEU and training cost, a panel for each language pair, and
    ours.

    Ours are among the printed where they are of the paper's scale and trained on a GPU whose rate
    is known, so that both numbers are of the printed kind; otherwise in panels of their own, their
    cost by `aiayn.cost.model_flops`.
    """
    printed = read_table(2)
    names = {cell.row: cell.value for cell in printed if cell.column == "model"}
    lines: list[tuple[object, ...]] = []
    for pair, title in NAME_BY_PAIR.items():
        suffix = pair.replace("-", "_")
        for row, name in names.items():
            costs = [c for c in printed if c.row == row and f"flops_{suffix}" in c.covered_columns]
            for cell in (
                c for c in printed if (c.row, c.column) == (row, f"bleu_{suffix}") and costs
            ):
                label = row if row in ("base", "big") else name
                label += {"neurips2017": " (NeurIPS)", "arxiv": " (arXiv)"}.get(cell.edition, "")
                flops = printed_number(costs[0].value)
                lines.append(
                    (
                        f"{title}, printed",
                        label,
                        PRINTED_NAME,
                        float(cell.value),
                        None,
                        None,
                        flops,
                        BY_FOOTNOTE,
                        None,
                    )
                )
    ours = {
        (cell.key.language_pair, cell.key.system): cell
        for cell in cells.judged
        if cell.table == "2"
    }
    for judged in ours.values():
        lines += _cost_of_ours(cells, judged)
    return pd.DataFrame(lines, columns=list(COST_COLUMNS)).astype({"num_seeds": "Int64"})


def _cost_of_ours(cells: Frame, cell: PrintedCell) -> list[tuple[object, ...]]:
    if cell.number is None or not cell.number.values:
        return []
    values = [value for _, value in cell.number.values]
    measured, counted = (
        [value for _, value in cells.numbers[cell.key, metric].values]
        for metric in ("training_flops", "model_flops")
    )
    title = NAME_BY_PAIR[cell.key.language_pair]
    panel, costs, kind = f"{title}, ours at scale {cells.scale} (another axis)", counted, BY_FORMULA
    if measured and cells.scale == PAPER_SCALE:
        panel, costs, kind = f"{title}, printed", measured, BY_FOOTNOTE
    if not costs:
        return []
    summary = summarise_seeds(values)
    ends = (min(values), max(values)) if len(values) > 1 else (None, None)
    label = f"{cell.key.system} (ours)"
    return [
        (
            panel,
            label,
            OURS_NAME,
            summary.mean,
            *ends,
            math.fsum(costs) / len(costs),
            kind,
            summary.num_seeds,
        )
    ]


def draw_cost(frame: pd.DataFrame) -> alt.TopLevelMixin:
    """Return a panel for each language pair, cost on a log axis; panels of ours have axes of their
    own.
    """
    charts = []
    for panel, part in frame.groupby("panel", sort=False):
        is_printed = bool((part["source"] == PRINTED_NAME).any())
        low, high = float(part["flops"].min()) / 1.6, float(part["flops"].max()) * 1.6
        decades = range(math.ceil(math.log10(low)), math.floor(math.log10(high)) + 1)
        height = 170 if len(part) > 3 else 70
        bleu_range = float(part["bleu"].max()) - float(part["bleu"].min())
        placed = _place_labels(part, LINE_PIXELS * max(bleu_range, 0.1) / (height - 24))
        kind = "footnote 5" if is_printed else "model FLOPs by formula"
        x = alt.X(
            "flops:Q",
            scale=alt.Scale(type="log", domain=[low, high], nice=False),
            axis=alt.Axis(
                title=f"training cost (FLOPs, {kind}; log axis)",
                grid=False,
                labelOverlap=True,
                values=[10.0**power for power in decades],
                labelExpr="replace(format(datum.value, '.0e'), '+', '')",
            ),
        )
        y = alt.Y(
            "bleu:Q",
            scale=alt.Scale(zero=False, nice=False, padding=12),
            axis=alt.Axis(title="BLEU", tickCount=5),
        )
        colour = alt.Color("source:N", scale=BOTH, legend=None)
        shape = alt.Shape("source:N", scale=SHAPES, legend=None)
        tooltip = [
            "label:N",
            "source:N",
            "bleu:Q",
            alt.Tooltip("flops:Q", format=".2e"),
            "flops_of:N",
            "num_seeds:Q",
        ]
        base = alt.Chart(placed)
        layers = [
            base.mark_point(filled=True, opacity=1).encode(x, y, colour, shape, tooltip=tooltip)
        ]
        if part["low"].notna().any():
            layers.insert(0, base.mark_rule(color=OURS).encode(x, alt.Y("low:Q"), alt.Y2("high:Q")))
        for is_bold, (align, dx) in itertools.product((True, False), SHIFT_BY_ALIGN.items()):
            labelled = placed[(placed["align"] == align) & (placed["is_transformer"] == is_bold)]
            text = alt.Chart(labelled).mark_text(
                align=align, dx=dx, baseline="middle", fontWeight=600 if is_bold else 400
            )
            if not labelled.empty:
                layers.append(text.encode(x, alt.Y("label_bleu:Q"), text="label:N"))
        title = alt.TitleParams(str(panel), frame="group", fontSize=11)
        charts.append(alt.layer(*layers).properties(width=WIDTH, height=height, title=title))
    stacked: alt.VConcatChart = alt.vconcat(*charts, spacing=14).resolve_scale(
        x="independent", y="independent"
    )
    return stacked


def _place_labels(part: pd.DataFrame, bleu_of_a_line: float) -> pd.DataFrame:
    """Return a panel's systems, the highest BLEU first, with the side and the height of each
    label.
    """
    ordered = part.sort_values("bleu", ascending=False, kind="stable")
    places = [
        LABEL_PLACES.get((panel.split(",")[0], label), RIGHT_OF_THE_DOT)
        for panel, label in zip(ordered["panel"], ordered["label"], strict=True)
    ]
    return ordered.assign(
        label_bleu=ordered["bleu"] + [bleu_of_a_line * line for _, line in places],
        align=[align for align, _ in places],
        is_transformer=ordered["label"].str.startswith(("base", "big")),
    )


def describe_cost(frame: pd.DataFrame) -> str:
    """Return the best BLEU of each panel and what it cost."""
    panels = [
        (panel, part, part.sort_values("bleu").iloc[-1])
        for panel, part in frame.groupby("panel", sort=False)
    ]
    words = [
        f"{panel}: {len(part)} systems, best {best['label']} with {best['bleu']:.2f} BLEU at"
        f" {best['flops']:.1e} FLOPs."
        for panel, part, best in panels
    ]
    return " ".join(["BLEU against training cost on a log axis.", *words])


# ---- verdicts
# -----------------------------------------------------------------------------------------------------  # noqa: E501

VERDICT_COLUMNS = (
    "label",
    "printed",
    "mean",
    "difference",
    "low",
    "high",
    "num_seeds",
    "outcome",
    "reason",
)
OUTCOME_COLOURS = {"REPRODUCED": PALETTE[2], "UNDECIDED": PALETTE[4], "NOT REPRODUCED": WARNING}


def strip_frame(judged: Sequence[PrintedCell], scale: str) -> pd.DataFrame:
    """Return the judged cells that a difference was taken of, in order of print.

    Raises:
        FigureError: if there is none, as at every scale but the paper's unless a replication is
        run.
    """
    lines = [
        (
            _judged_label(cell),
            float(cell.printed),
            cell.verdict.mean,
            cell.verdict.difference,
            *(cell.verdict.interval or (None, None)),
            cell.verdict.num_seeds,
            cell.verdict.outcome.value,
            cell.verdict.reason,
        )
        for cell in judged
        if cell.verdict.difference is not None
    ]
    if not lines:
        raise FigureError(
            f"Verdicts: no printed value was measured under its own conditions at scale {scale}, so"
            " there is none to judge."
        )
    return pd.DataFrame(lines, columns=list(VERDICT_COLUMNS))


def _judged_label(cell: PrintedCell) -> str:
    edition = {"neurips2017": ", NeurIPS", "arxiv": ", arXiv"}.get(cell.edition, "")
    where = f"Table {cell.table}" if cell.table.isdigit() else "published"
    pair = NAME_BY_PAIR[cell.key.language_pair] if cell.number else ""
    return f"{where} {cell.row.removeprefix('table3_')} {pair}{edition}".strip()


def draw_strip(frame: pd.DataFrame) -> alt.TopLevelMixin:
    """Return one line a printed value: ours minus printed with its interval, over the margin around
    the printed.
    """
    ends = pd.concat([frame["difference"], frame["low"], frame["high"]]).dropna().abs()
    edge = max(float(ends.max()), 2 * MARGIN_BLEU) * 1.1
    scale = alt.Scale(domain=[-edge, edge], nice=False)
    axis = alt.Axis(title="ours minus printed (BLEU)", tickCount=7, labelExpr=SIGNED)
    x = alt.X("difference:Q", scale=scale, axis=axis)
    y = alt.Y(
        "label:N", sort=list(frame["label"]), title=None, axis=axis_of_names(LABEL_WIDTH + 25)
    )
    outcomes = [name for name in OUTCOME_COLOURS if (frame["outcome"] == name).any()]
    legend = alt.Legend(title=None, columns=3, symbolType="circle")
    palette = alt.Scale(domain=outcomes, range=[OUTCOME_COLOURS[name] for name in outcomes])
    colour = alt.Color("outcome:N", scale=palette, legend=legend)
    band = alt.Chart(pd.DataFrame({"difference": [-MARGIN_BLEU], "to": [MARGIN_BLEU]}))
    margin = band.mark_rect(color=INK, opacity=0.1, aria=False).encode(x, alt.X2("to:Q"))
    zero = (
        alt.Chart(pd.DataFrame({"difference": [0.0]}))
        .mark_rule(opacity=FAINT, aria=False)
        .encode(x)
    )
    tooltip = [
        "label:N",
        "printed:Q",
        "mean:Q",
        alt.Tooltip("difference:Q", format="+.2f"),
        "num_seeds:Q",
        "outcome:N",
        "reason:N",
    ]
    layers = [margin, zero]
    with_ends = frame.dropna(subset=["low"])
    if not with_ends.empty:
        layers.append(
            alt.Chart(with_ends)
            .mark_rule(strokeWidth=2.4)
            .encode(alt.X("low:Q"), y, colour, alt.X2("high:Q"))
        )
    layers.append(
        alt.Chart(frame)
        .mark_point(filled=True, opacity=1, size=62)
        .encode(x, y, colour, tooltip=tooltip)
    )
    return alt.layer(*layers).properties(width=WIDTH - LABEL_WIDTH, height=alt.Step(ROW_HEIGHT + 4))


def describe_strip(frame: pd.DataFrame) -> str:
    """Return each verdict with its estimate."""
    words = [
        f"{line['label']}: printed {line['printed']:g}, ours {line['difference']:+.2f},"
        f" {line['outcome']}."
        for line in frame.to_dict("records")
    ]
    return " ".join(
        [f"Verdicts on {len(frame)} printed values, margin {MARGIN_BLEU} BLEU.", *words]
    )


BLEU_COST = Figure(
    name="bleu_cost",
    title="BLEU against training cost",
    caption=(
        "Table 2 in one look: up and to the left is better. Diamonds are printed; Transformers are"
        " bold. Ours are dots, with the range of their seeds; of another scale, or without a GPU,"
        " they are in panels of their own and their cost is counted by formula, not estimated from"
        " time."
    ),
    draw=draw_cost,
    describe=describe_cost,
)
VERDICT_STRIP = Figure(
    name="verdict_strip",
    title="Verdicts",
    caption=(
        "Ours minus printed with the 95 % interval. The grey band is the margin of"
        f" {MARGIN_BLEU} BLEU around the printed value: an equivalent mean lies within it, a value"
        " that is not reproduced has its whole interval outside."
    ),
    draw=draw_strip,
    describe=describe_strip,
)
