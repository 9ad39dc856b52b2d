"""Lists all figures of a results page in order, makes each one's frame, and writes them into a folder."""

import functools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pandas as pd

from aiayn.provenance import replace_on_success
from analysis.logs.types import LogFile
from paper_tables.compare.lines import AveragedLine
from paper_tables.figures import attention, curves, results
from paper_tables.figures.figure import Figure, FigureError, Format, write_figure
from paper_tables.frame import Frame
from paper_tables.latex import escape_latex
from paper_tables.render.drawn import INDEX_NAME

INDEX_COLUMNS = ("name", "title", "caption", "alternative_text", "reason")
FORMATS: tuple[Format, ...] = ("svg", "pdf")
NO_ATTENTION = "Attention: nothing is written yet; `aiayn attention RUN` takes the weights from a trained model."
# A figure, and what makes its frame; where nothing can be drawn that raises FigureError with the reason.
Drawable = tuple[Figure, Callable[[], pd.DataFrame]]


def figures_of_scale(
    cells: Frame, log_path_by_run: Mapping[str, Path] | None, attention_folder: Path | None
) -> Iterator[Drawable]:
    """Yield every figure of a scale; attention, from the files in its folder if there is one, comes last.

    The logs of its runs are where its config says, unless their paths are given.
    """
    runs = curves.curves_of_scale(cells, log_path_by_run)
    curve_frame = functools.cache(lambda: curves.curve_frame(runs))
    yield results.VERDICT_STRIP, lambda: results.strip_frame(cells.judged, cells.scale)
    yield results.BLEU_COST, lambda: results.cost_frame(cells)
    yield curves.CURVES_BY_UPDATE, curve_frame
    yield curves.CURVES_BY_HOURS, curve_frame
    paths = sorted(attention_folder.glob("*/*.tsv")) if attention_folder else []
    for path in paths:
        for figure in (attention.ATTENTION_LINES, attention.ATTENTION_HEADS):
            named = replace(figure, name=f"{figure.name}_{path.parent.name}_{path.stem}")
            yield named, functools.partial(attention.read_attention, path)
    if not paths:
        yield attention.ATTENTION_LINES, _no_attention


def figures_of_logs(
    root: Path, file_by_path: Mapping[str, LogFile], lines: Sequence[AveragedLine], further: Iterable[Drawable]
) -> Iterator[Drawable]:
    """Yield the curves of logs, and the `further` figures."""
    frame = curves.curve_frame(curves.curves_of_folder(root, file_by_path, lines))
    yield curves.CURVES_BY_UPDATE, lambda: frame
    yield curves.CURVES_BY_HOURS, lambda: frame
    yield from further


def _no_attention() -> pd.DataFrame:
    raise FigureError(NO_ATTENTION)


def write_figures(figures: Iterable[Drawable], folder: Path) -> None:
    r"""Write every figure that there is, and `figures.tsv`: title, caption, alternative text, or why there is none.

    A PDF comes with a `.tex` to be \input. Files of an earlier call for a figure that is now absent are removed.
    """
    lines = []
    for figure, make in figures:
        text = reason = ""
        try:
            frame = make()
            write_figure(figure, frame, folder, FORMATS)
            with replace_on_success(folder / f"{figure.name}.tex") as partial_path:
                partial_path.write_text(render_latex_figure(figure), encoding="utf-8", newline="\n")
            text = figure.describe(frame)
        except FigureError as error:
            for suffix in ("tsv", "tex", *FORMATS):
                (folder / f"{figure.name}.{suffix}").unlink(missing_ok=True)
            reason = str(error)
        lines.append((figure.name, figure.title, figure.caption, text, reason))
    with replace_on_success(folder / INDEX_NAME) as partial_path:
        index = pd.DataFrame(lines, columns=list(INDEX_COLUMNS))
        index.to_csv(partial_path, sep="\t", index=False, lineterminator="\n", encoding="utf-8")


def render_latex_figure(figure: Figure) -> str:
    r"""Return a `figure` environment around a PDF, to be \input: \graphicspath names the PDF's folder."""
    return "\n".join((
        r"% needs \usepackage{graphicx} and \graphicspath{{<this folder>/}}",
        r"\begin{figure}",
        r"\centering",
        rf"\includegraphics[width=0.7\linewidth]{{{figure.name}.pdf}}",
        rf"\caption{{{escape_latex(figure.title)}. {escape_latex(figure.caption)}}}",
        rf"\label{{fig:{figure.name}}}",
        r"\end{figure}",
        "",
    ))  # fmt: skip
