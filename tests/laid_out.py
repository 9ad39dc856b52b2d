"""Makes a site's frame, and a laid-out table's rows and notes, as the tests of layouts ask for
them.
"""

from paper_tables.frame import Frame
from paper_tables.layout import Table, grid
from paper_tables.make_frame import make_frame
from paper_tables.render.render import plain_text
from paper_tables.scale_results import ScaleResults, gather_results
from tests.records_factory import Site

DAGGER = "[\u2020]"  # the demo's mark
PLUS_MINUS = "\u00b1"


def results_of(site: Site, *, so_far: bool = True) -> ScaleResults:
    """Return the results of what is there."""
    return gather_results(
        site.scale, site.results_folder, so_far=so_far, queues={}, config_folder=site.config_folder
    )


def frame_of(site: Site, *, so_far: bool = True) -> Frame:
    """Return the frame of what is there."""
    return make_frame(results_of(site, so_far=so_far))


def rows_of(table: Table) -> list[dict[str, str]]:
    """Return the texts of each row by column."""
    names = [column.name for column in table.columns]
    return [dict(zip(names, map(plain_text, cells), strict=True)) for _, cells in grid(table)]


def row_of(table: Table, beginning: str) -> dict[str, str]:
    """Return the texts of the row whose first cell begins so."""
    return next(row for row in rows_of(table) if next(iter(row.values())).startswith(beginning))


def notes_of(table: Table) -> str:
    """Return one line per note, after the mark that it explains."""
    return "\n".join(
        f"[{note.mark}] {note.text}" if note.mark else note.text for note in table.notes
    )
