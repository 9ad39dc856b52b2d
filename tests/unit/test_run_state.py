"""How a run stands is decided from what is known of it; what cannot be known is said to be unknown."""

import msgspec
import pytest

from aiayn.runs.attempts import LOST_REASON, Event
from aiayn.runs.queue import QueuedJob
from aiayn.runs.status import Evidence, judge_state
from tests.run_folders import at, ended, started, submitted

JOB = submitted("slurm", "22", minutes=1)
ON_N1 = started(1, 2, job="22", host="n1")
STOPPED: list[Event] = [started(1, 0, job="21"), ended(1, 5, "stopped", reason="asked")]
FAILED: list[Event] = [started(1, 0, job="21"), ended(1, 5, "failed", reason="no space")]
NOTHING = Evidence(
    events=[], jobs=[], queued=None, has_rank=False, has_driver=False, host="here", now=at(60),
    last_activity=None,
)  # fmt: skip
FORGOTTEN = msgspec.structs.replace(
    NOTHING, asked="squeue", events=[ON_N1], jobs=[JOB], queued=[], last_activity=at(59)
)
YOUNG = msgspec.structs.replace(
    FORGOTTEN, events=[], jobs=[submitted("slurm", "22", minutes=59)], has_driver=True
)
UNSEEN = "its lock cannot be seen from here; last activity 60 s ago"
NOT_SEEN = ("unknown", f"squeue does not know of job 22; on n1, {UNSEEN}")
NEXT, JOB_21 = [submitted("local", "22", minutes=6)], [submitted("slurm", "21")]
RANK_3 = "rank 3: no space"


def queued(state: str, **changes: object) -> list[QueuedJob]:
    """Return a queue with one job of the run."""
    return [msgspec.convert({"job": "22", "state": state, "name": "run"} | changes, QueuedJob)]


@pytest.mark.parametrize(
    ("known", "changes", "expected"),
    [
        # Without a queue: locks and processes of this machine, then the run's own events.
        (NOTHING, {"has_driver": True}, ("queued", "starting")),
        (NOTHING, {"has_rank": True}, ("running", "")),
        (NOTHING, {}, ("lost", "its driver ended before it submitted a job")),
        (NOTHING, {"events": STOPPED, "has_driver": True}, ("stopped", "asked")),
        (NOTHING, {"events": STOPPED[:1], "has_driver": True}, ("queued", "starting")),
        (NOTHING, {"events": STOPPED, "has_driver": True, "jobs": NEXT}, ("queued", "starting")),
        (NOTHING, {"events": [started(1, 0)], "rank_error": RANK_3}, ("failed", RANK_3)),
        (
            NOTHING,
            {"events": STOPPED, "jobs": NEXT, "rank_error": RANK_3},
            ("failed", f"job 22, before it began an attempt: {RANK_3}"),
        ),
        (
            NOTHING,
            {"events": [started(1, 0, host="there")], "last_activity": at(59)},
            ("unknown", f"on there, {UNSEEN}"),
        ),
        (
            NOTHING,
            {"events": [started(1, 0, host="there")], "last_activity": at(30)},
            ("lost", LOST_REASON),
        ),
        # With a queue that shows a job.
        (FORGOTTEN, {"queued": queued("waiting", reason="Priority")}, ("queued", "Priority")),
        (
            FORGOTTEN,
            {"queued": queued("waiting", reason="Held", is_stuck=True)},
            ("queued", "Held, waits for a person"),
        ),
        (FORGOTTEN, {"queued": queued("running")}, ("running", "")),
        (FORGOTTEN, {"queued": queued("running", reason="COMPLETING")}, ("running", "COMPLETING")),
        (
            FORGOTTEN,
            {"queued": [*queued("waiting", reason="Dependency"), *queued("running")]},
            ("running", ""),
        ),
        (
            FORGOTTEN,
            {"queued": queued("waiting", reason="held"), "has_rank": True},
            ("running", "though squeue shows job 22 as waiting: held"),
        ),
        (
            FORGOTTEN,
            {"queued": queued("ended", ending="cancelled")},
            ("cancelled", "job 22 was cancelled"),
        ),
        (
            FORGOTTEN,
            {"queued": queued("ended", ending="other")},
            ("lost", LOST_REASON),
        ),  # the queue knows
        # With a queue that shows none: a controller that was killed forgets the jobs of its last
        # seconds.
        (FORGOTTEN, {"has_rank": True}, ("running", "squeue does not know of its job")),
        (FORGOTTEN, {}, NOT_SEEN),
        (FORGOTTEN, {"has_driver": True}, NOT_SEEN),
        (FORGOTTEN, {"last_activity": at(30)}, ("lost", LOST_REASON)),
        (FORGOTTEN, {"host": "n1"}, ("lost", LOST_REASON)),  # its lock would be seen
        (FORGOTTEN, {"host": "n1", "has_locks": False}, NOT_SEEN),
        (FORGOTTEN, {"events": STOPPED, "jobs": JOB_21}, ("stopped", "asked")),
        (FORGOTTEN, {"events": FAILED, "jobs": JOB_21}, ("failed", "no space")),
        (
            FORGOTTEN,
            {"events": FAILED, "jobs": [submitted("slurm", "22", minutes=9)]},
            ("lost", "job 22 ended before it began an attempt"),
        ),
        (YOUNG, {}, ("unknown", "squeue does not know of job 22, which was submitted 60 s ago")),
        (
            YOUNG,
            {"queued": queued("ended", ending="failed")},
            ("queued", "its driver is about to submit a job"),
        ),
        (
            YOUNG,
            {"jobs": [JOB], "has_driver": False},
            ("lost", "job 22 ended before it began an attempt"),
        ),
        # With a queue that does not answer.
        (
            FORGOTTEN,
            {"queued": None},
            ("unknown", "squeue does not answer; job 22 may wait, run or be gone"),
        ),
        (FORGOTTEN, {"queued": None, "has_rank": True}, ("running", "squeue does not answer")),
        (FORGOTTEN, {"queued": None, "events": FAILED, "jobs": JOB_21}, ("failed", "no space")),
    ],
)
def test_the_state_of_a_run(
    known: Evidence, changes: dict[str, object], expected: tuple[str, str]
) -> None:
    assert judge_state(msgspec.structs.replace(known, **changes)) == expected
