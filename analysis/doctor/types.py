"""Types of the doctor: the claim, the evidence, the outcome of each check, the diagnosis; and the
list of checks with the texts of their findings.

A finding is a judgement as `paper_tables.compare` makes it, with a title and a cost.
"""

import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import msgspec

from aiayn.known_good.judge import Problem
from aiayn.logs.evidence import LoggedTraining
from aiayn.logs.types import GenerationLog, TrainingLog
from aiayn.printed import read_rows
from aiayn.spec.system import CorpusSpec, DecodingSpec, TrainingSpec
from analysis.doctor.data_bin import DataBin
from paper_tables.compare.judgement import Judgement

# Turns hypotheses and references into values in percent by metric, under every definition that
# applies.
Scorer = Callable[[Sequence[str], Sequence[str]], dict[str, float]]


class Claim(msgspec.Struct, frozen=True):
    """The system that a run claims to be. `average_by_use` has the same meaning as in a
    `PaperSystem`; it is empty if no table has the system.
    """

    name: str
    scale: str
    system: str
    corpus: CorpusSpec
    training: TrainingSpec
    decoding: DecodingSpec
    average_by_use: dict[str, str]

    @property
    def is_papers_corpus(self) -> bool:
        """Whether the corpus is WMT14; the paper's counts hold only for it (section 5.1)."""
        return self.corpus.name.startswith("wmt14_")


class Reported(msgspec.Struct, frozen=True):
    """A reported score: its value in percent, its signature ('' without one), and its file."""

    place: str
    metric: str
    value: float
    signature: str


class Translation(msgspec.Struct, frozen=True, kw_only=True):
    """One translated test set; '' and None mean that a value is not known.

    `references` are the references of the score, as found. `generation` is the log of
    fairseq-generate at `path`, or what a record says of the search. `lines` are empty for a log
    without sentences.
    """

    path: str
    testset: str
    role: str
    lines: tuple[str, ...] = ()
    references_path: str = ""
    references: tuple[str, ...] | None = None
    reported: tuple[Reported, ...] = ()
    generation: GenerationLog | None = None

    @property
    def logged(self) -> GenerationLog | None:
        """The log of fairseq-generate, if it has a BLEU line."""
        return self.generation if self.generation and self.generation.bleu_line else None

    @property
    def can_be_scored(self) -> bool:
        """Whether there are lines and the same number of references."""
        return (
            bool(self.lines)
            and self.references is not None
            and len(self.references) == len(self.lines)
        )


class Attending(msgspec.Struct, frozen=True):
    """Statistics of cross-attention from a record of `perplexity`, see `PerplexityRecord`.

    `entropies` has one value for each decoder layer and head, 1 if the head reads all words of a
    source alike. `bits_lost` is the loss of a subword in bits if all heads did so.
    """

    place: str
    entropies: tuple[tuple[float, ...], ...]
    bits_lost: float


class Case(msgspec.Struct, frozen=True):
    """The evidence on a claim; None or empty means absent. `notes` name the files that could not be
    read, and `statements` are the problems of what logs state besides settings.
    """

    claim: Claim
    training: LoggedTraining | None
    data: DataBin | None
    translations: tuple[Translation, ...]
    scorer: Scorer
    attending: Attending | None = None
    notes: tuple[str, ...] = ()
    statements: tuple[Problem, ...] = ()

    @property
    def log(self) -> TrainingLog | None:
        """The training's log, None if there is no training."""
        return self.training.log if self.training else None

    @property
    def place(self) -> str:
        """The data-bin's folder, else the path of the log; '' without either."""
        if self.data is not None:
            return str(self.data.folder)
        return self.training.path if self.training else ""


