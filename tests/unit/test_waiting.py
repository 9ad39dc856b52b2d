"""What a driver advises the user about a job that waits in Slurm's queue."""

import pytest

from aiayn.launch.slurm_queue import waiting_advice
from aiayn.runs.queue import QueuedJob


def waiting(reason: str, job: str = "7", state: str = "PENDING") -> QueuedJob:
    """Return a job that waits for a reason."""
    return QueuedJob(job=job, state=state, reason=reason, node="", time_left="", name="run", script=f"/{job}.sh")


@pytest.mark.parametrize(
    ("reason", "advice"),
    [
        ("PartitionTimeLimit", "lower time_limit_minutes"),
        ("PartitionNodeLimit", "lower num_nodes"),
        ("PartitionDown", "its partition is closed"),
        ("PartitionInactive", "its partition is closed"),
        ("BadConstraints", "no node has what it requests"),
        ("InvalidAccount", "name yours (account)"),
        ("InvalidQOS", "name yours (qos)"),
        ("AssocMaxWallDurationPerJobLimit", "more than one job may have"),
        ("QOSMaxWallDurationPerJobLimit", "more than one job may have"),
        ("AssocMaxJobsLimit", "a limit of your account"),
        ("AssocGrpGRES", "a limit of your account"),
        ("QOSMaxGRESPerUser", "a limit of its QoS"),
        ("QOSGrpNodeLimit", "a limit of its QoS"),
        ("ReqNodeNotAvail, UnavailableNodes:n1", "scontrol show reservation"),
        ("DependencyNeverSatisfied", "what it depends on has failed"),
        ("JobHeldUser", "`scontrol release 7`"),
    ],
)
def test_a_reason_that_may_last_for_ever_has_advice(reason: str, advice: str) -> None:
    assert advice in waiting_advice(waiting(reason), [])


@pytest.mark.parametrize("reason", ["Priority", "Resources", "BeginTime", "None", ""])
def test_a_reason_that_passes_by_itself_has_none(reason: str) -> None:
    assert waiting_advice(waiting(reason), []) == ""


def test_a_job_that_runs_or_ends_waits_for_nothing() -> None:
    assert waiting_advice(waiting("PartitionDown", state="COMPLETING"), []) == ""


def test_the_job_that_singleton_waits_for_is_named() -> None:
    job, other = waiting("Dependency"), waiting("None", job="5", state="RUNNING")
    assert waiting_advice(job, [other, job]) == "it waits for the end of 5 (/5.sh), of the same name"
    assert waiting_advice(job, [job]) == ""


def test_a_deleted_reservation_has_advice_with_the_commands() -> None:
    advice = waiting_advice(waiting("ReservationDeleted", state="RESV_DEL_HOLD"), [])
    assert "its reservation was deleted: `scontrol update JobId=7 ReservationName=ANOTHER` and `scontrol rel" in advice
