"""A plan's numbers agree with the paper's own, with sums done by hand, and with what trainings
really took.
"""

import re
from pathlib import Path
from typing import Any

import msgspec
import pytest

from aiayn.__main__ import main
from aiayn.cost import num_parameters
from aiayn.experiment import read_experiment
from aiayn.paths import corpus_record
from aiayn.records import Prediction, write_record
from aiayn.spec.system import CONFIG_FOLDER, TrainingSpec
from analysis.price.history import (
    CONTEXT_BYTES,
    Measured,
    device_memory_bytes,
    host_memory_bytes,
)
from analysis.price.plan import Plan, hours_on_node
from analysis.price.text import render_plan
from tests.planned_scales import BASE, PAPER, record_of
from tests.price.plans import H100, hours_of, plan_of
from tests.records_factory import BINARIZED, CPU, EIGHT_P100, PAPER_TRAINING
from tests.run_folders import ended, make_run, started


@pytest.fixture(scope="module")
def paper_plan(tmp_path_factory: pytest.TempPathFactory) -> Plan:
    """Return the plan of paper.yaml on the paper's machine, with nothing trained yet."""
    return plan_of(PAPER, tmp_path_factory.mktemp("nothing"))


def test_a_plan_in_another_precision_is_that_column_of_the_first(tmp_path: Path) -> None:
    in_bf16 = plan_of(msgspec.structs.replace(PAPER, precision="bf16"), tmp_path, H100)
    assert in_bf16.precisions == plan_of(PAPER, tmp_path, H100).precisions
    assert [one.speed for one in in_bf16.trainings] == in_bf16.precisions[2].speeds


def test_one_gpu_a_training_is_compared_with_eight(tmp_path: Path) -> None:
    """A node of 8 H100 runs 8 trainings at a time; the longest decides what is gained."""
    plan = plan_of(PAPER, tmp_path, H100)
    for planned in plan.precisions:
        assert planned.hours_by_gpus[8] == pytest.approx(planned.cost.hours)
        assert planned.hours_by_gpus[1] < planned.hours_by_gpus[8]
    assert "8 at a time, 1 GPU each" in render_plan(plan)
    assert hours_on_node([3.0, 1.0, 2.0], 2) == 3.0
    assert hours_on_node([3.0, 3.0, 2.0], 2) == 5.0


def test_no_line_of_a_plan_is_wider_than_a_hundred_columns(
    tmp_path: Path, paper_plan: Plan
) -> None:
    record_of(BASE, tmp_path)
    for plan in (paper_plan, plan_of(PAPER, tmp_path), plan_of(PAPER, tmp_path, H100)):
        assert max(map(len, render_plan(plan).split("\n"))) <= 100


def test_money_and_energy_are_hours_times_gpus(paper_plan: Plan) -> None:
    """3 seeds of base on 8 P100 at $1.46 and 300 W."""
    base = paper_plan.trainings[0]
    assert (base.system, base.seeds) == ("base", [1, 2, 3])
    assert base.cost is not None
    assert base.cost.device_hours == pytest.approx(3 * 8 * base.hours)
    assert base.cost.dollars == pytest.approx(1.46 * base.cost.device_hours)
    assert base.cost.kilowatt_hours == pytest.approx(0.3 * base.cost.device_hours)


def test_the_memory_of_a_device_is_sixteen_bytes_a_parameter_and_a_batch() -> None:
    """One token, one layer pair of d_model 1 and d_ff 1, one symbol: 24 + 2 + 3 numbers are kept, in
    bf16 18.5 + 1 + 3; the loss has the logits of at most 4,096 tokens.
    """
    one = msgspec.structs.replace(
        PAPER_TRAINING, num_layers=1, d_model=1, d_ff=1, max_tokens_per_batch=1
    )
    assert device_memory_bytes(one, 100, 1) == CONTEXT_BYTES + 16 * 100 + 4 * 29
    half = msgspec.structs.replace(one, precision="bf16")
    assert device_memory_bytes(half, 100, 1) == CONTEXT_BYTES + 16 * 100 + 4 * 22.5
    many = msgspec.structs.replace(one, max_tokens_per_batch=5000)
    kept = 4 * (5000 * 26 + 4096 * 3)
    assert device_memory_bytes(many, 100, 1) == CONTEXT_BYTES + 16 * 100 + kept
    fconv = msgspec.structs.replace(many, architecture="fconv")
    assert device_memory_bytes(fconv, 100, 1) == CONTEXT_BYTES + 16 * 100 + 4 * 5000 * 29


