"""Turns a figure and its data frame into files: the frame as TSV, the chart as SVG and PDF.

Every figure is about 420 px wide, so that it is legible on a phone and in a printed column. The
colours are Okabe and Ito's, which colour-blind readers can distinguish. Where possible, words say
the same as the colours.

The text and the axes of a figure have the colour INK. In a written SVG, this colour is replaced by
`currentColor`, and there is no background, so the figure is dark on a light page and light on a
dark page. A PDF cannot adapt to the page, so its text is dark on white.

To add a figure, write a `Figure` and a function that makes its data frame:

    SECONDS = Figure(
        name="seconds",
        title="Wall seconds",
        caption="How long each training took.",
        draw=lambda frame: alt.Chart(frame).mark_bar().encode(x="seconds:Q", y="run:N"),
        describe=lambda frame: f"Bars of {len(frame)} trainings.",
    )

A wing (optional package) registers the name and place of the figure as a `WingFigure`. The wing's
function for all figures of a scale (`scale_figures` in its `wing.py`) must also return `(SECONDS,
make_frame)`.
"""

import html
import itertools
import math
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import altair as alt
import pandas as pd
import vl_convert

from aiayn.errors import AiaynError
from aiayn.provenance import replace_on_success
from paper_tables.render.drawn import DrawnFigure

INK = "#1d2733"
# Okabe and Ito (2008), without black and yellow, which vanish on a dark and on a light page.
PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
WARNING = PALETTE[1]
# The width of a plot without its axis, in pixels. With the axis it is about 420.
WIDTH = 350
FONT = "Helvetica Neue, Helvetica, Arial, Liberation Sans, sans-serif"
# A file of SVG does not get the style of a page, so it brings its own: INK on a light background or
# on paper, nearly white on a dark background.
ADAPTING_STYLE = (
    "<style>svg.figure{color:#1d2733}"
    "@media (prefers-color-scheme: dark){svg.figure{color:#e8ecf1}}"
    "@media print{svg.figure{color:#1d2733}}</style>"
)

# A number with six or more decimals within a path or an attribute, such as 12.3456789 in
# `M12.3456789,0L...`. The first two decimals are kept: hundredths of a pixel, or of an opacity.
_LONG_FRACTION = re.compile(r"(?<=[ ,\"(A-Za-z-])([0-9]*\.[0-9]{2})[0-9]{4,}(?=[ ,\")A-Za-z-])")


class FigureError(AiaynError):
    """The error that a figure cannot be drawn from the available data. The page shows its message
    in place of the figure.
    """


@dataclass(frozen=True, kw_only=True)
class Figure:
    """A figure: `draw` makes the chart from a data frame, and `describe` makes the text for readers
    who cannot see the chart.

    `title` is the heading of the figure. `caption` describes what is drawn and how to read it.
    """

    name: str
    title: str
    caption: str
    draw: Callable[[pd.DataFrame], alt.TopLevelMixin]
    describe: Callable[[pd.DataFrame], str]

    def chart(self, frame: pd.DataFrame) -> alt.TopLevelMixin:
        """Return the chart of a data frame, with its text for screen readers.

        Raises:
            FigureError: if the data frame is empty, or has no values that can be drawn.
        """
        if frame.empty:
            raise FigureError(f"{self.title}: there is nothing to draw yet.")
        chart = self.draw(frame)
        chart.description = self.describe(frame)  # type: ignore[attr-defined]
        return chart


# A figure, and the function that makes its frame or raises FigureError with the reason why nothing
# can be drawn.
Drawable = tuple[Figure, Callable[[], pd.DataFrame]]


def specification(chart: alt.TopLevelMixin) -> dict[str, Any]:
    """Return a chart as a Vega-Lite specification in the style of all figures. The specification
    contains the whole data frame.
    """
    # By default Altair refuses a frame of more than 5,000 lines.
    with alt.data_transformers.enable("default", max_rows=None):
        # Altair has validated each part when it was made. To validate the whole again is slow.
        values: dict[str, Any] = chart.to_dict(validate=False)
    values["config"] = _style()
    return values


def _style() -> dict[str, Any]:
    text = {"labelColor": INK, "titleColor": INK, "labelFont": FONT, "titleFont": FONT}
    # Vega-Lite's `config` sets the defaults of all charts, so that the figures do not repeat them.
    return {
        "background": None,
        "font": FONT,
        "padding": 4,
        "view": {"stroke": None},
        "title": {
            "color": INK,
            "font": FONT,
            "fontSize": 11.5,
            "fontWeight": 600,
            "anchor": "start",
            "offset": 6,
            "subtitleColor": INK,
            "subtitleFont": FONT,
            "subtitleFontSize": 10.5,
        },
        # Lines and grids are INK with low opacity, because a fixed grey would vanish on a light or
        # a dark page.
        "axis": (
            text
            | {
                "domainColor": INK,
                "domainOpacity": 0.4,
                "tickColor": INK,
                "tickOpacity": 0.4,
                "tickSize": 4,
                "gridColor": INK,
                "gridOpacity": 0.1,
                "labelFontSize": 10.5,
                "titleFontSize": 11,
                "titleFontWeight": "normal",
                "labelLimit": 220,
                "titlePadding": 6,
            }
        ),
        # A legend at the top does not take width from the plot, which a phone lacks.
        "legend": (
            text
            | {
                "orient": "top",
                "direction": "horizontal",
                "labelFontSize": 11,
                "titleFontSize": 11,
                "symbolStrokeWidth": 2.5,
                "columnPadding": 12,
                "labelLimit": 200,
                "offset": 6,
            }
        ),
        "header": text | {"labelFontSize": 11, "labelAnchor": "start", "titleFontSize": 11},
        "text": {"color": INK, "font": FONT, "fontSize": 10.5},
        "rule": {"color": INK},
        "point": {"size": 55, "strokeWidth": 1.8},
        "line": {"strokeWidth": 1.8},
    }


