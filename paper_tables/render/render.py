"""Turns a laid-out table into Markdown, CSV or HTML (`latex` turns it into LaTeX).

Renderers do not round or omit anything. A cell that spans columns is one cell in LaTeX and HTML.
Markdown and CSV have no spans, so the cell is followed by `(spanned)` in the other columns.
"""

import csv
import io
import re
from collections.abc import Callable, Collection, Sequence
from html import escape
from itertools import groupby

from aiayn.terminal import entries, table
from paper_tables.latex import render_latex
from paper_tables.layout import (
    GREEK,
    PLUS_MINUS,
    POWER_OF_TEN,
    Cell,
    CellKind,
    CellProvenance,
    Column,
    Part,
    Row,
    Table,
    anchor_of,
)

SPANNED = "(spanned)"
LONG_CELL = 40  # characters; a longer cell is made wide and wraps, so that its row is not tall
MAX_NOTES = 3  # if a table of a page has more notes, they are folded
_BEFORE_SPREAD = re.compile(rf" (?={PLUS_MINUS}|\(n=)")  # interval and seeds get their own line
_SYMBOL = re.compile(r"^(?P<base>[A-Za-z]+)_(?P<index>[a-z]+)$")
_EXPONENT = re.compile(r"\^([0-9]+)")
NUMBER_KINDS: tuple[CellKind, ...] = ("printed", "ours")


def render_markdown(table: Table) -> str:
    """Return a pipe table between its title and its notes."""
    headings = []
    for column in table.columns:
        group = f"{column.group}: " if column.group else ""
        headings.append(group + column.heading)
    sides = ("---" if column.side == "label" else "---:" for column in table.columns)
    lines = [f"## {table.title}", "", _escape_markdown(table.caption), ""]
    lines += [_markdown_line(headings), f"|{'|'.join(sides)}|"]
    lines += [_markdown_line(_flat_texts(row)) for row in table.rows]
    if table.notes:
        lines.append("")
    for note in table.notes:
        mark = f"[{note.mark}] " if note.mark else ""
        lines.append(f"- {mark}{_escape_markdown(note.text)}")
    if table.signatures:
        lines += ["", "Signatures:", ""]
    for metric, testset, signature in table.signatures:
        lines.append(f"- {metric}, {testset}: `{signature}`")
    return "\n".join(lines) + "\n"


def _markdown_line(texts: list[str]) -> str:
    return "| " + " | ".join(map(_escape_markdown, texts)) + " |"


def _escape_markdown(text: str) -> str:
    return re.sub(r"([\\|*`<])", r"\\\1", " ".join(text.split()))


def _flat_texts(row: Row) -> list[str]:
    """Return one text per column, with marks in brackets after the part that they belong to."""
    texts: list[str] = []
    for cell in row.cells:
        texts += [plain_text(cell), *[SPANNED] * (cell.num_columns - 1)]
    return texts


def plain_text(cell: Cell) -> str:
    """Return a cell as one line of text."""
    pieces = []
    for part in cell.parts:
        marks = [f"[{mark}]" for mark in part.marks]
        pieces.append(" ".join(filter(None, (part.text, *marks))))
    return " / ".join(pieces)


def render_csv(table: Table) -> str:
    """Return a header and one line per row; the last column explains the marks of the row."""
    text_by_mark = {note.mark: note.text for note in table.notes if note.mark}
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow([*(column.name for column in table.columns), "marks"])
    for row in table.rows:
        marks = dict.fromkeys(mark for cell in row.cells for mark in cell.marks)
        explained = "; ".join(f"[{mark}] {text_by_mark.get(mark, '')}".strip() for mark in marks)
        writer.writerow([*_flat_texts(row), explained])
    return stream.getvalue()


def render_text(laid_out: Table) -> str:
    """Return the rows with a number of ours for a terminal: a row a column, a column a line.

    Table 2 has too many columns for the width of a terminal, and few of its rows are ours.
    """
    rows = []
    for row in laid_out.rows:
        if "ours" in {cell.kind for cell in row.cells}:
            rows.append(row)
    names = [f"{column.group} {column.heading}".strip() for column in laid_out.columns]
    lines = [[name] for name in names]
    for row in rows:
        # A printed cost that spans both languages is repeated.
        cells = (cell for cell in row.cells for _ in range(cell.num_columns))
        for line, cell in zip(lines, cells, strict=True):
            line.append(plain_text(cell))
    lines[0][0] = laid_out.title
    marks = {mark for row in rows for cell in row.cells for mark in cell.marks}
    notes = [(f"[{note.mark}]", note.text) for note in laid_out.notes if note.mark in marks]
    return "\n".join([*table(lines, num_headings=1), *entries(notes)]) + "\n"


