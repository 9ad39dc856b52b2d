"""The machine of a plan's trainings and why it was chosen, whether they fit there, and which
figures are assumed.
"""

import re
from pathlib import Path
from typing import Any

import msgspec
import pytest

from aiayn.__main__ import build_parser
from aiayn.cli.config import read_changed_scale
from aiayn.experiment import read_experiment
from aiayn.plan.machine import Machine
from aiayn.spec.cluster import ClusterSpec
from aiayn.spec.system import CONFIG_FOLDER, read_scale
from aiayn.spec.training import Precision
from analysis.price.config import choose_launcher
from analysis.price.limits import count_jobs, why_unsupported
from analysis.price.machines import choose_machine
from analysis.price.preflight.checks import check_plan
from analysis.price.text import render_plan
from tests.planned_scales import CPU, HARDWARE, MINE, PAPER, PLAIN
from tests.price.plans import plan_of


def machine_of(cluster: ClusterSpec = PLAIN, launcher: str = "slurm", **flags: Any) -> Machine:
    """Return what a cluster's trainings run on."""
    return choose_machine(
        cluster, HARDWARE, **{"launcher": launcher, "gpu": None, "num_gpus": None, **flags}
    )


@pytest.fixture
def no_gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pretend to a machine without GPUs."""
    monkeypatch.setattr("analysis.price.machines.gpu_names", list)


def launcher_of(config: str, *flags: str) -> str:
    """Return the launcher of a config's plan or preflight."""
    args = build_parser("plan").parse_args(["--configfile", str(CONFIG_FOLDER / config), *flags])
    return choose_launcher(args, read_changed_scale(args.configfile, args.config))


def test_the_papers_scale_or_a_named_cluster_means_slurm_and_all_else_this_machine() -> None:
    assert launcher_of("paper.yaml") == "slurm"
    assert launcher_of("paper.yaml", "--launcher", "local") == "local"
    assert launcher_of("multi30k.yaml") == launcher_of("demo.yaml") == "local"
    assert launcher_of("multi30k.yaml", "--cluster", "plain") == "slurm"
    assert launcher_of("multi30k.yaml", "--config", "only=base:5", "cluster=plain") == "slurm"
    assert launcher_of("multi30k.yaml", "--config", "only=base:5") == "local"


@pytest.mark.usefixtures("no_gpus")
def test_the_machine_is_the_clusters_then_the_papers(monkeypatch: pytest.MonkeyPatch) -> None:
    def chosen(*args: Any, **flags: Any) -> tuple[str, int, int]:
        machine = machine_of(*args, **flags)
        return machine.gpu, machine.num_devices, machine.num_ranks

    two_nodes = msgspec.structs.replace(PLAIN, gpu_type="h100", num_nodes=2)
    assert chosen() == ("P100", 8, 8)
    assert chosen(two_nodes) == ("H100", 16, 16)
    assert chosen(gpu="a100") == ("A100", 8, 8)
    assert chosen(msgspec.structs.replace(PLAIN, gpu_type="nvidia_h100_80gb_hbm3")) == (
        "H100",
        8,
        8,
    )
    assert chosen(CPU) == ("", 8, 8)
    assert chosen(CPU, gpu="h100") == ("H100", 8, 8)
    assert chosen(launcher="local") == ("", 1, 1)
    assert chosen(launcher="local", gpu="h100") == (
        "H100",
        1,
        1,
    )  # as rule train takes, unless message
    assert chosen(launcher="local", gpu="h100", num_gpus=4) == ("H100", 4, 4)
    monkeypatch.setattr("analysis.price.machines.gpu_names", lambda: ["NVIDIA H200"])
    assert chosen(launcher="local") == ("H200", 1, 1)


def test_ranks_lie_on_as_many_nodes_as_their_gpus_need() -> None:
    two_nodes = msgspec.structs.replace(PLAIN, num_nodes=2)
    for num_gpus, num_nodes in ((None, 2), (16, 2), (8, 1), (1, 1), (12, 2)):
        assert machine_of(two_nodes, num_gpus=num_gpus).num_nodes == num_nodes


@pytest.mark.usefixtures("no_gpus")
def test_where_no_gpu_is_named_the_first_with_the_precision_stands_for_it() -> None:
    """P100 is the paper's own; it supports only fp32."""
    for precision, gpu in (("fp32", "P100"), ("tf32", "A100"), ("bf16", "A100")):
        machine = machine_of(precisions={precision})
        assert (machine.gpu, machine.precision_refusal(precision)) == (gpu, "")
    assert (
        machine_of(MINE, precisions={"bf16"})
        .precision_refusal("bf16")
        .startswith("precision is bf16, which a V100 ")
    )
    on_cores = machine_of(launcher="local", precisions={"tf32"})
    assert on_cores.precision_refusal("tf32").startswith(
        "precision is tf32, which a CPU does not have"
    )
    assert on_cores.precision_refusal("bf16") == ""  # torch's autocast


