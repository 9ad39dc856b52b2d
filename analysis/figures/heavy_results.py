"""Draws our results next to the printed results: BLEU against training cost, and verdicts.

The frames come from the same data as the tables: the frame of a scale, its judged cells, and the
printed values.
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

EDITION_NAMES = {"neurips2017": "NeurIPS", "arxiv": "arXiv"}  # "both" has no name
COST_COLUMNS = ("panel", "label", "source", "bleu", "low", "high", "flops", "flops_of", "num_seeds")
BY_FOOTNOTE = "footnote 5: seconds x GPUs x sustained rate"
BY_FORMULA = "model FLOPs: operations a token x tokens"

Align = Literal["left", "right", "center"]
SHIFT_BY_ALIGN: dict[Align, int] = {"left": 7, "right": -7, "center": 0}
LINE_PIXELS = 11
# A label's side of its dot, and the number of lines above it. The listed printed labels would
# overlap on the right of their dots.
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
    """Return Table 2's systems and ours with BLEU and training cost, a panel for each language
    pair.

    Our systems share the printed systems' panel at the paper's scale if they were trained on a GPU
    whose rate is known, because the cost is then computed as printed. Otherwise they have panels of
    their own, with the cost by `aiayn.cost.model_flops`.
    """
    printed = read_table(2)
    names = {cell.row: cell.value for cell in printed if cell.column == "model"}
    lines: list[tuple[object, ...]] = []
    for pair, title in NAME_BY_PAIR.items():
        suffix = pair.replace("-", "_")
        flops_by_row: dict[str, float] = {}
        for cell in printed:
            if f"flops_{suffix}" in cell.covered_columns:
                flops_by_row.setdefault(cell.row, printed_number(cell.value))
        bleus = [cell for cell in printed if cell.column == f"bleu_{suffix}"]
        for cell in sorted(bleus, key=lambda cell: list(names).index(cell.row)):
            if cell.row not in flops_by_row:
                continue
            label = cell.row if cell.row in ("base", "big") else names[cell.row]
            if cell.edition in EDITION_NAMES:
                label += f" ({EDITION_NAMES[cell.edition]})"
            head = (f"{title}, printed", label, PRINTED_NAME, float(cell.value), None, None)
            lines.append((*head, flops_by_row[cell.row], BY_FOOTNOTE, None))
    ours = {}
    for judged in cells.judged:
        if judged.table == "2":
            ours[judged.key.language_pair, judged.key.system] = judged
    for judged in ours.values():
        lines += _cost_of_ours(cells, judged)
    return pd.DataFrame(lines, columns=list(COST_COLUMNS)).astype({"num_seeds": "Int64"})


def _cost_of_ours(cells: Frame, cell: PrintedCell) -> list[tuple[object, ...]]:
    """Return the line of our system; empty without a BLEU or a cost."""
    if cell.number is None or not cell.number.values:
        return []
    title = NAME_BY_PAIR[cell.key.language_pair]
    panel, kind = f"{title}, ours at scale {cells.scale} (another axis)", BY_FORMULA
    costs = cells.numbers[cell.key, "model_flops"].values
    measured = cells.numbers[cell.key, "training_flops"].values
    if measured and cells.scale == PAPER_SCALE:
        panel, kind, costs = f"{title}, printed", BY_FOOTNOTE, measured
    if not costs:
        return []
    values = cell.number.seed_values
    summary = summarise_seeds(values)
    ends = (min(values), max(values)) if len(values) > 1 else (None, None)
    cost = math.fsum(value for _, value in costs) / len(costs)
    head = (panel, f"{cell.key.system} (ours)", OURS_NAME, summary.mean, *ends)
    return [(*head, cost, kind, summary.num_seeds)]


def draw_cost(frame: pd.DataFrame) -> alt.TopLevelMixin:
    """Return a panel for each language pair, cost on a log axis; our panels have their own axes."""
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
    """Return a panel's systems, the highest BLEU first, with each label's side and height."""
    ordered = part.sort_values("bleu", ascending=False, kind="stable")
    aligns, shifts = [], []
    for panel, label in zip(ordered["panel"], ordered["label"], strict=True):
        align, line = LABEL_PLACES.get((panel.split(",")[0], label), RIGHT_OF_THE_DOT)
        aligns.append(align)
        shifts.append(bleu_of_a_line * line)
    return ordered.assign(
        label_bleu=ordered["bleu"] + shifts,
        align=aligns,
        is_transformer=ordered["label"].str.startswith(("base", "big")),
    )


def describe_cost(frame: pd.DataFrame) -> str:
    """Describe the best BLEU of each panel and its cost."""
    words = ["BLEU against training cost on a log axis."]
    for panel, part in frame.groupby("panel", sort=False):
        best = part.sort_values("bleu").iloc[-1]
        words.append(
            f"{panel}: {len(part)} systems, best {best['label']} with {best['bleu']:.2f} BLEU at"
            f" {best['flops']:.1e} FLOPs."
        )
    return " ".join(words)


# ---- verdicts

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
    """Return the judged cells with a difference, in the order of print.

    Raises:
        FigureError: if no cell has a difference, as at every scale except the paper's, unless a
            replication is run.
    """
    lines = []
    for cell in judged:
        verdict = cell.verdict
        if verdict.difference is not None:
            head = (_judged_label(cell), float(cell.printed), verdict.mean, verdict.difference)
            ends = verdict.interval or (None, None)
            outcome = (verdict.num_seeds, verdict.outcome.value, verdict.reason)
            lines.append((*head, *ends, *outcome))
    if not lines:
        raise FigureError(
            f"Verdicts: no printed value was measured under its own conditions at scale {scale}, so"
            " there is none to judge."
        )
    return pd.DataFrame(lines, columns=list(VERDICT_COLUMNS))


def _judged_label(cell: PrintedCell) -> str:
    edition = f", {EDITION_NAMES[cell.edition]}" if cell.edition in EDITION_NAMES else ""
    where = f"Table {cell.table}" if cell.table.isdigit() else "published"
    pair = NAME_BY_PAIR[cell.key.language_pair] if cell.number else ""
    return f"{where} {cell.row.removeprefix('table3_')} {pair}{edition}".strip()


def draw_strip(frame: pd.DataFrame) -> alt.TopLevelMixin:
    """Return a line for each printed value: ours minus printed, its interval, and the margin."""
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
    """Describe each verdict with its estimate."""
    words = [f"Verdicts on {len(frame)} printed values, margin {MARGIN_BLEU} BLEU."]
    for line in frame.to_dict("records"):
        words.append(
            f"{line['label']}: printed {line['printed']:g}, ours {line['difference']:+.2f},"
            f" {line['outcome']}."
        )
    return " ".join(words)


BLEU_COST = Figure(
    name="bleu_cost",
    title="BLEU against training cost",
    caption=(
        "Table 2 at a glance: up and to the left is better. Diamonds are printed; Transformers are"
        " bold. Ours are dots, with the range of their seeds; at another scale, or without a GPU,"
        " they are in panels of their own and their cost is computed by formula, not estimated"
        " from time."
    ),
    draw=draw_cost,
    describe=describe_cost,
)
VERDICT_STRIP = Figure(
    name="verdict_strip",
    title="Verdicts",
    caption=(
        "Ours minus printed with the 95 % interval. The grey band is the margin of"
        f" {MARGIN_BLEU} BLEU around the printed value: an equivalent mean is within it; for a"
        " value that is not reproduced, the whole interval is outside."
    ),
    draw=draw_strip,
    describe=describe_strip,
)
