"""Renders one laid-out table as Markdown, CSV or HTML (LaTeX: `latex`); it neither rounds nor
leaves anything out.

A cell that spans columns is one cell in LaTeX and HTML; Markdown and CSV have no spans: `(spanned)`
is in the rest.
"""

import csv
import html
import io
import re
from collections.abc import Callable, Collection, Sequence
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
    best_parts,
)

SPANNED = "(spanned)"
LONG_CELL = (
    40  # characters; a cell of more wraps on a page, at a width that does not make its row tall
)
MAX_NOTES = 3  # more of them are folded on a page of several tables
Places = set[tuple[int, int, int]]  # row, column, part of a cell
_BEFORE_SPREAD = re.compile(
    rf" (?={PLUS_MINUS}|\(n=)"
)  # interval and number of seeds get a line of their own
_SYMBOL = re.compile(r"^(?P<base>[A-Za-z]+)_(?P<index>[a-z]+)$")
_EXPONENT = re.compile(r"\^([0-9]+)")
NUMBER_KINDS: tuple[CellKind, ...] = ("printed", "ours")


def render_markdown(table: Table) -> str:
    """Return a pipe table between its title and its notes."""
    lines = [f"## {table.title}", "", _escape_markdown(table.caption), ""]
    headings = [
        f"{column.group}: {column.heading}" if column.group else column.heading
        for column in table.columns
    ]
    lines.append(_markdown_line(headings))
    lines.append(
        "|"
        + "|".join("---" if column.side == "label" else "---:" for column in table.columns)
        + "|"
    )
    for row in table.rows:
        lines.append(_markdown_line(_flat_texts(row)))
    if table.notes:
        lines += ["", *(f"- {_marked(note.mark, note.text)}" for note in table.notes)]
    if table.signatures:
        lines += ["", "Signatures:", ""]
        lines += [
            f"- {metric}, {testset}: `{signature}`"
            for metric, testset, signature in table.signatures
        ]
    return "\n".join(lines) + "\n"


def _marked(mark: str, text: str) -> str:
    return f"[{mark}] {_escape_markdown(text)}" if mark else _escape_markdown(text)


def _markdown_line(texts: list[str]) -> str:
    return "| " + " | ".join(_escape_markdown(text) for text in texts) + " |"


def _escape_markdown(text: str) -> str:
    return re.sub(r"([\\|*`<])", r"\\\1", " ".join(text.split()))


def _flat_texts(row: Row) -> list[str]:
    """Return one text a column, marks in brackets after the part that they belong to."""
    texts: list[str] = []
    for cell in row.cells:
        texts.append(plain_text(cell))
        texts += [SPANNED] * (cell.num_columns - 1)
    return texts


def plain_text(cell: Cell) -> str:
    """Return a cell as one line of text."""
    pieces = [
        " ".join(filter(None, (part.text, *(f"[{mark}]" for mark in part.marks))))
        for part in cell.parts
    ]
    return " / ".join(pieces)


def render_csv(table: Table) -> str:
    """Return a header of column names and a line a row; the last column explains the marks of the
    row.
    """
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
    rows = [row for row in laid_out.rows if any(cell.kind == "ours" for cell in row.cells)]
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
        """Return a cell's content as a button that opens its provenance, or with `is_rows` that of
        its row.
        """
        number = self._number_by_provenance.setdefault(
            provenance, len(self._number_by_provenance) + 1
        )
        runs = provenance.sources
        origin = f"{provenance.quantity}: {runs[0].run}" + (
            f" and {len(runs) - 1} more" if len(runs) > 1 else ""
        )
        title = html.escape(f"{origin}. Open for commit, seed, hardware and signature.")
        classes = "from row" if is_rows else "from"
        target = f'popovertarget="from-{number}"'
        return (
            f'<button type="button" class="{classes}" {target} title="{title}">{content}</button>'
        )

    def render(self, anchors: Collection[str]) -> str:
        """Return every provenance that a button opens; runs whose row is on the page, in `anchors`,
        link to it.
        """
        return "".join(
            _popover(number, provenance, anchors)
            for provenance, number in self._number_by_provenance.items()
        )