@pytest.mark.usefixtures("no_gpus")
@pytest.mark.parametrize(
    ("cluster", "flags", "words"),
    [
        (PLAIN, {}, "cluster plain, which names no gpu_type"),
        (MINE, {"num_gpus": 8}, "cluster mine; 8 GPUs in place of its 4"),
        (CPU, {"gpu": "P100"}, "cluster cpu; 8 GPUs in place of its CPU cores"),
        (PLAIN, {"launcher": "local"}, "the local launcher, which takes one by default"),
    ],
)
def test_a_machine_says_why_it_is_this_one(
    cluster: ClusterSpec, flags: dict[str, Any], words: str
) -> None:
    assert machine_of(cluster, **flags).chosen_by == words


@pytest.mark.parametrize(
    ("hours", "num_jobs"),
    [(0.0, 1), (118 / 60, 1), (2.0, 2), (165.0, 84)],
)
def test_a_job_trains_until_its_signal_to_save(hours: float, num_jobs: int) -> None:
    """118 of 120 minutes, so that 165 hours, 9,900 minutes, are 83.9 of them."""
    assert count_jobs(MINE, "base", hours).number == num_jobs


def test_predicted_hours_are_held_against_the_jobs_that_the_cluster_allows(tmp_path: Path) -> None:
    """4 V100 with jobs of two hours: big takes about 74 hours."""
    plan = plan_of(PAPER, tmp_path, machine_of(MINE))
    assert plan.jobs is not None
    assert re.match(
        r"big: 7\d\.\d hours, jobs of 118 minutes .* needed: 3\d, allowed: 20", plan.jobs.words
    )
    assert f"- {plan.jobs.words}; {plan.jobs.advice}" in " ".join(render_plan(plan).split())
    (check,) = check_plan(plan)
    assert (check.name, check.outcome) == ("trainings", "FAIL")
    assert check.next_step.endswith("time_limit_minutes in workflow/config/clusters/mine.yaml")


@pytest.mark.usefixtures("no_gpus")
@pytest.mark.parametrize(
    ("machine", "advice"),
    [
        (
            machine_of(num_gpus=3),
            (
                "set gpus_per_node and ranks_per_node in workflow/config/clusters/plain.yaml so"
                " that all ranks are"
            ),
        ),
        (
            machine_of(msgspec.structs.replace(CPU, ranks_per_node=3)),
            "set ranks_per_node in workflow/config/clusters/cpu.yaml so that all ranks are",
        ),
        (
            machine_of(launcher="local", gpu="H100", num_gpus=3),
            "give --num-gpus, and snakemake's `--set-resources train:num_ranks=N`,",
        ),
    ],
)
def test_ranks_that_cannot_share_an_update_are_refused(
    machine: Machine, advice: str, tmp_path: Path
) -> None:
    plan = plan_of(PAPER, tmp_path, machine)
    evidence = "batches_per_update 8 cannot be shared by 3 ranks"
    assert (
        plan.trainings[-1].refusal
        == f"table3_e_learned: {evidence}; {advice} a divisor or a multiple of 8"
    )
    check = check_plan(plan)[0]
    assert check.evidence.startswith(f"base: {evidence} (and 21 more)")
    assert check.next_step.startswith(advice)


def test_a_spec_that_no_ranks_can_train_keeps_its_own_reason(tmp_path: Path) -> None:
    system = read_experiment(PAPER).system_by_name["base"]
    impatient = msgspec.structs.replace(
        system, training=msgspec.structs.replace(system.training, patience_epochs=1)
    )
    assert why_unsupported(system, machine_of()) == ""
    assert why_unsupported(impatient, machine_of(num_gpus=3)).startswith(
        "base: patience_epochs 1 with save_interval"
    )


def test_a_gpu_that_is_not_known_has_no_hours_but_memory_and_disk(tmp_path: Path) -> None:
    plan = plan_of(PAPER, tmp_path, machine_of(gpu="Turbo 9000"))
    assert {row.hours for row in plan.trainings} == {None}
    assert (plan.cost, plan.jobs) == (None, None)
    known = plan_of(PAPER, tmp_path, machine_of(gpu="P100"))
    assert plan.runs_bytes == known.runs_bytes
    assert plan.trainings[0].device_memory_bytes == known.trainings[0].device_memory_bytes
    text = " ".join(render_plan(plan).split())
    assert re.search(r"base wmt14_en_de 3 100,000 - - - [\d.]+ 4\.8 ", text)
    assert "does not know the Turbo 9000; add a row with its rate in fp32, tf32 and bf16" in text
    assert "TFLOP/s" not in text


