"""Adds to each finding of the doctor what it costs in BLEU: measured on the run itself, published, or planted.

Published costs are those of published/causes.csv, the one place where they stand. A planted cost is one seed of base at
the scale of the demo with that fault in it, beside the clean run (tests/doctor/planted_faults.md); a test keeps the two
agreed. It says that a fault was seen to cost something there, and nothing of WMT14.
"""

import msgspec

from analysis.doctor.types import Cost, Diagnosis, Finding
from paper_tables.reference import PublishedCause, read_causes

PLANTED_SOURCE = "planted in base of the demo, 500 updates, one seed (tests/doctor/planted_faults.md)"
# Where nobody published a cost: BLEU lost in the demo, by check.
PLANTED_LOSS_BY_CHECK = {"vocabulary": -3.7, "alignment": 2.0, "schedule": 80.9}
_METRIC_BY_LANGUAGE_PAIR = {"en-de": "bleu_tok_compound_split", "en-fr": "bleu_tok_moses"}


def add_costs(diagnosis: Diagnosis, language_pair: str) -> Diagnosis:
    """Return the diagnosis with the costs of each finding, what was measured on the run itself first.

    Raises:
        TableError: if causes.csv is malformed.
    """
    causes = read_causes()
    system = published_system(diagnosis.system)
    findings = tuple(_with_costs(finding, causes, language_pair, system) for finding in diagnosis.findings)
    return msgspec.structs.replace(diagnosis, findings=findings)


def published_system(system: str) -> str:
    """Return the system of causes.csv that a system is nearest to: `big` for the big ones, `base` for all others."""
    return "big" if system.startswith("big") else "base"


def _with_costs(finding: Finding, causes: list[PublishedCause], language_pair: str, system: str) -> Finding:
    metric = _METRIC_BY_LANGUAGE_PAIR.get(language_pair, "")
    published = [
        _cost(cause)
        for cause in causes
        if cause.rank == finding.published_rank and cause.applies_to(language_pair, system, metric)
    ]
    planted = []
    if finding.check in PLANTED_LOSS_BY_CHECK:
        loss = PLANTED_LOSS_BY_CHECK[finding.check]
        planted = [Cost(low=loss, high=loss, words="", source=PLANTED_SOURCE)]
    costs = [*finding.costs, *([] if finding.is_symptom else published), *planted]
    if not costs:
        costs = [Cost(low=None, high=None, words="not known: nobody published a cost of it", source="")]
    return msgspec.structs.replace(finding, costs=tuple(costs))


def _cost(cause: PublishedCause) -> Cost:
    """Return a published cost; one that raises a score is negative."""
    low, high = (float(bound) for bound in cause.cost)
    source = f"{cause.evidence}; {cause.source} (rank {cause.rank})"
    if cause.direction == "raises":
        return Cost(low=-high, high=-low, words="", source=source)
    return Cost(low=low, high=None if cause.cost_high == "all" else high, words="", source=source)
