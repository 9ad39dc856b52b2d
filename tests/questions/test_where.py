"""`aiayn where`: what its transcripts do not show: packed files, costs as printed, cells that editions differ in."""

from pathlib import Path

import pytest

from aiayn.errors import CorpusError
from aiayn.packed import packed_bytes
from aiayn.runs.attempts import LOG_NAME
from paper_tables.questions.where import SeedTrace, last_update_line, named_cells, render_list, trace_cell
from tests.laid_out import frame_of
from tests.records_factory import EIGHT_P100, Site, write_training
from tests.scenes import LOG, write_demo_results


def first_seed(site: Site, cell: str = "table2:base:bleu_en_de") -> SeedTrace:
    frame = frame_of(site)
    return trace_cell(frame, named_cells(frame)[cell], site.results_folder).seeds[0]


@pytest.fixture
def site(tmp_path: Path) -> Site:
    """Everything of the demo, and of base's first seed the run's folder, data and translations too."""
    return write_demo_results(tmp_path)


def test_torn_packed_translations_are_named(site: Site) -> None:
    (translations,) = (site.results_folder / "demo/decode/demo_en_de/base/seed1").rglob("*.txt")
    packed = translations.with_name(f"{translations.name}.xz")
    packed.write_bytes(packed_bytes(translations.read_bytes())[:-30])
    translations.unlink()
    assert f"{packed}: changed; rerun `decode`" in first_seed(site).problems


def test_parameters_steps_and_costs_are_of_the_training_alone(site: Site) -> None:
    assert first_seed(site, "table3:base:params").value == 412_345
    assert first_seed(site, "table3:base:train_steps").value == 3000
    write_training(site, "demo_en_de", "base", 1, hardware=EIGHT_P100, wall_seconds=12 * 3600)
    assert first_seed(site, "table2:base:flops_en_de").value == pytest.approx(3.3e18, rel=0.01)  # as printed


def test_the_last_update_is_found_past_validation_and_torn_lines(tmp_path: Path) -> None:
    path = tmp_path / LOG_NAME
    path.write_bytes(LOG.encode() + b'| train_inner | {"epoch": 2, "num_upd')
    assert (last_update_line(path) or ())[:2] == (2, 3000)
    path.write_text("nothing yet\n", encoding="utf-8")
    assert last_update_line(path) is None
    packed = path.with_name(f"{LOG_NAME}.xz")
    packed.write_bytes(packed_bytes(LOG.encode())[:-30])
    with pytest.raises(CorpusError, match=r"train\.log\.xz: not a whole \.xz file"):
        last_update_line(packed)


def test_a_number_that_the_editions_print_differently_is_one_cell_with_both(site: Site) -> None:
    cells = named_cells(frame_of(site))
    assert cells["table2:big:bleu_en_fr"].printed_by_edition == {"neurips2017": "41.0", "arxiv": "41.8"}
    assert "table2:big:bleu_en_fr" in render_list(cells)


def test_variants_and_replications_are_cells_too(site: Site) -> None:
    cells = named_cells(frame_of(site))
    assert cells["variants:pre_norm:bleu_dev"].average == "last1"
    assert cells["replications:revisit_tiny:value"].printed_by_edition == {"": "41.02"}
