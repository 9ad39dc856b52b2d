"""Compares the plan's formula with published throughputs, as a table for docs/checks.md.

`paper_tables/published/throughputs.csv` has the systems; no constant of the formula is fitted to
them. `leave_out_code_bases` turns the comparisons into the ranges of `aiayn/plan/ranges.csv`.
"""

import csv
import statistics
from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from aiayn.plan.machine import Machine, machine_of_gpus
from aiayn.plan.prediction import OWN_KIND, RANGES_PATH, predict_speed, read_errors
from aiayn.spec.hardware import HardwareSpec, SourcedValue, read_hardware
from aiayn.spec.system import read_system
from aiayn.spec.training import PRECISIONS, Precision, TrainingSpec
from aiayn.speeds import PRECISION_BY_NAME, PublishedSpeed, comparable_speeds, read_speeds

VOCABULARY_SIZE = 33_708  # of NVIDIA's and fairseq's data
# AlgoPerf's model is as wide as big, with a narrower feed-forward layer.
SYSTEM_BY_MODEL = {"base": "base", "big": "big", "algoperf": "big"}
ALGOPERF_D_FF = 1024
# The V100 has only fp16, so hardware.yaml has no rate for it.
V100_FP16 = SourcedValue(value=1.25e14, kind="vendor", source="NVIDIA V100 (SXM2) data sheet")


class MeasuredRange(NamedTuple):
    """A line of ranges.csv; `least` and `most` are None if only one code base was published."""

    kind: str
    precision: Precision
    num_code_bases: int
    num_systems: int
    least: float | None
    most: float | None


def own_range(precision: Precision) -> tuple[float, float] | None:
    """Return the range of ranges.csv for this project's kind of code, None if it has none."""
    with RANGES_PATH.open(encoding="utf-8", newline="") as lines:
        for row in csv.DictReader(lines):
            if (row["kind"], row["precision"]) == (OWN_KIND, precision) and row["least"]:
                return float(row["least"]), float(row["most"])
    return None


class Comparison(NamedTuple):
    """A published system and the plan's range for it, in target tokens a second."""

    throughput: PublishedSpeed
    gpu: str
    slowest: float
    middle: float
    fastest: float

    @property
    def ratio(self) -> float:
        """The speed of the plan's middle over the published speed."""
        return self.middle / self.throughput.measured

    @property
    def is_inside(self) -> bool:
        """Whether the plan's range contains the published speed."""
        return self.slowest <= self.throughput.measured <= self.fastest


def compare_throughputs() -> list[Comparison]:
    """Return the comparison of each system whose GPU, precision and batch in tokens are stated, on
    one node.
    """
    hardware = read_hardware()
    comparisons = []
    comparable = [row for precision in PRECISIONS for row in comparable_speeds(precision)]
    for row in read_speeds():
        gpu = hardware.find_name(row.hardware)
        if gpu is None or row not in comparable:
            continue
        training, machine = _training_of(row), _machine_of(row, gpu, hardware)
        system = SYSTEM_BY_MODEL[row.model]
        speed = predict_speed(training, VOCABULARY_SIZE, machine, system=system)
        tokens_in_hours = training.updates * row.batch * float(row.fill) / 3600
        assert speed.formula is not None
        formula = speed.formula
        slowest, middle, fastest = (
            tokens_in_hours / hours for hours in (formula.most, formula.middle, formula.least)
        )
        comparisons.append(Comparison(row, gpu, slowest, middle, fastest))
    return comparisons


def leave_out_code_bases(comparisons: Sequence[Comparison]) -> list[MeasuredRange]:
    """Return the range of each kind of code and precision, by leaving out each code base in turn.

    A code base's factor is the geometric mean of its systems' ratios. The mean factor of the
    others predicts the code base that is left out; each of its systems then has an error, its
    ratio over that prediction. The range is the mean factor of all code bases, times the
    smallest and the largest of these errors.
    """
    by_cell: dict[tuple[str, Precision], dict[str, list[float]]] = {}
    for item in comparisons:
        row = item.throughput
        cell = by_cell.setdefault((row.kind, PRECISION_BY_NAME[row.precision]), {})
        cell.setdefault(row.code_base, []).append(item.ratio)
    ranges = []
    for (kind, precision), ratios_by_base in by_cell.items():
        num_systems = sum(map(len, ratios_by_base.values()))
        factors = {
            base: statistics.geometric_mean(ratios) for base, ratios in ratios_by_base.items()
        }
        errors = []
        for base, ratios in ratios_by_base.items():
            others = [factor for name, factor in factors.items() if name != base]
            if others:
                predicted = statistics.geometric_mean(others)
                errors += [ratio / predicted for ratio in ratios]
        centre = statistics.geometric_mean(factors.values())
        least, most = (centre * min(errors), centre * max(errors)) if errors else (None, None)
        ranges.append(
            MeasuredRange(
                kind=kind,
                precision=precision,
                num_code_bases=len(factors),
                num_systems=num_systems,
                least=least,
                most=most,
            )
        )
    return ranges


