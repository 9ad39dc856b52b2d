r"""Renders one laid-out table as LaTeX in the typography of the paper: a `table` environment, to be
\input.

Rules are booktabs', groups of rows are separate, a label of a group spans its rows, the best value
of a column is bold.
"""

import re
from itertools import groupby

from paper_tables.layout import (
    DASH,
    GREEK,
    PLUS_MINUS,
    POWER_OF_TEN,
    CellKind,
    Column,
    Part,
    Row,
    Table,
    best_parts,
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
SHORT = 8  # letters of a heading that stay in one line
_SYMBOL = re.compile(r"^(?P<base>[A-Za-z]+)(_(?P<index>[a-z]+))?$")
_SPREAD = re.compile(rf" (?:{PLUS_MINUS} (?P<half_width>\S+) )?\((?P<seeds>n=[^)]*)\)$")
_PATH_UNSAFE = re.compile(r"[^\x20-\x7e]")


def escape_latex(text: str) -> str:
    """Return text in which no character has a meaning to LaTeX."""
    return "".join(LATEX_BY_CHARACTER.get(character, character) for character in text)


def render_latex(table: Table) -> str:
    r"""Return a `table` environment to be \input; its first line names what its preamble needs.

    Where rows have groups whose names are printed, as (A) to (E), these are in a column of their
    own.
    """
    firsts = [(row.group, row.cells[0]) for row in table.rows if row.group]
    has_labels = any(cell.kind == "label" and cell.parts[0].text == group for group, cell in firsts)
    caption = (
        table.caption if table.title.startswith("Table") else f"{table.title}: {table.caption}"
    )  # LaTeX counts
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
    """Return marks, notes and signatures as one small paragraph each, as wide as the text."""
    texts = [f"{_mark(note.mark)}{escape_latex(note.text)}" for note in table.notes]
    for metric, testset, signature in table.signatures:
        # \path breaks a line at its punctuation, and takes every character but its own two
        # delimiters literally
        shown = _PATH_UNSAFE.sub("?", signature).replace("!", "?")
        texts.append(f"{escape_latex(f'{metric}, {testset}')}: " + rf"\path!{shown}!")
    if not texts:
        return []
    lines = [rf"{text}\par" for text in texts]
    return [
        r"\par\smallskip",
        r"\begin{minipage}{\linewidth}\footnotesize\raggedright",
        *lines,
        r"\end{minipage}",
    ]


def _headings(columns: tuple[Column, ...], *, has_labels: bool) -> list[str]:
    """Return the line of headings; where columns share one, a line above it, and a rule under each
    that is shared.
    """
    offset = 1 if has_labels else 0
    first = [""] * offset
    if not any(column.group for column in columns):
        return [" & ".join([*first, *(_heading(column) for column in columns)]) + r" \\"]
    above, rules, below, start = [*first], [], [*first], 1 + offset
    for group, members in groupby(columns, key=lambda column: column.group):
        shared = list(members)
        if group:
            above.append(rf"\multicolumn{{{len(shared)}}}{{c}}{{{escape_latex(group)}}}")
            rules.append(rf"\cmidrule(lr){{{start}-{start + len(shared) - 1}}}")
            below += [_heading(column) for column in shared]
        else:  # a heading that is not shared is beside both lines
            above += [rf"\multirow{{2}}{{*}}{{{_heading(column)}}}" for column in shared]
            below += [""] * len(shared)
        start += len(shared)
    return [" & ".join(above) + r" \\", "".join(rules), " & ".join(below) + r" \\"]


def _heading(column: Column) -> str:
    symbol = _SYMBOL.match(column.heading)
    if symbol and (symbol["index"] or len(column.heading) == 1):
        base = rf"\{symbol['base']}ilon" if symbol["base"] in GREEK else symbol["base"]
        index = (
            rf"_{{\mathrm{{{symbol['index']}}}}}"
            if symbol["index"] and len(symbol["index"]) > 1
            else ""
        )
        index = index or (f"_{symbol['index']}" if symbol["index"] else "")
        return f"${base}{index}$"
    words, end = column.heading, column.heading.rfind(" ")
    is_long = (
        column.side != "label" and len(words) > SHORT
    )  # of a column of numbers: broken at a space near its end
    lines = [words[:end], words[end + 1 :]] if end > 0 and is_long else [words]
    shown = [
        escape_latex(line).replace(r"x10\textasciicircum{}6", r"$\times 10^6$") for line in lines
    ]
    return shown[0] if len(shown) == 1 else r"\shortstack{" + r"\\".join(shown) + "}"


def _body(table: Table, *, has_labels: bool) -> list[str]:
    best = best_parts(table)
    lines = []
    numbered = list(enumerate(table.rows))
    for position, (group, members) in enumerate(
        groupby(numbered, key=lambda entry: entry[1].group)
    ):
        rows = list(members)
        if position and group:
            lines.append(r"\midrule")
        for index, row in rows:
            cells = _cells(row, index, best)
            if has_labels:
                label = escape_latex(group) if index == rows[0][0] else ""
                if label and len(rows) > 1:
                    label = rf"\multirow{{{len(rows)}}}{{*}}{{{label}}}"
                first = row.cells[0].parts[0]
                name = "".join(map(_mark, first.marks)) if row.side == "ours" else ""
                cells = [label, f"ours{name}" if row.side == "ours" else "", *cells[1:]]
            lines.append(" & ".join(cells) + r" \\")
    return lines


def _cells(row: Row, row_index: int, best: set[tuple[int, int, int]]) -> list[str]:
    cells, column_index = [], 0
    for cell in row.cells:
        parts = []
        for part_index, part in enumerate(cell.parts):
            is_best = (row_index, column_index, part_index) in best
            parts.append(_part(part, cell.kind, is_best=is_best))
        text = " / ".join(parts)
        cells.append(
            rf"\multicolumn{{{cell.num_columns}}}{{c}}{{{text}}}" if cell.num_columns > 1 else text
        )
        column_index += cell.num_columns
    return cells


def _part(part: Part, kind: CellKind, *, is_best: bool) -> str:
    marks = "".join(map(_mark, part.marks))
    if kind == "formula":
        formula = part.text.replace(" * ", r" \cdot ").replace("log_k", r"\log_k")
        return f"${formula}${marks}"
    spread = _SPREAD.search(part.text) if kind == "ours" else None
    number = escape_latex(part.text[: spread.start()] if spread else part.text)
    if kind in ("printed", "ours"):
        power = r"{\\boldmath$\1\\cdot10^{\2}$}" if is_best else r"$\1\\cdot10^{\2}$"
        number, num_powers = POWER_OF_TEN.subn(power, number)
        number = rf"\textbf{{{number}}}" if is_best and not num_powers else number
    if spread is None:
        return number + marks
    half_width = rf"$\pm${escape_latex(spread['half_width'])} " if spread["half_width"] else ""
    return rf"{number}{marks} {{\scriptsize {half_width}({escape_latex(spread['seeds'])})}}"


def _mark(mark: str) -> str:
    return rf"\textsuperscript{{{escape_latex(mark)}}}" if mark else ""
