"""Sets a plan beside what was published: the paper's own times, and the speeds of others."""

import math
from collections.abc import Sequence

import msgspec

from aiayn.plan.machine import Machine, machine_of_gpus
from aiayn.plan.prediction import Hours, predict_speed
from aiayn.spec.hardware import NUM_PAPER_GPUS, PAPER_GPU, HardwareSpec
from aiayn.spec.system import read_system
from aiayn.spec.training import TrainingSpec
from aiayn.speeds import PublishedSpeed, comparable_speeds

PAPER_HOURS = {"base": 12.0, "big": 84.0}  # section 5.2: 12 hours, and 3.5 days
PAPER_VOCABULARY = 37_000  # section 5.1
MAX_ANCHORS = 3  # of each model


class PaperTime(msgspec.Struct, frozen=True, kw_only=True):
    """The paper's own hours of a system on 8 P100 in fp32, and the hours that this plan expects."""

    system: str
    paper_hours: float
    expected: Hours | None


def paper_times(hardware: HardwareSpec) -> list[PaperTime]:
    """Return the paper's own times next to the plan's, for base and big."""
    machine = machine_of_gpus(PAPER_GPU, NUM_PAPER_GPUS, 1, hardware, "section 5.2")
    times = []
    for system, hours in PAPER_HOURS.items():
        training = read_system(system, "paper").training
        training = msgspec.structs.replace(training, precision="fp32")
        speed = predict_speed(training, PAPER_VOCABULARY, machine, system=system)
        times.append(PaperTime(system=system, paper_hours=hours, expected=speed.expected))
    return times


class Anchor(msgspec.Struct, frozen=True, kw_only=True):
    """A published training, as the place from which to estimate a plan that has no hours.

    `hours` are the hours of this scale's training of the same model at the published speed.
    """

    speed: PublishedSpeed
    gpu: str
    hours: float


def nearest_anchors(
    training_by_model: dict[str, TrainingSpec], machine: Machine, hardware: HardwareSpec
) -> list[Anchor]:
    """Return the published trainings of these models in these precisions that are nearest to a
    plan: on its card, on its number of GPUs, with as many tokens a GPU. `graph` and hand-fused
    code is left out.
    """
    anchors: list[Anchor] = []
    for model, training in training_by_model.items():
        candidates: list[tuple[tuple[bool, bool, float], Anchor]] = []
        tokens = training.updates * training.max_tokens_per_batch * training.batches_per_update
        for speed in comparable_speeds(training.precision):
            gpu = hardware.find_name(speed.hardware)
            if speed.model != model or speed.kind not in ("eager", "unfused") or gpu is None:
                continue
            batch_ratio = speed.batch / speed.num_gpus / training.max_tokens_per_batch
            anchor = Anchor(speed=speed, gpu=gpu, hours=tokens / speed.measured / 3600)
            is_other = gpu != machine.gpu, speed.num_gpus != machine.num_devices
            candidates.append(((*is_other, abs(math.log(batch_ratio))), anchor))
        candidates.sort(key=lambda candidate: candidate[0])
        anchors += [anchor for _, anchor in candidates[:MAX_ANCHORS]]
    return anchors


def anchor_cells(anchors: Sequence[Anchor]) -> list[list[str]]:
    """Return a heading and a row of cells for each anchor."""
    rows = [
        ["GPUs", "precision", "tokens a GPU", "tokens/s", "system", "hours here", "published by"]
    ]
    for anchor in anchors:
        speed = anchor.speed
        cells = [f"{speed.num_gpus} {anchor.gpu}", speed.precision]
        cells += [f"{speed.batch // speed.num_gpus:,}", f"{speed.measured:,.0f}", speed.model]
        rows.append([*cells, f"{anchor.hours:.1f}", f"{speed.system} ({speed.kind})"])
    return rows
