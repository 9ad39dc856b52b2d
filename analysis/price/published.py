"""Compares a plan with published times: the paper's own training times, and the speeds that other
projects published. The published speeds are called the *anchors* of the plan.
"""

import math

import msgspec

from aiayn.plan.machine import Machine, machine_of_gpus
from aiayn.plan.prediction import Hours, predict_speed
from aiayn.spec.hardware import NUM_PAPER_GPUS, PAPER_GPU, HardwareSpec
from aiayn.spec.system import read_system
from aiayn.spec.training import TrainingSpec
from aiayn.speeds import PLAIN_KINDS, PublishedSpeed, comparable_speeds

PAPER_HOURS = {"base": 12.0, "big": 84.0}  # section 5.2: 12 hours, and 3.5 days
PAPER_VOCABULARY = 37_000  # section 5.1
MAX_ANCHORS = 3  # of each model


def hours_on_papers_gpus(hardware: HardwareSpec) -> dict[str, Hours | None]:
    """Return the predicted hours of the paper's base and big on the paper's own machine, 8 P100 in
    fp32.
    """
    # The plan prints these hours next to the paper's 12 hours and 3.5 days, so that readers see how
    # far the prediction errs.
    machine = machine_of_gpus(PAPER_GPU, NUM_PAPER_GPUS, 1, hardware, "section 5.2")
    expected = {}
    for system in PAPER_HOURS:
        training = msgspec.structs.replace(read_system(system, "paper").training, precision="fp32")
        speed = predict_speed(training, PAPER_VOCABULARY, machine, system=system)
        expected[system] = speed.expected
    return expected


class Anchor(msgspec.Struct, frozen=True, kw_only=True):
    """A published training, shown for comparison if a plan cannot predict hours.

    `hours` is the time that the plan's training of the same model would take at the published
    number of tokens a second.
    """

    speed: PublishedSpeed
    hours: float


def nearest_anchors(
    model: str, training: TrainingSpec, machine: Machine, hardware: HardwareSpec
) -> list[Anchor]:
    """Return the published trainings of a model (`base` or `big`) in the same precision that are
    most similar to a plan. The most similar training has the same kind of GPU, then the same number
    of GPUs, then about as many tokens a GPU.
    """

    def distance(speed: PublishedSpeed) -> tuple[bool, bool, float]:
        # The logarithm makes twice as many tokens and half as many equally far. In a tuple, false
        # comes before true, so the same card is nearest.
        batch_ratio = speed.batch / speed.num_gpus / training.max_tokens_per_batch
        is_other_card = hardware.find_name(speed.hardware) != machine.gpu
        return is_other_card, speed.num_gpus != machine.num_devices, abs(math.log(batch_ratio))

    # The formula also assumes that every batch is full.
    tokens = training.updates * training.max_tokens_per_batch * training.batches_per_update
    # PLAIN_KINDS leaves out hand-fused kernels and graphs of TensorFlow or JAX, because this
    # project's code does not run in these ways.
    speeds = [
        speed
        for speed in comparable_speeds(training.precision)
        if speed.model == model and speed.kind in PLAIN_KINDS
    ]
    nearest = sorted(speeds, key=distance)[:MAX_ANCHORS]
    return [Anchor(speed=speed, hours=tokens / speed.measured / 3600) for speed in nearest]
