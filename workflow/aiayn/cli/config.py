"""Reads a scale's config with keys replaced by flags, as `snakemake --config` does, and changes a search by flags."""

import argparse
from collections.abc import Sequence
from pathlib import Path

import msgspec
import yaml

from aiayn.cli.flags import positive
from aiayn.errors import UsageError
from aiayn.runs.jobs import LAUNCHERS
from aiayn.spec.system import Overrides, ScaleSpec, convert_scale, read_scale, read_scale_document
from aiayn.spec.training import PRECISIONS, DecodingSpec


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


def add_config_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags that choose a config, alike for all verbs that look ahead."""
    parser.add_argument("--configfile", type=Path, required=True, metavar="FILE", help="the scale's config file")
    add_changes_argument(parser)
    parser.add_argument("--cluster", metavar="NAME", help="a file of workflow/config/clusters (default: the config's)")


def add_changes_argument(parser: argparse.ArgumentParser) -> None:
    """Declare the flag that replaces keys of a config file."""
    parser.add_argument(
        "--config", nargs="+", default=[], metavar="KEY=VALUE", help="replace values of the config, as for snakemake"
    )


def add_override_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare a flag for each key that a scale may set for all its systems."""
    parser.add_argument("--updates", type=positive, metavar="N", help="number of updates, instead of the system's own")
    parser.add_argument("--precision", choices=PRECISIONS, help="precision of products, instead of the system's own")


def named_overrides(args: argparse.Namespace) -> Overrides:
    """Return what the flags of `add_override_arguments` set."""
    return Overrides(updates=args.updates, precision=args.precision)


def add_launcher_argument(parser: argparse.ArgumentParser) -> None:
    """Declare the flag that says where trainings run; `choose_launcher` reads it."""
    parser.add_argument(
        "--launcher", choices=[name for name in LAUNCHERS if name != "debug"],
        help="where trainings run: on Slurm, or on this machine (default: slurm at the paper's scale or if a cluster "
        "is named; else local)",
    )  # fmt: skip


def choose_launcher(args: argparse.Namespace, scale: ScaleSpec) -> str:
    """Return the launcher that the flags name; without one as `add_launcher_argument` says."""
    if args.launcher is not None:
        return str(args.launcher)
    names_cluster = args.cluster is not None or any(change.partition("=")[0] == "cluster" for change in args.config)
    return "slurm" if names_cluster or scale.scale == "paper" else "local"


def add_search_arguments(parser: argparse.ArgumentParser, whose: str = "the system's own") -> None:
    """Declare the form of the length penalty and the stopping rule; `changed_search` reads them."""
    parser.add_argument("--length-penalty-form", choices=("len", "gnmt"), help=f"len is fairseq's (default: {whose})")
    parser.add_argument("--stop", choices=("fairseq", "tensor2tensor"), help=f"stopping rule (default: {whose})")


def changed_search(decoding: DecodingSpec, args: argparse.Namespace) -> DecodingSpec:
    """Return a system's search with what the flags of the same names set."""
    named = {key: getattr(args, key, None) for key in DecodingSpec.__struct_fields__}
    return msgspec.structs.replace(decoding, **{key: value for key, value in named.items() if value is not None})
