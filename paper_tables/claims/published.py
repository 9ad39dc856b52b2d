"""Turns published/claims.csv into typed, checked rows, and judges a number by the expectation in its row.

A row is a claim, system or figure of the paper's readers. It names beforehand what decides it: a test, a measurement,
a comparison of two systems, a printed number, a reproduction, translations, or nothing here. `layout` finds the
number and makes the table.
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

Kind = Literal["claim", "contradiction", "system", "figure", "mistake", "reference", "method", "task"]
DecidedBy = Literal["test", "measurement", "comparison", "printed", "reproduction", "sentences", "nothing"]

_NUMBER = r"-?[0-9]+(?:\.[0-9]+)?"


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
