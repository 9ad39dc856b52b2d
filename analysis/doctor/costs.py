"""Estimates what each finding of the doctor costs in BLEU and how likely it explains what is
missing; ranks them so.

Costs are those of published/costs.csv and Table 3 that were seen on the run's own corpus with a
system of its kind and a difference of that size; a fault planted in the demo is one for the demo
alone. The costs of all causes together are never more than what is missing beside the printed
number.
"""

import math
from collections.abc import Sequence
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Literal

import msgspec

from aiayn.errors import TableError
from aiayn.logs.findings import Cost, Finding
from aiayn.logs.symbols import symbols_of_spec
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
from aiayn.spec.system import read_system
from analysis.doctor.types import WORDS_BY_CHECK, Answer, Diagnosis, Missing, fact, make_finding
from paper_tables.published_data import WHOLE_SCORE, HighCost, LowCost, read_gaps

PAPER_CORPORA = {corpus: pair for pair, corpus in PAPER_CORPUS_BY_LANGUAGE_PAIR.items()}
OTHER_CORPORA = (
    "iwslt14_de_en",
)  # on which differences were measured that the paper's corpora have no cost of
DEMO_CORPUS = "demo_en_de"
MIN_SLIP = 3.0  # BLEU; less than that, no published slip of tokenisation cost
NUM_FILTERED = 2737.0  # lines of newstest2014 that sacreBLEU calls wmt14
NOISE = 0.3  # two runs of one recipe lie this far apart (cause 12 of causes.csv)
UNKNOWN_COST = "cost unknown: none is published for this corpus, system and size"
PLANTED_SOURCE = (
    "planted in base of the demo, 700 updates, one seed (tests/doctor/planted_faults.md)"
)
CERTAINTIES = ("", "confirmed", "measured", "suspected", "planted")
LIKELIHOODS = ("measured", "likely", "possible", "unknown", "unlikely", "raises")
_FAIRSEQ_GAP = {"bleu_fairseq": "bleu_tok_moses"}  # both without compounds split
Size = Annotated[str, msgspec.Meta(pattern=r"^(?:[0-9]+(?:\.[0-9]+)?(?:e-[0-9]+)?)?$")]


class PlantedCost(msgspec.Struct, frozen=True):
    """BLEU lost in the demo by a fault as it was planted, by its quantity; two seeds differ by
    0.8.
    """

    what: str
    fault: str
    loss: float


PLANTED_COSTS = tuple(
    row for _, row in read_rows(Path(__file__).parent / "planted.csv", PlantedCost)
)


