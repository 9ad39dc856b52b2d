"""What a rule says, be it of a log, of a run or of a command: a finding with its evidence, its fix and its cost."""

from typing import Literal

import msgspec

Severity = Literal["error", "apart", "note"]


class Evidence(msgspec.Struct, frozen=True, kw_only=True):
    """One fact: where it stands (`line` None for a whole file), what was found there, and what was expected."""

    path: str
    line: int | None
    what: str
    found: str
    expected: str


class Cost(msgspec.Struct, frozen=True, kw_only=True):
    """What a fault costs in BLEU, positive if it lowers the score; where nothing is known, `words` alone say so.

    `certainty` is '' for what was measured on this very run; else how well the cost itself is known: `confirmed` (a
    second measurement, or the number's author), `measured` (the effect, its cause inferred), `suspected`, `planted`.
    """

    low: float | None
    high: float | None
    words: str
    source: str
    certainty: str = ""


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """Something that is not as claimed. `check` is the rule that says so; a symptom may follow from other findings.

    `what` and `amount` say what was found in the terms in which costs were published (published/costs.csv): a symbol
    and its value, or the ratio to the paper's. `costs` come from this very run where they can be measured on it, else
    from publications on its own corpus. `likelihood` is how likely it is behind what is missing: `measured`,
    `likely`, `possible`, `unknown` (nobody published a cost), `unlikely` (it costs more than is missing), `raises`.

    `severity` is of a log that may fill a table, unset elsewhere: `error` keeps its number out, `apart` gives it a line
    of its own, on which nothing else is averaged, `note` is said beside it.
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
        """What sets it apart from others, in a few words."""
        return f"{self.evidence[0].what} {self.evidence[0].found}"

    def text(self, path: str) -> str:
        """Return the whole message of a log's finding: place, what is wrong, next step."""
        place = f"{path}:{self.line}" if self.line else path
        return f"{place}: {self.title} [{self.check}]; {self.fix}"
