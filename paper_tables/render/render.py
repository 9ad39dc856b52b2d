"""Turns a laid-out table into Markdown, CSV or HTML (`latex` turns it into LaTeX).

Renderers do not round or omit anything. A cell that spans columns is one cell in LaTeX and HTML.
Markdown and CSV have no spans, so the cell is followed by `(spanned)` in the other columns.
"""

import csv
import io
import re
from collections.abc import Callable, Collection, Iterable, Sequence
from html import escape
from itertools import groupby

from aiayn.terminal import entries, table
from paper_tables.latex import render_latex
from paper_tables.layout import (
    GREEK,
    PLUS_MINUS,
    POWER_OF_TEN,
    SPANNED,
    Cell,
    CellKind,
    CellProvenance,
    Column,
    Part,
    Row,
    Table,
    anchor_of,
    marks_of,
    spans,
    text_of,
)

LONG_CELL = 40  # characters; a longer cell is made wide and wraps, so that its row is not tall
MAX_NOTES = 3  # if a table of a page has more notes, they are folded
_BEFORE_SPREAD = re.compile(rf" (?={PLUS_MINUS}|\(n=)")  # interval and seeds get their own line
_SYMBOL = re.compile(r"^(?P<base>[A-Za-z]+)_(?P<index>[a-z]+)$")
_EXPONENT = re.compile(r"\^([0-9]+)")
NUMBER_KINDS: tuple[CellKind, ...] = ("printed", "ours")


def render_markdown(table: Table) -> str:
    """Return a pipe table between its title and its notes."""
    headings, sides = [], []
    for column in table.columns:
        group = f"{column.group}: " if column.group else ""
        headings.append(group + column.heading)
        sides.append("---" if column.side == "label" else "---:")
    lines = [f"## {table.title}", "", _escape_markdown(table.caption), ""]
    lines += [_markdown_line(headings), f"|{'|'.join(sides)}|"]
    for row in table.rows:
        lines.append(_markdown_line(map(plain_text, row.cells)))
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


def _markdown_line(texts: Iterable[str]) -> str:
    return "| " + " | ".join(map(_escape_markdown, texts)) + " |"


def _escape_markdown(text: str) -> str:
    return re.sub(r"([\\|*`<])", r"\\\1", " ".join(text.split()))


def plain_text(cell: Cell) -> str:
    """Return a cell as one line of text, with marks in brackets after the part they belong to."""
    if cell is SPANNED:
        return "(spanned)"
    pieces = []
    for part in cell.parts:
        marks = map("[{}]".format, part.marks)
        pieces.append(" ".join(filter(None, (part.text, *marks))))
    return " / ".join(pieces)


def render_csv(table: Table) -> str:
    """Return a header and one line per row; the last column explains the marks of the row."""
    text_by_mark = {note.mark: note.text for note in table.notes if note.mark}
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow([*(column.name for column in table.columns), "marks"])
    for row in table.rows:
        explained: dict[str, None] = {}
        for cell in row.cells:
            for mark in cell.marks:
                explained[f"[{mark}] {text_by_mark.get(mark, '')}".strip()] = None
        writer.writerow([*map(plain_text, row.cells), "; ".join(explained)])
    return stream.getvalue()


