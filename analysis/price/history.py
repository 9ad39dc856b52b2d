"""Predicts the hours of trainings by a formula, scaled by the measured times of trainings that have
finished on the same kind of device.
"""

import statistics
from collections.abc import Mapping
from pathlib import Path

import msgspec

from aiayn.plan.machine import Machine, machine_of_gpus, nodes_of_gpus
from aiayn.plan.prediction import Hours, Speed, predict_speed
from aiayn.records import TrainRecord, read_record, read_trained
from aiayn.spec.hardware import HardwareSpec
from aiayn.spec.training import Precision, TrainingSpec

# A ratio is the hours that a finished training took, divided by the hours of the formula for this
# training. The keys are the precision and the run.
Ratios = Mapping[Precision, Mapping[str, float]]


def read_ratios(
    results_folder: Path,
    machine: Machine,
    hardware: HardwareSpec,
    vocabulary_size_by_corpus: Mapping[str, int],
) -> Ratios:
    """Return the ratios of measured to predicted time for all finished trainings of these corpora
    on the machine's kind of device. The number of devices in a finished training may differ from
    the machine's.

    Raises:
        RecordError: if the record of a training is unreadable.
    """
    ratios: dict[Precision, dict[str, float]] = {}
    # The first `*` is the scale. Trainings of all scales count, because the formula knows their
    # sizes.
    for path in sorted(results_folder.glob("*/train/*/*/seed*.json")):
        record = read_record(path, TrainRecord)
        training = read_trained(record)
        ran_on = record.hardware
        # "" means CPUs, as in `Machine.gpu`. The record has the name from the driver, such as
        # `NVIDIA H100 80GB HBM3`, and `find_name` gives `H100`.
        device = hardware.find_name(ran_on.gpu) if ran_on.num_gpus else ""
        size = vocabulary_size_by_corpus.get(record.corpus)
        # Skip trainings on a different kind of device, of an unknown corpus, or with a spec that
        # this version cannot read.
        if training is None or size is None or device != machine.gpu:
            continue
        # The formula must predict the machine on which the training ran, not the machine of the
        # plan. Between nodes the link is slower, so their number counts. A record only has the
        # number of GPUs of all nodes together, and nodes are assumed to be the cluster's.
        if ran_on.num_gpus:
            num_nodes = nodes_of_gpus(ran_on.num_gpus, machine.cluster)
            its_machine = machine_of_gpus(ran_on.gpu, ran_on.num_gpus, num_nodes, hardware, "")
        else:
            its_machine = msgspec.structs.replace(
                machine,
                num_devices=ran_on.num_ranks * ran_on.threads_per_rank,
                num_ranks=ran_on.num_ranks,
                num_nodes=1,
            )
        # A training that stopped early, by its patience, has fewer updates than its spec.
        trained = msgspec.structs.replace(training, updates=record.own_updates)
        formula = predict_speed(trained, size, its_machine, system=record.system).formula
        if formula is not None:
            ratio = record.wall_seconds / 3600 / formula.middle
            ratios.setdefault(training.precision, {})[record.run] = ratio
    return ratios


def predict_scaled(
    training: TrainingSpec, vocabulary_size: int, machine: Machine, system: str, ratios: Ratios
) -> Speed:
    """Predict how long a training takes. If trainings in the same precision have finished on the
    same kind of device, the formula's time is multiplied by the median ratio of their measured to
    predicted times.

    Raises:
        ConfigError: if the machine does not support the system's precision.
    """
    speed = predict_speed(training, vocabulary_size, machine, system=system)
    ratio_by_run = ratios.get(training.precision)
    if not ratio_by_run or speed.formula is None:
        return speed
    # A single training on a busy machine would change a mean too much, so the median is taken.
    ratio = statistics.median(ratio_by_run.values())
    # The measured ratio replaces the errors on published systems, so `no_hours` does not apply any
    # more.
    expected = Hours(ratio * speed.formula.least, ratio * speed.formula.most)
    return msgspec.structs.replace(speed, expected=expected, no_hours="", runs=list(ratio_by_run))
