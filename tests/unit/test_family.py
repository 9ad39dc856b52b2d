"""What many verdicts are worth together, by hand."""

import pytest

from analysis.scoring.verdict import Outcome, chance_of_any, holm_adjusted, judge, judge_family, not_comparable


def test_fourteen_tests_at_five_percent_are_as_likely_wrong_somewhere_as_not() -> None:
    assert chance_of_any(0.05, 14) == pytest.approx(0.5123, abs=0.0001)  # 1 - 0.95^14
    assert chance_of_any(0.05, 1) == pytest.approx(0.05)
    assert chance_of_any(0.05, 0) == 0


def test_holm_multiplies_the_smallest_by_all_and_the_largest_by_one() -> None:
    assert holm_adjusted([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])  # 3 x 0.01, 2 x 0.03, then no less


def test_holm_never_exceeds_one_nor_turns_the_order() -> None:
    assert holm_adjusted([0.9, 0.6, 0.5]) == [1.0, 1.0, 1.0]
    adjusted = holm_adjusted([0.001, 0.011, 0.02, 0.03])
    assert adjusted == sorted(adjusted)


def test_one_cell_needs_no_correction() -> None:
    assert holm_adjusted([0.04]) == [0.04]
    assert holm_adjusted([]) == []


def test_correction_takes_back_a_verdict_that_holds_alone() -> None:
    close = judge(27.3, [27.2, 27.3, 27.4], None)  # e = 0.0577: P(t > 8.66, 2 df) = 0.0065
    barely = judge(27.3, [27.03, 27.3, 27.57], None)  # e = 0.156: P(t > 3.207, 2 df) = 0.0425
    family = judge_family([close, barely, not_comparable("Another scale", 3)])
    assert (close.outcome, barely.outcome) == (Outcome.REPRODUCED, Outcome.REPRODUCED)
    first, second, third = family.corrected
    assert first is not None
    assert second is not None
    assert third is None
    assert first.p_equivalent == pytest.approx(0.0131, abs=0.0001)
    assert second.p_equivalent == pytest.approx(0.0425, abs=0.0001)
    three = judge_family([barely, barely, barely]).corrected  # 3 x 0.0425
    assert [one.outcome for one in three if one is not None] == [Outcome.UNDECIDED] * 3


def test_only_cells_that_the_rule_was_applied_to_are_counted() -> None:
    far = judge(27.3, [20.0, 20.1, 20.2], None)
    too_few = judge(27.3, [27.3], None)
    family = judge_family([far, too_few, not_comparable("Another scale", 3)])
    assert family.num_judged == 1
    assert family.chance_wrongly_reproduced == pytest.approx(0.05)
    assert family.chance_wrongly_not_reproduced == pytest.approx(0.025)
    assert [one.outcome if one else None for one in family.corrected] == [Outcome.NOT_REPRODUCED, None, None]


def test_no_verdict_is_no_family() -> None:
    family = judge_family([])
    assert (family.num_judged, family.chance_wrongly_reproduced, family.corrected) == (0, 0.0, ())
