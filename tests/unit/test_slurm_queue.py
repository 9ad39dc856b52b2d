"""What is read of Slurm's queue, and what is not taken for an answer; Slurm's commands are
stand-ins here.
"""

import os
from pathlib import Path

import pytest

import aiayn.launch.slurm.queue
from aiayn.launch.slurm.queue import SlurmError, SlurmQueue
from aiayn.runs.queue import QueuedJob
from tests.fake_slurm import FakeSlurm

QUEUE = SlurmQueue()
SCRIPT = "/runs/run/submitit/a|b.sh"  # the last field may contain any character
PENDING_REASONS_WITH_ADVICE = {
    "PartitionTimeLimit": "lower time_limit_minutes",
    "PartitionNodeLimit": "lower num_nodes",
    "PartitionDown": "its partition is closed",
    "PartitionInactive": "its partition is closed",
    "BadConstraints": "no node has what it requests",
    "InvalidAccount": "name yours (account)",
    "InvalidQOS": "name yours (qos)",
    "AssocMaxWallDurationPerJobLimit": "more than one job may have",
    "QOSMaxWallDurationPerJobLimit": "more than one job may have",
    "AssocMaxJobsLimit": "a limit of your account",
    "AssocGrpGRES": "a limit of your account",
    "QOSMaxGRESPerUser": "a limit of its QoS",
    "QOSGrpNodeLimit": "a limit of its QoS",
    "ReqNodeNotAvail, UnavailableNodes:n1": "scontrol show reservation",
    "DependencyNeverSatisfied": "what it depends on has failed",
    "Dependency": "it waits for the end of 5 (/5.sh), of the same name",
}


# Slurm's state and reason; the job's state, why it waits or how it ended, words, whether it waits
# for a person, advice.
@pytest.mark.parametrize(
    ("slurm_state", "slurm_reason", "state", "reason", "words", "is_stuck", "advice"),
    [
        ("PENDING", "Priority", "waiting", "Priority", "PENDING (Priority)", False, ""),
        ("PENDING", "None", "waiting", "", "PENDING", False, ""),
        (
            "PENDING",
            "JobHeldUser",
            "waiting",
            "JobHeldUser",
            "PENDING (JobHeldUser)",
            True,
            "`scontrol release 7`",
        ),
        (
            "PENDING",
            "JobHeldAdmin",
            "waiting",
            "JobHeldAdmin",
            "PENDING (JobHeldAdmin)",
            True,
            "`scontrol release 7`",
        ),
        (
            "REQUEUE_HOLD",
            "None",
            "waiting",
            "REQUEUE_HOLD",
            "REQUEUE_HOLD",
            True,
            "`scontrol release 7`",
        ),
        (
            "SPECIAL_EXIT",
            "None",
            "waiting",
            "SPECIAL_EXIT",
            "SPECIAL_EXIT",
            True,
            "`scontrol release 7`",
        ),
        (
            "RESV_DEL_HOLD",
            "None",
            "waiting",
            "RESV_DEL_HOLD",
            "RESV_DEL_HOLD",
            True,
            "`scontrol release 7`",
        ),
        ("REQUEUED", "None", "waiting", "REQUEUED", "REQUEUED", False, ""),
        (
            "CONFIGURING",
            "PartitionDown",
            "waiting",
            "CONFIGURING",
            "CONFIGURING (PartitionDown)",
            False,
            "",
        ),
        ("RUNNING", "None", "running", "", "RUNNING", False, ""),
        ("COMPLETING", "None", "running", "COMPLETING", "COMPLETING", False, ""),
        ("SUSPENDED", "None", "running", "SUSPENDED", "SUSPENDED", False, ""),
        (
            "POWER_UP_NODE",
            "None",
            "running",
            "POWER_UP_NODE",
            "POWER_UP_NODE",
            False,
            "",
        ),  # unknown here: alive
        ("CANCELLED", "None", "ended", "cancelled", "CANCELLED", False, ""),
        ("CANCELLED by 1000", "None", "ended", "cancelled", "CANCELLED by 1000", False, ""),
        ("COMPLETED", "None", "ended", "completed", "COMPLETED", False, ""),
        ("FAILED", "NonZeroExitCode", "ended", "failed", "FAILED", False, ""),
        ("OUT_OF_MEMORY", "None", "ended", "out of memory", "OUT_OF_MEMORY", False, ""),
        *(
            (state, "None", "ended", "other", state, False, "")
            for state in ("BOOT_FAIL", "DEADLINE", "NODE_FAIL", "PREEMPTED", "REVOKED", "TIMEOUT")
        ),
        *(
            ("PENDING", reason, "waiting", reason, f"PENDING ({reason})", False, advice)
            for reason, advice in PENDING_REASONS_WITH_ADVICE.items()
        ),
    ],
)
def test_slurms_words_become_those_of_any_queue(
    slurm_state: str,
    slurm_reason: str,
    state: str,
    reason: str,
    words: str,
    is_stuck: bool,
    advice: str,
    slurm: FakeSlurm,
) -> None:
    slurm.set_queue(
        f"7|{slurm_state}||1:00|run|{slurm_reason}|{SCRIPT}",
        "5|RUNNING|n1|1:00|run|None|/5.sh",
        "6|FAILED||0:00|run||x",
    )
    *_, job = QUEUE.find("run")
    assert (job.job, job.state, job.words, job.is_stuck) == ("7", state, words, is_stuck)
    assert reason == (job.reason if job.is_alive else job.ending)
    assert advice in job.advice
    assert bool(advice) == bool(job.advice)


