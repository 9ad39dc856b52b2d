"""Says why a training could not be trained on a machine, or not within its cluster's jobs."""

from collections.abc import Mapping

from aiayn.errors import ConfigError
from aiayn.plan.machine import JobLimits, Machine
from aiayn.spec.system import SystemSpec
from aiayn.train.fairseq_args import refuse_untrainable

MAX_NAMED = 3  # of trainings that take too many jobs


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


def exceeded_limit(limits: JobLimits, hours_by_training: Mapping[str, float]) -> str:
    """Return which trainings need more jobs than their cluster's file allows, the longest first; ''
    for none.
    """
    over = {
        name: hours
        for name, hours in hours_by_training.items()
        if limits.count_jobs(hours) > limits.max_num_jobs
    }
    if not over:
        return ""
    longest = max(over, key=lambda name: over[name])
    others = [name for name in over if name != longest]
    more = f" and {len(others) - MAX_NAMED} more" if len(others) > MAX_NAMED else ""
    named = f" (and {', '.join(others[:MAX_NAMED])}{more})" if others else ""
    in_words = f"{over[longest]:,.1f}" if over[longest] < 1000 else f"{over[longest]:,.0f}"
    return (
        f"{longest}{named}: {in_words} hours are {limits.count_jobs(over[longest]):,} jobs of"
        f" {limits.training_minutes:,g} minutes (time_limit_minutes less signal_seconds),"
        f" {limits.max_num_jobs} are allowed; raise max_num_jobs or time_limit_minutes in"
        f" {limits.file}"
    )
