"""The table of longer trainings, on synthetic runs of decision 0012's systems and seeds."""

from collections.abc import Mapping
from pathlib import Path

import msgspec
import pytest

from aiayn.paths import CellKey
from analysis.conclusions.horizon import (
    CONFIRMATORY,
    READING,
    LongRun,
    compare_at_horizon,
)
from analysis.conclusions.tables.horizon import lay_out_horizon
from paper_tables.frame import Frame, Number
from tests.conclusions.test_conclusions import three_against_three
from tests.laid_out import frame_of, notes_of, rows_of

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


def with_runs_to_16000(frame: Frame, bits_by_system: Mapping[str, Mapping[int, float]]) -> Frame:
    """Return a frame with later runs, each made from the first run of base."""
    key, number = next(
        (key, number)
        for (key, metric), number in frame.numbers.items()
        if (key.system, key.role, metric) == ("base", "dev", "bits_per_subword")
    )
    first = number.values[0][0]
    assert first.train is not None
    train = msgspec.structs.replace(first.train, updates=16_000)
    numbers = {}
    for system, by_seed in bits_by_system.items():
        own_key = msgspec.structs.replace(key, system=system)
        values = tuple(
            (msgspec.structs.replace(first, system=system, seed=seed, train=train), bits)
            for seed, bits in by_seed.items()
        )
        numbers[own_key, "bits_per_subword"] = msgspec.structs.replace(
            number, key=own_key, values=values
        )
    system_by_name = frame.system_by_name | {
        system: msgspec.structs.replace(
            frame.system_by_name["base"], begins_from=system.removeprefix("updates16000_")
        )
        for system in bits_by_system
    }
    return msgspec.structs.replace(frame, later_numbers=numbers, system_by_name=system_by_name)


def test_the_table_says_what_was_predicted_what_came_and_which_seeds_are_missing(
    tmp_path: Path,
) -> None:
    frame = frame_of(three_against_three(tmp_path))
    assert lay_out_horizon(frame) is None
    later = {
        "updates16000_base": {11: 2.38, 12: 2.42},
        "updates16000_table3_c_dmodel1024": {7: 2.28, 8: 2.30},
    }
    table = lay_out_horizon(with_runs_to_16000(frame, later))
    assert table is not None
    (row,) = rows_of(table)
    assert (row["row"], row["seeds"], row["predicted"]) == (
        "table3_c_dmodel1024",
        "7, 8; 11, 12",
        "-0.11",
    )
    assert row["ours"].startswith("-0.110 (")
    assert row["outlives"] == "yes"
    assert "No run to 16,000 updates yet: base seed 13, big seed 6." in notes_of(table)
