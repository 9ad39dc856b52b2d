"""Adds to each finding its published cost in BLEU, and ranks the findings by cost.

Costs come from published/costs.csv and published/gaps.csv. planted.csv contains the costs of faults
that were planted in the demo. A cost counts only for the corpus, the kind of system and the size of
the difference with which it was measured.
"""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Literal

import msgspec

from aiayn.printed import (
    PAPER_CORPUS_BY_LANGUAGE_PAIR,
    PUBLISHED_FOLDER,
    Text,
    read_rows,
)
from analysis.doctor.types import Cost, Diagnosis, Finding
from paper_tables.published_data import WHOLE_SCORE, HighCost, LowCost, read_gaps

PAPER_CORPORA = {corpus: pair for pair, corpus in PAPER_CORPUS_BY_LANGUAGE_PAIR.items()}
NUM_FILTERED = 2737.0  # lines of newstest2014 that sacreBLEU calls wmt14
UNKNOWN_COST = Cost(words="cost unknown: none is published for this corpus, system and size")
CERTAINTIES = ("", "confirmed", "measured", "suspected", "planted")
ALIKE = {"bleu_fairseq": "bleu_tok_moses"}  # both without compounds split
Size = Annotated[str, msgspec.Meta(pattern=r"^(?:[0-9]+(?:\.[0-9]+)?(?:e-[0-9]+)?)?$")]


class _PublishedCost(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A published cost in BLEU. It applies to findings with `cause` equal to `what`, with `amount`
    between `at_least` and `at_most` ('': any size), on the listed `corpora`.
    """

    what: Text
    at_least: Size
    at_most: Size
    corpora: Text
    systems: Literal["base", "big", ""]
    direction: Literal["lowers", "raises"]
    cost_low: LowCost
    cost_high: HighCost
    certainty: Literal["confirmed", "measured", "suspected", "planted"]
    evidence: Text
    source: Text

    def concerns(self, finding: Finding, corpus: str, kind: str) -> bool:
        """Return whether this cost applies to a finding: the same difference, corpus and kind of
        system.
        """
        is_known = self.what == finding.cause and corpus in self.corpora.split()
        if not is_known or self.systems not in ("", kind):
            return False
        # A cost without bounds counts for any size.
        if not self.at_least and not self.at_most:
            return True
        low, high = float(self.at_least or 0), float(self.at_most or math.inf)
        return finding.amount is not None and low <= finding.amount <= high

    @property
    def cost(self) -> Cost:
        """The bounds in BLEU, negative if the difference raises the score."""
        low = float(self.cost_low)
        high = None if self.cost_high == WHOLE_SCORE else float(self.cost_high)
        # A gain is a negative cost, so that the bounds change places.
        if self.direction == "raises":
            low, high = -(high or 0.0), -low
        source = f"{self.evidence}; {self.source}"
        return Cost(low=low, high=high, certainty=self.certainty, source=source)


def read_costs() -> list[_PublishedCost]:
    """Return every measured cost of a difference: the published costs and those planted in the
    demo.

    Raises:
        TableError: if a file is malformed.
    """
    paths = (PUBLISHED_FOLDER / "costs.csv", Path(__file__).parent / "planted.csv")
    return [cost for path in paths for _, cost in read_rows(path, _PublishedCost)]


def add_costs(diagnosis: Diagnosis) -> Diagnosis:
    """Return the diagnosis with costs, and with its findings ranked by them.

    Raises:
        TableError: if a published file is malformed.
    """
    costs = read_costs()
    findings = []
    for finding in diagnosis.findings:
        cost = finding.cost
        # A symptom has the cost of its cause, which must not be counted twice.
        if cost is None and not finding.is_symptom:
            cost = _published_cost(finding, diagnosis, costs)
        findings.append(msgspec.structs.replace(finding, cost=cost))
    return msgspec.structs.replace(diagnosis, findings=rank(findings))


def is_incomparable(finding: Finding) -> bool:
    """Return whether a finding makes the score incomparable with the printed score: a different
    language pair or test set. The filtered newstest2014 counts as comparable, because its scores
    are alike.
    """
    is_other_testset = finding.cause == "testset" and finding.amount != NUM_FILTERED
    return is_other_testset or finding.cause == "language_pair"


def rank(findings: Sequence[Finding]) -> tuple[Finding, ...]:
    """Return the findings by rank: findings that make the score incomparable, costs measured on
    this run, published costs, unknown costs, findings that raise the score, and symptoms.

    Among costs of one kind the highest comes first, then the best known. The order of the checks
    decides between equals.
    """

    def key(finding: Finding) -> tuple[bool, bool, int, float, int]:
        cost = finding.cost or UNKNOWN_COST
        return (
            finding.is_symptom,
            not is_incomparable(finding),
            _kind(cost),
            -cost.most,
            CERTAINTIES.index(cost.certainty),
        )

    return tuple(sorted(findings, key=key))


def _kind(cost: Cost) -> int:
    # What raises the score does not explain why it is low.
    if cost.is_gain:
        return 3
    if not cost.source:
        return 2
    return 1 if cost.certainty else 0


def _published_cost(
    finding: Finding, diagnosis: Diagnosis, costs: Sequence[_PublishedCost]
) -> Cost:
    """Return how many BLEU a finding costs, as published: from the lowest to the highest of all
    published costs that apply to the finding, with the lowest certainty among them.
    """
    # Costs are published for base and big. Rows of Table 3 are variations of base.
    kind = "big" if diagnosis.system.startswith("big") else "base"
    published = [row.cost for row in costs if row.concerns(finding, diagnosis.corpus, kind)]
    if finding.cause == "definition":
        published += _definition_costs(str(finding.evidence[0].value), diagnosis.corpus)
    # A guess from a different corpus would be worse than none.
    if not published:
        return UNKNOWN_COST
    most = max(cost.most for cost in published)
    return Cost(
        low=min(cost.low or 0.0 for cost in published),
        high=None if math.isinf(most) else most,
        certainty=max((cost.certainty for cost in published), key=CERTAINTIES.index),
        source="; ".join(dict.fromkeys(cost.source for cost in published)),
    )


def _definition_costs(metric: str, corpus: str) -> list[Cost]:
    """Return the published BLEU differences on newstest2014 between the definition of the printed
    number and `metric`. They are the cost of a score in `metric`, because it is the lower one.
    """
    key = (PAPER_CORPORA.get(corpus), ALIKE.get(metric, metric), "newstest2014", "yes")
    return [
        Cost(low=float(gap.low), high=float(gap.high), certainty="confirmed", source=gap.source)
        for gap in read_gaps()
        if (gap.language_pair, gap.definition_to, gap.testset, gap.counts) == key
    ]
