"""Reads the config of a scale (a size of the experiment) and replaces the values that flags change,
as `snakemake --config` does.
"""

from collections.abc import Sequence
from pathlib import Path

import yaml

from aiayn.errors import UsageError
from aiayn.spec.strict_yaml import YAML_ERRORS
from aiayn.spec.system import ScaleSpec, convert_scale, read_scale, read_scale_document


def read_changed_scale(path: Path, changes: Sequence[str]) -> ScaleSpec:
    """Return a scale's config after replacing its values by the texts `KEY=VALUE`. Each VALUE is
    read as YAML.

    Raises:
        UsageError: if a change is not of the form KEY=VALUE.
        ConfigError: if a key or value is wrong. The message contains the config's file.
    """
    if not changes:
        return read_scale(path)
    values = dict(read_scale_document(path).values)
    for change in changes:
        key, equals, text = change.partition("=")
        # As snakemake reads `--config`: 1000 is a number, and true is not text.
        try:
            value = yaml.safe_load(text)
        except YAML_ERRORS as error:
            raise UsageError(
                f"--config {change}: {text!r} is not a YAML value; quote it"
            ) from error
        if not equals or not key:
            raise UsageError(
                f"--config {change}: expected KEY=VALUE, such as updates=1000 or only=base:1"
            )
        values[key] = value
    # Errors then show the flag, too, because the wrong value may be in it and not in the file.
    return convert_scale(values, f"{path} with --config {' '.join(changes)}")
