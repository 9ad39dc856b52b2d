"""Lays out claims of others about the paper, grouped by verdict, each judged by the number that decides it.

A row of published/claims.csv is a claim, system or figure of the paper's readers. It names beforehand what decides it:
a test, a measurement, a comparison of two systems, a printed number, a reproduction, translations, or nothing here. The
number is found among what a scale has measured, trained and translated, and judged by the expectation in the row, never
by hand. Intervals are of 95 %: over draws for a measurement, over the seeds that both systems have for a comparison,
pair by pair.
"""

import math
import re
import statistics
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Literal

import msgspec
from scipy import stats

from aiayn.claims.records import Measurement
from aiayn.errors import TableError
from aiayn.printed import PUBLISHED_FOLDER, PublishedCell, Text, printed_number, read_rows, read_sentences, read_table
from aiayn.spec.system import ListedSource
from analysis.scoring.seeds import CONFIDENCE, MIN_SEEDS_OF_INTERVAL, paired_differences, t_half_width
from analysis.scoring.verdict import Outcome
from paper_tables.frame import Frame, Number
from paper_tables.layout import PLUS_MINUS, Cell, Column, Field, Note, Table, columns_of, label, label_field, rows_of
from paper_tables.tables.ours import complete

Verdict = Literal["settled", "contradicted", "not settled", "not testable here"]
VERDICTS: tuple[Verdict, ...] = ("contradicted", "settled", "not settled", "not testable here")  # in the table's order

Kind = Literal["claim", "contradiction", "system", "figure", "mistake", "reference", "method", "task"]
DecidedBy = Literal["test", "measurement", "comparison", "printed", "reproduction", "sentences", "nothing"]

_NUMBER = r"-?[0-9]+(?:\.[0-9]+)?"
Expectation = tuple[float, float, bool]  # where a number must lie: from, to, and whether strictly between them

NUM_DIGITS = 4
NORMAL_REACH = float(stats.norm.ppf((1 + CONFIDENCE) / 2))  # 1.96 standard errors
VERDICT_BY_FINDING: dict[str, Verdict] = {"holds": "settled", "fails": "contradicted"}
VERDICT_BY_OUTCOME: dict[Outcome, Verdict] = {Outcome.REPRODUCED: "settled", Outcome.NOT_REPRODUCED: "contradicted"}
RECORD_METRICS = ("wall_seconds", "num_parameters")  # of a training's record, not of its scores
NOTES = (
    "A test settles a claim by its presence: its outcome is not read here. It is in this checkout, and continuous "
    "integration runs it with all others; where a test fails, it settles nothing.",
    "The expectation is in paper_tables/published/claims.csv beside the claim from whose words it follows; for a "
    "training it was there before the training was run. A number settles a claim if all of its 95 % interval is as "
    "expected, and contradicts it if none of it is. The interval of a measurement is over its draws, that of a "
    "comparison over the seeds that both systems have, pair by pair; of two seeds the two differences are shown. Of "
    "twenty such intervals one is expected to miss the true value.",
    "A comparison is settled at the scale at which it was run, and at no other. What the paper's own printed numbers "
    "settle is what is printed.",
)


