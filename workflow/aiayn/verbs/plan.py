"""Say what a config will take before money is spent: jobs, hours, GPU-hours, money, energy, disk, memory.

Hours come from trainings of the same system on the same kind of machine, where records of such lie below the results or
runs folder; else from the operations of its updates. What trainings really took stands beside, once there are any.
"""

import argparse
from pathlib import Path

EXAMPLE = "aiayn plan --configfile workflow/config/paper.yaml --gpu H100"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags of `aiayn plan`."""
    from aiayn.plan.config import add_config_arguments
    from aiayn.plan.machine import LAUNCHERS

    add_config_arguments(parser)
    parser.add_argument(
        "--launcher", choices=LAUNCHERS, help="where trainings run (default: slurm for a cluster with GPUs, else local)"
    )
    parser.add_argument("--gpu", metavar="NAME", help="a GPU of config/hardware.yaml, such as H100")
    parser.add_argument("--num-gpus", type=int, metavar="N", help="GPUs of one training (default: the cluster's)")
    parser.add_argument("--results", type=Path, default=Path("results"), metavar="FOLDER", help="default: results")
    parser.add_argument(
        "--benchmarks", type=Path, default=Path("benchmarks"), metavar="FOLDER",
        help="where Snakemake noted what stages took (default: benchmarks)",
    )  # fmt: skip
    parser.add_argument("--json", action="store_true", help="print one object")


def run(args: argparse.Namespace) -> None:
    """Print the plan."""
    import msgspec

    from aiayn.errors import UsageError
    from aiayn.hardware import read_hardware
    from aiayn.launch.cluster_spec import read_cluster
    from aiayn.plan.config import read_changed_scale
    from aiayn.plan.machine import choose_machine
    from aiayn.plan.plan import group_asked, make_plan
    from aiayn.plan.text import render_plan
    from paper_tables.evaluations import expand_baselines, expand_evaluations, read_corpora, read_systems

    if args.num_gpus is not None and args.num_gpus < 1:
        raise UsageError(f"--num-gpus {args.num_gpus}: expected 1 or more")
    scale = read_changed_scale(args.configfile, args.config)
    corpora, hardware = read_corpora(scale), read_hardware()
    asked = group_asked(
        scale,
        corpora=corpora,
        systems=read_systems(scale),
        evaluations=expand_evaluations(scale),
        num_baselines=len(expand_baselines(scale, corpora)),
    )
    cluster = read_cluster(args.cluster or scale.cluster)
    launcher = args.launcher or ("slurm" if args.cluster else None)
    machine = choose_machine(cluster, hardware, launcher=launcher, gpu=args.gpu, num_gpus=args.num_gpus)
    plan = make_plan(asked, machine, hardware, results_folder=args.results, benchmarks_folder=args.benchmarks)
    if args.json:
        print(msgspec.json.format(msgspec.json.encode(plan), indent=1).decode("utf-8"))
        return
    print(render_plan(plan), end="")
