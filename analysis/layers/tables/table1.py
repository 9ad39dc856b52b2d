"""Lays out Table 1: complexity, sequential operations and path lengths as in the paper, next to our
measured exponents.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy.optimize import curve_fit  # type: ignore[import-untyped, unused-ignore]
from scipy.special import stdtrit  # type: ignore[import-untyped, unused-ignore]

from aiayn.printed import read_table
from aiayn.scoring.seeds import CONFIDENCE
from analysis.layers.records import VARIABLES_BY_TYPE, LayerTiming, LayerType, TimedLayers
from paper_tables.frame import Frame
from paper_tables.layout import (
    Cell,
    CellKind,
    Column,
    Note,
    Table,
    cell_frame,
    row_of,
)
from paper_tables.rounding import PLUS_MINUS, rounded

CAPTION = (
    "Complexity per layer, sequential operations and maximum path length, as printed: n is the"
    " length of the sequence, d the width, k the size of a convolution's kernel, r that of a"
    " neighbourhood. Ours: the exponents of n, d, k and r in the operations and in the seconds"
    " of such layers on the device named below, fitted to {num_points} sizes with 95 % t-intervals."
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


def lay_out_table1(frame: Frame) -> Table | None:
    """Return Table 1 of a scale, or None if the layers were not timed at this scale."""
    record = frame.record_by_stage.get("measure")
    return lay_out_layers(record.layers) if record else None


def lay_out_layers(layers: TimedLayers) -> Table:
    """Return Table 1 with the exponents that were measured with these timed layers."""
    cells_by_row: dict[str, dict[str, Cell]] = {}
    for printed in read_table(1):
        kind: CellKind = "label" if printed.column == "layer_type" else "formula"
        cells_by_row.setdefault(printed.row, {})[printed.column] = Cell(printed.value, kind)
    rows = []
    for layer in VARIABLES_BY_TYPE:
        timings = [timing for timing in layers.timings if timing.layer == layer]
        rows.append(row_of(cells_by_row[layer] | _exponent_cells(layer, timings), layer))
    return Table(
        name="table1",
        title="Table 1",
        caption=CAPTION.format(num_points=len(layers.timings)),
        columns=COLUMNS,
        cells=cell_frame(rows),
        notes=tuple(map(Note, NOTES)),
        signatures=(("seconds of layers", "measured without a training", layers.signature),),
    )


def _exponent_cells(layer: LayerType, timings: Sequence[LayerTiming]) -> dict[str, Cell]:
    """Return the measured exponents of a layer's variables (n, d, k, r) in operations and in
    seconds, by column: `1.98 +- 0.06`. If half of the interval rounds to 0, it is omitted.
    """
    variables = VARIABLES_BY_TYPE[layer]
    sizes = [[getattr(timing, variable) for variable in variables] for timing in timings]
    cells = {}
    for quantity in ("flops", "seconds"):
        fitted = fit_power_law(sizes, [getattr(timing, quantity) for timing in timings])
        for variable, (exponent, half_width) in zip(variables, fitted, strict=True):
            text, spread = rounded(exponent, 2), rounded(half_width, 2)
            if spread != rounded(0.0, 2):
                text += f" {PLUS_MINUS} {spread}"
            column = f"{quantity}_exponent_of_{variable if variable in 'nd' else 'k_or_r'}"
            cells[column] = Cell(text, "ours")
    return cells


def fit_power_law(
    sizes: Sequence[Sequence[float]], values: Sequence[float]
) -> list[tuple[float, float]]:
    """Fit a power law such as c n^a d^b to `values`, with one exponent for each variable. Return
    for each variable its exponent and half of the 95 % t-interval.

    The power law is fitted by least squares of the logarithms. Every variable must have several
    sizes that do not follow from the other variables. The interval is computed from all residuals:
    noise, and any deviation from a power law.
    """

    # The measured law is a power: its logarithm is a sum, linear in the exponents.
    def logarithms(log_sizes: Any, constant: float, *exponents: float) -> Any:
        return constant + log_sizes @ exponents

    start = np.zeros(1 + len(sizes[0]))
    fitted, covariance = curve_fit(logarithms, np.log(sizes), np.log(values), start)
    quantile = stdtrit(len(values) - len(start), (1 + CONFIDENCE) / 2)
    half_widths = quantile * np.sqrt(np.diag(covariance))
    return list(zip(fitted[1:].tolist(), half_widths[1:].tolist(), strict=True))
