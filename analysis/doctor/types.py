"""Defines the types of the doctor (claim, evidence, finding, diagnosis) and texts of findings."""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from aiayn.facts.trainings import Generation, Problem, Target, Training
from aiayn.printed import read_rows
from aiayn.spec.system import CorpusSpec


class Claim(msgspec.Struct, frozen=True):
    """The system and the corpus that a run claims to have. `target` contains the expected
    values.
    """

    name: str
    corpus: CorpusSpec
    target: Target

    @property
    def is_papers_corpus(self) -> bool:
        """Whether the corpus is WMT14. The published counts hold only for WMT14 (section 5.1)."""
        return self.corpus.name.startswith("wmt14_")

    def role_of(self, testset: str) -> str:
        """Return the role of a test set in the corpus: dev or test, '' for any other."""
        for role in ("dev", "test"):
            if self.corpus.testset_of(role) == testset:
                return role
        return ""


class Case(msgspec.Struct, kw_only=True):
    """The evidence on a claim. None or an empty value means that this evidence is absent.

    `translations` come from logs only. `translation_paths` covers logs and records. `problems`
    contains what the judge found in the training and in each translation. `not_read` has a
    sentence for each file that could not be read.
    """

    claim: Claim
    training: Training | None = None
    generations: list[Generation] = []
    translation_paths: list[str] = []
    problems: list[Problem] = []
    not_read: list[str] = []

    @property
    def log_path(self) -> str:
        """The path of the training's log, '' if there is no training."""
        return self.training.last.path if self.training else ""


class Cost(msgspec.Struct, frozen=True, kw_only=True):
    """The cost of a fault in BLEU, positive if it lowers the score. Without `low` the cost is not
    known as a number. Without `high` the whole score may be lost.

    `certainty` is '' for a cost measured on this run. Otherwise it says how well the cost is known:
    `confirmed` (a second measurement, or the number's author), `measured` (the effect, its cause
    inferred), `suspected`, `planted`. An unknown cost has only `words`.
    """

    low: float | None = None
    high: float | None = None
    words: str = ""
    source: str = ""
    certainty: str = ""

    @property
    def most(self) -> float:
        """The highest cost. It is 0 for an unknown cost, and infinite if the whole score may be
        lost.
        """
        if self.low is None:
            return 0.0
        return math.inf if self.high is None else self.high

    @property
    def is_gain(self) -> bool:
        """Whether the difference raises the score."""
        return self.low is not None and self.low < 0 and self.most <= 0


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """A difference from the claim, with its evidence, its cost in BLEU and how to fix it.

    `cause` and `amount` use the vocabulary of published/costs.csv: a quantity, and its value or the
    ratio to the system's value. The cost comes from publications on the same corpus, or is computed
    from the log.
    """

    cause: str
    title: str
    evidence: tuple[Problem, ...]
    fix: str
    amount: float | None = None
    cost: Cost | None = None

    @property
    def is_symptom(self) -> bool:
        """Whether other findings may be its cause."""
        return self.cause in ("lengths", "bleu")


# A check returns its findings, or a few words that say what it could not check, and why.
Checked = Sequence[Finding] | str


class Diagnosis(msgspec.Struct, frozen=True, kw_only=True):
    """The whole answer, with its findings ranked.

    `notes` are sentences on what is unusual, could not be read or could not be checked.
    `not_judged` lists required quantities that neither a log nor a record states. If it is not
    empty, the answer cannot be "no difference".
    """

    name: str
    scale: str
    system: str
    corpus: str
    files: dict[str, str]
    findings: tuple[Finding, ...]
    notes: tuple[str, ...] = ()
    not_judged: tuple[str, ...] = ()


class _KnownFinding(msgspec.Struct, frozen=True):
    """A row of findings.csv: the cause, as in published/costs.csv, and templates for title and
    fix.
    """

    cause: str
    title: str
    fix: str


KNOWN_FINDINGS = {
    known.cause: known
    for _, known in read_rows(Path(__file__).parent / "findings.csv", _KnownFinding)
}


def make_finding(
    cause: str, evidence: Problem, *, cost: Cost | None = None, **values: Any
) -> Finding:
    """Make the finding with this cause in findings.csv. `values` fills the fields of its
    templates.
    """
    texts = KNOWN_FINDINGS[cause]
    return Finding(
        cause=cause,
        title=texts.title.format(**values),
        fix=texts.fix.format(**values),
        evidence=(evidence,),
        cost=cost,
    )
