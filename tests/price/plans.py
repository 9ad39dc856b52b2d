"""Plans of the project's own scales."""

from pathlib import Path

import msgspec

from aiayn.experiment import read_experiment
from aiayn.plan.machine import Machine
from aiayn.spec.system import ScaleSpec
from analysis.price.machines import choose_machine
from analysis.price.plan import Plan, make_plan
from tests.planned_scales import HARDWARE, PLAIN

P100 = choose_machine(PLAIN, HARDWARE, launcher="slurm", gpu="P100", num_gpus=None)
H100 = choose_machine(PLAIN, HARDWARE, launcher="slurm", gpu="H100", num_gpus=None)


def plan_of(scale: ScaleSpec, folder: Path, machine: Machine = P100) -> Plan:
    """Return a scale's plan, with its folders below `folder`."""
    here = msgspec.structs.replace(scale, runs_folder=str(folder / "runs"))
    return make_plan(read_experiment(here), machine, HARDWARE, folder / "results")


def hours_of(plan: Plan, system: str, corpus: str = "wmt14_en_de") -> float:
    """Return the predicted hours of a row."""
    (row,) = [one for one in plan.trainings if (one.system, one.corpus) == (system, corpus)]
    return row.hours
