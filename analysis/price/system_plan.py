"""Plans the trainings of one system of a scale, and adds the command line of fairseq-train for this
system.
"""

from pathlib import Path

import msgspec

from aiayn.errors import ConfigError
from aiayn.experiment import Experiment, expand
from aiayn.spec.sheet import SheetRow
from aiayn.spec.system import CONFIG_FOLDER, ScaleSpec
from aiayn.train.fairseq_args import train_flags
from analysis.price.plan import Plan

DATA_FOLDER, SAVE_FOLDER = "DATA_BIN", "CHECKPOINTS"  # placeholders in the command line
SEED_OF_UNLISTED = 1


def expand_system(scale: ScaleSpec, name: str, config_folder: Path = CONFIG_FOLDER) -> Experiment:
    """Return the experiment of a scale with the trainings of one system only.

    A system that is not in the sheet (the list of trainings) is planned as a variant: one training
    on the first corpus.

    Raises:
        ConfigError: if the scale does not contain the system, if a file of its config is wrong, or
            if the system continues the training of a different system and the config sets the
            number of updates of all systems.
    """
    # Baselines and timings of layers are about the whole scale, and do not depend on the system.
    scale = msgspec.structs.replace(scale, has_baselines=False, has_layer_timing=False)
    listed = scale.read_rows(config_folder)
    rows = [row for row in listed if row.system == name]
    if not rows:
        variant = SheetRow(
            corpus=listed[0].corpus,
            system=name,
            seeds=(SEED_OF_UNLISTED,),
            evaluations=("last1/dev",),
            asked_by=("variants",),
            location=f"scale {scale.scale}",
        )
        rows = [variant]
    experiment = expand(scale, rows, config_folder)
    # `expand` leaves out a system that would have the updates of the system that it continues.
    if not experiment.trainings:
        shorter = experiment.system_by_name[name].begins_from
        raise ConfigError(
            f"{name}: continues the trainings of {shorter}, but with `updates={scale.updates}` both"
            f" have the same number of updates; plan {shorter}, or leave out `updates`"
        )
    return experiment


def add_commands(plan: Plan, experiment: Experiment, name: str) -> Plan:
    """Return a plan with the command line of fairseq-train for each corpus. `plan` must be the plan
    of an experiment with one system, as `expand_system` returns it.
    """
    training = experiment.system_by_name[name].training
    device = "cuda" if plan.machine.gpu else "cpu"
    command_by_corpus: dict[str, list[str]] = {}
    try:
        for row, planned in zip(plan.trainings, plan.corpora, strict=True):
            corpus = experiment.corpora[row.corpus]
            flags = train_flags(
                training,
                data_folder=DATA_FOLDER,
                source_language=corpus.source_language,
                target_language=corpus.target_language,
                is_joint=planned.is_joint,
                # The command line is that of the first seed. Other seeds differ in `--seed` only.
                seed=row.seeds[0],
                save_folder=SAVE_FOLDER,
                device=device,
            )
            command_by_corpus[row.corpus] = ["fairseq-train", *flags]
    # fairseq's own transformer may lack a setting. The plan is then printed with the reason in
    # place of a command.
    except ConfigError as error:
        return msgspec.structs.replace(plan, command_refusal=str(error))
    return msgspec.structs.replace(plan, command_by_corpus=command_by_corpus)
