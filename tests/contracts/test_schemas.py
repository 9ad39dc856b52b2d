"""The JSON schemas in workflow/schemas are those of the structs; every shipped config fits its schema,
and a wrong config does not. workflow/config/README.md explains every key.
"""

import json
import re
from pathlib import Path
from typing import Any

import jsonschema
import msgspec
import pytest
import yaml

from aiayn.spec.cluster import ClusterSpec
from aiayn.spec.corpus import CorpusSpec
from aiayn.spec.system import CONFIG_FOLDER, ScaleSpec, SystemSpec
from tests.golden_files import check_golden

SCHEMAS = CONFIG_FOLDER.parent / "schemas"
SPEC_BY_NAME = {
    "scale": ScaleSpec,
    "system": SystemSpec,
    "corpus": CorpusSpec,
    "cluster": ClusterSpec,
}
PATTERN_BY_NAME = {
    "scale": "*.yaml",
    "system": "systems/*/*.yaml",
    "corpus": "corpora/*.yaml",
    "cluster": "clusters/*.yaml",
}
INHERITING = ("system", "corpus")  # a file has the keys that differ; a base has the others
NOT_A_SCALE = ("hardware.yaml",)


def schema_of(name: str) -> dict[str, Any]:
    """Return the schema of a kind of config file."""
    schema = msgspec.json.schema(SPEC_BY_NAME[name])
    if name in INHERITING:
        for definition in schema["$defs"].values():
            definition.pop("required", None)
        schema["$defs"][SPEC_BY_NAME[name].__name__]["required"] = ["name", "description"]
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema}


def config_files(name: str) -> list[Path]:
    """Return the shipped files of a kind."""
    paths = sorted(CONFIG_FOLDER.glob(PATTERN_BY_NAME[name]))
    return [path for path in paths if path.name not in NOT_A_SCALE]


@pytest.mark.parametrize("name", SPEC_BY_NAME)
def test_golden_schemas_are_those_of_the_structs(name: str) -> None:
    text = json.dumps(schema_of(name), indent=2) + "\n"
    check_golden(f"{name}.schema.json", text, SCHEMAS)


@pytest.mark.parametrize("name", SPEC_BY_NAME)
def test_shipped_configs_fit_and_a_misspelt_key_does_not(name: str) -> None:
    schema = json.loads((SCHEMAS / f"{name}.schema.json").read_text(encoding="utf-8"))
    validator_class = jsonschema.validators.validator_for(schema)
    validator_class.check_schema(schema)
    validator = validator_class(schema)
    paths = config_files(name)
    assert paths
    for path in paths:
        values = yaml.safe_load(path.read_text(encoding="utf-8"))
        validator.validate(values)
        with pytest.raises(jsonschema.ValidationError, match="misspelt"):
            validator.validate(values | {"misspelt": 1})


@pytest.mark.parametrize("name", SPEC_BY_NAME)
def test_the_readme_of_the_configs_has_a_row_for_every_key(name: str) -> None:
    text = (CONFIG_FOLDER / "README.md").read_text(encoding="utf-8")
    rows = set(re.findall(r"^\| `([a-z_0-9.]+)` \|", text, flags=re.MULTILINE))
    keys = set()
    for definition in schema_of(name)["$defs"].values():
        keys |= definition.get("properties", {}).keys()
    assert keys - rows == set()


def test_the_config_of_a_deployment_is_the_demos() -> None:
    deployed = (CONFIG_FOLDER.parents[1] / "config" / "config.yaml").read_text(encoding="utf-8")
    demo = (CONFIG_FOLDER / "demo.yaml").read_text(encoding="utf-8")
    assert yaml.safe_load(deployed) == yaml.safe_load(demo)
