"""What a table is before it has a format: columns, rows and cells of text with marks. The only place that rounds.

`render` turns a Table into md, tex, csv and html without knowing what is in it. A cell of ours carries a mark whenever
its run was of another corpus, test set or scale than the paper's.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

from analysis.seeds import summarise_seeds
from paper_tables.conditions import PAPER_SCALE

PLUS_MINUS = "\u00b1"
DASH = "\u2013"
MARK_BY_SCALE = {"demo": "\u2020", "multi30k": "\u2021", PAPER_SCALE: "\u00a7"}  # dagger, double dagger, section
DECIMALS_BY_METRIC = {"num_parameters": 3, "training_flops": 2}  # significant digits; others: decimals
BLEU_DECIMALS = 2
NAME_BY_PAIR = {"en-de": "EN-DE", "en-fr": "EN-FR"}
SACRE_METRIC = "bleu_sacre_13a"

CellKind = Literal["label", "printed", "ours", "state", "blank", "formula"]


@dataclass(frozen=True)
class Part:
    """A piece of text and the marks that follow it."""

    text: str
    marks: tuple[str, ...] = ()


@dataclass(frozen=True)
class Cell:
    """What stands in a cell; `num_columns` above 1 is a span, whose first column it stands in."""

    parts: tuple[Part, ...]
    kind: CellKind = "printed"
    num_columns: int = 1

    @property
    def marks(self) -> tuple[str, ...]:
        """All marks in the cell."""
        return tuple(mark for part in self.parts for mark in part.marks)


@dataclass(frozen=True)
class Column:
    """A column: its name for machines, its heading, and the heading that it shares with its neighbours, if any."""

    name: str
    heading: str
    group: str = ""
    side: Literal["label", "printed", "ours"] = "printed"


@dataclass(frozen=True)
class Row:
    """A row; its cells cover all columns."""

    cells: tuple[Cell, ...]
    side: Literal["printed", "ours"] = "printed"


@dataclass(frozen=True)
class Note:
    """A line below the table; `mark` is what it explains, or ''."""

    mark: str
    text: str


@dataclass(frozen=True)
class Table:
    """A whole table. `signatures` are (metric, test set, signature) of every number of ours in it."""

    name: str
    title: str
    caption: str
    columns: tuple[Column, ...]
    rows: tuple[Row, ...]
    notes: tuple[Note, ...] = ()
    signatures: tuple[tuple[str, str, str], ...] = field(default=())


def text_cell(text: str, kind: CellKind = "printed", *marks: str, num_columns: int = 1) -> Cell:
    """Return a cell of one text."""
    return Cell((Part(text, marks),), kind, num_columns)


def blank_cell() -> Cell:
    """Return an empty cell."""
    return text_cell("", "blank")


def format_value(value: float, metric: str) -> str:
    """Return a value as it is read: BLEU and perplexity with two decimals, parameters in millions, costs as 3.3e18."""
    if metric == "num_parameters":
        return format_significant(value / 1e6, DECIMALS_BY_METRIC[metric])
    if metric == "training_flops" and value > 0:
        mantissa, exponent = f"{value:.{DECIMALS_BY_METRIC[metric] - 1}e}".split("e")
        return f"{mantissa}e{int(exponent)}"
    if metric in ("steps", "wall_seconds", "training_flops"):
        return f"{value:,.0f}"
    return f"{value:.{BLEU_DECIMALS}f}"


def format_significant(value: float, digits: int) -> str:
    """Return a positive number below a million with so many significant digits, never in powers of ten."""
    exponent = int(f"{value:e}".split("e")[1])
    return f"{value:.{max(0, digits - 1 - exponent)}f}"


def format_difference(difference: float) -> str:
    """Return a difference in BLEU with its sign; what rounds to zero has a plus."""
    text = f"{difference:+.{BLEU_DECIMALS}f}"
    return text.replace("-", "+") if float(text) == 0 else text


def format_interval(interval: tuple[float, float]) -> str:
    """Return an interval of differences."""
    return f"{format_difference(interval[0])} to {format_difference(interval[1])}"


def format_seeds(values: Sequence[float], metric: str, num_asked: int) -> str:
    """Return mean, 95 % t-interval and number of seeds: `27.31 +- 0.42 (n=3)`; one seed has no interval."""
    summary = summarise_seeds(values)
    mean = format_value(summary.mean, metric)
    seeds = f"n={summary.num_seeds}" if summary.num_seeds == num_asked else f"n={summary.num_seeds} of {num_asked}"
    if summary.half_width is None or metric in ("num_parameters", "steps"):
        return f"{mean} ({seeds})"
    return f"{mean} {PLUS_MINUS} {format_value(summary.half_width, metric)} ({seeds})"
