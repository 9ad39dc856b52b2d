"""Cells of every table are found by name in the frame that all tables are made of."""

from typing import Any

import pytest

from aiayn.errors import UsageError
from analysis.origin.where import find_sources, numbers_by_cell
from paper_tables.frame import Frame
from paper_tables.layout import cells_of_tables
from paper_tables.render.tables import lay_out_tables
from tests.laid_out import frame_of
from tests.records_factory import make_site, write_everything


@pytest.fixture(scope="module")
def frame(tmp_path_factory: pytest.TempPathFactory) -> Frame:
    site = make_site(tmp_path_factory.mktemp("demo"))
    write_everything(site)
    return frame_of(site)


def test_a_printed_cell_and_our_cell_next_to_it_have_the_same_runs(frame: Frame) -> None:
    (printed,) = find_sources("table2:base:bleu_en_de", frame)
    (ours,) = find_sources("table2:base:bleu_en_de_ours", frame)
    assert printed.sources == ours.sources
    assert [source.seed for source in ours.sources] == [1, 2]
    assert (printed.cell.printed_by_edition, ours.cell.printed_by_edition) == ({"both": "27.3"}, {})


def test_a_cell_that_no_printed_number_joins_is_found_and_a_wrong_name_is_refused(
    frame: Frame,
) -> None:
    (bits,) = find_sources("table3:base:bits_dev", frame)
    assert bits.cell.metric == "bits_per_subword"
    with pytest.raises(UsageError, match="did you mean 'table3:base:bits_dev'"):
        find_sources("table3:base:bits_devv", frame)


def test_the_frame_has_every_number_with_its_runs_definition_and_signature(
    frame: Frame,
) -> None:
    cells = cells_of_tables(lay_out_tables(frame))
    assert not cells.duplicated(["table", "position", "column", "text", "value"]).any()
    numbered = cells[cells.numbers.map(bool) & (cells.kind == "ours")]
    assert len(numbered) > 30
    line: Any
    for line in numbered.itertuples():
        first = line.numbers[0]
        assert all(run.status.run for run, _ in first.values)
        assert first.values
        if first.metric.startswith("bleu_"):
            assert "case:mixed" in first.signatures[0]
    assert {name.partition(":")[0] for name in numbers_by_cell(cells)} >= {"table2", "table3"}
