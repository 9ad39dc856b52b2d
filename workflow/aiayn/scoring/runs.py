"""Finds the state of a training from its record and its attempts, also while it is running."""

from pathlib import Path
from typing import Literal

import msgspec

from aiayn.records import TrainRecord, is_trained_as
from aiayn.runs.attempts import DONE_NAME, LOG_NAME, Event, Started, read_events
from aiayn.runs.log import read_log_tail
from aiayn.spec.system import TrainingSpec

Status = Literal["finished", "outdated", "running", "failed", "stopped", "lost", "missing"]
STATUS_BY_OUTCOME: dict[str, Status] = {
    "failed": "failed",
    "stopped": "stopped",
    "cancelled": "stopped",
}


class RunState(msgspec.Struct, frozen=True, kw_only=True):
    """The state of a training; `reason` says why it is not finished.

    `update` is the newest known update out of `updates`. A `running` training has started but not
    ended; a killed run also has this state until its next attempt. An `outdated` run was trained
    with another spec than the present config's.
    """

    status: Status
    run: str
    update: int
    updates: int
    reason: str = ""


def find_run_state(
    corpus: str,
    system: str,
    seed: int,
    *,
    training: TrainingSpec,
    train: TrainRecord | None,
    runs_folder: Path,
) -> RunState:
    """Return the state of a training, by its record or else its newest attempt in `runs_folder`.

    Raises:
        RecordError: if a line of an attempts.jsonl is not an event.
    """
    if train is not None:
        status: Status = "finished"
        reason = ""
        if not is_trained_as(train, training):
            status = "outdated"
            reason = "trained with another spec than the present config's; run `snakemake`"
        return RunState(
            status=status,
            run=train.run,
            update=train.updates,
            updates=training.updates,
            reason=reason,
        )
    folders = sorted(runs_folder.glob(f"{corpus}-{system}-seed{seed}-*"))
    folder_events = [(folder, read_events(folder)) for folder in folders]
    begun = [(events[-1].time, folder, events) for folder, events in folder_events if events]
    if not begun:
        return RunState(
            status="missing", run="", update=0, updates=training.updates, reason="not begun"
        )
    _, folder, events = max(begun, key=lambda entry: entry[:2])
    return _state_of_attempts(folder, events, training.updates)


def _state_of_attempts(folder: Path, events: list[Event], updates: int) -> RunState:
    last = events[-1]
    update = last.update
    status: Status = "running"
    if (folder / DONE_NAME).exists() or (not isinstance(last, Started) and last.outcome == "done"):
        status, reason = "finished", "its record is missing; run `snakemake`"
    elif isinstance(last, Started):
        log = read_log_tail(folder / LOG_NAME)
        update = max(update, (log and log.update) or 0)
        reason = f"attempt {last.attempt} on {last.host} began {last.time}, no end recorded"
    else:
        status, reason = STATUS_BY_OUTCOME.get(last.outcome, "lost"), last.reason
    return RunState(status=status, run=folder.name, update=update, updates=updates, reason=reason)