def test_jobs_of_a_name_or_all_are_found_oldest_first(slurm: FakeSlurm) -> None:
    slurm.set_queue(
        f"12|PENDING||1:00|run|Dependency|{SCRIPT}", f"9|RUNNING|n1|1-02:03:04|other|None|{SCRIPT}"
    )
    (job,) = QUEUE.find("run")  # the other's name is another: nothing to wait for
    assert (job.job, job.script, job.advice) == ("12", SCRIPT, "")
    first, second = QUEUE.find()
    assert second == job
    assert first == QueuedJob(
        job="9",
        state="running",
        words="RUNNING",
        node="n1",
        time_left="1-02:03:04",
        name="other",
        script=SCRIPT,
    )
    assert "--name" not in slurm.calls("squeue")[1]


@pytest.mark.parametrize(
    "printed", ["slurm_load_jobs error: Unable to contact slurm controller", ""]
)
def test_an_error_has_squeues_words(slurm: FakeSlurm, printed: str) -> None:
    (slurm.folder / "words").write_text(printed, encoding="utf-8")
    slurm.replace_command("squeue", f"#!/bin/sh\ncat {slurm.folder}/words >&2\nexit 1\n")
    with pytest.raises(SlurmError) as silent:
        QUEUE.find("run")
    assert silent.value.reason == (printed or "exit code 1")


def test_a_cut_answer_is_none_and_an_empty_one_is_an_answer(slurm: FakeSlurm) -> None:
    assert QUEUE.find("run") == []
    slurm.set_queue("9|RUNNING|run|")
    with pytest.raises(SlurmError, match=r"cut: '9.RUNNING.run.'"):
        QUEUE.find("run")


def test_a_command_that_hangs_or_is_missing_is_no_answer(
    slurm: FakeSlurm, monkeypatch: pytest.MonkeyPatch
) -> None:
    slurm.replace_command("squeue", "#!/bin/sh\nexec sleep 60\n")
    monkeypatch.setattr(aiayn.launch.slurm.queue, "TIMEOUT_SECONDS", 0.2)
    assert QUEUE.is_here()
    with pytest.raises(SlurmError, match=r"no answer within 0 s"):
        QUEUE.find("run")
    monkeypatch.setenv("PATH", str(slurm.folder))
    assert not QUEUE.is_here()
    with pytest.raises(SlurmError, match=r"`scancel .* --name=run` failed: not found"):
        QUEUE.cancel("run")


def test_what_a_user_hides_from_squeue_is_not_hidden_here(
    slurm: FakeSlurm, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SQUEUE_PARTITION in a shell's set-up would hide an alive job."""
    monkeypatch.setenv("SQUEUE_PARTITION", "other")
    assert QUEUE.find("run") == []
    assert (slurm.folder / "foreign").read_text(encoding="utf-8") == ""


def test_a_name_is_cancelled_for_this_user_alone(slurm: FakeSlurm) -> None:
    QUEUE.cancel("run")
    assert slurm.calls("scancel") == [f"--user={os.geteuid()} --name=run"]
    slurm.set_flag("down")
    with pytest.raises(SlurmError, match="--name=run` failed: Unable to contact slurm controller"):
        QUEUE.cancel("run")


def test_another_copys_job_of_the_same_name_is_not_this_runs(tmp_path: Path) -> None:
    here = QueuedJob(job="7", state="running", name="run", script=f"{tmp_path}/run/submitit/a.sh")
    assert here.trains_in(tmp_path / "run")
    assert not here.trains_in(tmp_path / "other" / "run")
