"""Decision 0013's rule on made-up values with known answers, and its tables on a made site."""

from pathlib import Path

import msgspec
import pytest
from scipy import stats

from aiayn.errors import TableError
from aiayn.paths import train_record
from aiayn.records import TrainRecord, read_record, write_record
from aiayn.spec.system import CONFIG_FOLDER, read_scale, read_system
from analysis.conclusions import fresh
from analysis.conclusions.contrasts import SeedRun
from analysis.conclusions.fresh import (
    FCONV,
    FEWER_HEADS,
    HEADS,
    LSTM,
    MODEL_READINGS,
    MORE_D_K,
    RECURRENCE,
    FreshFamily,
    better_rate_sentence,
    compare_family,
    heads_sentence,
    missing_trainings,
    read_seconds_an_update,
    updates_until,
)
from analysis.conclusions.rates import RateProbes
from analysis.conclusions.tables import fresh as tables
from analysis.conclusions.tables.fresh import (
    lay_out_heads,
    lay_out_model_readings,
    lay_out_recurrence,
)
from tests.laid_out import PLUS_MINUS, frame_of, notes_of, row_of
from tests.records_factory import (
    EIGHT_P100,
    TRAINING_BY_SYSTEM,
    Site,
    make_site,
    run_of,
    write_dev_scores,
    write_everything,
)

FAMILIES = (RECURRENCE, HEADS, MODEL_READINGS)
BASE = [2.50, 2.52, 2.48, 2.51, 2.49, 2.50]


def runs_of(*bits: float, device: str = "CPU", unstarted: int = 0) -> list[SeedRun]:
    """Return runs with seeds 21, 22 and so on; the first `unstarted` did not start."""
    runs = []
    for index, value in enumerate(bits):
        entropy = 1.0 if index < unstarted else 0.5
        run = SeedRun(
            value=value, seed=21 + index, device=device, lowest_entropy=entropy, bits_lost=0.0
        )
        runs.append(run)
    return runs


def recurrence(lstm: list[SeedRun], fconv: list[SeedRun]) -> list[fresh.ComparedContrast]:
    return compare_family(RECURRENCE, {"base": runs_of(*BASE), LSTM: lstm, FCONV: fconv})


def test_the_families_are_the_trainings_of_the_config() -> None:
    rows = read_scale(CONFIG_FOLDER / "attention.yaml").read_rows()
    listed = {(row.system, seed) for row in rows for seed in row.seeds}
    found = {training for family in FAMILIES for training in family.trainings}
    assert found == listed
    assert len(listed) == 53
    for family in FAMILIES:
        compared = {name for contrast in family.contrasts for name in contrast[:2]}
        assert compared == {row.system for row in family.rows}
    assert [len(family.contrasts) for family in FAMILIES] == [2, 5, 14]
    crossing = {name: read_system(name, "multi30k").training for name in (MORE_D_K, FEWER_HEADS)}
    sizes = {name: (spec.num_heads, spec.d_k, spec.d_v) for name, spec in crossing.items()}
    assert sizes == {MORE_D_K: (8, 32, 16), FEWER_HEADS: (4, 16, 16)}


def test_two_variances_base_and_the_pooled_others() -> None:
    """With a single other system it is Welch's test."""
    lstm = (2.70, 2.76, 2.72)
    family = FreshFamily(RECURRENCE.contrasts[:1], RECURRENCE.rows[:2])
    (line,) = compare_family(family, {"base": runs_of(*BASE), LSTM: runs_of(*lstm)})
    expected = stats.ttest_ind(lstm, BASE, equal_var=False)
    assert line.estimate is not None
    assert line.estimate.p_difference == pytest.approx(expected.pvalue)
    assert line.estimate.degrees_of_freedom == pytest.approx(expected.df)
    assert line.holm_difference == pytest.approx(expected.pvalue)  # a family of one
    assert line.answer == "higher"


def test_the_others_of_a_family_share_a_variance() -> None:
    """By hand: sums of squares 0.0002 and 0.0018 over 4 df: 0.0005; base's 0.001 / 5 = 0.0002."""
    lstm, fconv = recurrence(runs_of(2.70, 2.71, 2.72), runs_of(2.47, 2.50, 2.53))
    assert lstm.estimate is not None
    assert fconv.estimate is not None
    error = (0.0005 / 3 + 0.0002 / 6) ** 0.5
    assert lstm.estimate.standard_error == pytest.approx(error)
    assert fconv.estimate.standard_error == pytest.approx(error)
    assert lstm.estimate.difference == pytest.approx(0.21)
    assert (lstm.answer, fconv.answer) == ("higher", "equal within 0.05")
    assert lstm.holm_difference == pytest.approx(2 * lstm.estimate.p_difference)
    assert fconv.holm_within == pytest.approx(2 * fconv.estimate.p_within(0.05))


