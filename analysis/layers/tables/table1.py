"""Lays out Table 1: complexity, sequential operations and path lengths as in the paper, next to our
measured exponents.
"""

from collections.abc import Sequence

import numpy as np
from scipy.optimize import curve_fit  # type: ignore[import-untyped, unused-ignore]
from scipy.special import stdtrit  # type: ignore[import-untyped, unused-ignore]

from aiayn.printed import read_table
from aiayn.scoring.seeds import CONFIDENCE
from analysis.layers.records import LayerTiming, MeasureRecord
from paper_tables.frame import Frame
from paper_tables.layout import Cell, CellKind, Column, Note, Table, cell_frame, row_of
from paper_tables.rounding import PLUS_MINUS, rounded

NOTES = (
    Note(
        "Timed: equation (1) with one head and without its projections; h_t = tanh(x_t W + h_(t-1)"
        " U); a convolution with stride 1; and equation (1) over the r tokens around each. One"
        " sequence, forward, the least of 7 rounds of 5 calls."
    ),
    Note(
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
    return lay_out_record(record) if record else None


def lay_out_record(record: MeasureRecord) -> Table:
    """Return Table 1 with the exponents that follow from the timed layers of a record."""
    cells_by_layer: dict[str, dict[str, Cell]] = {}
    for printed in read_table(1):
        kind: CellKind = "label" if printed.column == "layer_type" else "formula"
        cells_by_layer.setdefault(printed.row, {})[printed.column] = Cell(printed.value, kind)
    rows = []
    for layer, cells in cells_by_layer.items():
        timings = [timing for timing in record.timings if timing.layer == layer]
        rows.append(row_of(cells | _exponent_cells(timings), layer))
    signature = (
        f"device:cpu|{record.device_name}|dtype:float32|threads:1|batch:1|pass:forward|clock:CPU"
        f" seconds of the process|torch:{record.provenance.version_by_package['torch']}"
    )
    return Table(
        name="table1",
        title="Table 1",
        caption=(
            "Complexity per layer, sequential operations and maximum path length, as printed: n is"
            " the length of the sequence, d the width, k the size of a convolution's kernel, r that"
            " of a neighbourhood. Ours: the exponents of n, d, k and r in the operations and in the"
            " seconds of such layers on the device named below, fitted with 95 % t-intervals to the"
            " sizes in analysis/layers/sizes.csv."
        ),
        columns=COLUMNS,
        cells=cell_frame(rows),
        notes=NOTES,
        signatures=(("seconds of layers", "measured without a training", signature),),
    )


def _exponent_cells(timings: Sequence[LayerTiming]) -> dict[str, Cell]:
    """Return the measured exponents of the sizes of a layer, by column: `2.00` for operations,
    `1.98 +- 0.06` for seconds. The exponents of operations are exact.
    """
    variables = ["n", "d"]
    if timings[0].k_or_r > 1:
        variables.append("k_or_r")
    sizes = [[getattr(timing, variable) for variable in variables] for timing in timings]
    exponents_in_flops, _ = fit_power_law(sizes, [timing.flops for timing in timings])
    fitted = fit_power_law(sizes, [timing.seconds for timing in timings])
    cells = {}
    for variable, exact, exponent, half_width in zip(
        variables, exponents_in_flops, *fitted, strict=True
    ):
        text = f"{rounded(exponent, 2)} {PLUS_MINUS} {rounded(half_width, 2)}"
        cells[f"flops_exponent_of_{variable}"] = Cell(rounded(exact, 2), "ours")
        cells[f"seconds_exponent_of_{variable}"] = Cell(text, "ours")
    return cells


def fit_power_law(
    sizes: Sequence[Sequence[float]], values: Sequence[float]
) -> tuple[np.ndarray, np.ndarray]:
    """Fit a power law such as c n^a d^b to `values`, with one exponent for each variable. Return
    the exponents, and half of the 95 % t-interval of each exponent.

    The power law is fitted by least squares of the logarithms. Every variable must have several
    sizes that do not follow from the other variables. The interval is computed from all residuals:
    noise, and any deviation from a power law.
    """
    # The logarithm of a power law is a sum, linear in the exponents.
    fitted, covariance = curve_fit(
        lambda log_sizes, constant, *exponents: constant + log_sizes @ exponents,
        np.log(sizes),
        np.log(values),
        np.zeros(1 + len(sizes[0])),
    )
    quantile = stdtrit(len(values) - len(fitted), (1 + CONFIDENCE) / 2)
    half_widths = quantile * np.sqrt(np.diag(covariance))
    return fitted[1:], half_widths[1:]
