"""How a run stands is decided from what is known of it; what cannot be known is said to be unknown."""

import msgspec
import pytest

from aiayn.runs.queue import QueuedJob
from aiayn.runs.status import Evidence, judge_state
from tests.run_folders import at, ended, started, submitted

SLURM_JOB = submitted("slurm", "22", minutes=1)
ON_SLURM = started(1, 2, job="22", host="n1")
NOTHING = Evidence(
    events=[], jobs=[], queued=None, has_rank=False, has_driver=False, has_local_job=False, host="here", now=at(60),
    last_activity=None,
)  # fmt: skip


def known(**changes: object) -> Evidence:
    return msgspec.structs.replace(NOTHING, **changes)


def queued(state: str, job: str = "22", reason: str = "None") -> QueuedJob:
    return QueuedJob(job=job, state=state, reason=reason, node="", time_left="1:00", name="run")


@pytest.mark.parametrize("sign", ["has_driver", "has_local_job"])
def test_a_local_run_without_a_rank_yet_is_starting(sign: str) -> None:
    assert judge_state(known(**{sign: True})) == ("queued", "starting")


def test_a_driver_that_still_runs_after_the_end_changes_nothing() -> None:
    events = [started(1, 0, job="21"), ended(1, 5, "stopped", reason="asked")]
    assert judge_state(known(events=events, has_driver=True)) == ("stopped", "asked")
    assert judge_state(known(events=events[:1], has_driver=True)) == ("queued", "starting")
    jobs = [submitted("local", "21"), submitted("local", "22", minutes=6)]
    assert judge_state(known(events=events, jobs=jobs, has_driver=True)) == ("queued", "starting")


def test_a_failure_before_the_newest_job_does_not_decide() -> None:
    events = [started(1, 0, job="21"), ended(1, 5, "failed", reason="no space")]
    jobs = [submitted("slurm", "21"), submitted("slurm", "22", minutes=9)]
    assert judge_state(known(events=events, jobs=jobs[:1], queued=[])) == ("failed", "no space")
    assert judge_state(known(events=events, jobs=jobs, queued=[]))[0] == "lost"


@pytest.mark.parametrize(
    ("state", "reason", "expected"),
    [
        ("PENDING", "Priority", ("queued", "Priority")),
        ("PENDING", "JobHeldUser", ("queued", "JobHeldUser, waits for a person")),
        ("REQUEUE_HOLD", "None", ("queued", "REQUEUE_HOLD, waits for a person")),
        ("RUNNING", "None", ("running", "")),
        ("COMPLETING", "None", ("running", "COMPLETING")),
        ("CANCELLED", "None", ("cancelled", "job 22 was cancelled")),
    ],
)
def test_squeues_state_decides(state: str, reason: str, expected: tuple[str, str]) -> None:
    one = queued(state, reason=reason)
    assert judge_state(known(events=[ON_SLURM], jobs=[SLURM_JOB], queued=[one])) == expected


def test_of_two_jobs_the_running_one_is_shown() -> None:
    both = [queued("RUNNING"), queued("PENDING", job="23", reason="Dependency")]
    assert judge_state(known(events=[ON_SLURM], jobs=[SLURM_JOB], queued=both)) == ("running", "")


def test_without_a_job_in_the_queue_the_runs_own_events_decide() -> None:
    assert judge_state(known(events=[ON_SLURM], jobs=[SLURM_JOB], queued=[]))[0] == "lost"
    events = [ON_SLURM, ended(1, 5, "stopped", reason="asked by SIGUSR2")]
    assert judge_state(known(events=events, jobs=[SLURM_JOB], queued=[])) == ("stopped", "asked by SIGUSR2")


def test_a_job_that_squeue_has_lost_and_whose_lock_is_not_seen_is_unknown_while_it_is_active() -> None:
    forgotten = known(events=[ON_SLURM], jobs=[SLURM_JOB], queued=[], last_activity=at(59))
    expected = (
        "unknown",
        "squeue does not know of job 22; on n1, its lock cannot be seen from here; last activity 60 s ago",
    )
    assert judge_state(forgotten) == expected
    assert judge_state(msgspec.structs.replace(forgotten, has_driver=True)) == expected
    assert judge_state(msgspec.structs.replace(forgotten, last_activity=at(30)))[0] == "lost"
    assert judge_state(msgspec.structs.replace(forgotten, host="n1"))[0] == "lost"  # its lock would be seen
    assert judge_state(msgspec.structs.replace(forgotten, host="n1", has_locks=False))[0] == "unknown"
    assert judge_state(msgspec.structs.replace(forgotten, queued=[queued("NODE_FAIL")]))[0] == "lost"  # squeue knows


def test_a_job_seconds_old_that_slurm_does_not_know_is_unknown() -> None:
    young = known(jobs=[submitted("slurm", "22", minutes=59)], queued=[], has_driver=True)
    assert judge_state(young) == ("unknown", "squeue does not know of job 22, which was submitted 60 s ago")
    assert judge_state(msgspec.structs.replace(young, queued=[queued("FAILED")]))[0] == "queued"  # its driver goes on
    assert judge_state(msgspec.structs.replace(young, jobs=[SLURM_JOB], has_driver=False))[0] == "lost"


def test_a_recorded_rank_error_makes_a_failure_of_a_loss() -> None:
    noted = known(events=[started(1, 0)], rank_error="rank 3 on n1: no space")
    assert judge_state(noted) == ("failed", "rank 3 on n1: no space")
    newer = msgspec.structs.replace(noted, jobs=[submitted("local", "99", minutes=9)])
    assert judge_state(newer) == ("failed", "job 99, before it began an attempt: rank 3 on n1: no space")


def test_a_run_of_another_machine_without_a_lock_is_unknown_while_it_is_active() -> None:
    there = known(events=[started(1, 0, host="there")], last_activity=at(59))
    state, reason = judge_state(there)
    assert (state, reason) == ("unknown", "on there, its lock cannot be seen from here; last activity 60 s ago")
    assert judge_state(msgspec.structs.replace(there, last_activity=at(30)))[0] == "lost"
