"""Chooses the launcher that a config is looked ahead for."""

from pathlib import Path
from typing import Literal, Protocol

from aiayn.cli.flags import flag
from aiayn.spec.system import ScaleSpec

LAUNCHER = flag(
    "where trainings run: on Slurm, or on this machine (default: slurm at the paper's scale or if a"
    " cluster is named; else local)"
)


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
    names_cluster = args.cluster is not None or any(
        change.partition("=")[0] == "cluster" for change in args.config
    )
    return "slurm" if names_cluster or scale.scale == "paper" else "local"
