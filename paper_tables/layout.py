"""Defines a table before it has a format: columns, rows, and cells of text with marks.

`tables` and the wings lay tables out; `render` turns them into md, tex, csv and html. A table with
rows of a single kind is declared as fields, each with a column and the function that makes its
cell. Other tables give the cells of each row by column name. Our cells keep their numbers, whose
text is of `paper_tables.rounding`; `tables.ours.complete` makes notes and signatures of them. They
have a mark if the numbers were measured under other conditions than the paper's. `compact` is the
last step: it drops empty columns, leaves one mark in a row and finds the best values.

A new table of a single kind of rows, here the runs of a frame:

    fields = (
        label_field("run", "run", lambda run: run.state.run),
        our_field("updates", "updates", lambda run: text_cell(f"{run.state.update:,}", "ours")),
    )
    Table(
        name="updates",
        title="Updates",
        caption="The last update of each training.",
        columns=columns_of(fields),
        rows=rows_of(fields, frame.runs),
    )

The function that returns it takes the frame. `render.chapters.CORE_TABLES`, or the `wing.py` of a
wing, names this function, a chapter and a place. No other file changes.
"""

import itertools
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Generic, Literal, NamedTuple, TypeVar

from aiayn.printed import PAPER_SCALE, PublishedCell, printed_number
from paper_tables.frame import Number

DASH = "\u2013"
MARK_BY_SCALE = {
    "demo": "\u2020",
    "multi30k": "\u2021",
    PAPER_SCALE: "\u00a7",
}  # dagger, double dagger, section
NAME_BY_PAIR = {"en-de": "EN-DE", "en-fr": "EN-FR"}
SACRE_METRIC = "bleu_sacre_13a"
ROW_NAMES = ("model", "label")  # columns of Tables 2 and 3 whose cells name the row
Item = TypeVar("Item")
CellKind = Literal["label", "printed", "ours", "state", "blank", "formula", "spanned"]


@dataclass(frozen=True)
class Part:
    """A piece of text and the marks that follow it; `compact` sets `is_best`, shown in bold.

    `value` is the number behind the text, in full precision, where a column is compared. `spread`
    follows the text in small letters: the interval and the number of seeds.
    """

    text: str
    marks: tuple[str, ...] = ()
    is_best: bool = False
    value: float | None = None
    spread: str = ""


def anchor_of(run: str) -> str:
    """Return the anchor of the row of a run or log, in letters, digits and `-_.`."""
    return "run-" + re.sub(r"[^A-Za-z0-9_.-]+", "-", run)


@dataclass(frozen=True)
class Cell:
    """The content of a cell. Where it covers columns to its right, these have `SPANNED`.

    `numbers` are the numbers behind a cell of ours, including numbers that have no value yet. On a
    page the cell is a button that opens their runs.
    """

    parts: tuple[Part, ...]
    kind: CellKind = "printed"
    numbers: tuple[Number, ...] = ()

    @property
    def marks(self) -> tuple[str, ...]:
        """All marks in the cell."""
        return tuple(mark for part in self.parts for mark in part.marks)


SPANNED = Cell((), "spanned")


