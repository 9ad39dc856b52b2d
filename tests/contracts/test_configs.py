"""Checks the shipped configs against the paper: Tables 2 and 3 at three scales.

The expected values are in expected_systems.yaml, written down a second time: nothing is read from
the configs that are checked.
"""

from fractions import Fraction
from functools import cache
from math import floor
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from aiayn.cost import num_parameters
from aiayn.paths import SHIPPED_FOLDER
from aiayn.printed import evaluations_of, is_asked_for, read_cells
from aiayn.spec.sheet import SHEET_NAME, read_sheet, sheet_text, systems_asked_by
from aiayn.spec.system import (
    CONFIG_FOLDER,
    SCALES,
    ScaleSpec,
    TrainingSpec,
    read_corpus,
    read_scale,
    read_system,
)

EXPECTED = yaml.safe_load(
    Path(__file__).with_name("expected_systems.yaml").read_text(encoding="utf-8")
)
PAPER_SIZES: dict[str, int] = EXPECTED["paper_sizes"]
PRINTED_BY_SYSTEM: dict[str, dict[str, Any]] = EXPECTED["printed_by_system"]
CHANGES_BY_VARIANT: dict[str, dict[str, Any]] = EXPECTED["changes_by_variant"]
# Layers of each architecture per layer of base; d_ff makes it as large as base.
LAYERS_BY_ARCHITECTURE = {"lstm": Fraction(4, 6), "fconv": Fraction(15, 6)}
# Entries of the joint vocabulary, special symbols included; for the paper's corpus as printed
# (section 5.1).
VOCABULARY_BY_SCALE = {"demo": 402, "multi30k": 3962, "paper": 37000}
# Whole systems that others print. They inherit nothing and belong to no row of a table.
SYSTEMS_OF_REPLICATIONS = {
    "demo": {"seed_waynestalk"},
    "multi30k": {"revisit_tiny"},
    "paper": set(),
}
# Settings of the scale that may differ between big and base. The demo's big is also smaller than
# 2 x base.
LONGER = ("updates", "warmup_steps", "save_interval_updates")
FREE_OF_BIG = {
    "demo": (*LONGER, "d_model", "d_ff", "num_heads", "p_drop"), "multi30k": LONGER, "paper": LONGER,
}  # fmt: skip
system_of = cache(read_system)  # each shipped file is read once
every_scale = pytest.mark.parametrize("scale", SCALES)
every_system = pytest.mark.parametrize("system", PRINTED_BY_SYSTEM)


def rounded(value: Fraction) -> int:
    """Return a positive number rounded, halves upwards, at least 1."""
    return max(1, floor(value + Fraction(1, 2)))


def expected_training(system: str, base: TrainingSpec) -> dict[str, Any]:
    """Return the expected spec of a row: its ratio to base in six sizes, else the paper's value."""
    expected = msgspec.structs.asdict(base) | EXPECTED["paper_others"]
    for key, printed in PRINTED_BY_SYSTEM[system].items():
        expected[key] = printed
        if key in PAPER_SIZES:
            expected[key] = rounded(Fraction(getattr(base, key) * printed, PAPER_SIZES[key]))
    if system.startswith("table3_a_"):  # "keeping the amount of computation constant"
        expected["d_k"] = expected["d_v"] = base.d_model // expected["num_heads"]
    return expected


def scale_of(name: str) -> ScaleSpec:
    """Read a shipped scale."""
    return read_scale(CONFIG_FOLDER / f"{name}.yaml")


@every_scale
@every_system
def test_every_system_of_every_scale_is_the_papers_row(scale: str, system: str) -> None:
    base, spec = system_of("base", scale), system_of(system, scale)
    found, expected = (
        msgspec.structs.asdict(spec.training),
        expected_training(system, base.training),
    )
    if system.startswith("big"):
        expected |= {key: found[key] for key in FREE_OF_BIG[scale]}
    assert found == expected
    assert spec.decoding == base.decoding


