"""What was printed is here whole, and agrees with the paper's own arithmetic. How a spoilt file is
refused is in the transcript `refused_printed`.

The printed values themselves are in the golden files of Tables 1 to 3 (tests/golden/tables).
"""

import itertools
import math
import re
from collections import Counter

import pytest

from aiayn.data.text.lines import read_shipped
from aiayn.errors import TableError
from aiayn.printed import (
    PublishedCell,
    evaluations_of,
    printed_number,
    read_cells,
    read_columns,
    read_replications,
    read_sentences,
    read_table,
)
from aiayn.spec.system import ShippedSource, read_corpus
from tests.contracts.test_configs import PRINTED_BY_SYSTEM

TABLE_3_SYSTEMS = tuple(name for name in PRINTED_BY_SYSTEM if name != "big_enfr")


def covered_rows(cell: PublishedCell) -> tuple[str, ...]:
    """Return the rows that a cell covers: its own, or the rows in `span`."""
    names = tuple(cell.span.split())
    return names if cell.row in names else (cell.row,)


def test_each_table_stands_on_its_page() -> None:
    for number, page in {1: 6, 2: 8, 3: 9}.items():
        assert {cell.page for cell in read_table(number)} == {page}


@pytest.mark.parametrize(
    ("value", "number"), [("27.3", 27.3), ("3.3e18", 3.3e18), ("100K", 100_000), ("65", 65)]
)
def test_a_printed_number_keeps_its_power_of_ten_and_its_thousands(
    value: str, number: float
) -> None:
    assert printed_number(value) == number


@pytest.mark.parametrize("value", ["", "-", "nan", "27,3", "27.3 ", "about 27", "-1", "1e", "O(1)"])
def test_words_are_no_printed_number(value: str) -> None:
    with pytest.raises(TableError, match=rf"a printed cell: {re.escape(repr(value))}"):
        printed_number(value)


def test_no_line_is_repeated_and_what_it_names_is_in_the_other_files() -> None:
    keys: list[tuple[object, ...]] = [
        (join.table, join.row, join.column, join.edition) for join in read_cells()
    ]
    for number, columns in read_columns().items():
        kind_by_column = {column.name: column.kind for column in columns}
        cells = read_table(number)
        for cell in cells:
            assert cell.table == number
            assert kind_by_column.keys() >= set(cell.covered_columns)
            assert {known.row for known in cells} >= set(covered_rows(cell))
            assert not cell.span or cell.span.split()[0] in (cell.row, cell.column), cell
            if kind_by_column[cell.column] == "measured" or (
                kind_by_column[cell.column] == "setting" and not cell.span
            ):
                printed_number(cell.value)  # row (E) prints words across its settings
            editions = ("neurips2017", "arxiv") if cell.edition == "both" else (cell.edition,)
            keys += itertools.product(
                [f"table{number}"], covered_rows(cell), cell.covered_columns, editions
            )
    keys += [("replication", replication.row) for replication in read_replications()]
    sentences = read_sentences()
    assert len({sentence.key for sentence in sentences}) == 1  # the toy alone
    keys += [(sentence.row, sentence.sentence) for sentence in sentences]
    assert [key for key, count in Counter(keys).items() if count > 1] == []


def test_every_measured_cell_of_a_transformer_is_joined_and_every_join_was_printed() -> None:
    printed = set()
    for number in (2, 3):
        measured = {column.name for column in read_columns()[number] if column.kind == "measured"}
        for cell in read_table(number):
            if cell.row in TABLE_3_SYSTEMS:
                columns = measured.intersection(cell.covered_columns)
                printed |= {(number, cell.row, column, cell.edition) for column in columns}
    joined = {(join.table, join.row, join.column, join.edition) for join in read_cells()}
    assert joined == printed
    # Table 2: 5 scores, 4 costs; Table 3: 20 perplexities, 20 scores, 11 sizes, 2 numbers of steps.
    assert len(read_cells()) == len(joined) == 9 + 53


@pytest.mark.parametrize(
    ("language_pair", "system"), [("en-fr", "big"), ("en-de", "bas"), ("en-cs", "base")]
)
def test_a_system_that_no_printed_number_asks_for_is_refused(
    language_pair: str, system: str
) -> None:
    with pytest.raises(TableError, match=f"'{system}'.*'{language_pair}'"):
        evaluations_of(language_pair, system)


def test_the_replication_of_multi30k_is_in_its_printed_line() -> None:
    """Four precisions and the penalty of the line give its score, within the rounding of one decimal."""
    (replication,) = read_replications()
    score, *precisions, penalty = map(
        float, re.findall(r"\d+\.\d+", replication.printed_line.partition(", ratio")[0])
    )
    assert replication.value == f"{score}"
    assert math.prod(precisions) ** 0.25 * penalty == pytest.approx(score, abs=0.06)


def test_the_published_sentences_are_those_of_the_shipped_corpus() -> None:
    (run, *others) = published = read_sentences()
    source = read_corpus(run.corpus).source
    assert isinstance(source, ShippedSource)
    expected = [line.sentence for line in published]
    assert [sentence for sentence, _ in read_shipped(source)[run.testset]] == expected
    assert len(others) == 7
    assert evaluations_of("en-es", run.system) == [("last1", "test")]
