"""Draws the paper's own figures that need no trained model: Figures 1 and 2 of a run's spec, positions, learning rates.

All of it is arithmetic on a TrainingSpec: sections 3.1 to 3.5 and 5.3.
"""

import itertools
from collections.abc import Mapping, Sequence

import altair as alt
import numpy as np
import pandas as pd

from aiayn.schedule import learning_rate
from aiayn.spec.system import TrainingSpec
from paper_tables.figures.figure import FAINT, INK, PALETTE, WIDTH, Figure, FigureError

# ---- Figures 1 and 2: the architecture ----------------------------------------------------------------------------

BOX_COLUMNS = ("kind", "text", "detail", "left", "right", "bottom", "top", "fill")
FILL_BY_PART = {"attention": PALETTE[4], "feed_forward": PALETTE[5], "norm": PALETTE[2], "embedding": PALETTE[3],
                "output": PALETTE[0], "frame": INK, "plain": "transparent"}  # fmt: skip
FILL_OPACITY = 0.28
BLOCK_WIDTH, BLOCK_HEIGHT, BLOCKS_BOTTOM = 150, 70, 98.0  # of a sub-layer in Figure 1
NORM_NAME = {"layer": "LayerNorm", "layer_std": "LayerNorm (std)", "batch": "BatchNorm"}
POSITION_NAME = {"sinusoidal": "sinusoids", "sinusoidal_halves": "sinusoids, in halves", "learned": "learned positions"}
SCORE_TEXT = {
    "scaled": ("Scale", "1 / \u221a{d_k} = {factor:.3g}"),
    "unscaled": ("No scale", "q \u00b7 k as it is"),
    "sqrt_d_model": ("Scale", "1 / \u221a{d_model} = {factor:.3g}"),
    "temperature": ("Divide by a learned number", "begun at \u221ad_k"),
}


def architecture_frame(training: TrainingSpec, vocabulary_size: int | None = None) -> pd.DataFrame:
    """Return the boxes, lines and words of Figure 1 with the numbers of a spec; lengths are in pixels, upwards.

    Raises:
        FigureError: if the architecture is no Transformer, or its order of normalisation is not drawn.
    """
    _require_transformer(training, "Figure 1")
    drawing = _Drawing()
    if training.norm_order not in ("post", "pre"):
        raise FigureError(f"Figure 1: norm_order: {training.norm_order} is not drawn; expected post or pre.")
    is_pre = training.norm_order == "pre"
    heads = f"h = {training.num_heads}, d_k = {training.d_k}, d_v = {training.d_v}"
    parts = {
        "self": ("attention", "Multi-head attention", heads),
        "masked": ("attention", "Masked multi-head attention", heads),
        "cross": ("attention", "Multi-head attention", heads),
        "ffn": ("feed_forward", "Feed-forward", f"{training.d_model} \u2192 {training.d_ff} \u2192 {training.d_model}"),
    }
    shared = ", shared" if training.tied_embeddings else ""
    norm = NORM_NAME[training.norm]
    tops = {}
    for side, left, names in (("encoder", 44, ("self", "ffn")), ("decoder", 226, ("masked", "cross", "ffn"))):
        right = left + BLOCK_WIDTH
        drawing.text("Inputs" if side == "encoder" else "Outputs (shifted right)", left, right, 10)
        drawing.line(left, right, 17, 28)
        word = "Input embedding" if side == "encoder" else "Output embedding"
        drawing.box("embedding", word, f"d_model = {training.d_model}{shared}", left, right, 28, 58)
        drawing.line(left, right, 58, 66, arrow=False)
        drawing.text(f"+ {POSITION_NAME[training.positions]}, dropout {training.p_drop:g}", left, right, 73)
        drawing.line(left, right, 80, BLOCKS_BOTTOM)
        height = BLOCKS_BOTTOM
        for name in names:
            begin = height
            if is_pre:
                drawing.box("norm", norm, "", left, right, height, height + 18)
                drawing.line(left, right, height + 18, height + 22, arrow=False)
                height += 22
            drawing.box(*parts[name], left, right, height, height + 34)
            drawing.line(left, right, height + 34, height + 38, arrow=False)
            drawing.box("norm", "Add" if is_pre else f"Add & {norm}", "", left, right, height + 38, height + 56)
            middle, outside = (left + right) / 2, left - 7  # the residual connection
            drawing.path([(middle, begin - 6), (outside, begin - 6), (outside, height + 47), (left, height + 47)])
            height += BLOCK_HEIGHT
            drawing.line(left, right, height - 12, height, arrow=name != "ffn" or side == "decoder" or is_pre)
        frame_top = height - 7
        drawing.box("frame", "", "", left - 13, right + 9, BLOCKS_BOTTOM - 10, frame_top)
        beside = (left - 42, left - 15) if side == "encoder" else (right + 11, right + 38)
        drawing.text(f"{training.num_layers} \u00d7", *beside, (BLOCKS_BOTTOM + frame_top) / 2)
        if is_pre:
            drawing.box("norm", norm, "", left, right, height, height + 18)
            drawing.line(left, right, height + 18, height + 28)
            height += 28
        tops[side] = (left, right, height)
    left, right, height = tops["decoder"]
    size = f"{training.d_model} \u2192 {f'{vocabulary_size:,}' if vocabulary_size else 'vocabulary'}{shared}"
    drawing.box("output", "Linear", size, left, right, height, height + 30)
    drawing.line(left, right, height + 30, height + 38)
    drawing.box("output", "Softmax", "", left, right, height + 38, height + 56)
    drawing.line(left, right, height + 56, height + 64)
    drawing.text("Output probabilities", left, right, height + 71)
    _join_sides(drawing, tops, is_pre=is_pre)
    return drawing.frame()


