"""The study of Multi30k: the arithmetic of its readings, longer trainings, rates and noise, and its
files, which are made again byte for byte.
"""

import math
from pathlib import Path

import pytest
from scipy import stats

from analysis.conclusions.contrasts import SeedRun
from analysis.conclusions.fresh import MODEL_READINGS
from analysis.conclusions.rates import RateProbes
from paper_tables.measured.study import study_multi30k
from paper_tables.measured.study.study_multi30k import (
    CONFIRMATORY,
    NO,
    ONLY_PLAIN,
    SEEN_BEFORE,
    YES,
    Noise,
    Quantities,
    bits_noises,
    bleu_noises,
    compare_at_horizon,
    correct_by_holm,
    effects_at_rates,
    half_unit,
    is_distinguishable,
    leave_seeds_out,
    model_reading_rows,
    printed_differences,
    read_pooled,
    read_welch,
    values_of_runs,
)

FOLDER = Path(study_multi30k.__file__).parent


@pytest.mark.figures
def test_the_files_are_made_again_byte_for_byte(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.argv", ["study_multi30k", str(tmp_path)])
    study_multi30k.main()
    made = {path.name: path.read_bytes() for path in tmp_path.glob("*.csv")}
    assert made == {path.name: path.read_bytes() for path in FOLDER.glob("*.csv")}
    assert len(made) == 6


VALUES = {
    "base": {5: 2.50, 6: 2.54, 7: 2.52},
    "same": {5: 2.52, 6: 2.53},
    "worse": {5: 2.70, 6: 2.72},
    "single": {5: 2.30},
}
ROWS = ("same", "worse", "single")


def test_a_pooled_reading_gives_better_worse_and_no_difference() -> None:
    reading = read_pooled("another text", "bits", VALUES, ROWS)
    signs = [reading.sign(row) for row in (*ROWS, "absent")]
    assert signs == [0, 1, -1, None]
    bleu = read_pooled("another metric", "BLEU", VALUES, ROWS, is_in_bits=False)
    assert bleu.sign("worse") == -1


def test_welch_takes_the_controls_own_variance_and_that_pooled_over_the_rows() -> None:
    """With one row of two seeds it is scipy's own test of unequal variances."""
    values = {"base": VALUES["base"], "worse": VALUES["worse"]}
    (estimate,) = read_welch(values, ["worse"]).estimate_by_row.values()
    expected = stats.ttest_ind(
        list(values["worse"].values()), list(values["base"].values()), equal_var=False
    )
    assert estimate.p_difference == pytest.approx(expected.pvalue)
    assert estimate.degrees_of_freedom == pytest.approx(expected.df)


def test_one_seed_on_a_side_has_the_rows_variance() -> None:
    single = read_welch(VALUES, ["single"]).estimate_by_row["single"]
    rows = math.sqrt((0.01**2 / 2 + 0.02**2 / 2) / 2)  # of `same` and `worse`
    assert single.standard_error == pytest.approx(math.sqrt(rows**2 + 0.02**2 / 3))
    assert read_pooled("", "", {**VALUES, "worse": {}}, ROWS).sign("worse") is None


def test_holm_makes_a_small_difference_of_many_no_difference() -> None:
    """One p-value of 0.03 among four: four times that is above 0.05."""
    values = {"base": VALUES["base"]} | {row: {5: 2.52, 6: 2.52} for row in "bcd"}
    edge = read_pooled("", "", values, ["b"]).estimate_by_row["b"]
    reach = float(stats.t.ppf(1 - 0.03 / 2, edge.degrees_of_freedom)) * edge.standard_error
    values["near"] = {5: 2.52 + reach, 6: 2.52 + reach}
    reading = read_pooled("", "", values, ["near", "b", "c", "d"])
    near = reading.estimate_by_row["near"]
    assert 0.0125 < near.p_difference < 0.05
    assert reading.sign("near") == 1
    assert correct_by_holm(reading, "Holm").sign("near") == 0


def test_each_seed_of_the_control_is_left_out_in_turn() -> None:
    readings = leave_seeds_out(VALUES, ["same"])
    assert [reading.name for reading in readings] == [f"without base {seed}" for seed in (5, 6, 7)]
    assert readings[0].estimate_by_row["same"].difference == pytest.approx(2.525 - 2.53)


def test_one_noisy_system_widens_all_intervals_and_is_left_out_of_the_exploratory_columns() -> None:
    """The seeds of batch_norm differ by 0.4 bits, those of the other systems by 0.02 bits."""
    bits_by_system: dict[str, list[float]] = {}
    for system, seed in MODEL_READINGS.trainings:
        bits_by_system.setdefault(system, []).append(2.5 + 0.01 * (-1) ** seed)
    bits_by_system["unscaled_attention"] = [2.6, 2.62]
    bits_by_system["batch_norm"] = [3.0, 3.4]
    runs = {}
    for system, bits in bits_by_system.items():
        runs[system] = [SeedRun(seed=21 + i, value=value) for i, value in enumerate(bits)]
    lines = {line["system"]: line for line in model_reading_rows(runs)}

    unscaled = lines["unscaled_attention"]
    names = ("ours", "ours_without_batch_norm")
    (difference, reach), (same_difference, reach_without) = (
        unscaled[name].split(" \u00b1 ") for name in names
    )
    assert difference == same_difference == "+0.110"
    assert float(reach) > 4 * float(reach_without)
    assert (unscaled["answer"], unscaled["answer_without_batch_norm"]) == ("undecided", "higher")
    assert lines["untied"]["answer_without_batch_norm"] == "equal within 0.05"
    assert lines["batch_norm"]["answer"] == "higher"
    assert lines["batch_norm"]["answer_without_batch_norm"] == ""


def long_run(bits: float, best: float | None = None) -> Quantities:
    at_12800 = bits if best is None else best
    return {"bits": bits, "best": at_12800, "at_12800": at_12800, "bleu_val": 100 * bits}


RUNS = {
    "base": {11: long_run(2.38), 12: long_run(2.40), 13: long_run(2.42)},
    "table3_c_dmodel1024": {7: long_run(2.29, best=2.25), 8: long_run(2.31, best=2.25)},
    "big": {5: long_run(2.23)},
}


def test_the_confirmatory_contrast_has_the_seeds_of_the_decision_and_their_sd() -> None:
    """Sums of squares 0.0008 and 0.0002 with 2 and 1 degrees of freedom: an sd of sqrt(0.001 / 3) =
    0.01826.
    """
    first, reading = compare_at_horizon(RUNS)
    assert (first.system, first.kind) == ("table3_c_dmodel1024", CONFIRMATORY)
    assert (first.runs, first.controls) == (RUNS["table3_c_dmodel1024"], RUNS["base"])
    estimate = first.estimate("bits")
    assert estimate.difference == pytest.approx(-0.10)
    assert estimate.degrees_of_freedom == 3
    assert estimate.standard_error == pytest.approx(0.01826 * (1 / 2 + 1 / 3) ** 0.5, abs=1e-5)
    assert not estimate.includes(0.0)
    assert first.minus("at_12800") == pytest.approx(-0.15)
    assert (reading.system, reading.kind, reading.runs) == ("big", SEEN_BEFORE, RUNS["big"])


def test_other_quantities_have_an_sd_of_their_own() -> None:
    """The expected sd follows from the sums of squares of the best validations: 0.0008 over base's
    seeds, 0 over the row's.
    """
    contrast, _ = compare_at_horizon(RUNS)
    best = contrast.estimate("best")
    assert best.difference == pytest.approx(2.25 - 2.40)
    sd = (0.0008 / 3) ** 0.5
    assert best.standard_error == pytest.approx(sd * (1 / 2 + 1 / 3) ** 0.5)
    assert contrast.estimate("bleu_val").difference == pytest.approx(-10)


def test_a_system_with_a_run_that_lacks_a_quantity_has_no_value_of_it() -> None:
    base = {5: {"last_three": 2.5}, 6: {"last_three": 2.4}}
    runs = {"base": base, "big": {5: {"last_three": 2.3}, 6: {"updates": 9.0}}}
    expected = {"base": {5: 2.5, 6: 2.4}, "big": {}}
    assert values_of_runs(runs, "last_three") == expected


def test_seeds_that_are_not_in_the_decision_are_left_out() -> None:
    runs = {system: {**by_seed, 99: long_run(2.0)} for system, by_seed in RUNS.items()}
    assert compare_at_horizon(runs) == compare_at_horizon(RUNS)


def seed_run(bits_by_update: dict[int, float]) -> SeedRun:
    return SeedRun(
        value=bits_by_update[max(bits_by_update)], bits_by_update=bits_by_update, updates=8000
    )


def test_effects_are_those_after_as_many_updates_as_the_probes_had() -> None:
    probes = RateProbes(4000, {"base": {0.5: 3.125, 2.0: 2.80}, "big": {0.5: 2.70}})
    runs = {
        "base": [seed_run({4000: 2.90, 8000: 2.50})],
        "big": [seed_run({4000: bits, 8000: 2.40}) for bits in (2.96, 2.98)],
        "table3_c_n2": [seed_run({4000: 2.90})],
    }
    effects = effects_at_rates("big", runs, probes)
    assert effects is not None
    assert effects.by_times_peak == {0.5: pytest.approx(-0.425), 1.0: pytest.approx(0.07)}
    assert effects.at_best == pytest.approx(2.70 - 2.80)
    assert effects_at_rates("table3_c_n2", runs, probes) is None


@pytest.mark.parametrize(("final", "expected"), [(0.07, True), (-0.02, False)])
def test_an_effect_holds_only_at_this_rate_if_both_of_its_signs_are_other_than_at_the_best_rates(
    final: float, expected: bool
) -> None:
    """At equation (3)'s rate the row is worse by 0.07; at twice the rate it is better by 0.10."""
    probes = RateProbes(4000, {"base": {2.0: 2.80}, "big": {2.0: 2.70}})
    runs = {"base": [seed_run({4000: 2.90})], "big": [seed_run({4000: 2.97})]}
    effects = effects_at_rates("big", runs, probes)
    assert effects is not None
    assert effects.holds_only_at_this_rate(final) is expected


def test_the_reach_is_of_two_single_runs_and_the_correction_divides_alpha() -> None:
    noise = Noise("known", 1.0, 1_000_000)
    assert noise.reach() == pytest.approx(1.96 * math.sqrt(2), abs=0.001)
    assert noise.reach(15) == pytest.approx(2.935 * math.sqrt(2), abs=0.001)  # z(1 - 0.05 / 30)
    found = [is_distinguishable(size, noise, 15) for size in (4.2, 4.0, 2.7)]
    assert found == [YES, ONLY_PLAIN, NO]


def test_the_noisiest_setting_has_the_degrees_of_freedom_of_its_own_five_runs() -> None:
    counts = []
    for noises, size in ((bits_noises(), "smallest_bits"), (bleu_noises(), "smallest_bleu")):
        noisiest = noises[1]
        assert (noisiest.name, noisiest.degrees_of_freedom) == ("AlgoPerf's noisiest setting", 4)
        sizes = [getattr(difference, size) for difference in printed_differences()]
        for reach in (noisiest.reach(), noisiest.reach(len(sizes))):
            counts.append(sum(value > reach for value in sizes))
    assert counts == [11, 10, 2, 0]


def test_rounding_is_taken_at_its_worst() -> None:
    assert [half_unit(text) for text in ("4.92", "25.8", "26")] == [0.005, 0.05, 0.5]
    one_head = next(line for line in printed_differences() if line.row == "table3_a_h1")
    assert one_head.bits == pytest.approx(math.log2(5.29 / 4.92))
    assert one_head.smallest_bits == pytest.approx(math.log2(5.285 / 4.925))
    assert (one_head.bleu, one_head.smallest_bleu) == (pytest.approx(-0.9), pytest.approx(0.8))
    learned = next(line for line in printed_differences() if line.row == "table3_e_learned")
    assert (learned.smallest_bits, learned.smallest_bleu) == (0.0, pytest.approx(0.0))
