"""Turns a table into Markdown, LaTeX or CSV, and defines how each format escapes text.

Each output format has one template in `paper_tables/templates/`. Templates neither compute nor
round, because the cells of a table already contain the final text. The names of runs and systems
come from other people's files and may contain markup and control characters. Jinja2 escapes names
of runs and systems for HTML, and the filters below escape them for Markdown and LaTeX.
"""

import itertools
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jinja2
import pandas as pd
from markupsafe import Markup, escape

from aiayn.terminal import entries, table, visible
from paper_tables.layout import (
    DASH,
    Column,
    ShownCell,
    Table,
    anchor_of,
    grid,
    spans,
)
from paper_tables.names import with_names
from paper_tables.rounding import PLUS_MINUS

TEMPLATES = Path(__file__).parent.parent / "templates"
# A cell with more characters wraps on the page.
LONG_CELL = 40
# A power of ten as `rounded` writes it, such as 2.3e19. A letter or a digit directly before or
# after it means that it is a part of a name.
POWER_OF_TEN = re.compile(r"(?<![\w.])([0-9.]+)e([0-9]+)(?!\w)")
# A symbol of the paper in a heading, such as d_model or eps_ls.
SYMBOL = re.compile(r"^(?P<base>[A-Za-z]+)_(?P<index>[a-z]+)$")
LATEX_BY_CHARACTER = {
    "\\": r"\textbackslash{}",
    # LaTeX reads a bracket or a star after the `\\` of a row as an argument of `\\`.
    "[": "{[}",
    "*": "{*}",
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


def escape_latex(text: str) -> str:
    """Return text with every special character of LaTeX escaped, on one line."""
    shown = visible(one_line(text))
    return "".join(LATEX_BY_CHARACTER.get(character, character) for character in shown)


def escape_markdown(text: str) -> str:
    """Return text on one line for a Markdown table. Characters with a meaning in Markdown are
    escaped.
    """
    # A bar would end the cell, and `](` would make a link. Underscores within words are harmless.
    return re.sub(r"([\\|*`<]|\](?=\())", r"\\\1", visible(one_line(text)))


def one_line(text: str) -> str:
    """Return text on one line: each sequence of blanks and line ends becomes one blank."""
    return " ".join(text.split())


def plain_text(cell: ShownCell) -> str:
    """Return a cell of a table as one line of text. Footnote marks are in brackets after the number
    or text that has them.

    Keys such as `table3_a_h1` are not replaced by readable names, because programs read the CSV.
    """
    if cell.kind == "spanned":
        return "(spanned)"
    pieces = []
    for line in cell.lines:
        marks = map("[{}]".format, line.marks)
        # Text, spread and marks, for example `27.31`, `+- 0.42 (n=3)` and `[a]`.
        pieces.append(" ".join(filter(None, (line.text, line.spread, *marks))))
    return " / ".join(pieces)


def _named_text(cell: ShownCell) -> str:
    """Return a cell of a table as one line of text. In a label, keys are replaced by readable
    names.
    """
    return with_names(plain_text(cell)) if cell.kind == "label" else plain_text(cell)


def _plain_heading(column: Column) -> str:
    heading = column.heading or column.name
    return f"{column.group}: {heading}" if column.group else heading


def _html_number(line: Any) -> Markup:
    """Return the text of a table's cell in HTML. The exponents of powers of ten are superscripts,
    and a long name may break after an underscore.
    """
    # Text is escaped first. The tags that are added below must not be escaped.
    text = str(escape(visible(with_names(line.text) if line.kind == "label" else line.text)))
    if line.kind in ("printed", "ours"):
        return Markup(POWER_OF_TEN.sub(r"\1&middot;10<sup>\2</sup>", text))
    # Table 1 has formulas, such as O(n^2 * d) and O(log_k(n)).
    if line.kind == "formula":
        text = re.sub(r"\^([0-9]+)", r"<sup>\1</sup>", text).replace(" * ", "&middot;")
        return Markup(text.replace("log_k", "log<sub>k</sub>"))
    # A name such as table3_c_dmodel1024 would make its column wider than a phone.
    return Markup(text.replace("_", "_<wbr>"))


def _html_words(text: str) -> Markup:
    """Return a sentence in HTML. Text of the sentence between backticks is formatted as code."""
    return Markup(re.sub(r"`([^`]+)`", r"<code>\1</code>", str(escape(visible(text)))))


def _html_heading(column: Column) -> Markup:
    symbol = SYMBOL.match(column.heading)
    if symbol:
        base = "&epsilon;" if symbol["base"] == "eps" else symbol["base"]
        return Markup(f"<i>{base}</i><sub>{symbol['index']}</sub>")
    heading = str(escape(column.heading or column.name))
    return Markup(heading.replace("x10^6", "&times; 10<sup>6</sup>"))


def _latex_number(line: Any) -> str:
    if line.kind == "formula":
        formula = line.text.replace(" * ", r"\cdot ").replace("log_k", r"\log_k")
        return f"${formula}$"
    number = escape_latex(with_names(line.text) if line.kind == "label" else line.text)
    if line.kind in ("printed", "ours"):
        # In a replacement of `re.sub`, two backslashes make one. \textbf has no effect within
        # $...$, so a bold power needs \boldmath.
        power = r"{\\boldmath$\1\\cdot10^{\2}$}" if line.is_best else r"$\1\\cdot10^{\2}$"
        number, num_powers = POWER_OF_TEN.subn(power, number)
        number = rf"\textbf{{{number}}}" if line.is_best and not num_powers else number
    return number


def _latex_heading(column: Column) -> str:
    """Return the heading of a column in LaTeX, below the heading that it shares with neighbouring
    columns.
    """
    symbol = SYMBOL.match(column.heading)
    heading = escape_latex(column.heading or column.name)
    # The heading "x10^6" has been escaped above.
    heading = heading.replace(r"x10\textasciicircum{}6", r"$\times 10^6$")
    if symbol:
        base = r"\epsilon" if symbol["base"] == "eps" else symbol["base"]
        heading = rf"${base}_{{\mathrm{{{symbol['index']}}}}}$"
    if not column.group:
        return heading
    return rf"\shortstack{{{escape_latex(column.group)}\\{heading}}}"


def _latex_path(text: str) -> str:
    r"""Return a sacreBLEU signature as the argument of LaTeX's command \path, which breaks lines at
    punctuation, and takes every character literally except its delimiter.
    """
    # `!` is the delimiter in the template: \path!...!. \path does not support characters outside of
    # ASCII.
    return re.sub(r"[^\x20-\x7e]|!", "?", text)


def _environment(*, is_html: bool) -> jinja2.Environment:
    """Return the Jinja2 environment of the templates. HTML templates escape all text that is not
    marked as safe.
    """
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(TEMPLATES),
        # Names of runs and logs come from files of other people.
        autoescape=is_html,
        # A misspelt name in a template is an error, not an empty cell.
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        keep_trailing_newline=True,
        # Applies to every value that a template prints.
        finalize=visible_text,
    )
    # A template calls these as filters: {{ cell | named_cell | md }}.
    environment.filters |= {
        "md": escape_markdown,
        "tex": escape_latex,
        "tex_number": _latex_number,
        "tex_heading": _latex_heading,
        "tex_path": _latex_path,
        "one_line": one_line,
        "named_cell": _named_text,
        "named": with_names,
        "plain_heading": _plain_heading,
        "html_number": _html_number,
        "html_heading": _html_heading,
        "html_words": _html_words,
        "is_long": lambda cell: len(cell.text) > LONG_CELL,
        "grid": grid,
        "spans": spans,
        "anchor": anchor_of,
    }
    return environment