class Popovers:
    """The provenance of the numbers of a page: each is written once, however many cells open it."""

    def __init__(self) -> None:
        self._number_by_provenance: dict[CellProvenance, int] = {}

    def button(self, provenance: CellProvenance, content: str, *, is_rows: bool = False) -> str:
        """Return a cell's content as a button that opens its provenance.

        `is_rows` says that the provenance belongs to the whole row.
        """
        number = self._number_by_provenance.setdefault(
            provenance, len(self._number_by_provenance) + 1
        )
        origin = f"{provenance.quantity}: {provenance.sources[0].run}"
        if len(provenance.sources) > 1:
            origin += f" and {len(provenance.sources) - 1} more"
        title = escape(f"{origin}. Open for commit, seed, hardware and signature.")
        classes = "from row" if is_rows else "from"
        target = f'popovertarget="from-{number}"'
        return (
            f'<button type="button" class="{classes}" {target} title="{title}">{content}</button>'
        )

    def render(self, anchors: Collection[str]) -> str:
        """Return every provenance that a button opens; runs with a row in `anchors` link to it."""
        return "".join(
            _popover(number, provenance, anchors)
            for provenance, number in self._number_by_provenance.items()
        )


def _popover(number: int, provenance: CellProvenance, anchors: Collection[str]) -> str:
    items = []
    for source in provenance.sources:
        name, anchor = f"<code>{escape(source.run)}</code>", anchor_of(source.run)
        if anchor in anchors:
            name = f'<a href="#{anchor}">{name}</a>'
        details = []
        if source.seed is not None:
            details.append(f"seed {source.seed}")
        if source.commit:
            details.append(f"commit <code>{escape(source.commit)}</code>")
        if source.hardware:
            details.append(escape(source.hardware))
        items.append(f"<li><b>{escape(source.value)}</b> {name}<br>{', '.join(details)}</li>\n")
    signature = ""
    if provenance.signature:
        signature = f"<p>Signature: <code>{escape(provenance.signature)}</code></p>\n"
    return (
        f'<div popover id="from-{number}"'
        f' class="provenance">\n<p><b>{escape(provenance.quantity)}</b></p>\n'
        f"<ul>\n{''.join(items)}</ul>\n{signature}</div>\n"
    )


def render_html(table: Table) -> str:
    """Return a `section` with the table, caption, legend and signatures, for `page.wrap_page`."""
    return (
        f'<section id="{table.name}">\n<h2>{escape(table.title)}</h2>\n'
        f'<p class="caption">{escape(table.caption)}</p>\n'
        f"{_html_table(table, None)}</section>\n"
    )


def render_html_part(table: Table, popovers: Popovers, *, is_sortable: bool = False) -> str:
    """Return a table as a part of a page, below a heading of level 3.

    Numbers of ours open their provenance. Rows with an aside are listed below the table, by reason;
    if all rows have an aside, the list is shown without the table. A table with a `summary` is
    folded under it.
    """
    asides = _html_asides(table)
    body = f'<p class="caption">{escape(table.caption)}</p>\n'
    body += _html_table(table, popovers, is_sortable=is_sortable) + asides
    if table.summary:
        body = (
            "<details"
            f' class="folded">\n<summary>{escape(table.summary)}</summary>\n{body}</details>\n'
        )
    if all(row.aside is not None for row in table.rows):
        unmarked = (note.text for note in table.notes if not note.mark)
        text = next(unmarked, "Nothing of it was run.")
        body = asides or f'<p class="aside">{escape(text)}</p>\n'
    return f'<section id="{table.name}">\n<h3>{escape(table.title)}</h3>\n{body}</section>\n'


def _html_asides(table: Table) -> str:
    """Return a line for each reason of an aside, with the names of its rows."""
    names_by_reason: dict[str, list[str]] = {}
    for row in table.rows:
        if row.aside is not None:
            names_by_reason.setdefault(row.aside.reason, []).append(row.aside.name)
    lines = []
    for reason, names in names_by_reason.items():
        text = f"{escape(reason)}: {escape(names[0])}."
        if len(names) > 1:
            items = "".join(f"<li>{escape(name)}</li>\n" for name in names)
            summary = f"<summary>{escape(reason)}: {len(names)} lines</summary>"
            text = f"<details>{summary}\n<ul>\n{items}</ul></details>"
        lines.append(f'<div class="aside">{text}</div>\n')
    return "".join(lines)


