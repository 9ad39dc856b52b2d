"""Adds to each finding of the doctor its published cost in BLEU, and ranks the findings by cost.

A finding is a setting or a log line that differs from the expected value. The cost of a finding is
the number of BLEU points that are lost by this difference, as published in published/costs.csv and
published/gaps.csv. The file planted.csv has the costs of faults that were made on purpose (planted)
in the demo. A published cost is used only for the corpus, the kind of system and the size of the
difference with which it was measured.
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
from paper_tables.published_data import WHOLE_SCORE, HighCost, LowCost, counted_alike, read_gaps

PAPER_CORPORA = {corpus: pair for pair, corpus in PAPER_CORPUS_BY_LANGUAGE_PAIR.items()}
NUM_FILTERED = 2737.0  # lines of newstest2014 that sacreBLEU calls wmt14
UNKNOWN_COST = Cost(words="cost unknown: none is published for this corpus, system and size")
CERTAINTIES = ("", "confirmed", "measured", "suspected", "planted")  # from sure to unsure, see Cost
# A size is '' or a number such as `0.45` or `5e-4`.
Size = Annotated[str, msgspec.Meta(pattern=r"^(?:[0-9]+(?:\.[0-9]+)?(?:e-[0-9]+)?)?$")]


class _PublishedCost(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A published cost in BLEU of a wrong setting. The cost applies to findings with `cause` equal
    to `what`, with `amount` between `at_least` and `at_most` ('': any size), on the listed
    `corpora`.
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
        """Return whether this published cost applies to a finding: for the same difference, corpus
        and kind of system.
        """
        is_known = self.what == finding.cause and corpus in self.corpora.split()
        if not is_known or self.systems not in ("", kind):
            return False
        # A cost without bounds counts for any size.
        if not self.at_least and not self.at_most:
            return True
        # A cost with bounds does not apply to a difference of unknown size.
        low, high = float(self.at_least or 0), float(self.at_most or math.inf)
        return finding.amount is not None and low <= finding.amount <= high

    @property
    def cost(self) -> Cost:
        """The lowest and highest cost in BLEU, negative if the difference raises the score."""
        low = float(self.cost_low)
        high = None if self.cost_high == WHOLE_SCORE else float(self.cost_high)
        # A gain is a negative cost, so its bounds change places: a gain of 0.2 to 0.9 is a cost of
        # -0.9 to -0.2.
        if self.direction == "raises":
            low, high = -(high or 0.0), -low
        source = f"{self.evidence}; {self.source}"
        return Cost(low=low, high=high, certainty=self.certainty, source=source)


def read_costs() -> list[_PublishedCost]:
    """Return all measured costs of wrong settings: the published costs, and the costs of faults
    planted in the demo.

    Raises:
        TableError: if a file of costs is malformed.
    """
    paths = (PUBLISHED_FOLDER / "costs.csv", Path(__file__).parent / "planted.csv")
    return [cost for path in paths for _, cost in read_rows(path, _PublishedCost)]


def add_costs(diagnosis: Diagnosis) -> Diagnosis:
    """Return the diagnosis with a cost for each finding, and with the findings ranked by cost.

    Raises:
        TableError: if a file of published costs is malformed.
    """
    costs = read_costs()
    findings = []
    for finding in diagnosis.findings:
        cost = finding.cost
        # The cost of a symptom is the cost of its cause, and must not be counted twice. A check may
        # have computed a cost from the log itself, which is better than a published cost.
        if cost is None and not finding.is_symptom:
            cost = _published_cost(finding, diagnosis, costs)
        findings.append(msgspec.structs.replace(finding, cost=cost))
    return msgspec.structs.replace(diagnosis, findings=rank(findings))


def is_incomparable(finding: Finding) -> bool:
    """Return whether a finding makes the score incomparable with the paper's score: a different
    language pair or test set.

    The filtered newstest2014 (2,737 lines) counts as comparable, because scores on it are almost
    the same.
    """
    is_other_testset = finding.cause == "testset" and finding.amount != NUM_FILTERED
    return is_other_testset or finding.cause == "language_pair"


def rank(findings: Sequence[Finding]) -> tuple[Finding, ...]:
    """Return the findings in this order: findings that make the score incomparable, costs measured
    on this run, published costs, unknown costs, findings that raise the score, symptoms.

    Among findings of one kind, the highest cost comes first, and among equal costs the most certain
    cost. Findings with the same cost and certainty stay in the order of the checks.
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

    # Python's sort is stable, so equal keys keep the order of the checks. False comes before true.
    return tuple(sorted(findings, key=key))


def _kind(cost: Cost) -> int:
    # A finding that raises the score does not explain a low score, so it comes late.
    if cost.is_gain:
        return 3
    # Every known cost has a source. Only a published cost has a certainty.
    if not cost.source:
        return 2
    return 1 if cost.certainty else 0


def _published_cost(
    finding: Finding, diagnosis: Diagnosis, costs: Sequence[_PublishedCost]
) -> Cost:
    """Return the published cost of a finding in BLEU: the range of all published costs that apply
    to the finding, with the lowest certainty among them.
    """
    # Costs are published for base and big. Rows of Table 3 are variations of base.
    kind = "big" if diagnosis.system.startswith("big") else "base"
    published = [row.cost for row in costs if row.concerns(finding, diagnosis.corpus, kind)]
    if finding.cause == "definition":
        published += _definition_costs(str(finding.evidence[0].value), diagnosis.corpus)
    # The cost on a different corpus says little about this corpus, so the cost stays unknown.
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
    """Return the published BLEU differences on newstest2014 between the definition of the paper's
    number and `metric`. The cost is this difference, because the score in `metric` is lower by it.
    """
    key = (PAPER_CORPORA.get(corpus), "newstest2014", "yes")
    return [
        Cost(low=float(gap.low), high=float(gap.high), certainty="confirmed", source=gap.source)
        for gap in read_gaps()
        if gap.definition_to in counted_alike(metric)
        and (gap.language_pair, gap.testset, gap.counts) == key
    ]
