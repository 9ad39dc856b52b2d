"""Reads what a figure draws from its SVG: Vega labels each mark with its values."""

import html
import re

import pandas as pd

from paper_tables.render.figure import Figure, render_svg, specification

LABEL = re.compile(r'<(?:path|text|line)[^>]*? aria-label="([^"]*)"')
MINUS = "\u2212"


def svg_of(figure: Figure, frame: pd.DataFrame) -> str:
    return render_svg(specification(figure.chart(frame)))


def labels_of(svg: str) -> list[str]:
    """Return the label of each mark of a drawing, in plain ASCII minus signs."""
    return [html.unescape(label).replace(MINUS, "-") for label in LABEL.findall(svg)]


def drawn(figure: Figure, frame: pd.DataFrame) -> list[str]:
    return labels_of(svg_of(figure, frame))
