"""Lays out Table 1: complexity, sequential operations and path lengths as printed, with our
measured exponents.
"""

from collections.abc import Sequence

import numpy as np
from scipy.special import stdtrit  # type: ignore[import-untyped, unused-ignore]

from aiayn.printed import read_table
from aiayn.scoring.seeds import CONFIDENCE
from analysis.layers.records import VARIABLES_BY_TYPE, LayerTiming, LayerType, TimedLayers
from paper_tables.frame import Frame
from paper_tables.layout import (
    Cell,
    Column,
    Note,
    Table,
    cell_frame,
    row_of,
)
from paper_tables.rounding import PLUS_MINUS, rounded

NOT_MEASURED = (
    "Nothing was measured here: aiayn measure --record results/<scale>/measure/record.json"
)
CAPTION = (
    "Complexity per layer, sequential operations and maximum path length, as printed: n is the"
    " length of the sequence, d the width, k the size of a convolution's kernel, r that of a"
    " neighbourhood."
)
MEASURED = (
    " Ours: the exponents of n, d, k and r in the operations and in the seconds of such layers on"
    " the device named below, fitted to {num_points} sizes with 95 % t-intervals."
)
NOTES = (
    (
        "Timed: equation (1) with one head and without its projections; h_t = tanh(x_t W + h_(t-1)"
        " U); a convolution with stride 1; and equation (1) over the r tokens around each. One"
        " sequence, forward. The sizes are in analysis/layers/sizes.csv."
    ),
    (
        "Operations are counted by torch in the call that is timed: multiplications of matrices,"
        " two operations each. Their exponents are exact. Those of seconds are lower where small"
        " products use the device less well, and where a step waits for another; the interval"
        " comes from a fit to all sizes of a row, so it covers this curvature as well as the noise."
    ),
)
COLUMNS = (
    Column("layer_type", "Layer Type", side="label"),
    Column("complexity_per_layer", "printed", "Complexity per Layer"),
    Column("flops_exponent_of_n", "of n", "Exponent in operations", "ours"),
    Column("flops_exponent_of_d", "of d", "Exponent in operations", "ours"),
    Column("flops_exponent_of_k_or_r", "of k or r", "Exponent in operations", "ours"),
    Column("seconds_exponent_of_n", "of n", "Exponent in seconds", "ours"),
    Column("seconds_exponent_of_d", "of d", "Exponent in seconds", "ours"),
    Column("seconds_exponent_of_k_or_r", "of k or r", "Exponent in seconds", "ours"),
    Column("sequential_operations", "Sequential Operations"),
    Column("maximum_path_length", "Maximum Path Length"),
)


def lay_out_table1(frame: Frame) -> Table:
    """Return Table 1 of a scale."""
    record = frame.record_by_stage.get("measure")
    return lay_out_layers(None if record is None else record.layers)


def lay_out_layers(layers: TimedLayers | None) -> Table:
    """Return Table 1. `layers` are the timed layers, if they were measured."""
    caption = CAPTION
    notes: tuple[str, ...] = (NOT_MEASURED,)
    signatures: tuple[tuple[str, str, str], ...] = ()
    if layers is not None:
        caption += MEASURED.format(num_points=len(layers.timings))
        notes = NOTES
        signatures = (("seconds of layers", "measured without a training", layers.signature),)
    cells_by_row: dict[str, dict[str, Cell]] = {}
    for printed in read_table(1):
        is_name = printed.column == "layer_type"
        cells = cells_by_row.setdefault(printed.row, {})
        cells[printed.column] = Cell(printed.value, "label" if is_name else "formula")
    rows = []
    for layer in VARIABLES_BY_TYPE:
        cells = cells_by_row[layer]
        timings = [timing for timing in layers.timings if timing.layer == layer] if layers else []
        for quantity in ("flops", "seconds") if timings else ():
            for variable, text in fit_layer(layer, quantity, timings).items():
                name = variable if variable in "nd" else "k_or_r"
                cells[f"{quantity}_exponent_of_{name}"] = Cell(text, "ours")
        rows.append(row_of(cells, layer))
    return Table(
        name="table1",
        title="Table 1",
        caption=caption,
        columns=COLUMNS,
        cells=cell_frame(rows),
        notes=tuple(map(Note, notes)),
        signatures=signatures,
    )


def fit_layer(layer: LayerType, quantity: str, timings: Sequence[LayerTiming]) -> dict[str, str]:
    """Return by variable the exponent in `flops` or `seconds`, as `1.98 +- 0.06`.

    An interval that rounds to 0 is omitted.
    """
    variables = VARIABLES_BY_TYPE[layer]
    sizes = []
    for timing in timings:
        sizes.append([getattr(timing, variable) for variable in variables])
    fitted = fit_power_law(sizes, [getattr(timing, quantity) for timing in timings])
    texts = {}
    for variable, (exponent, half_width) in zip(variables, fitted, strict=True):
        text = rounded(exponent, 2)
        spread = rounded(half_width, 2)
        texts[variable] = text if spread == rounded(0.0, 2) else f"{text} {PLUS_MINUS} {spread}"
    return texts


def fit_power_law(
    sizes: Sequence[Sequence[float]], values: Sequence[float]
) -> list[tuple[float, float]]:
    """Fit values = c n^a d^b and so on. Return by variable its exponent and half of the 95 %
    t-interval.

    The fit is by least squares of the logarithms. Every variable has several sizes, which do not
    follow from the others. The interval covers all residuals: noise, and any deviation from a power
    law.
    """
    logarithms = np.log(sizes)
    # Centred variables leave the exponents as they are, and keep the matrix well conditioned.
    design = np.column_stack([np.ones(len(values)), logarithms - logarithms.mean(axis=0)])
    target = np.log(values)
    coefficients, *_ = np.linalg.lstsq(design, target, rcond=None)
    degrees_of_freedom = len(values) - design.shape[1]
    variance = float(np.square(target - design @ coefficients).sum()) / degrees_of_freedom
    errors = np.sqrt(variance * np.diag(np.linalg.inv(design.T @ design)))
    reach = float(stdtrit(degrees_of_freedom, (1 + CONFIDENCE) / 2))
    return list(zip(coefficients[1:].tolist(), (reach * errors[1:]).tolist(), strict=True))
