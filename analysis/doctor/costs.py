"""Adds to each finding its cost in BLEU and how likely it explains what is missing, and ranks the
findings.

Costs come from published/costs.csv and published/gaps.csv; planted.csv has the costs of faults that
were planted in the demo. A cost counts only for the corpus, the kind of system
and the size of the difference with which it was measured. All costs together never exceed what is
missing to the printed number.
"""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Literal

import msgspec

from aiayn.printed import (
    METRIC_BY_PAIR,
    PAPER_CORPUS_BY_LANGUAGE_PAIR,
    PUBLISHED_FOLDER,
    Text,
    find_printed,
    read_cells,
    read_rows,
    read_table,
)
from analysis.doctor.types import Cost, Diagnosis, Finding, Missing
from paper_tables.published_data import WHOLE_SCORE, HighCost, LowCost, read_gaps

PAPER_CORPORA = {corpus: pair for pair, corpus in PAPER_CORPUS_BY_LANGUAGE_PAIR.items()}
NUM_FILTERED = 2737.0  # lines of newstest2014 that sacreBLEU calls wmt14
NOISE = 0.3  # BLEU between two runs of one recipe (cause 12 of causes.csv)
UNKNOWN_COST = "cost unknown: none is published for this corpus, system and size"
CERTAINTIES = ("", "confirmed", "measured", "suspected", "planted")
LIKELIHOODS = ("measured", "likely", "possible", "unknown", "unlikely", "raises")
_FAIRSEQ_GAP = {"bleu_fairseq": "bleu_tok_moses"}  # both without compounds split
Size = Annotated[str, msgspec.Meta(pattern=r"^(?:[0-9]+(?:\.[0-9]+)?(?:e-[0-9]+)?)?$")]