def test_the_papers_base_is_as_printed() -> None:
    base = system_of("base", "paper").training
    printed = PAPER_SIZES | EXPECTED["paper_others"] | EXPECTED["paper_model"]
    assert {key: getattr(base, key) for key in printed} == printed
    adam = (base.adam_beta_1, base.adam_beta_2, base.adam_epsilon, base.clip_norm)
    assert adam == (0.9, 0.98, 1e-9, 0.0)
    assert (base.schedule, base.warmup_steps, base.updates) == ("equation_3", 4000, 100000)
    # Padded tokens; 25,000 of them are real.
    assert base.max_tokens_per_batch * base.batches_per_update == 26000
    assert base.patience_epochs is None


def test_the_papers_checkpoints_are_ten_minutes_apart() -> None:
    base, big = (system_of(name, "paper").training for name in ("base", "big"))
    # 0.4 and 1.0 seconds a step, by section 5.2.
    seconds = [0.4 * (base.save_interval_updates or 0), 1.0 * (big.save_interval_updates or 0)]
    assert seconds == pytest.approx([600, 600])
    assert big.updates == 3 * base.updates == 300000


@every_scale
def test_every_base_has_the_papers_proportions_optimizer_and_decoding(scale: str) -> None:
    base, paper = system_of("base", scale), system_of("base", "paper")
    training = base.training
    assert training.d_ff == 4 * training.d_model
    assert training.d_k == training.d_v
    assert training.num_heads * training.d_k == training.d_model
    kept = unlike(training, paper.training).keys()
    assert kept.isdisjoint({*EXPECTED["paper_model"], *EXPECTED["paper_others"]})
    assert kept.isdisjoint({"adam_beta_1", "adam_beta_2", "adam_epsilon", "clip_norm", "schedule"})
    assert msgspec.structs.asdict(base.decoding) == EXPECTED["paper_decoding"]


@every_scale
def test_every_scale_has_the_shared_systems_and_names_those_of_its_own(scale: str) -> None:
    names = {path.stem for path in (CONFIG_FOLDER / "systems" / scale).iterdir()}
    shared = {*PRINTED_BY_SYSTEM, *CHANGES_BY_VARIANT, *LAYERS_BY_ARCHITECTURE}
    configs = [
        scale_of(path.stem) for path in CONFIG_FOLDER.glob("*.yaml") if path.stem != "hardware"
    ]
    assert shared <= names
    sheets = [config.read_rows() for config in configs if config.scale == scale]
    own = {row.system for rows in sheets for row in rows}
    own |= {name for name in names if name.startswith("rate_")}  # probes: tests/unit/test_rates.py
    assert names - shared - SYSTEMS_OF_REPLICATIONS[scale] <= own, "add it to a sheet of this scale"


def unlike(training: TrainingSpec, base: TrainingSpec) -> dict[str, Any]:
    """Return the settings that differ from base's, with their own values."""
    base_value_by_key = msgspec.structs.asdict(base)
    return {
        key: value
        for key, value in msgspec.structs.asdict(training).items()
        if value != base_value_by_key[key]
    }


@every_scale
@pytest.mark.parametrize("variant", CHANGES_BY_VARIANT)
def test_a_variant_is_base_but_for_what_others_print(scale: str, variant: str) -> None:
    base, spec = system_of("base", scale), system_of(variant, scale)
    assert unlike(spec.training, base.training) == CHANGES_BY_VARIANT[variant]
    assert spec.decoding == base.decoding


def distance_to_base(scale: str, training: TrainingSpec) -> int:
    """Return the difference in parameters between a training and its scale's base."""
    size = VOCABULARY_BY_SCALE[scale]
    return abs(
        num_parameters(training, size, True)
        - num_parameters(system_of("base", scale).training, size, True)
    )


