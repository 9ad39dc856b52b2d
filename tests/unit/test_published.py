"""What was printed is here whole, agrees with the paper's own arithmetic, and a spoilt file is
refused.
"""

import itertools
import re
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

import pytest

from aiayn.errors import TableError
from aiayn.printed import (
    PublishedCell,
    evaluations_of,
    find_printed,
    printed_number,
    read_cells,
    read_columns,
    read_replications,
    read_sentences,
    read_table,
)
from tests.contracts.test_configs import PRINTED_BY_SYSTEM

TABLE_3_SYSTEMS = tuple(name for name in PRINTED_BY_SYSTEM if name != "big_enfr")


def printed_values(cells: Iterable[PublishedCell], edition: str) -> dict[str, dict[str, str]]:
    """Return the printed string by column by row, as one edition prints them (a `both` cell is in
    either).
    """
    value_by_column_by_row: dict[str, dict[str, str]] = {}
    for cell in cells:
        if cell.edition in ("both", edition):
            value_by_column_by_row.setdefault(cell.row, {})[cell.column] = cell.value
    return value_by_column_by_row


def covered_rows(cell: PublishedCell) -> tuple[str, ...]:
    """Return the rows that a cell covers: its own, or the rows in `span`."""
    names = tuple(cell.span.split())
    return names if cell.row in names else (cell.row,)


@pytest.mark.parametrize(("edition", "num_rows_of_table_4"), [("arxiv", 12), ("neurips2017", 0)])
def test_each_table_has_the_rows_that_an_edition_prints(
    edition: str, num_rows_of_table_4: int
) -> None:
    num_rows_by_table = {
        number: len(printed_values(read_table(number), edition)) for number in (1, 2, 3, 4)
    }
    assert num_rows_by_table == {1: 4, 2: 10, 3: 20, 4: num_rows_of_table_4}


def test_each_table_stands_on_its_page() -> None:
    for number, page in {1: 6, 2: 8, 3: 9, 4: 10}.items():
        assert {cell.page for cell in read_table(number)} == {page}


def test_table_2_prints_these_scores_and_costs() -> None:
    columns = ("bleu_en_de", "bleu_en_fr", "flops_en_de", "flops_en_fr")
    values = {}
    for row, value in printed_values(read_table(2), "arxiv").items():
        values[row] = tuple(value.get(column, "") for column in columns)
    assert values == {
        "bytenet": ("23.75", "", "", ""),
        "deep_att_posunk": ("", "39.2", "", "1.0e20"),
        "gnmt_rl": ("24.6", "39.92", "2.3e19", "1.4e20"),
        "convs2s": ("25.16", "40.46", "9.6e18", "1.5e20"),
        "moe": ("26.03", "40.56", "2.0e19", "1.2e20"),
        "deep_att_posunk_ensemble": ("", "40.4", "", "8.0e20"),
        "gnmt_rl_ensemble": ("26.30", "41.16", "1.8e20", "1.1e21"),
        "convs2s_ensemble": ("26.36", "41.29", "7.7e19", "1.2e21"),
        "base": ("27.3", "38.1", "3.3e18", ""),  # one cell under both language pairs
        "big": ("28.4", "41.8", "2.3e19", ""),
    }


def test_english_french_big_differs_by_edition_and_nothing_else_does() -> None:
    neurips, arxiv = (
        printed_values(read_table(2), edition) for edition in ("neurips2017", "arxiv")
    )
    assert (neurips["big"].pop("bleu_en_fr"), arxiv["big"].pop("bleu_en_fr")) == ("41.0", "41.8")
    assert neurips == arxiv
    for number in (1, 3):
        assert {cell.edition for cell in read_table(number)} == {"both"}


def test_the_transformers_costs_span_both_language_pairs_and_no_other_cost_does() -> None:
    spans = {cell.row: cell.covered_columns for cell in read_table(2) if cell.span}
    assert spans == {"base": ("flops_en_de", "flops_en_fr"), "big": ("flops_en_de", "flops_en_fr")}


