"""Predict what a config will take, before money is spent: hours, GPU-hours, money, disk, memory.

The hours of a training are estimated by a formula. For GPUs the estimate is a range. If the results
folder has finished trainings on the same kind of device and in the same precision, the estimate is
scaled by the measured hours of these trainings. `--config precision=bf16` plans all systems in
bf16.

Without --launcher, trainings run on Slurm at the paper's scale or if a cluster is named (--cluster,
--config cluster=NAME), and otherwise on this machine. On Slurm each training has the GPUs that the
cluster file gives. On this machine each training has one GPU, the machine's own or the kind that
--gpu gives. --num-gpus changes the number of GPUs. The plan states for which GPUs it was made.

With --system, only this system is planned, and its size and the command line of fairseq-train are
printed, too. Any system in the scale's folder of systems is allowed.
"""

from aiayn.cli.flags import JSON, flag, positive
from aiayn.terminal import json_text
from analysis.price.config import ConfigFlags, plan_config

EXAMPLE = "aiayn plan --configfile workflow/config/paper.yaml --gpu H100"


class Flags(ConfigFlags):
    system: str | None = flag("plan one system: a file of workflow/config/systems/SCALE", "NAME")
    gpu: str | None = flag(
        "a GPU of workflow/config/hardware.yaml, such as H100 (default: the cluster file's"
        " gpu_type, else the paper's, or the first that has the precision; on this machine its"
        " own)",
        "NAME",
    )
    num_gpus: int | None = flag(
        "GPUs of a training (default: the cluster file's; here 1)", "N", type=positive
    )
    json: bool = JSON


def run(args: Flags) -> None:
    """Print the plan (predicted costs) of the config."""
    from analysis.price.system_plan import add_commands
    from analysis.price.text import render_plan

    experiment, _, _, plan = plan_config(
        args,
        system=args.system,
        gpu=args.gpu,
        num_gpus=args.num_gpus,
    )
    # The command line needs one system: a scale with thirty systems would print pages.
    if args.system is not None:
        plan = add_commands(plan, experiment, args.system)
    print(json_text(plan) if args.json else render_plan(plan), end="")