def visible_text(value: Any) -> Any:
    """Return text with control characters and direction marks as visible escapes. Values that are
    not text are returned as they are.
    """
    return visible(value) if type(value) is str else value


HTML_TEMPLATES = _environment(is_html=True)
TEXT_TEMPLATES = _environment(is_html=False)


def render_html(name: str, **context: Any) -> str:
    """Fill in a template of HTML or SVG, and return the text."""
    return HTML_TEMPLATES.get_template(name).render(context)


def render_markdown(table: Table) -> str:
    """Return a table in Markdown: its title, a pipe table, and its notes."""
    return TEXT_TEMPLATES.get_template("table.md.j2").render(table=table)


def render_latex(table: Table) -> str:
    r"""Return a table as a `table` environment for LaTeX's \input. The first line lists the LaTeX
    packages that the table needs.
    """
    return TEXT_TEMPLATES.get_template("table.tex.j2").render(table=table)


def render_csv(table: Table) -> str:
    """Return a table as CSV, with one line per row. The last column explains the footnote marks of
    the row.

    If a cell covers several columns, the first of these columns has the text, and the others
    contain `(spanned)`.
    """
    # A program that reads the CSV does not see the notes below the table.
    text_by_mark = {note.mark: note.text for note in table.notes if note.mark}
    lines = []
    for _, cells in grid(table):
        explained: dict[str, None] = {}
        for cell in cells:
            for mark in cell.marks:
                explained[f"[{mark}] {text_by_mark.get(mark, '')}".strip()] = None
        lines.append([*map(plain_text, cells), "; ".join(explained)])
    names = [*(column.name for column in table.columns), "marks"]
    return visible(pd.DataFrame(lines, columns=names).to_csv(index=False, lineterminator="\n"))


def render_text(laid_out: Table) -> str:
    """Return the rows of a table that have a number of ours as text for a terminal. Each row of the
    table becomes a column of the text.

    Rows and columns are exchanged, because Table 2 has too many columns for the width of a
    terminal, but only few rows with numbers of ours.
    """
    printed, rows = [], []
    for _, cells in grid(laid_out):
        if any(cell.kind == "ours" for cell in cells):
            rows.append(cells)
        # The printed rows of the paper's own models: "Transformer (base model)". No number of ours
        # can be compared with the other rows.
        elif "Transformer" in cells[0].text:
            printed.append(cells)
    if not rows:
        return f"{laid_out.title}: no number of ours\n"
    # In tables from logs the printed numbers are in rows of their own.
    if laid_out.title.endswith("from logs"):
        rows = [*printed, *rows]
    lines = []
    for column in laid_out.columns:
        lines.append([f"{column.group} {column.heading}".strip()])
    shown_marks = set()
    for cells in rows:
        # Each line of the text is a column of the table. A wide cell is written into as many lines
        # as it covers.
        line_of_column = iter(lines)
        for cell in spans(cells):
            shown_marks.update(cell.marks)
            # A printed cost that spans both languages is repeated.
            for line in itertools.islice(line_of_column, cell.width):
                line.append(plain_text(cell))
    # The corner above the headings is free for the title.
    lines[0][0] = laid_out.title
    notes = []
    for note in laid_out.notes:
        if note.mark in shown_marks:
            notes.append((f"[{note.mark}]", note.text))
    return "\n".join([*table(lines, num_headings=1), *entries(notes)]) + "\n"


RENDERER_BY_SUFFIX: dict[str, Callable[[Table], str]] = {
    "md": render_markdown,
    "tex": render_latex,
    "csv": render_csv,
}