def test_table_3_rows_are_our_systems_in_print_order() -> None:
    assert tuple(printed_values(read_table(3), "arxiv")) == TABLE_3_SYSTEMS


def test_table_3_prints_these_perplexities_scores_and_sizes() -> None:
    values = printed_values(read_table(3), "arxiv")
    assert (
        " ".join(values[system]["ppl_dev"] for system in TABLE_3_SYSTEMS)
        == "4.92 5.29 5.00 4.91 5.01 5.16 5.01 6.11 5.19 4.88 5.75 4.66 5.12 4.75 5.77 4.95 4.67"
        " 5.47 4.92 4.33"
    )
    assert (
        " ".join(values[system]["bleu_dev"] for system in TABLE_3_SYSTEMS)
        == "25.8 24.9 25.5 25.8 25.4 25.1 25.4 23.7 25.3 25.5 24.5 26.0 25.4 26.2 24.6 25.5 25.3"
        " 25.7 25.7 26.4"
    )
    assert (
        " ".join(values[system].get("params", "-") for system in TABLE_3_SYSTEMS)
        == "65 - - - - 58 60 36 50 80 28 168 53 90 - - - - - 213"
    )
    assert {
        row: value["train_steps"] for row, value in values.items() if "train_steps" in value
    } == {
        "base": "100K",
        "big": "300K",
    }


def test_table_3_hyper_parameters_can_be_laid_out_again() -> None:
    settings = [column.name for column in read_columns()[3] if column.kind == "setting"]
    printed = {}
    for row, value in printed_values(read_table(3), "arxiv").items():
        printed[row] = " ".join(value.get(name, "-") for name in settings)
    assert settings == ["N", "d_model", "d_ff", "h", "d_k", "d_v", "P_drop", "eps_ls"]
    assert printed["base"] == "6 512 2048 8 64 64 0.1 0.1"
    assert printed["big"] == "6 1024 4096 16 - - 0.3 -"
    assert printed["table3_a_h1"] == "- - - 1 512 512 - -"
    assert printed["table3_b_dk16"] == "- - - - 16 - - -"  # d_v stays 64
    assert printed["table3_c_n2"] == "2 - - - - - - -"
    assert printed["table3_c_dmodel1024"] == "- 1024 - - 128 128 - -"
    assert printed["table3_c_dff4096"] == "- - 4096 - - - - -"
    assert printed["table3_d_pdrop02"] == "- - - - - - 0.2 -"
    assert printed["table3_d_els0"] == "- - - - - - - 0.0"
    assert printed["table3_e_learned"] == "- positional embedding instead of sinusoids - - - - - -"


def test_every_system_of_table_3_stands_under_one_printed_letter() -> None:
    rows_by_letter = {
        cell.value: covered_rows(cell) for cell in read_table(3) if cell.column == "label"
    }
    assert {letter: len(rows) for letter, rows in rows_by_letter.items()} == {
        "base": 1,
        "(A)": 4,
        "(B)": 2,
        "(C)": 7,
        "(D)": 4,
        "(E)": 1,
        "big": 1,
    }
    assert tuple(row for rows in rows_by_letter.values() for row in rows) == TABLE_3_SYSTEMS


def test_a_printed_number_keeps_its_power_of_ten_and_its_thousands() -> None:
    assert [printed_number(value) for value in ("27.3", "3.3e18", "100K", "65")] == [
        27.3,
        3.3e18,
        100_000,
        65,
    ]


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
    for row, sentences in read_sentences().items():
        assert len({sentence.key for sentence in sentences}) == 1, row
        keys += [(row, sentence.sentence) for sentence in sentences]
    assert [key for key, count in Counter(keys).items() if count > 1] == []


