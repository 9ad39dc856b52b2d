r"""Turns a laid-out table into LaTeX in the typography of the paper: a `table` environment, to be
\input.

It has the rules of booktabs, between groups of rows too. The label of a group spans its rows, and
the best value of a column is bold.
"""

import re
from itertools import groupby

from paper_tables.layout import (
    DASH,
    GREEK,
    PLUS_MINUS,
    POWER_OF_TEN,
    Cell,
    CellKind,
    Column,
    Part,
    Table,
    spans,
)

PREAMBLE = r"\usepackage{booktabs,graphicx,multirow,url}"
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
SHORT = 8  # a heading with more letters is broken into two lines
_SYMBOL = re.compile(r"^(?P<base>[A-Za-z]+)(_(?P<index>[a-z]+))?$")
_SPREAD = re.compile(rf" (?:{PLUS_MINUS} (?P<half_width>\S+) )?\((?P<seeds>n=[^)]*)\)$")
_PATH_UNSAFE = re.compile(r"[^\x20-\x7e]")


def escape_latex(text: str) -> str:
    """Return text with every special character of LaTeX escaped."""
    return "".join(LATEX_BY_CHARACTER.get(character, character) for character in text)


def render_latex(table: Table) -> str:
    r"""Return a `table` environment to be \input; its first line names the packages that it needs.

    If the printed table names its groups of rows, as (A) to (E), the names have their own column.
    """
    firsts = [(row.group, row.cells[0]) for row in table.rows if row.group]
    has_labels = any(cell.kind == "label" and cell.parts[0].text == group for group, cell in firsts)
    caption = table.caption
    if not table.title.startswith("Table"):  # LaTeX numbers the tables itself
        caption = f"{table.title}: {caption}"
    sides = "".join("l" if column.side == "label" else "c" for column in table.columns)
    heading = [r"\toprule", *_headings(table.columns, has_labels=has_labels), r"\midrule"]
    lines = [
        f"% needs {PREAMBLE}",
        r"\begin{table}",
        r"\centering",
        rf"\caption{{{escape_latex(caption)}}}",
        rf"\label{{tab:{table.name}}}",
        r"\par\medskip",
        r"\resizebox{\ifdim\width>\linewidth\linewidth\else\width\fi}{!}{%",
        rf"\begin{{tabular}}{{{'l' if has_labels else ''}{sides}}}",
        *heading,
        *_body(table, has_labels=has_labels),
        r"\bottomrule",
        r"\end{tabular}}",
        *_legend(table),
    ]
    return "\n".join([*lines, r"\end{table}"]) + "\n"


def _legend(table: Table) -> list[str]:
    """Return each note and each signature as a small paragraph, as wide as the text."""
    lines = []
    for note in table.notes:
        lines.append(rf"{_mark(note.mark)}{escape_latex(note.text)}\par")
    for metric, testset, signature in table.signatures:
        # \path breaks lines at punctuation; it takes every character literally except its delimiter
        shown = _PATH_UNSAFE.sub("?", signature).replace("!", "?")
        lines.append(rf"{escape_latex(f'{metric}, {testset}')}: \path!{shown}!\par")
    if not lines:
        return []
    return [
        r"\par\smallskip",
        r"\begin{minipage}{\linewidth}\footnotesize\raggedright",
        *lines,
        r"\end{minipage}",
    ]


def _headings(columns: tuple[Column, ...], *, has_labels: bool) -> list[str]:
    """Return the lines of headings: shared headings with a rule below, then the columns' own."""
    offset = 1 if has_labels else 0
    first = [""] * offset
    if not any(column.group for column in columns):
        return [" & ".join([*first, *map(_heading, columns)]) + r" \\"]
    above, rules, below, start = [*first], [], [*first], 1 + offset
    for group, members in groupby(columns, key=lambda column: column.group):
        headings = list(map(_heading, members))
        if group:
            above.append(rf"\multicolumn{{{len(headings)}}}{{c}}{{{escape_latex(group)}}}")
            rules.append(rf"\cmidrule(lr){{{start}-{start + len(headings) - 1}}}")
            below += headings
        else:  # this heading spans both lines
            above += map(r"\multirow{{2}}{{*}}{{{}}}".format, headings)
            below += [""] * len(headings)
        start += len(headings)
    return [" & ".join(above) + r" \\", "".join(rules), " & ".join(below) + r" \\"]


def _heading(column: Column) -> str:
    symbol = _SYMBOL.match(column.heading)
    if symbol and (symbol["index"] or len(column.heading) == 1):
        base = rf"\{symbol['base']}ilon" if symbol["base"] in GREEK else symbol["base"]
        index = symbol["index"] or ""
        if len(index) > 1:
            index = rf"{{\mathrm{{{index}}}}}"
        return f"${base}_{index}$" if index else f"${base}$"
    lines = [column.heading]
    if column.side != "label" and len(column.heading) > SHORT:  # break the last word off
        lines = column.heading.rsplit(" ", maxsplit=1)
    shown = r"\\".join(map(escape_latex, lines))
    shown = shown.replace(r"x10\textasciicircum{}6", r"$\times 10^6$")
    return shown if len(lines) == 1 else rf"\shortstack{{{shown}}}"


def _body(table: Table, *, has_labels: bool) -> list[str]:
    lines: list[str] = []
    for group, members in groupby(table.rows, key=lambda row: row.group):
        rows = list(members)
        if lines and group:
            lines.append(r"\midrule")
        for index, row in enumerate(rows):
            cells = [_cell(cell, num_columns) for cell, _, num_columns in spans(row)]
            if has_labels:
                label = escape_latex(group) if index == 0 else ""
                if label and len(rows) > 1:
                    label = rf"\multirow{{{len(rows)}}}{{*}}{{{label}}}"
                name = ""
                if row.side == "ours":
                    name = "ours" + "".join(map(_mark, row.cells[0].parts[0].marks))
                cells = [label, name, *cells[1:]]
            lines.append(" & ".join(cells) + r" \\")
    return lines


def _cell(cell: Cell, num_columns: int) -> str:
    text = " / ".join(_part(part, cell.kind) for part in cell.parts)
    return text if num_columns == 1 else rf"\multicolumn{{{num_columns}}}{{c}}{{{text}}}"


def _part(part: Part, kind: CellKind) -> str:
    marks = "".join(map(_mark, part.marks))
    if kind == "formula":
        formula = part.text.replace(" * ", r" \cdot ").replace("log_k", r"\log_k")
        return f"${formula}${marks}"
    spread = _SPREAD.search(part.text) if kind == "ours" else None
    number = escape_latex(part.text[: spread.start()] if spread else part.text)
    if kind in ("printed", "ours"):
        power = r"{\\boldmath$\1\\cdot10^{\2}$}" if part.is_best else r"$\1\\cdot10^{\2}$"
        number, num_powers = POWER_OF_TEN.subn(power, number)
        number = rf"\textbf{{{number}}}" if part.is_best and not num_powers else number
    if spread is None:
        return number + marks
    half_width = rf"$\pm${escape_latex(spread['half_width'])} " if spread["half_width"] else ""
    return rf"{number}{marks} {{\scriptsize {half_width}({escape_latex(spread['seeds'])})}}"


def _mark(mark: str) -> str:
    return rf"\textsuperscript{{{escape_latex(mark)}}}" if mark else ""
