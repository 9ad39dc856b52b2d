"""Makes tables and pages from folders with records and logs (`aiayn tables --from-logs`).

No checkpoints, GPU, torch or fairseq are needed, because every value is in a record or a log. A run
of ours with records appears in the tables of its scale, which have the same layout as the tables of
the workflow. `from_logs` makes the tables of all other logs.
"""

import logging
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from aiayn.facts.listing import Listing, list_folder
from aiayn.packed import unpacked_name
from aiayn.provenance import commit_label, utc_now
from aiayn.runs.attempts import LOG_NAME
from aiayn.spec.system import CONFIG_FOLDER, SCALES
from paper_tables.layout import Table
from paper_tables.logs.from_logs import Made, make_page_of_logs
from paper_tables.make_frame import make_frame
from paper_tables.render.draw import draw_figures
from paper_tables.render.drawn import FIGURES_FOLDER
from paper_tables.render.report import Origin, render_report
from paper_tables.render.tables import REPORT_NAME, make_recorded_tables, write_text
from paper_tables.scale_results import RecordedResults, RecordFault, gather_from_records

logger = logging.getLogger(__name__)


def make_tables_from_logs(
    folders: Sequence[Path], output_folder: Path, config_folder: Path = CONFIG_FOLDER
) -> Made:
    """Write the page and the tables of the logs to `output_folder`, and the page and the tables of
    our recorded runs to `<output_folder>/<scale>/`.

    Raises:
        RecordError: if a folder does not exist, if the folders contain neither logs nor records, or
            if a record is malformed.
        ConfigError: if the config file of a system or of the hardware cannot be read.
    """
    listing_by_folder = {folder: list_folder(folder) for folder in _without_nested(folders)}
    recorded_by_scale = _read_records(listing_by_folder.values(), config_folder)
    logs = make_page_of_logs(listing_by_folder, recorded_by_scale, output_folder, config_folder)
    # Curves are drawn from the logs, because records do not have them.
    log_path_by_run = _logs_of_runs(listing_by_folder)
    origin = Origin(made=utc_now(), commit=commit_label(), so_far=False)
    pages: list[Path] = []
    tables: list[Table] = []
    faults: list[RecordFault] = []
    summary = logs.summary
    for scale, recorded in recorded_by_scale.items():
        num_runs = len(recorded.results.train_by_key)
        logger.info(f"scale {scale}: making the tables of {num_runs:,} runs")
        folder = output_folder / scale
        frame = make_frame(recorded.results)
        tables_of_scale = make_recorded_tables(recorded, frame, folder)
        # Figures of attention need a checkpoint.
        no_attention = None  # in records
        figures = draw_figures(folder / FIGURES_FOLDER, frame, log_path_by_run, no_attention)
        banners = [fault.text for fault in recorded.faults]
        text = render_report(frame, tables_of_scale, origin, figures, banners=banners)
        write_text(text, folder / REPORT_NAME)
        pages.append(folder / REPORT_NAME)
        tables += tables_of_scale
        faults += recorded.faults
        summary += f"; scale {scale}: {num_runs:,} runs with records"
    return Made(
        pages=(*pages, *logs.pages),
        not_read=logs.not_read,
        tables=tuple(table for table in (*tables, *logs.tables) if table.name == "table2"),
        summary=summary,
        faults=tuple(faults),
    )


def _without_nested(folders: Sequence[Path]) -> list[Path]:
    """Return each folder once. Leave out folders that are inside another listed folder."""
    folder_by_place: dict[Path, Path] = {}
    # A folder may be given under two paths, or with a folder inside it. Its trainings would then be
    # counted twice, as two seeds.
    for folder in folders:
        folder_by_place.setdefault(folder.resolve(), folder)
    distinct = []
    for resolved, folder in folder_by_place.items():
        if folder_by_place.keys().isdisjoint(resolved.parents):
            distinct.append(folder)
    return distinct


def _read_records(listings: Iterable[Listing], config_folder: Path) -> dict[str, RecordedResults]:
    """Return the results of each scale that has a folder `results/<scale>/` in the listings of
    folders.
    """
    results_folders_by_scale: dict[str, list[Path]] = {}
    # Results of one scale may be in several folders, such as the folders of two machines.
    for listing in listings:
        for folder in listing.scale_folders:
            # The user may give the folder of a scale itself, as `.` in it. Its name is then known
            # only after `resolve`.
            resolved = folder.resolve()
            results_folders_by_scale.setdefault(resolved.name, []).append(
                folder.parent if folder.name else resolved.parent
            )
    return {
        scale: gather_from_records(scale, results_folders_by_scale[scale], config_folder)
        # The scales are in the order of SCALES, not of the folders.
        for scale in SCALES
        if scale in results_folders_by_scale
    }


def _logs_of_runs(listing_by_folder: Mapping[Path, Listing]) -> dict[str, Path]:
    """Return the path of each run's log, by the name of the run's folder."""
    log_path_by_run: dict[str, Path] = {}
    for folder, listing in listing_by_folder.items():
        for name in listing.log_paths:
            path = folder / name
            # In a pack the log is train.log.xz.
            if unpacked_name(path.name) == LOG_NAME:
                log_path_by_run[path.parent.name] = path
    return log_path_by_run