def _popover(number: int, provenance: CellProvenance, anchors: Collection[str]) -> str:
    items = []
    for source in provenance.sources:
        name, anchor = f"<code>{html.escape(source.run)}</code>", anchor_of(source.run)
        name = f'<a href="#{anchor}">{name}</a>' if anchor in anchors else name
        details = [f"seed {source.seed}"] if source.seed is not None else []
        details += [f"commit <code>{html.escape(source.commit)}</code>"] if source.commit else []
        details += [html.escape(source.hardware)] if source.hardware else []
        items.append(
            f"<li><b>{html.escape(source.value)}</b> {name}<br>{', '.join(details)}</li>\n"
        )
    signature = (
        f"<p>Signature: <code>{html.escape(provenance.signature)}</code></p>\n"
        if provenance.signature
        else ""
    )
    return (
        f'<div popover id="from-{number}"'
        f' class="provenance">\n<p><b>{html.escape(provenance.quantity)}</b></p>\n'
        f"<ul>\n{''.join(items)}</ul>\n{signature}</div>\n"
    )


def render_html(table: Table) -> str:
    """Return a `section` with the table, its caption, legend and signatures; `page.wrap_page` makes
    a page of it.
    """
    parts = [
        f'<section id="{table.name}">',
        f"<h2>{html.escape(table.title)}</h2>",
        f'<p class="caption">{html.escape(table.caption)}</p>',
        *_html_table(table, range(len(table.rows)), None),
    ]
    return "\n".join([*parts, "</section>"]) + "\n"


def render_html_part(table: Table, popovers: Popovers, *, is_sortable: bool = False) -> str:
    """Return a table as a part of a page, below a heading of level 3.

    Its numbers of ours open their provenance. Rows that hold none are named below the table, by
    reason. A table whose rows all hold none is those lines alone; one with a `summary` is folded
    under it.
    """
    shown = [index for index, row in enumerate(table.rows) if row.aside is None]
    asides = _html_asides(table)
    opening = f'<section id="{table.name}">\n<h3>{html.escape(table.title)}</h3>\n'
    if not shown:
        texts = [f"{note.text}" for note in table.notes if not note.mark][: 0 if asides else 1]
        lines = "".join(f'<p class="aside">{html.escape(text)}</p>\n' for text in texts)
        return (
            opening
            + (asides or lines or '<p class="aside">Nothing of it was run.</p>\n')
            + "</section>\n"
        )
    caption = f'<p class="caption">{html.escape(table.caption)}</p>'
    body = (
        "\n".join([caption, *_html_table(table, shown, popovers, is_sortable=is_sortable)])
        + "\n"
        + asides
    )
    if table.summary:
        body = (
            "<details"
            f' class="folded">\n<summary>{html.escape(table.summary)}</summary>\n{body}</details>\n'
        )
    return opening + body + "</section>\n"


def _html_asides(table: Table) -> str:
    """Return a line for each reason why rows hold no number of ours, with the names of these
    rows.
    """
    names_by_reason: dict[str, list[str]] = {}
    for row in table.rows:
        if row.aside is not None:
            names_by_reason.setdefault(row.aside.reason, []).append(row.aside.name)
    lines = []
    for reason, names in names_by_reason.items():
        text = f"{html.escape(reason)}: {html.escape(names[0])}."
        if len(names) > 1:
            items = "".join(f"<li>{html.escape(name)}</li>\n" for name in names)
            summary = f"<summary>{html.escape(reason)}: {len(names)} lines</summary>"
            text = f"<details>{summary}\n<ul>\n{items}</ul></details>"
        lines.append(f'<div class="aside">{text}</div>\n')
    return "".join(lines)


def _html_table(
    table: Table,
    row_indices: Sequence[int],
    popovers: Popovers | None,
    *,
    is_sortable: bool = False,
) -> list[str]:
    """Return the table itself with these rows, its notes and its signatures."""
    best = best_parts(table)
    body = "\n".join(_html_row(table, index, best, popovers) for index in row_indices)
    notes = [f"<li>{_html_mark(note.mark)} {html.escape(note.text)}</li>\n" for note in table.notes]
    folded: list[str] = []
    unmarked = [note for note in table.notes if not note.mark]
    if (
        popovers is not None and len(notes) > MAX_NOTES and len(unmarked) > 1
    ):  # legends of marks stay in sight
        folded = [text for text, note in zip(notes, table.notes, strict=True) if not note.mark]
        notes = [text for text, note in zip(notes, table.notes, strict=True) if note.mark]
    signatures = "".join(
        f"<li>{html.escape(metric)}, {html.escape(testset)}:"
        f" <code>{html.escape(signature)}</code></li>\n"
        for metric, testset, signature in table.signatures
    )
    opening = '<div class="scroll">\n<table>'
    if popovers is not None:  # a reader who scrolls by keyboard must reach it and hear its name
        title = html.escape(table.title)
        label = f'<div class="scroll" role="region" aria-label="{title}" tabindex="0">'
        opening = f"{label}\n<table{' class=sortable' if is_sortable else ''}>\n<caption>{title}</caption>"  # noqa: E501
    parts = [
        f"{opening}\n<thead>\n{_html_head(table.columns)}\n</thead>",
        f"<tbody>\n{body}\n</tbody>\n</table>\n</div>",
    ]
    if notes:
        parts.append(f'<ul class="notes">\n{"".join(notes)}</ul>')
    if folded:
        parts.append(
            f"<details>\n<summary>{len(folded)} notes</summary>\n<ul>\n{''.join(folded)}</ul>\n</details>"  # noqa: E501
        )
    if signatures:
        parts.append(
            f"<details>\n<summary>Signatures</summary>\n<ul>\n{signatures}</ul>\n</details>"
        )
    return parts


