"""`aiayn where` shows the sources of a cell in the frame, and names every cell once."""

from pathlib import Path

import pytest

from analysis.questions.where import CellSources, named_cells, read_sources, render_list
from tests.laid_out import frame_of
from tests.records_factory import EIGHT_P100, Site, write_training
from tests.scenes import write_demo_results


def sources_of(site: Site, cell: str) -> CellSources:
    """Return the sources of a cell of the demo."""
    frame = frame_of(site)
    return read_sources(frame, named_cells(frame)[cell])


@pytest.fixture
def site(tmp_path: Path) -> Site:
    """Return everything of the demo."""
    return write_demo_results(tmp_path)


def test_parameters_steps_and_costs_are_of_the_training_alone(site: Site) -> None:
    assert sources_of(site, "table3:big:train_steps").sources[0].value == "3,000"
    write_training(site, "demo_en_de", "big", 1, hardware=EIGHT_P100, wall_seconds=12 * 3600)
    assert sources_of(site, "table2:big:flops_en_de").sources[0].value == "3.3e18"  # as printed


def test_a_number_that_the_editions_print_differently_is_one_cell_with_both(site: Site) -> None:
    cells = named_cells(frame_of(site))
    assert cells["table2:big:bleu_en_fr"].printed_by_edition == {
        "neurips2017": "41.0",
        "arxiv": "41.8",
    }
    assert "table2:big:bleu_en_fr" in render_list(cells)


def test_variants_and_replications_are_cells_too(site: Site) -> None:
    cells = named_cells(frame_of(site))
    assert cells["variants:pre_norm:bleu_dev"].key.average == "last1"
    assert cells["replications:revisit_tiny:value"].printed_by_edition == {"": "41.02"}
