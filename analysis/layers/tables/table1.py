"""Lays out Table 1: complexity, sequential operations and path lengths as printed, with our
measured exponents.
"""

import operator
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import starmap

import numpy as np
from scipy.special import stdtrit  # type: ignore[import-untyped, unused-ignore]

from aiayn.printed import read_table
from aiayn.scoring.seeds import CONFIDENCE
from analysis.layers.records import VARIABLES_BY_TYPE, LayerTiming, LayerType, TimedLayers
from paper_tables.frame import Frame
from paper_tables.layout import (
    PLUS_MINUS,
    Cell,
    Column,
    Note,
    Row,
    Table,
    blank_cell,
    text_cell,
)

COMMAND = "aiayn measure --record results/<scale>/measure/record.json"
EXPONENTS = ("n", "d", "k_or_r")
HEADING_BY_VARIABLE = {"n": "of n", "d": "of d", "k_or_r": "of k or r"}
CAPTION = (
    "Complexity per layer, sequential operations and maximum path length, as printed: n is the"
    " length of the sequence, d the width, k the size of a convolution's kernel, r that of a"
    " neighbourhood."
)
MEASURED = (
    " Ours: the exponents of n, d, k and r in the operations and in the seconds of such layers on"
    " the device named below, fitted to {num_points} sizes with 95 % t-intervals."
)


def lay_out_table1(frame: Frame) -> Table:
    """Return Table 1 of a scale."""
    record = frame.record_by_stage.get("measure")
    return lay_out_layers(None if record is None else record.layers)


def lay_out_layers(layers: TimedLayers | None) -> Table:
    """Return Table 1; `layers` are the timed layers, if they were measured."""
    printed = {(cell.row, cell.column): cell.value for cell in read_table(1)}
    timings: dict[LayerType, list[LayerTiming]] = {layer: [] for layer in VARIABLES_BY_TYPE}
    for timing in layers.timings if layers else []:
        timings[timing.layer].append(timing)
    columns = (
        Column("layer_type", "Layer Type", side="label"),
        Column("complexity_per_layer", "printed", "Complexity per Layer"),
        *_exponent_columns("flops", "Exponent in operations"),
        *_exponent_columns("seconds", "Exponent in seconds"),
        Column("sequential_operations", "Sequential Operations"),
        Column("maximum_path_length", "Maximum Path Length"),
    )
    rows = []
    for layer in VARIABLES_BY_TYPE:
        cells = [text_cell(printed[layer, "layer_type"], "label")]
        cells.append(text_cell(printed[layer, "complexity_per_layer"], "formula"))
        for quantity in ("flops", "seconds"):
            cells += _exponent_cells(layer, quantity, timings[layer])
        cells.append(text_cell(printed[layer, "sequential_operations"], "formula"))
        cells.append(text_cell(printed[layer, "maximum_path_length"], "formula"))
        rows.append(Row(tuple(cells)))
    table = Table(
        name="table1",
        title="Table 1",
        caption=CAPTION,
        columns=columns,
        rows=tuple(rows),
        notes=tuple(map(Note, _notes(layers, timings))),
    )
    if layers is None:
        return table
    return replace(
        table,
        caption=CAPTION + MEASURED.format(num_points=len(layers.timings)),
        signatures=(("seconds of layers", "measured without a training", layers.signature),),
    )


def _exponent_columns(quantity: str, group: str) -> Iterator[Column]:
    for variable in EXPONENTS:
        yield Column(
            f"{quantity}_exponent_of_{variable}", HEADING_BY_VARIABLE[variable], group, "ours"
        )


def _exponent_cells(layer: LayerType, quantity: str, timings: list[LayerTiming]) -> list[Cell]:
    """Return the exponents of n, d and k or r; blanks for what was not measured."""
    fitted = fit_layer(layer, quantity, timings) if timings else []
    cells = [text_cell(text, "ours") for text in starmap(_exponent_text, fitted)]
    return cells + [blank_cell()] * (len(EXPONENTS) - len(cells))


def fit_layer(
    layer: LayerType, quantity: str, timings: Sequence[LayerTiming]
) -> list[tuple[float, float]]:
    """Return the exponents of a type of layer in `flops` or `seconds`, by `fit_power_law`."""
    read_size = operator.attrgetter(*VARIABLES_BY_TYPE[layer])
    sizes = [read_size(timing) for timing in timings]
    return fit_power_law(sizes, [getattr(timing, quantity) for timing in timings])


def fit_power_law(
    sizes: Sequence[Sequence[float]], values: Sequence[float]
) -> list[tuple[float, float]]:
    """Fit values = c n^a d^b ...; return by variable its exponent and half of the 95 % t-interval.

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


def _exponent_text(exponent: float, half_width: float) -> str:
    """Return `1.98 +- 0.06`; an interval that rounds to 0 is omitted."""
    spread = f"{half_width:.2f}"
    return f"{exponent:.2f}" if float(spread) == 0 else f"{exponent:.2f} {PLUS_MINUS} {spread}"


def _notes(layers: TimedLayers | None, timings: dict[LayerType, list[LayerTiming]]) -> list[str]:
    if layers is None:
        return [f"Nothing was measured here: {COMMAND}"]
    measured = [(layer, of_layer) for layer, of_layer in timings.items() if of_layer]
    return [
        (
            "Timed: equation (1) with one head and without its projections; h_t = tanh(x_t W +"
            " h_(t-1) U); a convolution with stride 1; and equation (1) over the r tokens around"
            " each. One sequence, forward."
        ),
        (
            "Operations are counted by torch in the call that is timed: multiplications of"
            " matrices, two operations each. Their exponents are exact. Those of seconds are lower"
            " where small products use the device less well, and where a step waits for another;"
            " the interval comes from a fit to all sizes of a row, so it covers this curvature as"
            " well as the noise."
        ),
        f"Sizes: {'; '.join(starmap(_ranges, measured))}.",
    ]


def _ranges(layer: LayerType, timings: list[LayerTiming]) -> str:
    """Return the sizes of a row and the seconds from the quickest to the slowest."""
    ranges = []
    for name in VARIABLES_BY_TYPE[layer]:
        values = [getattr(timing, name) for timing in timings]
        ranges.append(f"{name} {min(values):,} to {max(values):,}")
    milliseconds = [1000 * timing.seconds for timing in timings]
    return f"{layer} {', '.join(ranges)}: {min(milliseconds):.3g} to {max(milliseconds):.3g} ms"
