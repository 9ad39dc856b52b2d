"""The rule of the table of conclusions, on numbers that are checked by hand."""

from collections.abc import Mapping, Sequence

import msgspec
import pytest

from aiayn.scoring.verdict import PooledSd
from analysis.conclusions.contrasts import (
    Call,
    Contrast,
    Relation,
    SeedRun,
    Spread,
    correct_family,
    draw_contrast,
    measure_spread,
)


def runs_of(*values: float, **known: object) -> list[SeedRun]:
    return [msgspec.convert({"value": value} | known, SeedRun) for value in values]


def spread_of(sd: float, degrees_of_freedom: int) -> Spread:
    pooled = PooledSd(
        sd=sd,
        degrees_of_freedom=degrees_of_freedom,
        num_systems=1,
        smallest_sd=sd,
        largest_sd=sd,
        bartlett_p=None,
    )
    return Spread(
        started=pooled, everything=pooled, punctual=pooled, unstarted=(), late=(), largest=()
    )


def drawn(
    relation: Relation | None,
    values: Sequence[float],
    controls: Sequence[float],
    spread: Spread,
    *,
    bleu: bool = False,
) -> Contrast:
    return draw_contrast(
        relation, runs_of(*values), runs_of(*controls), spread, is_in_bits=not bleu
    )


# t(0.975, 2) = 4.303, t(0.95, 2) = 2.920. One seed against three: sqrt(1 + 1/3) = 1.1547; with sd
# 0.2 the standard error is 0.2309, the two-sided reach 0.9937, the one-sided 0.6743.
@pytest.mark.parametrize(
    ("relation", "values", "expected"),
    [
        ("below", [24.0], Call.HOLDS),  # 1.00 below, the reach is 0.99
        ("below", [24.1], Call.TOO_CLOSE),  # 0.90
        ("below", [26.0], Call.REVERSED),
        ("above", [26.0], Call.HOLDS),
        ("above", [24.0], Call.REVERSED),
        ("above", [25.0], Call.TOO_CLOSE),
        ("equivalent", [25.0], Call.TOO_CLOSE),  # 0 apart, but 0.67 is within reach
        ("equivalent", [26.4], Call.TOO_CLOSE),  # 1.40 - 0.99 = 0.41
        ("equivalent", [26.5], Call.REVERSED),  # 1.50 - 0.99 = 0.51
        ("equivalent", [23.5], Call.REVERSED),
        (None, [23.5], Call.NOT_ASKED),
    ],
)
def test_a_call_follows_from_the_rule(
    relation: Relation | None, values: list[float], expected: Call
) -> None:
    found = drawn(relation, values, [24.9, 25.0, 25.1], spread_of(0.2, 2), bleu=True)
    assert found.call is expected
    assert found.reach == pytest.approx(0.9937, abs=5e-4)
    assert found.interval == pytest.approx(
        (values[0] - 25.0 - 0.9937, values[0] - 25.0 + 0.9937), abs=5e-4
    )


@pytest.mark.parametrize(
    ("difference", "expected"), [(0.04, Call.HOLDS), (-0.04, Call.HOLDS), (0.06, Call.TOO_CLOSE)]
)
def test_in_bits_systems_are_equivalent_within_a_tenth(difference: float, expected: Call) -> None:
    """Two seeds against six, sd 0.03, 23 degrees of freedom: an error of 0.0245, 0.042 to one side,
    0.051 to both.
    """
    found = drawn("equivalent", [3 + difference] * 2, [3.0] * 6, spread_of(0.03, 23))
    assert found.reach == pytest.approx(0.0507, abs=5e-4)
    assert found.call is expected
    assert (found.p_value is not None and found.p_value < 0.05) == (expected is Call.HOLDS)


def test_p_values_are_those_of_students_t() -> None:
    """With 2 degrees of freedom and a standard error of 1, t = 4.303 has a two-sided p of 0.05."""
    found = drawn("above", [4.3027], [0.0, 0.0], spread_of(1 / 1.5**0.5, 2))
    assert found.p_value == pytest.approx(0.05, abs=1e-4)
    assert drawn("above", [0.0], [0.0, 0.0], spread_of(1.0, 2)).p_value == pytest.approx(1.0)
    assert drawn("equivalent", [2.0], [0.0, 0.0], spread_of(0.01, 20)).p_value == pytest.approx(
        0.0, abs=1e-6
    )