def _join_sides(drawing: "_Drawing", tops: Mapping[str, tuple[float, float, float]], *, is_pre: bool) -> None:
    """Draw the encoder's output on its way to the second attention of the decoder."""
    encoder_left, encoder_right, top = tops["encoder"]
    decoder_left = tops["decoder"][0]
    middle = (encoder_left + encoder_right) / 2
    across = encoder_right + 13
    cross = BLOCKS_BOTTOM + BLOCK_HEIGHT + (22 * 2 if is_pre else 0) + 17
    drawing.path([(middle, top - 10), (middle, top + 4), (across, top + 4), (across, cross), (decoder_left, cross)])


def attention_architecture_frame(training: TrainingSpec) -> pd.DataFrame:
    """Return the boxes of Figure 2: scaled dot-product attention, and h of them side by side.

    Raises:
        FigureError: if the architecture is no Transformer.
    """
    _require_transformer(training, "Figure 2")
    drawing = _Drawing()
    left, right = 10, 150
    drawing.text(f"Q, K: n \u00d7 {training.d_k}", left, left + 110, 8)
    drawing.text(f"V: n \u00d7 {training.d_v}", right - 6, right + 50, 8)
    steps = [("attention", "Mask (decoder)", "\u2212\u221e for later tokens"), ("output", "Softmax", "over the keys")]
    if training.attention == "additive":
        steps = [("norm", "v \u00b7 tanh(q + k)", f"v: {training.d_k} numbers a head"), *steps]
    else:
        root = training.d_k if training.attention == "scaled" else training.d_model
        name, detail = SCORE_TEXT[training.attention]
        detail = detail.format(d_k=training.d_k, d_model=training.d_model, factor=root**-0.5)
        steps = [("embedding", "MatMul", "Q by K transposed"), ("norm", name, detail), *steps]
    height = 24.0
    for kind, text, detail in steps:
        drawing.line(left, left + 110, height - 8, height)
        drawing.box(kind, text, detail, left, left + 110, height, height + 30)
        height += 40
    drawing.line(left, left + 110, height - 10, height)
    drawing.line(right + 4, right + 40, 16, height, arrow=False)
    drawing.path([(right + 22, height - 1), (right + 22, height + 15), (right, height + 15)])
    drawing.box("embedding", "MatMul", "weights \u00d7 V", left, right, height, height + 30)
    drawing.text("Attention, equation (1)", left, right, height + 42)
    _multi_head(drawing, training, 218, 398)
    return drawing.frame()


