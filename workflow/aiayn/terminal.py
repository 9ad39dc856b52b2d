"""Formats text for a terminal: tables, lists, paragraphs, colours and JSON.

Lines are as wide as the terminal, or at most WIDTH columns wide if the output goes to a pipe or a
file.
"""

import os
import re
import shutil
import sys
import textwrap
from collections.abc import Collection, Iterable, Sequence
from typing import Literal, TextIO

import msgspec
from tabulate import DataRow, TableFormat, tabulate

WIDTH = 100  # in a pipe or a file, so that the same command writes the same bytes
MIN_WIDTH = 40
Colour = Literal["red", "green", "yellow", "bold"]
# Parameters of the ANSI escape sequence SGR (select graphic rendition).
_SELECT_BY_COLOUR: dict[Colour, str] = {"red": "31", "green": "32", "yellow": "33", "bold": "1"}
# Words at the beginning of a line that are the answer of a command. The third form is the distance
# of a single number from the printed number.
_ANSWER_BY_COLOUR: dict[Colour, str] = {
    "green": r"^ *(REPRODUCED|No difference from the claim)",
    "yellow": r"^ *(UNDECIDED|NOT COMPARABLE)|\d[\d.]* (?:below|above) the printed",
    "red": r"^ *(NOT REPRODUCED|FOUND|Found:|failed,|lost,|damaged,)",
}
NO_BREAK = "\x1f"  # a blank at which a line must not end
# All control characters except tab and line feed, and marks that change the direction of writing.
_UNSEEN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")
CLOSE = TableFormat(
    None, None, None, None, DataRow("", " ", ""), DataRow("", " ", ""), 0, None
)  # of cells of one line


def text_width(stream: TextIO | None = None) -> int:
    """Return the number of columns for text on a stream (default: standard output)."""
    if not (stream or sys.stdout).isatty():
        return WIDTH
    return max(MIN_WIDTH, shutil.get_terminal_size((WIDTH, 24)).columns)


def coloured(text: str, colour: Colour, stream: TextIO | None = None) -> str:
    """Return a text in a colour if the stream (default: standard output) is a terminal with
    colours, otherwise the text without a colour.

    NO_COLOR=1 (https://no-color.org) and TERM=dumb turn all colours off.
    """
    is_plain = os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb"
    if is_plain or not (stream or sys.stdout).isatty():
        return text
    return f"\x1b[{_SELECT_BY_COLOUR[colour]}m{text}\x1b[0m"


def reflowed(text: str) -> str:
    """Convert a docstring to the text of `--help`. Paragraphs are wrapped to the width of the
    terminal. Indented lines do not change.
    """
    blocks: list[list[str]] = [[]]
    for line in text.strip().split("\n"):
        # Indented lines are examples and tables, and empty lines separate paragraphs. Both stay
        # lines of their own.
        if line.startswith(" ") or not line:
            blocks += [[line], []]
        else:
            blocks[-1].append(line)
    lines: list[str] = []
    for block in blocks:
        is_prose = block and block[0].strip() and not block[0].startswith(" ")
        lines += wrapped(" ".join(block)) if is_prose else block
    return "\n".join(lines)


def table(
    rows: Sequence[Sequence[str]],
    *,
    right: Collection[int] = (),
    widths: Sequence[int | None] | None = None,
    num_headings: int = 0,
    num_totals: int = 0,
    indent: str = "",
) -> list[str]:
    """Return the rows of a table as lines of text with aligned columns. A line of dashes is drawn
    below the headings and above the totals.

    Columns in `right` are aligned to the right. A cell that is longer than the width of its column
    is wrapped between words. If no `widths` are given and the table does not fit into the terminal,
    the gaps between the columns are made narrower.
    """
    num_columns = len(rows[0]) if rows else 0
    alignments = ["right" if index in right else "left" for index in range(num_columns)]
    lines: list[str] = []
    # Wide gaps read better, narrow ones keep a wide table on its lines.
    for form in ("plain", CLOSE):
        text = tabulate(
            rows,
            tablefmt=form,
            colalign=alignments,
            maxcolwidths=widths,
            # tabulate would otherwise change numbers, such as 26.30 to 26.3.
            disable_numparse=True,
            preserve_whitespace=True,
            break_on_hyphens=False,
            break_long_words=False,
        )
        lines = [f"{indent}{line}".rstrip() for line in text.split("\n")]
        if widths or max(map(len, lines)) <= text_width():
            break
    rule = indent + "-" * (max(map(len, lines)) - len(indent))
    for position, number in ((len(lines) - num_totals, num_totals), (num_headings, num_headings)):
        if number:
            lines.insert(position, rule)
    return lines


