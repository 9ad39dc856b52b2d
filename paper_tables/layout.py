"""Defines a table before it has a format: columns, rows and cells of text with marks. Only this
module rounds.

`render` turns any Table into md, tex, csv and html. A table of rows of one kind is declared as
fields, each a column with its cell; one of several kinds gives each row's cells by the names of
their columns. A cell of ours has its numbers, from which `tables.ours.complete` makes notes and
signatures; it has a mark whenever these are of another corpus, test set or scale than the paper's;
`compact` leaves one mark in a row.
"""

import itertools
import re
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Generic, Literal, NamedTuple, TypeVar

from aiayn.printed import PAPER_SCALE, PublishedCell
from aiayn.scoring.seeds import MIN_SEEDS_OF_INTERVAL, summarise_seeds
from paper_tables.frame import Number

PLUS_MINUS = "\u00b1"
DASH = "\u2013"
MARK_BY_SCALE = {
    "demo": "\u2020",
    "multi30k": "\u2021",
    PAPER_SCALE: "\u00a7",
}  # dagger, double dagger, section
GREEK = ("eps",)  # letters of headings, as eps_ls
POWER_OF_TEN = re.compile(r"(?<![\w.])([0-9.]+)e([0-9]+)(?!\w)")  # as format_value writes one
DECIMALS_BY_METRIC = {
    "num_parameters": 3,
    "training_flops": 2,
    "model_flops": 2,
}  # significant digits
FLOPS_METRICS = ("training_flops", "model_flops")
BLEU_DECIMALS = 2
BITS_DECIMALS = 3
NAME_BY_PAIR = {"en-de": "EN-DE", "en-fr": "EN-FR"}
SACRE_METRIC = "bleu_sacre_13a"
COUNT_METRICS = (
    "num_parameters",
    "steps",
    "tokens",
)  # the same with every seed, so they have no interval
SEEDS_WORDS = (
    f"mean over seeds with 95 % t-interval; of fewer than {MIN_SEEDS_OF_INTERVAL} seeds the values,"
    " in order of seed"
)

ROW_NAMES = ("model", "label")  # columns of Tables 2 and 3 whose cells name the row
Item = TypeVar("Item")
CellKind = Literal["label", "printed", "ours", "state", "blank", "formula"]


@dataclass(frozen=True)
class Part:
    """A piece of text and the marks that follow it."""

    text: str
    marks: tuple[str, ...] = ()


@dataclass(frozen=True)
class Source:
    """A training behind a number of ours: its run (or the path of its log), and what it adds to the
    number.

    `commit` and `hardware` are of the training; '' where they are not recorded.
    """

    run: str
    seed: int | None
    value: str
    commit: str = ""
    hardware: str = ""


def anchor_of(run: str) -> str:
    """Return the name, in a link, of the row of a run or of a log's path: letters, digits, and
    `-_.`.
    """
    return "run-" + re.sub(r"[^A-Za-z0-9_.-]+", "-", run)


@dataclass(frozen=True)
class CellProvenance:
    """The origin of a number of ours: what it is of, the trainings behind it, and its signature if
    it was scored.
    """

    quantity: str
    sources: tuple[Source, ...]
    signature: str = ""


@dataclass(frozen=True)
class Cell:
    """The content of a cell; `num_columns` above 1 is a span that begins in its column.

    `shows` are the numbers behind a cell of ours, also where they have no value yet.
    """

    parts: tuple[Part, ...]
    kind: CellKind = "printed"
    num_columns: int = 1
    provenance: CellProvenance | None = None
    shows: tuple[Number, ...] = ()

    @property
    def marks(self) -> tuple[str, ...]:
        """All marks in the cell."""
        return tuple(mark for part in self.parts for mark in part.marks)


@dataclass(frozen=True)
class Column:
    """A column: its name for machines, its heading, and the heading that it shares with its
    neighbours, if any.

    By `better` the highest or lowest printed value is in bold, as in the paper, and so is ours.
    """

    name: str
    heading: str
    group: str = ""
    side: Literal["label", "printed", "ours"] = "printed"
    better: Literal["", "higher", "lower"] = ""


@dataclass(frozen=True)
class Aside:
    """The name of a row without any number of ours, and the reason."""

    name: str
    reason: str


