"""Predicts the hours and the disk space of a training on a machine, for the command `aiayn plan`
and for the check before a training starts.

The time of an update on a GPU is a sum of terms: the launches of kernels by the host, matrix
products, memory traffic, the all-reduce of the gradients, and waits. Each term has a best and a
worst case, so the formula gives a best and a worst time. The formula assumes that a GPU computes
the batches of an update one after the other. A training on one GPU may join the batches into larger
batches (`train/grouping.py`), which is faster than the formula.

The expected hours are a range: the middle (geometric mean) of the best and the worst time,
multiplied by the smallest and the largest error of the formula on published systems (`ranges.csv`).
On CPUs, the time is the number of operations divided by 30 % of the measured operations per second
of the cores.
"""

import csv
import functools
import math
from pathlib import Path
from typing import NamedTuple

import msgspec

from aiayn.cost import (
    FULL_CHECKPOINTS_KEPT,
    checkpoint_bytes,
    flops_per_token,
    full_batch_flops,
    num_parameters,
)
from aiayn.errors import ConfigError
from aiayn.plan.machine import Machine
from aiayn.spec.training import Precision, TrainingSpec

KERNELS_PATH = Path(__file__).with_name("kernels.csv")
# The errors of the formula on published systems, by kind of code and precision: the smallest and
# the largest ratio of the published time to the formula's middle, with each code base left out in
# turn.
RANGES_PATH = Path(__file__).with_name("ranges.csv")
# The kind of this project's code in ranges.csv.
OWN_KIND = "eager"
# If the ends of a range have a larger ratio, it is too wide to be printed as hours.
WIDEST_RANGE = 3.0
# Every system in kernels.csv has this number of layers in the encoder and in the decoder.
LAYERS_OF_COUNTS = 6
# From this width on, the counts of big are used for a system that is not in kernels.csv.
WIDE_D_MODEL = 1024

# Assumption for CPUs: the share of its rate that the paper's base reached on 8 P100 (section 5.2).
CPU_SHARE = 0.302


class Bounds(NamedTuple):
    """The best and the worst value of a constant of the formula. The best and the worst value are
    not fitted to published training speeds.

    The best and the worst value of a constant differ by a factor of at most 1.6, and so do the best
    and the worst time of an update.
    """

    best: float
    worst: float


# Assumption: what eager PyTorch usually reaches. Products in fp32 are a share of the sustained
# rate, which is 0.9 of the peak. In tf32 and bf16 they are a share of the tensor cores' peak.
FP32_PRODUCT_SHARE, TENSOR_CORE_SHARE = Bounds(0.90, 0.58), Bounds(0.81, 0.52)
MEMORY_SHARE, LINK_SHARE = Bounds(0.93, 0.69), Bounds(0.93, 0.65)
HOST_SECONDS_PER_KERNEL = Bounds(6e-6, 9e-6)  # dispatch, autograd, launch
HOST_SECONDS_PER_WAIT = Bounds(12e-6, 18e-6)
# On the GPU a kernel also needs time to start, and at its end only a part of the GPU is busy.
GPU_SECONDS_PER_KERNEL = 2e-6

# Bytes that kernels other than products read and write, forward and backward. They were counted
# operator by operator on base, big and table3_c_dff1024 at 3,250 to 25,000 tokens. For a source
# and a target token in a pair of layers they are 4 bytes x these multiples of d_model and d_ff.
# In bf16 the casts add about as much as the shorter numbers save, except in the loss.
MOVED_PER_D_MODEL, MOVED_PER_D_FF = 116, 12
MOVED_PER_SYMBOL = {"fp32": 24, "tf32": 24, "bf16": 36}
CAST_BYTES_PER_PARAMETER = {"fp32": 0, "tf32": 0, "bf16": 12}  # in each batch
OPTIMISER_BYTES_PER_PARAMETER = 36  # in each update: Adam, the gradient's norm, and zeroing it
GRADIENT_BYTES = 4  # of a parameter, in the all-reduce


class KernelCounts(msgspec.Struct, frozen=True, kw_only=True):
    """The numbers of GPU kernels that the host launches, and how often the host waits
    in an update.
    """

    per_batch: float
    per_update: float
    waits: float


