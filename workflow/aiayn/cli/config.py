"""Reads a scale's config with keys replaced by flags, as `snakemake --config` does, and changes a search by flags."""

from collections.abc import Sequence
from pathlib import Path
from typing import Literal, Protocol

import msgspec
import yaml

from aiayn.errors import UsageError
from aiayn.spec.system import ScaleSpec, convert_scale, read_scale, read_scale_document
from aiayn.spec.training import DecodingSpec


def read_changed_scale(path: Path, changes: Sequence[str]) -> ScaleSpec:
    """Return a scale's config, its keys replaced by `KEY=VALUE` texts, values read as YAML.

    Raises:
        UsageError: if a change is no KEY=VALUE.
        ConfigError: naming the file, if a key or value is wrong.
    """
    if not changes:
        return read_scale(path)
    values = dict(read_scale_document(path).values)
    for change in changes:
        key, equals, text = change.partition("=")
        try:
            value = yaml.safe_load(text)
        except yaml.YAMLError as error:
            raise UsageError(f"--config {change}: {text!r} is no YAML value ({error}); quote it") from error
        if not equals or not key:
            raise UsageError(f"--config {change}: expected KEY=VALUE, such as updates=1000 or 'seeds=[1]'")
        values[key] = value
    return convert_scale(values, f"{path} with --config {' '.join(changes)}")


class ConfigFlags(Protocol):
    """The flags of a verb that looks ahead at a config."""

    configfile: Path
    config: list[str]
    cluster: str | None
    launcher: Literal["local", "slurm"] | None


def choose_launcher(args: ConfigFlags, scale: ScaleSpec) -> Literal["local", "slurm"]:
    """Return the launcher that the flags name; without one as the flag `LAUNCHER` says."""
    if args.launcher is not None:
        return args.launcher
    names_cluster = args.cluster is not None or any(change.partition("=")[0] == "cluster" for change in args.config)
    return "slurm" if names_cluster or scale.scale == "paper" else "local"


def changed_search(decoding: DecodingSpec, args: object) -> DecodingSpec:
    """Return a system's search with what the flags of the same names set."""
    named = {key: getattr(args, key, None) for key in DecodingSpec.__struct_fields__}
    return msgspec.structs.replace(decoding, **{key: value for key, value in named.items() if value is not None})
