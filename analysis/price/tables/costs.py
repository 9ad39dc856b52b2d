"""Lays out what each training cost: what was counted and measured, and the paper's estimate (Table
2).

The operations follow from the run's spec, its tokens, and the mean lengths of its corpus's training
sentences, so records of any version have them. What cannot be known is None, and a dash with its
reason.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace

from aiayn.paths import CellKey
from aiayn.scoring.seeds import summarise_seeds
from paper_tables.frame import Frame, Run
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
    format_value,
    label,
    text_cell,
)
from paper_tables.tables.ours import complete, source_of

NO_GPU_MARK, UNKNOWN_GPU_MARK, NO_PRICE_MARK, NO_TEXT_MARK = "a", "b", "c", "d"
TEXT_BY_MARK = {
    NO_GPU_MARK: (
        "Trained without a GPU: no estimate, utilisation or money, as there is no rate or price."
    ),
    UNKNOWN_GPU_MARK: (
        "The GPU, or its rate in this precision, is not in hardware.yaml; add it there."
    ),
    NO_PRICE_MARK: "hardware.yaml has no price of this GPU; put yours there.",
    NO_TEXT_MARK: (
        "No record of the data-bin, or of the spec that it was trained as, so no lengths to count"
        " with."
    ),
}
SIGNATURE = (
    "6 operations a multiplication of matrices (2 forward, 4 backward)|tokens without"
    " padding|attention over the mean lengths of training sentences|source tokens from target"
    " tokens by these lengths|no element-wise work, optimiser, validation"
)
FORMULA = (
    "Model FLOPs: 6 operations for every multiplication of matrices that the model does for a token"
    " (2 forward, 4 backward), from the run's spec, its target tokens without padding, and the mean"
    " lengths of the training sentences (aiayn.cost.model_flops; within 1 % of torch's own counter"
    " on a step of each architecture). Source tokens are target tokens x the ratio of these"
    " lengths."
)
MEASURES = (
    "The paper's estimate: GPU-seconds of all attempts x the sustained single-precision rate of the"
    " GPU (footnote 5). Utilisation: model FLOPs over what the GPUs could have done in these"
    " seconds, at that rate in fp32, at their tensor cores' peak in tf32 and bf16; validation,"
    " loading and saving count against it."
)


def lay_out_costs(frame: Frame) -> Table:
    """Return one row a system that has a finished training, values over its seeds; an unknown value
    is a dash.
    """
    key_by_system: dict[tuple[str, str], CellKey] = {}
    for key in frame.keys:
        key_by_system.setdefault((key.corpus, key.system), key)
    trained = [
        key_by_system[system]
        for system in frame.runs_by_system
        if frame.trained(key_by_system[system])
    ]
    notes_by_mark: dict[str, str] = {}
    rows = [_row(frame, key, notes_by_mark) for key in trained]
    missing = [
        f"{system} on {corpus}"
        for corpus, system in frame.runs_by_system
        if key_by_system[corpus, system] not in trained
    ]
    notes = [Note(text, mark) for mark, text in sorted(notes_by_mark.items())]
    if trained:
        notes += [
            Note(FORMULA),
            Note(MEASURES),
            *map(Note, _prices(frame)),
        ]
    if missing:
        notes.append(Note(f"Not finished: {', '.join(missing)}."))
    table = Table(
        name="costs",
        title="Training cost",
        caption=(
            "What each training took, measured and by formula, beside the estimate that Table 2"
            " makes. Over seeds: mean with 95 % t-interval; of fewer than 3 seeds the values, once"
            " if they are the same."
        ),
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
            Column("dollars", "money, $", "", "ours"),
        ),
        rows=tuple(rows),
        notes=tuple(notes),
        signatures=(("model FLOPs", "all trainings", SIGNATURE),) if trained else (),
    )
    return complete(frame, table, has_precisions=False, has_states=False)


def _row(frame: Frame, key: CellKey, notes_by_mark: dict[str, str]) -> Row:
    """Return the row of a system, and add the reasons of its dashes to `notes_by_mark`."""
    runs, asked = frame.trained(key), frame.runs_by_system[key.corpus, key.system]
    trains = [run.train for run in runs if run.train]
    steps = frame.numbers[key, "steps"]
    has_gpu = any(train.hardware.num_gpus for train in trains)
    no_rate = UNKNOWN_GPU_MARK if has_gpu else NO_GPU_MARK
    is_known = any(
        frame.hardware.find_gpu(train.hardware.gpu) for train in trains if train.hardware.num_gpus
    )
    no_flops = NO_TEXT_MARK if not frame.numbers[key, "model_flops"].values else no_rate

    def dash(mark: str) -> Cell:
        notes_by_mark[mark] = TEXT_BY_MARK[mark]
        return text_cell(DASH, "state", *steps.marks, mark)

    def cell(metric: str, show: Callable[[float], str], why: str) -> Cell:
        number = frame.numbers[key, metric]
        if not number.values:
            return dash(why)
        shown = text_cell(_over_seeds(number.seed_values, show), "ours", *number.marks)
        sources = tuple(source_of(run, show(value)) for run, value in number.values)
        return replace(
            shown, provenance=CellProvenance(f"cost of {key.system}, {key.corpus}", sources)
        )

    place = ("training_flops", key.corpus, key.system)  # of the paper's own systems
    printed = [
        one.printed for one in frame.cells if (one.metric, one.key.corpus, one.key.system) == place
    ]

    def tokens(value: float) -> str:
        return format_value(value, "tokens")

    def flops(value: float) -> str:
        return format_value(value, "training_flops")

    def hundredths(value: float) -> str:
        return f"{value:,.2f}"

    no_dollars = NO_PRICE_MARK if is_known else no_rate
    return Row(
        (
            label(f"{key.corpus} {key.system}"),
            replace(
                text_cell(f"{len(runs)} of {len(asked)}", "ours", *steps.marks), shows=(steps,)
            ),
            cell("tokens", tokens, NO_TEXT_MARK),
            cell("source_tokens", tokens, NO_TEXT_MARK),
            cell("model_flops", flops, NO_TEXT_MARK),
            cell("training_flops", flops, no_rate),
            text_cell(printed[0]) if printed else blank_cell(),
            cell("utilisation_percent", lambda value: f"{value:.1f}", no_flops),
            cell("wall_hours", hundredths, no_rate),
            cell("gpu_hours", hundredths, no_rate),
            cell("dollars", hundredths, no_dollars),
        )
    )


def _over_seeds(values: Sequence[float], show: Callable[[float], str]) -> str:
    summary = summarise_seeds(values)
    if summary.half_width is None:
        return ", ".join(dict.fromkeys(show(value) for value in values))
    spread = show(summary.half_width)
    return (
        show(summary.mean) if spread == show(0.0) else f"{show(summary.mean)} {PLUS_MINUS} {spread}"
    )


def _prices(frame: Frame) -> list[str]:
    """Return for each GPU its rate and price with their sources."""
    runs_by_product: dict[str, list[Run]] = {}
    for run in frame.runs:
        if run.train and run.train.hardware.num_gpus:
            runs_by_product.setdefault(run.train.hardware.gpu, []).append(run)
    texts = []
    for product, runs in sorted(runs_by_product.items()):
        if (gpu := frame.hardware.find_gpu(product)) is not None:
            precisions = sorted({run.trained_as.precision for run in runs if run.trained_as})
            rates = [
                f"{gpu.rate_by_precision[one].value:.3g} FLOP/s in"
                f" {one} ({gpu.rate_by_precision[one].source})"
                for one in precisions
                if one in gpu.rate_by_precision
            ]
            price = gpu.dollars_per_hour
            money = f"; ${price.value:.2f} an hour ({price.kind}: {price.source})" if price else ""
            texts.append(f"{product}: {', '.join(rates)}{money}.")
    return texts
