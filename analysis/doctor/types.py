"""Defines the types of a diagnosis, and reads the title and fix of each possible finding from
findings.csv.

A *claim* is the system and the corpus that a run should have. A *case* is the evidence on a run:
what its logs and records state. A *finding* is a difference between claim and case that may explain
a low BLEU. A *diagnosis* is the whole answer of `aiayn doctor`: all findings and notes.
"""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from aiayn.facts.trainings import Generation, Problem, Target, Training
from aiayn.printed import read_rows
from aiayn.spec.system import CorpusSpec


class Claim(msgspec.Struct, frozen=True):
    """The system and the corpus that a run should have. `target` contains the expected values.
    `name` is the name of the run or folder, for messages.
    """

    name: str
    corpus: CorpusSpec
    target: Target

    @property
    def is_papers_corpus(self) -> bool:
        """Whether the corpus is WMT14. Published lengths of translations and definitions of BLEU
        apply to WMT14 only.
        """
        return self.corpus.name.startswith("wmt14_")

    def role_of(self, testset: str) -> str:
        """Return what a test set of the corpus is used for: dev, test, or '' for a further test
        set.
        """
        for role in ("dev", "test"):
            if self.corpus.testset_of(role) == testset:
                return role
        return ""


class Case(msgspec.Struct, kw_only=True):
    """All evidence on a run: what its logs and records state. A field that is None or empty means
    that this evidence is absent.

    `generations` are the translations in logs of fairseq-generate. `translation_paths` also has the
    translations in our records. `problems` contains the problems that `aiayn.known_good` found in
    the training and in each translation. `not_read` has a sentence for each file that could not be
    read.
    """

    claim: Claim
    training: Training | None = None
    generations: list[Generation] = []
    translation_paths: list[str] = []
    problems: list[Problem] = []
    not_read: list[str] = []

    @property
    def log_path(self) -> str:
        """The path of the training's log, '' if no training was found."""
        return self.training.last.path if self.training else ""


class Cost(msgspec.Struct, frozen=True, kw_only=True):
    """The number of BLEU points that a wrong setting costs, positive if the setting lowers the
    score.

    If `low` is None, the cost is unknown, and `words` say so. If only `high` is None, the wrong
    setting may cost the whole BLEU. `certainty` is '' for a cost measured on this run. For all
    other costs, `certainty` says how well the cost is known: `confirmed` (measured twice, or by the
    author of the number), `measured` (the effect was measured, its cause was inferred),
    `suspected`, or `planted` (a fault made on purpose in the demo).
    """

    low: float | None = None
    high: float | None = None
    words: str = ""
    source: str = ""
    certainty: str = ""

    @property
    def most(self) -> float:
        """The highest possible cost in BLEU: 0 for an unknown cost, and infinite if the whole score
        may be lost.
        """
        if self.low is None:
            return 0.0
        return math.inf if self.high is None else self.high

    @property
    def is_gain(self) -> bool:
        """Whether the cost is negative, because the wrong setting raises the score."""
        return self.low is not None and self.low < 0 and self.most <= 0


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """A setting or log line that differs from the expected value, with its evidence, its cost in
    BLEU and how to fix it.

    `cause` is the name of the difference in published/costs.csv. `amount` is the value of the wrong
    setting, or its ratio to the expected value. `cost` comes from publications on the same corpus,
    or is computed from the log.
    """

    cause: str
    title: str
    evidence: tuple[Problem, ...]
    fix: str
    amount: float | None = None
    cost: Cost | None = None

    @property
    def is_symptom(self) -> bool:
        """Whether the finding is only a symptom, which may be caused by other findings."""
        return self.cause in ("lengths", "bleu")


# A check returns its findings, or a few words that say what it could not check and why. An empty
# sequence means that nothing is wrong.
Checked = Sequence[Finding] | str


class Diagnosis(msgspec.Struct, frozen=True, kw_only=True):
    """The whole answer of `aiayn doctor` about a run. The findings are ranked by cost.

    `notes` are sentences about everything that is unusual, could not be read or could not be
    checked. `not_judged` lists required settings that neither a log nor a record states. If
    `not_judged` is not empty, the answer cannot be "no difference".
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
    """A row of findings.csv: a cause, as in published/costs.csv, or a quantity, and the templates
    of the title and the fix of its finding. If `title` is '', the problem itself is the title.
    """

    cause: str
    title: str
    fix: str


# The file is read at import. A malformed findings.csv is then an error of every command of the
# doctor.
KNOWN_FINDINGS = {
    known.cause: known
    for _, known in read_rows(Path(__file__).parent / "findings.csv", _KnownFinding)
}


def make_finding(
    cause: str, evidence: Problem, *, cost: Cost | None = None, **values: Any
) -> Finding:
    """Make a finding with the title and the fix that findings.csv has for its cause. `values` fill
    the fields in these two templates.
    """
    texts = KNOWN_FINDINGS[cause]
    return Finding(
        cause=cause,
        title=texts.title.format(**values),
        fix=texts.fix.format(**values),
        evidence=(evidence,),
        cost=cost,
    )