@dataclass(frozen=True)
class Column:
    """A column: its name for machines, its heading, and a heading that it shares with neighbours.

    If `better` is set, the highest or lowest printed value is bold, as in the paper, and so is the
    best of our values.
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
    """A row, with a cell for each column.

    A row with an `aside` is not shown on the page; its name and the reason are listed below the
    table. Links to the row use `anchor`. Rows of one `group` are neighbours without a rule between
    them, as the paper's (A) to (E).
    """

    cells: tuple[Cell, ...]
    side: Literal["printed", "ours"] = "printed"
    aside: Aside | None = None
    anchor: str = ""
    group: str = ""
    begins_group: bool = False


# A line below the printed row of this name: its cells by column, and its aside.
OurLine = tuple[str, Mapping[str, Cell], Aside | None]


@dataclass(frozen=True)
class Note:
    """A line below the table; it explains `mark`, if that is not ''."""

    text: str
    mark: str = ""


@dataclass(frozen=True)
class Table:
    """A whole table. `signatures` are (metric, test set, signature) of every number of ours in it.

    The page shows the columns in `first` at once, by default the first five, and the others when a
    reader asks for them. If there is a `summary`, it shows only this line until a reader opens the
    table.
    """

    name: str
    title: str
    caption: str
    columns: tuple[Column, ...]
    rows: tuple[Row, ...]
    notes: tuple[Note, ...] = ()
    signatures: tuple[tuple[str, str, str], ...] = ()
    summary: str = ""
    first: tuple[str, ...] = ()


class Field(NamedTuple, Generic[Item]):
    """A column, and the function that makes its cell from the item of a row."""

    column: Column
    cell: Callable[[Item], Cell]


def label_field(name: str, heading: str, text: Callable[[Item], str]) -> Field[Item]:
    """Return a field that shows words."""
    return Field(Column(name, heading, side="label"), lambda item: label(text(item)))


def printed_field(name: str, heading: str, text: Callable[[Item], str]) -> Field[Item]:
    """Return a field that shows printed values."""
    return Field(Column(name, heading), lambda item: text_cell(text(item)))


def our_field(
    name: str, heading: str, cell: Callable[[Item], Cell], group: str = ""
) -> Field[Item]:
    """Return a field that shows our numbers, or anything else that we add to the paper."""
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
    """Return one row per item; the field of each column makes the cell from the item."""
    rows = []
    for item in items:
        cells = tuple(field.cell(item) for field in fields)
        rows.append(Row(cells, side, aside(item)))
    return tuple(rows)


def row_by_column(
    columns: Iterable[Column], cell_by_column: Mapping[str, Cell]
) -> tuple[Cell, ...]:
    """Return the cells of a row in the order of the columns, blank where a column has no cell."""
    return tuple(cell_by_column.get(column.name, blank_cell()) for column in columns)


def spans(row: Row) -> Iterator[tuple[Cell, int, int]]:
    """Yield each cell of a row with its column's index, and the number of columns it covers."""
    starts = [index for index, cell in enumerate(row.cells) if cell is not SPANNED]
    for start, end in itertools.pairwise([*starts, len(row.cells)]):
        yield row.cells[start], start, end - start


def rows_of_printed(
    printed: Sequence[PublishedCell],
    columns: Sequence[Column],
    group_of: Callable[[str], str],
    lines: Iterable[OurLine],
    mark_by_edition: Mapping[str, str] | None = None,
    beside: Mapping[str, Mapping[str, Cell]] | None = None,
) -> tuple[Row, ...]:
    """Return every printed row of a table, each followed by the `lines` of ours that belong to it.

    `beside` has cells of ours by printed row and column. Where the editions differ, a printed cell
    has both numbers, each with its mark.
    """
    compared = {column.name for column in columns if column.better}
    parts_by_cell: dict[tuple[str, str], list[Part]] = {}
    cells_by_row: dict[str, dict[str, Cell]] = {}
    for published in printed:
        mark = (mark_by_edition or {}).get(published.edition)
        parts = parts_by_cell.setdefault((published.row, published.column), [])
        value = None
        if published.column in compared:
            value = printed_number(published.value)
        parts.append(Part(published.value, (mark,) if mark else (), value=value))
        kind: CellKind = "label" if published.column in ROW_NAMES else "printed"
        cells = cells_by_row.setdefault(published.row, {})
        cells |= dict.fromkeys(published.covered_columns, SPANNED)
        cells[published.column] = Cell(tuple(parts), kind)
    lines, rows = list(lines), []
    for name, cells in cells_by_row.items():
        group = group_of(name)
        cells.update((beside or {}).get(name, {}))
        rows.append(Row(row_by_column(columns, cells), group=group))
        for row, our_cells, aside in lines:
            if row == name:
                rows.append(Row(row_by_column(columns, our_cells), "ours", aside, group=group))
    return tuple(rows)


def marks_of(rows: Iterable[Row]) -> set[str]:
    """Return all marks in some rows."""
    return {mark for row in rows for cell in row.cells for mark in cell.marks}


def text_cell(text: str, kind: CellKind = "printed", *marks: str) -> Cell:
    """Return a cell with a single text."""
    return Cell((Part(text, marks),), kind)


def label(text: str, *marks: str) -> Cell:
    """Return a cell that names something."""
    return text_cell(text, "label", *marks)