class PublishedClaim(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One line: a claim and what decides it. A source with several claims has several parts.

    `evidence` names a test, a measurement, `a b metric` (a minus b), a printed cell or two, or sentences; `expected` is
    `> x`, `< x`, `= x` or `x to y`. `finding` is what a passing test shows. `config` is the config that runs it.
    """

    id: Annotated[str, msgspec.Meta(pattern=r"^(V-[0-9]{2}|X-[0-9])$")]
    part: Annotated[str, msgspec.Meta(pattern=r"^[a-z]?$")]
    source: Text
    kind: Kind
    statement: Text
    decided_by: DecidedBy
    evidence: str
    expected: str
    finding: Literal["holds", "fails", ""]
    config: Literal["demo", "variants", "claims", "multi30k", "paper", ""]
    note: str

    @property
    def name(self) -> str:
        """The id with its part: `V-50b`."""
        return self.id + self.part


class Judgement(msgspec.Struct, frozen=True, kw_only=True):
    """A verdict with its evidence: a number beside its expectation, a test's name, or the reason for having none.

    `measurement`, or the `numbers` of two systems, is what the number was made of, if of ours.
    """

    verdict: Verdict
    by: str
    measurement: Measurement | None = None
    numbers: tuple[Number, ...] = ()


def read_claims(folder: Path = PUBLISHED_FOLDER) -> list[PublishedClaim]:
    """Return every claim, in the order of the ids.

    Raises:
        TableError: the file is malformed, or an expectation is.
    """
    placed = read_rows(folder / "claims.csv", PublishedClaim)
    for place, claim in placed:
        if claim.expected:
            parse_expectation(claim.expected, place)
    return [claim for _, claim in placed]


def parse_expectation(text: str, place: str = "an expectation") -> Expectation:
    """Return the bounds of `> x`, `< x` (strict), `= x` or `x to y`.

    Raises:
        TableError: it is none of these, or its bounds are the wrong way round.
    """
    match = re.fullmatch(rf"([<>=]) ({_NUMBER})|({_NUMBER}) to ({_NUMBER})", text)
    if match is None or (match[3] and float(match[3]) > float(match[4])):
        raise TableError(f"{place}: expected is {text!r}; write '> x', '< x', '= x' or 'x to y' with x below y")
    low, high = float(match[2] or match[3]), float(match[2] or match[4])
    return (-math.inf if match[1] == "<" else low, math.inf if match[1] == ">" else high, match[1] in ("<", ">"))


def judge_number(value: float, half_width: float, expectation: Expectation) -> Verdict:
    """Return settled if all of value +- half_width is as expected, contradicted if none of it is, else not settled.

    A value that is not a number settles nothing.
    """
    lowest, highest = value - half_width, value + half_width
    low, high, is_open = expectation
    if low < lowest and highest < high if is_open else low <= lowest and highest <= high:
        return "settled"
    if highest <= low or lowest >= high if is_open else highest < low or lowest > high:
        return "contradicted"
    return "not settled"


def lay_out_claims(frame: Frame) -> Table | None:
    """Return one row a claim or part of one, by verdict, counted in the caption; None without `has_claims`."""
    if not frame.has_claims:
        return None
    pairs = [(claim, judge_claim(claim, frame)) for claim in read_claims()]
    pairs.sort(key=lambda pair: VERDICTS.index(pair[1].verdict))

    def verdict_cell(pair: tuple[PublishedClaim, Judgement]) -> Cell:
        numbers = pair[1].numbers
        return replace(label(pair[1].verdict, *(numbers[0].marks if numbers else ())), shows=numbers)

    counts = Counter(judgement.verdict for _, judgement in pairs)
    counted = ", ".join(f"{counts[verdict]} {verdict}" for verdict in VERDICTS)
    measured = [judgement.measurement for _, judgement in pairs if judgement.measurement is not None]
    fields: tuple[Field[tuple[PublishedClaim, Judgement]], ...] = (
        label_field("id", "", lambda pair: pair[0].name),
        label_field("statement", "claim", lambda pair: pair[0].statement),
        label_field("kind", "kind", lambda pair: pair[0].kind),
        label_field("source", "source", lambda pair: pair[0].source),
        Field(Column("verdict", "verdict", side="label"), verdict_cell),
        label_field("by", "by what", lambda pair: pair[1].by),
    )
    table = Table(
        name="claims",
        title="Claims",
        caption="What notes, lectures, tutorials and the paper itself say, and what decides it. A source that says "
        f"several things has several lines. Of {len(pairs)} statements: {counted}.",
        columns=columns_of(fields),
        rows=rows_of(fields, pairs),
        notes=tuple(Note("", text) for text in NOTES),
        summary=f"{len(pairs)} statements: {counted}",
        signatures=tuple((one.name, "measured without a training", one.signature) for one in measured),
    )
    return complete(frame, table, has_precisions=False, has_states=False)


def judge_claim(claim: PublishedClaim, frame: Frame) -> Judgement:
    """Return the verdict on a claim, with its evidence."""
    judges: dict[DecidedBy, Callable[[], Judgement]] = {
        # its presence settles a claim: continuous integration runs it
        "test": lambda: Judgement(
            verdict=VERDICT_BY_FINDING[claim.finding], by=f"test {', '.join(claim.evidence.split())}{_remark(claim)}"
        ),
        "measurement": lambda: _judge_measurement(claim, frame),
        "comparison": lambda: _judge_comparison(claim, frame),
        "printed": lambda: _judge_printed(claim),
        "reproduction": lambda: _judge_reproduction(claim, frame),
        "sentences": lambda: _judge_sentences(claim, frame),
        "nothing": lambda: Judgement(verdict="not testable here", by=claim.note),
    }
    return judges[claim.decided_by]()


def command_of(claim: PublishedClaim) -> str:
    """Return the command that runs the evidence that a claim lacks."""
    if claim.decided_by == "measurement":
        return "aiayn measure --seed 1 --record results/<scale>/measure/record.json"
    if claim.config == "paper":
        return "snakemake --profile slurm"
    return f"snakemake --profile profiles/local --configfile workflow/config/{claim.config}.yaml"


def _not_run(claim: PublishedClaim, seen: str = "not run here") -> Judgement:
    return Judgement(verdict="not settled", by=f"{seen}: {command_of(claim)}")


def _judged(
    claim: PublishedClaim, what: str, value: float, half_width: float = 0.0, unit: str = "1", shown: str = ""
) -> Judgement:
    """Judge a number; its words have `shown`, else the number: `what: 1.014 +- 0.014, expected 0.97 to 1.03`."""
    number = shown or f"{value:.{NUM_DIGITS}g}"
    if half_width and not shown:
        number += f" {PLUS_MINUS} {half_width:.2g}"
    verdict = judge_number(value, half_width, parse_expectation(claim.expected))
    words = number if unit == "1" else f"{number} {unit}"
    return Judgement(verdict=verdict, by=f"{what}: {words}, expected {claim.expected}{_remark(claim)}")


def _remark(claim: PublishedClaim) -> str:
    return f"; {claim.note}" if claim.note else ""


def _judge_measurement(claim: PublishedClaim, frame: Frame) -> Judgement:
    measurements = [] if "measure" not in frame.record_by_stage else frame.record_by_stage["measure"].measurements
    one = next((one for one in measurements if one.name == claim.evidence), None)
    if one is None:
        return _not_run(claim)
    judgement = _judged(claim, one.name, one.value, NORMAL_REACH * one.standard_error, one.unit)
    return msgspec.structs.replace(judgement, measurement=one)


def _judge_comparison(claim: PublishedClaim, frame: Frame) -> Judgement:
    """Judge the mean difference a - b over the seeds that both have, by its paired t-interval."""
    system, reference, metric = claim.evidence.split()
    found = (frame.number(frame.compared(name), metric) for name in (system, reference))
    numbers = tuple(number for number in found if number is not None)
    values = [number.value_by_seed for number in numbers]
    if len(values) < 2 or not values[0].keys() & values[1].keys():
        return _not_run(claim)
    differences = paired_differences(*values)
    where = "of a training" if metric in RECORD_METRICS else f"on {numbers[0].key.testset}"
    what = f"{system} minus {reference}, {metric} {where}, n={len(differences)}"
    each = ", ".join(f"{difference:.{NUM_DIGITS}g}" for difference in differences)
    if len(differences) < 2:
        by = f"{what}: {each}; one seed has no interval{_remark(claim)}"
        judgement = Judgement(verdict="not settled", by=by)
    else:
        shown = each if len(differences) < MIN_SEEDS_OF_INTERVAL else ""
        judgement = _judged(claim, what, statistics.mean(differences), t_half_width(differences), shown=shown)
    return msgspec.structs.replace(judgement, numbers=numbers)


def _printed_cell(reference: str) -> PublishedCell:
    """Return the printed cell of `table2:big:bleu_en_de`, or of one edition with `@arxiv` after it."""
    place, _, edition = reference.partition("@")
    table, row, column = place.removeprefix("table").split(":")
    wanted = (row, edition or "both")
    found = [cell for cell in read_table(int(table)) if (cell.row, cell.edition) == wanted]
    for cell in found:
        if column in cell.covered_columns:
            return cell
    raise TableError(f"claims.csv: {reference} is not printed; name a cell of table{table}.csv, with its edition")


def _judge_printed(claim: PublishedClaim) -> Judgement:
    """Judge a printed number, or the difference or quotient of two; decimals are exact."""
    first, *rest = claim.evidence.split()
    cells = [_printed_cell(reference) for reference in (first, *rest[1:])]
    values = [Decimal(cell.value) for cell in cells]
    pages = ", ".join(dict.fromkeys(f"Table {cell.table}, page {cell.page}" for cell in cells))
    if not rest:
        return _judged(claim, f"printed ({pages})", float(values[0]))
    sign = rest[0]
    value = values[0] - values[1] if sign == "-" else values[0] / values[1]
    what = f"printed {cells[0].value} {'minus' if sign == '-' else 'over'} {cells[1].value} ({pages})"
    return _judged(claim, what, float(value))


def _judge_reproduction(claim: PublishedClaim, frame: Frame) -> Judgement:
    """Return the verdict on a printed number, which has a rule of its own (table `verdicts`)."""
    cell = _printed_cell(claim.evidence)
    column = claim.evidence.partition("@")[0].rpartition(":")[2]
    wanted = (str(cell.table), cell.row, column, cell.edition)
    found = next(one for one in frame.judged if (one.table, one.row, one.column, one.edition) == wanted)
    printed = f"printed {printed_number(cell.value):g}"
    if found.number is None or found.verdict.outcome is Outcome.NOT_COMPARABLE:
        return _not_run(claim, f"{printed}, under whose conditions nothing was run here")
    verdict = VERDICT_BY_OUTCOME.get(found.verdict.outcome, "not settled")
    return Judgement(verdict=verdict, by=f"{printed}: {found.verdict.outcome.value}. {found.verdict.reason}")


def _judge_sentences(claim: PublishedClaim, frame: Frame) -> Judgement:
    """Judge the fraction of a listed test set's sentences, trained on or not, that read like their reference."""
    row, which = claim.evidence.split()
    run = read_sentences()[row][0]
    corpus = frame.corpora.get(run.corpus)
    lines_by_seed = {seed: one.lines for seed, one in frame.translations.get(run.key, {}).items()}
    if corpus is None or not isinstance(corpus.source, ListedSource) or not lines_by_seed:
        return _not_run(claim)
    pairs_by_split = corpus.source.pairs_by_split
    trained = {pair[corpus.source_language] for pair in pairs_by_split["train"]}
    is_right = [
        line == pair[corpus.target_language]
        for lines in lines_by_seed.values()
        for line, pair in zip(lines, pairs_by_split[run.testset], strict=True)
        if (pair[corpus.source_language] in trained) == (which == "trained")
    ]
    what = f"{sum(is_right)} of {len(is_right)} sentences as the reference, n={len(lines_by_seed)}"
    return _judged(claim, what, sum(is_right) / len(is_right))
