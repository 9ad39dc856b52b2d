"""Types of a finding on a log, a run or a command: evidence, fix and cost."""

from typing import Literal

import msgspec

Severity = Literal["error", "apart", "note"]


class Evidence(msgspec.Struct, frozen=True, kw_only=True):
    """One fact: its place (`line` None for a whole file), the value found there, and the value
    expected.
    """

    path: str
    line: int | None
    what: str
    found: str
    expected: str


class Cost(msgspec.Struct, frozen=True, kw_only=True):
    """The cost of a fault in BLEU, positive if it lowers the score; an unknown cost has `words`
    alone.

    `certainty` is '' for a cost measured on this run; else how well the cost itself is known:
    `confirmed` (a second measurement, or the number's author), `measured` (the effect, its cause
    inferred), `suspected`, `planted`.
    """

    low: float | None = None
    high: float | None = None
    words: str = ""
    source: str = ""
    certainty: str = ""


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """A difference from the claim. `check` is the rule that found it; a symptom may follow from
    other findings.

    `what` and `amount` name the difference as published/costs.csv does: a symbol and its value, or
    the ratio to the paper's value. `costs` are measured on this run where possible, otherwise taken
    from publications on the same corpus. `likelihood` says how likely the difference explains the
    missing BLEU: `measured`, `likely`, `possible`, `unknown` (no published cost), `unlikely` (the
    cost exceeds the missing BLEU), `raises`.

    `severity` is set only for a log that may fill a table: `error` keeps its number out of the
    tables, `apart` gives the number a line of its own, `note` is printed next to it.
    """

    check: str
    title: str
    evidence: tuple[Evidence, ...]
    fix: str
    published_rank: str = ""
    is_symptom: bool = False
    costs: tuple[Cost, ...] = ()
    what: str = ""
    amount: float | None = None
    likelihood: str = ""
    severity: Severity | msgspec.UnsetType = msgspec.UNSET

    @property
    def line(self) -> int:
        """The line that its evidence begins with, 0 for none."""
        return self.evidence[0].line or 0

    @property
    def label(self) -> str:
        """What distinguishes it from others, in a few words."""
        return f"{self.evidence[0].what} {self.evidence[0].found}"

    def text(self, path: str) -> str:
        """Return the whole message of a log's finding: place, what is wrong, next step."""
        place = f"{path}:{self.line}" if self.line else path
        return f"{place}: {self.title} [{self.check}]; {self.fix}"