@pytest.mark.parametrize(
    ("system", "precision", "tokens", "peak_gib"),
    [
        ("base", "fp32", 25_000, 11.65),
        ("base", "bf16", 25_000, 9.29),
        ("big", "fp32", 25_000, 22.59),
        ("big", "bf16", 25_000, 17.74),
        ("base", "fp32", 3_250, 2.87),
        ("big", "bf16", 3_250, 5.50),
    ],
)
def test_memory_is_near_the_counted_peak_of_a_steps_tensors(
    system: str, precision: Any, tokens: int, peak_gib: float
) -> None:
    """The peaks were counted tensor by tensor, with a vocabulary of 37,000."""
    training = msgspec.structs.replace(
        read_experiment(PAPER).system_by_name[system].training,
        precision=precision,
        max_tokens_per_batch=tokens,
    )
    parameters = num_parameters(training, 37_000, joint=True)
    estimate = device_memory_bytes(training, parameters, 37_000) - CONTEXT_BYTES
    assert 0.95 <= estimate / 2**30 / peak_gib <= 1.25


def test_every_rank_holds_the_index_and_one_a_checkpoint() -> None:
    assert host_memory_bytes(100, 10, 8) == 8 * (CONTEXT_BYTES + 480) + 1200


def test_a_stage_that_snakemake_has_timed_is_taken_as_it_was(tmp_path: Path) -> None:
    for verb in ("fetch", "clean"):
        path = tmp_path / "benchmarks" / "paper" / verb / "wmt14_en_de.tsv"
        path.parent.mkdir(parents=True)
        path.write_text("s\th:m:s\n7200.0\t2:00:00\n", encoding="utf-8")
    first, second, third, *_ = plan_of(PAPER, tmp_path).longest_chain
    assert [(first.hours, first.basis), (second.hours, second.basis)] == [(2.0, "measured")] * 2
    assert third.basis == "assumed"


def test_a_measured_training_counts_for_its_system_and_its_ratio_for_the_others(
    tmp_path: Path,
) -> None:
    """Base took an hour, so another seed takes an hour; big is scaled as base was."""
    before = plan_of(PAPER, tmp_path)
    record_of(BASE, tmp_path)
    plan = plan_of(PAPER, tmp_path)
    assert hours_of(plan, "base") == (pytest.approx(1.0), "measured")
    ratio = 1.0 / hours_of(before, "base")[0]
    assert hours_of(plan, "big") == (pytest.approx(ratio * hours_of(before, "big")[0]), "fraction")
    text = render_plan(plan)
    assert re.search(r"^base +wmt14_en_de .* runs ", text, re.MULTILINE)
    assert re.search(r"^big +wmt14_en_de .* others ", text, re.MULTILINE)
    assert "runs as trainings of the system took" in " ".join(text.split())
    assert "the formula, scaled as other trainings" in " ".join(text.split())


def test_a_training_in_one_precision_measures_nothing_of_another(tmp_path: Path) -> None:
    eight = msgspec.structs.replace(EIGHT_P100, gpu="NVIDIA H100 80GB HBM3")
    record_of(msgspec.structs.replace(BASE, precision="bf16"), tmp_path, hardware=eight)
    fp32, tf32, bf16 = (one.speeds[0] for one in plan_of(PAPER, tmp_path, H100).precisions)
    assert (fp32.basis, tf32.basis, bf16.basis) == ("assumed", "assumed", "measured")
    assert bf16.hours == pytest.approx(1.0)


