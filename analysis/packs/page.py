"""Writes the page `report.html` into the folder of a pack (runs in a form for shipping). The
command is `python -m analysis.packs.page FOLDER`.

The page is one file that can be downloaded and opened. The page is made only from the files of the
pack. The page does not link to other files, and does not contain the time or the commit at which it
was made.
"""

import sys
import tempfile
from pathlib import Path

from aiayn.packed import find_packed
from paper_tables.make_frame import make_frame
from paper_tables.render.draw import draw_figures
from paper_tables.render.report import render_report
from paper_tables.render.tables import REPORT_NAME, tables_of_records, write_text
from paper_tables.scale_results import gather_from_records


def write_page_of_pack(pack_folder: Path, page_path: Path) -> None:
    """Write the results page of a pack. The name of the pack's folder must be the name of its
    scale.

    Raises:
        RecordError: if a record of the pack is malformed.
    """
    # A pack is read like a results folder, which contains a folder for each scale.
    recorded = gather_from_records(pack_folder.name, [pack_folder.parent])
    frame = make_frame(recorded.results)
    log_path_by_run = {}
    for run in frame.runs:
        log_path = find_packed(run.train.log_path) if run.train else None
        if log_path is not None:
            log_path_by_run[run.status.run] = log_path
    # Figures are drawn as files. The page needs their SVG only, which it contains.
    with tempfile.TemporaryDirectory() as folder:
        # A pack does not contain attention weights.
        no_attention = None
        figures = draw_figures(Path(folder), frame, log_path_by_run, no_attention)
    # A downloaded page cannot link to files next to it.
    drawn = [figure._replace(folder_name="") for figure in figures or () if figure.svg]
    page = render_report(frame, tables_of_records(frame), None, drawn)
    write_text(page, page_path)


if __name__ == "__main__":
    for name in sys.argv[1:]:
        write_page_of_pack(Path(name), Path(name) / REPORT_NAME)