def test_a_link_that_is_not_known_is_assumed_and_said(tmp_path: Path) -> None:
    plan = plan_of(PAPER, tmp_path, machine_of(gpu="L40S"))
    assert "link of L40S: not known; 16 GB/s are assumed" in " ".join(render_plan(plan).split())
    two_nodes = msgspec.structs.replace(PLAIN, gpu_type="h100", num_nodes=2)
    assert machine_of(two_nodes).assumptions == [
        "link between nodes: not known; 16 GB/s are assumed"
    ]
    assert machine_of(gpu="H100").assumptions == machine_of(gpu="K80", num_gpus=1).assumptions == []


@pytest.mark.parametrize(
    ("precision", "reason"),
    [
        (
            "bf16",
            r"no hours in bf16: .* 2 code base\(s\) .*: 0\.72 to 2\.41 times, wider than 3 times",
        ),
        ("tf32", r"no hours in tf32: .* 1 code base\(s\) .*: one code base cannot tell"),
    ],
)
def test_a_precision_without_a_narrow_range_has_published_speeds_in_place_of_hours(
    precision: Precision, reason: str, tmp_path: Path
) -> None:
    changed = msgspec.structs.replace(PAPER, precision=precision)
    plan = plan_of(changed, tmp_path, machine_of(gpu="A100"))
    assert plan.trainings[0].hours is None
    assert plan.cost is plan.jobs is None
    anchors = [anchor for anchor in plan.anchors if anchor.speed.model == "big"]
    assert (anchors[0].speed.hardware[:4], anchors[0].speed.num_gpus) == ("A100", 8)
    # 300,000 updates of 26,000 tokens
    assert anchors[0].hours == pytest.approx(7.8e9 / anchors[0].speed.measured / 3600)
    assert {anchor.speed.kind for anchor in plan.anchors} <= {"eager", "unfused"}
    text = " ".join(render_plan(plan).split())
    assert re.search(reason, text)
    assert f"{anchors[0].speed.measured:,.0f} big {anchors[0].hours:.1f}" in text


def test_hours_are_the_formulas_middle_times_the_measured_errors(tmp_path: Path) -> None:
    """Eager code in fp32: 0.71 to 1.29, as ranges.csv says."""
    speed = plan_of(PAPER, tmp_path, machine_of(gpu="V100")).trainings[0].speed
    assert speed.formula is not None
    assert speed.expected is not None
    assert speed.expected.least == pytest.approx(0.71 * speed.formula.middle)
    assert speed.expected.most == pytest.approx(1.29 * speed.formula.middle)


@pytest.mark.parametrize(("system", "ratio"), [("table3_e_learned", 1.0), ("table3_c_n8", 8 / 6)])
def test_a_system_without_counts_has_the_nearest_systems(
    system: str, ratio: float, tmp_path: Path
) -> None:
    plan = plan_of(
        msgspec.structs.replace(PAPER, precision="bf16"), tmp_path, machine_of(gpu="H100")
    )
    speed_by_system = {row.system: row.speed for row in plan.trainings}
    launches, of_base = (speed_by_system[name].terms[0].launches for name in (system, "base"))
    assert launches / of_base == pytest.approx(ratio)


def test_one_gpu_starts_the_kernels_of_all_batches_of_an_update(tmp_path: Path) -> None:
    """Base in bf16 on an H100 has eight batches of 1,132 kernels in an update."""
    in_bf16 = msgspec.structs.replace(PAPER, precision="bf16")
    row = plan_of(in_bf16, tmp_path, machine_of(gpu="H100", num_gpus=1)).trainings[0]
    assert row.speed.terms[0].launches == pytest.approx(8 * 1132 * 6e-6)


def test_updates_that_wait_for_the_host_are_planned_as_measured(tmp_path: Path) -> None:
    """Batches of 1,000 tokens: on an H200 products and memory traffic are shorter than launches,
    and real updates took 5.7 to 14.8 times as long as the formula.
    """
    small = read_scale(CONFIG_FOLDER / "multi30k.yaml")
    plan = plan_of(small, tmp_path, machine_of(gpu="H200", num_gpus=1))
    row = plan.trainings[0]
    best = row.speed.terms[0]
    assert best.launches > best.products + best.memory
    assert best.seconds == best.launches + best.rest + best.all_reduce + best.waits
    assert row.speed.formula is not None
    assert row.speed.formula.least == pytest.approx(row.updates * best.seconds / 3600)
    assert row.speed.expected is not None
    assert row.speed.expected.least == pytest.approx(5.7 * row.speed.formula.middle)
    text = " ".join(render_plan(plan).split())
    assert "host base, big" in text
    assert "5.7 to 14.8 times as long as the formula" in text
    assert "waits for the host" not in render_plan(plan_of(PAPER, tmp_path))
