"""Determines the state of each training of a scale (a size of the experiment), from the record of
the training or from the state of its run.

A training is identified by its corpus, system and seed. A training that has a record is finished.
If a training does not have a record, `aiayn.runs.status` determines its state. The verb `aiayn
status` uses the same module, so it shows the same state as the tables.
"""

from collections.abc import Mapping
from pathlib import Path

import msgspec

from aiayn.records import TrainRecord, is_trained_as
from aiayn.runs.names import folders_of_training
from aiayn.runs.queue import Queues
from aiayn.runs.status import RunStatus, read_statuses
from aiayn.spec.sheet import TrainingKey
from aiayn.spec.system import TrainingSpec


def recorded_status(train: TrainRecord, training: TrainingSpec) -> RunStatus:
    """Return the state of a training that has a record: finished, or outdated if the settings have
    changed since.
    """
    status = RunStatus(
        state="finished", run=train.run, update=train.updates, updates=training.updates
    )
    if is_trained_as(train, training):
        return status
    reason = "trained with another spec than the present config's; run `snakemake`"
    return msgspec.structs.replace(status, state="outdated", reason=reason)


def unrecorded_statuses(
    training_by_key: Mapping[TrainingKey, TrainingSpec], runs_folder: Path, queues: Queues
) -> dict[TrainingKey, RunStatus]:
    """Return the state of each training without a record. The state of a training is the state of
    its newest run.

    The states of all runs are read together, so each queue of jobs is queried only once.
    """
    key_by_folder = {}
    for key in training_by_key:
        for folder in folders_of_training(runs_folder, key):
            key_by_folder[str(folder)] = key
    newest: dict[TrainingKey, RunStatus] = {}
    for status in read_statuses([Path(folder) for folder in sorted(key_by_folder)], queues):
        key = key_by_folder[status.run_folder]
        if key not in newest or _age_key(status) >= _age_key(newest[key]):
            newest[key] = status
    status_by_key = {}
    # A training of the sheet without a run has the state `missing`, which is not an error.
    for key, training in training_by_key.items():
        status = newest.get(key, RunStatus(state="missing", run="", reason="not begun"))
        reason = status.reason
        # `aiayn train` copies the record of a run into the results. It was killed before, or never
        # ran here.
        if status.state == "done":
            reason = "its record is missing; run `snakemake`"
        elif status.state == "running" and not reason:
            reason = f"job {status.job} on {status.host}"
        status_by_key[key] = msgspec.structs.replace(
            status,
            state="not recorded" if status.state == "done" else status.state,
            reason=reason,
            update=status.update or 0,
            updates=training.updates,
        )
    return status_by_key


def _age_key(status: RunStatus) -> tuple[bool, str]:
    """Return the sort key of the runs of one training. A run that trains or waits for its turn
    counts as the newest.
    """
    return status.is_alive, status.events[-1].time if status.events else ""