class UpdateTerms(msgspec.Struct, frozen=True, kw_only=True):
    """The seconds of one update of a rank (process), for each term of the formula.

    The host launches kernels (`launches`) while the GPU computes matrix products and moves memory
    (`products` + `memory`), so only the longer of these two times counts. `rest` is the time of
    optimiser and log after the backward pass.
    """

    launches: float
    products: float
    memory: float
    rest: float
    all_reduce: float
    waits: float

    @property
    def is_launch_bound(self) -> bool:
        """Whether the GPU waits for the host to launch kernels."""
        return self.launches > self.products + self.memory

    @property
    def seconds(self) -> float:
        """The seconds of the whole update, from all terms."""
        batches = max(self.launches, self.products + self.memory)
        return batches + self.rest + self.all_reduce + self.waits


class Hours(msgspec.Struct, frozen=True):
    """A range of hours, from `least` to `most`, or a range of factors that multiply hours."""

    least: float
    most: float

    @property
    def middle(self) -> float:
        """The geometric mean of the two ends of the range."""
        return math.sqrt(self.least * self.most)


class Speed(msgspec.Struct, frozen=True, kw_only=True):
    """The predicted time of a training.

    `formula` has the hours with the best and the worst constants, or None for a GPU that is not in
    hardware.yaml. `expected` corrects the formula's hours by the errors of the formula on published
    systems or on finished trainings. If the errors are not known well enough, `expected` is None
    and `no_hours` says why. `runs` lists the finished trainings that were used. `terms` has the
    seconds of an update on a GPU in the best and the worst case, and is empty on CPUs.
    """

    precision: Precision
    formula: Hours | None = None
    expected: Hours | None = None
    no_hours: str = ""
    runs: list[str] = []
    terms: list[UpdateTerms] = []

    @property
    def waits_for_host(self) -> bool:
        """Whether the GPU waits for the host to launch kernels, in the best or the worst case."""
        return any(case.is_launch_bound for case in self.terms)

    @property
    def hours(self) -> float | None:
        """The middle of the range of expected hours, or None if the hours cannot be predicted."""
        return self.expected.middle if self.expected else None


# The ratio of the measured time to the formula's middle for updates in which the GPU waits for the
# host: base on Multi30k, on an H200 in fp32 and bf16 (docs/checks.md). Most of this time is Python,
# which no term of the formula counts.
LAUNCH_ERRORS = Hours(5.7, 14.8)


@functools.cache
def read_errors(precision: Precision) -> tuple[Hours | None, str]:
    """Return the range of the formula's errors (published time / predicted time) in a precision,
    for eager PyTorch code like this project's. Return None and the reason if too few errors are
    known or the range is too wide.
    """
    with RANGES_PATH.open(encoding="utf-8", newline="") as lines:
        rows = {(row["kind"], row["precision"]): row for row in csv.DictReader(lines)}
    row = rows[OWN_KIND, precision]
    # The beginning of the sentence that `plan` prints in place of hours.
    explanation = (
        f"no hours in {precision}: how far this plan errs, by {row['num_systems']} published"
        f" systems of {row['num_code_bases']} code base(s) with such code: "
    )
    if not row["least"]:
        return None, f"{explanation}one code base cannot tell"
    errors = Hours(float(row["least"]), float(row["most"]))
    if errors.most > WIDEST_RANGE * errors.least:
        explanation += (
            f"{errors.least:g} to {errors.most:g} times, wider than {WIDEST_RANGE:g} times"
        )
        return None, explanation
    return errors, ""


def predict_speed(
    training: TrainingSpec,
    target_vocabulary_size: int,
    machine: Machine,
    *,
    system: str,
) -> Speed:
    """Predict the hours of a training if every batch has the maximal number of tokens.

    Raises:
        ConfigError: if the machine does not support the training's precision.
    """
    precision = training.precision
    if reason := machine.precision_refusal(precision):
        raise ConfigError(f"{system}: {reason}")
    if not machine.gpu:
        rate = machine.rate_by_precision[precision].value * machine.num_devices
        hours = full_batch_flops(training, target_vocabulary_size) / (rate * CPU_SHARE) / 3600
        single = Hours(hours, hours)
        return Speed(precision=precision, formula=single, expected=single)
    if not machine.rate_by_precision:
        reason = (
            f"no hours: workflow/config/hardware.yaml does not know the {machine.gpu}; add a row"
            " with its rate in fp32, tf32 and bf16, the speed of its memory and of its link,"
            " each with its source, after the rows that are there"
        )
        return Speed(precision=precision, no_hours=reason)
    counts = read_kernel_counts(training, machine.num_ranks, system)
    terms = [
        update_terms(training, target_vocabulary_size, machine, counts, case) for case in (0, 1)
    ]
    formula = Hours(*(training.updates * case.seconds / 3600 for case in terms))
    speed = Speed(precision=precision, formula=formula, terms=terms)
    errors, no_hours = read_errors(precision)
    if errors is None:
        return msgspec.structs.replace(speed, no_hours=no_hours)
    # An update that waits for the host has an error of its own, which was measured here.
    if speed.waits_for_host:
        errors = LAUNCH_ERRORS
    expected = Hours(formula.middle * errors.least, formula.middle * errors.most)
    return msgspec.structs.replace(speed, expected=expected)


