"""Compares a plan with published times: the paper's own training times, and the speeds of other
projects.
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
    """Return the hours that this plan predicts for the paper's base and big, on the paper's 8 P100
    in fp32.
    """
    machine = machine_of_gpus(PAPER_GPU, NUM_PAPER_GPUS, 1, hardware, "section 5.2")
    expected = {}
    for system in PAPER_HOURS:
        training = msgspec.structs.replace(read_system(system, "paper").training, precision="fp32")
        speed = predict_speed(training, PAPER_VOCABULARY, machine, system=system)
        expected[system] = speed.expected
    return expected


class Anchor(msgspec.Struct, frozen=True, kw_only=True):
    """A published training from which the reader can estimate a plan that does not have hours.

    `hours` is how long this scale's training of the same model would take at the published speed.
    """

    speed: PublishedSpeed
    hours: float


def nearest_anchors(
    model: str, training: TrainingSpec, machine: Machine, hardware: HardwareSpec
) -> list[Anchor]:
    """Return the published trainings of a model (`base` or `big`) in the same precision that are
    nearest to a plan: on its card, on its number of GPUs, with as many tokens a GPU. `graph` and
    hand-fused code is left out.
    """

    def distance(speed: PublishedSpeed) -> tuple[bool, bool, float]:
        # The speed depends on the tokens a GPU, so twice and half as many are equally far.
        batch_ratio = speed.batch / speed.num_gpus / training.max_tokens_per_batch
        is_other_card = hardware.find_name(speed.hardware) != machine.gpu
        return is_other_card, speed.num_gpus != machine.num_devices, abs(math.log(batch_ratio))

    # All batches are taken as full, as in the formula.
    tokens = training.updates * training.max_tokens_per_batch * training.batches_per_update
    speeds = [
        speed
        for speed in comparable_speeds(training.precision)
        if speed.model == model and speed.kind in PLAIN_KINDS
    ]
    nearest = sorted(speeds, key=distance)[:MAX_ANCHORS]
    return [Anchor(speed=speed, hours=tokens / speed.measured / 3600) for speed in nearest]
