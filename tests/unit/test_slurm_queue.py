"""What is read of Slurm's queue, and what is not taken for an answer; Slurm's commands are stand-ins here."""

import os
from pathlib import Path

import pytest

import aiayn.launch.slurm_queue
from aiayn.errors import LaunchError
from aiayn.launch.slurm_queue import SlurmError, ask_queue, cancel_jobs, find_jobs, has_slurm
from aiayn.runs.queue import QueuedJob
from tests.fake_slurm import FakeSlurm


def test_jobs_of_a_name_are_found_oldest_first(slurm: FakeSlurm) -> None:
    slurm.set_queue(
        "12|PENDING||1:00:00|run|launch failed requeued held|/runs/run/submitit/a|b.sh",
        "9|RUNNING|n1|1-02:03:04|run|None|/runs/run/submitit/c.sh",
        "10|RUNNING|n2|59:00|other|None|/d.sh",
    )
    found = find_jobs("run")
    assert found == [
        QueuedJob(
            job="9", state="RUNNING", reason="None", node="n1", time_left="1-02:03:04", name="run",
            script="/runs/run/submitit/c.sh",
        ),
        QueuedJob(
            job="12", state="PENDING", reason="launch failed requeued held", node="", time_left="1:00:00", name="run",
            script="/runs/run/submitit/a|b.sh",
        ),
    ]  # fmt: skip
    assert [queued.is_stuck for queued in found or []] == [False, True]


def test_without_a_name_all_are_found(slurm: FakeSlurm) -> None:
    slurm.set_queue("9|RUNNING|n1|1:00|a|None|/a.sh", "10|FAILED||0:00|b|NonZeroExitCode|/b.sh")
    assert [(queued.name, queued.is_alive) for queued in find_jobs() or []] == [("a", True), ("b", False)]
    assert "--name" not in slurm.calls("squeue")[0]


@pytest.mark.parametrize(
    "state",
    ["PENDING", "RUNNING", "COMPLETING", "SUSPENDED", "REQUEUED", "CONFIGURING", "RESV_DEL_HOLD", "POWER_UP_NODE"],
)
def test_a_state_that_is_no_end_is_alive(state: str) -> None:
    """So is a state that this version knows nothing of: a second job would be submitted beside it."""
    assert QueuedJob(job="1", state=state, reason="", node="", time_left="").is_alive


@pytest.mark.parametrize(
    "state",
    [
        *("BOOT_FAIL", "CANCELLED", "CANCELLED by 1000", "COMPLETED", "DEADLINE", "FAILED", "NODE_FAIL"),
        *("OUT_OF_MEMORY", "PREEMPTED", "REVOKED", "TIMEOUT"),
    ],
)
def test_an_end_state_is_not_alive(state: str) -> None:
    assert not QueuedJob(job="1", state=state, reason="", node="", time_left="").is_alive


@pytest.mark.parametrize(
    ("state", "reason", "is_stuck"),
    [
        ("PENDING", "JobHeldUser", True),
        ("PENDING", "JobHeldAdmin", True),
        ("REQUEUE_HOLD", "None", True),
        ("SPECIAL_EXIT", "None", True),
        ("RESV_DEL_HOLD", "None", True),
        ("PENDING", "Resources", False),
        ("RUNNING", "None", False),
    ],
)
def test_a_held_job_waits_for_the_user(state: str, reason: str, is_stuck: bool) -> None:
    assert QueuedJob(job="1", state=state, reason=reason, node="", time_left="").is_stuck is is_stuck


def test_an_empty_queue_is_an_answer_and_an_unavailable_one_is_none(slurm: FakeSlurm) -> None:
    assert find_jobs("run") == []
    slurm.set_flag("down")
    assert find_jobs("run") is None


def test_the_error_of_an_unavailable_queue_is_squeues_own(slurm: FakeSlurm) -> None:
    slurm.set_flag("down")
    reason = "slurm_load_jobs error: Unable to contact slurm controller"
    with pytest.raises(SlurmError) as silent:
        ask_queue("run")
    assert (silent.value.reason, silent.value.is_final) == (reason, False)


@pytest.mark.parametrize(
    ("words", "is_final"),
    [
        ("squeue: unrecognized option '--me'\nTry \"squeue --help\" for more information", True),
        ("squeue: error: Invalid job state specified: all", True),
        ("slurm_load_jobs error: Invalid authentication credential", False),
        ("", False),
    ],
)
def test_a_question_that_squeue_does_not_understand_is_not_asked_again(
    slurm: FakeSlurm, words: str, is_final: bool
) -> None:
    (slurm.folder / "words").write_text(words, encoding="utf-8")
    slurm.replace_command("squeue", f"#!/bin/sh\ncat {slurm.folder}/words >&2\nexit 1\n")
    with pytest.raises(SlurmError) as silent:
        ask_queue("run")
    assert (silent.value.reason, silent.value.is_final) == (words.strip() or "exit code 1", is_final)
    assert find_jobs("run") is None


def test_a_cut_answer_is_no_answer(slurm: FakeSlurm) -> None:
    slurm.set_queue("9|RUNNING|run|")
    assert find_jobs("run") is None


def test_a_command_that_hangs_is_no_answer(slurm: FakeSlurm, monkeypatch: pytest.MonkeyPatch) -> None:
    slurm.replace_command("squeue", "#!/bin/sh\nexec sleep 60\n")
    monkeypatch.setattr(aiayn.launch.slurm_queue, "TIMEOUT_SECONDS", 0.2)
    assert find_jobs("run") is None


def test_without_slurm_nothing_is_known(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert not has_slurm()
    assert find_jobs("run") is None
    with pytest.raises(LaunchError, match=r"`scancel .* --name=run` failed: .* 20 s"):
        cancel_jobs("run")


def test_what_a_user_hides_from_squeue_is_not_hidden_here(slurm: FakeSlurm, monkeypatch: pytest.MonkeyPatch) -> None:
    """SQUEUE_PARTITION in a shell's set-up would hide an alive job."""
    monkeypatch.setenv("SQUEUE_PARTITION", "other")
    assert has_slurm()
    assert find_jobs("run") == []
    assert (slurm.folder / "foreign").read_text(encoding="utf-8") == ""


def test_a_name_is_cancelled_for_this_user_alone(slurm: FakeSlurm) -> None:
    cancel_jobs("run")
    assert slurm.calls("scancel") == [f"--user={os.geteuid()} --name=run"]
    slurm.set_flag("down")
    with pytest.raises(LaunchError, match="--name=run` failed: Unable to contact slurm controller"):
        cancel_jobs("run")