class Cost(msgspec.Struct, frozen=True, kw_only=True):
    """The cost of a fault in BLEU, positive if it lowers the score; without `low` the cost is not
    known as a number, and without `high` the whole score may be lost.

    `certainty` is '' for a cost measured on this run; else how well the cost itself is known:
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
        """The highest cost; 0 for an unknown cost, infinite if the whole score may be lost."""
        if self.low is None:
            return 0.0
        return math.inf if self.high is None else self.high

    @property
    def is_gain(self) -> bool:
        """Whether the difference raises the score."""
        return self.low is not None and self.low < 0 and self.most <= 0


class Finding(Judgement, frozen=True, kw_only=True):
    """A difference from the claim: its first judgement, and in `also` the others.

    `quantity` and `amount` name the difference as published/costs.csv does: a symbol and its value,
    or the ratio to the paper's value. The cost is measured on this run where possible, otherwise
    taken from publications on the same corpus.
    """

    title: str
    check: str = ""
    also: tuple[Judgement, ...] = ()
    amount: float | None = None
    cost: Cost | None = None

    @property
    def is_symptom(self) -> bool:
        """Whether other findings may be its cause."""
        return self.quantity == "lengths"


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """The outcome of a check: its findings, or what was as expected (`seen`), or why the check
    could not be made (`missing`). `diagnose` sets `check`, here and in the findings.
    """

    check: str = ""
    findings: tuple[Finding, ...] = ()
    seen: str = ""
    missing: str = ""


class Diagnosis(msgspec.Struct, frozen=True, kw_only=True):
    """The whole answer: findings in their rank, and the outcome of every check in the order in
    which it was made.

    `notes` are sentences on what could not be compared. `not_judged` are the required quantities
    that nothing states: with any of them, "no difference" cannot be said.
    """

    name: str
    scale: str
    system: str
    corpus: str
    files: dict[str, str]
    findings: tuple[Finding, ...]
    outcomes: tuple[Answer, ...]
    notes: tuple[str, ...] = ()
    not_judged: tuple[str, ...] = ()


# The checks with their subjects, in the order of the ranked causes (causes.csv).
WORDS_BY_CHECK = {
    "data": "numbers of pairs",
    "vocabulary": "joint vocabulary with </s>",
    "alignment": "pairs that are translations",
    "pieces": "pieces joined, detokenised",
    "reference_order": "references in their order",
    "batch": "batch, rate and updates",
    "divergence": "a training that holds",
    "start": "a decoder that attends",
    "model": "model and optimizer",
    "facts": "lines that agree",
    "average": "checkpoints averaged",
    "search": "search",
    "lengths": "length of translations",
    "definition": "definition of the scores",
    "testset": "lines of the test set",
}


class KnownFinding(msgspec.Struct, frozen=True):
    """A row of findings.csv: `what` differs, as published/costs.csv names it, and the templates of
    title and fix.
    """

    name: str
    what: str
    title: str
    fix: str


KNOWN_FINDINGS = {
    known.name: known
    for _, known in read_rows(Path(__file__).parent / "findings.csv", KnownFinding)
}


def make_finding(
    name: str,
    evidence: Sequence[Judgement],
    *,
    amount: float | None = None,
    cost: Cost | None = None,
    **values: Any,
) -> Finding:
    """Return the finding with a name in findings.csv, whose texts may have fields of the first
    judgement; `values` replace such fields.
    """
    known, (first, *others) = KNOWN_FINDINGS[name], evidence
    fields = msgspec.structs.asdict(first) | {"words": first.words or first.quantity}
    texts = fields | values
    fields |= {
        "quantity": known.what.format(**texts),
        "title": known.title.format(**texts),
        "fix": known.fix.format(**texts),
    }
    return Finding(**fields, also=tuple(others), amount=amount, cost=cost)


def fact(
    path: object, words: str, found: object, expected: object, line: int | None = None
) -> Judgement:
    """Return a difference that no comparison with the system judges, values as text."""
    return Judgement(
        quantity=words,
        group="other",
        verdict="different",
        path=str(path),
        line=line,
        words=words,
        found=str(found),
        expected=str(expected),
    )


def outcome_of(findings: Sequence[Finding], seen: Sequence[str], missing: str) -> Answer:
    """Return the outcome of a check: its findings, else what was seen, else what is missing."""
    if findings:
        return Answer(findings=tuple(findings))
    return Answer(seen="; ".join(seen)) if any(seen) else Answer(missing=missing)
