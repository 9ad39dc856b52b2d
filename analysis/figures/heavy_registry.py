"""Lists the figures of a results page, each with a function that makes its data frame."""

import functools
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import pandas as pd

from analysis.figures import heavy_attention as attention
from analysis.figures import heavy_curves as curves
from analysis.figures.heavy_grouped_curves import CURVES
from paper_tables.frame import Frame
from paper_tables.render.figure import Drawable, FigureError

NO_ATTENTION = (
    "Attention: nothing is written yet; `aiayn attention RUN` takes the weights from a trained"
    " model."
)


def figures_of_scale(
    cells: Frame, log_path_by_run: Mapping[str, Path] | None, attention_folder: Path | None
) -> Iterator[Drawable]:
    """Yield every figure of a scale with the function that makes its data frame. The figures of
    attention come last. Their data are the files in `attention_folder`.

    If `log_path_by_run` is None, the logs are in the runs folder of the scale's config.
    """
    runs = curves.curves_of_scale(cells, log_path_by_run)
    yield CURVES, lambda: curves.curve_frame(runs)
    # `aiayn attention` writes <folder>/<run>/<kind>_layer<n>.tsv.
    paths = sorted(attention_folder.glob("*/*.tsv")) if attention_folder else []
    for path in paths:
        # A page needs unique names, so each figure gets the run and the layer.
        for figure in (attention.ATTENTION_LINES, attention.ATTENTION_HEADS):
            named = replace(figure, name=f"{figure.name}_{path.parent.name}_{path.stem}")
            yield named, functools.partial(attention.read_attention, path)
    if not paths:
        # The page then says which command makes the picture.
        yield attention.ATTENTION_LINES, _no_attention


def _no_attention() -> pd.DataFrame:
    raise FigureError(NO_ATTENTION)