@dataclass(frozen=True)
class Row:
    """A row; its cells cover all columns.

    The page names a row that has an `aside` below the table instead of showing it. `anchor` is what
    links to it name. Neighbours of one `group` are together, as the paper's (A) to (E).
    """

    cells: tuple[Cell, ...]
    side: Literal["printed", "ours"] = "printed"
    aside: Aside | None = None
    anchor: str = ""
    group: str = ""


OurLine = tuple[
    str, Mapping[str, Cell], Aside | None
]  # below the printed row of this name: cells by column


@dataclass(frozen=True)
class Note:
    """A line below the table; `mark` is what it explains, or ''."""

    mark: str
    text: str


@dataclass(frozen=True)
class Table:
    """A whole table. `signatures` are (metric, test set, signature) of every number of ours in it.

    `summary` is the line shown on the page for a table that is folded until a reader opens it.
    """

    name: str
    title: str
    caption: str
    columns: tuple[Column, ...]
    rows: tuple[Row, ...]
    notes: tuple[Note, ...] = ()
    signatures: tuple[tuple[str, str, str], ...] = field(default=())
    summary: str = ""


class Field(NamedTuple, Generic[Item]):
    """A column, and its cell for the item of a row."""

    column: Column
    cell: Callable[[Item], Cell]


def label_field(name: str, heading: str, text: Callable[[Item], str]) -> Field[Item]:
    """Return a field of words."""
    return Field(Column(name, heading, side="label"), lambda item: label(text(item)))


def printed_field(name: str, heading: str, text: Callable[[Item], str]) -> Field[Item]:
    """Return a field of printed values."""
    return Field(Column(name, heading), lambda item: text_cell(text(item)))


def our_field(
    name: str, heading: str, cell: Callable[[Item], Cell], group: str = ""
) -> Field[Item]:
    """Return a field of ours."""
    return Field(Column(name, heading, group, "ours"), cell)


def columns_of(fields: Iterable[Field[Item]]) -> tuple[Column, ...]:
    """Return the columns of a table that is declared as fields."""
    return tuple(field.column for field in fields)


def rows_of(
    fields: Sequence[Field[Item]],
    items: Iterable[Item],
    side: Literal["printed", "ours"] = "printed",
    aside: Callable[[Item], Aside | None] = lambda item: None,
) -> tuple[Row, ...]:
    """Return a row an item; each cell is made from the item by the field of its column."""
    return tuple(
        Row(tuple(field.cell(item) for field in fields), side, aside(item)) for item in items
    )


def row_by_column(
    columns: Iterable[Column], cell_by_column: Mapping[str, Cell]
) -> tuple[Cell, ...]:
    """Return the cells of a row, each under the column of its name; a blank where there is none."""
    cells: list[Cell] = []
    names = [column.name for column in columns]
    while names:
        cells.append(cell_by_column.get(names[0], blank_cell()))
        names = names[cells[-1].num_columns :]
    return tuple(cells)


def rows_of_printed(
    printed: Sequence[PublishedCell],
    columns: Sequence[Column],
    group_of: Callable[[str], str],
    lines: Iterable[OurLine],
    mark_by_edition: Mapping[str, str] | None = None,
    beside: Mapping[str, Mapping[str, Cell]] | None = None,
) -> tuple[Row, ...]:
    """Return every printed row of a table, with ours in the cells `beside` it, and the lines of
    ours under it.
    """
    lines, rows = list(lines), []
    for name in dict.fromkeys(cell.row for cell in printed):
        cells = printed_by_column(printed, name, mark_by_edition) | dict(
            (beside or {}).get(name, {})
        )
        rows.append(Row(row_by_column(columns, cells), group=group_of(name)))
        rows += [
            Row(row_by_column(columns, our_cells), "ours", aside, group=group_of(name))
            for row, our_cells, aside in lines
            if row == name
        ]
    return tuple(rows)


def printed_by_column(
    printed: Iterable[PublishedCell], row: str, mark_by_edition: Mapping[str, str] | None = None
) -> dict[str, Cell]:
    """Return the cells of a printed row by column; where the editions differ, both numbers, each
    with its mark.
    """
    parts_by_column: dict[str, list[Part]] = {}
    num_columns: dict[str, int] = {}
    for cell in printed:
        if cell.row == row:
            mark = (mark_by_edition or {}).get(cell.edition)
            parts_by_column.setdefault(cell.column, []).append(
                Part(cell.value, (mark,) if mark else ())
            )
            num_columns[cell.column] = len(cell.covered_columns)
    return {
        name: Cell(tuple(parts), "label" if name in ROW_NAMES else "printed", num_columns[name])
        for name, parts in parts_by_column.items()
    }


