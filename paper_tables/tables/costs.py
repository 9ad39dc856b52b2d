"""Lays out what each training cost: what was counted and metered, beside the estimate that the paper made (Table 2).

The operations follow from the run's spec, its tokens, and the mean lengths of its corpus's training sentences, so
records of any version have them. What cannot be known is None, and a dash with its reason.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace

from aiayn.cost import model_flops, training_flops
from aiayn.printed import find_printed, read_cells, read_table
from aiayn.records import TrainRecord, read_trained
from aiayn.spec.hardware import GpuSpec
from analysis.scoring.seeds import summarise_seeds
from paper_tables.layout import (
    DASH,
    PLUS_MINUS,
    Cell,
    CellProvenance,
    Column,
    Note,
    Row,
    Table,
    blank_cell,
    format_significant,
    format_value,
    label,
    text_cell,
)
from paper_tables.scale_results import ScaleResults
from paper_tables.tables.ours import complete, mark_of, source_of

JOULES_PER_KILOWATT_HOUR = 3.6e6
SECONDS_PER_HOUR = 3600.0
LEAST_METERED_FRACTION = 0.95  # of the GPU-seconds; the rest is loading and saving at the ends of an attempt
NO_GPU_MARK, UNKNOWN_GPU_MARK, NO_PRICE_MARK, NO_METER_MARK, PART_MARK, NO_TEXT_MARK = "a", "b", "c", "d", "e", "f"
TEXT_BY_MARK = {
    NO_GPU_MARK: "Trained without a GPU: no estimate, utilisation, energy or money: no rate, counter or price.",
    UNKNOWN_GPU_MARK: "The GPU, or its rate in this precision, is not in hardware.yaml; add it there.",
    NO_PRICE_MARK: "hardware.yaml has no price of this GPU; put yours there.",
    NO_METER_MARK: "Not metered: {reasons}.",
    PART_MARK: "Of {fraction:.0%} of the GPU-seconds: an attempt that was killed, or a node, left no reading.",
    NO_TEXT_MARK: "No record of the data-bin, or of the spec that it was trained as, so no lengths to count with.",
}
NOT_METERED_THEN = "trained by version 0.3 or before"
SIGNATURE = (
    "6 operations a multiplication of matrices (2 forward, 4 backward)|tokens without padding|attention over the mean "
    "lengths of training sentences|source tokens from target tokens by these lengths|no element-wise work, optimiser, "
    "validation"
)
FORMULA = (
    "Model FLOPs: 6 operations for every multiplication of matrices that the model does for a token (2 forward, 4 "
    "backward), from the run's spec, its target tokens without padding, and the mean lengths of the training sentences "
    "(aiayn.cost.model_flops; within 1 % of torch's own counter on a step of each architecture). Source tokens are "
    "target tokens x the ratio of these lengths."
)
MEASURES = (
    "The paper's estimate: GPU-seconds of all attempts x the sustained single-precision rate of the GPU (footnote 5). "
    "Utilisation: model FLOPs over what the GPUs could have done in these seconds, at that rate in fp32, at their "
    "tensor cores' peak in tf32 and bf16; validation, loading and saving count against it. Energy: the GPUs' own "
    "counters (NVML), whoever else used them; neither hosts nor cooling."
)


def lay_out_costs(results: ScaleResults) -> Table:
    """Return one row a system that has a finished training, values over its seeds; an unknown value is a dash."""
    systems = list(dict.fromkeys((corpus, system) for corpus, system, _ in results.state_by_key))
    trained = [(key, list(trains.values())) for key in systems if (trains := results.trainings_of(*key))]
    notes_by_mark: dict[str, str] = {}
    rows = [_row(results, corpus, system, trains, notes_by_mark) for (corpus, system), trains in trained]
    missing = [f"{system} on {corpus}" for corpus, system in systems if not results.trainings_of(corpus, system)]
    notes = [Note(mark, text) for mark, text in sorted(notes_by_mark.items())]
    if trained:
        notes += [Note("", FORMULA), Note("", MEASURES), *(Note("", text) for text in _prices(results, trained))]
    if missing:
        notes.append(Note("", f"Not finished: {', '.join(missing)}."))
    table = Table(
        name="costs",
        title="Training cost",
        caption="What each training took, measured and by formula, beside the estimate that Table 2 makes. Over seeds: "
        "mean with 95 % t-interval; of fewer than 3 seeds the values, once if they are the same.",
        columns=(
            Column("system", "system", side="label"),
            Column("seeds", "seeds", side="ours"),
            Column("target_tokens", "target", "Tokens", "ours"),
            Column("source_tokens", "source", "Tokens", "ours"),
            Column("model_flops", "model, ours", "FLOPs", "ours"),
            Column("estimated_flops", "the paper's estimate, ours", "FLOPs", "ours"),
            Column("printed_flops", "the paper's estimate, printed", "FLOPs"),
            Column("utilisation_percent", "utilisation, %", "", "ours"),
            Column("wall_hours", "hours", "", "ours"),
            Column("gpu_hours", "GPU-hours", "", "ours"),
            Column("kilowatt_hours", "energy, kWh", "", "ours"),
            Column("dollars", "money, $", "", "ours"),
        ),
        rows=tuple(rows),
        notes=tuple(notes),
        signatures=(("model FLOPs", "all trainings", SIGNATURE),) if trained else (),
    )
    return complete(results, table, has_precisions=False, has_states=False)


def _row(
    results: ScaleResults, corpus: str, system: str, trains: Sequence[TrainRecord], notes_by_mark: dict[str, str]
) -> Row:
    """Return the row of a system, and add the reasons of its dashes to `notes_by_mark`."""
    evaluation = next((e for e in results.evaluations if (e.corpus, e.system) == (corpus, system)), None)
    marks = mark_of(results, evaluation)
    seeds = text_cell(f"{len(trains)} of {len(results.seeds_of(corpus, system))}", "ours", *marks)
    no_rate = UNKNOWN_GPU_MARK if any(train.hardware.num_gpus for train in trains) else NO_GPU_MARK

    def cell(value_of: Callable[[TrainRecord], float | None], show: Callable[[float], str], why: str) -> Cell:
        found = [(train, value) for train in trains if (value := value_of(train)) is not None]
        if found:
            sources = tuple(source_of(train, show(value)) for train, value in found)
            shown = text_cell(_over_seeds([value for _, value in found], show), "ours", *marks)
            return replace(shown, provenance=CellProvenance(f"cost of {system}, {corpus}", sources))
        notes_by_mark.setdefault(why, TEXT_BY_MARK[why])
        return text_cell(DASH, "state", *marks, why)

    def flops(value: float) -> str:
        return format_value(value, "training_flops")

    def hours(value: float) -> str:
        return f"{value:,.2f}"

    no_flops = NO_TEXT_MARK if all(model_flops_of(results, train) is None for train in trains) else no_rate
    no_price = NO_PRICE_MARK if any(gpu_of(results, train) for train in trains) else no_rate
    return Row((
        label(f"{corpus} {system}"),
        replace(seeds, shows=((evaluation, ""),) if evaluation else ()),
        cell(lambda train: train.tokens, _count, NO_TEXT_MARK),
        cell(lambda train: source_tokens_of(results, train), _count, NO_TEXT_MARK),
        cell(lambda train: model_flops_of(results, train), flops, NO_TEXT_MARK),
        cell(lambda train: estimate_of(results, train), flops, no_rate),
        _printed_cell(results, corpus, system),
        cell(lambda train: utilisation_percent_of(results, train), lambda value: f"{value:.1f}", no_flops),
        cell(lambda train: train.wall_seconds / SECONDS_PER_HOUR, hours, no_rate),
        cell(lambda train: train.gpu_seconds / SECONDS_PER_HOUR or None, hours, no_rate),
        _energy_cell(trains, marks, notes_by_mark),
        cell(lambda train: dollars_of(results, train), hours, no_price),
    ))  # fmt: skip


def _count(value: float) -> str:
    return f"{value:,.0f}"


def _over_seeds(values: Sequence[float], show: Callable[[float], str]) -> str:
    summary = summarise_seeds(values)
    if summary.half_width is None:
        return ", ".join(dict.fromkeys(show(value) for value in values))
    spread = show(summary.half_width)
    return show(summary.mean) if spread == show(0.0) else f"{show(summary.mean)} {PLUS_MINUS} {spread}"


def _printed_cell(results: ScaleResults, corpus: str, system: str) -> Cell:
    """Return Table 2's printed estimate of the paper's own system; blank of all others."""
    for join in read_cells():
        if (join.metric, join.system) == ("training_flops", system) and corpus == results.corpus_of(join.language_pair):
            return text_cell(find_printed(join, read_table(2)).value)
    return blank_cell()


def _energy_cell(trains: Sequence[TrainRecord], marks: tuple[str, ...], notes_by_mark: dict[str, str]) -> Cell:
    """Return kilowatt-hours by NVML; a dash, and why; or a mark, if not all GPU-seconds were metered."""
    metered = [(train, value) for train in trains if (value := kilowatt_hours_of(train)) is not None]
    if not any(train.hardware.num_gpus for train in trains):
        notes_by_mark.setdefault(NO_GPU_MARK, TEXT_BY_MARK[NO_GPU_MARK])
        return text_cell(DASH, "state", *marks, NO_GPU_MARK)
    if not metered:
        reasons = dict.fromkeys(train.energy.reason if train.energy else NOT_METERED_THEN for train in trains)
        notes_by_mark[NO_METER_MARK] = TEXT_BY_MARK[NO_METER_MARK].format(reasons="; ".join(reasons))
        return text_cell(DASH, "state", *marks, NO_METER_MARK)
    text = _over_seeds([value for _, value in metered], lambda value: format_significant(value, 3) if value else "0")
    fraction = min(
        train.energy.gpu_seconds / train.gpu_seconds if train.energy and train.gpu_seconds else 1.0
        for train, _ in metered
    )
    if fraction >= LEAST_METERED_FRACTION:
        return text_cell(text, "ours", *marks)
    notes_by_mark[PART_MARK] = TEXT_BY_MARK[PART_MARK].format(fraction=fraction)
    return text_cell(text, "ours", *marks, PART_MARK)


def _prices(results: ScaleResults, trained: Sequence[tuple[tuple[str, str], Sequence[TrainRecord]]]) -> list[str]:
    """Return for each GPU its rate and price with their sources."""
    trains = [train for _, some in trained for train in some]
    texts = []
    for product in sorted({train.hardware.gpu for train in trains if gpu_of(results, train)}):
        of_product = [train for train in trains if train.hardware.gpu == product]
        gpu = results.hardware.find_gpu(product)
        assert gpu is not None, "it was found a line above"
        precisions = sorted({training.precision for one in of_product if (training := read_trained(one)) is not None})
        rates = [f"{gpu.rate_by_precision[one].value:.3g} FLOP/s in {one} ({gpu.rate_by_precision[one].source})"
                 for one in precisions if one in gpu.rate_by_precision]  # fmt: skip
        price = gpu.dollars_per_hour
        money = f"; ${price.value:.2f} an hour ({price.kind}: {price.source})" if price else ""
        texts.append(f"{product}: {', '.join(rates)}{money}.")
    return texts


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


def utilisation_percent_of(results: ScaleResults, train: TrainRecord) -> float | None:
    """Return the model's operations in percent of what its GPUs could have done in all attempts.

    They could have done the sustained rate of Table 2's estimate in fp32, and their tensor cores' peak in tf32 or bf16.
    """
    gpu, training, flops = gpu_of(results, train), read_trained(train), model_flops_of(results, train)
    if gpu is None or training is None or flops is None or train.gpu_seconds <= 0:
        return None
    rate = gpu.rate_by_precision.get(training.precision)
    return None if rate is None else 100 * (flops / (train.gpu_seconds * rate.value))


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
