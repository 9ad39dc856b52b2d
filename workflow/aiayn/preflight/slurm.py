"""Has Slurm what trainings and CPU rules ask for? Said by sinfo, scontrol and sacctmgr, before a job waits for ever.

Trainings are asked for by the cluster's file, CPU rules by the profile. Nothing is submitted. Accounting that does not
answer is not known, and no fault.
"""

import re
import shutil
from collections.abc import Collection
from pathlib import Path

from aiayn.errors import ConfigError
from aiayn.launch.cluster_spec import ClusterSpec
from aiayn.preflight.asked_job import training_job
from aiayn.preflight.checks import Check, doubtful, failed, passed
from aiayn.preflight.cpu_rules import RULES_FOLDER, read_cpu_rules
from aiayn.preflight.profile import Profile, read_profile
from aiayn.preflight.slurm_accounting import check_accounts, read_accounting
from aiayn.preflight.slurm_answers import ask
from aiayn.preflight.slurm_limits import check_limits
from aiayn.preflight.slurm_nodes import check_rule_nodes, check_training_nodes, list_nodes

COMMANDS = ("sbatch", "srun", "squeue", "scancel", "scontrol", "sinfo")
# Snakemake's executor looks at its jobs up to so many seconds apart: one that squeue forgets between two looks is never
# seen to end, and Snakemake waits for ever.
SECONDS_BETWEEN_LOOKS = 180
_MIN_JOB_AGE = re.compile(r"^MinJobAge\s*=\s*(?P<seconds>\d+)", re.MULTILINE)


def check_slurm(
    cluster: ClusterSpec, profile_folder: Path | None = None, *, unused_rules: Collection[str] = ()
) -> list[Check]:
    """Return what is known of the Slurm that a cluster's file and a profile (the checkout's, if None) ask.

    `unused_rules` are those that a config needs no job of.
    """
    profile, profile_checks = _read_profile(profile_folder, unused_rules)
    missing = [command for command in COMMANDS if shutil.which(command) is None]
    if missing:
        advice = "start from a machine of the cluster that has Slurm's commands, or choose `--launcher local`"
        return [*profile_checks, failed("slurm", f"not on PATH: {', '.join(missing)}", advice)]
    nodes = list_nodes()
    if nodes is None:
        advice = "run this on a login node, where `sinfo` answers; what it says there is for the administrator"
        return [*profile_checks, failed("slurm", "sinfo does not answer", advice)]
    config = ask(["scontrol", "show", "config"]) or ""
    accounting = read_accounting(config)
    rule_jobs = profile.jobs if profile else []
    jobs = [training_job(cluster), *rule_jobs]
    num_jobs, path = (profile.num_jobs, profile.path) if profile else (None, "")
    return [
        *check_training_nodes(cluster, nodes),
        *profile_checks,
        *(check_rule_nodes(rule_jobs, nodes, path) if rule_jobs else []),
        *check_accounts(jobs, accounting),
        *check_limits(jobs, nodes, accounting, num_jobs=num_jobs, profile=path),
        _check_min_job_age(config),
    ]


def _read_profile(folder: Path | None, unused_rules: Collection[str]) -> tuple[Profile | None, list[Check]]:
    """Return the profile, None where its CPU rules are no Slurm jobs or it cannot be read and what is wrong with it."""
    rules = read_cpu_rules()
    try:
        profile = read_profile(folder, rules, unused=unused_rules)
    except ConfigError as error:
        return None, [failed("profile", str(error), "name the folder of your own: `--profile FOLDER`")]
    checks = []
    if profile.launcher != "slurm":
        advice = "write `set-resources: {train: {launcher: slurm}}` there, or choose `--launcher local`"
        said = f"launcher of train is {profile.launcher or 'not set'}: trainings would run where snakemake does"
        checks.append(doubtful("profile", f"{profile.path}: {said}", advice))
    if profile.executor != "slurm":
        said = f"executor is {profile.executor or 'not set'}: CPU rules would run where snakemake does"
        checks.append(
            doubtful("profile", f"{profile.path}: {said}", "write `executor: slurm` there, if Slurm is to run them")
        )
        return None, checks
    if not rules:
        advice = "run from a checkout, or compare the profile with sinfo yourself"
        checks.append(
            doubtful("profile", f"{RULES_FOLDER}: no rule files: what CPU rules ask for is not known", advice)
        )
    if profile.unread:
        advice = "write plain numbers, or compare them with `sinfo` yourself"
        checks.append(doubtful("profile", f"not known, no plain numbers: {'; '.join(profile.unread)}", advice))
    return profile, checks


def _check_min_job_age(config: str) -> Check:
    """Say whether squeue shows an ended job long enough to be seen; Slurm's default is 300 s, and 0 is for ever."""
    found = _MIN_JOB_AGE.search(config)
    if found is None:
        advice = f"ask the administrator whether it is {SECONDS_BETWEEN_LOOKS} s or more"
        return doubtful("MinJobAge", "not known, `scontrol show config` does not tell", advice)
    seconds = int(found["seconds"])
    evidence = f"squeue shows an ended job {f'for {seconds} s' if seconds else 'for ever'}"
    if 0 < seconds < SECONDS_BETWEEN_LOOKS:
        advice = "ask the administrator for MinJobAge=300; until then run CPU rules on this machine: `--executor local`"
        evidence += f", below the {SECONDS_BETWEEN_LOOKS} s between two looks: Snakemake would wait for ever"
        return failed("MinJobAge", evidence, advice)
    return passed("MinJobAge", evidence)
