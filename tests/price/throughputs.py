"""Compares the plan's formula with published throughputs, as a table for docs/checks.md.

`paper_tables/published/throughputs.csv` has the systems; no constant of the formula is fitted to
them. `leave_out_code_bases` turns the comparisons into the ranges of `aiayn/plan/ranges.csv`.
"""

import statistics
from collections.abc import Sequence
from typing import Literal, NamedTuple

import msgspec

from aiayn.plan.machine import Machine, machine_of_gpus
from aiayn.plan.prediction import predict_speed
from aiayn.printed import PUBLISHED_FOLDER, Text, read_rows
from aiayn.spec.hardware import HardwareSpec, SourcedValue, read_hardware
from aiayn.spec.system import read_system
from aiayn.spec.training import Precision, TrainingSpec

Kind = Literal["eager", "unfused", "hand-fused", "graph"]
# WMT17's pairs in an epoch of MLPerf, and the mean of their target tokens (an assumption).
MLPERF_TOKENS_PER_EPOCH = 4.59e6 * 28.5
VOCABULARY_SIZE = 33_708  # of NVIDIA's and fairseq's data
# AlgoPerf's model is as wide as big, with a narrower feed-forward layer.
SYSTEM_BY_MODEL = {"base": "base", "big": "big", "algoperf": "big"}
ALGOPERF_D_FF = 1024
# fp16 needs the same time as bf16. The V100 has only fp16, so hardware.yaml has no rate for it.
V100_FP16 = SourcedValue(value=1.25e14, kind="vendor", source="NVIDIA V100 (SXM2) data sheet")
PRECISION_BY_NAME: dict[str, Precision] = {"fp32": "fp32", "tf32": "tf32", "fp16": "bf16"}


class Throughput(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A published system; `fill` is the share of a batch's places that hold target tokens."""

    system: Text
    code_base: Text
    kind: Kind
    model: Literal["base", "big", "algoperf"]
    hardware: Text
    num_gpus: int
    num_nodes: str
    precision: Text
    batch: int
    batch_unit: Literal["tokens", "sequences"]
    fill: str
    tokens_per_second: str
    seconds_per_epoch: str
    source: Text

    @property
    def measured(self) -> float:
        """The target tokens a second, of all GPUs together."""
        if self.tokens_per_second:
            return float(self.tokens_per_second)
        return MLPERF_TOKENS_PER_EPOCH / float(self.seconds_per_epoch)


class Comparison(NamedTuple):
    """A published system and the plan's range for it, in target tokens a second."""

    throughput: Throughput
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


def read_throughputs() -> list[Throughput]:
    """Return the published systems in the order of their file."""
    rows = read_rows(PUBLISHED_FOLDER / "throughputs.csv", Throughput)
    return [throughput for _, throughput in rows]


def compare_throughputs() -> list[Comparison]:
    """Return the comparison of each system whose GPU, precision and batch in tokens are stated, on
    one node.
    """
    hardware = read_hardware()
    comparisons = []
    for row in read_throughputs():
        gpu = hardware.find_name(row.hardware)
        if gpu is None or row.num_nodes != "1" or row.precision not in PRECISION_BY_NAME:
            continue
        training, machine = _training_of(row), _machine_of(row, gpu, hardware)
        system = SYSTEM_BY_MODEL[row.model]
        speed = predict_speed(training, VOCABULARY_SIZE, machine, system=system)
        tokens_in_hours = training.updates * row.batch * float(row.fill) / 3600
        slowest, middle, fastest = (
            tokens_in_hours / hours for hours in (speed.most_hours, speed.hours, speed.least_hours)
        )
        comparisons.append(Comparison(row, gpu, slowest, middle, fastest))
    return comparisons


class MeasuredRange(NamedTuple):
    """How many times as long as planned trainings take, in one kind of code and precision.

    `least` and `most` are None if there is a single code base: leaving it out leaves nothing.
    """

    kind: str
    precision: Precision
    num_code_bases: int
    num_systems: int
    least: float | None
    most: float | None

    @property
    def in_csv(self) -> str:
        """The line of ranges.csv."""
        ends = ["" if end is None else f"{end:.2f}" for end in (self.least, self.most)]
        counts = [str(self.num_code_bases), str(self.num_systems)]
        return ",".join([self.kind, self.precision, *counts, *ends])


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
        ranges.append(MeasuredRange(kind, precision, len(factors), num_systems, least, most))
    return ranges


def _training_of(row: Throughput) -> TrainingSpec:
    training = read_system(SYSTEM_BY_MODEL[row.model], "paper").training
    return msgspec.structs.replace(
        training,
        d_ff=ALGOPERF_D_FF if row.model == "algoperf" else training.d_ff,
        precision=PRECISION_BY_NAME[row.precision],
        max_tokens_per_batch=row.batch // row.num_gpus,
        batches_per_update=row.num_gpus,
    )


def _machine_of(row: Throughput, gpu: str, hardware: HardwareSpec) -> Machine:
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
        f"* {kind}: {num_inside} of {len(comparisons)} inside the plan's range; the middle of the"
        f" plan is {min(ratios):.2f} to {max(ratios):.2f} times as fast as published."
    )
