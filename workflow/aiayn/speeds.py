"""Reads published training speeds. Each published speed has its model, GPUs and precision.

`paper_tables/published/throughputs.csv` has one line, with the source, for each speed. README.md in
the same folder describes the columns of this file.
"""

import functools
from typing import Literal

import msgspec

from aiayn.printed import PUBLISHED_FOLDER, Text, read_rows
from aiayn.spec.hardware import read_hardware
from aiayn.spec.training import Precision

Kind = Literal["eager", "unfused", "hand-fused", "graph"]
PLAIN_KINDS: tuple[Kind, ...] = ("eager", "unfused")  # this project's code, and fairseq's
# WMT17's pairs in an epoch of MLPerf, and the mean of their target tokens (an assumption).
MLPERF_TOKENS_PER_EPOCH = 4.59e6 * 28.5
# fp16 needs the same time as bf16. Lines of another precision, as `not stated`, are not compared.
PRECISION_BY_NAME: dict[str, Precision] = {
    "fp32": "fp32",
    "tf32": "tf32",
    "fp16": "bf16",
    "bf16": "bf16",
}


class PublishedSpeed(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The published training speed of a system. `fill` is the share of a batch that is target
    tokens and not padding.
    """

    group: Literal["first", "later"]
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
        """The published speed in target tokens per second, of all GPUs together."""
        if self.tokens_per_second:
            return float(self.tokens_per_second)
        # The other lines of the table are submissions to MLPerf, which state seconds per epoch.
        return MLPERF_TOKENS_PER_EPOCH / float(self.seconds_per_epoch)


def read_speeds() -> list[PublishedSpeed]:
    """Return all published speeds, in the order of throughputs.csv."""
    return [speed for _, speed in read_rows(PUBLISHED_FOLDER / "throughputs.csv", PublishedSpeed)]


def comparable_speeds(precision: Precision) -> list[PublishedSpeed]:
    """Return the published speeds of trainings on one node in a precision. Speeds of trainings with
    a batch size in sentences are left out, because they cannot be compared with batch sizes in
    tokens.
    """
    return [
        speed
        for speed in read_speeds()
        if PRECISION_BY_NAME.get(speed.precision) == precision
        and speed.num_nodes == "1"
        and speed.batch_unit == "tokens"
    ]


@functools.cache
def published_range(
    gpu: str, *, num_gpus: int, precision: Precision, model: str, tokens_per_gpu: int
) -> tuple[float, float] | None:
    """Return the lowest and the highest published speed of a model (`base` or `big`) on a GPU, in
    target tokens per second. The speeds are scaled to `num_gpus`. `gpu` is a product name.

    The range covers only speeds of code without hand-fused layers, in the same precision, with
    between half and twice as many tokens per GPU. Return None if there are no comparable speeds.
    """
    # Names differ from source to source, so cards are compared by their row in hardware.yaml.
    hardware = read_hardware()
    per_gpu = []
    for speed in comparable_speeds(precision):
        is_same_card = hardware.find_name(speed.hardware) == hardware.find_name(gpu) is not None
        is_near = 0.5 <= speed.batch / speed.num_gpus / tokens_per_gpu <= 2
        if is_same_card and is_near and speed.model == model and speed.kind in PLAIN_KINDS:
            per_gpu.append(speed.measured / speed.num_gpus)
    return (num_gpus * min(per_gpu), num_gpus * max(per_gpu)) if per_gpu else None
