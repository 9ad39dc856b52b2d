"""Lays out the measured cost of each system's trainings, and the cost by the paper's method of
estimation (Table 2).

The number of operations is computed from the run's spec, its tokens, and the mean lengths of its
corpus's training sentences, so it is known for the records of any version of `aiayn`. If a value
cannot be known, its cell is a dash.
"""

from typing import Any

from aiayn.paths import CellKey
from paper_tables.frame import Frame
from paper_tables.layout import (
    DASH,
    Cell,
    Column,
    Note,
    Table,
    cell_frame,
    label,
    row_of,
)
from paper_tables.rounding import over_seeds, rounded
from paper_tables.tables.ours import complete

COLUMN_BY_METRIC = {
    "tokens": Column("target_tokens", "target tokens", "", "ours"),
    "model_flops": Column("model_flops", "model", "FLOPs", "ours"),
    "training_flops": Column("estimated_flops", "the paper's estimate", "FLOPs", "ours"),
    "utilisation_percent": Column("utilisation_percent", "utilisation, %", "", "ours"),
    "wall_hours": Column("wall_hours", "hours", "", "ours"),
    "gpu_hours": Column("gpu_hours", "GPU-hours", "", "ours"),
    "dollars": Column("dollars", "money, $", "", "ours"),
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
    " loading and saving count against it. A dash: trained without a GPU; the GPU's rate in this"
    " precision, or its price, is not in hardware.yaml; or the data-bin or the run's spec has no"
    " record."
)


def lay_out_costs(frame: Frame) -> Table:
    """Return the table of costs with a row for each system that has a finished training. The cells
    have values over the seeds of the system, or a dash if the value is unknown.
    """
    # A system has several cells (dev, test), but one cost. Its first cell stands for the training.
    key_by_system: dict[tuple[str, str], CellKey] = {}
    for key in frame.keys:
        key_by_system.setdefault((key.corpus, key.system), key)
    rows, missing = [], []
    for system in frame.runs_by_system:
        key = key_by_system[system]
        if frame.trained(key):
            rows.append(_row_of_system(frame, key))
        else:
            missing.append(f"{key.system} on {key.corpus}")
    notes = [Note(FORMULA), Note(MEASURES), *map(Note, _prices(frame))] if rows else []
    if missing:
        notes.append(Note(f"Not finished: {', '.join(missing)}."))
    table = Table(
        name="costs",
        title="Training cost",
        caption=(
            "What each training took, measured and by formula, and the estimate that Table 2 makes."
            " Over seeds: mean with 95 % t-interval; of fewer than 3 seeds the values."
        ),
        columns=(
            Column("system", "system", side="label"),
            Column("seeds", "seeds", side="ours"),
            *COLUMN_BY_METRIC.values(),
        ),
        cells=cell_frame(rows),
        notes=tuple(notes),
        signatures=(("model FLOPs", "all trainings", SIGNATURE),) if rows else (),
    )
    return complete(frame, table, has_precisions=False, has_states=False)


def _row_of_system(frame: Frame, key: CellKey) -> list[dict[str, Any]]:
    """Return the row of a system in the table of costs, as lines of the frame of cells."""
    num_trained = len(frame.trained(key))
    steps = frame.numbers[key, "steps"]
    num_asked = len(frame.runs_by_system[key.corpus, key.system])
    seeds = Cell(f"{num_trained} of {num_asked}", "ours", steps.marks, numbers=(steps,))
    name = f"{key.corpus} {key.system}"
    cells = {"system": label(name), "seeds": seeds}
    for metric, column in COLUMN_BY_METRIC.items():
        number = frame.numbers[key, metric]
        # A cost of 0 would be wrong: the training ran without a GPU, or hardware.yaml lacks the
        # price.
        if number.values:
            text = over_seeds(number.seed_values, metric)
            cells[column.name] = Cell(text, "ours", number.marks, numbers=(number,))
        else:
            cells[column.name] = Cell(DASH, "state", steps.marks)
    return row_of(cells, name)


def _prices(frame: Frame) -> list[str]:
    """Return one sentence for each kind of GPU that was used for training: its rates and its price,
    with sources.
    """
    products = set()
    for run in frame.runs:
        if run.train and run.train.hardware.num_gpus:
            products.add(run.train.hardware.gpu)
    texts = []
    for product in sorted(products):
        # A GPU that is not in hardware.yaml has neither rates nor a price.
        gpu = frame.hardware.find_gpu(product)
        if gpu is None:
            continue
        parts = []
        for precision, rate in gpu.rate_by_precision.items():
            parts.append(
                f"{rounded(rate.value, 'flops_per_second')} FLOP/s in {precision} ({rate.source})"
            )
        if price := gpu.dollars_per_hour:
            parts.append(f"${rounded(price.value, 2)} an hour ({price.kind}: {price.source})")
        texts.append(f"{product}: {', '.join(parts)}.")
    return texts
