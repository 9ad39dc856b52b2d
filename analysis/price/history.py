"""Predicts the hours of trainings from finished ones on such a machine, and sums what trainings
took so far.

Memory is estimated by formula.
"""

import statistics
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import msgspec

from aiayn.cost import BYTES_PER_PARAMETER, checkpoint_bytes
from aiayn.errors import RecordError
from aiayn.paths import train_record
from aiayn.plan.machine import Machine
from aiayn.plan.prediction import Speed, predict_speed
from aiayn.provenance import utc_now
from aiayn.records import TrainRecord, is_trained_as, read_record, read_trained
from aiayn.runs.attempts import DONE_NAME, Event, read_events, summarise_attempts
from aiayn.spec.hardware import HardwareSpec
from aiayn.spec.training import TrainingSpec

# fp32 numbers that a source and a target token keep for the backward pass in a pair of layers, as
# multiples of d_model and d_ff; bf16 keeps some of them in half the bytes. Counted as the peak of
# the tensors of base, big and table3_c_dff1024 at 12,500 and 25,000 tokens.
KEPT_PER_D_MODEL = {"fp32": 24.0, "tf32": 24.0, "bf16": 18.5}
KEPT_PER_D_FF = {"fp32": 2.0, "tf32": 2.0, "bf16": 1.0}
TRAINED_COPIES = 4  # of the parameters: themselves, their gradient and Adam's two moments
KEPT_PER_SYMBOL = 3  # of the vocabulary: logits, their log-softmax and its gradient
LOGITS_TOKENS = 4096  # our transformer's loss computes the logits of this many tokens at a time
CONTEXT_BYTES = 1 << 30  # of torch and fairseq in memory, and on a GPU of CUDA's own
BYTES_PER_PAIR = (
    48  # of a data-bin's index: lengths of both sides, the order of an epoch and its batches
)


def device_memory_bytes(
    training: TrainingSpec,
    num_parameters: int,
    target_vocabulary_size: int,
    *,
    largest_batch: float = 1.0,
) -> int:
    """Estimate the peak memory of a device that trains: parameters with optimiser, and its largest
    batch kept backward, in multiples of a full batch.

    On fewer devices than `batches_per_update` batches follow each other, so that the peak is the
    same, except where a GPU joins them.
    """
    precision, tokens = training.precision, largest_batch * training.max_tokens_per_batch
    widths = KEPT_PER_D_MODEL[precision] * training.d_model
    widths += KEPT_PER_D_FF[precision] * training.d_ff
    has_chunks = training.architecture == "transformer"
    logits_tokens = min(tokens, LOGITS_TOKENS) if has_chunks else tokens
    kept = tokens * training.num_layers * widths
    kept += logits_tokens * KEPT_PER_SYMBOL * target_vocabulary_size
    return CONTEXT_BYTES + int(BYTES_PER_PARAMETER * (TRAINED_COPIES * num_parameters + kept))


def node_memory_bytes(device_bytes: int, host_bytes: int, num_ranks: int, *, has_gpus: bool) -> int:
    """Estimate a node's peak memory, without its GPUs' memory; without GPUs its ranks have there
    what devices would hold.

    Each rank's `CONTEXT_BYTES` are in both, and are there once.
    """
    return host_bytes + (0 if has_gpus else num_ranks * (device_bytes - CONTEXT_BYTES))


def host_memory_bytes(num_parameters: int, num_pairs: int, num_ranks: int) -> int:
    """Estimate a node's peak memory, without its GPUs': each rank's libraries and index, a
    checkpoint being saved.
    """
    saved_bytes = checkpoint_bytes(num_parameters, has_optimizer=True)
    return num_ranks * (CONTEXT_BYTES + BYTES_PER_PAIR * num_pairs) + saved_bytes


