"""Predicts the hours and the disk of a training on a machine, for describe, plan and the launcher
alike.

Hours are computed from the operations of all updates; disk is the checkpoints'.
"""

import msgspec

from aiayn.cost import FULL_CHECKPOINTS_KEPT, checkpoint_bytes, full_batch_flops
from aiayn.errors import ConfigError
from aiayn.plan.machine import Machine
from aiayn.spec.hardware import UtilisationSpec
from aiayn.spec.training import Precision, TrainingSpec

# Assumption: what Python and the launch of kernels take for a batch of 6 + 6 layers, forward and
# backward, which no GPU makes shorter. 9 to 11 ms of a CPU core were measured in fp32, with layers
# so narrow that their products cost nothing.
HOST_SECONDS_PER_BATCH, LAYERS_OF_HOST_SECONDS = 0.010, 6


class Speed(msgspec.Struct, frozen=True, kw_only=True):
    """The predicted hours of a training, and their basis.

    `basis` is `measured` (trainings of the same system on such a machine), `fraction` (as much
    above or below `utilisation` as other trainings on it were), `assumed` (`utilisation`, or the
    host's time where that is longer) or `asked` (the fraction that the user named); `runs` names
    the trainings.
    """

    precision: Precision
    hours: float
    basis: str
    runs: list[str]
    utilisation_fraction: float
    utilisation: UtilisationSpec
    is_host_bound: bool


def predict_speed(
    training: TrainingSpec,
    target_vocabulary_size: int,
    machine: Machine,
    *,
    system: str,
    fraction: float | None = None,
    basis: str = "assumed",
    runs: list[str] | None = None,
) -> Speed:
    """Return how long all updates take at `fraction` of the machine's rate, None for that of
    hardware.yaml.

    Raises:
        ConfigError: naming the system, if the machine does not have the training's precision.
    """
    if reason := machine.precision_refusal(training.precision):
        raise ConfigError(f"{system}: {reason}")
    rate, utilisation = (
        machine.rate_by_precision[training.precision],
        machine.utilisation_of(training),
    )
    used_fraction = utilisation.fraction.value if fraction is None else fraction
    flops = full_batch_flops(training, target_vocabulary_size)
    seconds = flops / (rate.value * machine.num_devices * used_fraction)
    host_seconds = _host_seconds(training, machine) if fraction is None else 0.0
    return Speed(
        precision=training.precision,
        hours=max(seconds, host_seconds) / 3600,
        basis=basis,
        runs=runs or [],
        utilisation_fraction=used_fraction,
        utilisation=utilisation,
        is_host_bound=host_seconds > seconds,
    )


def _host_seconds(training: TrainingSpec, machine: Machine) -> float:
    """Return the time below which no GPU brings all updates; a CPU's own rate has it in it."""
    if not machine.gpu:
        return 0.0
    batches_per_rank = max(1.0, training.batches_per_update / machine.num_ranks)
    per_batch = HOST_SECONDS_PER_BATCH * training.num_layers / LAYERS_OF_HOST_SECONDS
    return training.updates * batches_per_rank * per_batch


def run_disk_bytes(num_parameters: int, num_models: int) -> int:
    """Return what a run writes at most: its model-only checkpoints, two full ones, and one of each
    being written.
    """
    model_bytes = checkpoint_bytes(num_parameters, has_optimizer=False)
    full_bytes = checkpoint_bytes(num_parameters, has_optimizer=True)
    return (num_models + 1) * model_bytes + (FULL_CHECKPOINTS_KEPT + 1) * full_bytes
