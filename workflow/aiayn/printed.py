"""Reads the numbers in the paper and in publications of others from paper_tables/published/*.csv,
as typed rows.

README.md in paper_tables/published/ describes all of its files. This module reads four kinds of
files:

* `table1.csv` to `table3.csv`: every cell of the paper's Tables 1 to 3. `columns.csv` lists the
  columns of these tables. Values are strings, to keep the digits as they are in the paper.
* `cells.csv`: the cells of the paper's tables for which our runs have a number, each with the
  language pair, system, average, role (use of the test set) and metric of this number.
* `replications.csv`: numbers that others published for smaller models or corpora. One of our
  configs repeats the conditions of each number.
* `sentences.csv`: translations of single sentences that others published. One of our configs
  repeats the conditions of each translation.

This module imports only small packages (csv, msgspec), because `aiayn.experiment` uses it and must
load fast.
"""

import csv
import functools
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Literal, TypeVar

import msgspec

from aiayn.errors import TableError
from aiayn.paths import CellKey, num_averaged
from aiayn.spec.system import TABLES_FOLDER

PUBLISHED_FOLDER = TABLES_FOLDER / "published"
# The place where a number is printed, by edition. '' means a different paper.
EDITION_WORDS = {
    "both": "both editions",
    "neurips2017": "NeurIPS 2017",
    "arxiv": "arXiv v5 and later",
    "": "published",
}
# The conditions of the paper's numbers.
PAPER_SCALE = "paper"
PAPER_CORPUS_BY_LANGUAGE_PAIR = {"en-de": "wmt14_en_de", "en-fr": "wmt14_en_fr"}  # section 5.1
PAPER_TESTSET_BY_ROLE = {"dev": "newstest2013", "test": "newstest2014"}  # sections 6.1 and 6.2
# A P100 only has this precision (section 5.2), and the paper counts the cost in single precision
# (section 6.1, footnote 5).
PAPER_PRECISION = "fp32"
# A test compares it with cells.csv.
METRIC_BY_PAIR = {"en-de": "bleu_tok_compound_split", "en-fr": "bleu_tok_moses"}
PERPLEXITY_METRIC = "ppl_per_subword"
# Rows of Table 3, variants and architectures are compared with this system, by this average and on
# the test set of this role.
REFERENCE_SYSTEM = "base"
COMPARED_AVERAGE, COMPARED_ROLE = "last1", "dev"
BASELINE_ROLE = "test"
VALUE_BY_SUFFIX = {"": 1.0, "K": 1000.0}  # Table 3 prints train steps as 100K and 300K

Edition = Literal["neurips2017", "arxiv", "both"]
LanguagePair = Literal["en-de", "en-fr"]
Average = Literal["last1", "last5", "last10", "last20"]
Role = Literal["dev", "test"]
Metric = Literal[
    "bleu_tok_compound_split",
    "bleu_tok_moses",
    "bleu_as_given",
    "ppl_per_subword",
    "num_parameters",
    "training_flops",
    "steps",
]
Text = Annotated[str, msgspec.Meta(min_length=1)]
_Count = Annotated[int, msgspec.Meta(ge=1)]