def test_a_control_of_one_seed_calls_nothing_and_says_why() -> None:
    found = drawn("above", [30.0, 30.1], [25.0], spread_of(0.1, 1))
    assert (found.call, found.reach, found.p_value) == (Call.FEW_CONTROLS, None, None)
    assert found.call.value == "cannot be called: the control has fewer than two seeds"


def test_seeds_without_any_spread_call_every_difference_and_no_equal_values() -> None:
    assert drawn("above", [25.1], [25.0, 25.0], spread_of(0.0, 1)).call is Call.HOLDS
    assert drawn("above", [25.0], [25.0, 25.0], spread_of(0.0, 1)).call is Call.TOO_CLOSE


def test_holm_multiplies_the_smallest_p_by_all_that_are_called_and_touches_no_other_contrast() -> (
    None
):
    """p 0.01, 0.02, 0.04 become 0.03, 0.04, 0.04; 0.02, 0.03, 0.04 become 0.06 each."""
    calls = [Call.HOLDS, Call.REVERSED, Call.HOLDS]

    def corrected(*p_values: float) -> list[Call | None]:
        called = drawn("above", [1.0], [0.0, 0.0], spread_of(1.0, 2))
        family = [
            msgspec.structs.replace(called, call=call, p_value=p)
            for call, p in zip(calls, p_values, strict=True)
        ]
        unstarted = msgspec.structs.replace(called, call=Call.NOT_STARTED, p_value=None)
        return [one.corrected for one in correct_family([*family, unstarted])]

    assert corrected(0.01, 0.02, 0.04) == [*calls, None]
    assert corrected(0.02, 0.03, 0.04) == [Call.TOO_CLOSE] * 3 + [None]


UNIFORM = {"lowest_entropy": 0.99, "bits_lost": 0.01}
ATTENDS = {"lowest_entropy": 0.6, "bits_lost": 1.5}


@pytest.mark.parametrize(
    ("entropy", "bits_lost", "expected"),
    [
        (0.99, 0.01, False),
        (0.97, 0.01, True),
        (0.99, 0.06, True),
        (0.5, 2.0, True),
        (None, None, None),
    ],
)
def test_a_run_did_not_start_if_no_head_chooses_and_nothing_is_lost_without_attention(
    entropy: float | None, bits_lost: float | None, expected: bool | None
) -> None:
    assert SeedRun(value=3.0, lowest_entropy=entropy, bits_lost=bits_lost).has_started is expected


@pytest.mark.parametrize(
    ("bits_by_update", "expected"),
    [
        ({50: 7.0, 300: 4.4, 1000: 3.0}, False),
        ({50: 7.0, 301: 4.4, 1000: 3.0}, True),
        ({50: 7.0, 300: 4.5, 350: 4.4}, True),
        ({1000: 6.0}, True),
        ({}, False),  # not known
    ],
)
def test_a_run_is_late_if_it_falls_below_the_threshold_after_thirty_percent(
    bits_by_update: Mapping[int, float], expected: bool
) -> None:
    run = SeedRun(value=3.0, bits_by_update=bits_by_update, updates=1000, **ATTENDS)
    assert run.is_late is expected


def test_a_run_that_did_not_start_is_not_called_late() -> None:
    assert not SeedRun(value=6.0, bits_by_update={1000: 6.0}, updates=1000, **UNIFORM).is_late


def test_a_row_of_which_a_seed_did_not_start_is_uncalled_and_shows_the_others() -> None:
    runs_by_system = {
        "base": runs_of(3.0, 3.02, 2.98, **ATTENDS),
        "row": [*runs_of(3.5, **ATTENDS), *runs_of(6.5, **UNIFORM)],
        "other": runs_of(3.1, 3.14, **ATTENDS),
    }
    spread = measure_spread(runs_by_system)
    assert (spread.unstarted, spread.late) == (("row",), ())
    assert spread.started is not None
    assert spread.everything is not None
    assert (spread.started.degrees_of_freedom, spread.everything.degrees_of_freedom) == (3, 4)
    assert spread.everything.sd > 1 > 0.03 > spread.started.sd
    assert spread.largest[0] == ("row", pytest.approx(2.1213, abs=1e-4))
    row = draw_contrast(
        "above", runs_by_system["row"], runs_by_system["base"], spread, is_in_bits=True
    )
    assert (row.call, row.num_unstarted, row.num_seeds) == (Call.NOT_STARTED, 1, 2)
    assert row.difference == pytest.approx(0.5)
    assert (row.p_value, row.with_all) == (None, Call.TOO_CLOSE)
    other = draw_contrast(
        "above", runs_by_system["other"], runs_by_system["base"], spread, is_in_bits=True
    )
    assert (other.call, other.with_all) == (Call.HOLDS, Call.TOO_CLOSE)