class Measured(msgspec.Struct, frozen=True, kw_only=True):
    """What the trainings of a row took so far, over all attempts; `hours` is the mean over finished
    trainings.

    `predicted_hours` is the mean of what was predicted when these began, None where their records
    do not say. A training is finished if it was trained with the present config; a shorter one
    counts as begun.
    """

    num_finished: int
    num_begun: int
    hours: float | None
    predicted_hours: float | None
    total_hours: float
    gpu_hours: float


def find_records(results_folder: Path, runs_folder: Path) -> tuple[list[TrainRecord], list[str]]:
    """Return every finished training below either folder, each run once, and the files that cannot
    be read.
    """
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
    """The finished trainings on such a machine; `vocabulary_size_by_corpus` has the target sides'
    sizes.

    With `asked_fraction` that fraction of the machine's rate counts, instead of the trainings.
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
            if _is_same_device(record, machine, hardware)
            and (training := read_trained(record)) is not None
            if training.precision in machine.rate_by_precision
        ]

    def speed_of(self, training: TrainingSpec, corpus: str, system: str, machine: Machine) -> Speed:
        """Return how long a training takes: by the asked fraction, its kind, other trainings, or
        assumption, on any number of the planned machine's devices.

        Finished trainings scale the formula by the median of the hours that they took over the
        hours that the formula gives them. Other kinds count only in the same precision.

        Raises:
            ConfigError: naming the system, if the machine does not support its precision.
        """
        speed = predict_speed(
            training,
            self._size_by_corpus[corpus],
            machine,
            system=system,
            fraction=self._asked_fraction,
        )
        if self._asked_fraction is not None:
            return speed
        others = [
            (record, trained)
            for record, trained in self._trained
            if trained.precision == training.precision
        ]
        same = [
            (record, trained)
            for record, trained in others
            if record.corpus == corpus and _kind_of(trained) == _kind_of(training)
        ]
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


def measure_trainings(
    scale: str,
    corpus: str,
    system: str,
    seeds: Sequence[int],
    training: TrainingSpec,
    folders: tuple[Path, Path],
) -> Measured | None:
    """Return what the trainings of a system took so far, None if none has begun; `folders` hold
    results and runs.

    Raises:
        RecordError: if a record, or a line of an attempts.jsonl, cannot be read.
    """
    results_folder, runs_folder = folders
    finished: list[TrainRecord] = []
    spent: list[tuple[float, float]] = []  # seconds, and seconds of GPUs
    for seed in seeds:
        path = train_record(results_folder, scale, corpus, system, seed)
        record = read_record(path, TrainRecord) if path.exists() else None
        if record is not None and is_trained_as(record, training):
            finished.append(record)
            spent.append((record.wall_seconds, record.gpu_seconds))
        elif events := _newest_events(runs_folder, f"{corpus}-{system}-seed{seed}-"):
            summary = summarise_attempts(events, until=utc_now())
            spent.append((summary.wall_seconds, summary.gpu_seconds))
        elif record is not None:  # of another length, its runs folder gone
            spent.append((record.wall_seconds, record.gpu_seconds))
    if not spent:
        return None
    taken = [record.wall_seconds / 3600 for record in finished]
    predicted = [record.prediction.hours for record in finished if record.prediction]
    return Measured(
        num_finished=len(finished),
        num_begun=len(spent),
        hours=_mean(taken),
        predicted_hours=_mean(predicted),
        total_hours=sum(seconds for seconds, _ in spent) / 3600,
        gpu_hours=sum(seconds for _, seconds in spent) / 3600,
    )


def _mean(values: Sequence[float]) -> float | None:
    return statistics.fmean(values) if values else None


def _newest_events(runs_folder: Path, prefix: str) -> list[Event]:
    """Return the attempts of the newest run whose name begins so: a system that was edited has
    several.
    """
    if not runs_folder.is_dir():
        return []
    attempts = [
        read_events(folder) for folder in runs_folder.iterdir() if folder.name.startswith(prefix)
    ]
    return max(
        (events for events in attempts if events), key=lambda events: events[-1].time, default=[]
    )
