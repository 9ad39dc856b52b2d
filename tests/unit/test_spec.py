"""Systems, corpora and scales as they are read. How each wrong value is refused is in the
transcripts `refused_*`.
"""

from pathlib import Path

import msgspec
import pytest
import yaml

from aiayn.errors import ConfigError
from aiayn.spec import system as spec

BASE = (spec.CONFIG_FOLDER / "systems" / "demo" / "base.yaml").read_text(encoding="utf-8")
SCALE = (spec.CONFIG_FOLDER / "demo.yaml").read_text(encoding="utf-8")
SHALLOW = """\
name: shallow
inherits: base
description: One layer
training:
  num_layers: 1
"""


@pytest.fixture
def config_folder(tmp_path: Path) -> Path:
    """Return a config folder whose demo scale holds the systems base and shallow."""
    write_system(tmp_path, "base", BASE)
    write_system(tmp_path, "shallow", SHALLOW)
    return tmp_path


def write_system(config_folder: Path, name: str, text: str) -> Path:
    """Write the file of a system of the demo scale."""
    path = config_folder / "systems" / "demo" / f"{name}.yaml"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8", newline="\n")
    return path


def test_a_variant_of_a_variant_has_the_keys_of_both_and_all_others_of_base(
    config_folder: Path,
) -> None:
    write_system(
        config_folder,
        "dry",
        "name: dry\ninherits: shallow\ndescription: And no dropout\ntraining:\n  p_drop: 0.0\n",
    )
    base = spec.read_system("base", "demo", config_folder)
    dry = spec.read_system("dry", "demo", config_folder)
    assert dry.training == msgspec.structs.replace(base.training, num_layers=1, p_drop=0.0)
    assert dry.decoding == base.decoding
    assert (dry.name, dry.inherits, dry.description) == ("dry", "shallow", "And no dropout")


def training_of(config_folder: Path, old: str = "", new: str = "") -> spec.TrainingSpec:
    """Return base's training spec, after an edit of its file."""
    write_system(config_folder, "base", BASE.replace(old, new) if old else BASE)
    return spec.read_system("base", "demo", config_folder).training


def test_a_comment_or_another_spelling_of_a_number_changes_no_digest(config_folder: Path) -> None:
    digest = spec.spec_digest(training_of(config_folder))
    assert (
        spec.spec_digest(training_of(config_folder, "d_k: 16  ", "d_k: 16  # a remark")) == digest
    )
    assert spec.spec_digest(training_of(config_folder, "clip_norm: 0.0", "clip_norm: 0")) == digest
    assert (
        spec.spec_digest(
            training_of(
                config_folder,
                "  num_layers: 3\n  d_model: 64\n",
                "  d_model: 64\n  num_layers: 3\n",
            )
        )
        == digest
    )


def test_the_name_of_a_run_changes_with_what_decides_its_tensors(config_folder: Path) -> None:
    # A new name trains anew, so nothing else may change it.
    training = training_of(config_folder)

    def name(
        training: spec.TrainingSpec = training, seed: int = 1, data: str = "aa", version: int = 1
    ) -> str:
        return spec.run_name(
            corpus="demo_en_de",
            system="base",
            seed=seed,
            training=training,
            data_digest=data,
            stage_version=version,
        )

    other_training = msgspec.structs.replace(training, p_drop=0.2)
    assert name().startswith("demo_en_de-base-seed1-")
    assert len(name().rpartition("-")[2]) == 8
    assert len({name(), name(other_training), name(seed=2), name(data="bb"), name(version=2)}) == 5


def test_an_absent_scale_is_answered_with_paths_to_be_typed_here(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(spec.CONFIG_FOLDER.parents[1])
    with pytest.raises(
        ConfigError, match=r"^nope\.yaml: no such file; .* workflow/config/demo\.yaml, work"
    ):
        spec.read_scale(Path("nope.yaml"))


def test_snakemake_may_pass_a_number_as_text() -> None:
    config: dict[str, object] = yaml.safe_load(SCALE)
    assert spec.convert_scale(config | {"updates": "500"}, "the config").updates == 500


def test_systems_that_continue_another_differ_from_it_in_more_updates_only() -> None:
    longer = []
    for path in sorted((spec.CONFIG_FOLDER / "systems" / "multi30k").glob("*.yaml")):
        system = spec.read_system(path.stem, "multi30k")
        if system.begins_from is not None:
            longer.append(system.name)
            earlier = spec.read_system(system.begins_from, "multi30k").training
            updates = system.training.updates
            assert msgspec.structs.replace(earlier, updates=updates) == system.training
            assert updates > earlier.updates
    assert len(longer) >= 2
