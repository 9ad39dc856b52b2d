"""The table of longer trainings, on synthetic runs of decision 0012's systems and seeds."""

import pytest

from aiayn.paths import CellKey
from analysis.conclusions.horizon import (
    CONFIRMATORY,
    READING,
    LongRun,
    compare_at_horizon,
)
from paper_tables.frame import Number

KEY = CellKey(
    corpus="c", system="base", average="last1", testset="t", role="dev", language_pair="en-de"
)
NUMBER = Number(key=KEY, metric="bits_per_subword", quantity="bits")


def long_run(seed: int, bits: float, best: float | None = None) -> LongRun:
    curve = {8000: bits + 0.2, 12_800: bits if best is None else best, 16_000: bits}
    return LongRun(seed=seed, bits=bits, bits_by_update=curve, number=NUMBER)


RUNS = {
    "base": [long_run(11, 2.38), long_run(12, 2.40), long_run(13, 2.42)],
    "table3_c_dmodel1024": [long_run(7, 2.29, best=2.25), long_run(8, 2.31, best=2.25)],
    "big": [long_run(5, 2.23)],
}


def test_the_confirmatory_contrast_has_the_seeds_of_the_decision_and_their_sd() -> None:
    """Sums of squares 0.0008 and 0.0002 with 2 and 1 degrees of freedom: an sd of sqrt(0.001 / 3) =
    0.01826.
    """
    first, reading = compare_at_horizon(RUNS)
    assert (first.system, first.kind) == ("table3_c_dmodel1024", CONFIRMATORY)
    assert (first.runs, first.controls) == (RUNS["table3_c_dmodel1024"], RUNS["base"])
    assert first.difference == pytest.approx(-0.10)
    assert first.estimate is not None
    assert first.estimate.degrees_of_freedom == 3
    assert first.estimate.standard_error == pytest.approx(
        0.01826 * (1 / 2 + 1 / 3) ** 0.5, abs=1e-5
    )
    assert not first.estimate.includes(0.0)
    assert first.best_difference == pytest.approx(2.25 - 2.40)
    assert first.difference_after(12_800) == pytest.approx(-0.15)
    assert first.difference_after(9000) is None
    assert (reading.system, reading.kind, reading.runs) == ("big", READING, RUNS["big"])


def test_seeds_that_are_not_in_the_decision_are_left_out_and_without_base_there_is_nothing() -> (
    None
):
    assert compare_at_horizon({"big": RUNS["big"]}) == []
    assert compare_at_horizon({**RUNS, "base": [long_run(99, 2.4)]}) == []
    single = compare_at_horizon({"base": RUNS["base"][:1], "big": [long_run(6, 2.2)]})
    assert [(contrast.kind, contrast.estimate) for contrast in single] == [(CONFIRMATORY, None)]
