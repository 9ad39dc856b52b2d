"""Reads the flags that the verbs `plan` and `preflight` share, and plans the trainings of the
config that the flags select, on the machine that the flags select.
"""

from pathlib import Path
from typing import TYPE_CHECKING, Literal

from aiayn.cli.config import read_changed_scale
from aiayn.cli.flags import CLUSTER, CONFIG, RESULTS, flag
from aiayn.experiment import Experiment, read_experiment
from aiayn.spec.cluster import ClusterSpec, read_cluster
from aiayn.spec.hardware import read_hardware
from aiayn.spec.system import CONFIG_FOLDER, ScaleSpec

if TYPE_CHECKING:
    from analysis.price.plan import Plan


class ConfigFlags:
    """The flags that the verbs `plan` and `preflight` share: a config, and where its trainings
    run.
    """

    configfile: Path = flag(
        "the scale's config file (default: the paper's)",
        "FILE",
        default=CONFIG_FOLDER / "paper.yaml",
    )
    config: list[str] = CONFIG
    cluster: str | None = CLUSTER
    launcher: Literal["local", "slurm"] | None = flag(
        "where trainings run: on Slurm, or on this machine (default: slurm at the paper's scale or"
        " if a cluster is named; else local)"
    )
    results: Path = RESULTS


def plan_config(
    args: ConfigFlags,
    *,
    system: str | None = None,
    gpu: str | None = None,
    num_gpus: int | None = None,
) -> tuple[Experiment, ClusterSpec, Literal["local", "slurm"], "Plan"]:
    """Return the config that the flags select, where its trainings run, and their plan, or the plan
    of only one `system` of the config's scale.

    Raises:
        ConfigError: if a file of the config is wrong, or if the machine does not support the
            precision of a training.
        UsageError: if a number of GPUs is given for a machine without GPUs.
    """
    # These modules load scipy, so they are imported here. `aiayn help plan` imports this module for
    # the flags only, and should answer at once.
    from analysis.price.machines import choose_machine
    from analysis.price.plan import make_plan, precisions_of
    from analysis.price.system_plan import expand_system

    scale = read_changed_scale(args.configfile, args.config)
    experiment = read_experiment(scale)
    cluster = read_cluster(args.cluster or scale.cluster)
    if system is not None:
        experiment = expand_system(scale, system)
    launcher = choose_launcher(args, scale)
    hardware = read_hardware()
    machine = choose_machine(
        cluster,
        hardware,
        launcher=launcher,
        gpu=gpu,
        num_gpus=num_gpus,
        precisions=precisions_of(experiment),
    )
    plan = make_plan(experiment, machine, hardware, args.results)
    return experiment, cluster, launcher, plan


def choose_launcher(args: ConfigFlags, scale: ScaleSpec) -> Literal["local", "slurm"]:
    """Return the launcher that --launcher selects, or the default launcher that the help of this
    flag describes.
    """
    if args.launcher is not None:
        return args.launcher
    # A user who selects a cluster wants to train there, even at a small scale. `--config` has items
    # such as `cluster=mine`.
    names_cluster = args.cluster is not None or any(
        change.partition("=")[0] == "cluster" for change in args.config
    )
    return "slurm" if names_cluster or scale.scale == "paper" else "local"
