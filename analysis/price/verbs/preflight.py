"""Check what a config needs before it is started: config, precision, Slurm jobs, mirrors, disk
space, versions.

Without --launcher, Slurm is checked at the paper's scale or if a cluster is selected (--cluster,
--config cluster=NAME). If Slurm is not checked, this machine is checked. `sbatch --test-only` asks
Slurm whether it accepts a training, as in the cluster file, and one CPU job, with the default
resources of the Snakemake profile.

Each check prints OK, WARN or FAIL, what the check found, and what to do next. Nothing is
downloaded, written or submitted, except the job of --train and its folder in the runs folder. The
exit code is 1 if any check fails.
"""

from pathlib import Path
from typing import TYPE_CHECKING

from aiayn.cli.flags import ARCHIVES_FOLDER, choose_archives, flag
from aiayn.errors import AiaynError, UsageError
from aiayn.terminal import json_text
from analysis.price.config import ConfigFlags, plan_config

if TYPE_CHECKING:
    from analysis.price.preflight.checks import Check

EXAMPLE = (
    "aiayn preflight --configfile workflow/config/paper.yaml --launcher slurm --profile"
    " profiles/slurm"
)


# If one of these checks has failed, no trial is submitted. The checks of mirrors and disk are not
# among them, because the trial makes its own small data.
TRIAL_NEEDS = ("slurm", "training", "trainings", "packages", "torch")


class Flags(ConfigFlags):
    profile: Path | None = flag(
        "for Slurm: the profile that you give snakemake (default: the checkout's profiles/slurm)",
        "FOLDER",
    )
    train: bool = flag(
        "also submit one job that tries the nodes in minutes, on made-up data: collectives, TERM"
        " and resume, one rank against all, milliseconds an update"
    )
    wait: float = flag(
        "cancel the job of --train if it waits longer in the queue (default: 30)",
        "MINUTES",
        default=30.0,
    )
    archives_folder: Path | None = ARCHIVES_FOLDER
    json: bool = flag("print a JSON list of objects")


def run(args: Flags) -> None:
    """Print the results of all checks. The verb fails if any check fails.

    Raises:
        UsageError: if --profile or --train is given, but the config does not run trainings on
            Slurm.
        AiaynError: if any check fails.
    """
    from analysis.price.preflight.checks import render_checks

    checks = _gather_checks(args)
    print(json_text(checks) if args.json else render_checks(checks), end="", flush=True)
    num_failed = sum(check.outcome == "FAIL" for check in checks)
    if num_failed:
        raise AiaynError(
            f"{args.configfile}: {num_failed} of {len(checks)} checks failed; each says what to do"
            " next"
        )


def _gather_checks(args: Flags) -> list["Check"]:
    """Return the results of all checks, or only the check of the config if the config cannot be
    read.
    """
    # These imports are here, so that `aiayn help preflight` does not wait for requests and scipy.
    from aiayn.data.sources.download import named_mirror
    from aiayn.launch.slurm.launcher import sbatch_text
    from aiayn.launch.slurm.nodes import with_node_cpus
    from analysis.price.preflight import checks as preflight
    from analysis.price.preflight.checks import Check
    from analysis.price.preflight.mirrors import check_mirrors
    from analysis.price.preflight.slurm import check_slurm, preflight_request

    try:
        experiment, cluster, launcher, plan = plan_config(args)
        mirror = named_mirror(experiment.scale.mirror)
    except AiaynError as error:
        advice = "correct it first: the rest of the config was not checked"
        return [Check("config", "FAIL", str(error), advice)]
    # Without Slurm these two flags would silently do nothing.
    if args.train and launcher != "slurm":
        raise UsageError("--train submits a job to Slurm; add `--launcher slurm`")
    if args.profile is not None and launcher != "slurm":
        raise UsageError(
            f"--profile {args.profile}: is for Slurm, and this machine is checked; add `--launcher"
            " slurm`"
        )
    num_corpora, num_systems = len(experiment.corpora), len(experiment.system_by_name)
    evidence_read = (
        f"{experiment.scale.scale}: {num_corpora} corpora, {num_systems} systems, cluster"
        f" {cluster.name}"
    )
    archives = choose_archives(args.archives_folder)
    checks = [Check("config", "OK", evidence_read), *preflight.check_plan(plan)]
    checks += check_mirrors(experiment.corpora, mirror=mirror, archives_folder=archives)
    checks += preflight.check_space(
        plan,
        experiment,
        results_folder=args.results,
        archives_folder=archives,
    )
    if launcher == "slurm":
        # This is the sbatch file of a real training, so Slurm tests exactly what would be
        # submitted.
        cluster = with_node_cpus(cluster)
        request = preflight_request(experiment, cluster)
        text = sbatch_text(request, cluster, request.folder.path)
        checks += check_slurm(cluster, text, args.profile)
    checks.append(preflight.check_packages(launcher))
    checks += preflight.check_torch_build(plan.machine.gpu)
    # A job that must fail would only waste its time in the queue.
    needed = [check for check in checks if check.name in TRIAL_NEEDS]
    if args.train and any(check.outcome == "FAIL" for check in needed):
        advice = "correct the failed checks first, then repeat it"
        checks.append(Check("trial", "WARN", "--train: no job was submitted", advice))
    elif args.train:
        from analysis.price.preflight.trial import try_training

        checks += try_training(experiment, cluster, plan, wait_minutes=args.wait)
    return checks
