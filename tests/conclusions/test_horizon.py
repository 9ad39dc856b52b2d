"""The table of longer trainings, on synthetic runs of decision 0012's systems and seeds."""

import pytest

from aiayn.paths import CellKey
from analysis.conclusions.horizon import (
    CONFIRMATORY,
    READING,
    LongRun,
    bits_of,
    compare_at_horizon,
)
from paper_tables.frame import Number

KEY = CellKey(
    corpus="c", system="base", average="last1", testset="t", role="dev", language_pair="en-de"
)
NUMBER = Number(key=KEY, metric="bits_per_subword", quantity="bits")


def long_run(seed: int, bits: float, best: float | None = None) -> LongRun:
    curve = {8000: bits + 0.2, 12_800: bits if best is None else best, 16_000: bits}
    return LongRun(
        seed=seed,
        bits=bits,
        bits_by_update=curve,
        number=NUMBER,
        bleu_by_testset={"val": 100 * bits},
    )


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
    estimate = first.estimate(bits_of)
    assert estimate is not None
    assert estimate.difference == pytest.approx(-0.10)
    assert estimate.degrees_of_freedom == 3
    assert estimate.standard_error == pytest.approx(0.01826 * (1 / 2 + 1 / 3) ** 0.5, abs=1e-5)
    assert not estimate.includes(0.0)
    assert first.minus(lambda run: run.bits_by_update.get(12_800)) == pytest.approx(-0.15)
    assert first.minus(lambda run: run.bits_by_update.get(9000)) is None
    assert (reading.system, reading.kind, reading.runs) == ("big", READING, RUNS["big"])


def test_other_readings_have_an_sd_of_their_own() -> None:
    """Best validations: sums of squares 0.0008 and 0; means of three are those of the last bits
    but for 0.2 / 3 and base's or the row's own best.
    """
    contrast, _ = compare_at_horizon(RUNS)
    best = contrast.estimate(lambda run: run.best_bits)
    assert best is not None
    assert best.difference == pytest.approx(2.25 - 2.40)
    sd = (0.0008 / 3) ** 0.5
    assert best.standard_error == pytest.approx(sd * (1 / 2 + 1 / 3) ** 0.5)
    last_three = contrast.minus(lambda run: run.mean_of_last)
    assert last_three == pytest.approx((2.50 + 2.25 + 2.30) / 3 - (2.60 + 2.40 + 2.40) / 3)
    bleu = contrast.estimate(lambda run: run.bleu_by_testset.get("val"))
    assert bleu is not None
    assert bleu.difference == pytest.approx(-10)
    assert contrast.estimate(lambda run: run.bleu_by_testset.get("other")) is None


def test_seeds_that_are_not_in_the_decision_are_left_out_and_without_base_there_is_nothing() -> (
    None
):
    assert compare_at_horizon({"big": RUNS["big"]}) == []
    assert compare_at_horizon({**RUNS, "base": [long_run(99, 2.4)]}) == []
    single = compare_at_horizon({"base": RUNS["base"][:1], "big": [long_run(6, 2.2)]})
    found = [(contrast.kind, contrast.estimate(bits_of)) for contrast in single]
    assert found == [(CONFIRMATORY, None)]
