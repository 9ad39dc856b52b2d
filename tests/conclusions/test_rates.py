"""Probes at other learning rates, as they are read, and as they are shipped."""

from pathlib import Path

import pytest

from aiayn.errors import TableError
from aiayn.printed import read_rows
from aiayn.runs.log import read_validations
from aiayn.spec.system import CONFIG_FOLDER, read_system
from analysis.conclusions.rates import (
    PRINTED_RATE,
    RATES_FOLDER,
    RateProbe,
    RateProbes,
    read_rate_probes,
)

HEADER = "system,times_peak,seed,updates,bits\n"
TIMES_BY_WORD = {"quarter": 0.25, "half": 0.5, "twice": 2.0, "fourfold": 4.0, "eightfold": 8.0}
SHIPPED = [
    line for path in sorted(RATES_FOLDER.glob("*.csv")) for line in read_rows(path, RateProbe)
]


def test_bits_are_means_over_the_probes_of_a_system_and_rate(tmp_path: Path) -> None:
    lines = (
        "base,0.5,101,4000,3.00",
        "base,0.5,102,4000,3.25",
        "base,2.0,101,4000,2.80",
        "big,0.5,101,4000,2.70",
    )
    (tmp_path / "multi30k.csv").write_text(HEADER + "\n".join(lines) + "\n", encoding="utf-8")
    probes = read_rate_probes("multi30k", tmp_path)
    assert probes == RateProbes(4000, {"base": {0.5: 3.125, 2.0: 2.80}, "big": {0.5: 2.70}})


def test_without_a_file_nothing_was_probed(tmp_path: Path) -> None:
    assert read_rate_probes("demo", tmp_path) is None


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("base,0.5,5,8000,2.6", "seed 5 at 0.5 times the peak; expected a seed of 101 or above"),
        ("big,0.5,101,16000,2.6", "16,000 updates; expected 8,000, as in the lines above"),
    ],
)
def test_a_line_that_cannot_be_compared_is_refused(tmp_path: Path, line: str, message: str) -> None:
    (tmp_path / "multi30k.csv").write_text(
        f"{HEADER}base,2.0,101,8000,2.5\n{line}\n", encoding="utf-8"
    )
    with pytest.raises(TableError, match=f"multi30k.csv:3: {message}"):
        read_rate_probes("multi30k", tmp_path)


@pytest.mark.parametrize(
    "path",
    sorted((CONFIG_FOLDER / "systems/multi30k").glob("rate_*.yaml")),
    ids=lambda path: path.stem,
)
def test_a_probes_system_is_another_but_for_the_peak_of_its_rate(path: Path) -> None:
    _, word, name = path.stem.split("_", 2)
    probe, system = (read_system(stem, "multi30k").training for stem in (path.stem, name))
    assert probe.peak_learning_rate == pytest.approx(
        TIMES_BY_WORD[word] * (system.d_model * system.warmup_steps) ** -0.5, rel=1e-3
    )
    differing = set()
    for key in probe.__struct_fields__:
        if getattr(probe, key) != getattr(system, key):
            differing.add(key)
    own = {"schedule", "peak_learning_rate", "initial_learning_rate"}
    # A system whose rate was chosen by probes has the schedule of one of them itself.
    assert differing == own if system.schedule == "equation_3" else differing <= own


@pytest.mark.parametrize(
    ("place", "probe"),
    SHIPPED,
    ids=[f"{probe.system}-{probe.times_peak:g}" for _, probe in SHIPPED],
)
def test_a_shipped_probe_has_the_bits_of_its_log(place: str, probe: RateProbe) -> None:
    name = probe.system
    if probe.times_peak != PRINTED_RATE:
        word = {times: word for word, times in TIMES_BY_WORD.items()}[probe.times_peak]
        name = f"rate_{word}_{probe.system}"
    scale = Path(place.rpartition(":")[0]).stem
    log = RATES_FOLDER / scale / f"{name}-seed{probe.seed}.log.xz"
    bits_by_update = read_validations(log)
    assert (max(bits_by_update), bits_by_update[probe.updates]) == (probe.updates, probe.bits)