def text_cell(text: str, kind: CellKind = "printed", *marks: str, num_columns: int = 1) -> Cell:
    """Return a cell of one text."""
    return Cell((Part(text, marks),), kind, num_columns)


def label(text: str, *marks: str) -> Cell:
    """Return a cell of words."""
    return text_cell(text, "label", *marks)


def blank_cell() -> Cell:
    """Return an empty cell."""
    return text_cell("", "blank")


def format_value(value: float, metric: str) -> str:
    """Return a value as it is read: BLEU and perplexity with two decimals, bits with three,
    parameters in millions.
    """
    if metric == "num_parameters":
        return format_significant(value / 1e6, DECIMALS_BY_METRIC[metric])
    if metric in FLOPS_METRICS and value > 0:
        mantissa, exponent = f"{value:.{DECIMALS_BY_METRIC[metric] - 1}e}".split("e")
        return f"{mantissa}e{int(exponent)}"
    if metric in (*FLOPS_METRICS, "steps", "tokens", "wall_seconds"):
        return f"{value:,.0f}"
    return f"{value:.{BITS_DECIMALS if metric.startswith('bits_') else BLEU_DECIMALS}f}"


def format_significant(value: float, digits: int) -> str:
    """Return a positive number below a million with so many significant digits, never in powers of
    ten.
    """
    exponent = int(f"{value:e}".split("e")[1])
    return f"{value:.{max(0, digits - 1 - exponent)}f}"


def format_difference(difference: float) -> str:
    """Return a difference in BLEU with its sign; what rounds to zero has a plus."""
    text = f"{difference:+.{BLEU_DECIMALS}f}"
    return text.replace("-", "+") if float(text) == 0 else text


def format_interval(interval: tuple[float, float]) -> str:
    """Return an interval of differences."""
    return f"{format_difference(interval[0])} to {format_difference(interval[1])}"


def format_seeds(values: Sequence[float], metric: str, num_asked: int) -> str:
    """Return the value over the seeds and their number: `27.31 +- 0.42 (n=3)` or `27.11, 27.51 (n=2
    of 3)`.
    """
    seeds = f"n={len(values)}" if len(values) == num_asked else f"n={len(values)} of {num_asked}"
    return f"{over_seeds(values, metric)} ({seeds})"


def over_seeds(
    values: Sequence[float], metric: str, show: Callable[[float, str], str] = format_value
) -> str:
    """Return mean and 95 % t-interval; of fewer than three seeds the values themselves; of counts
    no interval.

    `values` are in the order of their seeds; `show(value, metric)` writes one of them.
    """
    summary = summarise_seeds(values)
    if summary.num_seeds < MIN_SEEDS_OF_INTERVAL:
        texts = [show(value, metric) for value in values]
        return ", ".join(dict.fromkeys(texts) if metric in COUNT_METRICS else texts)
    mean = show(summary.mean, metric)
    if summary.half_width is None or metric in COUNT_METRICS:
        return mean
    return f"{mean} {PLUS_MINUS} {format_value(summary.half_width, metric)}"


def compact(table: Table) -> Table:
    """Return the table as it is shown: without columns of ours that hold nothing, a scale's mark
    once a row.

    Where there is any number of ours, columns that hold states alone (missing, not run) are only
    named in a note. A note on a mark that went with its column stays, without the mark.
    """
    cells_by_row = [  # a cell a column; one that spans columns is in its first
        [one for cell in row.cells for one in (cell, *[blank_cell()] * (cell.num_columns - 1))]
        for row in table.rows
    ]
    has_numbers = any(
        cell.kind == "ours" and cell.shows for cells in cells_by_row for cell in cells
    )
    blank, waiting = (
        [
            column.side == "ours"
            and bool(table.rows)
            and all(is_so(cells[index]) for cells in cells_by_row)
            for index, column in enumerate(table.columns)
        ]
        for is_so in (
            _is_blank,
            lambda cell: has_numbers and (_is_blank(cell) or _is_waiting(cell)),
        )
    )
    kept = [not (blank[index] or waiting[index]) for index in range(len(table.columns))]
    rows = tuple(_marked_once(_with_columns(row, kept)) for row in table.rows)
    marks = {mark for row in rows for cell in row.cells for mark in cell.marks}
    notes = [note if note.mark in marks else replace(note, mark="") for note in table.notes]
    names = (f"{one.group} {one.heading}".strip() for one in table.columns)
    named = [
        name
        for name, is_blank, is_waiting in zip(names, blank, waiting, strict=True)
        if is_waiting > is_blank
    ]
    return replace(
        table,
        columns=tuple(
            column for column, is_kept in zip(table.columns, kept, strict=True) if is_kept
        ),
        rows=rows,
        notes=(
            *notes,
            *(
                [Note("", f"Left out, as no number of ours is in them: {'; '.join(named)}.")]
                if named
                else []
            ),
        ),
    )


