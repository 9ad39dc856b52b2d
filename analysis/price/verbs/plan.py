"""Predict what a config will take, before money is spent: hours, GPU-hours, money, energy, disk,
memory.

Hours, GPU-hours and money are shown in fp32, tf32 and bf16 side by side; `--config precision=bf16`
plans all systems in bf16.

If the results or runs folder has finished trainings on the same kind of machine, they scale the
hours; otherwise the hours are computed by a formula, on GPUs as a range. The plan also compares 8
GPUs a training with 1.

Without --launcher, trainings run on Slurm at the paper's scale or if a cluster is named (--cluster,
--config cluster=NAME), and otherwise on this machine. On Slurm each has the GPUs of the cluster
file; on this machine it has one GPU, the machine's own or the kind that --gpu names. --num-gpus
changes the number. The first assumption of the plan says what was taken.

With --system, one system is planned instead of the config's lists, and its size and the command
line of fairseq-train are printed, too. Any system of the scale's folder can be named.
"""

import math
from pathlib import Path
from typing import Literal

from aiayn.cli.flags import CLUSTER, CONFIG, JSON, RESULTS, flag, positive
from aiayn.errors import UsageError
from aiayn.spec.system import CONFIG_FOLDER
from aiayn.terminal import json_text
from analysis.price.config import LAUNCHER, plan_config
from analysis.price.machines import PRICE_FLAG
from analysis.price.system_plan import plan_system
from analysis.price.text import render_plan, render_system_plan

EXAMPLE = "aiayn plan --configfile workflow/config/paper.yaml --gpu H100"


class Flags:
    configfile: Path = flag(
        "the scale's config file (default: the paper's)",
        "FILE",
        default=CONFIG_FOLDER / "paper.yaml",
    )
    config: list[str] = CONFIG
    system: str | None = flag("plan one system: a file of workflow/config/systems/SCALE", "NAME")
    cluster: str | None = CLUSTER
    launcher: Literal["local", "slurm"] | None = LAUNCHER
    gpu: str | None = flag(
        "a GPU of workflow/config/hardware.yaml, such as H100 (default: the cluster file's"
        " gpu_type, else the paper's, or the first that has the precision; on this machine its"
        " own)",
        "NAME",
    )
    num_gpus: int | None = flag(
        "GPUs of a training (default: the cluster file's; here 1)", "N", parse=positive
    )
    dollars_per_gpu_hour: float | None = flag(
        "your price (default: the price in workflow/config/hardware.yaml)", "PRICE"
    )
    results: Path = RESULTS
    json: bool = JSON


def run(args: Flags) -> None:
    """Print the plan."""
    if args.dollars_per_gpu_hour is not None and not 0 <= args.dollars_per_gpu_hour < math.inf:
        raise UsageError(
            f"{PRICE_FLAG} {args.dollars_per_gpu_hour}: expected US$, 0 or more, such as 2.1"
        )
    planned = plan_config(
        args,
        system=args.system,
        gpu=args.gpu,
        num_gpus=args.num_gpus,
        dollars_per_gpu_hour=args.dollars_per_gpu_hour,
    )
    plan = planned.plan
    if args.system is None:
        print(json_text(plan) if args.json else render_plan(plan), end="")
        return
    system_plan = plan_system(planned.experiment, args.system, plan)
    print(json_text(system_plan) if args.json else render_system_plan(system_plan), end="")