def render_text(laid_out: Table) -> str:
    """Return the rows with a number of ours for a terminal: a row a column, a column a line.

    Table 2 has too many columns for the width of a terminal, and few of its rows are ours.
    """
    rows = []
    for row in laid_out.rows:
        if any(cell.kind == "ours" for cell in row.cells):
            rows.append(row)
    if not rows:
        return f"{laid_out.title}: no number of ours\n"
    if laid_out.title.endswith("from logs"):  # there the printed numbers are in rows of their own
        printed = [row for row in laid_out.rows if "Transformer" in plain_text(row.cells[0])]
        rows = [*printed, *rows]
    lines = []
    for column in laid_out.columns:
        lines.append([f"{column.group} {column.heading}".strip()])
    for row in rows:
        for cell, start, num_columns in spans(row):
            # A printed cost that spans both languages is repeated.
            for line in lines[start : start + num_columns]:
                line.append(plain_text(cell))
    lines[0][0] = laid_out.title
    notes, marks = [], marks_of(rows)
    for note in laid_out.notes:
        if note.mark in marks:
            notes.append((f"[{note.mark}]", note.text))
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
        popovers = []
        for provenance, number in self._number_by_provenance.items():
            popovers.append(_popover(number, provenance, anchors))
        return "".join(popovers)


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
        texts = [note.text for note in table.notes if not note.mark]
        text = texts[0] if texts else "Nothing of it was run."
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
    num_plain = sum(not note.mark for note in table.notes)
    is_folding = popovers is not None and len(table.notes) > MAX_NOTES and num_plain > 1
    items: list[str] = []
    folded: list[str] = []
    signatures = []
    for note in table.notes:
        item = f"<li>{_html_mark(note.mark)} {escape(note.text)}</li>\n"
        # Legends of marks stay in sight.
        (folded if is_folding and not note.mark else items).append(item)
    if items:
        text += f'<ul class="notes">\n{"".join(items)}</ul>\n'
    if folded:
        text += _details(f"{len(folded)} notes", folded)
    for metric, testset, signature in table.signatures:
        name = f"{escape(metric)}, {escape(testset)}"
        signatures.append(f"<li>{name}: <code>{escape(signature)}</code></li>\n")
    if signatures:
        text += _details("Signatures", signatures)
    return text


def _details(summary: str, items: Sequence[str]) -> str:
    return f"<details>\n<summary>{summary}</summary>\n<ul>\n{''.join(items)}</ul>\n</details>\n"


def _html_head(columns: tuple[Column, ...]) -> str:
    groups = headings = ""
    for group, members in groupby(columns, key=lambda column: column.group):
        shared = list(members)
        groups += f'<th scope="colgroup" colspan="{len(shared)}" class="group">{escape(group)}</th>'
        for column in shared:
            heading = _html_heading(column.heading)
            headings += f'<th scope="col" class="{column.side}">{heading}</th>'
    if not any(column.group for column in columns):
        return f"<tr>{headings}</tr>"
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
    provenances = [cell.provenance for cell in row.cells if cell.provenance is not None]
    row_provenance = provenances[0] if provenances else None
    anchor = f' id="{row.anchor}"' if row.anchor and popovers is not None else ""
    cells: list[str] = []
    for cell, start, num_columns in spans(row):
        classes: list[str] = [columns[start].side if row.side == "printed" else "ours", cell.kind]
        if len(text_of(cell)) > LONG_CELL:
            classes.append("long")
        span = f' colspan="{num_columns}"' if num_columns > 1 else ""
        text = " / ".join(_html_part(part, cell.kind) for part in cell.parts)
        provenance = cell.provenance
        if provenance is None and cell.kind == "ours":
            provenance = row_provenance
        if popovers is not None and provenance is not None and text:
            text = popovers.button(provenance, text, is_rows=cell.provenance is None)
        tag, scope = ("td", "") if cells else ("th", " scope='row'")
        names = " ".join(dict.fromkeys(classes))
        cells.append(f'<{tag}{scope} class="{names}"{span}>{text}</{tag}>')
    begins = " begins" if begins_group else ""
    return f'<tr class="{row.side}{begins}"{anchor}>' + "".join(cells) + "</tr>"


def _html_part(part: Part, kind: CellKind) -> str:
    text, spread = escape(part.text), ""
    if kind in NUMBER_KINDS:
        text = POWER_OF_TEN.sub(r"\1&middot;10<sup>\2</sup>", text)
        text, *words = _BEFORE_SPREAD.split(text, maxsplit=1)
        spread = f"<small>{words[0]}</small>" if words else ""
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