@every_scale
@pytest.mark.parametrize("architecture", LAYERS_BY_ARCHITECTURE)
def test_an_architecture_is_as_large_as_base_and_trained_alike(
    scale: str, architecture: str
) -> None:
    base, spec = system_of("base", scale), system_of(architecture, scale)
    num_layers = rounded(base.training.num_layers * LAYERS_BY_ARCHITECTURE[architecture])
    changes = unlike(spec.training, base.training)
    assert changes == {
        "architecture": architecture,
        "num_layers": num_layers,
        "d_ff": spec.training.d_ff,
    }
    assert spec.decoding == base.decoding
    one_less, one_more = (
        msgspec.structs.replace(spec.training, d_ff=spec.training.d_ff + step) for step in (-1, 1)
    )
    nearest = distance_to_base(scale, spec.training)
    assert nearest < min(distance_to_base(scale, one_less), distance_to_base(scale, one_more))
    assert nearest < 0.005 * num_parameters(base.training, VOCABULARY_BY_SCALE[scale], True)


@every_scale
def test_the_warm_up_ends_before_the_training(scale: str) -> None:
    for system in PRINTED_BY_SYSTEM:
        training = system_of(system, scale).training
        assert training.warmup_steps < training.updates


def test_revisit_tiny_is_the_published_recipe_to_the_letter() -> None:
    spec = system_of("revisit_tiny", "multi30k")
    assert msgspec.structs.asdict(spec.training) == EXPECTED["revisit_tiny_training"]
    assert msgspec.structs.asdict(spec.decoding) == EXPECTED["revisit_tiny_decoding"]


def test_the_variants_are_the_demo_with_another_sheet() -> None:
    demo, variants = scale_of("demo"), scale_of("variants")
    assert msgspec.structs.replace(variants, trainings="demo") == demo
    rows = variants.read_rows()
    printed = ["table3_d_pdrop0", "table3_d_els0", "table3_e_learned"]  # by others, too
    expected = ["base", *CHANGES_BY_VARIANT, *printed]
    assert sorted(systems_asked_by("variants", rows)) == sorted(expected)
    assert systems_asked_by("architectures", rows) == ["base", *LAYERS_BY_ARCHITECTURE]
    assert {row.seeds for row in rows} == {(1, 2)}
    shared = {row.system: row.evaluations for row in rows if "table3" in row.asked_by}
    assert shared == {
        row.system: row.evaluations for row in demo.read_rows() if row.corpus == "demo_en_de"
    }


SHEETS = sorted((CONFIG_FOLDER / "trainings").iterdir())


@pytest.mark.parametrize("path", SHEETS, ids=lambda path: path.stem)
def test_a_sheet_has_the_evaluations_of_its_tables(path: Path) -> None:
    rows = read_sheet(path)
    assert path.read_text(encoding="utf-8") == sheet_text(rows)
    for row in rows:
        pair = read_corpus(row.corpus).language_pair
        expected = {("last1", "dev")}
        if is_asked_for(pair, row.system):
            expected = set(evaluations_of(pair, row.system))
        words = [tuple(word.split("/")) for word in row.evaluations]
        assert set(words) >= expected, row
        tables = set()
        for join in read_cells():
            if (join.language_pair, join.system) == (pair, row.system):
                tables.add(f"table{join.table}")
        # A variant may have the name of a row of Table 3, and a decision may ask for a row.
        assert tables.intersection(row.asked_by) in (set(), tables), row


def test_each_config_has_its_sheet_and_each_sheet_its_config() -> None:
    paths = [path for path in CONFIG_FOLDER.glob("*.yaml") if path.stem != "hardware"]
    assert sorted(scale_of(path.stem).trainings for path in paths) == [p.stem for p in SHEETS]
    packed = SHIPPED_FOLDER / "multi30k" / SHEET_NAME
    assert packed.read_bytes() == (CONFIG_FOLDER / "trainings" / "multi30k.tsv").read_bytes()