class PublishedCost(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The measured cost of a difference, of a size from `at_least` to `at_most` ('': any size), on
    the listed `corpora`; `what` and the size are `quantity` and `amount` of a `Finding`.
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
        """Return whether this cost was measured for such a finding, on its corpus and kind of
        system.
        """
        is_known = self.what == finding.quantity and corpus in self.corpora.split()
        if not is_known or self.systems not in ("", kind):
            return False
        if not self.at_least and not self.at_most:
            return True
        low, high = float(self.at_least or 0), float(self.at_most or math.inf)
        return finding.amount is not None and low <= finding.amount <= high

    @property
    def cost(self) -> Cost:
        """The bounds in BLEU, negative if the difference raises the score; `high` is infinite if
        the whole score may be lost.
        """
        low = float(self.cost_low)
        high = math.inf if self.cost_high == WHOLE_SCORE else float(self.cost_high)
        if self.direction == "raises":
            low, high = -high, -low
        source = f"{self.evidence}; {self.source}"
        return Cost(low=low, high=high, certainty=self.certainty, source=source)


def read_costs() -> list[PublishedCost]:
    """Return every measured cost of a difference: the published costs and those planted in the
    demo.

    Raises:
        TableError: if a file is malformed.
    """
    paths = (PUBLISHED_FOLDER / "costs.csv", Path(__file__).parent / "planted.csv")
    return [cost for path in paths for _, cost in read_rows(path, PublishedCost)]


def add_costs(diagnosis: Diagnosis, missing: Missing | None = None) -> Diagnosis:
    """Return the diagnosis with costs, and with its findings ranked by likelihood.

    `missing` is by default computed from the diagnosis's own scores.

    Raises:
        TableError: if a published file is malformed.
    """
    costs = read_costs()
    pairs = [(finding, _known_cost(finding, diagnosis, costs)) for finding in diagnosis.findings]
    if missing is None and not any(is_incomparable(finding) for finding in diagnosis.findings):
        missing = _missing(diagnosis)
    raised = sum(max(0.0, -bounds_of(known)[0]) for _, known in pairs if known is not None)
    if missing is not None and missing.is_known and raised:
        words = f"{missing.words}; up to {raised:.1f} more, as something here raises it"
        missing = msgspec.structs.replace(missing, high=missing.high + raised, words=words)
    findings = rank(_with_likelihoods(pairs, missing))
    return msgspec.structs.replace(diagnosis, findings=findings, missing=missing)


def bounds_of(cost: Cost | None) -> tuple[float, float]:
    """Return the bounds of a cost in BLEU, 0 for an unknown cost."""
    return (0.0, 0.0) if cost is None else (cost.low or 0.0, cost.high or 0.0)


def is_incomparable(finding: Finding) -> bool:
    """Return whether a finding forbids to compare the score with the printed one: another language
    pair or another test set, except the filtered newstest2014, which reads alike.
    """
    is_other_testset = finding.quantity == "testset" and finding.amount != NUM_FILTERED
    return is_other_testset or finding.quantity == "language_pair"


def rank(findings: Sequence[Finding]) -> tuple[Finding, ...]:
    """Return findings in their rank: first what makes the score incomparable, then by likelihood,
    then by what can be lost, then by how well that is known; symptoms last. The order of the checks
    decides between equals.
    """

    def key(finding: Finding) -> tuple[bool, bool, int, float, int]:
        certainty = finding.cost.certainty if finding.cost else ""
        return (
            finding.is_symptom,
            not is_incomparable(finding),
            LIKELIHOODS.index(finding.likelihood or "unknown"),
            -bounds_of(finding.cost)[1],
            CERTAINTIES.index(certainty),
        )

    return tuple(sorted(findings, key=key))


def _missing(diagnosis: Diagnosis) -> Missing | None:
    """Return the BLEU that is missing to the printed number; None if no number is printed for the
    system and corpus. If two editions print different numbers, the higher number counts.

    A score in another definition than the printed number's also lacks what that definition costs:
    the definition is a cause.
    """
    pair = PAPER_CORPORA.get(diagnosis.corpus, "")
    whole = None
    for role in ("test", "dev"):
        printed = [
            (float(find_printed(join, read_table(join.table)).value), join.table, join.metric)
            for join in read_cells()
            if (join.language_pair, join.system, join.role) == (pair, diagnosis.system, role)
            and join.metric.startswith("bleu")
        ]
        if not printed:
            continue
        value, table, metric = max(printed)
        if role in diagnosis.scores:
            bleu = round(diagnosis.scores[role], 2)
            own = diagnosis.metrics.get(role) or metric
            words = f"{value:g} printed in Table {table} ({metric}), {bleu:g} here ({own})"
            return Missing(low=min(printed)[0] - bleu, high=value - bleu, words=words)
        words = "no score was given: at most the whole printed number"
        whole = whole or Missing(low=0.0, high=value, words=words, is_known=False)
    return whole


def _known_cost(
    finding: Finding, diagnosis: Diagnosis, costs: Sequence[PublishedCost]
) -> Cost | None:
    """Return the published cost of a finding: from the lowest to the highest of all that concern
    it, with the lowest certainty.
    """
    kind = "big" if diagnosis.system.startswith("big") else "base"
    known = [row.cost for row in costs if row.concerns(finding, diagnosis.corpus, kind)]
    if finding.quantity.startswith("definition "):
        metric = finding.quantity.removeprefix("definition ")
        known += _definition_costs(metric, diagnosis.corpus)
    if finding.is_symptom or not known:
        return None
    return Cost(
        low=min(bounds_of(one)[0] for one in known),
        high=max(bounds_of(one)[1] for one in known),
        certainty=max((one.certainty for one in known), key=CERTAINTIES.index),
        source="; ".join(dict.fromkeys(one.source for one in known)),
    )


def _definition_costs(metric: str, corpus: str) -> list[Cost]:
    """Return each published gap on newstest2014 between the printed number's definition and this
    definition, which reads lower.
    """
    key = (PAPER_CORPORA.get(corpus), _FAIRSEQ_GAP.get(metric, metric), "newstest2014", "yes")
    if METRIC_BY_PAIR.get(key[0] or "") == key[1]:
        return []
    return [
        Cost(low=float(gap.low), high=float(gap.high), certainty="confirmed", source=gap.source)
        for gap in read_gaps()
        if (gap.language_pair, gap.definition_to, gap.testset, gap.counts) == key
    ]


def _with_likelihoods(
    pairs: Sequence[tuple[Finding, Cost | None]], missing: Missing | None
) -> list[Finding]:
    """Return findings with costs and likelihoods.

    Published costs share the missing BLEU that measured costs leave. A cause whose lowest cost is
    more than that is unlikely. If the highest costs of the others do not fit, each is reduced in
    proportion.
    """
    is_known = missing is not None and missing.is_known
    is_reached = False
    rest = 100.0
    if missing is not None:
        is_reached = missing.is_known and missing.high <= 0
        causes = [finding for finding, _ in pairs if not finding.is_symptom]
        measured = sum(max(0.0, bounds_of(finding.cost)[0]) for finding in causes)
        rest = max(0.0, missing.high - measured)
    limit = rest + NOISE if is_known else math.inf
    fitting = [
        known
        for finding, known in pairs
        if known is not None and finding.cost is None
        if bounds_of(known)[1] > 0 and bounds_of(known)[0] <= limit
    ]
    highest = [bounds_of(known)[1] for known in fitting]
    total = sum(min(high, rest) for high in highest)
    factor = min(1.0, rest / total) if total else 1.0
    findings = []
    for finding, known in pairs:
        (low, high), likelihood, cost = bounds_of(known), "unknown", finding.cost
        if finding.is_symptom:
            likelihood = ""
        elif cost is not None:
            likelihood = "raises" if bounds_of(cost)[0] < 0 else "measured"
        elif known is not None and high <= 0:
            likelihood, cost = "raises", _share(known, low, high)
        elif is_reached:
            likelihood, cost = "unlikely", NOTHING_MISSING
        elif known is None:
            cost = Cost(words=UNKNOWN_COST)
        elif known in fitting:
            is_rival = sum(other > NOISE for other in highest) > (high > NOISE)
            is_likely = known.certainty == "confirmed" and not is_rival
            likelihood = "likely" if is_likely else "possible"
            share = min(high, rest) * factor
            cost = _share(known, min(max(low, 0.0), share), share)
        else:
            likelihood, cost = "unlikely", _share(known, 0.0, 0.0)
        findings.append(msgspec.structs.replace(finding, cost=cost, likelihood=likelihood))
    return findings


NOTHING_MISSING = Cost(
    low=0.0, high=0.0, words="nothing is missing", source="the score that was given"
)


def _share(known: Cost, low: float, high: float) -> Cost:
    """Return a cost as large as what is missing allows; its words note if more was published."""
    published_low, published_high = bounds_of(known)
    is_whole = math.isinf(published_high)
    words = f"published: {published_low:.1f} to {'all' if is_whole else f'{published_high:.1f}'}"
    if not is_whole and low >= published_low - 0.05 and high >= published_high - 0.05:
        words = ""
    return msgspec.structs.replace(known, low=low, high=high, words=words)