def test_a_small_sure_difference_is_within_the_margin_and_a_noisy_one_undecided() -> None:
    small, noisy = recurrence(runs_of(2.465, 2.466, 2.464), runs_of(2.52, 2.52, 2.52))
    assert small.answer == "lower, within 0.05"
    wide, _ = recurrence(runs_of(2.40, 2.55, 2.70), runs_of(2.52, 2.52, 2.52))
    assert wide.answer == "undecided"
    assert noisy.answer != "undecided"


def test_holm_takes_back_a_difference_that_only_just_passes_alone() -> None:
    """p is between 0.025 and 0.05 alone, so twice that is above 0.05."""
    lines = recurrence(runs_of(2.5105, 2.5205, 2.5305), runs_of(2.495, 2.505, 2.515))
    estimate = lines[0].estimate
    assert estimate is not None
    assert 0.025 < estimate.p_difference < 0.05
    assert lines[0].holm_difference == pytest.approx(2 * estimate.p_difference)
    assert lines[0].answer == "equal within 0.05"


def test_before_all_trainings_ended_there_are_numbers_without_answers() -> None:
    runs = {"base": runs_of(*BASE), LSTM: runs_of(2.7, 2.71), FCONV: runs_of(2.6, 2.61, 2.62)}
    assert missing_trainings(RECURRENCE, runs) == {LSTM: [23]}
    lstm, fconv = compare_family(RECURRENCE, runs)
    assert lstm.estimate is not None
    assert fconv.estimate is not None
    assert (lstm.answer, fconv.answer) == ("", "")
    assert (lstm.holm_difference, lstm.holm_within) == (None, None)


def test_one_seed_on_a_side_and_two_kinds_of_device_have_a_sentence_and_no_number() -> None:
    lstm, fconv = recurrence(runs_of(2.7), runs_of(2.6, 2.61, 2.62, device="NVIDIA H100"))
    assert lstm.estimate is None
    assert lstm.problem == f"No number: {LSTM} has 1 seed(s), expected 2 or more."
    assert fconv.estimate is None
    assert fconv.problem == (
        "No number: trained on CPU and NVIDIA H100, expected one kind of device."
    )
    few = {"base": runs_of(2.5), LSTM: runs_of(2.7, 2.71), FCONV: []}
    assert [line.estimate for line in compare_family(RECURRENCE, few)] == [None, None]


def test_seeds_that_the_decision_does_not_name_are_left_out() -> None:
    extra = SeedRun(seed=29, value=9.0)
    lstm, _ = recurrence([*runs_of(2.70, 2.71, 2.72), extra], runs_of(2.6, 2.61, 2.62))
    assert lstm.estimate is not None
    assert lstm.estimate.difference == pytest.approx(0.21)


def heads(more_d_k: float, fewer_heads: float) -> list[fresh.ComparedContrast]:
    values = {MORE_D_K: more_d_k, FEWER_HEADS: fewer_heads, "table3_a_h4": 2.44, "table3_a_h1": 2.5}
    runs = {name: runs_of(bits - 0.01, bits, bits + 0.01) for name, bits in values.items()}
    return compare_family(HEADS, {"base": runs_of(*BASE), **runs})


def test_one_head_against_four_has_the_pooled_variance_on_both_sides() -> None:
    last = heads(2.44, 2.5)[-1]
    assert last.contrast.name == "table3_a_h1 minus table3_a_h4"
    assert last.estimate is not None
    assert last.estimate.difference == pytest.approx(0.06)
    assert last.estimate.standard_error == pytest.approx(0.01 * (2 / 3) ** 0.5)
    assert last.estimate.degrees_of_freedom == 8  # four systems of three seeds


@pytest.mark.parametrize(
    ("more_d_k", "fewer_heads", "beginning"),
    [
        (2.44, 2.50, "The effect follows d_k"),
        (2.50, 2.44, "The effect follows the number of heads"),
        (2.44, 2.44, "Either helps alone"),
        (2.50, 2.56, "The gain of 4 heads needs both together"),
    ],
)
def test_each_outcome_of_the_crossing_systems_has_the_sentence_of_the_decision(
    more_d_k: float, fewer_heads: float, beginning: str
) -> None:
    assert heads_sentence(heads(more_d_k, fewer_heads)).startswith(beginning)


def test_without_answers_the_crossing_systems_have_no_sentence() -> None:
    assert heads_sentence(compare_family(HEADS, {"base": runs_of(*BASE)})) == ""


