"""Renders one laid-out table as Markdown, LaTeX, CSV or HTML; it neither rounds nor leaves anything out.

A cell that spans columns is one cell in LaTeX and HTML; Markdown and CSV have no spans and say `(spanned)` in the rest.
"""

import csv
import html
import io
import re
from collections.abc import Callable
from itertools import groupby

from paper_tables.layout import DASH, PLUS_MINUS, Cell, CellKind, Column, Part, Row, Table

SPANNED = "(spanned)"
LATEX_BY_CHARACTER = {
    "\\": r"\textbackslash{}",
    "{": r"\{",
    "}": r"\}",
    "&": r"\&",
    "%": r"\%",
    "$": r"\$",
    "#": r"\#",
    "_": r"\_",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    PLUS_MINUS: r"$\pm$",
    DASH: "--",
    "\u201c": "``",
    "\u201d": "''",
    "\u2020": r"\dag{}",
    "\u2021": r"\ddag{}",
    "\u00a7": r"\S{}",
}
_POWER_OF_TEN = re.compile(r"(?<![\w.])([0-9.]+)e([0-9]+)(?!\w)")
_BEFORE_SPREAD = re.compile(rf" (?={PLUS_MINUS}|\(n=)")  # interval and number of seeds get a line of their own
_SYMBOL = re.compile(r"^(?P<base>[A-Za-z]+)_(?P<index>[a-z]+)$")
_EXPONENT = re.compile(r"\^([0-9]+)")
GREEK = ("eps",)
NUMBER_KINDS: tuple[CellKind, ...] = ("printed", "ours")


def render_markdown(table: Table) -> str:
    """Return a pipe table between its title and its notes."""
    lines = [f"## {table.title}", "", _escape_markdown(table.caption), ""]
    headings = [f"{column.group}: {column.heading}" if column.group else column.heading for column in table.columns]
    lines.append(_markdown_line(headings))
    lines.append("|" + "|".join("---" if column.side == "label" else "---:" for column in table.columns) + "|")
    for row in table.rows:
        lines.append(_markdown_line(_flat_texts(row)))
    if table.notes:
        lines += ["", *(f"- {_marked(note.mark, note.text)}" for note in table.notes)]
    if table.signatures:
        lines += ["", "Signatures:", ""]
        lines += [f"- {metric}, {testset}: `{signature}`" for metric, testset, signature in table.signatures]
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
    pieces = [" ".join(filter(None, (part.text, *(f"[{mark}]" for mark in part.marks)))) for part in cell.parts]
    return " / ".join(pieces)


def render_csv(table: Table) -> str:
    """Return a header of column names and a line a row; the last column explains the marks of the row."""
    text_by_mark = {note.mark: note.text for note in table.notes if note.mark}
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow([*(column.name for column in table.columns), "marks"])
    for row in table.rows:
        marks = dict.fromkeys(mark for cell in row.cells for mark in cell.marks)
        explained = "; ".join(f"[{mark}] {text_by_mark.get(mark, '')}".strip() for mark in marks)
        writer.writerow([*_flat_texts(row), explained])
    return stream.getvalue()


def escape_latex(text: str) -> str:
    """Return text in which no character has a meaning to LaTeX."""
    return "".join(LATEX_BY_CHARACTER.get(character, character) for character in text)


def render_latex(table: Table) -> str:
    r"""Return a `table` environment to be \input; its preamble needs booktabs and graphicx."""
    sides = "".join("l" if column.side == "label" else "r" for column in table.columns)
    lines = [
        r"% needs \usepackage{booktabs,graphicx}",
        r"\begin{table}",
        r"\centering",
        rf"\caption{{{escape_latex(table.title)}: {escape_latex(table.caption)}}}",
        rf"\label{{tab:{table.name}}}",
        r"\resizebox{\linewidth}{!}{%",
        rf"\begin{{tabular}}{{{sides}}}",
        r"\toprule",
        *_latex_groups(table.columns),
        " & ".join(_latex_heading(column.heading) for column in table.columns) + r" \\",
        r"\midrule",
        *(" & ".join(_latex_cell(cell) for cell in row.cells) + r" \\" for row in table.rows),
        r"\bottomrule",
        r"\end{tabular}}",
    ]
    lines += [rf"\par\footnotesize {_latex_mark(note.mark)}{escape_latex(note.text)}" for note in table.notes]
    lines += [
        rf"\par\footnotesize {escape_latex(f'{metric}, {testset}')}: \texttt{{{escape_latex(signature)}}}"
        for metric, testset, signature in table.signatures
    ]
    return "\n".join([*lines, r"\end{table}"]) + "\n"


def _latex_groups(columns: tuple[Column, ...]) -> list[str]:
    """Return the line of shared headings and the rules under them; nothing if no column shares one."""
    if not any(column.group for column in columns):
        return []
    cells, rules, start = [], [], 1
    for group, members in groupby(columns, key=lambda column: column.group):
        width = len(list(members))
        cells.append(rf"\multicolumn{{{width}}}{{c}}{{{escape_latex(group)}}}")
        if group:
            rules.append(rf"\cmidrule(lr){{{start}-{start + width - 1}}}")
        start += width
    return [" & ".join(cells) + r" \\", "".join(rules)]


