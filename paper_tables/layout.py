"""What a table is before it has a format: columns, rows and cells of text with marks. The only place that rounds.

`render` turns a Table into md, tex, csv and html without knowing what is in it. A cell of ours carries a mark whenever
its run was of another corpus, test set or scale than the paper's.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from aiayn.paths import Evaluation
from analysis.seeds import summarise_seeds
from paper_tables.findings import Findings
from paper_tables.judged import PAPER_SCALE, unlike_paper

PLUS_MINUS = "\u00b1"
DASH = "\u2013"
MARK_BY_SCALE = {"demo": "\u2020", "multi30k": "\u2021", PAPER_SCALE: "\u00a7"}  # dagger, double dagger, section
DECIMALS_BY_METRIC = {"num_parameters": 3, "training_flops": 2}  # significant digits; others: decimals
BLEU_DECIMALS = 2
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


def mark_of(findings: Findings, evaluation: Evaluation) -> tuple[str, ...]:
    """Return the mark of the scale if the evaluation is unlike the paper's, else nothing."""
    return (MARK_BY_SCALE[findings.scale.scale],) if unlike_paper(findings, evaluation) else ()


def mark_note(findings: Findings, evaluations: Sequence[Evaluation]) -> list[Note]:
    """Return the legend of the scale's mark, if any of the evaluations carries it."""
    marked = [evaluation for evaluation in evaluations if mark_of(findings, evaluation)]
    if not marked:
        return []
    measured = "; ".join(sorted({f"corpus {e.corpus}, test set {e.testset}" for e in marked}))
    scale = findings.scale.scale
    return [
        Note(
            MARK_BY_SCALE[scale],
            f"A run of ours at scale {scale} ({measured}): another corpus or scale than the paper's, no reproduction "
            "of its number, so no difference is taken.",
        )
    ]


def state_words(findings: Findings, evaluation: Evaluation, missing_seeds: Sequence[int]) -> dict[int, str]:
    """Return in a word or two, by seed, why an evaluation has no value."""
    words: dict[int, str] = {}
    for seed in missing_seeds:
        key = (evaluation.corpus, evaluation.system, seed)
        words[seed] = findings.state_by_key[key].status
        if words[seed] == "finished":
            words[seed] = "not scored" if key in findings.train_by_key else "not recorded"
    return words


def seeds_cell(
    findings: Findings, evaluation: Evaluation, value_by_seed: Mapping[int, float], metric: str, *further_marks: str
) -> Cell:
    """Return our cell: mean and interval, or how the seeds stand; always with the mark of the scale."""
    asked = findings.seeds_of(evaluation.corpus, evaluation.system)
    words = state_words(findings, evaluation, [seed for seed in asked if seed not in value_by_seed])
    marks = (*mark_of(findings, evaluation), *further_marks)
    counts = Counter(words.values())
    counted_words = ", ".join(f"{count} {word}" for word, count in sorted(counts.items()))
    if not value_by_seed:
        return text_cell(counted_words if len(counts) > 1 else next(iter(counts), "missing"), "state", *marks)
    text = format_seeds(list(value_by_seed.values()), metric, len(asked))
    if words:
        text = f"{text.removesuffix(')')}: {counted_words})"
    return text_cell(text, "ours", *marks)


def metric_cell(findings: Findings, evaluation: Evaluation, metric: str) -> Cell:
    """Return our cell of a metric; a dash where the evaluations are scored, but not in this definition."""
    values = findings.values_of(evaluation, metric)
    wanted = (evaluation.corpus, evaluation.system, evaluation.average, evaluation.testset)
    keys = findings.scores[["corpus", "system", "average", "testset"]]
    is_scored = any(tuple(row) == wanted for row in keys.itertuples(index=False))
    if not values and is_scored and metric != "ppl_per_subword":
        return text_cell(DASH, "state", *mark_of(findings, evaluation))
    return seeds_cell(findings, evaluation, values, metric)


def signatures_of(findings: Findings, measured: Iterable[tuple[Evaluation, str]]) -> tuple[tuple[str, str, str], ...]:
    """Return the different (metric, test set, signature) of all numbers of these evaluations, each in a metric."""
    wanted = {(e.corpus, e.system, e.average, e.testset, metric) for e, metric in measured}
    found: dict[tuple[str, str, str], None] = {}
    columns = ["corpus", "system", "average", "testset", "metric", "signature"]
    for corpus, system, average, testset, metric, signature in findings.scores[columns].itertuples(index=False):
        if (corpus, system, average, testset, metric) in wanted:
            found[(str(metric), f"{testset} ({corpus})", str(signature))] = None
    return tuple(sorted(found))


def state_notes(findings: Findings, evaluations: Sequence[Evaluation]) -> list[Note]:
    """Return a note for each training of these systems that is not finished: which, how it stands, and why."""
    systems = dict.fromkeys((evaluation.corpus, evaluation.system) for evaluation in evaluations)
    notes = []
    for corpus, system, seed in findings.state_by_key:
        state = findings.state_by_key[(corpus, system, seed)]
        if (corpus, system) in systems and state.status != "missing" and state.reason:
            text = f"{corpus} {system} seed {seed}: {state.status} at update {state.update:,} of {state.updates:,}"
            notes.append(Note("", f"{text}; {state.reason}."))
    return notes
