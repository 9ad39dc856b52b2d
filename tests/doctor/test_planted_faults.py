"""The doctor finds each planted fault first, and nothing in a run without one."""

import functools

import pytest

from aiayn.facts.types import show
from analysis.doctor.costs import read_costs
from tests.doctor.faults import CLEAN, FAULTS, MULTI30K, Fault
from tests.doctor.table import TABLE_PATH, Answer, render_table
from tests.golden_files import check_golden

pytestmark = pytest.mark.slow

NAMES = (CLEAN.name, *(fault.name for fault in FAULTS), MULTI30K)
answer_of = functools.cache(Answer)


@pytest.mark.parametrize("fault", FAULTS, ids=[fault.name for fault in FAULTS])
def test_the_true_cause_is_the_first_and_nothing_else_is_found_with_evidence_fix_and_cost(
    fault: Fault,
) -> None:
    answer = answer_of(fault.name)
    assert answer.rank_of(fault) == 1, answer.findings
    symptoms = ("lengths", "bleu")
    assert [one["cause"] for one in answer.findings if one["cause"] not in symptoms] == [
        fault.cause,
        *fault.beside,
    ]
    assert answer.exit_code == 1
    first = answer.findings[0]
    evidence = first["evidence"]
    assert all(one["path"] and show(one["value"]) != one["expected"] for one in evidence)
    assert first["fix"]
    assert first["cost"]["source"]


@pytest.mark.parametrize("name", [CLEAN.name, MULTI30K])
def test_a_clean_run_raises_no_alarm(name: str) -> None:
    answer = answer_of(name)
    assert answer.findings == []
    # Multi30k's folder has a log without its last line, and nothing states how it was translated.
    unknown = []
    if name == MULTI30K:
        unknown = ["a translation of the test set", "seconds in the line `done training`"]
    assert answer.diagnosis["not_judged"] == unknown
    if name == CLEAN.name:
        (unchecked,) = answer.diagnosis["notes"]  # no log of a translation
        assert unchecked.count("no log") == 2
    assert answer.exit_code == (1 if unknown else 0)


def test_the_golden_table_of_planted_faults_is_what_the_doctor_says() -> None:
    expected = render_table({name: answer_of(name) for name in NAMES})
    check_golden(TABLE_PATH.name, expected, TABLE_PATH.parent)


def test_planted_costs_are_those_of_the_fixtures() -> None:
    clean = answer_of(CLEAN.name).bleu
    with_numbers = [one for one in FAULTS if one.cause != "start"]  # whose cost is said in words
    losses = {(one.cause, one.words): clean - answer_of(one.name).bleu for one in with_numbers}
    planted = {}
    for cost in read_costs():
        if cost.certainty == "planted":
            sign = 1 if cost.direction == "lowers" else -1
            planted[cost.what, cost.evidence] = sign * float(cost.cost_low)
    assert losses == pytest.approx(planted, abs=0.05)