def _latex_mark(mark: str) -> str:
    return rf"\textsuperscript{{{escape_latex(mark)}}}" if mark else ""


def _latex_heading(heading: str) -> str:
    symbol = _SYMBOL.match(heading)
    if symbol:
        base = rf"\{symbol['base']}ilon" if symbol["base"] in GREEK else symbol["base"]
        return rf"${base}_{{\mathrm{{{symbol['index']}}}}}$"
    return escape_latex(heading).replace(r"x10\textasciicircum{}6", r"$\times 10^6$")


def _latex_part(part: Part, kind: CellKind) -> str:
    text = escape_latex(part.text)
    if kind in NUMBER_KINDS:
        text = _POWER_OF_TEN.sub(r"$\1\\cdot10^{\2}$", text)
    elif kind == "formula":
        formula = part.text.replace(" * ", r" \cdot ").replace("log_k", r"\log_k")
        text = f"${formula}$"
    return text + "".join(_latex_mark(mark) for mark in part.marks)


def _latex_cell(cell: Cell) -> str:
    text = " / ".join(_latex_part(part, cell.kind) for part in cell.parts)
    return rf"\multicolumn{{{cell.num_columns}}}{{c}}{{{text}}}" if cell.num_columns > 1 else text


def render_html(table: Table) -> str:
    """Return a `section` with the table, its caption, legend and signatures; `report.wrap_page` makes a page of it."""
    body = "\n".join(_html_row(row, table.columns) for row in table.rows)
    notes = "".join(f"<li>{_html_mark(note.mark)} {html.escape(note.text)}</li>\n" for note in table.notes)
    signatures = "".join(
        f"<li>{html.escape(metric)}, {html.escape(testset)}: <code>{html.escape(signature)}</code></li>\n"
        for metric, testset, signature in table.signatures
    )
    parts = [
        f'<section id="{table.name}">',
        f"<h2>{html.escape(table.title)}</h2>",
        f'<p class="caption">{html.escape(table.caption)}</p>',
        f'<div class="scroll">\n<table>\n<thead>\n{_html_head(table.columns)}\n</thead>',
        f"<tbody>\n{body}\n</tbody>\n</table>\n</div>",
    ]
    if notes:
        parts.append(f'<ul class="notes">\n{notes}</ul>')
    if signatures:
        parts.append(f"<details>\n<summary>Signatures</summary>\n<ul>\n{signatures}</ul>\n</details>")
    return "\n".join([*parts, "</section>"]) + "\n"


def _html_head(columns: tuple[Column, ...]) -> str:
    headings = "".join(
        f'<th scope="col" class="{column.side}">{_html_heading(column.heading)}</th>' for column in columns
    )
    if not any(column.group for column in columns):
        return f"<tr>{headings}</tr>"
    groups = "".join(
        f'<th scope="colgroup" colspan="{len(list(members))}" class="group">{html.escape(group)}</th>'
        for group, members in groupby(columns, key=lambda column: column.group)
    )
    return f"<tr>{groups}</tr>\n<tr>{headings}</tr>"


def _html_heading(heading: str) -> str:
    symbol = _SYMBOL.match(heading)
    if symbol:
        base = "&epsilon;" if symbol["base"] in GREEK else symbol["base"]
        return f"<i>{base}</i><sub>{symbol['index']}</sub>"
    return html.escape(heading).replace("x10^6", "&times; 10<sup>6</sup>")


def _html_row(row: Row, columns: tuple[Column, ...]) -> str:
    cells, column_index = [], 0
    for cell in row.cells:
        tag = "th scope='row'" if column_index == 0 else "td"
        side = columns[column_index].side
        classes = " ".join(dict.fromkeys((side if row.side == "printed" else "ours", cell.kind)))
        span = f' colspan="{cell.num_columns}"' if cell.num_columns > 1 else ""
        text = " / ".join(_html_part(part, cell.kind) for part in cell.parts)
        cells.append(f'<{tag} class="{classes}"{span}>{text}</{tag[:2]}>')
        column_index += cell.num_columns
    return f'<tr class="{row.side}">' + "".join(cells) + "</tr>"


def _html_part(part: Part, kind: CellKind) -> str:
    marks = "".join(_html_mark(mark) for mark in part.marks)
    if kind in NUMBER_KINDS:
        text = _POWER_OF_TEN.sub(r"\1&middot;10<sup>\2</sup>", html.escape(part.text))
        number, *spread = _BEFORE_SPREAD.split(text, maxsplit=1)
        return number + marks + "".join(f"<small>{words}</small>" for words in spread)
    text = html.escape(part.text)
    if kind == "formula":
        text = _EXPONENT.sub(r"<sup>\1</sup>", text).replace(" * ", "&middot;").replace("log_k", "log<sub>k</sub>")
    return text + marks


def _html_mark(mark: str) -> str:
    return f"<sup>{html.escape(mark)}</sup>" if mark else ""


RENDERER_BY_SUFFIX: dict[str, Callable[[Table], str]] = {
    "md": render_markdown,
    "tex": render_latex,
    "csv": render_csv,
    "html": render_html,
}
