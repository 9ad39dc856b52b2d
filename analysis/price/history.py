"""Predicts the hours of trainings from finished trainings on such a machine."""

import logging
import statistics
from collections.abc import Iterable, Mapping
from pathlib import Path

import msgspec

from aiayn.errors import RecordError
from aiayn.plan.machine import Machine
from aiayn.plan.prediction import Speed, predict_speed
from aiayn.records import TrainRecord, read_record, read_trained
from aiayn.runs.attempts import DONE_NAME
from aiayn.spec.hardware import HardwareSpec
from aiayn.spec.training import TrainingSpec

logger = logging.getLogger(__name__)


def find_records(results_folder: Path, runs_folder: Path) -> list[TrainRecord]:
    """Return every finished training below either folder, each run once; files that cannot be read
    are named in the log.
    """
    paths = [*results_folder.glob("*/train/*/*/seed*.json"), *runs_folder.glob(f"*/{DONE_NAME}")]
    record_by_run: dict[str, TrainRecord] = {}
    for path in sorted(paths):
        try:
            record = read_record(path, TrainRecord)
        except RecordError as error:
            logger.warning(f"{error}; this training is omitted")
            continue
        record_by_run.setdefault(record.run, record)
    return list(record_by_run.values())


class History:
    """The finished trainings on such a machine; `vocabulary_size_by_corpus` has the target sides'
    sizes.
    """

    def __init__(
        self,
        records: Iterable[TrainRecord],
        machine: Machine,
        hardware: HardwareSpec,
        vocabulary_size_by_corpus: Mapping[str, int],
    ) -> None:
        self._machine = machine
        self._size_by_corpus = vocabulary_size_by_corpus
        self._trained: list[tuple[TrainRecord, TrainingSpec]] = []
        for record in records:
            training = read_trained(record)
            if record.wall_seconds <= 0 or record.corpus not in vocabulary_size_by_corpus:
                continue
            if training is None or not _is_same_device(record, machine, hardware):
                continue
            if training.precision in machine.rate_by_precision:
                self._trained.append((record, training))

    def speed_of(self, training: TrainingSpec, corpus: str, system: str, machine: Machine) -> Speed:
        """Return how long a training takes, by trainings of its kind, other trainings, or
        assumption, on any number of the planned machine's devices.

        Finished trainings scale the formula by the median of the hours that they took over the
        hours that the formula gives them. Other kinds count only in the same precision.

        Raises:
            ConfigError: naming the system, if the machine does not support its precision.
        """
        size = self._size_by_corpus[corpus]
        speed = predict_speed(training, size, machine, system=system)
        same, others = [], []
        for record, trained in self._trained:
            if trained.precision == training.precision:
                others.append((record, trained))
                if record.corpus == corpus and _kind_of(trained) == _kind_of(training):
                    same.append((record, trained))
        if not others:
            return speed
        finished, basis = (same, "measured") if same else (others, "fraction")
        ratio = statistics.median(self._ratio_of(*pair) for pair in finished)
        return speed.scaled(ratio, basis, [record.run for record, _ in finished])

    def _ratio_of(self, record: TrainRecord, training: TrainingSpec) -> float:
        """Return the hours that a training took over the hours predicted for its devices."""
        ran_on = record.hardware
        num_devices = ran_on.num_gpus or ran_on.num_ranks * ran_on.threads_per_rank
        machine = msgspec.structs.replace(
            self._machine, num_devices=num_devices, num_ranks=ran_on.num_ranks, num_nodes=1
        )
        trained = msgspec.structs.replace(training, updates=record.updates)
        size = self._size_by_corpus[record.corpus]
        speed = predict_speed(trained, size, machine, system=record.system)
        return record.wall_seconds / 3600 / speed.hours


def _is_same_device(record: TrainRecord, machine: Machine, hardware: HardwareSpec) -> bool:
    """Return whether a training ran on devices of the planned kind, of any number."""
    if machine.gpu:
        return (
            record.hardware.num_gpus > 0 and hardware.find_name(record.hardware.gpu) == machine.gpu
        )
    return record.hardware.num_gpus == 0


def _kind_of(training: TrainingSpec) -> TrainingSpec:
    """Return a training without the keys that only change its length: equal kinds do equal work per
    update.
    """
    return msgspec.structs.replace(
        training,
        updates=1,
        save_interval_updates=None,
        patience_epochs=None,
        warmup_steps=1,
        device="auto",
    )
