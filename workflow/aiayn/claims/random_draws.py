"""Random numbers with a seed of their own, and what is estimated from them: a value, its error and its signature.

Every measurement draws from a generator seeded by its own name, so that one more changes none of the others.
"""

import math
import zlib
from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor

from aiayn.claims.records import Measurement


def generator_of(seed: int, name: str) -> torch.Generator:
    """Return the generator of a measurement: another for each seed and name."""
    return torch.Generator().manual_seed(_seed_of(seed, name))


@contextmanager
def seeded(seed: int, name: str = "") -> Iterator[None]:
    """Seed torch's global generator, from which modules are initialised, and put it back as it was."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(_seed_of(seed, name))
        yield


def _seed_of(seed: int, name: str) -> int:
    return zlib.crc32(f"{seed} {name}".encode())


def exact(name: str, value: float, conditions: str, *, unit: str = "1") -> Measurement:
    """Return a value without sampling error: a count, a bound over all draws, or a property of the form."""
    return Measurement(
        name=name, value=float(value), unit=unit, standard_error=0.0, signature=f"{conditions}|{_torch_version()}"
    )


def mean_of(name: str, values_N: Tensor, conditions: str, seed: int, *, unit: str = "1") -> Measurement:
    """Return the mean of independent draws with its standard error."""
    values_N = values_N.double()
    error = float(values_N.std()) / math.sqrt(len(values_N))
    return _estimated(name, float(values_N.mean()), error, len(values_N), conditions, seed, unit)


def variance_of(name: str, values_N: Tensor, conditions: str, seed: int, *, unit: str = "1") -> Measurement:
    """Return the variance of independent draws; its error is that of a mean of squared deviations."""
    deviations_N = (values_N.double() - values_N.double().mean()).square()
    return mean_of(name, deviations_N, conditions, seed, unit=unit)


def ratio_of(name: str, above_N: Tensor, below_N: Tensor, conditions: str, seed: int) -> Measurement:
    """Return mean(above) / mean(below) of paired draws; the error to first order (delta method)."""
    above_N, below_N = above_N.double(), below_N.double()
    ratio = float(above_N.mean() / below_N.mean())
    error = float((above_N - ratio * below_N).std() / below_N.mean()) / math.sqrt(len(above_N))
    return _estimated(name, ratio, error, len(above_N), conditions, seed, "1")


def _estimated(
    name: str, value: float, error: float, num_draws: int, conditions: str, seed: int, unit: str
) -> Measurement:
    signature = f"{conditions}|draws:{num_draws}|seed:{seed}|{_torch_version()}"
    return Measurement(name=name, value=value, unit=unit, standard_error=error, signature=signature)


def _torch_version() -> str:
    return f"torch:{torch.__version__}"