def wrapped(text: str, first: str = "", then: str | None = None) -> list[str]:
    """Wrap a paragraph. The prefix `first` comes before the first line, and the prefix `then` (by
    default the same as `first`) comes before each further line. Words and paths are never broken.
    """
    return textwrap.wrap(
        text,
        min(text_width(), WIDTH),
        initial_indent=first,
        subsequent_indent=first if then is None else then,
        break_long_words=False,
        break_on_hyphens=False,
    )


def entries(pairs: Sequence[tuple[str, str]], indent: str = "") -> list[str]:
    """Return lines with names in the left column and their texts in the right column. Texts are
    wrapped. A name with an empty text is left out.
    """
    width = max((len(name) for name, text in pairs if text), default=0) + 2
    then = indent + " " * width
    return [
        line
        for name, text in pairs
        if text
        for line in wrapped(text, f"{indent}{name:<{width}}", then)
    ]


def command_lines(words: Sequence[str], first: str = "", then: str = "  ") -> list[str]:
    """Return a shell command, wrapped to several lines. Words are not broken, and a flag is on the
    same line as its value.
    """
    # textwrap breaks at blanks only, so blanks that must stay are replaced by a character that does
    # not occur in commands.
    joined = " ".join(word.replace(" ", NO_BREAK) for word in words)
    unbroken = re.sub(r"(--[\w-]+) (?!--)", rf"\1{NO_BREAK}", joined)
    lines = textwrap.wrap(
        unbroken,
        min(text_width(), WIDTH) - len(" \\"),
        initial_indent=first,
        subsequent_indent=then,
        break_long_words=False,
        break_on_hyphens=False,
    )
    return " \\\n".join(lines).replace(NO_BREAK, " ").split("\n") if lines else []


def listed(texts: Iterable[str]) -> list[str]:
    """Return lines in which each paragraph is an item of a list."""
    return [line for text in texts for line in wrapped(text, "- ", "  ")]


def sections(*parts: tuple[str, Sequence[str]]) -> str:
    """Return a text with sections, separated by empty lines. Each section has a heading (which may
    be empty) and lines. Sections without lines are left out. On a terminal, words such as
    REPRODUCED are coloured.
    """
    texts = [
        "\n".join([*([heading] if heading else []), *lines]) for heading, lines in parts if lines
    ]
    text = "\n\n".join(texts) + "\n"
    # Coloured last, because escape codes have no width and would spoil columns.
    for colour, answer in _ANSWER_BY_COLOUR.items():
        text = re.sub(answer, coloured(r"\g<0>", colour), text, flags=re.MULTILINE)
    return text


def titled(title: str) -> list[str]:
    """Return a title, underlined by a second line."""
    return [coloured(title, "bold"), "=" * min(text_width(), len(title))]


def visible(text: str) -> str:
    """Return a text in which control characters and direction marks are replaced by visible Python
    escapes.

    Texts from other people's files may contain control characters and direction marks, and a
    terminal or browser would obey them.
    """
    return _UNSEEN.sub(lambda match: ascii(match[0])[1:-1], text)


def json_text(value: object) -> str:
    """Return a value as indented JSON with a line end. The flag `--json` of every verb prints JSON
    in this format.
    """
    return msgspec.json.format(msgspec.json.encode(value), indent=1).decode("utf-8") + "\n"
