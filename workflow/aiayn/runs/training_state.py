"""Says what state each training of a scale is in: by its record, or by its run's own state.

A training is a corpus, a system and a seed. One that has a record needs no other evidence. For
all others `aiayn.runs.status` decides, so `aiayn status` and the tables give one answer.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Literal

import msgspec

from aiayn.records import TrainRecord, is_trained_as
from aiayn.runs.queue import Queues
from aiayn.runs.status import RunStatus, State, read_statuses
from aiayn.spec.system import TrainingSpec

TrainingKey = tuple[str, str, int]  # corpus, system, seed
TrainingStatus = Literal["finished", "outdated", "not recorded", "missing"] | State


class TrainingState(msgspec.Struct, frozen=True, kw_only=True):
    """The state of a training. `reason` says why it is not finished.

    `finished` has a record of the present spec, and `outdated` a record of another one. `not
    recorded` is done, but its record is not there. `missing` has never begun. Any other status is
    that of its run. `update` is the newest update that is
    known, out of `updates`.
    """

    status: TrainingStatus
    run: str
    update: int
    updates: int
    reason: str = ""


def recorded_state(train: TrainRecord, training: TrainingSpec) -> TrainingState:
    """Return the state of a training that has a record: finished, or outdated."""
    state = TrainingState(
        status="finished", run=train.run, update=train.updates, updates=training.updates
    )
    if is_trained_as(train, training):
        return state
    reason = "trained with another spec than the present config's; run `snakemake`"
    return msgspec.structs.replace(state, status="outdated", reason=reason)


def read_run_states(
    training_by_key: Mapping[TrainingKey, TrainingSpec], runs_folder: Path, queues: Queues
) -> dict[TrainingKey, TrainingState]:
    """Return the state of each training that has no record, by its newest run.

    All runs are read together, so each queue is asked once.
    """
    key_by_folder = {}
    for key in training_by_key:
        corpus, system, seed = key
        for folder in runs_folder.glob(f"{corpus}-{system}-seed{seed}-*"):
            key_by_folder[str(folder)] = key
    newest: dict[TrainingKey, RunStatus] = {}
    for status in read_statuses([Path(folder) for folder in sorted(key_by_folder)], queues):
        key = key_by_folder[status.run_folder]
        if key not in newest or _age_key(status) >= _age_key(newest[key]):
            newest[key] = status
    state_by_key = {}
    for key, training in training_by_key.items():
        state = TrainingState(
            status="missing", run="", update=0, updates=training.updates, reason="not begun"
        )
        if key in newest:
            state = _state_of_run(newest[key], training.updates)
        state_by_key[key] = state
    return state_by_key


def _age_key(status: RunStatus) -> tuple[bool, str]:
    """Return what sorts the runs of one training: a run that is alive is the newest."""
    return status.is_alive, status.events[-1].time if status.events else ""


def _state_of_run(status: RunStatus, updates: int) -> TrainingState:
    """Return the state of a training from its run, which has no record yet."""
    word: TrainingStatus = status.state
    reason = status.reason
    if word == "done":
        word, reason = "not recorded", "its record is missing; run `snakemake`"
    elif word == "running" and not reason:
        reason = f"job {status.job} on {status.host}"
    return TrainingState(
        status=word,
        run=status.run,
        update=status.update or 0,
        updates=updates,
        reason=reason,
    )