def _html_head(columns: tuple[Column, ...]) -> str:
    headings = "".join(
        f'<th scope="col" class="{column.side}">{_html_heading(column.heading)}</th>'
        for column in columns
    )
    if not any(column.group for column in columns):
        return f"<tr>{headings}</tr>"
    groups = "".join(
        f'<th scope="colgroup" colspan="{len(list(members))}"'
        f' class="group">{html.escape(group)}</th>'
        for group, members in groupby(columns, key=lambda column: column.group)
    )
    return f"<tr>{groups}</tr>\n<tr>{headings}</tr>"


def _html_heading(heading: str) -> str:
    symbol = _SYMBOL.match(heading)
    if symbol:
        base = "&epsilon;" if symbol["base"] in GREEK else symbol["base"]
        return f"<i>{base}</i><sub>{symbol['index']}</sub>"
    return html.escape(heading).replace("x10^6", "&times; 10<sup>6</sup>")


def _html_row(table: Table, row_index: int, best: Places, popovers: Popovers | None) -> str:
    """Return a row; with `popovers` each number of ours opens its provenance, which is the row's if
    it has none.
    """
    row, columns = table.rows[row_index], table.columns
    of_row = next((cell.provenance for cell in row.cells if cell.provenance is not None), None)
    anchor = f' id="{row.anchor}"' if row.anchor and popovers is not None else ""
    cells, column_index = [], 0
    for cell in row.cells:
        tag = "th scope='row'" if column_index == 0 else "td"
        side = columns[column_index].side
        long = ["long"] if sum(len(part.text) for part in cell.parts) > LONG_CELL else []
        classes = " ".join(
            dict.fromkeys((side if row.side == "printed" else "ours", cell.kind, *long))
        )
        span = f' colspan="{cell.num_columns}"' if cell.num_columns > 1 else ""
        parts = []
        for part_index, part in enumerate(cell.parts):
            text = _html_part(part, cell.kind)
            parts.append(
                f"<b>{text}</b>" if (row_index, column_index, part_index) in best else text
            )
        text = " / ".join(parts)
        provenance = cell.provenance or (of_row if cell.kind == "ours" else None)
        if popovers is not None and provenance is not None and text:
            text = popovers.button(provenance, text, is_rows=cell.provenance is None)
        cells.append(f'<{tag} class="{classes}"{span}>{text}</{tag[:2]}>')
        column_index += cell.num_columns
    is_first = row_index > 0 and row.group != table.rows[row_index - 1].group
    group = " begins" if is_first else ""
    return f'<tr class="{row.side}{group}"{anchor}>' + "".join(cells) + "</tr>"


def _html_part(part: Part, kind: CellKind) -> str:
    marks = "".join(_html_mark(mark) for mark in part.marks)
    if kind in NUMBER_KINDS:
        text = POWER_OF_TEN.sub(r"\1&middot;10<sup>\2</sup>", html.escape(part.text))
        number, *spread = _BEFORE_SPREAD.split(text, maxsplit=1)
        return number + marks + "".join(f"<small>{words}</small>" for words in spread)
    text = html.escape(part.text)
    if kind == "formula":
        text = (
            _EXPONENT.sub(r"<sup>\1</sup>", text)
            .replace(" * ", "&middot;")
            .replace("log_k", "log<sub>k</sub>")
        )
    else:
        text = text.replace("_", "_<wbr>")  # where a long name may be broken
    return text + marks


def _html_mark(mark: str) -> str:
    return f"<sup>{html.escape(mark)}</sup>" if mark else ""


RENDERER_BY_SUFFIX: dict[str, Callable[[Table], str]] = {
    "md": render_markdown,
    "tex": render_latex,
    "csv": render_csv,
    "html": render_html,
}
