"""What trainings took so far: the speed that a plan is made from where one was measured, and the actual beside it."""

import statistics
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import msgspec

from aiayn.cost import predicted_training_seconds
from aiayn.errors import RecordError
from aiayn.hardware import HardwareSpec
from aiayn.paths import train_record
from aiayn.plan.machine import Machine
from aiayn.plan.speed import Speed, predict_speed
from aiayn.provenance import utc_now
from aiayn.records import TrainRecord, is_trained_as, read_record, read_trained
from aiayn.runs.attempts import DONE_NAME, Event, read_events, summarise_attempts
from aiayn.training_spec import TrainingSpec


class Actual(msgspec.Struct, frozen=True, kw_only=True):
    """What the trainings of a row took so far, all attempts counted; `hours` is the mean of the finished ones.

    Finished is what was trained as the config now says; what was trained otherwise, a shorter look such, has begun.
    """

    num_finished: int
    num_begun: int
    hours: float | None
    total_hours: float
    gpu_hours: float


def find_records(results_folder: Path, runs_folder: Path) -> tuple[list[TrainRecord], list[str]]:
    """Return every finished training below either folder, each run once, and the files that are no such record."""
    paths = [*results_folder.glob("*/train/*/*/seed*.json"), *runs_folder.glob(f"*/{DONE_NAME}")]
    record_by_run: dict[str, TrainRecord] = {}
    unreadable = []
    for path in sorted(paths):
        try:
            record = read_record(path, TrainRecord)
        except RecordError:
            unreadable.append(str(path))
            continue
        record_by_run.setdefault(record.run, record)
    return list(record_by_run.values()), unreadable


class History:
    """The finished trainings on such a machine; `vocabulary_size_by_corpus` is of the target side.

    With `asked_fraction` that share of the machine's rate counts, and no training does.
    """

    def __init__(
        self,
        records: Iterable[TrainRecord],
        machine: Machine,
        hardware: HardwareSpec,
        vocabulary_size_by_corpus: Mapping[str, int],
        *,
        asked_fraction: float | None = None,
    ) -> None:
        self._asked_fraction = asked_fraction
        self._machine = machine
        self._size_by_corpus = vocabulary_size_by_corpus
        self._trained = [
            (record, training)
            for record in records
            if record.wall_seconds > 0 and record.corpus in vocabulary_size_by_corpus
            if _is_such(record, machine, hardware) and (training := read_trained(record)) is not None
            if training.precision in machine.rate_by_precision
        ]

    def speed_of(self, training: TrainingSpec, corpus: str, system: str) -> Speed:
        """Return how long a training will take: as asked, else as its kind took, else others, else assumed.

        Others are trainings in the same precision: each against its own width's utilisation, so that big is not taken
        to reach base's.

        Raises:
            ConfigError: naming the system, if the machine does not have its precision.
        """
        same = [r for r, trained in self._trained if r.corpus == corpus and _kind_of(trained) == _kind_of(training)]
        others = [(r, trained) for r, trained in self._trained if trained.precision == training.precision]
        fraction, basis, runs = None, "assumed", []
        if self._asked_fraction is not None:
            fraction, basis = self._asked_fraction, "asked"
        elif same:
            basis, runs = "measured", [record.run for record in same]
            fraction = statistics.median(self._fraction_of(record, training) for record in same)
        elif others:
            basis, runs = "fraction", [record.run for record, _ in others]
            ratios = [self._fraction_of(r, t) / self._machine.utilisation_of(t).fraction.value for r, t in others]
            fraction = statistics.median(ratios) * self._machine.utilisation_of(training).fraction.value
        return predict_speed(
            training, self._size_by_corpus[corpus], self._machine, system=system, fraction=fraction, basis=basis,
            runs=runs,
        )  # fmt: skip

    def _fraction_of(self, record: TrainRecord, training: TrainingSpec) -> float:
        """Return the fraction of the machine's rate that a training reached, counted as predictions are: full batches.

        With it, the prediction of the same training is the time that it took.
        """
        rate = self._machine.rate_by_precision[training.precision]
        seconds = predicted_training_seconds(
            msgspec.structs.replace(training, updates=record.updates),
            self._size_by_corpus[record.corpus],
            flops_per_second=rate.value * _num_devices(record),
            utilisation_fraction=1.0,
        )
        return seconds / record.wall_seconds


def _is_such(record: TrainRecord, machine: Machine, hardware: HardwareSpec) -> bool:
    """Tell whether a training ran on devices of the planned kind; how many is another matter."""
    if machine.gpu:
        return record.hardware.num_gpus > 0 and hardware.find_name(record.hardware.gpu) == machine.gpu
    return record.hardware.num_gpus == 0


def _num_devices(record: TrainRecord) -> int:
    return record.hardware.num_gpus or record.hardware.num_ranks * record.hardware.threads_per_rank


def _kind_of(training: TrainingSpec) -> TrainingSpec:
    """Return a training without what changes only how long it goes on, so that the same work an update is equal."""
    return msgspec.structs.replace(
        training, updates=1, save_interval_updates=None, patience_epochs=None, warmup_steps=1, device="auto"
    )


def actual_of(
    scale: str, corpus: str, system: str, seeds: Sequence[int], training: TrainingSpec, folders: tuple[Path, Path]
) -> Actual | None:
    """Return what the trainings of a system took so far, None if none has begun; `folders` hold results and runs.

    Raises:
        RecordError: if a record, or a line of an attempts.jsonl, cannot be read.
    """
    results_folder, runs_folder = folders
    finished, total_hours, gpu_hours, num_begun = [], 0.0, 0.0, 0
    for seed in seeds:
        path = train_record(results_folder, scale, corpus, system, seed)
        record = read_record(path, TrainRecord) if path.exists() else None
        if record is not None and is_trained_as(record, training):
            finished.append(record.wall_seconds / 3600)
            wall_seconds, gpu_seconds = record.wall_seconds, record.gpu_seconds
        elif events := _newest_events(runs_folder, f"{corpus}-{system}-seed{seed}-"):
            summary = summarise_attempts(events, until=utc_now())
            wall_seconds, gpu_seconds = summary.wall_seconds, summary.gpu_seconds
        elif record is not None:  # of another length, its runs folder gone
            wall_seconds, gpu_seconds = record.wall_seconds, record.gpu_seconds
        else:
            continue
        num_begun += 1
        total_hours, gpu_hours = total_hours + wall_seconds / 3600, gpu_hours + gpu_seconds / 3600
    if not num_begun:
        return None
    return Actual(
        num_finished=len(finished),
        num_begun=num_begun,
        hours=statistics.fmean(finished) if finished else None,
        total_hours=total_hours,
        gpu_hours=gpu_hours,
    )


def total_actual(actuals: Iterable[Actual | None]) -> Counter[str]:
    """Return sums over all rows: num_finished, num_begun, total_hours, gpu_hours."""
    total: Counter[str] = Counter()
    for actual in actuals:
        if actual is not None:
            values = msgspec.structs.asdict(actual)
            total.update({key: values[key] for key in ("num_finished", "num_begun", "total_hours", "gpu_hours")})
    return total


def _newest_events(runs_folder: Path, prefix: str) -> list[Event]:
    """Return the attempts of the newest run whose name begins so: a system that was edited has several."""
    if not runs_folder.is_dir():
        return []
    found = [read_events(folder) for folder in runs_folder.iterdir() if folder.name.startswith(prefix)]
    return max((events for events in found if events), key=lambda events: events[-1].time, default=[])