def _is_blank(cell: Cell) -> bool:
    return "".join(part.text for part in cell.parts) in ("", DASH)


def _is_waiting(cell: Cell) -> bool:
    """Return whether a cell has the state of its runs in place of a number."""
    return cell.kind == "state" and (bool(cell.shows) or cell.parts[0].text == "not run")


def _with_columns(row: Row, kept: Sequence[bool]) -> Row:
    """Return the row with the cells of the columns kept; one that spans others, too, becomes
    narrower.
    """
    cells, start = [], 0
    for cell in row.cells:
        num_kept = sum(kept[start : start + cell.num_columns])
        start += cell.num_columns
        if num_kept:
            cells.append(replace(cell, num_columns=num_kept))
    return replace(row, cells=tuple(cells))


def _marked_once(row: Row) -> Row:
    """Return the row with a scale's mark on its first cell alone, if all numbers of ours in it
    carry the mark.
    """
    cells = list(row.cells)
    for mark in MARK_BY_SCALE.values():
        carriers = [index for index, cell in enumerate(cells) if mark in cell.marks]
        numbers = [
            index
            for index, cell in enumerate(cells)
            if cell.kind == "ours" and any(p.text for p in cell.parts)
        ]
        if set(numbers) <= set(carriers):
            for index in carriers[1:]:
                cells[index] = _without_mark(cells[index], mark)
    return replace(row, cells=tuple(cells))


def _without_mark(cell: Cell, mark: str) -> Cell:
    parts = tuple(
        replace(part, marks=tuple(other for other in part.marks if other != mark))
        for part in cell.parts
    )
    return replace(cell, parts=parts)


def best_parts(table: Table) -> set[tuple[int, int, int]]:
    """Return (row, column, part) of the best printed value and of our best in each column with
    `better` set.

    Of ours it is the mean over seeds; one value alone is not the best of anything.
    """
    best: set[tuple[int, int, int]] = set()
    for column_index, column in enumerate(table.columns):
        found: dict[bool, list[tuple[float, tuple[int, int, int]]]] = {True: [], False: []}
        for row_index, row in enumerate(table.rows if column.better else ()):
            starts = itertools.accumulate((cell.num_columns for cell in row.cells), initial=0)
            for start, cell in zip(starts, row.cells, strict=False):
                if (
                    start <= column_index < start + cell.num_columns
                ):  # a cost printed under both languages
                    for part_index, part in enumerate(cell.parts):
                        number = _number_of(part.text)
                        if number is not None and cell.kind in ("printed", "ours"):
                            found[cell.kind == "ours"].append(
                                (number, (row_index, start, part_index))
                            )
        for values in found.values():
            if len(values) > 1:
                pick = max if column.better == "higher" else min
                extreme = pick(number for number, _ in values)
                best |= {place for number, place in values if number == extreme}
    return best


_NUMBER = re.compile(r"[-+]?[0-9][0-9,]*(?:\.[0-9]+)?(?:e[0-9]+)?")


def _number_of(text: str) -> float | None:
    """Return the number of a cell's text: a mean before its interval, or the mean of single
    values.
    """
    values = text.partition(PLUS_MINUS)[0].partition("(")[0].strip()
    found = [values] if _NUMBER.fullmatch(values) else values.split(", ")
    if not all(_NUMBER.fullmatch(one) for one in found):
        return None
    return statistics.fmean(float(one.replace(",", "")) for one in found)
