"""Lists all figures of a results page in order, makes each one's frame, and writes them into a folder."""

import csv
import functools
import io
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import altair as alt
import pandas as pd

from aiayn.printed import PERPLEXITY_METRIC
from aiayn.provenance import replace_on_success
from aiayn.spec.system import TrainingSpec
from paper_tables.cell_verdicts import JudgedCell
from paper_tables.figures import INDEX_NAME, attention, curves, paper, results
from paper_tables.figures.figure import Figure, FigureError, Format, write_figure
from paper_tables.latex import escape_latex
from paper_tables.scale_results import ScaleResults
from paper_tables.tables.table3 import BLEU_METRIC

INDEX_COLUMNS = ("name", "title", "caption", "alternative_text", "reason")
FORMATS: tuple[Format, ...] = ("svg", "pdf")
NO_ATTENTION = "Attention: nothing is written yet; `aiayn attention RUN` takes the weights from a trained model."


@dataclass(frozen=True)
class Material:
    """The data of a scale's figures; attention is drawn from the files in its folder, if there is one."""

    results: ScaleResults
    judged: Sequence[JudgedCell]
    runs: Sequence[curves.Curve]
    attention_folder: Path | None

    @functools.cached_property
    def curve_frame(self) -> pd.DataFrame:
        """The frame of all curves."""
        return curves.curve_frame(self.runs)

    @property
    def base_training(self) -> TrainingSpec:
        """The spec that the architecture is drawn of: base as it was trained, else the scale's first system."""
        systems = self.results.system_by_name
        return systems["base" if "base" in systems else next(iter(systems))].training

    @property
    def vocabulary_size(self) -> int | None:
        """The number of symbols that base chooses from, None before the corpus is binarized."""
        corpus = self.results.scale.en_de_corpus
        language = self.results.corpora[corpus].target_language if corpus in self.results.corpora else ""
        return self.results.vocabulary_sizes_of(corpus).get(language)


@dataclass(frozen=True, kw_only=True)
class FoundFigure:
    """A figure with its frame and chart; or without, and why."""

    figure: Figure
    frame: pd.DataFrame | None = None
    chart: alt.TopLevelMixin | None = None
    reason: str = ""


# Each figure and how its frame is made; where nothing can be drawn the maker raises FigureError with the reason.
FIGURES: tuple[tuple[Figure, Callable[[Material], pd.DataFrame]], ...] = (
    (results.VERDICT_STRIP, lambda of: results.strip_frame(of.judged, of.results.scale.scale)),
    (results.BLEU_COST, lambda of: results.cost_frame(of.results)),
    (results.FOREST_BLEU, lambda of: results.forest_frame(of.results, BLEU_METRIC)),
    (results.FOREST_PERPLEXITY, lambda of: results.forest_frame(of.results, PERPLEXITY_METRIC)),
    (results.BLEU_DEFINITIONS, lambda of: results.definition_frame(of.results)),
    (curves.CURVES_BY_UPDATE, lambda of: of.curve_frame),
    (curves.CURVES_BY_HOURS, lambda of: of.curve_frame),
    (results.PLAN_ACTUAL, lambda of: results.plan_frame(of.results)),
    (paper.ARCHITECTURE, lambda of: paper.architecture_frame(of.base_training, of.vocabulary_size)),
    (paper.ATTENTION_ARCHITECTURE, lambda of: paper.attention_architecture_frame(of.base_training)),
    (paper.POSITIONS, lambda of: paper.position_frame()),
    (paper.SCHEDULES, lambda of: paper.schedule_frame(_own_schedule(of.base_training))),
)


def _own_schedule(training: TrainingSpec) -> tuple[int, int] | None:
    """Return d_model and warm-up steps of a spec that follows equation (3)."""
    return (training.d_model, training.warmup_steps) if training.schedule == "equation_3" else None


def find_figures(material: Material) -> list[FoundFigure]:
    """Return every figure with its frame and chart, or why there is none; attention comes last."""
    found = [_found(figure, functools.partial(make, material)) for figure, make in FIGURES]
    paths = sorted(material.attention_folder.glob("*/*.tsv")) if material.attention_folder else []
    for path in paths:
        for figure in (attention.ATTENTION_LINES, attention.ATTENTION_HEADS):
            named = replace(figure, name=f"{figure.name}_{path.parent.name}_{path.stem}")
            found.append(_found(named, functools.partial(attention.read_attention, path)))
    if not paths:
        found.append(FoundFigure(figure=attention.ATTENTION_LINES, reason=NO_ATTENTION))
    return found


def _found(figure: Figure, make: Callable[[], pd.DataFrame]) -> FoundFigure:
    try:
        frame = make()
        return FoundFigure(figure=figure, frame=frame, chart=figure.chart(frame))
    except FigureError as error:
        return FoundFigure(figure=figure, reason=str(error))


def write_figures(found: Iterable[FoundFigure], folder: Path, formats: Sequence[Format] = FORMATS) -> list[Path]:
    r"""Write every figure that there is, and `figures.tsv`: title, caption, alternative text, or why there is none.

    A PDF comes with a `.tex` to be \input. Files of an earlier call for a figure that is now absent are removed.
    """
    written: list[Path] = []
    lines = []
    for one in found:
        if one.frame is None or one.chart is None:
            for suffix in ("tsv", "tex", *formats):
                (folder / f"{one.figure.name}.{suffix}").unlink(missing_ok=True)
            text = ""
        else:
            written += write_figure(one.figure, one.frame, folder, formats, chart=one.chart)
            if "pdf" in formats:
                with replace_on_success(folder / f"{one.figure.name}.tex") as partial_path:
                    partial_path.write_text(render_latex_figure(one.figure), encoding="utf-8", newline="\n")
            text = one.figure.describe(one.frame)
        lines.append((one.figure.name, one.figure.title, one.figure.caption, text, one.reason))
    stream = io.StringIO()
    writer = csv.writer(stream, delimiter="\t", lineterminator="\n")
    writer.writerow(INDEX_COLUMNS)
    writer.writerows(lines)
    with replace_on_success(folder / INDEX_NAME) as partial_path:
        partial_path.write_text(stream.getvalue(), encoding="utf-8")
    return written


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


def write_figures_of_logs(read: list[curves.Curve], folder: Path) -> None:
    """Draw the curves of logs into a folder."""
    frame = curves.curve_frame(read)
    figures = (curves.CURVES_BY_UPDATE, curves.CURVES_BY_HOURS)
    write_figures([_found(figure, lambda: frame) for figure in figures], folder)
