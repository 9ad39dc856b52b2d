"""Draws the curves of dev perplexity of all systems in one figure. Each group of systems has a
panel, and each curve has the name of its system at its end.
"""

import itertools
import math
import re
from collections.abc import Sequence

import altair as alt
import pandas as pd

from analysis.figures.curves import PERPLEXITY
from analysis.figures.heavy_curves import PANELS, means_over_seeds
from paper_tables.render.figure import (
    INK,
    PALETTE,
    Figure,
    FigureError,
    round_ticks,
)

# This system is in every panel, so that the groups can be compared.
REFERENCE = "base"
PLOT_WIDTH, PANEL_HEIGHT, LINE_HEIGHT = 265, 150, 12  # pixels
# Room on the right, so that names in a wider font are not cut.
PADDING = {"left": 4, "top": 4, "right": 40, "bottom": 4}
# Each system of a panel, except the reference, has a colour of the palette.
MAX_IN_PANEL = len(PALETTE)
# A curve that ends above this ratio to the median end does not set the axis.
OUTLIER_RATIO = 2.0
# The ratio of the top of the axis to the highest end of the other curves.
ROOM_ABOVE = 1.6
# The name of a system of Table 3: `table3_c_dmodel1024` has the letter c and the label dmodel1024.
_ROW = re.compile(r"table3_([a-e])_(.+)")
GROUP_BY_LETTER = {
    "a": "Table 3 (A): heads",
    "b": "Table 3 (B): d_k",
    "c": "Table 3 (C): size",
    "d": "Table 3 (D): dropout and smoothing",
    "e": "Table 3 (E): positions",
}
OTHERS = "Other systems"


def draw_groups(frame: pd.DataFrame) -> alt.TopLevelMixin:
    """Draw dev perplexity against updates in a panel for each group of systems, or the training
    loss if the logs have no validations.

    Raises:
        FigureError: if all values of the curves are nan or inf.
    """
    # The axis is logarithmic, so a value must be above 0.
    finite = frame[frame["value"].map(math.isfinite) & (frame["value"] > 0)]
    shown = [panel for panel in PANELS[:2] if (finite["measure"] == panel.measure).any()]
    if not shown:
        raise FigureError("Curves: the logs have no finite loss or perplexity yet.")
    # PANELS has the loss first and then the perplexity, which is preferred.
    panel = shown[-1]
    means = means_over_seeds(finite[finite["measure"] == panel.measure])
    # A name is `base` or, on several corpora, `base, en-de`.
    means["series"] = without_common_corpus(means["series"])
    ends = means.groupby("series", sort=False).tail(1).set_index("series")["value"]
    # All panels have the same axis, so that heights can be compared between them.
    domain = axis_domain(means["value"].min(), ends)
    groups = group_series(list(ends.index))
    charts = []
    for title, names in groups:
        part = means[means["series"].isin(names)]
        labels = place_labels(ends[names], domain)
        charts.append(_draw_panel(title, names, part, labels, domain))
    stacked = alt.vconcat(*charts, spacing=14, title=panel.title, padding=PADDING)
    # Each panel uses the palette from its beginning, although its series differ.
    chart: alt.VConcatChart = stacked.resolve_scale(color="independent")
    return chart


def without_common_corpus(series: pd.Series) -> pd.Series:
    """Return the names of series without `, corpus` at their end, if all series are on the same
    corpus.
    """
    corpora = set(series.str.rpartition(", ")[2])
    return series.str.removesuffix(f", {corpora.pop()}") if len(corpora) == 1 else series


def axis_domain(lowest: float, ends: pd.Series) -> tuple[float, float]:
    """Return the limits of the logarithmic axis of perplexity. A curve that ends far above the
    others leaves the picture, and its label says so.
    """
    # One system that fails would squeeze all others into the bottom of the panel.
    usual = ends[ends <= OUTLIER_RATIO * ends.median()]
    return 0.95 * lowest, ROOM_ABOVE * float(usual.max())


def group_series(names: Sequence[str]) -> list[tuple[str, list[str]]]:
    """Return the title and the series of each panel. The rows of Table 3 are grouped by their
    letter. All other systems come last.

    The reference system is the first series of each panel. A group of many systems is divided into
    several panels.
    """
    # The name of a series may continue with its corpus: `base, en-de`.
    references = [name for name in names if name.split(",")[0] == REFERENCE][:1]
    members_by_title: dict[str, list[str]] = {}
    for name in names:
        # On a second corpus, base is a curve like all others.
        if name not in references:
            row = _ROW.match(name)
            title = GROUP_BY_LETTER[row[1]] if row else OTHERS
            members_by_title.setdefault(title, []).append(name)
    if not members_by_title:
        return [(OTHERS, references)]
    panels = []
    for title in (*GROUP_BY_LETTER.values(), OTHERS):
        members = members_by_title.get(title, [])
        num_panels = math.ceil(len(members) / MAX_IN_PANEL)
        # Twelve systems become two panels of six, and eight become two of four.
        size = math.ceil(len(members) / max(num_panels, 1))
        for index in range(num_panels):
            suffix = ", continued" if index else ""
            part = members[index * size : (index + 1) * size]
            panels.append((title + suffix, references + part))
    return panels