def _multi_head(drawing: "_Drawing", training: TrainingSpec, left: float, right: float) -> None:
    third = (right - left) / 3
    for index, (name, width) in enumerate((("Q", training.d_k), ("K", training.d_k), ("V", training.d_v))):
        start, end = left + index * third, left + (index + 1) * third - 16
        drawing.text(name, start, end, 8)
        drawing.line(start, end, 15, 24)
        drawing.box("norm", "Linear", f"{training.d_model} \u2192 {width}", start, end, 24, 54)
        drawing.cards(start, end, 24, 54)
        drawing.line(start, end, 54, 80)
    end = right - 16
    drawing.box("attention", "Attention", f"{training.num_heads} heads side by side", left, end, 80, 110)
    drawing.cards(left, end, 80, 110)
    joined = training.num_heads * training.d_v
    drawing.line(left, end, 110, 132)
    drawing.box("embedding", "Concat", f"{training.num_heads} \u00d7 {training.d_v} = {joined}", left, end, 132, 162)
    drawing.line(left, end, 162, 172)
    drawing.box("output", "Linear", f"{joined} \u2192 {training.d_model}", left, end, 172, 202)
    drawing.text("Multi-head attention, section 3.2.2", left, end, 214)


def _require_transformer(training: TrainingSpec, figure: str) -> None:
    if training.architecture not in ("transformer", "fairseq_transformer"):
        raise FigureError(f"{figure}: {training.architecture} has no multi-head attention, so the figure is not of it.")


class _Drawing:
    """Boxes, words and lines, collected into a frame; y grows upwards."""

    def __init__(self) -> None:
        self._rows: list[tuple[object, ...]] = []

    def box(self, part: str, text: str, detail: str, left: float, right: float, bottom: float, top: float) -> None:
        """Add a box with a name and, below it, its numbers."""
        self._rows.append(("box", text, detail, left, right, bottom, top, FILL_BY_PART[part]))

    def text(self, text: str, left: float, right: float, height: float) -> None:
        """Add words in the middle of a span."""
        self._rows.append(("text", text, "", left, right, height, height, ""))

    def line(self, left: float, right: float, bottom: float, top: float, *, arrow: bool = True) -> None:
        """Add a line upwards in the middle of a span."""
        middle = (left + right) / 2
        self._rows.append(("arrow" if arrow else "line", "", "", middle, middle, bottom, top, ""))

    def cards(self, left: float, right: float, bottom: float, top: float) -> None:
        """Add the edges of two more boxes behind one: h of them."""
        for shift in (4, 8):
            corners = [(left + shift, top + shift - 4), (left + shift, top + shift), (right + shift, top + shift),
                       (right + shift, bottom + shift), (right + shift - 4, bottom + shift)]  # fmt: skip
            for (x, y), (next_x, next_y) in itertools.pairwise(corners):
                self._rows.append(("line", "", "", x, next_x, y, next_y, ""))

    def path(self, corners: Sequence[tuple[float, float]]) -> None:
        """Add a line over corners, an arrow at its end."""
        for (x, y), (next_x, next_y) in itertools.pairwise(corners):
            is_last = (next_x, next_y) == corners[-1]
            self._rows.append(("arrow" if is_last else "line", "", "", x, next_x, y, next_y, ""))

    def frame(self) -> pd.DataFrame:
        """Return all of it."""
        return pd.DataFrame(self._rows, columns=list(BOX_COLUMNS))


