"""Defines the frame of cells that all tables are made of, and tables as selections of cells.

A line of the frame is a number or a text in a cell of a table. A cell has several lines if the two
versions of the paper have different numbers, or if a log has a BLEU in several definitions. An
empty cell has no line. The columns of the frame:

    table, row, column    the place. `row` is the name of the row, and `position` its number
    kind                  printed or ours, for example: see `CellKind`
    text, spread          rounded number or words, and interval with number of seeds
    value                 the number behind the text, in full precision, where a column is compared
    marks, is_best        marks after the text, and whether it is bold (best of its column)
    numbers               our numbers (type `Number`), including numbers without values yet
    side, group, anchor   of the row: printed or ours; rows of a group are neighbours without a rule
                          between them; links to the row use its anchor
    aside, reason         of a row that the page does not show, as nothing in it is ours: its name
                          below the table, and why

`tables` and the wings (optional packages) make the lines. A `Table` orders and selects lines, and
`render` turns a table into md, tex, csv and html. A table with rows of a single kind is declared as
a list of fields. A field is a column with the function that makes its cell. Tables with several
kinds of rows give the cells of each row by column name. `paper_tables.rounding` turns numbers into
rounded text. `tables.ours.complete` adds the notes and signatures that the numbers need. A number
has a footnote mark if it was measured under other conditions than the paper's. The function
`compact` is the last step: it drops empty columns, leaves one mark in a row, finds the best values,
and replaces keys in headings and notes by readable names.

An example of a new table, with a row for each run of a frame:

    fields = (
        label_field("run", "run", lambda run: run.status.run),
        our_field("updates", "updates", lambda run: Cell(f"{run.status.update:,}", "ours")),
    )
    Table(
        name="updates",
        title="Updates",
        caption="The last update of each training.",
        columns=columns_of(fields),
        cells=rows_of(fields, frame.runs),
    )

The table is returned by a function that takes the frame of a scale. `render.chapters.CORE_TABLES`,
or the `wing.py` of a wing, lists this function with a chapter and a place. A new table needs no
change in other files.
"""

import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Generic, Literal, NamedTuple, TypeVar
from urllib.parse import quote

import pandas as pd

from aiayn.printed import PAPER_SCALE, PublishedCell, printed_number
from paper_tables.frame import Number
from paper_tables.names import with_names

DASH = "\u2013"
MARK_BY_SCALE = {
    "demo": "\u2020",
    "multi30k": "\u2021",
    PAPER_SCALE: "\u00a7",
}  # dagger, double dagger, section
NAME_BY_PAIR = {"en-de": "EN-DE", "en-fr": "EN-FR"}
MARK_BY_EDITION = {"neurips2017": "a", "arxiv": "b"}
SACRE_METRIC = "bleu_sacre_13a"
ROW_NAMES = ("model", "label")  # the columns of Tables 2 and 3 that contain the name of the row
Item = TypeVar("Item")
# The kinds, in this order: a name, a printed value, our number, the state of its runs, a formula,
# and a column that the cell to the left covers. The templates use the kind as a CSS class.
CellKind = Literal["label", "printed", "ours", "state", "formula", "spanned", ""]
# An empty frame needs the columns, too.
CELL_COLUMNS = (
    *("table", "row", "position", "column", "kind", "text", "spread", "value", "marks", "is_best"),
    *("numbers", "side", "group", "anchor", "aside", "reason"),
)


def anchor_of(run: str) -> str:
    """Return the HTML anchor of the row of a run or log. Different names have different anchors."""
    # A path of a log may have any character. HTML ids must not contain blanks.
    return f"run-{quote(run)}"


@dataclass(frozen=True)
class Cell:
    """A number or a text, before it has a row and a column in a table."""

    text: str
    kind: CellKind = "printed"
    marks: tuple[str, ...] = ()
    value: float | None = None
    spread: str = ""
    numbers: tuple[Number, ...] = ()


CellsByColumn = Mapping[str, Cell | Sequence[Cell] | None]


@dataclass(frozen=True)
class Column:
    """A column of a table: its name for programs, its heading, and a second heading that it shares
    with neighbouring columns.

    If `better` is set, the best of the paper's values is bold, as in the paper, and the best of our
    values is bold. `better` says whether the highest or the lowest value is best.
    """

    name: str
    heading: str
    group: str = ""
    side: Literal["label", "printed", "ours"] = "printed"
    better: Literal["", "higher", "lower"] = ""


