"""Probes at other learning rates: which effects are those of the rate alone."""

from pathlib import Path

import pytest

from aiayn.errors import TableError
from aiayn.spec.system import CONFIG_FOLDER, read_system
from paper_tables.conclusions.rates import effects_at_rates, read_rate_probes

HEADER = "system,times_peak,seed,updates,bits\n"
TIMES_BY_WORD = {"half": 0.5, "twice": 2.0}


def test_probes_of_one_rate_are_averaged_and_effects_taken_where_both_sides_were_probed(tmp_path: Path) -> None:
    lines = ("base,0.5,101,8000,2.60", "base,0.5,102,8000,2.70", "base,2.0,101,8000,2.40", "big,0.5,101,16000,2.30")
    (tmp_path / "multi30k.csv").write_text(HEADER + "\n".join(lines) + "\n", encoding="utf-8")
    probes = read_rate_probes("multi30k", tmp_path)
    assert probes == {"base": {0.5: pytest.approx(2.65), 2.0: 2.40}, "big": {0.5: 2.30}}
    effects = effects_at_rates(("big", 2.60), ("base", 2.50), probes)
    assert effects is not None
    assert effects.by_times_peak == {0.5: pytest.approx(-0.35)}
    assert effects.at_best == pytest.approx(2.30 - 2.40)  # at equation (3)'s rate +0.10
    assert effects_at_rates(("table3_c_n2", 2.60), ("base", 2.50), probes) is None


def test_without_a_file_nothing_was_probed(tmp_path: Path) -> None:
    assert read_rate_probes("demo", tmp_path) == {}


@pytest.mark.parametrize("line", ["base,0.5,5,8000,2.6", "base,1.0,101,8000,2.6"])
def test_a_seed_of_the_tables_or_the_printed_rate_is_no_probe(tmp_path: Path, line: str) -> None:
    (tmp_path / "multi30k.csv").write_text(HEADER + line + "\n", encoding="utf-8")
    with pytest.raises(TableError, match=r"multi30k.csv:2: seed \d+ at \d.*; expected a seed of 101 or above"):
        read_rate_probes("multi30k", tmp_path)


@pytest.mark.parametrize(
    "path", sorted((CONFIG_FOLDER / "systems/multi30k").glob("rate_*.yaml")), ids=lambda path: path.stem
)
def test_a_probes_system_is_another_but_for_the_peak_of_its_rate(path: Path) -> None:
    _, word, name = path.stem.split("_", 2)
    probe, system = (read_system(stem, "multi30k").training for stem in (path.stem, name))
    assert probe.peak_learning_rate == pytest.approx(
        TIMES_BY_WORD[word] * (system.d_model * system.warmup_steps) ** -0.5, rel=1e-3
    )
    own = {"schedule", "peak_learning_rate", "initial_learning_rate"}
    assert {key for key in probe.__struct_fields__ if getattr(probe, key) != getattr(system, key)} == own