def test_a_row_with_a_run_that_did_not_start_is_not_answered_and_not_corrected() -> None:
    runs = {"base": runs_of(*BASE)}
    for name, num_seeds in [(row.system, len(row.seeds)) for row in MODEL_READINGS.rows[1:]]:
        runs[name] = runs_of(*(2.50 + 0.01 * index for index in range(num_seeds)))
    runs["pre_norm"] = runs_of(6.0, 2.30, 2.31, unstarted=1)
    lines = compare_family(MODEL_READINGS, runs)
    assert lines[0].answer == "pre_norm did not start (1 of 3)"
    assert lines[0].estimate is not None
    assert lines[0].estimate.difference == pytest.approx(2.305 - 2.50)  # of the seeds that started
    assert lines[0].holm_difference is None
    for line in lines[1:]:  # all alike, and 13 of them
        assert line.estimate is not None
        assert line.holm_within == pytest.approx(13 * line.estimate.p_within(0.05))


def test_the_system_whose_seeds_differ_most_has_a_sentence() -> None:
    family = fresh.MODEL_READINGS
    runs = {"base": runs_of(2.50, 2.52), "pre_norm": runs_of(2.57, 2.59, 2.58)}
    runs |= {"untied": runs_of(2.54, 2.56)}
    assert tables.spread_sentence(family, runs) == ""  # two systems without base are too few
    runs |= {"batch_norm": runs_of(3.2, 3.6), "ffn_dropout": runs_of(9.0)}
    runs["untied"].append(SeedRun(seed=29, value=9.0))  # a seed that the decision does not list
    # By hand: squares of deviations 0.0002, 0.0002 and 0.08 with 2 + 1 + 1 degrees of freedom.
    assert tables.spread_sentence(family, runs) == (
        "The sd over seeds, pooled over the systems without base, is 0.142 bits. The seeds of"
        " batch_norm differ most (sd 0.283). Without batch_norm the pooled sd would be 0.012 bits."
        " The rule does not leave a system out."
    )


@pytest.mark.parametrize(
    ("target", "update"),
    [(3.5, 500.0), (3.0, 1000.0), (5.0, 400.0), (1.9, None)],
)
def test_updates_until_are_read_between_validations(target: float, update: float | None) -> None:
    assert updates_until({400: 3.6, 800: 3.2, 1200: 2.8, 1600: 3.0}, target) == (
        None if update is None else pytest.approx(update)
    )


def test_base_at_a_better_rate_is_said() -> None:
    assert better_rate_sentence(None) == ""
    no_middle = RateProbes(4000, {"base": {0.5: 2.8, 2.0: 3.0}})
    assert better_rate_sentence(no_middle) == ""
    near = RateProbes(4000, {"base": {0.5: 2.895, 1.0: 2.91, 2.0: 3.0}})
    assert better_rate_sentence(near) == ""
    better = RateProbes(4000, {"base": {0.5: 2.88, 1.0: 2.91, 2.0: 3.0}})
    assert "better by 0.030 bits at 0.5 times equation (3)'s rate" in better_rate_sentence(better)


def test_seconds_are_read_by_round_and_a_malformed_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "seconds.csv"
    assert read_seconds_an_update(path) == {}
    lines = ["system,round,updates,cpu_seconds", "base,1,200,40.0", "lstm,1,200,90.0"]
    path.write_text("\n".join([*lines, "base,2,200,44.0", ""]), encoding="utf-8")
    assert read_seconds_an_update(path) == {"base": [0.2, 0.22], "lstm": [0.45]}
    path.write_text(f"{lines[0]}\nbase,1,200\n", encoding="utf-8")
    with pytest.raises(TableError, match=r"seconds.csv:2"):
        read_seconds_an_update(path)


def write_log(site: Site, system: str, seed: int, last_bits: float) -> None:
    """Write a log of four validations that falls to `last_bits`; its last three have a mean 0.1
    above it.
    """
    folder = Path(site.scale.runs_folder) / run_of("multi30k_en_de", system, seed)
    folder.mkdir(parents=True, exist_ok=True)
    curve = {400: last_bits + 1.0, 7200: last_bits + 0.2, 7600: last_bits + 0.1, 8000: last_bits}
    (folder / "train.log").write_text(
        "".join(
            f'| INFO | valid | {{"valid_nll_loss": "{bits}", "valid_num_updates": "{update}"}}\n'
            for update, bits in curve.items()
        ),
        encoding="utf-8",
    )


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Site:
    """Return a site of scale multi30k with all runs of family 1 and a part of the others."""
    for path in (CONFIG_FOLDER / "systems" / "multi30k").glob("*.yaml"):
        training = read_system(path.stem, "multi30k").training
        monkeypatch.setitem(TRAINING_BY_SYSTEM, path.stem, training)
    nothing: dict[str, object] = {
        key: [] for key in ("en_de_systems", "en_fr_systems", "ablation_systems")
    }
    later = ["base:21,22,23,24,25,26", f"{LSTM}:21,22,23", f"{FCONV}:21,22,23", "pre_norm:21"]
    made = make_site(
        tmp_path, "multi30k", later_seeds=later, row_testsets=["multi30k_test"], has_baselines=False,
        has_layer_timing=False, **nothing,
    )  # fmt: skip
    write_everything(made)
    bits_by_system = {"base": 2.4, LSTM: 2.7, FCONV: 2.4, "pre_norm": 2.4}
    for run in made.experiment.trainings:
        step = 0.01 * (run.seed - 22)
        write_dev_scores(made, run.system, run.seed, 30 + step, 2.0**2.5)
        write_log(made, run.system, run.seed, bits_by_system[run.system] + step)
    return made