class PublishedColumn(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A column of a table in the paper: its name in this project, its heading in the paper, and its
    kind.

    A column has one of these kinds: `label` (the name of the row), `symbolic` (a formula, in Table
    1), `setting` (a hyper-parameter) or `measured` (a result).
    """

    table: int
    name: Text
    heading: str
    kind: Literal["label", "symbolic", "setting", "measured"]


class PublishedCell(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A cell of a table in the paper.

    If a cell covers several columns or rows of the table, `column` and `row` are the first of them,
    and `span` contains all of them.
    """

    table: int
    row: Text
    column: Text
    value: Text
    page: _Count
    edition: Edition
    span: str
    note: str

    @property
    def covered_columns(self) -> tuple[str, ...]:
        """The columns that this cell covers: the columns in `span`, or only its own column."""
        names = tuple(self.span.split())
        return names if self.column in names else (self.column,)


class CellJoin(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Connects a cell of a table in the paper with our evaluation of a system. The number 1 in this
    cell means `printed_unit` in our metric, such as 1,000,000 parameters.
    """

    table: int
    row: Text
    column: Text
    edition: Edition
    language_pair: LanguagePair
    system: Text
    average: Average
    role: Role
    metric: Metric
    printed_unit: _Count


class RepeatedRow(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A training of other authors that one of our configs repeats, and how this training is
    evaluated.

    A config may list the name `row` of this training under the key `replications`.
    """

    row: Text
    corpus: Text
    language_pair: Literal["en-de", "en-fr", "en-es"]
    system: Text
    average: Average
    role: Role
    testset: Text

    @property
    def key(self) -> CellKey:
        """Return the `CellKey` of our evaluation with which the published number or sentence is
        compared.
        """
        return CellKey(**{name: getattr(self, name) for name in CellKey.__struct_fields__})


class PublishedReplication(RepeatedRow, frozen=True, kw_only=True):
    """A number that others published, its source, and the conditions that our config repeats."""

    metric: Metric
    value: Text
    printed_line: Text
    source_repository: Text
    source_commit: Annotated[str, msgspec.Meta(pattern="^[0-9a-f]{40}$")]
    source_path: Text
    paper: Text
    num_seeds: _Count
    conditions: Text


class PublishedSentence(RepeatedRow, frozen=True, kw_only=True):
    """A sentence that others translated. `program_output` is the translation that their program
    printed.
    """

    sentence: Text
    program_output: Text
    program_run: Text
    source_repository: Text
    source_commit: Annotated[str, msgspec.Meta(pattern="^[0-9a-f]{40}$")]
    source_path: Text
    article: Text


def printed_number(value: str) -> float:
    """Return the number that a string in the paper stands for, such as 100,000 for 100K.

    A unit in the heading of the column (10^6) is not applied.

    Raises:
        TableError: if the string is not a plain number.
    """
    match = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?(?:e[0-9]+)?)(K?)", value)
    if match is None:
        raise TableError(
            f"a printed cell: {value!r} is not a number as printed (27.3, 3.3e18, 100K); compare"
            " with the paper"
        )
    return float(match[1]) * VALUE_BY_SUFFIX[match[2]]


_AnyRow = TypeVar("_AnyRow", bound=msgspec.Struct)


def read_rows(path: Path, row_type: type[_AnyRow]) -> list[tuple[str, _AnyRow]]:
    """Return (file and line number, row) for each line of a CSV file after the header.

    The header must contain the fields of `row_type` in the same order. Whole numbers are parsed,
    and every other value stays a string. This function does not compare the lines with each other
    or with other files, because tests do this.

    Raises:
        TableError: if the file is absent or malformed. The message contains the file and the line.
    """
    expected_header = list(row_type.__struct_fields__)
    placed_rows: list[tuple[str, _AnyRow]] = []
    try:
        with path.open(encoding="utf-8", newline="\n") as lines:
            reader = csv.reader(lines, strict=True)
            header = next(reader, [])
            if header != expected_header:
                raise TableError(f"{path}:1: header is {header}; expected {expected_header}")
            for values in reader:
                location = f"{path}:{reader.line_num}"
                # `strict=False`, because the number of fields is checked below with a better
                # message.
                value_by_field = dict(zip(header, values, strict=False))
                if len(values) != len(header):
                    raise TableError(
                        f"{location}: {len(values)} fields; expected {len(header)}; quote a value"
                        " that holds a comma"
                    )
                try:  # not strict: a CSV file holds strings only
                    row = msgspec.convert(value_by_field, row_type, strict=False)
                    placed_rows.append((location, row))
                except msgspec.ValidationError as error:
                    hint = "published/README.md says what is allowed"
                    raise TableError(f"{location}: {error}, in {value_by_field}; {hint}") from error
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise TableError(
            f"{path}: not a readable UTF-8 CSV file ({error}); restore it from the repository"
        ) from error
    # An empty file would silently remove a table.
    if not placed_rows:
        raise TableError(f"{path}: holds a header and no rows; restore it from the repository")
    return placed_rows


def _rows(path: Path, row_type: type[_AnyRow]) -> list[_AnyRow]:
    return [row for _, row in read_rows(path, row_type)]


@functools.cache
def read_columns() -> dict[int, list[PublishedColumn]]:
    """Return the columns of each table in the paper, in the order of the paper."""
    columns_by_table: dict[int, list[PublishedColumn]] = {}
    for column in _rows(PUBLISHED_FOLDER / "columns.csv", PublishedColumn):
        columns_by_table.setdefault(column.table, []).append(column)
    return columns_by_table


@functools.cache  # called for each row. The files do not change during a command
def read_table(number: int) -> list[PublishedCell]:
    """Return every cell of the paper's Table `number` (1 to 3), in the order of the paper."""
    return _rows(PUBLISHED_FOLDER / f"table{number}.csv", PublishedCell)


@functools.cache
def read_cells() -> list[CellJoin]:
    """Return all connections of a cell in the paper with our evaluation, in the paper's order."""
    return _rows(PUBLISHED_FOLDER / "cells.csv", CellJoin)


def read_replications() -> list[PublishedReplication]:
    """Return the numbers that others published for smaller models or corpora."""
    return _rows(PUBLISHED_FOLDER / "replications.csv", PublishedReplication)


def read_sentences() -> list[PublishedSentence]:
    """Return the sentences that others translated, in the order of sentences.csv."""
    return _rows(PUBLISHED_FOLDER / "sentences.csv", PublishedSentence)


def find_printed(join: CellJoin, cells: Iterable[PublishedCell]) -> PublishedCell:
    """Return the cell in the paper to which `join` refers. `cells` are all cells of the table with
    this cell.

    Raises:
        TableError: if the cell is missing in the version of the paper (NeurIPS or arXiv) to which
            `join` refers.
    """
    for cell in cells:
        # A value that spans several columns is printed once, and each of them may be joined to it.
        is_same_row = (cell.row, cell.edition) == (join.row, join.edition)
        if is_same_row and join.column in cell.covered_columns:
            return cell
    raise TableError(
        f"cells.csv: Table {join.table}, edition {join.edition}, prints nothing at row {join.row},"
        f" column {join.column}; expected a line of table{join.table}.csv with exactly these"
    )


def evaluations_of(language_pair: str, system: str) -> list[tuple[str, str]]:
    """Return how a system is evaluated in the paper's tables or in a replication: (average, role)
    pairs, fewest averaged checkpoints first. The role is what the test set is used for.

    For En-De base the result is [("last1", "dev"), ("last5", "test")]. The first pair is for Table
    3, and the second is for Table 2.

    Raises:
        TableError: if neither the paper nor a replication has a number for this system in this
            language pair.
    """
    evaluations = _evaluations_by_system().get((language_pair, system))
    if evaluations is None:
        names = sorted(name for pair, name in _evaluations_by_system() if pair == language_pair)
        raise TableError(
            f"{system!r} in {language_pair!r}: no printed number belongs to it; expected one of:"
            f" {', '.join(names) or 'none'}; join it in {PUBLISHED_FOLDER.name}/cells.csv or"
            f" {PUBLISHED_FOLDER.name}/replications.csv"
        )
    return sorted(evaluations, key=lambda evaluation: (num_averaged(evaluation[0]), evaluation[1]))


def is_asked_for(language_pair: str, system: str) -> bool:
    """Return whether the paper or a listed replication has a number for a system in a language
    pair.
    """
    return (language_pair, system) in _evaluations_by_system()


@functools.cache  # called for every training. The files do not change during a command
def _evaluations_by_system() -> dict[tuple[str, str], set[tuple[str, str]]]:
    """Return the (average, role) pairs by (language pair, system).

    The pairs come from cells.csv, replications.csv and sentences.csv.
    """
    evaluations_by_system: dict[tuple[str, str], set[tuple[str, str]]] = {}
    rows: list[CellJoin | RepeatedRow] = [*read_cells(), *read_replications(), *read_sentences()]
    for row in rows:
        evaluations = evaluations_by_system.setdefault((row.language_pair, row.system), set())
        evaluations.add((row.average, row.role))
    return evaluations_by_system


def require_unique(placed_keys: Iterable[tuple[str, tuple[str, ...]]]) -> None:
    """Raise an error if a line of a CSV file has the same key as an earlier line. `placed_keys` are
    pairs of a line's position and its key.
    """
    place_by_key: dict[tuple[str, ...], str] = {}
    for location, key in placed_keys:
        earlier_place = place_by_key.setdefault(key, location)
        if earlier_place != location:
            raise TableError(
                f"{location}: {', '.join(filter(None, key))} is also at {earlier_place}; delete one"
            )