def update_terms(
    training: TrainingSpec, symbols: int, machine: Machine, counts: KernelCounts, case: int
) -> UpdateTerms:
    """Return the seconds of an update on a GPU in the best (0) or the worst (1) `case`, term by
    term. `symbols` is the size of the output vocabulary.
    """
    precision = training.precision
    ranks = machine.num_ranks
    product_share = FP32_PRODUCT_SHARE if precision == "fp32" else TENSOR_CORE_SHARE
    products_per_second = machine.rate_by_precision[precision].value * product_share[case]
    # In hardware.yaml every GPU has it, and a GPU without rates does not get here.
    assert machine.memory_bytes_per_second is not None
    bytes_per_second = machine.memory_bytes_per_second.value * MEMORY_SHARE[case]
    host_seconds = HOST_SECONDS_PER_KERNEL[case]
    # Assumption: a joint vocabulary. A second vocabulary adds little to these terms.
    parameters = num_parameters(training, symbols, joint=True)
    # If several ranks share a batch, the part of each rank counts as a whole batch.
    batches = max(1.0, training.batches_per_update / ranks)
    tokens = batches * training.max_tokens_per_batch
    widths = MOVED_PER_D_MODEL * training.d_model + MOVED_PER_D_FF * training.d_ff
    bytes_per_token = 4 * training.num_layers * widths + MOVED_PER_SYMBOL[precision] * symbols
    moved_bytes = (
        tokens * bytes_per_token + batches * CAST_BYTES_PER_PARAMETER[precision] * parameters
    )
    kernels = batches * counts.per_batch
    optimiser_seconds = OPTIMISER_BYTES_PER_PARAMETER * parameters / bytes_per_second
    link_seconds = GRADIENT_BYTES * parameters / (machine.link.value * LINK_SHARE[case])
    return UpdateTerms(
        launches=kernels * host_seconds,
        products=tokens * flops_per_token(training, symbols) / products_per_second,
        memory=moved_bytes / bytes_per_second + kernels * GPU_SECONDS_PER_KERNEL,
        rest=max(counts.per_update * host_seconds, optimiser_seconds),
        # In a ring of n ranks, each rank sends the gradients 2 (n - 1) / n times.
        all_reduce=2 * (ranks - 1) / ranks * link_seconds,
        waits=counts.waits * HOST_SECONDS_PER_WAIT[case],
    )


def read_kernel_counts(training: TrainingSpec, num_ranks: int, system: str) -> KernelCounts:
    """Return the numbers of kernels and waits of a training from kernels.csv. A system that is not
    in the file gets the numbers of base or big, in proportion to its number of layers.
    """
    with KERNELS_PATH.open(encoding="utf-8", newline="") as lines:
        rows = [row for row in csv.DictReader(lines) if row["precision"] == training.precision]
    names = {row["system"] for row in rows}
    nearest = "big" if training.d_model >= WIDE_D_MODEL else "base"
    name = system if system in names and training.num_layers == LAYERS_OF_COUNTS else nearest

    def distance(row: dict[str, str]) -> tuple[bool, int]:
        # Counts for a single rank do not include sending gradients, so they come last for several
        # ranks. False sorts before True.
        ranks = int(row["num_ranks"])
        return (ranks == 1) != (num_ranks == 1), abs(ranks - num_ranks)

    row = min((row for row in rows if row["system"] == name), key=distance)
    ratio = training.num_layers / LAYERS_OF_COUNTS
    return KernelCounts(
        per_batch=ratio * int(row["kernels_per_batch"]),
        per_update=ratio * int(row["kernels_per_update"]),
        waits=int(row["waits_per_update"]),
    )


def run_disk_bytes(num_parameters: int, num_models: int) -> int:
    """Return the maximum number of bytes of a run's checkpoints: `num_models` checkpoints without
    the optimiser and two full checkpoints, plus one more of each kind, because a new checkpoint is
    written before an old checkpoint is removed.
    """
    model_bytes = checkpoint_bytes(num_parameters, has_optimizer=False)
    full_bytes = checkpoint_bytes(num_parameters, has_optimizer=True)
    return (num_models + 1) * model_bytes + (FULL_CHECKPOINTS_KEPT + 1) * full_bytes