def draw_boxes(frame: pd.DataFrame) -> alt.TopLevelMixin:
    """Return the drawing, its lengths taken as pixels."""
    width = float(frame[["left", "right"]].max().max()) + 10
    height = float(frame[["bottom", "top"]].max().max()) + 10
    x = alt.Scale(domain=[0, width], nice=False)
    y = alt.Scale(domain=[0, height], nice=False)
    middle = frame.assign(x=(frame["left"] + frame["right"]) / 2, y=(frame["bottom"] + frame["top"]) / 2)

    def place(name: str, channel: type[alt.X] | type[alt.Y]) -> alt.X | alt.Y:
        return channel(name, type="quantitative", scale=x if channel is alt.X else y, axis=None)

    boxes, texts = middle[middle["kind"] == "box"], middle[middle["kind"].isin(["box", "text"])]
    is_frame = boxes["fill"] == INK
    lines, arrows = middle[middle["kind"].isin(["line", "arrow"])], middle[middle["kind"] == "arrow"].copy()
    arrows["angle"] = np.degrees(np.arctan2(arrows["right"] - arrows["left"], arrows["top"] - arrows["bottom"]))
    spans = (place("left", alt.X), alt.X2("right:Q"), place("bottom", alt.Y), alt.Y2("top:Q"))
    layers = [alt.Chart(lines).mark_rule(opacity=0.7, aria=False).encode(*spans)]
    head = alt.Chart(arrows).mark_point(shape="triangle", filled=True, color=INK, size=28, opacity=0.8, aria=False)
    ends = (place("right", alt.X), place("top", alt.Y))
    layers.append(head.encode(*ends, angle=alt.Angle("angle:Q", scale=None)))
    filled = alt.Chart(boxes[~is_frame]).mark_rect(
        cornerRadius=4, stroke=INK, strokeWidth=0.8, fillOpacity=FILL_OPACITY, strokeOpacity=0.6
    )
    layers.append(filled.encode(*spans, fill=alt.Fill("fill:N", scale=None), tooltip=["text:N", "detail:N"]))
    outline = alt.Chart(boxes[is_frame]).mark_rect(cornerRadius=8, filled=False, stroke=INK, strokeDash=[4, 3],
                                                   strokeOpacity=FAINT, aria=False)  # fmt: skip
    layers.append(outline.encode(*spans))
    for has_detail, words in texts[texts["text"] != ""].groupby(texts["detail"] != ""):
        base = alt.Chart(words)
        at = (place("x", alt.X), place("y", alt.Y))
        layers.append(base.mark_text(dy=-6 if has_detail else 0, fontWeight=600).encode(*at, text="text:N"))
        if has_detail:
            layers.append(base.mark_text(dy=7, fontSize=10).encode(*at, text="detail:N"))
    return alt.layer(*layers).properties(width=width, height=height)


def describe_boxes(frame: pd.DataFrame) -> str:
    """Return every named part, from the bottom up."""
    named = frame[(frame["text"] != "") & frame["kind"].isin(["box", "text"])].sort_values(["left", "bottom"])
    words = [
        f"{line['text']} ({line['detail']})" if line["detail"] else line["text"] for line in named.to_dict("records")
    ]
    return "Diagram, bottom to top, left to right: " + "; ".join(words) + "."


# ---- positional encodings -----------------------------------------------------------------------------------------

POSITION_COLUMNS = ("position", "dimension", "function", "value")
SHOWN_POSITIONS = (0, 1, 5, 10, 15)
SHOWN_DIMENSIONS = 64


def encode_positions(positions: Sequence[int], d_model: int) -> np.ndarray:
    """Return PE(pos, 2i) = sin(pos / 10000^(2i / d_model)) and PE(pos, 2i + 1) the cosine: (positions, d_model).

    Section 3.5.
    """
    frequencies = 10000.0 ** (-np.arange(0, d_model, 2) / d_model)
    angles = np.asarray(positions, dtype=np.float64)[:, None] * frequencies
    return np.stack([np.sin(angles), np.cos(angles)], axis=-1).reshape(len(positions), -1)