@dataclass(frozen=True)
class Note:
    """A note below a table. The note explains the footnote mark `mark`, unless `mark` is ''."""

    text: str
    mark: str = ""


def row_of(
    cells: CellsByColumn,
    row: str = "",
    side: Literal["printed", "ours"] = "printed",
    aside: tuple[str, str] | None = None,
    group: str = "",
    anchor: str = "",
) -> list[dict[str, Any]]:
    """Return the frame's lines for one row of a table. If the row is not shown in the table,
    `aside` is its name and the reason.

    In `cells`, a column may have one cell, several cells (shown as several lines of one cell), or
    None (an empty cell).
    """
    lines = []
    for column, content in cells.items():
        # `content or ()` makes an empty cell from None.
        for cell in [content] if isinstance(content, Cell) else content or ():
            lines.append(
                {
                    **vars(cell),
                    "row": row,
                    "column": column,
                    "is_best": False,
                    "side": side,
                    "group": group,
                    "anchor": anchor,
                    "aside": aside[0] if aside else "",
                    "reason": aside[1] if aside else "",
                }
            )
    return lines


def cell_frame(rows: Iterable[Sequence[Mapping[str, Any]]]) -> pd.DataFrame:
    """Return the frame of cells for the given rows. The rows are numbered in their order."""
    lines = []
    for position, row in enumerate(rows):
        lines += [{"position": position, **line} for line in row]
    return pd.DataFrame(lines, columns=list(CELL_COLUMNS))


@dataclass(frozen=True)
class Table:
    """A table: its cells as a frame, and the columns that it shows, in their order.

    `signatures` has (metric, test set, sacreBLEU signature) of every number of ours in the table.
    The page first shows only the columns in `first`, by default the first five. A reader of the
    page can switch on the other columns.
    """

    name: str
    title: str
    caption: str
    columns: tuple[Column, ...]
    cells: pd.DataFrame
    notes: tuple[Note, ...] = ()
    signatures: tuple[tuple[str, str, str], ...] = ()
    first: tuple[str, ...] = ()


class ShownCell(NamedTuple):
    """A cell of a table as the output formats need it: its lines, and the number of columns that it
    covers.
    """

    column: Column
    lines: list[Any]
    width: int = 1

    @property
    def kind(self) -> str:
        """The kind of the cell (see `CellKind`), which is `blank` if the cell is empty."""
        return self.lines[0].kind if self.lines else "blank"

    @property
    def text(self) -> str:
        """The text of all lines of the cell, without footnote marks."""
        return "".join(line.text + line.spread for line in self.lines)

    @property
    def numbers(self) -> list[Number]:
        """Our numbers in all lines of the cell."""
        return [number for line in self.lines for number in line.numbers]

    @property
    def marks(self) -> list[str]:
        """The footnote marks in all lines of the cell."""
        return [mark for line in self.lines for mark in line.marks]


def grid(table: Table) -> list[tuple[Any, list[ShownCell]]]:
    """Return the rows of a table, each as a pair: the row's first line in `table.cells`, and one
    cell for every column of the table.
    """
    # A dict keeps the order of insertion, so the rows are in the order of the frame.
    lines_by_place: dict[int, dict[str, list[Any]]] = {}
    line: Any
    for line in table.cells.itertuples():
        lines_by_place.setdefault(line.position, {}).setdefault(line.column, []).append(line)
    rows = []
    for lines_by_column in lines_by_place.values():
        cells = []
        for column in table.columns:
            cells.append(ShownCell(column, lines_by_column.get(column.name, [])))
        rows.append((next(iter(lines_by_column.values()))[0], cells))
    return rows


def spans(cells: Sequence[ShownCell]) -> list[ShownCell]:
    """Return the cells of a row, without the cells that a wider cell on their left covers."""
    # In Table 2 the training costs of the paper's models cover the columns of both languages. The
    # first column has the value, the second has the kind `spanned`. The width is the distance to
    # the next cell that is not covered.
    starts = [index for index, cell in enumerate(cells) if cell.kind != "spanned"]
    wide = []
    for start, end in itertools.pairwise([*starts, len(cells)]):
        wide.append(cells[start]._replace(width=end - start))
    return wide


