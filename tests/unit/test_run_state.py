"""How a run stands is decided from what is known of it. What cannot be known is said to be unknown."""

from typing import Any

import msgspec
import pytest

from aiayn.runs.attempts import Event
from aiayn.runs.queue import QueuedJob
from aiayn.runs.run_folder import SubmittedJob
from aiayn.runs.status import Evidence, judge_state
from tests.case_tables import read_cases
from tests.run_folders import at, ended, started, submitted

EVENTS: dict[str, list[Event]] = {
    "begun": [started(1, 0)],
    "begun elsewhere": [started(1, 0, host="there")],
    "on n1": [started(1, 2, job="22", host="n1")],
    "stopped": [started(1, 0, job="21"), ended(1, 5, "stopped", reason="asked")],
    "failed": [started(1, 0, job="21"), ended(1, 5, "failed", reason="no space")],
}
JOBS: dict[str, list[SubmittedJob]] = {
    "former": [submitted("slurm", "21")],
    "early": [submitted("slurm", "22", minutes=1)],
    "next": [submitted("local", "22", minutes=6)],
    "later": [submitted("slurm", "22", minutes=9)],
    "youngest": [submitted("slurm", "22", minutes=59)],
}
NOTHING = Evidence(
    events=[], jobs=[], queued=None, has_rank=False, has_driver=False, host="here", now=at(60),
    last_activity=None,
)  # fmt: skip
SILENT = msgspec.structs.replace(
    NOTHING,
    queue_command="squeue",
    events=EVENTS["on n1"],
    jobs=JOBS["early"],
    last_activity=at(59),
)
FORGOTTEN = msgspec.structs.replace(SILENT, queued=[])
YOUNG = msgspec.structs.replace(FORGOTTEN, events=[], jobs=JOBS["youngest"], has_driver=True)
KNOWN = {"nothing": NOTHING, "silent": SILENT, "forgotten": FORGOTTEN, "young": YOUNG}


def change(key: str, value: Any) -> dict[str, object]:
    """Return a change to the evidence, as a row's key and value state it."""
    match key:
        case "events":
            return {key: EVENTS[value]}
        case "jobs":
            return {key: JOBS[value]}
        case "last_activity":
            return {key: at(value)}
        case "queue":
            return {"queued": [msgspec.convert({"job": "22", **job}, QueuedJob) for job in value]}
    return {key: value}


@pytest.mark.parametrize("case", read_cases("run_states.toml"), ids=lambda case: case["reason"])
def test_the_state_of_a_run(case: dict[str, Any]) -> None:
    known = KNOWN[case["known"]]
    for key, value in case.items():
        if key not in ("known", "state", "reason"):
            known = msgspec.structs.replace(known, **change(key, value))
    assert judge_state(known) == (case["state"], case["reason"])