def test_a_measured_time_is_in_proportion_to_updates_and_scaled_to_more_gpus(
    tmp_path: Path,
) -> None:
    """Half as many updates on 4 of the GPUs took an hour: all of them on 8 take about an hour."""
    half = msgspec.structs.replace(BASE, updates=BASE.updates // 2)
    record_of(half, tmp_path, hardware=msgspec.structs.replace(EIGHT_P100, num_gpus=4, num_ranks=4))
    assert hours_of(plan_of(PAPER, tmp_path), "base") == (pytest.approx(1.0, rel=0.1), "measured")


@pytest.mark.parametrize(
    ("training", "other", "basis"),
    [
        (BASE, {"hardware": msgspec.structs.replace(EIGHT_P100, gpu="NVIDIA H200")}, "assumed"),
        (BASE, {"hardware": CPU}, "assumed"),
        (BASE, {"training_json": "{}"}, "assumed"),
        (msgspec.structs.replace(BASE, max_tokens_per_batch=100), {}, "fraction"),
    ],
)
def test_another_machine_an_old_record_or_another_batch_does_not_measure_the_training(
    tmp_path: Path, training: TrainingSpec, other: dict[str, Any], basis: str
) -> None:
    record_of(training, tmp_path, **other)
    assert hours_of(plan_of(PAPER, tmp_path), "base")[1] == basis


def test_what_trainings_took_stands_beside_what_was_predicted_when_they_began(
    tmp_path: Path,
) -> None:
    """Seed 1 took one hour of 8 GPUs; seed 2 was stopped after half an hour on as many; seed 3 has
    not begun.
    """
    prediction = Prediction(hours=2.0, basis="at 30% of 8 P100")
    record_of(BASE, tmp_path, prediction=prediction)
    run_folder = tmp_path / "runs" / "wmt14_en_de-base-seed2-89abcdef"
    make_run(
        run_folder.parent,
        run_folder.name,
        events=[started(1, 0, num_gpus=8), ended(1, 30, "stopped")],
    )
    plan = plan_of(PAPER, tmp_path)
    assert plan.trainings[0].actual == Measured(
        num_finished=1, num_begun=2, hours=1.0, predicted_hours=2.0, total_hours=1.5, gpu_hours=12.0
    )
    text = render_plan(plan)
    assert "base wmt14_en_de    1 of 3       1.0 h         2.0 h              12.0\n" in text
    assert dict.fromkeys(("runs", "others"), "time from" in text) == {
        "runs": False,
        "others": False,
    }


def test_what_a_shorter_training_took_is_not_the_actual_of_the_whole_one(tmp_path: Path) -> None:
    """7,500 of base's 100,000 updates took a quarter of an hour of 8 GPUs: all will take 13.3 of
    that.
    """
    look = msgspec.structs.replace(BASE, updates=7500)
    record_of(look, tmp_path, wall_seconds=900.0, gpu_seconds=7200.0)
    plan = plan_of(PAPER, tmp_path)
    assert hours_of(plan, "base") == (pytest.approx(0.25 * 100_000 / 7500), "measured")
    actual = plan.trainings[0].actual
    assert actual is not None
    assert (actual.num_finished, actual.num_begun, actual.hours, actual.gpu_hours) == (
        0,
        1,
        None,
        2.0,
    )


def test_a_shorter_training_is_the_actual_where_the_config_asks_for_it(tmp_path: Path) -> None:
    shorter = msgspec.structs.replace(
        PAPER, updates=12_600
    )  # fewer do not leave the 20 models that big averages
    record_of(read_experiment(shorter).system_by_name["base"].training, tmp_path)
    actual = plan_of(shorter, tmp_path).trainings[0].actual
    assert actual is not None
    assert (actual.num_finished, actual.hours) == (1, 1.0)


def test_the_data_bins_vocabulary_counts_before_the_files(tmp_path: Path) -> None:
    data = msgspec.structs.replace(
        BINARIZED,
        corpus="wmt14_en_de",
        dictionary_sha256_by_language={"en": "1", "de": "2"},
        num_pairs_by_split={"train": 7},
        vocabulary_size_by_language={"en": 1000, "de": 2000},
    )
    write_record(data, corpus_record(tmp_path / "results", "paper", "binarize", "wmt14_en_de"))
    corpus = plan_of(PAPER, tmp_path).corpora[0]
    assert (corpus.source_vocabulary_size, corpus.vocabulary_size, corpus.is_joint) == (
        1000,
        2000,
        False,
    )
    assert corpus.vocabulary_source == "wmt14_en_de: 2,000, counted in its data-bin"
    assert (corpus.num_pairs, corpus.data_bin_bytes) == (7, 7 * 2 * (32 * 2 + 12))


def test_a_record_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    path = tmp_path / "runs" / "a_run" / "done.json"
    path.parent.mkdir(parents=True)
    path.write_text("torn", encoding="utf-8")
    plan = plan_of(PAPER, tmp_path)
    assert plan.unreadable_records == [str(path)]
    assert "done.json: cannot be read as the record of a training" in " ".join(
        render_plan(plan).split()
    )


def test_the_command_prints_one_object(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    configfile = str(CONFIG_FOLDER / "demo.yaml")
    assert (
        main(["plan", "--configfile", configfile, "--gpu", "H100", "--num-gpus", "1", "--json"])
        == 0
    )
    plan = msgspec.json.decode(capsys.readouterr().out, type=Plan)
    assert (plan.scale, plan.machine.words, len(plan.trainings)) == ("demo", "1 H100", 6)
