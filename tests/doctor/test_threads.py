"""Each complete public thread as a case: its causes are found with their published costs, and never
surer than it.
"""

from typing import Any

import pytest
from msgspec.structs import replace

from aiayn.spec.system import Overrides
from analysis.doctor.costs import PAPER_CORPORA, add_costs, bounds_of
from analysis.doctor.diagnose import diagnose
from analysis.doctor.diagnoses import make_claim
from analysis.doctor.types import Case, Diagnosis, Finding, Missing, Reported
from tests.doctor.threads import CASES, CHANGED, Settings, ThreadCase, settings

# What a thread's mark allows the doctor to say of a cause.
ALLOWED = {
    "confirmed": ("likely", "possible", "unknown", "unlikely", "raises", ""),
    "measured": ("likely", "possible", "unknown", "unlikely", "raises", ""),
    "guess": ("possible", "unknown", "unlikely", "raises", ""),
}
IDS = [case.name for case in CASES]


def diagnosed(case: ThreadCase) -> Diagnosis:
    missing = None
    if case.reference is not None and case.bleu is not None:
        lost = case.reference - case.bleu
        missing = Missing(low=lost, high=lost, words=f"{case.reference} against {case.bleu}")
    return of_settings(case.settings, case.corpus, case.bleu, case.role, missing)


def of_settings(
    settings: Settings,
    corpus: str,
    bleu: float | None = None,
    role: str = "test",
    missing: Missing | None = None,
) -> Diagnosis:
    """Return the differences from the system of the paper that is nearest.

    A corpus that the paper does not have is compared with the settings of En-De, but not with the
    costs of En-De.
    """
    claimed_corpus = corpus if corpus in PAPER_CORPORA else "wmt14_en_de"
    claim = make_claim("thread", "paper", settings.system, claimed_corpus, Overrides())
    reported = () if bleu is None else (Reported("thread", settings.metric, bleu, ""),)
    translation = replace(settings.translation, reported=reported, role=role)
    case = Case(claim, settings.training, None, (translation,), lambda hypotheses, references: {})
    return add_costs(replace(diagnose(case), corpus=corpus), missing)


def published_bounds(finding: Finding) -> tuple[float | None, float | None]:
    """Return the bounds as published, be they shown in the words or as they are."""
    cost = finding.cost
    assert cost is not None
    if not cost.words.startswith("published: "):
        return cost.low, cost.high
    low, _, high = cost.words.removeprefix("published: ").partition(" to ")
    return float(low), 100.0 if high == "all" else float(high)


@pytest.mark.parametrize("case", CASES, ids=IDS)
def test_the_causes_of_a_thread_are_found_with_their_published_costs(case: ThreadCase) -> None:
    finding_by_quantity = {one.quantity: one for one in diagnosed(case).findings}
    for expected in case.expected:
        assert expected.quantity in finding_by_quantity
        finding = finding_by_quantity[expected.quantity]
        bounds = published_bounds(finding)
        assert bounds == (
            pytest.approx(expected.low, abs=0.051),
            pytest.approx(expected.high, abs=0.051),
        )
        assert expected.low is None or (finding.cost is not None and finding.cost.source)


@pytest.mark.parametrize("case", CASES, ids=IDS)
def test_the_doctor_is_no_surer_than_the_thread_and_its_ranking_and_costs_fit_together(
    case: ThreadCase,
) -> None:
    diagnosis = diagnosed(case)
    findings, missing = diagnosis.findings, diagnosis.missing
    assert {finding.likelihood for finding in findings} <= set(ALLOWED[case.mark])
    if case.has_first_cause:
        assert findings[0].quantity in {expected.quantity for expected in case.expected}
    if missing is None:
        assert case.corpus not in ("wmt14_en_de", "wmt14_en_fr")
        return
    costs = [bounds_of(finding.cost)[1] for finding in findings]
    assert sum(cost for cost in costs if cost > 0) <= max(0.0, missing.high) + 1e-9
    if missing.is_known:  # else the order is that of published cost: see the next test
        order = ["measured", "likely", "possible", "unknown", "unlikely", "raises", ""]
        places = [order.index(one.likelihood) for one in findings]
        assert places == sorted(places)
        of_possible = [bounds_of(one.cost)[1] for one in findings if one.likelihood == "possible"]
        assert of_possible == sorted(of_possible, reverse=True)


def test_without_a_score_differences_stand_in_the_order_of_published_cost() -> None:
    changes = {
        "eps_ls": 0.0,
        "p_drop": 0.2,
        "weight_decay": 0.1,
        "peak_learning_rate": 7e-4,
        "updates": 0,
    }
    diagnosis = of_settings(settings("base", 4096 * 0.9, changes), "wmt14_en_de")
    names = [
        "tokens_per_update",
        "eps_ls",
        "p_drop",
        "weight_decay",
    ]  # 1.7 to 8, 0.5 to 1.05, 0.3, unknown
    assert [one.quantity for one in diagnosis.findings] == names


@pytest.mark.parametrize("row", CHANGED, ids=[row["quantity"] for row in CHANGED])
def test_one_changed_setting_is_one_difference_with_its_published_cost(row: dict[str, Any]) -> None:
    (finding,) = of_settings(settings("base", 25_000.0, row["changes"]), "wmt14_en_de").findings
    cost = finding.cost
    assert cost is not None
    assert finding.quantity == row["quantity"]
    assert (cost.low, cost.high) == pytest.approx(row.get("cost", (None, None)))
    assert finding.fix
    assert bool(cost.source) == ("cost" in row)


def test_on_the_papers_corpora_no_cost_of_another_corpus_enters() -> None:
    greedy = next(case for case in CASES if case.name == "E1")
    here = of_settings(greedy.settings, "wmt14_en_de", 25.0)
    there = of_settings(greedy.settings, "iwslt14_de_en")
    costs = [
        {one.quantity: one.cost and one.cost.low for one in diagnosis.findings}["beam_size"]
        for diagnosis in (here, there)
    ]
    assert costs == [None, pytest.approx(2.0)]
