"""Reads the results of probes: short trial trainings at other learning rates.

Equation (3) of the paper fixes the learning rate. A probe is a training with the same schedule, but
a different peak rate, such as half or twice the peak of equation (3). A probe is a separate system:
`rate_half_<system>`, `rate_twice_<system>`, `rate_fourfold_<system>` and so on. A probe at equation
(3)'s rate is a training of the system itself. `paper_tables/measured/rates/<scale>.csv` has a line
for each probe, and the folder next to this file has the logs. Probes use separate seeds and do not
appear in the tables of results. The learning-rate schedule does not depend on the total number of
updates, so a probe may be shorter than the trainings of the tables. All learning rates are compared
after the probes' number of updates.
"""

import statistics
from collections.abc import Mapping
from pathlib import Path

import msgspec

from aiayn.errors import TableError
from aiayn.printed import PUBLISHED_FOLDER, read_rows
from aiayn.spec.sheet import FIRST_PROBE_SEED

RATES_FOLDER = PUBLISHED_FOLDER.parent / "measured" / "rates"
# The factor on the peak learning rate: 1 is the paper's own schedule.
PRINTED_RATE = 1.0


class RateProbe(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A probe (trial training) at `times_peak` times the learning rate of equation (3), with its
    bits a subword on dev after the last update.
    """

    system: str
    times_peak: float
    seed: int
    updates: int
    bits: float


class RateProbes(msgspec.Struct, frozen=True):
    """Bits a subword on dev by system and by the factor on equation (3)'s peak learning rate, such
    as 0.5, 1 or 2. Each value is the mean over short trainings (probes) of `updates` updates.
    """

    updates: int
    bits_by_system: Mapping[str, Mapping[float, float]]


def read_rate_probes(scale: str, folder: Path = RATES_FOLDER) -> RateProbes | None:
    """Return the probes (short trial trainings) of a scale, or None if the scale has no file of
    probes.

    Raises:
        TableError: the file is malformed, a probe uses a seed of the trainings of the tables, or
            the probes differ in their number of updates.
    """
    path = folder / f"{scale}.csv"
    if not path.exists():
        return None
    values: dict[tuple[str, float], list[float]] = {}
    updates: int | None = None
    for location, probe in read_rows(path, RateProbe):
        # A seed of the tables would be used twice: to choose the rate, and to measure at this rate.
        if probe.seed < FIRST_PROBE_SEED:
            raise TableError(
                f"{location}: seed {probe.seed} at {probe.times_peak:g} times the peak; expected a"
                f" seed of {FIRST_PROBE_SEED} or above"
            )
        # Bits after different numbers of updates cannot be compared.
        if updates not in (None, probe.updates):
            raise TableError(
                f"{location}: {probe.updates:,} updates; expected {updates:,}, as in the lines"
                " above: probes are compared after equal numbers of updates"
            )
        updates = probe.updates
        values.setdefault((probe.system, probe.times_peak), []).append(probe.bits)
    bits_by_system: dict[str, dict[float, float]] = {}
    for (system, times_peak), bits in sorted(values.items()):
        bits_by_system.setdefault(system, {})[times_peak] = statistics.mean(bits)
    return None if updates is None else RateProbes(updates, bits_by_system)
