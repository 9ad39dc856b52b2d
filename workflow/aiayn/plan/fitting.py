"""Whether trainings fit their machine: ranks that share their updates, no more Slurm jobs than are allowed.

Each answer is '' where they do; else what is wrong, a semicolon, and the next step.
"""

from collections.abc import Mapping

from aiayn.engine.fairseq_args import refuse_untrainable
from aiayn.errors import ConfigError
from aiayn.plan.machine import JobLimits, Machine
from aiayn.spec import SystemSpec

MAX_NAMED = 3


def refusal_on(system: SystemSpec, machine: Machine) -> str:
    """Return why `aiayn train` would refuse a system on a machine."""
    training = system.training
    try:
        refuse_untrainable(system.name, training)
    except ConfigError as error:
        return str(error)
    try:
        refuse_untrainable(system.name, training, num_ranks=machine.num_ranks)
    except ConfigError:
        return (
            f"{system.name}: batches_per_update {training.batches_per_update} cannot be shared by {machine.num_ranks} "
            f"ranks; {_advice_on_ranks(machine)} a divisor or a multiple of {training.batches_per_update}"
        )
    return ""


def _advice_on_ranks(machine: Machine) -> str:
    if machine.job_limits is None:
        return "give --num-gpus, and snakemake's `--set-resources train:num_ranks=N`,"
    keys = "gpus_per_node and ranks_per_node" if machine.gpu else "ranks_per_node"
    return f"set {keys} in {machine.job_limits.file} so that all ranks are"


def overrun_of(limits: JobLimits, hours_by_training: Mapping[str, float]) -> str:
    """Return which trainings take more Slurm jobs than their cluster's file allows, the longest with its numbers."""
    over = {name: hours for name, hours in hours_by_training.items() if limits.count_jobs(hours) > limits.max_num_jobs}
    if not over:
        return ""
    longest = max(over, key=lambda name: over[name])
    others = [name for name in over if name != longest]
    more = f" and {len(others) - MAX_NAMED} more" if len(others) > MAX_NAMED else ""
    named = f" (and {', '.join(others[:MAX_NAMED])}{more})" if others else ""
    in_words = f"{over[longest]:,.1f}" if over[longest] < 1000 else f"{over[longest]:,.0f}"
    return (
        f"{longest}{named}: {in_words} hours are {limits.count_jobs(over[longest]):,} jobs of "
        f"{limits.training_minutes:,g} minutes (time_limit_minutes less signal_seconds), {limits.max_num_jobs} are "
        f"allowed; raise max_num_jobs or time_limit_minutes in {limits.file}"
    )