def position_frame(d_model: int = SHOWN_DIMENSIONS) -> pd.DataFrame:
    """Return the encodings of a few positions, a line a dimension; of a wider model the first SHOWN_DIMENSIONS."""
    values = encode_positions(SHOWN_POSITIONS, d_model)[:, :SHOWN_DIMENSIONS]
    lines = [
        (position, dimension, "cosine" if dimension % 2 else "sine", float(value))
        for position, row in zip(SHOWN_POSITIONS, values, strict=True)
        for dimension, value in enumerate(row)
    ]
    return pd.DataFrame(lines, columns=list(POSITION_COLUMNS))


def draw_positions(frame: pd.DataFrame) -> alt.VConcatChart:
    """Return a panel a position: the value of each dimension, sines and cosines apart by colour and shape."""
    charts = []
    positions = list(dict.fromkeys(frame["position"]))
    scale = alt.Scale(domain=["sine", "cosine"], range=[PALETTE[0], PALETTE[1]])
    shapes = alt.Scale(domain=["sine", "cosine"], range=["circle", "square"])
    for index, position in enumerate(positions):
        is_last = index == len(positions) - 1
        axis = alt.Axis(
            title="dimension j" if is_last else None, labels=is_last, ticks=is_last, grid=False, tickCount=8
        )
        x = alt.X(
            "dimension:Q", axis=axis, scale=alt.Scale(nice=False, domain=[-0.5, float(frame["dimension"].max()) + 0.5])
        )
        y = alt.Y(
            "value:Q", scale=alt.Scale(domain=[-1.1, 1.1], nice=False), axis=alt.Axis(title=None, values=[-1, 0, 1])
        )
        legend = alt.Legend(title=None) if index == 0 else None
        base = alt.Chart(frame[frame["position"] == position])
        line = base.mark_line(color=INK, opacity=0.3, strokeWidth=0.8, aria=False).encode(x, y)
        dots = base.mark_point(filled=True, size=16, opacity=1).encode(
            x, y, alt.Color("function:N", scale=scale, legend=legend),
            alt.Shape("function:N", scale=shapes, legend=legend),
            tooltip=["position:Q", "dimension:Q", alt.Tooltip("value:Q", format=".4f")],
        )  # fmt: skip
        title = alt.TitleParams(f"position i = {position}", frame="group", fontSize=11, fontWeight="normal", offset=3)
        charts.append(alt.layer(line, dots).properties(width=WIDTH, height=62, title=title))
    return alt.vconcat(*charts, spacing=8)


def describe_positions(frame: pd.DataFrame) -> str:
    """Return which positions and dimensions are drawn."""
    positions = ", ".join(str(position) for position in dict.fromkeys(frame["position"]))
    return (
        f"Sinusoidal positional encodings of positions {positions}, dimensions 0 to {frame['dimension'].max()}: even "
        "dimensions are sines, odd ones cosines, and the wavelengths grow from left to right."
    )


# ---- learning-rate schedules --------------------------------------------------------------------------------------

SCHEDULE_COLUMNS = ("panel", "series", "d_model", "warmup_steps", "step", "learning_rate")
PAPER_SCHEDULES = ((512, 4000), (512, 8000), (256, 4000), (1024, 4000))  # base's, others about it, big's
OWN_PANEL, PAPER_PANEL = "As this run's spec has it", "As in the paper (512; 4,000), and others"
NUM_STEPS_DRAWN = 240


def schedule_frame(own: tuple[int, int] | None = None) -> pd.DataFrame:
    """Return equation (3) for pairs of d_model and warm-up steps, up to five warm-ups.

    A run's `own` pair has a panel of its own, unless it is one of the paper's.
    """
    pairs = [(PAPER_PANEL, *pair) for pair in PAPER_SCHEDULES]
    if own is not None and own not in PAPER_SCHEDULES:
        pairs.insert(0, (OWN_PANEL, *own))
    lines = []
    for panel, d_model, warmup_steps in pairs:
        last_step = 5 * max(warmup for other, _, warmup in pairs if other == panel)
        peak = learning_rate(warmup_steps, d_model=d_model, warmup_steps=warmup_steps)
        series = f"d_model {d_model}, warm-up {warmup_steps:,}: peak {peak:.2e}"
        for step in sorted({round(step) for step in np.linspace(1, last_step, NUM_STEPS_DRAWN)} | {warmup_steps}):
            rate = learning_rate(step, d_model=d_model, warmup_steps=warmup_steps)
            lines.append((panel, series, d_model, warmup_steps, step, rate))
    return pd.DataFrame(lines, columns=list(SCHEDULE_COLUMNS))


