"""What trainings took so far: the speed that a plan is made from where one was measured, and the actual beside it."""

import statistics
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import msgspec

from aiayn.cost import UTILISATION_FRACTION, predicted_training_seconds
from aiayn.errors import RecordError
from aiayn.hardware import HardwareSpec
from aiayn.paths import train_record
from aiayn.plan.machine import Machine
from aiayn.provenance import utc_now
from aiayn.records import TrainRecord, read_record
from aiayn.runs.attempts import DONE_NAME, Event, read_events, summarise_attempts
from aiayn.training_spec import TrainingSpec


class Speed(msgspec.Struct, frozen=True, kw_only=True):
    """The hours of a training, and what says so.

    `basis` is `measured` (trainings of the same system on such a machine), `fraction` (the fraction of the machine's
    rate that other trainings on it reached), `assumed` (the fraction of `aiayn.cost`) or `asked` (the fraction that a
    person named); `runs` names the trainings.
    """

    hours: float
    basis: str
    runs: list[str]
    utilisation_fraction: float


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
            if _is_such(record, machine, hardware) and (training := _training_of(record)) is not None
        ]

    def speed_of(self, training: TrainingSpec, corpus: str) -> Speed:
        """Return how long a training will take: as asked, else as its kind took, else others, else assumed."""
        same = [r for r, trained in self._trained if r.corpus == corpus and _kind_of(trained) == _kind_of(training)]
        others = [record for record, _ in self._trained]
        fraction, basis, runs = UTILISATION_FRACTION, "assumed", others
        if self._asked_fraction is not None:
            fraction, basis, runs = self._asked_fraction, "asked", []
        elif same:
            basis, runs = "measured", same
        elif others:
            basis, runs = "fraction", others
        if runs:
            fraction = statistics.median(self._fraction_of(record) for record in runs)
        seconds = predicted_training_seconds(
            training,
            self._size_by_corpus[corpus],
            flops_per_second=self._machine.flops_per_second.value * self._machine.num_devices,
            utilisation_fraction=fraction,
        )
        names = [record.run for record in runs]
        return Speed(hours=seconds / 3600, basis=basis, runs=names, utilisation_fraction=fraction)

    def _fraction_of(self, record: TrainRecord) -> float:
        """Return the fraction of the machine's rate that a training reached, counted as predictions are: full batches.

        With it, the prediction of the same training is the time that it took.
        """
        training = next(trained for other, trained in self._trained if other is record)
        training = msgspec.structs.replace(training, updates=record.updates)
        seconds = predicted_training_seconds(
            training,
            self._size_by_corpus[record.corpus],
            flops_per_second=self._machine.flops_per_second.value * _num_devices(record),
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


def _training_of(record: TrainRecord) -> TrainingSpec | None:
    try:
        return msgspec.json.decode(record.training_json, type=TrainingSpec)
    except (msgspec.DecodeError, msgspec.ValidationError):  # written before a key came or went
        return None


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
        if record is not None and _is_trained_as(record, training):
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


def _is_trained_as(record: TrainRecord, training: TrainingSpec) -> bool:
    """Tell whether a training was of this spec; the device may have been resolved since, and is no matter."""
    trained = _training_of(record)
    return trained is not None and msgspec.structs.replace(trained, device=training.device) == training


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