class Field(NamedTuple, Generic[Item]):
    """A column of a table, with the function that makes the column's cell from the item (object) of
    a row.
    """

    column: Column
    cell: Callable[[Item], Cell | None]


def label_field(name: str, heading: str, text: Callable[[Item], str]) -> Field[Item]:
    """Return a field (column) that shows labels, such as the names of rows."""
    return Field(Column(name, heading, side="label"), lambda item: Cell(text(item), "label"))


def printed_field(name: str, heading: str, text: Callable[[Item], str]) -> Field[Item]:
    """Return a field (column) that shows the paper's values."""
    return Field(Column(name, heading), lambda item: Cell(text(item)))


def our_field(name: str, heading: str, cell: Callable[[Item], Cell | None]) -> Field[Item]:
    """Return a field (column) that shows our numbers, or anything else that is not in the paper."""
    return Field(Column(name, heading, side="ours"), cell)


def words_field(name: str, heading: str, words: Callable[[Item], str]) -> Field[Item]:
    """Return a field (column) that shows texts of ours. If the text is '', the cell is empty."""

    def cell(item: Item) -> Cell | None:
        text = words(item)
        return Cell(text, "ours") if text else None

    return our_field(name, heading, cell)


def label(text: str, *marks: str) -> Cell:
    """Return a cell that contains a name, for example of a system."""
    return Cell(text, "label", marks)


def columns_of(fields: Iterable[Field[Item]]) -> tuple[Column, ...]:
    """Return the columns of a table that is declared as fields."""
    return tuple(field.column for field in fields)


def rows_of(
    fields: Sequence[Field[Item]],
    items: Iterable[Item],
    side: Literal["printed", "ours"] = "printed",
    aside: Callable[[Item], tuple[str, str] | None] = lambda item: None,
    anchor: Callable[[Item], str] = lambda item: "",
) -> pd.DataFrame:
    """Return the frame of cells with one row per item. The field of each column makes the cell from
    the item.

    The name of a row is the text of its first field.
    """
    rows = []
    for item in items:
        cells = {field.column.name: field.cell(item) for field in fields}
        # A name is needed for `aiayn where table:row:column`.
        name = cells[fields[0].column.name]
        rows.append(
            row_of(cells, name.text if name else "", side, aside(item), anchor=anchor(item))
        )
    return cell_frame(rows)


def printed_rows(
    printed: Sequence[PublishedCell],
    columns: Sequence[Column],
    group_of: Callable[[str], str],
    ours: Mapping[str, CellsByColumn],
    below: Mapping[str, Sequence[tuple[CellsByColumn, tuple[str, str] | None]]],
) -> pd.DataFrame:
    """Return the frame of cells for a table of the paper. Each row of the paper has the paper's
    cells, our cells next to them, and separate rows of ours below.

    The keys of `ours` (our cells) and `below` (our separate rows) are rows of the paper. A row in
    `below` may have an aside, the reason why it is not shown. If the two versions of the paper have
    different numbers, the paper's cell shows the two numbers, each with a mark.
    """
    compared = {column.name for column in columns if column.better}
    cells_by_row: dict[str, dict[str, list[Cell]]] = {}
    for published in printed:
        cells = cells_by_row.setdefault(published.row, {})
        # A number is marked only if the editions print different numbers.
        mark = MARK_BY_EDITION.get(published.edition, "")
        is_name = published.column in ROW_NAMES
        # Only where values are compared: some printed cells are words.
        value = printed_number(published.value) if published.column in compared else None
        for column in published.covered_columns:
            cells.setdefault(column, []).append(Cell("", "spanned", value=value))
        # The first covered column holds the value. The columns to its right only know that they are
        # covered.
        cells[published.column][-1] = Cell(
            published.value, "label" if is_name else "printed", (mark,) if mark else (), value
        )
    rows = []
    for row, cells in cells_by_row.items():
        group = group_of(row)
        rows.append(row_of({**cells, **ours.get(row, {})}, row, group=group))
        for our_cells, aside in below.get(row, ()):
            rows.append(row_of(our_cells, row, "ours", aside, group))
    return cell_frame(rows)


def cells_of_tables(tables: Iterable[Table]) -> pd.DataFrame:
    """Return the frame of all cells of the given tables, as the tables show them."""
    return pd.concat([table.cells for table in tables], ignore_index=True)