def test_the_table_of_recurrence_has_quality_and_speed_with_intervals(
    site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seconds = tmp_path / "seconds.csv"
    rounds = [("base", 20), ("lstm", 60), ("fconv", 40), ("base", 22), ("base", 24)]
    lines = [f"{system},1,200,{value}" for system, value in rounds]
    seconds.write_text("\n".join(["system,round,updates,cpu_seconds", *lines, ""]), "utf-8")
    monkeypatch.setattr(fresh.read_seconds_an_update, "__defaults__", (seconds,))
    table = lay_out_recurrence(frame_of(site))
    assert table is not None
    base, lstm, fconv = (row_of(table, name) for name in ("base", LSTM, FCONV))
    assert base["bits"].startswith(f"2.515 {PLUS_MINUS} ")  # seeds 21 to 26: steps -1 to 4
    assert lstm["bits"] == f"2.800 {PLUS_MINUS} 0.025"  # 4.303 x 0.01 / 3^0.5
    assert lstm["difference"].startswith(f"+0.285 {PLUS_MINUS} ")
    assert (lstm["answer"], base["answer"]) == ("higher", "")
    assert lstm["updates"] == "reached by 0 of 3"
    assert fconv["updates"].split()[1] == PLUS_MINUS  # all three reach base's 2.415
    assert base["cpu_seconds"] == f"0.1100 {PLUS_MINUS} 0.0248"  # 4.303 x 0.01 / 3^0.5
    assert fconv["cpu_seconds"] == "0.2000"
    assert lstm["seeds"] == "21, 22, 23"
    assert lstm["bleu_dev"].startswith(f"30.00 {PLUS_MINUS} 0.02 (n=3)")
    assert lstm["bleu_multi30k_test"].startswith(f"72.20 {PLUS_MINUS} 0.25 (n=3)")
    assert "(n=6)" in base["bleu_multi30k_test"]
    assert table.signatures  # so that a pack has it
    assert "not among these runs" not in notes_of(table)


def test_a_better_rate_of_base_stands_next_to_each_answer(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    probes = RateProbes(4000, {"base": {0.5: 2.88, 1.0: 2.91, 2.0: 3.0}})
    monkeypatch.setattr(tables, "read_rate_probes", lambda scale: probes)
    table = lay_out_recurrence(frame_of(site))
    assert table is not None
    assert row_of(table, LSTM)["answer"] == "higher (base is better at another rate)"
    assert "better by 0.030 bits at 0.5 times" in notes_of(table)


def test_a_part_of_the_trainings_names_those_that_are_missing(site: Site) -> None:
    train_record(site.results_folder, "multi30k", "multi30k_en_de", LSTM, 22).unlink()
    frame = frame_of(site)
    table = lay_out_recurrence(frame)
    assert table is not None
    assert f"are not among these runs (seeds): {LSTM} 22." in notes_of(table)
    assert row_of(table, LSTM)["answer"] == ""
    assert row_of(table, LSTM)["difference"].startswith("+0.2")
    readings = lay_out_model_readings(frame)
    assert readings is not None
    assert row_of(readings, "pre_norm")["difference"] == (
        "No number: pre_norm has 1 seed(s), expected 2 or more."
    )
    assert row_of(readings, "untied")["difference"] == ""
    assert "pre_norm 22, 23; unscaled_attention 21, 22" in notes_of(readings)
    assert lay_out_heads(frame) is None


def test_a_training_on_a_gpu_among_trainings_on_cpus_leaves_a_sentence(site: Site) -> None:
    path = train_record(site.results_folder, "multi30k", "multi30k_en_de", LSTM, 22)
    train = read_record(path, TrainRecord)
    write_record(msgspec.structs.replace(train, hardware=EIGHT_P100), path)
    table = lay_out_recurrence(frame_of(site))
    assert table is not None
    assert "expected one kind of device." in row_of(table, LSTM)["difference"]
    assert row_of(table, FCONV)["difference"].startswith("-0.015 ")


def test_other_scales_have_none_of_these_tables(tmp_path: Path) -> None:
    frame = frame_of(make_site(tmp_path))
    for lay_out in (lay_out_recurrence, lay_out_heads, lay_out_model_readings):
        assert lay_out(frame) is None
