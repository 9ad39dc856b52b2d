"""`aiayn where` shows the sources of a cell in the frame, and names every cell once."""

from pathlib import Path

import pytest

from aiayn.errors import UsageError
from analysis.questions.where import CellSources, find_cell, named_cells, read_sources, render_list
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


def test_each_value_has_its_run_commit_and_hardware(site: Site) -> None:
    found = sources_of(site, "table2:big:bleu_en_de")
    assert [(source.seed, source.value) for source in found.sources] == [(1, "70.10"), (2, "70.20")]
    assert found.sources[0].run == "demo_en_de-big-seed1-0a1b2c3d"
    assert found.sources[0].commit == "0123456789ab"
    assert found.signatures == ("case:mixed|of:bleu_tok_compound_split",)
    assert found.missing == []


def test_a_training_without_a_value_is_named_with_the_reason(site: Site) -> None:
    found = sources_of(site, "table2:base:bleu_en_de")
    assert found.sources == ()
    assert found.missing[0].startswith("seed 1: trained with another spec")


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


def test_a_cell_that_is_not_run_here_or_has_another_name_is_refused(site: Site) -> None:
    with pytest.raises(UsageError, match="table3_a_h1 is not run on demo_en_de at scale demo"):
        sources_of(site, "table3:table3_a_h1:bleu_dev")
    with pytest.raises(UsageError, match=r"did you mean 'table2:base:bleu_en_de'"):
        find_cell("table2:base:bleu_en_ed", named_cells(frame_of(site)))
