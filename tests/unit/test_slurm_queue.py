"""What is read of Slurm's queue, and what is not taken for an answer. Slurm's commands are
stand-ins here.
"""

import os
from pathlib import Path

import pytest

import aiayn.launch.slurm.queue
from aiayn.launch.slurm.queue import SlurmError, SlurmQueue
from aiayn.runs.queue import QueuedJob
from tests.case_tables import each_case
from tests.fake_slurm import FakeSlurm

QUEUE = SlurmQueue()
SCRIPT = "/runs/run/submitit/a|b.sh"  # the last field may contain any character


@each_case("slurm_states.csv")
def test_slurms_words_become_those_of_any_queue(
    slurm_state: str,
    slurm_reason: str,
    state: str,
    reason: str,
    words: str,
    is_stuck: str,
    advice: str,
    slurm: FakeSlurm,
) -> None:
    """Slurm may add states that the table lacks: a job in such a state, as here in POWER_UP_NODE,
    counts as running.
    """
    slurm.set_queue(
        f"7|{slurm_state}||1:00|run|{slurm_reason}|{SCRIPT}",
        "5|RUNNING|n1|1:00|run|None|/5.sh",
        "6|FAILED||0:00|run||x",
    )
    *_, job = QUEUE.find("run")
    assert (job.job, job.state, job.words) == ("7", state, words)
    assert job.is_stuck == (is_stuck == "yes")
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
    # In a cut answer jobs that run would look as if they had ended.
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
    # For an administrator, scancel would reach all users' jobs of that name.
    QUEUE.cancel("run")
    assert slurm.calls("scancel") == [f"--user={os.geteuid()} --name=run"]
    slurm.set_flag("down")
    with pytest.raises(SlurmError, match="--name=run` failed: Unable to contact slurm controller"):
        QUEUE.cancel("run")


def test_another_copys_job_of_the_same_name_is_not_this_runs(tmp_path: Path) -> None:
    # Two checkouts of a user have runs of the same names.
    here = QueuedJob(job="7", state="running", name="run", script=f"{tmp_path}/run/submitit/a.sh")
    assert here.trains_in(tmp_path / "run")
    assert not here.trains_in(tmp_path / "other" / "run")
