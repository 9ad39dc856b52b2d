"""Makes tables and pages from folders of records and logs of our runs (`aiayn tables --from-logs`).

It needs no checkpoints, GPU, torch or fairseq: every value is in a record or a log. Runs of ours
whose records are there fill the tables of their scale, by the layouts of the DAG. `from_logs` reads
any other log.
"""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from aiayn.errors import RecordError
from aiayn.packed import unpacked_name
from aiayn.paths import is_scale_folder
from aiayn.provenance import commit_label, utc_now
from aiayn.runs.attempts import LOG_NAME
from aiayn.spec.system import CONFIG_FOLDER, SCALES
from paper_tables.logs.from_logs import Read, make_page_of_logs, render_faults
from paper_tables.make_frame import make_frame
from paper_tables.render.draw import draw_figures
from paper_tables.render.drawn import FIGURES_FOLDER
from paper_tables.render.report import Origin, render_report
from paper_tables.render.tables import REPORT_NAME, make_recorded_tables, write_text
from paper_tables.scale_results import RecordFault, gather_from_records


class Made(NamedTuple):
    """The pages, in the order of reading; records left out of the tables; files not read."""

    pages: tuple[Path, ...]
    faults: tuple[RecordFault, ...]
    not_read: tuple[str, ...] = ()


def make_tables_from_logs(
    folders: Sequence[Path], output_folder: Path, config_folder: Path = CONFIG_FOLDER
) -> Made:
    """Write the tables of our runs to `<output_folder>/<scale>/`, those of other logs one level up.

    If all numbers come from the records of a single scale, `report.html` in the output folder is
    the page of the scale, and `logs.html` lists the logs. Otherwise `report.html` is the page of
    the logs, and each scale has a `report.html` in its own folder.

    Raises:
        RecordError: if a folder does not exist, or a record is malformed.
        ConfigError: if a system or the hardware file cannot be read.
    """
    folders = [
        folder for index, folder in enumerate(folders) if not _is_read_with(folder, index, folders)
    ]
    results_folders_by_scale, log_path_by_run = _find_results(folders)
    read = Read(
        tuple(folders),
        {
            scale: gather_from_records(scale, results_folders_by_scale[scale], config_folder)
            for scale in SCALES
            if scale in results_folders_by_scale
        },
    )
    page, not_read = make_page_of_logs(read, output_folder, config_folder)
    pages = [page]
    origin = Origin(made=utc_now(), commit=commit_label(), so_far=False)
    for scale, recorded in read.recorded_by_scale.items():
        folder = output_folder / scale
        frame = make_frame(recorded.results)
        tables = make_recorded_tables(recorded, frame, folder)
        no_attention = None  # in records
        figures = draw_figures(
            "scale_figures", folder / FIGURES_FOLDER, frame, log_path_by_run, no_attention
        )
        if page.name == REPORT_NAME:
            write_text(render_report(frame, tables, origin, figures), folder / REPORT_NAME)
            pages.append(folder / REPORT_NAME)
        else:
            preface = (
                f'<p>What each log fills: <a href="{page.name}">the list of logs</a>.</p>\n'
                f"{render_faults(recorded.faults)}"
            )
            text = render_report(frame, tables, origin, figures, preface)
            # The files of the figures stay in the folder of the scale.
            text = text.replace(f'href="{FIGURES_FOLDER}/', f'href="{scale}/{FIGURES_FOLDER}/')
            write_text(text, output_folder / REPORT_NAME)
            pages = [output_folder / REPORT_NAME, page]
    return Made(tuple(pages), tuple(read.faults), not_read)


def _is_read_with(folder: Path, index: int, folders: Sequence[Path]) -> bool:
    """Return whether a folder lies in another of the folders, or is the same as an earlier one."""
    place, places = folder.resolve(), [other.resolve() for other in folders]
    return place in places[:index] or any(
        place.is_relative_to(other) for other in places if other != place
    )


def _find_results(folders: Sequence[Path]) -> tuple[dict[str, list[Path]], dict[str, Path]]:
    """Return the results folders by scale, and the log of each run by the name of its folder."""
    results_folders_by_scale: dict[str, list[Path]] = {}
    log_path_by_run: dict[str, Path] = {}
    seen: set[Path] = set()  # a link may lead to a folder that is walked through anyway
    for folder in folders:
        if not folder.is_dir():
            problem = (
                f"is a file; name its folder, {folder.parent}"
                if folder.is_file()
                else "no such folder"
            )
            raise RecordError(
                f"{folder}:"
                f" {problem}{'' if folder.is_file() else '; name one with results or logs'}"
            )
        for parent, names, files in os.walk(folder, followlinks=True):
            place = Path(parent)
            resolved = place.resolve()
            if resolved in seen:
                names.clear()
                continue
            seen.add(resolved)
            names.sort()
            if is_scale_folder(place):
                results_folders_by_scale.setdefault(resolved.name, []).append(
                    place.parent if place.name else resolved.parent
                )
            for name in files:
                if unpacked_name(name) == LOG_NAME:
                    log_path_by_run[place.name] = place / name
    return results_folders_by_scale, log_path_by_run
