"""Turns published/claims.csv into typed, checked rows, and judges a number by the expectation in its row.

A row is a claim, system or figure of the paper's readers. It names beforehand what decides it: a test, a measurement,
a comparison of two systems, a printed number, a reproduction, translations, or nothing here. `evidence` finds the
number, `layout` makes the table.
"""

import math
import re
from pathlib import Path
from typing import Annotated, Literal, NamedTuple

import msgspec

from aiayn.errors import TableError
from aiayn.paths import Evaluation
from aiayn.printed import PUBLISHED_FOLDER, Text, read_rows
from aiayn.records import Measurement

Verdict = Literal["settled", "contradicted", "not settled", "not testable here"]
SETTLED: Verdict = "settled"
CONTRADICTED: Verdict = "contradicted"
NOT_SETTLED: Verdict = "not settled"
NOT_TESTABLE: Verdict = "not testable here"
VERDICTS = (CONTRADICTED, SETTLED, NOT_SETTLED, NOT_TESTABLE)  # in the table's order
CONFIGS = ("demo", "variants", "claims", "multi30k", "paper")  # workflow/config/<name>.yaml

Kind = Literal["claim", "contradiction", "system", "figure", "mistake", "reference", "method", "task"]
DecidedBy = Literal["test", "measurement", "comparison", "printed", "reproduction", "sentences", "nothing"]
COMPARED_METRICS = ("ppl_per_subword", "bleu_tok_compound_split", "bleu_sacre_13a", "wall_seconds", "num_parameters")

_NUMBER = r"-?[0-9]+(?:\.[0-9]+)?"
_NAME = r"[a-z0-9_.]+"
_CELL = r"table[1-4]:\w+:\w+(?:@neurips2017|@arxiv)?"
EVIDENCE_BY_DECIDER: dict[DecidedBy, str] = {
    "test": r"tests/\w+/test_\w+\.py::test_\w+(?: tests/\w+/test_\w+\.py::test_\w+)*",
    "measurement": _NAME,
    "comparison": rf"{_NAME} {_NAME} (?:{'|'.join(COMPARED_METRICS)})",
    "printed": rf"{_CELL}(?: [-/] {_CELL})?",
    "reproduction": _CELL,
    "sentences": r"\w+ (?:trained|unseen)",
    "nothing": "",
}
_HAS_EXPECTATION = ("measurement", "comparison", "printed", "sentences")
_NEEDS_CONFIG = ("comparison", "reproduction", "sentences")


class Expectation(NamedTuple):
    """Where a number must lie: from `low` to `high`, or, if `is_open`, strictly between them."""

    low: float
    high: float
    is_open: bool


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

    `measurement`, or the `evaluations` of two systems and their `metric`, is what the number was made of, if of ours.
    """

    verdict: Verdict
    by: str
    measurement: Measurement | None = None
    evaluations: tuple[Evaluation, ...] = ()
    metric: str = ""


def read_claims(folder: Path = PUBLISHED_FOLDER) -> list[PublishedClaim]:
    """Return every claim, in the order of the ids.

    Raises:
        TableError: the file is malformed, an id or part is repeated or out of order, or a line does not name what
            decides it, and only that.
    """
    placed = read_rows(folder / "claims.csv", PublishedClaim)
    parts_by_id: dict[str, list[str]] = {}
    for place, claim in placed:
        _check_decision(place, claim)
        if claim.id in parts_by_id and claim.id != list(parts_by_id)[-1]:
            raise TableError(f"{place}: {claim.id} is on an earlier line too; keep its parts together")
        parts_by_id.setdefault(claim.id, []).append(claim.part)
        parts = parts_by_id[claim.id]
        if len(parts) > 1 and parts != [chr(ord("a") + index) for index in range(len(parts))]:
            raise TableError(f"{place}: the parts of {claim.id} are {parts}; expected a, b, c and so on, or one blank")
    if list(parts_by_id) != sorted(parts_by_id):
        raise TableError(f"{folder / 'claims.csv'}: ids are out of order; sort the lines by id and part")
    return [claim for _, claim in placed]


def _check_decision(place: str, claim: PublishedClaim) -> None:
    """Check that a line has exactly the fields of its kind of decision."""
    pattern = EVIDENCE_BY_DECIDER[claim.decided_by]
    if re.fullmatch(pattern, claim.evidence) is None:
        raise TableError(f"{place}: evidence {claim.evidence!r} of a {claim.decided_by}; expected the form {pattern!r}")
    wanted = {
        "expected": claim.decided_by in _HAS_EXPECTATION,
        "finding": claim.decided_by == "test",
        "config": claim.decided_by in _NEEDS_CONFIG,
    }
    for field, is_wanted in wanted.items():
        if bool(getattr(claim, field)) != is_wanted:
            expected = "one" if is_wanted else "none"
            found = f"{field} is {getattr(claim, field)!r}"
            raise TableError(f"{place}: {found}; a line decided by {claim.decided_by} has {expected}")
    if claim.decided_by == "nothing" and not claim.note:
        raise TableError(f"{place}: {claim.name} is decided by nothing; add a note why it cannot be tested")
    if claim.expected:
        parse_expectation(claim.expected, place)


def parse_expectation(text: str, place: str = "an expectation") -> Expectation:
    """Return the bounds of `> x`, `< x` (strict), `= x` or `x to y`.

    Raises:
        TableError: it is none of these, or its bounds are the wrong way round.
    """
    if match := re.fullmatch(rf"> ({_NUMBER})", text):
        return Expectation(float(match[1]), math.inf, is_open=True)
    if match := re.fullmatch(rf"< ({_NUMBER})", text):
        return Expectation(-math.inf, float(match[1]), is_open=True)
    if match := re.fullmatch(rf"= ({_NUMBER})", text):
        return Expectation(float(match[1]), float(match[1]), is_open=False)
    match = re.fullmatch(rf"({_NUMBER}) to ({_NUMBER})", text)
    if match is None or float(match[1]) > float(match[2]):
        raise TableError(f"{place}: expected is {text!r}; write '> x', '< x', '= x' or 'x to y' with x below y")
    return Expectation(float(match[1]), float(match[2]), is_open=False)


def judge_number(value: float, half_width: float, expectation: Expectation) -> Verdict:
    """Return settled if all of value +- half_width is as expected, contradicted if none of it is, else not settled.

    A value that is not a number settles nothing.
    """
    lowest, highest = value - half_width, value + half_width
    low, high, is_open = expectation
    if low < lowest and highest < high if is_open else low <= lowest and highest <= high:
        return SETTLED
    if highest <= low or lowest >= high if is_open else highest < low or lowest > high:
        return CONTRADICTED
    return NOT_SETTLED
