"""A plan's numbers agree with the paper's own, with sums done by hand, and with what trainings
really took.
"""

from pathlib import Path
from typing import Any

import msgspec
import pytest

from aiayn.cost import num_parameters
from aiayn.experiment import read_experiment
from aiayn.plan.memory import CONTEXT_BYTES, device_memory_bytes
from aiayn.records import Beginning
from analysis.price.machines import choose_machine
from analysis.price.plan import Plan
from analysis.price.text import render_plan
from tests.planned_scales import BASE, PAPER, PLAIN, record_of
from tests.price.plans import H100, HARDWARE, hours_of, plan_of
from tests.records_factory import CPU, EIGHT_P100, PAPER_TRAINING


@pytest.fixture(scope="module")
def paper_plan(tmp_path_factory: pytest.TempPathFactory) -> Plan:
    """Return the plan of paper.yaml on the paper's machine, with nothing trained yet."""
    return plan_of(PAPER, tmp_path_factory.mktemp("nothing"))


def test_money_is_hours_times_gpus(paper_plan: Plan) -> None:
    """3 seeds of base on 8 P100 at $1.46."""
    base = paper_plan.trainings[0]
    assert (base.system, base.seeds) == ("base", [1, 2, 3])
    assert base.cost is not None
    assert base.cost.device_hours == pytest.approx(3 * 8 * base.hours)
    assert base.cost.dollars == pytest.approx(1.46 * base.cost.device_hours)


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


def test_finished_trainings_scale_all_hours_by_the_median_of_their_ratios(tmp_path: Path) -> None:
    """Base took an hour, so another seed takes an hour; big is scaled as base was. Half as many
    updates on 4 of the GPUs take about an hour, too.
    """
    before = plan_of(PAPER, tmp_path)
    record_of(BASE, tmp_path)
    plan = plan_of(PAPER, tmp_path)
    assert hours_of(plan, "base") == pytest.approx(1.0)
    ratio = 1.0 / hours_of(before, "base")
    assert hours_of(plan, "big") == pytest.approx(ratio * hours_of(before, "big"))
    assert "differed from it: wmt14_en_de-base-seed1" in " ".join(render_plan(plan).split())
    half = msgspec.structs.replace(BASE, updates=BASE.updates // 2)
    record_of(half, tmp_path, hardware=msgspec.structs.replace(EIGHT_P100, num_gpus=4, num_ranks=4))
    assert hours_of(plan_of(PAPER, tmp_path), "base") == pytest.approx(1.0, rel=0.1)


def test_a_training_on_two_nodes_is_compared_with_the_formula_for_two_nodes(tmp_path: Path) -> None:
    """Between nodes the link is slower, so the formula for one node would be another number."""
    two_nodes = msgspec.structs.replace(PLAIN, num_nodes=2)
    machine = choose_machine(two_nodes, HARDWARE, launcher="slurm", gpu="H100", num_gpus=None)
    assert (machine.num_devices, machine.num_nodes) == (16, 2)
    sixteen = msgspec.structs.replace(
        EIGHT_P100, gpu="NVIDIA H100 80GB HBM3", num_gpus=16, num_ranks=16
    )
    record_of(BASE, tmp_path, hardware=sixteen)
    # The same machine and system take the same hour, whichever machine the plan is for.
    assert hours_of(plan_of(PAPER, tmp_path, machine), "base") == pytest.approx(1.0)
    before = plan_of(PAPER, tmp_path / "nothing", machine)
    ratio = 1.0 / hours_of(before, "base")
    on_one_node = hours_of(plan_of(PAPER, tmp_path / "nothing", H100), "base")
    assert hours_of(plan_of(PAPER, tmp_path, H100), "base") == pytest.approx(ratio * on_one_node)


def test_a_finished_training_that_continued_a_shorter_one_is_half_of_its_updates(
    tmp_path: Path,
) -> None:
    """Its seconds are those of the second half."""
    longer = msgspec.structs.replace(BASE, updates=2 * BASE.updates)
    beginning = Beginning(run="base", update=BASE.updates, tensors_sha256="0")
    record_of(longer, tmp_path, beginning=beginning)
    assert hours_of(plan_of(PAPER, tmp_path), "base") == pytest.approx(1.0)


def test_a_training_in_one_precision_scales_nothing_in_another(tmp_path: Path) -> None:
    eight = msgspec.structs.replace(EIGHT_P100, gpu="NVIDIA H100 80GB HBM3")
    record_of(msgspec.structs.replace(BASE, precision="bf16"), tmp_path, hardware=eight)
    in_bf16 = msgspec.structs.replace(PAPER, precision="bf16")
    assert plan_of(PAPER, tmp_path, H100).trainings[0].speed.runs == []
    assert hours_of(plan_of(in_bf16, tmp_path, H100), "base") == pytest.approx(1.0)


@pytest.mark.parametrize(
    "other",
    [
        {"hardware": msgspec.structs.replace(EIGHT_P100, gpu="NVIDIA H200")},
        {"hardware": CPU},
        {"training_json": "{}"},
        {"corpus": "multi30k_en_de"},
    ],
)
def test_another_device_or_corpus_or_an_old_record_scales_nothing(
    tmp_path: Path, other: dict[str, Any]
) -> None:
    record_of(BASE, tmp_path, **other)
    assert plan_of(PAPER, tmp_path).trainings[0].speed.runs == []
