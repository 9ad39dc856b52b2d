"""Says why a training could not be trained on a machine, or not within its cluster's jobs."""

from aiayn.errors import ConfigError
from aiayn.plan.machine import JobLimits, Machine
from aiayn.spec.system import SystemSpec
from aiayn.train.fairseq_args import refuse_untrainable


def why_unsupported(system: SystemSpec, machine: Machine) -> str:
    """Return why `aiayn train` would refuse a system on a machine, with the next step after a
    semicolon; '' if not.
    """
    training = system.training
    try:
        refuse_untrainable(system.name, training)
    except ConfigError as error:
        return str(error)
    try:
        refuse_untrainable(system.name, training, num_ranks=machine.num_ranks)
    except ConfigError:
        advice = "give --num-gpus, and snakemake's `--set-resources train:num_ranks=N`,"
        if machine.job_limits is not None:
            keys = "gpus_per_node and ranks_per_node" if machine.gpu else "ranks_per_node"
            advice = f"set {keys} in {machine.job_limits.file} so that all ranks are"
        return (
            f"{system.name}: batches_per_update {training.batches_per_update} cannot be shared by"
            f" {machine.num_ranks} ranks; {advice} a divisor or a multiple of"
            f" {training.batches_per_update}"
        )
    return ""


def exceeded_limit(limits: JobLimits, system: str, hours: float) -> str:
    """Return why a training needs more jobs than its cluster's file allows; '' if it does not."""
    num_jobs = limits.count_jobs(hours)
    if num_jobs <= limits.max_num_jobs:
        return ""
    in_words = f"{hours:,.1f}" if hours < 1000 else f"{hours:,.0f}"
    return (
        f"{system}: {in_words} hours are {num_jobs:,} jobs of"
        f" {limits.training_minutes:,g} minutes (time_limit_minutes less signal_seconds),"
        f" {limits.max_num_jobs} are allowed; raise max_num_jobs or time_limit_minutes in"
        f" {limits.file}"
    )