class PublishedCost(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A difference of a size `at_least` to `at_most` ('': any), on one of `corpora`, and its
    measured cost.

    `what` and the size are those of `Finding`; `rank` is that of causes.csv ('': it has none).
    """

    what: Text
    rank: str
    at_least: Size
    at_most: Size
    corpora: Text
    systems: Literal["base", "big", ""]
    direction: Literal["lowers", "raises"]
    cost_low: LowCost
    cost_high: HighCost
    certainty: Literal["confirmed", "measured", "suspected"]
    evidence: Text
    source: Text

    @property
    def bounds(self) -> tuple[float, float]:
        """Smallest and largest cost in BLEU, negative if it raises the score; infinite for
        `all`.
        """
        low, high = (
            float(self.cost_low),
            math.inf if self.cost_high == WHOLE_SCORE else float(self.cost_high),
        )
        return (low, high) if self.direction == "lowers" else (-high, -low)

    def concerns(self, finding: Finding, corpus: str, system: str) -> bool:
        """Return whether this cost is of the finding's `what`, rank and amount, on its corpus and
        system.
        """
        if (self.what, self.rank) != (finding.what, finding.published_rank):
            return False
        if corpus not in self.corpora.split() or self.systems not in ("", system):
            return False
        if not self.at_least and not self.at_most:
            return True
        amount = finding.amount
        if amount is None:
            return False
        low, high = float(self.at_least or 0), float(self.at_most or math.inf)
        return low * (1 - 1e-9) <= amount <= high * (1 + 1e-9)


class _KnownCost(msgspec.Struct, frozen=True):
    """The published cost of a finding: bounds in BLEU, positive if it lowers; `high` infinite for
    `all`.
    """

    low: float
    high: float
    certainty: str
    source: str

    @property
    def is_nothing(self) -> bool:
        """Whether published runs show that the difference costs nothing."""
        return self.low == self.high == 0 and self.certainty in ("confirmed", "measured")


def read_costs(folder: Path = PUBLISHED_FOLDER) -> list[PublishedCost]:
    """Return every published cost of a difference of known size.

    Raises:
        TableError: the file is malformed, or a range is upside down.
    """
    placed = read_rows(folder / "costs.csv", PublishedCost)
    for place, cost in placed:
        sizes = [float(text) for text in (cost.at_least, cost.at_most) if text]
        if cost.bounds[0] > cost.bounds[1] or sorted(sizes) != sizes:
            raise TableError(
                f"{place}: costs {cost.bounds} for sizes {sizes}; expected the smaller first"
            )
    return [cost for _, cost in placed]


def published_system(system: str) -> str:
    """Return the system that published costs are of: `big` for the big ones, `base` for all
    others.
    """
    return "big" if system.startswith("big") else "base"


def add_costs(diagnosis: Diagnosis, missing: Missing | None = None) -> Diagnosis:
    """Return the diagnosis with costs, findings ranked by likelihood, and harmless differences
    separate.

    `missing` is by default computed from the diagnosis's own scores. Where several BLEU are missing
    that nothing explains, and no line could be read, text and scoring are suspected.

    Raises:
        TableError: if a published file is malformed.
    """
    answer = _with_costs(diagnosis, missing)
    is_read = any(
        outcome.check == "pieces" and not outcome.missing for outcome in diagnosis.outcomes
    )
    if (
        is_read
        or answer.missing is None
        or not answer.missing.is_known
        or answer.missing.high < MIN_SLIP
    ):
        return answer
    known = sum(
        one.costs[0].high or 0.0
        for one in answer.findings
        if one.likelihood in ("likely", "possible")
    )
    if answer.missing.high - known <= MIN_SLIP or any(
        one.what == "slip" for one in answer.findings
    ):
        return answer
    evidence = fact("", "text and scoring", "in no setting", "as the references")
    slip = make_finding(
        "unexplained", [evidence], amount=0.0
    )  # published costs go by the ratio of lengths: here none
    return _with_costs(
        msgspec.structs.replace(diagnosis, findings=(*diagnosis.findings, slip)), missing
    )


def _with_costs(diagnosis: Diagnosis, missing: Missing | None) -> Diagnosis:
    findings = list(diagnosis.findings)
    if (
        diagnosis.corpus not in PAPER_CORPORA
    ):  # costs published for the paper's corpora do not hold for others
        findings = [
            msgspec.structs.replace(
                finding, costs=tuple(cost for cost in finding.costs if not cost.certainty)
            )
            for finding in findings
        ]
    if diagnosis.corpus not in PAPER_CORPORA and diagnosis.corpus not in OTHER_CORPORA:
        findings = [_with_planted_cost(finding, diagnosis) for finding in findings]
        return msgspec.structs.replace(diagnosis, findings=rank(findings))
    costs, table3 = read_costs(), _table3_costs()
    pairs = [
        (one, _known_cost(one, diagnosis.corpus, diagnosis.system, costs, table3))
        for one in findings
    ]
    raised = sum(-known.low for _, known in pairs if known is not None and known.low < 0)
    missing = missing or (None if _is_other_testset(diagnosis) else _missing(diagnosis))
    if missing is not None and missing.is_known and raised:
        words = f"{missing.words}; up to {raised:.1f} more, as something here raises it"
        missing = msgspec.structs.replace(missing, high=missing.high + raised, words=words)
    findings = _shared_out(
        [(one, known) for one, known in pairs if known is None or not known.is_nothing], missing
    )
    harmless = tuple(
        msgspec.structs.replace(finding, costs=(_cost(known, (0.0, 0.0)),))
        for finding, known in pairs
        if known is not None and known.is_nothing
    )
    left = {finding.check for finding in findings}
    outcomes = tuple(
        _seen(outcome, harmless) if outcome.findings and outcome.check not in left else outcome
        for outcome in diagnosis.outcomes
    )
    return msgspec.structs.replace(
        diagnosis, findings=rank(findings), harmless=harmless, outcomes=outcomes, missing=missing
    )


def _is_other_testset(diagnosis: Diagnosis) -> bool:
    """Return whether the score belongs to another test set; the filtered newstest2014 reads
    alike.
    """
    return any(one.check == "testset" and one.amount != NUM_FILTERED for one in diagnosis.findings)


def rank(findings: Sequence[Finding]) -> tuple[Finding, ...]:
    """Return findings by likelihood, among these by what can be lost, then by how well that is
    known; symptoms last.
    """

    def key(finding: Finding) -> tuple[bool, int, float, int, int]:
        cost = finding.costs[0] if finding.costs else None
        likelihood = LIKELIHOODS.index(finding.likelihood or "unknown")
        lost = (
            0.0
            if cost is None or cost.low is None
            else math.inf
            if cost.high is None
            else cost.high
        )
        certainty = CERTAINTIES.index(cost.certainty) if cost else len(CERTAINTIES)
        return (
            finding.is_symptom,
            likelihood,
            -lost,
            certainty,
            list(WORDS_BY_CHECK).index(finding.check),
        )

    return tuple(sorted(findings, key=key))


def missing_bleu(
    corpus: str, system: str, role: str, bleu: float, metric: str = ""
) -> Missing | None:
    """Return what a BLEU lacks beside the printed number of its system, the higher one of two
    editions; None without.

    A number in another definition than the printed one's lacks what that definition costs, too: it
    is a cause.
    """
    pair = PAPER_CORPORA.get(corpus, "")
    printed = [
        (join.metric, float(find_printed(join, read_table(join.table)).value), join.table)
        for join in read_cells()
        if (join.language_pair, join.system, join.role) == (pair, system, role)
        and join.metric.startswith("bleu")
    ]
    if not printed:
        return None
    printed_metric, value, table = max(printed, key=lambda one: one[1])
    lowest = min(one[1] for one in printed)
    own = metric or printed_metric
    words = f"{value:g} printed in Table {table} ({printed_metric}), {bleu:g} here ({own})"
    return Missing(low=lowest - bleu, high=value - bleu, words=words)


def _with_planted_cost(finding: Finding, diagnosis: Diagnosis) -> Finding:
    """Return a finding of another corpus: measured on the run itself, or planted in the demo if it
    is the demo's.
    """
    if finding.costs:
        likelihood = "raises" if (finding.costs[0].low or 0.0) < 0 else "measured"
        return msgspec.structs.replace(finding, likelihood="" if finding.is_symptom else likelihood)
    is_demo = diagnosis.corpus == DEMO_CORPUS
    planted = [one for one in PLANTED_COSTS if is_demo and one.what == finding.what]
    costs = tuple(
        Cost(
            low=one.loss,
            high=one.loss,
            source=f"{one.fault}, {PLANTED_SOURCE}",
            certainty="planted",
        )
        for one in planted
    )
    if finding.is_symptom or not costs:
        costs = (Cost(words=UNKNOWN_COST),)
    likelihood = "" if finding.is_symptom else "possible" if planted else "unknown"
    return msgspec.structs.replace(finding, costs=costs, likelihood=likelihood)


def _missing(diagnosis: Diagnosis) -> Missing | None:
    for role in ("test", "dev"):
        if role in diagnosis.scores:
            value, metric = round(diagnosis.scores[role], 2), diagnosis.metrics.get(role, "")
            if missing := missing_bleu(diagnosis.corpus, diagnosis.system, role, value, metric):
                return missing
    for role in ("test", "dev"):
        if whole := missing_bleu(diagnosis.corpus, diagnosis.system, role, 0.0):
            words = "no score was given: at most the whole printed number"
            return Missing(low=0.0, high=whole.high, words=words, is_known=False)
    return None


def _known_cost(
    finding: Finding,
    corpus: str,
    system: str,
    costs: Sequence[PublishedCost],
    table3: dict[tuple[str, object], "_KnownCost"],
) -> _KnownCost | None:
    """Return the published cost of a finding: from the lowest to the highest, with the lowest
    certainty.
    """
    for cost in finding.costs:
        if (
            cost.certainty and cost.low is not None and cost.high is not None
        ):  # published for this very pair of values
            return _KnownCost(cost.low, cost.high, cost.certainty, cost.source)
    kind = published_system(system)
    rows = [
        _KnownCost(*row.bounds, row.certainty, f"{row.evidence}; {row.source}")
        for row in costs
        if row.concerns(finding, corpus, kind)
    ]
    if corpus == "wmt14_en_de" and kind == "base":
        value = finding.evidence[0].found if finding.amount is None else finding.amount
        rows += [table3[finding.what, value]] if (finding.what, value) in table3 else []
    if finding.what.startswith("definition "):
        rows += _definition_cost(finding.what.removeprefix("definition "), corpus)
    if finding.is_symptom or not rows:
        return None
    sources = "; ".join(dict.fromkeys(row.source for row in rows))
    certainty = max((row.certainty for row in rows), key=CERTAINTIES.index)
    return _KnownCost(
        min(row.low for row in rows), max(row.high for row in rows), certainty, sources
    )


def _definition_cost(metric: str, corpus: str) -> list[_KnownCost]:
    """Return by how much a definition reads below that of the printed number, by published gaps on
    newstest2014.
    """
    pair = PAPER_CORPORA.get(corpus)
    metric = _FAIRSEQ_GAP.get(metric, metric)
    if pair is None or metric == METRIC_BY_PAIR[pair]:
        return []
    gaps = [
        gap
        for gap in read_gaps()
        if (gap.language_pair, gap.definition_to, gap.testset, gap.counts)
        == (pair, metric, "newstest2014", "yes")
    ]
    if not gaps:
        return []
    low, high = min(gap.bounds[0] for gap in gaps), max(gap.bounds[1] for gap in gaps)
    return [
        _KnownCost(
            float(low),
            float(high),
            "confirmed",
            "; ".join(dict.fromkeys(gap.source for gap in gaps)),
        )
    ]


def _table3_costs() -> dict[tuple[str, object], _KnownCost]:
    """Return what the paper's own variations cost on newstest2013, by the one symbol that a row
    changes.
    """
    base = symbols_of_spec(read_system("base", "paper").training)
    cells = read_table(3)
    joins = [join for join in read_cells() if join.table == 3 and join.metric.startswith("bleu")]
    printed = {join.system: Decimal(find_printed(join, cells).value) for join in joins}
    costs: dict[tuple[str, object], _KnownCost] = {}
    for system, value_printed in printed.items():
        if not system.startswith("table3_"):
            continue
        symbols = symbols_of_spec(read_system(system, "paper").training)
        changed = [name for name in symbols if symbols[name] != base.get(name)]
        named = (
            next((name for name in ("num_heads", "d_model", "d_k") if name in changed), None)
            or changed[0]
        )
        value = symbols[named]
        loss = float(printed["base"] - value_printed)
        row = system.split("_")[1].upper()
        source = (
            f"{value_printed} against {printed['base']} on newstest2013; the paper, Table 3 ({row})"
        )
        key = value if isinstance(value, str) else float(value)
        costs[named, key] = _KnownCost(loss, loss, "confirmed", source)
    return costs


def _seen(outcome: Answer, harmless: Sequence[Finding]) -> Answer:
    """Return an outcome whose differences cost nothing: seen, with the published runs that show
    it.
    """
    words = [
        f"{one.evidence[0].what} {one.evidence[0].found}, expected {one.evidence[0].expected}:"
        f" costs nothing in published runs ({one.costs[0].source})"
        for one in harmless
        if one.check == outcome.check
    ]
    return Answer(check=outcome.check, seen="; ".join(words))


def _shared_out(
    pairs: Sequence[tuple[Finding, _KnownCost | None]], missing: Missing | None
) -> list[Finding]:
    """Return findings with costs and likelihoods; published costs share the missing BLEU that
    measured ones leave.
    """
    measured = sum(
        max(0.0, cost.low or 0.0)
        for finding, _ in pairs
        if not finding.is_symptom
        for cost in finding.costs[:1]
    )
    rest = None if missing is None else max(0.0, missing.high - measured)
    candidates = [
        (place, known)
        for place, (finding, known) in enumerate(pairs)
        if known is not None and not finding.costs and not finding.is_symptom and known.high > 0
    ]
    is_known = missing is not None and missing.is_known
    is_reached = (
        missing is not None and missing.is_known and missing.high <= 0
    )  # nothing is to be explained
    fitting = [
        (place, known)
        for place, known in candidates
        if rest is None or not is_known or known.low <= rest + NOISE
    ]
    share = dict(
        zip(
            [place for place, _ in fitting],
            _shares([known for _, known in fitting], rest),
            strict=True,
        )
    )
    findings = []
    for place, (finding, known) in enumerate(pairs):
        likelihood, costs = "unknown", finding.costs
        if costs:
            likelihood = "raises" if (costs[0].low or 0.0) < 0 else "measured"
        elif finding.is_symptom:
            likelihood = ""
        elif known is None:
            costs = (Cost(words=UNKNOWN_COST),)
        elif known.high <= 0:
            likelihood, costs = "raises", (_cost(known, (known.low, known.high)),)
        elif place in share:
            others = [other for where, other in fitting if where != place and other.high > NOISE]
            is_likely = known.certainty == "confirmed" and not others
            likelihood = "likely" if is_likely else "possible"
            costs = (_cost(known, share[place]),)
        else:
            likelihood, costs = "unlikely", (_cost(known, (0.0, 0.0)),)
        if is_reached and likelihood in ("likely", "possible", "unknown"):
            likelihood = "unlikely"
            costs = (
                Cost(
                    low=0.0, high=0.0, words="nothing is missing", source="the score that was given"
                ),
            )
        findings.append(msgspec.structs.replace(finding, costs=costs, likelihood=likelihood))
    return findings


def _shares(known: Sequence[_KnownCost], rest: float | None) -> list[tuple[float, float]]:
    """Return the bounds of each cost as far as all of them together fit into what is missing.

    Where the highest do not fit, each gives up the same part of its range; where not even the
    lowest do, each has a part in proportion to its highest.
    """
    if rest is None:
        return [(one.low, min(one.high, 100.0)) for one in known]
    bounds = [(min(max(one.low, 0.0), rest), min(one.high, rest)) for one in known]
    lows, highs = sum(low for low, _ in bounds), sum(high for _, high in bounds)
    if highs <= rest:
        return bounds
    if lows <= rest and (lows < rest or len(bounds) == 1):
        part = (rest - lows) / (highs - lows)
        return [(low, low + (high - low) * part) for low, high in bounds]
    parts = [min(one.high, 100.0) for one in known]
    shares = [rest * part / sum(parts) for part in parts]
    return [(min(low, share), share) for (low, _), share in zip(bounds, shares, strict=True)]


def _cost(known: _KnownCost, share: tuple[float, float]) -> Cost:
    """Return a cost as large as what is missing allows; where that is less than published, its
    words note it.
    """
    published = f"{known.low:.1f} to {'all' if math.isinf(known.high) else f'{known.high:.1f}'}"
    is_less = share[0] < known.low - 0.05 or (
        share[1] < known.high - 0.05 and not math.isinf(known.high)
    )
    words = f"published: {published}" if is_less or math.isinf(known.high) else ""
    return Cost(
        low=share[0], high=share[1], words=words, source=known.source, certainty=known.certainty
    )
