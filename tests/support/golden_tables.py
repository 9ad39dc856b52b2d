"""Compares the tables of a small demo with golden files: the core's in tests/golden/tables, a wing's
in tests/<wing>/tables.
"""

from collections.abc import Sequence
from pathlib import Path

from paper_tables.layout import Table
from paper_tables.make_frame import make_frame
from paper_tables.render.render import RENDERER_BY_SUFFIX
from paper_tables.render.report import render_table_page
from paper_tables.render.tables import lay_out_tables
from paper_tables.scale_results import gather_results
from tests.golden_files import check_golden
from tests.records_factory import make_site, write_everything

RENDERERS = {**RENDERER_BY_SUFFIX, "html": render_table_page}


def lay_out_demo(folder: Path) -> dict[str, Table]:
    """Return by name the tables of a demo in a new folder: the core's, and those of all wings that
    are there.
    """
    site = make_site(
        folder,
        ablation_systems=["table3_c_n2", "table3_e_learned"],
        variants=["table3_e_learned"],
        architectures=["table3_c_n2"],  # in the place of recurrence or convolution
        variant_seeds=[1, 2],
    )
    write_everything(site)
    results = gather_results(
        site.scale, site.results_folder, so_far=False, queues={}, config_folder=site.config_folder
    )
    return {table.name: table for table in lay_out_tables(make_frame(results))}


def check_tables(
    tables: dict[str, Table],
    names: Sequence[str],
    folder: Path,
    suffix: str,
    *,
    in_every_format: Sequence[str] = (),
) -> None:
    """Compare some tables in one format with a folder, which must not hold a different table.

    As csv all are compared, in the other formats those `in_every_format`.
    """
    compared = [name for name in names if suffix == "csv" or name in in_every_format]
    for name in compared:
        check_golden(f"{name}.{suffix}", RENDERERS[suffix](tables[name]), folder)
    assert {path.stem for path in folder.glob(f"*.{suffix}")} == set(compared)
