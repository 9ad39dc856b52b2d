"""Predicts the hours of trainings by the formula, scaled by the times of trainings that have
finished on the same kind of device.
"""

import statistics
from collections.abc import Mapping
from pathlib import Path

import msgspec

from aiayn.plan.machine import Machine
from aiayn.plan.prediction import Hours, Speed, predict_speed
from aiayn.records import TrainRecord, read_record, read_trained
from aiayn.spec.hardware import HardwareSpec
from aiayn.spec.training import Precision, TrainingSpec

# The hours that a finished training took over the hours that the formula gives it, by its run.
Ratios = Mapping[Precision, Mapping[str, float]]


def read_ratios(
    results_folder: Path,
    machine: Machine,
    hardware: HardwareSpec,
    vocabulary_size_by_corpus: Mapping[str, int],
) -> Ratios:
    """Return the ratios of all finished trainings of these corpora on any number of the machine's
    devices.

    Raises:
        RecordError: if a training's record is unreadable.
    """
    ratios: dict[Precision, dict[str, float]] = {}
    for path in sorted(results_folder.glob("*/train/*/*/seed*.json")):
        record = read_record(path, TrainRecord)
        training = read_trained(record)
        ran_on = record.hardware
        device = hardware.find_name(ran_on.gpu) if ran_on.num_gpus else ""
        size = vocabulary_size_by_corpus.get(record.corpus)
        # Another device, an unknown corpus or an older spec says nothing about this plan.
        if training is None or size is None or device != machine.gpu:
            continue
        its_machine = msgspec.structs.replace(
            machine,
            num_devices=ran_on.num_gpus or ran_on.num_ranks * ran_on.threads_per_rank,
            num_ranks=ran_on.num_ranks,
            num_nodes=1,
        )
        trained = msgspec.structs.replace(training, updates=record.updates)
        formula = predict_speed(trained, size, its_machine, system=record.system).formula
        if formula is not None:
            ratio = record.wall_seconds / 3600 / formula.middle
            ratios.setdefault(training.precision, {})[record.run] = ratio
    return ratios


def predict_scaled(
    training: TrainingSpec, vocabulary_size: int, machine: Machine, system: str, ratios: Ratios
) -> Speed:
    """Predict how long a training takes. If trainings in the same precision have finished on the
    same kind of device, the formula is multiplied by the median ratio of their measured to
    predicted times.

    Raises:
        ConfigError: if the machine does not support the system's precision.
    """
    speed = predict_speed(training, vocabulary_size, machine, system=system)
    ratio_by_run = ratios.get(training.precision)
    if not ratio_by_run or speed.formula is None:
        return speed
    # The median, because one training on a busy machine would spoil a mean.
    ratio = statistics.median(ratio_by_run.values())
    expected = Hours(ratio * speed.formula.least, ratio * speed.formula.most)
    return msgspec.structs.replace(speed, expected=expected, no_hours="", runs=list(ratio_by_run))
