"""Writes the result files of a scale from its records: three TSV files, tables, figures and
report.html.
"""

import pkgutil
from pathlib import Path
from typing import NamedTuple

import pandas as pd

from aiayn.provenance import commit_label, replace_on_success, utc_now
from aiayn.runs.queue import Queues
from aiayn.scoring.scores import summarise_frame
from aiayn.spec.system import CONFIG_FOLDER, ScaleSpec
from aiayn.terminal import visible
from paper_tables.frame import Frame
from paper_tables.layout import Table, compact
from paper_tables.make_frame import make_frame
from paper_tables.render.chapters import place_of_table, scale_tables
from paper_tables.render.draw import draw_figures
from paper_tables.render.drawn import FIGURES_FOLDER
from paper_tables.render.render import RENDERER_BY_SUFFIX, render_html
from paper_tables.render.report import Origin, picture_of, render_report, render_table_page
from paper_tables.scale_results import RecordedResults, ScaleResults, gather_results
from paper_tables.tables.verdicts import verdict_frame

# Snakemake never declares this folder as an output.
SO_FAR_FOLDER = "so-far"
REPORT_NAME = "report.html"
PICTURE_NAME = "picture.svg"
# The folder below results/<scale>/ into which `aiayn attention` writes.
ATTENTION_FOLDER = "attention"
# All other tables are written as files, too.
ONLY_ON_THE_PAGE = ("verdicts", "runs")


class Rendered(NamedTuple):
    """The path of a scale's results page, the tables on it, and how many of the scale's trainings
    are finished.
    """

    report_path: Path
    tables: list[Table]
    num_finished: int
    num_trainings: int


def make_tables(
    scale: ScaleSpec,
    results_folder: Path,
    *,
    so_far: bool,
    queues: Queues,
    config_folder: Path = CONFIG_FOLDER,
) -> Rendered:
    """Write all tables and figures of a scale into its folder `results_folder/<scale>/`, or with
    `so_far` into the subfolder `so-far/` of this folder.

    Raises:
        TableError: if a record is missing, unless `so_far` is set. The message contains the first
            missing record.
    """
    results = gather_results(
        scale, results_folder, so_far=so_far, queues=queues, config_folder=config_folder
    )
    frame = make_frame(results)
    tables = lay_out_tables(frame)
    folder = results_folder / scale.scale
    # Never over the finished tables: Snakemake would take them for its own, newer outputs.
    folder = folder / SO_FAR_FOLDER if so_far else folder
    write_frames(results, frame, folder)
    write_picture(frame, folder)
    for table in tables:
        if table.name not in ONLY_ON_THE_PAGE:
            write_table(table, folder / "tables")
    # `aiayn attention` writes into the results of the scale, also if the tables are made so far.
    attention_folder = results_folder / scale.scale / ATTENTION_FOLDER
    figures_folder = folder / FIGURES_FOLDER
    figures = draw_figures(figures_folder, frame, None, attention_folder)
    origin = Origin(made=utc_now(), commit=commit_label(), so_far=so_far)
    report_path = folder / REPORT_NAME
    write_text(render_report(frame, tables, origin, figures), report_path)
    num_finished = sum(run.status.state == "finished" for run in frame.runs)
    return Rendered(report_path, tables, num_finished, len(frame.runs))


def make_recorded_tables(recorded: RecordedResults, frame: Frame, folder: Path) -> list[Table]:
    """Write the TSV files, the picture and each table with a number of ours. Return the tables of
    the results page.

    The files do not contain the time or the commit at which they were made, so the same records
    give the same bytes.
    """
    tables = tables_of_records(frame)
    for table in tables:
        if table.name not in ONLY_ON_THE_PAGE:
            write_table(table, folder / "tables")
    write_frames(recorded.results, frame, folder)
    write_picture(frame, folder)
    return tables


def tables_of_records(frame: Frame) -> list[Table]:
    """Return Tables 2 and 3, every other table with a number of ours, and the tables that are shown
    only on the page.
    """
    # A table has signatures if it shows a scored number of ours.
    always = {table.name for table in scale_tables() if table.is_always_packed}
    always.update(ONLY_ON_THE_PAGE)
    return [table for table in lay_out_tables(frame) if table.name in always or table.signatures]


def write_frames(results: ScaleResults, frame: Frame, folder: Path) -> None:
    """Write scores.tsv, verdicts.tsv and summary.tsv. The summary leaves out trainings that
    decisions added later.
    """
    # scores.tsv has every score that was measured. The summary has means over the tables' seeds
    # only.
    later = {(run.corpus, run.system, run.seed) for run in frame.later_runs}
    trainings = results.scores[["corpus", "system", "seed"]].itertuples(index=False, name=None)
    is_of_tables = [training not in later for training in trainings]
    write_frame(results.scores, folder / "scores.tsv")
    write_frame(summarise_frame(results.scores.loc[is_of_tables]), folder / "summary.tsv")
    write_frame(verdict_frame(frame.judged), folder / "verdicts.tsv")


def lay_out_tables(frame: Frame) -> list[Table]:
    """Return the tables of the core and of the wings (optional packages), in the order of the
    results page.
    """
    laid_out = []
    for registered in scale_tables():
        table = pkgutil.resolve_name(registered.layout)(frame)
        # A wing returns None if the scale has nothing for its table.
        if table is not None:
            laid_out.append(compact(table))
    return sorted(laid_out, key=lambda table: place_of_table(table.name))


def write_frame(frame: pd.DataFrame, path: Path) -> None:
    """Write a data frame as tab-separated text with numbers in full precision. The file is never
    partly written.
    """
    write_text(frame.to_csv(sep="\t", index=False, lineterminator="\n"), path)


def write_table(table: Table, folder: Path) -> None:
    """Write a table in every output format. The HTML file is a page with this table only."""
    for suffix, render in RENDERER_BY_SUFFIX.items():
        write_text(render(table), folder / f"{table.name}.{suffix}")
    write_text(render_table_page(table), folder / f"{table.name}.html")


def write_picture(frame: Frame, folder: Path) -> None:
    """Write the picture at the top of the results page as an SVG file, which the README shows, and
    its numbers as a TSV file. If no conclusion has an answer, nothing is written.
    """
    picture = picture_of(frame)
    if picture is not None:
        write_text(render_html("picture.svg.j2", picture=picture), folder / PICTURE_NAME)
        write_frame(picture.frame, (folder / PICTURE_NAME).with_suffix(".tsv"))


def write_text(text: str, path: Path) -> None:
    """Write a text file completely or not at all. Control characters in the text are replaced by
    visible escapes.
    """
    # Line ends are `\n` on every system, so that the same numbers give the same bytes.
    with (
        replace_on_success(path) as partial_path,
        partial_path.open("w", encoding="utf-8", newline="\n") as lines,
    ):
        lines.write(visible(text))