def _html_table(table: Table, popovers: Popovers | None, *, is_sortable: bool = False) -> str:
    """Return the table itself, its notes and its signatures; on a page without rows with an aside.

    On a page (with `popovers`) many notes are folded, except the legends of marks.
    """
    opening = '<div class="scroll">\n<table>'
    if popovers is not None:  # a reader who scrolls by keyboard must reach it and hear its name
        title = escape(table.title)
        attribute = " class=sortable" if is_sortable else ""
        opening = (
            f'<div class="scroll" role="region" aria-label="{title}" tabindex="0">\n'
            f"<table{attribute}>\n<caption>{title}</caption>"
        )
    rows = []
    for index, row in enumerate(table.rows):
        if popovers is None or row.aside is None:
            begins = index > 0 and row.group != table.rows[index - 1].group
            rows.append(_html_row(row, table.columns, popovers, begins_group=begins))
    body = "\n".join(rows)
    text = (
        f"{opening}\n<thead>\n{_html_head(table.columns)}\n</thead>\n"
        f"<tbody>\n{body}\n</tbody>\n</table>\n</div>\n"
    )
    items = [
        (note.mark, f"<li>{_html_mark(note.mark)} {escape(note.text)}</li>\n")
        for note in table.notes
    ]
    folded = [item for mark, item in items if not mark]
    if popovers is not None and len(items) > MAX_NOTES and len(folded) > 1:
        items = [(mark, item) for mark, item in items if mark]  # legends of marks stay in sight
    else:
        folded = []
    if items:
        text += f'<ul class="notes">\n{"".join(item for _, item in items)}</ul>\n'
    if folded:
        text += _details(f"{len(folded)} notes", folded)
    if table.signatures:
        text += _details(
            "Signatures",
            [
                f"<li>{escape(metric)}, {escape(testset)}: <code>{escape(signature)}</code></li>\n"
                for metric, testset, signature in table.signatures
            ],
        )
    return text


def _details(summary: str, items: Sequence[str]) -> str:
    return f"<details>\n<summary>{summary}</summary>\n<ul>\n{''.join(items)}</ul>\n</details>\n"


def _html_head(columns: tuple[Column, ...]) -> str:
    headings = "".join(
        f'<th scope="col" class="{column.side}">{_html_heading(column.heading)}</th>'
        for column in columns
    )
    if not any(column.group for column in columns):
        return f"<tr>{headings}</tr>"
    groups = "".join(
        f'<th scope="colgroup" colspan="{len(list(members))}" class="group">{escape(group)}</th>'
        for group, members in groupby(columns, key=lambda column: column.group)
    )
    return f"<tr>{groups}</tr>\n<tr>{headings}</tr>"


def _html_heading(heading: str) -> str:
    symbol = _SYMBOL.match(heading)
    if symbol:
        base = "&epsilon;" if symbol["base"] in GREEK else symbol["base"]
        return f"<i>{base}</i><sub>{symbol['index']}</sub>"
    return escape(heading).replace("x10^6", "&times; 10<sup>6</sup>")


def _html_row(
    row: Row, columns: Sequence[Column], popovers: Popovers | None, *, begins_group: bool
) -> str:
    """Return a row; with `popovers` each number of ours opens its provenance, or else its row's."""
    provenances = (cell.provenance for cell in row.cells if cell.provenance is not None)
    row_provenance = next(provenances, None)
    anchor = f' id="{row.anchor}"' if row.anchor and popovers is not None else ""
    cells: list[str] = []
    column_index = 0
    for cell in row.cells:
        classes: list[str] = [
            columns[column_index].side if row.side == "printed" else "ours",
            cell.kind,
        ]
        if sum(len(part.text) for part in cell.parts) > LONG_CELL:
            classes.append("long")
        span = f' colspan="{cell.num_columns}"' if cell.num_columns > 1 else ""
        text = " / ".join(_html_part(part, cell.kind) for part in cell.parts)
        provenance = cell.provenance
        if provenance is None and cell.kind == "ours":
            provenance = row_provenance
        if popovers is not None and provenance is not None and text:
            text = popovers.button(provenance, text, is_rows=cell.provenance is None)
        tag, scope = ("td", "") if cells else ("th", " scope='row'")
        names = " ".join(dict.fromkeys(classes))
        cells.append(f'<{tag}{scope} class="{names}"{span}>{text}</{tag}>')
        column_index += cell.num_columns
    begins = " begins" if begins_group else ""
    return f'<tr class="{row.side}{begins}"{anchor}>' + "".join(cells) + "</tr>"


def _html_part(part: Part, kind: CellKind) -> str:
    text, spread = escape(part.text), ""
    if kind in NUMBER_KINDS:
        text = POWER_OF_TEN.sub(r"\1&middot;10<sup>\2</sup>", text)
        text, *words = _BEFORE_SPREAD.split(text, maxsplit=1)
        spread = "".join(f"<small>{word}</small>" for word in words)
    elif kind == "formula":
        text = _EXPONENT.sub(r"<sup>\1</sup>", text).replace(" * ", "&middot;")
        text = text.replace("log_k", "log<sub>k</sub>")
    else:
        text = text.replace("_", "_<wbr>")  # where a long name may be broken
    text += "".join(map(_html_mark, part.marks)) + spread
    return f"<b>{text}</b>" if part.is_best else text


def _html_mark(mark: str) -> str:
    return f"<sup>{escape(mark)}</sup>" if mark else ""


RENDERER_BY_SUFFIX: dict[str, Callable[[Table], str]] = {
    "md": render_markdown,
    "tex": render_latex,
    "csv": render_csv,
    "html": render_html,
}