def test_if_a_seed_of_the_control_did_not_start_nothing_is_called() -> None:
    controls = [*runs_of(3.0, 3.02, **ATTENDS), *runs_of(6.5, **UNIFORM)]
    runs = runs_of(3.5, 3.52, **ATTENDS)
    spread = measure_spread({"base": controls, "row": runs})
    found = draw_contrast("above", runs, controls, spread, is_in_bits=True)
    assert (found.call, found.num_unstarted_controls, found.p_value) == (
        Call.CONTROL_NOT_STARTED,
        1,
        None,
    )


def test_late_systems_stay_in_the_sd_that_is_used_and_another_is_given_without_them() -> None:
    late = {"bits_by_update": {900: 4.0}, "updates": 1000}
    spread = measure_spread({"base": runs_of(3.0, 3.02), "slow": runs_of(3.0, 4.0, **late)})
    assert spread.late == ("slow",)
    assert spread.started == spread.everything
    assert spread.started is not None
    assert spread.punctual is not None
    assert (spread.started.degrees_of_freedom, spread.punctual.degrees_of_freedom) == (2, 1)
    assert spread.punctual.sd == pytest.approx(0.01414, abs=1e-4)


def curve(at_60: float, at_80: float, at_100: float, updates: int = 1000) -> dict[str, object]:
    return {
        "bits_by_update": {updates * 6 // 10: at_60, updates * 8 // 10: at_80, updates: at_100},
        "updates": updates,
    }


def test_a_row_of_more_updates_is_also_looked_at_after_as_many_as_the_control() -> None:
    """The control runs 1,000 updates, the row 3,000: each is looked at after its own 60, 80 and 100
    %.
    """
    controls = runs_of(3.0, 3.0, **curve(3.4, 3.1, 3.0))
    runs = runs_of(3.2, 3.2, **curve(3.8, 3.3, 3.2, updates=3000))
    for run in runs:
        run.bits_by_update[1000] = 4.5  # type: ignore[index]
    found = draw_contrast("above", runs, controls, spread_of(0.05, 10), is_in_bits=True)
    assert found.effect_at_control_updates == pytest.approx(1.5)
    assert found.effects == pytest.approx((0.4, 0.2, 0.2))


def test_a_slope_is_that_of_the_last_forty_percent_and_a_mean_that_of_three_validations() -> None:
    """From update 600 on the run falls by 0.1 each 100 updates: 1 bit for a whole run of 1,000."""
    bits_by_update = {500: 9.0} | {update: 4.0 - update / 1000 for update in range(600, 1001, 100)}
    run = SeedRun(value=3.0, bits_by_update=bits_by_update, updates=1000)
    assert run.slope_at_end == pytest.approx(-1.0)
    assert run.mean_of_last == pytest.approx(3.1)
    short = SeedRun(value=3.0, bits_by_update={900: 3.1, 1000: 3.0}, updates=1000)
    assert (short.slope_at_end, short.mean_of_last) == (None, None)
    # The log was cut after update 800, so the last validations are not known.
    whole = {update: bits for update, bits in bits_by_update.items() if update <= 800}
    assert SeedRun(value=3.0, bits_by_update=whole, updates=1000).mean_of_last is None


def test_an_effect_is_not_known_where_a_seed_has_no_validation_near_and_bleu_has_none() -> None:
    controls = runs_of(3.0, 3.0, **curve(3.4, 3.1, 3.0))
    runs = [
        *runs_of(3.1, **curve(3.5, 3.2, 3.1)),
        *runs_of(3.1, bits_by_update={550: 4.0, 1000: 3.1}, updates=1000),
    ]
    found = draw_contrast("above", runs, controls, spread_of(0.05, 10), is_in_bits=True)
    assert found.effects == (None, None, pytest.approx(0.1))
    assert draw_contrast(
        "above", runs, controls, spread_of(0.05, 10), is_in_bits=False
    ).effects == (None, None, None)