def blank_cell() -> Cell:
    """Return an empty cell."""
    return text_cell("", "blank")


def compact(table: Table) -> Table:
    """Return the table as it is shown.

    Columns of ours without content are dropped. If the table has any number of ours, so are columns
    that only hold states (missing, not run); a note names them. A scale's mark is shown once a row.
    A note on a mark that went with its column stays, without the mark. The best values are found.
    """
    has_numbers = False
    for row in table.rows:
        has_numbers |= any(cell.kind == "ours" and cell.numbers for cell in row.cells)
    kept, waiting = [True] * len(table.columns), []
    for index, column in enumerate(table.columns if table.rows else ()):
        if column.side != "ours":
            continue
        cells = [row.cells[index] for row in table.rows]
        filled = list(itertools.filterfalse(_is_blank, cells))
        kept[index] = bool(filled)
        if filled and has_numbers and all(map(_is_waiting, filled)):
            kept[index] = False
            waiting.append(f"{column.group} {column.heading}".strip())
    rows: list[Row] = []
    for row in table.rows:
        cells_of_kept = tuple(itertools.compress(row.cells, kept))
        begins = bool(rows) and row.group != rows[-1].group
        rows.append(_marked_once(replace(row, cells=cells_of_kept, begins_group=begins)))
    marks, notes = marks_of(rows), []
    for note in table.notes:
        notes.append(note if note.mark in marks else replace(note, mark=""))
    if waiting:
        notes.append(Note(f"Left out, as no number of ours is in them: {'; '.join(waiting)}."))
    columns = tuple(itertools.compress(table.columns, kept))
    return replace(table, columns=columns, rows=_with_best(columns, rows), notes=tuple(notes))


def _is_blank(cell: Cell) -> bool:
    return text_of(cell) in ("", DASH)


def text_of(cell: Cell) -> str:
    """Return the text of all parts, without marks."""
    return "".join(part.text + part.spread for part in cell.parts)


def _is_waiting(cell: Cell) -> bool:
    """Return whether a cell has the state of its runs in place of a number."""
    return cell.kind == "state" and (bool(cell.numbers) or cell.parts[0].text == "not run")


def _marked_once(row: Row) -> Row:
    """Return the row with a scale's mark on its first cell only, if all numbers of ours have it."""
    cells = list(row.cells)
    for mark in MARK_BY_SCALE.values():
        carriers, is_on_all = [], True
        for index, cell in enumerate(cells):
            if mark in cell.marks:
                carriers.append(index)
            elif cell.kind == "ours":
                is_on_all &= text_of(cell) == ""
        for index in carriers[1:] if is_on_all else ():
            parts = []
            for part in cells[index].parts:
                parts.append(replace(part, marks=tuple(filter(mark.__ne__, part.marks))))
            cells[index] = replace(cells[index], parts=tuple(parts))
    return replace(row, cells=tuple(cells))


def _with_best(columns: Sequence[Column], rows: Sequence[Row]) -> tuple[Row, ...]:
    """Return the rows with the best printed value and our best value of each column marked.

    A column says in `better` which value is best. Ours are compared by the mean over seeds. A
    single value is not the best of anything. A cell that covers several columns counts in each of
    them, and is marked if it is best in the first.
    """
    numbers: dict[tuple[int, str], list[float]] = {}  # by column and kind
    for row in rows:
        for cell, start, num_columns in spans(row):
            for part, index in itertools.product(cell.parts, range(start, start + num_columns)):
                is_compared = columns[index].better and cell.kind in ("printed", "ours")
                if is_compared and part.value is not None:
                    numbers.setdefault((index, cell.kind), []).append(part.value)
    best = {}
    for (index, kind), values in numbers.items():
        if len(values) > 1:
            best[index, kind] = (max if columns[index].better == "higher" else min)(values)
    marked = []
    for row in rows:
        cells = list(row.cells)
        for index, cell in enumerate(cells):
            extreme = best.get((index, cell.kind))
            if extreme is not None:
                parts = [replace(part, is_best=part.value == extreme) for part in cell.parts]
                cells[index] = replace(cell, parts=tuple(parts))
        marked.append(replace(row, cells=tuple(cells)))
    return tuple(marked)
