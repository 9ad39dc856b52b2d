"""Fits y = c n^a d^b ... to measurements, by least squares of the logarithms, with t-intervals of the exponents."""

import math
from collections.abc import Mapping, Sequence

import msgspec
import numpy as np
from scipy.special import stdtrit  # type: ignore[import-untyped, unused-ignore]

from aiayn.errors import TableError
from analysis.scoring.seeds import CONFIDENCE


class PowerLaw(msgspec.Struct, frozen=True, kw_only=True):
    """The fitted exponent of each variable, and half the width of its 95 % t-interval."""

    exponent_by_variable: dict[str, float]
    half_width_by_variable: dict[str, float]


def fit_power_law(variables: Sequence[str], points: Sequence[Mapping[str, float]], values: Sequence[float]) -> PowerLaw:
    """Return the exponents of `variables` in `values`, one of which belongs to each point.

    The interval covers all residuals: noise, and any deviation from a power law.

    Raises:
        TableError: if the points do not determine the exponents: too few, a variable that is constant or collinear, or
            a value that is not above 0.
    """
    num_unknowns = len(variables) + 1
    if len(points) <= num_unknowns:
        raise TableError(f"{len(points)} sizes for {num_unknowns} unknowns; measure {num_unknowns + 1} or more")
    for point, value in zip(points, values, strict=True):
        numbers = [*(point[name] for name in variables), value]
        if not all(math.isfinite(number) and number > 0 for number in numbers):
            raise TableError(f"{dict(point)} has the value {value}; expected numbers above 0; measure it again")
    logarithms = np.log([[point[name] for name in variables] for point in points])
    design = np.column_stack([np.ones(len(points)), logarithms - logarithms.mean(axis=0)])  # centred: exponents stay
    if np.linalg.matrix_rank(design) < num_unknowns:
        raise TableError(f"the sizes do not separate the exponents of {', '.join(variables)}; vary one size at a time")
    target = np.log(values)
    coefficients, *_ = np.linalg.lstsq(design, target, rcond=None)
    degrees_of_freedom = len(points) - num_unknowns
    variance = float(np.square(target - design @ coefficients).sum()) / degrees_of_freedom
    errors = np.sqrt(variance * np.diag(np.linalg.inv(design.T @ design)))
    reach = float(stdtrit(degrees_of_freedom, (1 + CONFIDENCE) / 2))
    return PowerLaw(
        exponent_by_variable=dict(zip(variables, coefficients[1:].tolist(), strict=True)),
        half_width_by_variable=dict(zip(variables, (reach * errors[1:]).tolist(), strict=True)),
    )