def round_ticks(low: float, high: float) -> list[float]:
    """Return at most 6 round numbers between two positive numbers, as ticks for a logarithmic
    axis.
    """
    # From the power of ten at or below `low` to that at or above `high`. Ticks outside of the range
    # are left out below.
    decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    # The density of the ticks is reduced until at most 6 are left: all of 1 to 9, then 1, 2 and 5,
    # and so on.
    for steps in ((1, 2, 3, 4, 5, 6, 7, 8, 9), (1, 2, 5), (1, 3), (1,)):
        ticks = []
        for decade, step in itertools.product(decades, steps):
            if low <= step * 10.0**decade <= high:
                ticks.append(step * 10.0**decade)
        if len(ticks) <= 6:
            return ticks or [low]
    return ticks[:: math.ceil(len(ticks) / 6)]


def render_svg(values: dict[str, Any]) -> str:
    """Return a Vega-Lite specification as an `svg` element of class `figure`, which can be a
    separate file or a part of a page.
    """
    # vl-convert contains Vega and a JavaScript engine, so neither node nor a browser is needed.
    svg: str = vl_convert.vegalite_to_svg(values)
    # Vega does not write the role and the label that a screen reader needs.
    head, _, rest = svg.partition(">")
    description = html.escape(values.get("description", ""))
    head = head.replace('class="marks"', f'class="figure" role="img" aria-label="{description}"')
    shorter = _LONG_FRACTION.sub(r"\1", rest)
    return head + ">" + ADAPTING_STYLE + shorter.replace(INK, "currentColor")


def _with_own_ids(svg: str, name: str) -> str:
    """Return the SVG with new ids of its clip paths. The new ids contain the figure's name and are
    numbered from 0.

    Vega numbers the clip paths of all charts of a process consecutively. Without this function, the
    same chart would have different bytes from run to run.
    """
    # Ids are `clip0`, `clip1`, ... They are used as `url(#clip0)`.
    number_by_id = {clip: number for number, clip in enumerate(re.findall(r'id="(clip\d+)"', svg))}
    return re.sub(
        r'\b(id="|url\(#)(clip\d+)', lambda use: f"{use[1]}{name}_clip{number_by_id[use[2]]}", svg
    )


def write_figure(
    figure: Figure, frame: pd.DataFrame, folder: Path, *, with_frame: bool = True
) -> list[Path]:
    """Write the data frame of a figure as `<name>.tsv`, and the chart as SVG and PDF. Return the
    paths of the charts.

    With `with_frame=False` the data frame is not written, because the folder has it already. If the
    figure cannot be drawn, nothing is written.

    Raises:
        FigureError: for the same reasons as `Figure.chart`.
    """
    # Everything is drawn before the first file is written, so that an error does not leave half of
    # the files.
    values = specification(figure.chart(frame))
    svg = _with_own_ids(render_svg(values), figure.name).encode()
    pdf = bytes(vl_convert.vegalite_to_pdf(values | {"background": "white"}))
    if with_frame:
        # The TSV has the numbers behind the chart.
        table = frame.to_csv(sep="\t", index=False, lineterminator="\n")
        _write(table.encode(), folder / f"{figure.name}.tsv")
    paths = [folder / f"{figure.name}.{suffix}" for suffix in ("svg", "pdf")]
    _write(svg, paths[0])
    _write(pdf, paths[1])
    return paths


def _write(content: bytes, path: Path) -> None:
    with replace_on_success(path) as partial_path:
        partial_path.write_bytes(content)


def write_figures(figures: Iterable[Drawable], folder: Path) -> list[DrawnFigure]:
    """Write the files of several figures into a folder.

    If a figure cannot be drawn, the result has the reason in place of the SVG, and the figure's
    files of an earlier call are removed.
    """
    drawn = []
    for figure, make in figures:
        reason = svg = ""
        try:
            svg_path, _ = write_figure(figure, make(), folder)
            svg = svg_path.read_text(encoding="utf-8")
        except FigureError as error:
            # A picture of an earlier call would look like a picture of the present data.
            for suffix in ("tsv", "svg", "pdf"):
                (folder / f"{figure.name}.{suffix}").unlink(missing_ok=True)
            reason = str(error)
        drawn.append(
            DrawnFigure(figure.name, figure.title, figure.caption, reason, svg, folder.name)
        )
    return drawn