def compact(table: Table) -> Table:
    """Return a table in the form in which it is shown to readers.

    Empty columns for our numbers are dropped. If the table has any number of ours, columns that
    contain only states (missing, not run) are dropped, too, and a note lists these columns. A row
    shows the footnote mark of a scale only once. If no cell with a mark is left, the note that
    explains it is shown without the mark. The best value of each column is marked. In caption,
    headings and notes, keys are replaced by readable names.
    """
    # A dash counts as empty, because it says that the number does not exist.
    cells = table.cells.assign(table=table.name)
    has_number = cells.numbers.map(bool).astype(bool)
    has_content = ~(cells.text + cells.spread).isin(["", DASH])
    # A cell waits for a number if it has a `Number` without values, or if its system is not run at
    # this scale.
    is_waiting = (cells.kind == "state") & (has_number | (cells.text == "not run"))
    # Before the first number, the columns of ours stay: they show what is being trained.
    has_any_of_ours = bool((has_number & (cells.kind == "ours")).any())
    columns, waiting = [], []
    for column in table.columns:
        is_filled = has_content & (cells.column == column.name)
        named = replace(column, group=with_names(column.group), heading=with_names(column.heading))
        # Printed columns always stay, so that the table can be compared with the paper's.
        if cells.empty or column.side != "ours":
            columns.append(named)
        elif is_filled.any() and has_any_of_ours and is_waiting[is_filled].all():
            waiting.append(f"{named.group} {named.heading}".strip())
        elif is_filled.any():
            columns.append(named)
    order = {column.name: index for index, column in enumerate(columns)}
    cells = cells[cells.column.isin(order)].assign(place=cells.column.map(order))
    # The sort is stable, so that several lines of one cell (two editions, several definitions) keep
    # their order.
    cells = cells.sort_values(["position", "place"], kind="stable").drop(columns="place")
    cells = _with_best(columns, _marked_once(cells))
    # The legend of a mark that no cell has would confuse a reader.
    marks, notes = set(cells.marks.explode()), []
    for note in table.notes:
        notes.append(Note(with_names(note.text), note.mark if note.mark in marks else ""))
    if waiting:
        notes.append(Note(f"Left out, as no number of ours is in them: {'; '.join(waiting)}."))
    return replace(
        table,
        caption=with_names(table.caption),
        columns=tuple(columns),
        cells=cells,
        notes=tuple(notes),
    )


def _marked_once(cells: pd.DataFrame) -> pd.DataFrame:
    """Return the frame of cells in which a row shows a scale's mark only at its first marked cell,
    if all numbers of ours in the row have this mark.
    """
    for mark in MARK_BY_SCALE.values():
        has_mark = pd.Series([mark in marks for marks in cells.marks], cells.index, dtype=bool)
        if not has_mark.any():
            continue
        row = cells.position
        # In a row where some number of ours lacks the mark, each marked number keeps its mark. A
        # single mark would seem to hold for the whole row.
        is_unlike = ~has_mark & (cells.kind == "ours") & (cells.text + cells.spread != "")
        first = cells.column.where(has_mark).groupby(row).transform("first")
        is_repeated = has_mark & (cells.column != first) & ~is_unlike.groupby(row).transform("any")
        marks = cells.marks.copy()
        for index in cells.index[is_repeated]:
            marks[index] = tuple(other for other in marks[index] if other != mark)
        cells = cells.assign(marks=marks)
    return cells


def _with_best(columns: Iterable[Column], cells: pd.DataFrame) -> pd.DataFrame:
    """Return the frame of cells in which the paper's best value and our best value of each column
    are marked.

    `better` of a column says which value is best. Our numbers are compared by the mean over seeds.
    A single value in a column is not marked. A cell of the paper that covers several columns counts
    in each of these columns, and is marked if it is best in the first of these columns.
    """
    # A spanned cell has the value of the cell that covers it, so it is compared in its own column,
    # too.
    is_best = cells.is_best.copy()
    for column in columns:
        for kinds in (("printed", "spanned"), ("ours",)) if column.better else ():
            values = cells.value[(cells.column == column.name) & cells.kind.isin(kinds)].dropna()
            # With one value nothing was compared, so nothing is bold.
            if len(values) > 1:
                best = values.max() if column.better == "higher" else values.min()
                is_best |= cells.index.isin(values.index[values == best])
    return cells.assign(is_best=is_best)
