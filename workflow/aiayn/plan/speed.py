"""How long a training takes on a machine, before it is run: the one prediction of describe, plan and the launcher."""

import msgspec

from aiayn.cost import predicted_training_seconds
from aiayn.errors import ConfigError
from aiayn.hardware import UtilisationSpec
from aiayn.plan.machine import Machine
from aiayn.training_spec import Precision, TrainingSpec

# Assumption: what Python and the launch of kernels take for a batch of 6 + 6 layers, forward and backward, which no GPU
# makes shorter. 9 to 11 ms of a CPU core were measured in fp32, with layers so narrow that their products cost nothing.
HOST_SECONDS_PER_BATCH, LAYERS_OF_HOST_SECONDS = 0.010, 6


class Speed(msgspec.Struct, frozen=True, kw_only=True):
    """The hours of a training, and what says so.

    `basis` is `measured` (trainings of the same system on such a machine), `fraction` (as much above or below
    `utilisation` as other trainings on it were), `assumed` (`utilisation`, or the host's time where that is longer) or
    `asked` (the fraction that a person named); `runs` names the trainings.
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
    """Return how long all updates take at `fraction` of the machine's rate, None for that of hardware.yaml.

    Raises:
        ConfigError: naming the system, if the machine does not have the training's precision.
    """
    refusal = machine.precision_refusal(training.precision)
    if refusal:
        raise ConfigError(f"{system}: {refusal}")
    rate, utilisation = machine.rate_by_precision[training.precision], machine.utilisation_of(training)
    used_fraction = utilisation.fraction.value if fraction is None else fraction
    seconds = predicted_training_seconds(
        training,
        target_vocabulary_size,
        flops_per_second=rate.value * machine.num_devices,
        utilisation_fraction=used_fraction,
    )
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