def place_labels(ends: pd.Series, domain: tuple[float, float]) -> pd.DataFrame:
    """Return the labels at the ends of the curves with their positions, as columns series, text,
    pixel and position. Two labels are at least LINE_HEIGHT pixels apart. `position` is a value on
    the axis.

    If a curve ends above the top of the axis, its label contains its last value.
    """
    low, high = domain
    ratio = math.log(high / low)
    names, texts, pixels = [], [], []
    for name, value in ends.sort_values(ascending=False).items():
        names.append(str(name))
        text = _ROW.sub(r"\2", str(name))
        if value > high:
            text += f": {value:.3g}, above"
        texts.append(text)
        # Pixels count downwards from the top of the panel, on a logarithmic axis.
        pixels.append(PANEL_HEIGHT * (1 - math.log(min(value, high) / low) / ratio))
    # The first pass moves a label down if it is too near to the label above. This may push the last
    # labels out of the panel, so the second pass moves labels up again.
    for above, below in itertools.pairwise(range(len(pixels))):
        pixels[below] = max(pixels[below], pixels[above] + LINE_HEIGHT)
    lowest_allowed = float(PANEL_HEIGHT)
    for index in reversed(range(len(pixels))):
        pixels[index] = min(pixels[index], lowest_allowed)
        lowest_allowed = pixels[index] - LINE_HEIGHT
    positions = [low * (high / low) ** (1 - pixel / PANEL_HEIGHT) for pixel in pixels]
    return pd.DataFrame({"series": names, "text": texts, "pixel": pixels, "position": positions})


def _draw_panel(
    title: str,
    names: list[str],
    means: pd.DataFrame,
    labels: pd.DataFrame,
    domain: tuple[float, float],
) -> alt.LayerChart | alt.FacetChart:
    last_update = float(means["update"].max())
    # The reference is the first series of the panel. It has the colour of the text, so that it is
    # the same in each panel.
    references = [name for name in names[:1] if name.split(",")[0] == REFERENCE]
    others = [name for name in names if name not in references]
    colours = [*[INK] * len(references), *PALETTE[: len(others)]]
    scale = alt.Scale(domain=[*references, *others], range=colours)
    colour = alt.Color("series:N", scale=scale, legend=None)
    x = alt.X(
        "update:Q",
        scale=alt.Scale(domain=[0, last_update], nice=False),
        axis=alt.Axis(title="Update", tickCount=5, grid=False, format="~s", labelFlush=True),
    )
    y_scale = alt.Scale(type="log", nice=False, domain=list(domain))
    axis = alt.Axis(title=None, values=round_ticks(*domain), format="~g")
    tooltip = ["series:N", "update:Q", alt.Tooltip("value:Q", format=".4g"), "seeds:Q"]
    band = alt.Chart(means[means["seeds"] > 1]).mark_area(opacity=0.18, clip=True, aria=False)
    line = alt.Chart(means).mark_line(clip=True)
    # Dotted leaders join the end of a curve with its label, which may have been moved.
    last = means.groupby("series", sort=False).tail(1)[["series", "update", "value"]]
    name_ends = labels.rename(columns={"position": "value"}).assign(update=last_update)
    leaders = alt.Chart(pd.concat([last, name_ends[["series", "update", "value"]]]))
    leader = leaders.mark_line(clip=True, strokeDash=[1, 3], strokeWidth=1, aria=False)
    text = alt.Chart(labels).mark_text(align="left", dx=5)
    layers = [
        band.encode(x, alt.Y("low:Q", scale=y_scale, axis=axis), alt.Y2("high:Q"), colour),
        line.encode(x, alt.Y("value:Q", scale=y_scale, axis=axis), colour, tooltip=tooltip),
        leader.encode(x, alt.Y("value:Q", scale=y_scale, axis=axis), colour),
        text.encode(
            x=alt.value(PLOT_WIDTH),
            y=alt.Y("position:Q", scale=y_scale, axis=axis),
            text="text:N",
            color=colour,
        ),
    ]
    heading = alt.TitleParams(title, fontSize=11, fontWeight="normal", offset=4, frame="group")
    return alt.layer(*layers).properties(width=PLOT_WIDTH, height=PANEL_HEIGHT, title=heading)


def describe_groups(frame: pd.DataFrame) -> str:
    """Return a text that describes the figure: the numbers of runs and systems, and the lowest and
    highest of the last perplexities.
    """
    words = [f"Curves of {frame['run'].nunique()} runs of {frame['series'].nunique()} systems."]
    dev = frame[(frame["measure"] == PERPLEXITY) & frame["value"].map(math.isfinite)]
    if dev.empty:
        return words[0] + " No dev perplexity was printed: the training loss is drawn."
    ends = means_over_seeds(dev).groupby("series", sort=False).tail(1).set_index("series")["value"]
    words.append(
        f"The last dev perplexity is between {ends.min():.3g} ({ends.idxmin()}) and"
        f" {ends.max():.3g} ({ends.idxmax()})."
    )
    return " ".join(words)


CURVES = Figure(
    name="curves",
    title="Curves of all systems",
    caption=(
        "Dev perplexity per subword against updates, on one logarithmic axis, with base in each"
        " panel. Lines are means over seeds, bands reach from the lowest to the highest seed. A"
        " curve that ends far above the others leaves the axis, and its name has its last value."
        " `aiayn plot RUN` draws loss, learning rate and speed of single runs."
    ),
    draw=draw_groups,
    describe=describe_groups,
)