def test_every_measured_cell_of_a_transformer_is_joined_and_every_join_was_printed() -> None:
    # Table 4's Transformers are parsers, which no system here trains.
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


def test_both_editions_of_english_french_big_ask_for_the_same_evaluation() -> None:
    joins = [
        join
        for join in read_cells()
        if (join.system, join.metric) == ("big_enfr", "bleu_tok_moses")
    ]
    assert [find_printed(join, read_table(2)).value for join in joins] == ["41.0", "41.8"]
    assert [(join.edition, join.language_pair, join.average, join.role) for join in joins] == [
        ("neurips2017", "en-fr", "last20", "test"),
        ("arxiv", "en-fr", "last20", "test"),
    ]


def test_a_spanning_cost_answers_two_trainings() -> None:
    joins = [join for join in read_cells() if (join.row, join.metric) == ("big", "training_flops")]
    assert {(join.language_pair, join.system) for join in joins} == {
        ("en-de", "big"),
        ("en-fr", "big_enfr"),
    }
    assert {find_printed(join, read_table(2)).value for join in joins} == {"2.3e19"}


def test_sizes_are_printed_in_millions_and_nothing_else_is() -> None:
    assert {join.metric for join in read_cells() if join.printed_unit == 1_000_000} == {
        "num_parameters"
    }
    assert {join.printed_unit for join in read_cells() if join.metric != "num_parameters"} == {1}


def test_the_tables_ask_for_these_evaluations() -> None:
    assert evaluations_of("en-de", "base") == [("last1", "dev"), ("last5", "test")]
    assert evaluations_of("en-de", "big") == [("last1", "dev"), ("last20", "test")]
    assert evaluations_of("en-fr", "base") == [("last5", "test")]
    assert evaluations_of("en-fr", "big_enfr") == [("last20", "test")]
    assert evaluations_of("en-de", "revisit_tiny") == [("last10", "test")]
    for system in TABLE_3_SYSTEMS[1:-1]:
        assert evaluations_of("en-de", system) == [("last1", "dev")]


@pytest.mark.parametrize(
    ("language_pair", "system"), [("en-fr", "big"), ("en-de", "bas"), ("en-cs", "base")]
)
def test_a_system_that_no_printed_number_asks_for_is_refused(
    language_pair: str, system: str
) -> None:
    with pytest.raises(TableError, match=f"'{system}'.*'{language_pair}'"):
        evaluations_of(language_pair, system)


def test_the_replication_of_multi30k_is_the_printed_line() -> None:
    (replication,) = read_replications()
    assert (replication.value, replication.metric) == ("41.02", "bleu_as_given")
    assert replication.testset == "test_2016_flickr"
    assert (replication.corpus, replication.system, replication.average) == (
        "multi30k_revisit_en_de",
        "revisit_tiny",
        "last10",
    )
    assert (
        replication.printed_line == "Generate test with beam=5: BLEU4 = 41.02, 71.0/47.5/34.3/24.5 "
        "(BP=0.999, ratio=0.999, syslen=12096, reflen=12103)"
    )
    assert replication.value in re.findall(r"[0-9]+(?:\.[0-9]+)?", replication.printed_line)
    assert replication.num_seeds == 1
    # Four precisions and the penalty of the line give its score, within the rounding of one
    # decimal.
    geometric_mean = (71.0 * 47.5 * 34.3 * 24.5) ** 0.25
    assert geometric_mean * 0.999 == pytest.approx(41.02, abs=0.06)


@pytest.mark.parametrize("rest", [b'1,"x,layer_type\n', b"1,x,layer_type,\xff,6,both,,\n"])
def test_a_file_that_is_no_csv_is_refused(copied_folder: Path, rest: bytes) -> None:
    path = copied_folder / "table1.csv"
    path.write_bytes(path.read_bytes().split(b"\n")[0] + b"\n" + rest)
    with pytest.raises(TableError, match=str(path)):
        read_table(1, copied_folder)