def draw_schedules(frame: pd.DataFrame) -> alt.VConcatChart:
    """Return the rates against the step, with a dot at each peak; panels have axes of their own."""
    charts: list[alt.LayerChart | alt.FacetChart] = []
    num_drawn = 0
    for panel, part in frame.groupby("panel", sort=False):
        names = list(dict.fromkeys(part["series"]))
        colours = [PALETTE[(num_drawn + index) % len(PALETTE)] for index in range(len(names))]
        num_drawn += len(names)
        legend = alt.Legend(title=None, columns=1, symbolType="stroke", labelLimit=WIDTH)
        colour = alt.Color("series:N", scale=alt.Scale(domain=names, range=colours), legend=legend, sort=names)
        axis = alt.Axis(title="step (optimiser updates)", grid=False, tickCount=6, labelExpr="format(datum.value, ',')")
        x = alt.X("step:Q", scale=alt.Scale(nice=False, domain=[0, int(part["step"].max())]), axis=axis)
        axis = alt.Axis(title="learning rate", tickCount=5, labelExpr="datum.value ? format(datum.value, '.1~e') : '0'")
        y = alt.Y("learning_rate:Q", axis=axis)
        tooltip = ["series:N", "step:Q", alt.Tooltip("learning_rate:Q", format=".3e")]
        lines = alt.Chart(part).mark_line().encode(x, y, colour, tooltip=tooltip)
        peaks = part.loc[part.groupby("series", sort=False)["learning_rate"].idxmax()]
        dots = alt.Chart(peaks).mark_point(filled=True, opacity=1, size=36).encode(x, y, colour, tooltip=tooltip)
        title = alt.TitleParams(str(panel), frame="group", fontSize=11)
        height = 170 if len(names) > 1 else 110
        charts.append(alt.layer(lines, dots).properties(width=WIDTH - 20, height=height, title=title))
    stacked: alt.VConcatChart = alt.vconcat(*charts, spacing=14).resolve_scale(
        x="independent", y="independent", color="independent"
    )
    return stacked


def describe_schedules(frame: pd.DataFrame) -> str:
    """Return each schedule's peak."""
    words = ["Learning rate by equation (3): linear warm-up, then the inverse square root of the step."]
    return " ".join([*words, *(f"{series}." for series in dict.fromkeys(frame["series"]))])


ARCHITECTURE = Figure(
    name="architecture",
    title="Figure 1: the model that was trained",
    caption="The Transformer of section 3.1 with the numbers of the run's own spec.",
    draw=draw_boxes,
    describe=describe_boxes,
)
ATTENTION_ARCHITECTURE = Figure(
    name="attention_architecture",
    title="Figure 2: its attention",
    caption="One head (left) and all heads of a layer (right), with the numbers of the run's own spec.",
    draw=draw_boxes,
    describe=describe_boxes,
)
POSITIONS = Figure(
    name="positions",
    title="Positional encodings",
    caption="Section 3.5's sinusoids at positions 0, 1, 5, 10 and 15: even dimensions are sines, odd ones cosines.",
    draw=draw_positions,
    describe=describe_positions,
)
SCHEDULES = Figure(
    name="schedules",
    title="Learning-rate schedules",
    caption="Equation (3) by d_model and warm-up; a dot marks each peak, at the end of warm-up.",
    draw=draw_schedules,
    describe=describe_schedules,
)
