"""Reads what probes at other learning rates came to, and says which effects are those of the rate alone.

Equation (3) fixes the rate. A probe is trained with the same schedule at half or twice its peak, by a system of its
own: `rate_half_<system>` or `rate_twice_<system>`. `paper_tables/measured/rates/<scale>.csv` has a line a probe, and
its log lies beside it. Probes have seeds that no table has, and stand in none.
"""

import statistics
from collections.abc import Mapping
from pathlib import Path

import msgspec

from aiayn.errors import TableError
from aiayn.printed import read_rows
from aiayn.spec.system import FIRST_PROBE_SEED

RATES_FOLDER = Path(__file__).parents[1] / "measured" / "rates"


class RateProbe(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A training at `times_peak` times the rate of equation (3): bits a subword on dev after its last update."""

    system: str
    times_peak: float
    seed: int
    updates: int
    bits: float


class RateEffects(msgspec.Struct, frozen=True):
    """A row minus its control in bits, by times of the peak, and each at the rate at which it is best of all tried."""

    by_times_peak: dict[float, float]
    at_best: float


def read_rate_probes(scale: str, folder: Path = RATES_FOLDER) -> dict[str, dict[float, float]]:
    """Return bits a subword on dev by system and times of the peak, each the mean over its probes; {} without a file.

    Raises:
        TableError: the file is malformed, or a line is of the printed rate or of a seed that tables have.
    """
    path = folder / f"{scale}.csv"
    bits: dict[tuple[str, float], list[float]] = {}
    for place, probe in read_rows(path, RateProbe) if path.exists() else []:
        if probe.seed < FIRST_PROBE_SEED or probe.times_peak == 1.0:
            raise TableError(f"{place}: seed {probe.seed} at {probe.times_peak:g} times the peak; expected a seed of "
                             f"{FIRST_PROBE_SEED} or above and another rate than equation (3)'s")  # fmt: skip
        bits.setdefault((probe.system, probe.times_peak), []).append(probe.bits)
    by_system: dict[str, dict[float, float]] = {}
    for (system, times_peak), values in sorted(bits.items()):
        by_system.setdefault(system, {})[times_peak] = statistics.mean(values)
    return by_system


def effects_at_rates(
    row: tuple[str, float], control: tuple[str, float], probes: Mapping[str, dict[float, float]]
) -> RateEffects | None:
    """Return the effects of a row at each rate at which both sides were probed; None if there is no such rate.

    Each side is its system and its bits at equation (3)'s rate.
    """
    (system, bits), (control_system, control_bits) = row, control
    at_rates, control_at_rates = probes.get(system, {}), probes.get(control_system, {})
    both = {times: at_rates[times] - control_at_rates[times] for times in at_rates if times in control_at_rates}
    if not both:
        return None
    at_best = min(bits, *at_rates.values()) - min(control_bits, *control_at_rates.values())
    return RateEffects(by_times_peak=both, at_best=at_best)
