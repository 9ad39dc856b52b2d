"""Computes what a finished training cost: tokens, operations, the paper's estimate, utilisation, energy, money.

Each is None where it cannot be known; `tables.costs` gives the reason. The operations follow from the run's spec, its
tokens, and the mean lengths of its corpus's training sentences, so records of any version have them.
"""

from aiayn.cost import model_flops, training_flops
from aiayn.records import TrainRecord, read_trained
from aiayn.spec.hardware import GpuSpec
from paper_tables.scale_results import ScaleResults

JOULES_PER_KILOWATT_HOUR = 3.6e6
SECONDS_PER_HOUR = 3600.0


def gpu_of(results: ScaleResults, train: TrainRecord) -> GpuSpec | None:
    """Return hardware.yaml's entry of the GPU; None without one, or if it is not known there."""
    return results.hardware.find_gpu(train.hardware.gpu) if train.hardware.num_gpus else None


def source_tokens_of(results: ScaleResults, train: TrainRecord) -> float | None:
    """Return the source tokens that go with the target tokens of the record, at the mean lengths of the corpus."""
    lengths = results.lengths_of(train.corpus)
    return None if lengths is None else train.tokens * lengths.source / lengths.target


def model_flops_of(results: ScaleResults, train: TrainRecord) -> float | None:
    """Return the operations that the model needed for all tokens, forward and backward (`aiayn.cost.model_flops`)."""
    lengths, training = results.lengths_of(train.corpus), read_trained(train)
    source_tokens = source_tokens_of(results, train)
    if lengths is None or training is None or source_tokens is None:
        return None
    size = results.vocabulary_sizes_of(train.corpus)[results.corpora[train.corpus].target_language]
    return model_flops(training, size, source_tokens=source_tokens, target_tokens=train.tokens, lengths=lengths)


def estimate_of(results: ScaleResults, train: TrainRecord) -> float | None:
    """Return Table 2's estimate: GPU-seconds of all attempts x the sustained single-precision rate (footnote 5)."""
    gpu = gpu_of(results, train)
    return None if gpu is None else training_flops(train.gpu_seconds, gpu.sustained_flops_per_second.value)


def utilisation_of(results: ScaleResults, train: TrainRecord) -> float | None:
    """Return the model's operations as a fraction of what its GPUs could have done in all attempts.

    They could have done the sustained rate of Table 2's estimate in fp32, and their tensor cores' peak in tf32 or bf16.
    """
    gpu, training, flops = gpu_of(results, train), read_trained(train), model_flops_of(results, train)
    if gpu is None or training is None or flops is None or train.gpu_seconds <= 0:
        return None
    rate = gpu.rate_by_precision.get(training.precision)
    return None if rate is None else flops / (train.gpu_seconds * rate.value)


def kilowatt_hours_of(train: TrainRecord) -> float | None:
    """Return the energy by the GPUs' own counters, as far as they were metered."""
    joules = train.energy.joules if train.energy else None
    return None if joules is None else joules / JOULES_PER_KILOWATT_HOUR


def dollars_of(results: ScaleResults, train: TrainRecord) -> float | None:
    """Return GPU-hours of all attempts x hardware.yaml's price."""
    gpu = gpu_of(results, train)
    if gpu is None or gpu.dollars_per_hour is None:
        return None
    return train.gpu_seconds / SECONDS_PER_HOUR * gpu.dollars_per_hour.value
