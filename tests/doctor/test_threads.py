"""Each complete public thread as a case: its causes are found with their published costs."""

import pytest
from msgspec.structs import replace

from aiayn.facts.trainings import Generation, Training
from aiayn.facts.types import Section
from aiayn.known_good.judge import OF_GENERATIONS, judge
from aiayn.spec.system import Overrides
from analysis.doctor.costs import PAPER_CORPORA, add_costs
from analysis.doctor.diagnose import diagnose, make_claim
from analysis.doctor.types import Case, Diagnosis
from tests.doctor.threads import CASES, Settings, ThreadCase

IDS = [case.name for case in CASES]


def of_settings(settings: Settings, corpus: str) -> Diagnosis:
    """Return the differences from the system of the paper that is nearest.

    A corpus that the paper does not have is compared with the settings of En-De, but not with the
    costs of En-De.
    """
    claimed_corpus = corpus if corpus in PAPER_CORPORA else "wmt14_en_de"
    claim = make_claim("thread", "paper", settings.system, claimed_corpus, Overrides())
    target = claim.target
    training = Training(
        sections=[Section(path="thread", program="train", line=1)],
        facts=list(settings.training),
        target=target,
    )
    section = Section(path="thread", program="generate", line=1)
    section.state("bleu", 0.0)
    generation = Generation(section=section, target=target, metric=settings.metric)
    found = judge(settings.training, target.values, ("train",))
    found += judge(settings.generation, target.values_of_role("test"), OF_GENERATIONS)
    case = Case(
        claim=claim,
        training=training,
        generations=[generation],
        translation_paths=["thread"],
        problems=found,
    )
    return add_costs(replace(diagnose(case), corpus=corpus))


@pytest.mark.parametrize("case", CASES, ids=IDS)
def test_the_causes_of_a_thread_are_found_with_their_published_costs(case: ThreadCase) -> None:
    findings = of_settings(case.settings, case.corpus).findings
    finding_by_cause = {one.cause: one for one in findings}
    for expected in case.expected:
        cost = finding_by_cause[expected.cause].cost
        assert cost is not None
        assert cost.low == pytest.approx(expected.low, abs=0.051)
        assert cost.high == pytest.approx(expected.high, abs=0.051)
        assert expected.low is None or cost.source
    if case.has_first_cause:
        assert findings[0].cause in {expected.cause for expected in case.expected}


def test_on_the_papers_corpora_no_cost_of_another_corpus_enters() -> None:
    greedy = next(case for case in CASES if case.name == "E1")
    here = of_settings(greedy.settings, "wmt14_en_de")
    there = of_settings(greedy.settings, "iwslt14_de_en")
    costs = [
        {one.cause: one.cost and one.cost.low for one in diagnosis.findings}["beam_size"]
        for diagnosis in (here, there)
    ]
    assert costs == [None, pytest.approx(2.0)]