def range_line(measured: MeasuredRange) -> str:
    """Return the line of ranges.csv."""
    ends = ["" if end is None else f"{end:.2f}" for end in (measured.least, measured.most)]
    counts = [str(measured.num_code_bases), str(measured.num_systems)]
    return ",".join([measured.kind, measured.precision, *counts, *ends])


def later_systems(comparisons: Sequence[Comparison]) -> list[Comparison]:
    """Return the systems that were counted after the ranges had been fixed."""
    return [item for item in comparisons if item.throughput.group == "later"]


def first_systems(comparisons: Sequence[Comparison]) -> list[Comparison]:
    """Return the systems whose errors made the ranges."""
    return [item for item in comparisons if item.throughput.group == "first"]


def is_as_planned(item: Comparison) -> bool | None:
    """Return whether the range of this project's kind of code, in the system's precision, contains
    the system's error; None if that precision has no range at all.
    """
    ends = own_range(PRECISION_BY_NAME[item.throughput.precision])
    return None if ends is None else ends[0] <= item.ratio <= ends[1]


def render_later(comparisons: Sequence[Comparison]) -> str:
    """Return the Markdown table of the later systems, and how many the ranges contain."""
    lines = [
        "| system | kind of code | GPUs | precision | tokens a GPU | published, tokens/s | plan /"
        " published | range for our code | inside |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    answers: dict[str, list[bool | None]] = {}
    for item in later_systems(comparisons):
        row, answer = item.throughput, is_as_planned(item)
        precision = PRECISION_BY_NAME[row.precision]
        ends = own_range(precision)
        text = "none"
        if ends is not None:
            text = f"{ends[0]:g} to {ends[1]:g}"
            text += ", no hours" if read_errors(precision)[0] is None else ""
        answers.setdefault(precision, []).append(answer)
        cells = [
            f"{row.system}, {row.model}",
            row.kind,
            f"{row.num_gpus} {item.gpu}",
            row.precision,
            f"{row.batch // row.num_gpus:,}",
            f"{row.measured:,.0f}",
            f"{item.ratio:.2f}",
            text,
            {None: "", True: "yes", False: "no"}[answer],
        ]
        lines.append(f"| {' | '.join(cells)} |")
    lines.append("")
    for precision, given in answers.items():
        text = f"plan / published of {given.count(True)} of {len(given)} systems is in the range"
        lines.append(f"* {precision}: {'the plan has no range' if None in given else text}")
    ratios = [item.ratio for item in later_systems(comparisons)]
    lines.append(
        f"* all: the middle of the plan is {min(ratios):.2f} to {max(ratios):.2f} times the"
        f" published speed, and higher than the published speed for"
        f" {sum(ratio > 1 for ratio in ratios)} of {len(ratios)} systems"
    )
    return "\n".join(lines)


def _training_of(row: PublishedSpeed) -> TrainingSpec:
    training = read_system(SYSTEM_BY_MODEL[row.model], "paper").training
    return msgspec.structs.replace(
        training,
        d_ff=ALGOPERF_D_FF if row.model == "algoperf" else training.d_ff,
        precision=PRECISION_BY_NAME[row.precision],
        max_tokens_per_batch=row.batch // row.num_gpus,
        batches_per_update=row.num_gpus,
    )


def _machine_of(row: PublishedSpeed, gpu: str, hardware: HardwareSpec) -> Machine:
    machine = machine_of_gpus(gpu, row.num_gpus, 1, hardware, row.source)
    if gpu != "V100":
        return machine
    rates = {**machine.rate_by_precision, "bf16": V100_FP16}
    return msgspec.structs.replace(machine, rate_by_precision=rates)


def render_comparisons(comparisons: list[Comparison]) -> str:
    """Return the Markdown table of ratios, by kind of code, and the summary of each kind."""
    lines = [
        "| kind of code | system | GPUs | precision | tokens a GPU | published, tokens/s | plan"
        " | plan / published |",
        "|---|---|---|---|---|---|---|---|",
    ]
    by_kind: dict[str, list[Comparison]] = {}
    for item in comparisons:
        by_kind.setdefault(item.throughput.kind, []).append(item)
    for kind, of_kind in by_kind.items():
        for item in of_kind:
            row = item.throughput
            cells = [
                kind,
                row.system,
                f"{row.num_gpus} {item.gpu}",
                row.precision,
                f"{row.batch // row.num_gpus:,}",
                f"{row.measured:,.0f}",
                f"{item.slowest:,.0f} to {item.fastest:,.0f}",
                f"{item.ratio:.2f}",
            ]
            lines.append(f"| {' | '.join(cells)} |")
    groups = {**by_kind, "eager and unfused": by_kind["eager"] + by_kind["unfused"]}
    return "\n".join([*lines, "", *(_summarise(*group) for group in groups.items())])


def _summarise(kind: str, comparisons: list[Comparison]) -> str:
    num_inside = sum(item.is_inside for item in comparisons)
    ratios = [item.ratio for item in comparisons]
    return (
        f"* {kind}: {num_inside} of {len(comparisons)} published speeds are in the plan's range."
        f" For {kind} code the middle of this range is {min(ratios):.2f} to {max(ratios):.2f}"
        " times the published speed."
    )
