"""Asks Slurm whether it would accept a training and one CPU job, and shows Slurm's own words.

The question is `sbatch --test-only`, which does not submit a job. For the training, the sbatch file
of its cluster is tested. For the CPU job, the `default-resources` of the Snakemake profile are
tested.
"""

import re
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from aiayn.errors import ConfigError
from aiayn.experiment import Experiment
from aiayn.launch.slurm.launcher import without_foreign_variables
from aiayn.launch.slurm.nodes import explain_refusal
from aiayn.launch.slurm.queue import SlurmError, run_slurm
from aiayn.spec.cluster import ClusterSpec
from aiayn.spec.strict_yaml import read_document
from aiayn.spec.system import CHECKOUT
from aiayn.train.request import TrainingRequest
from analysis.price.limits import cluster_file
from analysis.price.preflight.checks import Check

DEFAULT_PROFILE = CHECKOUT / "profiles" / "slurm"
TEST_ONLY = ["sbatch", "--test-only"]
SHOW_NODES = "sinfo --Node --format='%N %P %c %m %G %f %T'"
# Snakemake's Slurm executor gives sbatch these options.
OPTION_BY_RESOURCE = {
    "mem_mb": "--mem",
    "mem_mb_per_cpu": "--mem-per-cpu",
    "runtime": "--time",
    "slurm_partition": "--partition",
    "slurm_account": "--account",
    "qos": "--qos",
    "constraint": "--constraint",
}
# Snakemake also reads `1d` and expressions such as `attempt * 8000` here. sbatch does not.
NUMBERS = ("mem_mb", "mem_mb_per_cpu", "runtime")
# This matches the beginning of a line of sbatch's answer: `sbatch: Job 117 to start at
# 2026-11-20T10:00:00 ...`, `sbatch: error: Batch job submission failed: ...` or `allocation
# failure: Invalid qos ...`.
_SPEAKER = re.compile(r"^sbatch: (error: )?(Job \d+ )?|^allocation failure: ")


def check_slurm(cluster: ClusterSpec, training_text: str, profile: Path | None) -> list[Check]:
    """Return two checks: whether Slurm accepts a training with its sbatch file, and a CPU job with
    the resources of a Snakemake profile.
    """
    if shutil.which("sbatch") is None:
        advice = "start from a machine of the cluster that has it, or choose `--launcher local`"
        return [Check("slurm", "FAIL", "sbatch is not on PATH", advice)]
    # Variables such as SBATCH_TIMELIMIT overrule the lines of the file. The launcher hides them,
    # too.
    with without_foreign_variables(cluster):
        training = _ask_slurm("training", TEST_ONLY, training_text, cluster_file(cluster))
        if training.outcome == "FAIL":
            # Slurm does not say which option it rejects. `explain_refusal` compares the file with
            # the nodes.
            explained = explain_refusal(training.evidence, cluster)
            training = msgspec.structs.replace(training, next_step=explained or training.next_step)
        return [training, _check_cpu_job(profile or DEFAULT_PROFILE)]


def _check_cpu_job(profile: Path) -> Check:
    """Return the check whether Slurm accepts a CPU job with the default resources of a Snakemake
    profile. If the profile does not use Slurm, the check says so.
    """
    path = profile / "config.yaml"
    try:
        settings = read_document(path).values
    except ConfigError as error:
        advice = "correct it, or name the folder of your own: `--profile FOLDER`"
        return Check("CPU job", "FAIL", str(error), advice)
    executor = settings.get("executor")
    if executor != "slurm":
        evidence = (
            f"{path}: executor is {executor or 'not set'}: CPU rules run where snakemake does"
        )
        return Check(
            "CPU job", "WARN", evidence, "write `executor: slurm` there, to run them by Slurm"
        )
    resources = settings.get("default-resources")
    # YAML allows a list here, as `- mem_mb=4000`. Such a profile is tested without its resources.
    options = sbatch_options(resources if isinstance(resources, dict) else {})
    return _ask_slurm("CPU job", [*TEST_ONLY, "--ntasks=1", *options], "#!/bin/sh\n", str(path))


def sbatch_options(resources: Mapping[str, Any]) -> list[str]:
    """Return the options of sbatch for the default resources of a Snakemake profile."""
    # A value that only Snakemake can compute is left out, so the test may miss a limit.
    options = []
    for name, option in OPTION_BY_RESOURCE.items():
        value = str(resources.get(name, ""))
        if value and (name not in NUMBERS or value.isdecimal()):
            options.append(f"{option}={value}")
    return options


def _ask_slurm(name: str, command: list[str], text: str, file: str) -> Check:
    """Return the result of the check whether Slurm accepts a job, from the answer of `sbatch
    --test-only`.
    """
    requested = " ".join(command[len(TEST_ONLY) :])
    prefix = f"{requested}: " if requested else ""
    try:
        # With --test-only, sbatch writes its answer to stderr, also if it accepts the job.
        answer = run_slurm(command, text).stderr
    except SlurmError as error:
        # Slurm's controller does not answer, which says nothing about the job.
        if not error.has_answered:
            return Check(
                name, "FAIL", "sbatch does not answer", "repeat it when `squeue --me` answers"
            )
        advice = f"request what Slurm has, in {file}; `{SHOW_NODES}` shows what nodes have"
        return Check(name, "FAIL", prefix + _in_own_words(error.reason), advice)
    return Check(name, "OK", prefix + _in_own_words(answer))


def _in_own_words(answer: str) -> str:
    # Two lines may be equal without their beginnings. They are shown once.
    lines = [_SPEAKER.sub("", line) for line in answer.splitlines()]
    return "; ".join(dict.fromkeys(lines))


def preflight_request(experiment: Experiment, cluster: ClusterSpec) -> TrainingRequest:
    """Return a request to train the config's first system. In this request the paths of the data
    and the commit of the code are empty.

    The request is only used to write the sbatch file, which depends on the cluster and not on the
    data or the code.
    """
    system = next(iter(experiment.system_by_name.values()))
    run_folder = Path(experiment.scale.runs_folder).absolute() / "preflight"
    return TrainingRequest(
        run=run_folder.name,
        run_folder=str(run_folder),
        corpus=next(iter(experiment.corpora)),
        system=system.name,
        seed=1,
        training=system.training,
        binarized_path="",
        num_models=1,
        num_ranks=cluster.num_ranks,
        threads_per_rank=cluster.threads_per_rank,
        commit="",
        command="",
        data_folder="",
        source_language="",
        target_language="",
        is_joint=True,
    )
