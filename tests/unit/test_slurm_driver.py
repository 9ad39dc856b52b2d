"""What a driver does when a Slurm job ends, waits or vanishes; Slurm's commands are stand-ins."""

import contextlib
import fcntl
import os
import pickle
import re
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import aiayn.launch.slurm_driver
import aiayn.runs.attempts
from aiayn.clock import Clock
from aiayn.errors import LaunchError, RunError
from aiayn.launch.code_snapshot import RunCode
from aiayn.launch.driver import drive
from aiayn.records import TrainRecord, read_record
from aiayn.runs.attempts import DONE_NAME, RANK_LOCK_NAME
from aiayn.runs.jobs import output_path, read_jobs, record_rank_error
from tests.driven_run import DrivenRun, Step
from tests.fake_slurm import FakeSlurm

ELSEWHERE = "run|None|/elsewhere/runs/run/submitit/a.sh"  # a job of the same name of another copy of the project


class TestEnds:
    """How a job can end, and what follows."""

    def test_a_jobs_record_is_copied_and_the_job_recorded(self, driven: DrivenRun) -> None:
        driven.drive(lambda: driven.slurm.set_state("7", "RUNNING"), driven.finish)
        assert read_record(driven.record_path, TrainRecord).run_folder == driven.folder
        (job,) = read_jobs(driven.folder)
        assert (job.launcher, job.job, job.num_ranks) == ("slurm", "7", driven.request.num_ranks)
        assert Path(job.code_folder, "aiayn", "launch", "job.py").is_file()

    def test_a_finished_run_asks_no_queue(self, driven: DrivenRun) -> None:
        driven.finish()
        driven.drive()
        assert driven.slurm.num_submitted() == 0
        assert driven.slurm.calls("squeue") == []

    def test_no_job_follows_a_cancelled_one(self, driven: DrivenRun) -> None:
        def cancel() -> None:
            driven.start()
            driven.save(30)
            driven.slurm.set_state("7", "CANCELLED")

        with pytest.raises(RunError) as raised:
            driven.drive(cancel)
        assert str(raised.value) == ("run: Slurm job 7 was cancelled at update 30 of 3000; the same command resumes it")
        assert raised.value.exit_code == 3
        assert driven.slurm.num_submitted() == 1
        assert (driven.last_end.outcome, driven.last_end.update) == ("cancelled", 30)
        assert not driven.record_path.exists()

    def test_the_next_start_after_a_cancelled_job_resumes(self, driven: DrivenRun) -> None:
        """squeue still shows the cancelled job, which must not end the new one."""
        driven.slurm.put("6", "CANCELLED", "run", script=f"{driven.folder}/submitit/a.sh")
        driven.drive(driven.finish)
        assert driven.slurm.num_submitted() == 1

    def test_a_failed_training_is_not_repeated(self, driven: DrivenRun) -> None:
        def fail() -> None:
            driven.stop("failed", "SpaceError: the disk is full")
            driven.slurm.set_state("7", "FAILED", "NonZeroExitCode")

        with pytest.raises(RunError, match="run: SpaceError: the disk is full"):
            driven.drive(fail)
        assert driven.slurm.num_submitted() == 1

    def test_the_error_of_a_rank_is_named_where_rank_0_was_killed_first(self, driven: DrivenRun) -> None:
        def fail() -> None:
            driven.start()
            record_rank_error(driven.folder, 5, LaunchError("n2: torch sees 7 GPUs, expected 8"))
            driven.slurm.set_state("7", "FAILED", "NonZeroExitCode")

        with pytest.raises(RunError, match=r"run: rank 5 on .*: n2: torch sees 7 GPUs"):
            driven.drive(fail)
        assert driven.last_end.outcome == "failed"

    @pytest.mark.parametrize("state", ["TIMEOUT", "PREEMPTED", "FAILED"])
    def test_after_any_other_end_of_a_job_another_one_resumes(self, state: str, driven: DrivenRun) -> None:
        driven.drive(lambda: (driven.start(), driven.slurm.set_state("7", state)), driven.finish)
        assert driven.jobs == ["7", "8"]

    def test_a_job_that_saved_at_its_time_limit_is_followed_by_another(self, driven: DrivenRun) -> None:
        def stop() -> None:
            driven.stop("stopped", "asked by SIGUSR2", update=100)
            driven.slurm.set_state("7", "COMPLETED")

        driven.drive(stop, driven.finish)
        assert [job.update for job in read_jobs(driven.folder)] == [0, 100]

    def test_no_more_jobs_follow_than_are_allowed(self, driven: DrivenRun) -> None:
        """Three: the first is started twice by Slurm itself."""

        def end(job: str, *updates: int) -> None:
            for update in updates:
                driven.start(job)
                driven.save(update)
            driven.slurm.set_state(job, "TIMEOUT")

        with pytest.raises(RunError, match=r"run: update 300 of 3000 after 3 jobs of 1440 minutes"):
            driven.drive(lambda: end("7", 100, 200), lambda: end("8", 300))
        assert driven.slurm.num_submitted() == 2

    def test_a_training_whose_jobs_end_thrice_without_a_new_checkpoint_is_given_up(self, driven: DrivenRun) -> None:
        def end(job: str, state: str) -> Step:
            return lambda: (driven.start(job), driven.slurm.set_state(job, state))

        driven.change_cluster(max_num_jobs=20)
        with pytest.raises(RunError, match=r"run: 3 jobs ended .*checkpoint.* job 9, ended as NODE_FAIL\n"):
            driven.drive(end("7", "FAILED"), end("8", "FAILED"), end("9", "NODE_FAIL"))

    def test_a_training_whose_jobs_fail_twice_before_an_attempt_is_given_up_with_their_output(
        self, driven: DrivenRun
    ) -> None:
        """As without Python on the node; another rank may have printed last."""

        def fail(job: str) -> None:
            output_path(driven.folder, job).write_text(f"srun: job {job}: python3: not found\n", encoding="utf-8")
            (driven.folder / "submitit" / f"{job}_5_log.out").write_text("rank 5\n", encoding="utf-8")
            driven.slurm.set_state(job, "FAILED", "NonZeroExitCode")

        driven.change_cluster(max_num_jobs=20)
        with pytest.raises(RunError) as raised:
            driven.drive(lambda: fail("7"), lambda: fail("8"))
        assert str(raised.value).startswith("run: job 8 ended as FAILED before its training began")
        assert str(raised.value).endswith("\n  srun: job 8: python3: not found")
        assert driven.slurm.num_submitted() == 2

    def test_a_job_without_an_attempt_and_a_failed_attempt_are_counted_apart(self, driven: DrivenRun) -> None:
        driven.change_cluster(max_num_jobs=20)
        driven.drive(
            lambda: driven.slurm.set_state("7", "FAILED"),
            lambda: (driven.start("8"), driven.slurm.set_state("8", "FAILED")),
            driven.finish,
        )
        assert driven.slurm.num_submitted() == 3

    def test_a_job_that_lacked_memory_is_repeated_only_after_a_new_checkpoint(self, driven: DrivenRun) -> None:
        def end(job: str, update: int) -> Step:
            return lambda: (driven.start(job), driven.save(update), driven.slurm.set_state(job, "OUT_OF_MEMORY"))

        driven.change_cluster(memory_gb_per_node=16)
        with pytest.raises(RunError, match="run: job 8 ended as OUT_OF_MEMORY") as raised:
            driven.drive(end("7", 100), end("8", 100))
        assert re.search(r"memory_gb_per_node .* 16\n", str(raised.value))
        assert driven.slurm.num_submitted() == 2


def end_without_record(driven: DrivenRun) -> None:
    """Train to the end and record it in attempts.jsonl alone."""
    driven.stop("done", update=3000)
    driven.slurm.set_state("7", "COMPLETED")


def hide_record(driven: DrivenRun, seconds: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """Finish, on a file system that shows the record so many of the driver's seconds later."""
    driven.finish()
    shown_at = driven.clock.now() + seconds
    list_folder = os.listdir

    def list_late(folder: Path | str) -> list[str]:
        is_shown = driven.clock.now() >= shown_at
        return [name for name in list_folder(folder) if is_shown or name != DONE_NAME]

    monkeypatch.setattr(aiayn.runs.attempts.os, "listdir", list_late)


class TestRecords:
    """A run that is done by attempts.jsonl is not trained again because its record is not seen yet."""

    def test_a_late_record_is_awaited(self, driven: DrivenRun, monkeypatch: pytest.MonkeyPatch) -> None:
        driven.drive(lambda: (end_without_record(driven), hide_record(driven, 100, monkeypatch)))
        assert read_record(driven.record_path, TrainRecord).run_folder == driven.folder
        assert driven.slurm.num_submitted() == 1

    def test_the_next_driver_awaits_it_too(self, driven: DrivenRun, monkeypatch: pytest.MonkeyPatch) -> None:
        end_without_record(driven)
        hide_record(driven, 100, monkeypatch)
        driven.drive()
        assert driven.slurm.num_submitted() == 0

    def test_a_record_that_does_not_appear_ends_the_driver_and_the_next_one_has_it_written_again(
        self, driven: DrivenRun, caplog: pytest.LogCaptureFixture
    ) -> None:
        """Rank 0 was killed between the end of its attempt and its record."""
        with pytest.raises(RunError) as raised:
            driven.drive(lambda: end_without_record(driven))
        assert f"120 s there is no {driven.folder / DONE_NAME}" in str(raised.value)
        assert driven.slurm.num_submitted() == 1
        with caplog.at_level("INFO"):
            driven.drive(driven.finish)
        assert "its done.json is gone" in caplog.text
        assert driven.slurm.num_submitted() == 2


class TestWaiting:
    """A job that may be alive is waited for, whoever submitted it and whatever squeue shows."""

    def test_an_alive_job_is_attached_to_and_recorded(
        self, driven: DrivenRun, caplog: pytest.LogCaptureFixture
    ) -> None:
        """Its driver was killed between sbatch and the record of the job."""
        driven.slurm.put("5", "RUNNING", "run", script=f"{driven.folder}/submitit/.submission_file_a.sh")
        with caplog.at_level("INFO"):
            driven.drive(driven.finish)
        assert driven.slurm.num_submitted() == 0
        assert "run: attached to Slurm job 5" in caplog.text
        assert [(job.job, job.code_folder) for job in read_jobs(driven.folder)] == [("5", "")]

    def test_a_job_of_the_same_name_in_another_folder_is_not_this_runs(self, driven: DrivenRun) -> None:
        """To wait for another copy's job would end without a record."""
        driven.slurm.set_queue(f"5|RUNNING|n1|1:00|{ELSEWHERE}")
        driven.drive(driven.finish)
        assert driven.slurm.num_submitted() == 1

    def test_a_requeued_job_is_the_same_job(self, driven: DrivenRun, caplog: pytest.LogCaptureFixture) -> None:
        with caplog.at_level("INFO"):
            driven.drive(
                lambda: driven.slurm.set_state("7", "COMPLETING"),
                lambda: driven.slurm.set_state("7", "PENDING", "BeginTime", ""),
                lambda: driven.slurm.set_state("7", "RUNNING"),
                driven.finish,
            )
        assert driven.slurm.num_submitted() == 1
        assert "job 7 PENDING (BeginTime)" in caplog.text

    def test_why_a_job_waits_is_logged_once_and_a_held_one_with_advice(
        self, driven: DrivenRun, caplog: pytest.LogCaptureFixture
    ) -> None:
        with caplog.at_level("INFO"):
            driven.drive(
                lambda: driven.slurm.set_state("7", "PENDING", "Resources", ""),
                lambda: None,
                lambda: driven.slurm.set_state("7", "PENDING", "JobHeldUser", ""),
                driven.finish,
            )
        assert caplog.text.count("PENDING (Resources)") == 1
        assert driven.slurm.calls("scontrol") == []  # the user's own hold is left alone
        advice = "it waits for you: `scontrol release 7`, or `aiayn cancel run`"
        assert f"PENDING (JobHeldUser); {advice}" in caplog.text

    def test_a_job_that_slurm_itself_holds_is_released_three_times(
        self, driven: DrivenRun, caplog: pytest.LogCaptureFixture
    ) -> None:
        hold = [lambda: driven.slurm.set_state("7", "PENDING", "launch failed requeued held", "")] * 5
        with caplog.at_level("INFO"):
            driven.drive(*hold, driven.finish)
        assert [call for call in driven.slurm.calls("scontrol") if "release" in call] == ["release 7"] * 3
        assert "Slurm could not launch job 7 and holds it: released, 3 of 3" in caplog.text
        assert "it waits for you: `scontrol release 7`" in caplog.text

    def test_while_squeue_does_not_answer_no_job_counts_as_ended(
        self, driven: DrivenRun, caplog: pytest.LogCaptureFixture
    ) -> None:
        with caplog.at_level("INFO"):
            driven.drive(
                lambda: driven.slurm.set_flag("down"),
                lambda: None,
                lambda: (driven.slurm.clear_flag("down"), driven.slurm.set_state("7", "RUNNING")),
                driven.finish,
            )
        assert driven.slurm.num_submitted() == 1
        logged = "squeue does not answer: slurm_load_jobs error: Unable to contact slurm controller"
        assert caplog.text.count(logged) == 1

    def test_a_squeue_that_does_not_understand_ends_the_driver(self, driven: DrivenRun) -> None:
        text = "#!/bin/sh\necho \"squeue: unrecognized option '--me'\" >&2\nexit 1\n"
        driven.slurm.replace_command("squeue", text)
        with pytest.raises(LaunchError, match="squeue: unrecognized option '--me'"):
            driven.drive()
        assert driven.slurm.num_submitted() == 0

    def test_a_job_that_will_never_start_by_itself_is_logged_with_advice(
        self, driven: DrivenRun, caplog: pytest.LogCaptureFixture
    ) -> None:
        driven.slurm.set_queue(f"5|RUNNING|n1|1:00|{ELSEWHERE}")
        with caplog.at_level("INFO"):
            driven.drive(
                lambda: driven.slurm.set_state("7", "PENDING", "PartitionTimeLimit", ""),
                lambda: driven.slurm.set_state("7", "PENDING", "Dependency", ""),
                driven.finish,
            )
        assert re.search(r"PENDING \(PartitionTimeLimit\); .*time_limit_minutes", caplog.text)
        other = "5 (/elsewhere/runs/run/submitit/a.sh), of the same name, or `aiayn cancel run`"
        assert re.search(rf"PENDING \(Dependency\); .*{re.escape(other)}", caplog.text)

    def test_a_run_that_is_done_while_squeue_does_not_answer_is_done(self, driven: DrivenRun) -> None:
        driven.drive(lambda: driven.slurm.set_flag("down"), lambda: None, driven.finish)
        assert driven.slurm.num_submitted() == 1

    def test_a_job_with_a_heartbeat_is_alive_though_squeue_has_lost_it(self, driven: DrivenRun) -> None:
        """A controller that was killed when the job was seconds old does not know it; another would be a second."""

        def forget() -> None:
            driven.start()
            driven.slurm.set_state("7", "")
            driven.clock.at_each_look = lambda: driven.set_heartbeat(driven.clock.now())

        driven.drive(forget, lambda: None, driven.finish)
        assert driven.slurm.num_submitted() == 1

    def test_a_job_that_reappears_in_the_queue_is_waited_for(self, driven: DrivenRun) -> None:
        """A controller that has just restarted shows it late: it is asked again before the job counts as ended."""

        def forget() -> None:
            driven.start()
            queue = (driven.slurm.folder / "queue").read_text(encoding="utf-8").strip()
            driven.slurm.set_queue()
            driven.clock.at_each_look = lambda: driven.slurm.set_queue(queue)

        driven.change_cluster(max_num_jobs=1)
        driven.drive(forget, lambda: None, driven.finish)
        assert driven.slurm.num_submitted() == 1

    def test_a_job_that_squeue_has_lost_and_that_has_no_heartbeat_is_followed_by_another(
        self, driven: DrivenRun
    ) -> None:
        driven.drive(lambda: (driven.start(), driven.slurm.set_state("7", "")), driven.finish)
        assert driven.clock.now() >= aiayn.launch.slurm_driver.GRACE_SECONDS
        assert driven.slurm.num_submitted() == 2

    def test_a_job_that_saved_on_term_and_that_squeue_has_lost_was_most_likely_cancelled(
        self, driven: DrivenRun
    ) -> None:
        def stop(name: str) -> Step:
            return lambda: (driven.stop("stopped", f"asked by {name}"), driven.slurm.set_queue())

        driven.drive(stop("SIGUSR2"), driven.finish)
        (driven.folder / DONE_NAME).unlink()
        with pytest.raises(RunError, match="stopped at update 0 of 3000"):
            driven.drive(stop("SIGTERM"))

    def test_no_job_is_submitted_while_rank_0_holds_its_lock_and_touches_it(self, driven: DrivenRun) -> None:
        driven.clock.at_each_look = lambda: driven.set_heartbeat(driven.clock.now() // 40)
        with rank_lock_held(driven.folder):
            driven.drive(lambda: None, driven.finish)
        assert driven.slurm.num_submitted() == 0

    def test_a_held_lock_without_a_heartbeat_is_of_a_machine_that_went_down(
        self, driven: DrivenRun, caplog: pytest.LogCaptureFixture
    ) -> None:
        """NFS 3 keeps it until that machine has booted, which may be never."""
        with rank_lock_held(driven.folder):
            driven.drive(driven.finish)
        assert 60 <= driven.clock.now() < 100
        assert driven.slurm.num_submitted() == 1
        assert re.search(f"{RANK_LOCK_NAME}: .* 60 s", caplog.text)


@contextlib.contextmanager
def rank_lock_held(run_folder: Path) -> Iterator[None]:
    """Let another process hold rank 0's lock, untouched."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        with (run_folder / RANK_LOCK_NAME).open("a") as lock:
            fcntl.lockf(lock, fcntl.LOCK_EX)
            os.write(writer, b"!")
            signal.pause()
    os.read(reader, 1)
    try:
        yield
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


class TestSubmissions:
    """What is submitted, and what can go wrong between a driver and sbatch."""

    def test_a_job_runs_the_code_that_is_chosen_for_its_run_and_names_its_commit(
        self, driven: DrivenRun, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        code = RunCode(folder=tmp_path / "code of job 6", commit="old")
        monkeypatch.setattr(aiayn.launch.slurm_driver, "choose_code", lambda request: code)
        driven.drive(driven.finish)
        assert [(job.code_folder, job.commit) for job in read_jobs(driven.folder)] == [(str(code.folder), "old")]
        script = (driven.slurm.folder / "7.sh").read_text(encoding="utf-8")
        assert "export AIAYN_COMMIT=old\n" in script
        assert f"export PYTHONPATH='{code.folder}'" in script
        job = pickle.loads((driven.folder / "submitit" / "7_submitted.pkl").read_bytes()).function
        assert job.request.code_folder == str(code.folder)

    def test_an_sbatch_without_an_answer_may_have_submitted_all_the_same(self, driven: DrivenRun) -> None:
        driven.slurm.set_flag("unanswered")
        driven.drive(lambda: None, driven.finish)
        assert driven.slurm.num_submitted() == 1
        assert driven.jobs == ["7"]
        assert (driven.folder / "submitit" / "7_submitted.pkl").exists()  # without it the job would fail

    def test_a_job_whose_driver_was_killed_within_sbatch_gets_its_pickled_training(self, driven: DrivenRun) -> None:
        (driven.folder / "submitit").mkdir()
        (driven.folder / "submitit" / "0123456789abcdef.pkl").write_bytes(b"the request")
        driven.slurm.put("5", "PENDING", "run", script=f"{driven.folder}/submitit/.submission_file_a.sh")
        driven.drive(driven.finish)
        assert (driven.folder / "submitit" / "5_submitted.pkl").read_bytes() == b"the request"

    def test_a_refusal_that_may_pass_is_tried_again_and_logged_once(
        self, driven: DrivenRun, caplog: pytest.LogCaptureFixture
    ) -> None:
        """Thirty trainings under a limit of eight jobs a user: twenty-two wait, and leave no files for each trial."""

        def look() -> None:
            assert len(list((driven.folder / "submitit").iterdir())) == 2

        driven.slurm.set_flag("refused", "sbatch: error: QOSMaxSubmitJobPerUserLimit\n")
        with caplog.at_level("INFO"):
            driven.drive(look, look, lambda: driven.slurm.clear_flag("refused"), driven.finish)
        assert driven.slurm.num_submitted() == 1
        refusal = "run: sbatch failed: sbatch: error: QOSMaxSubmitJobPerUserLimit"
        assert caplog.text.count(f"{refusal}; that may pass: the next attempt is in 60 s") == 1

    def test_a_run_that_another_machines_job_finishes_while_sbatch_refuses_is_done(self, driven: DrivenRun) -> None:
        driven.slurm.set_flag("refused", "sbatch: error: QOSMaxSubmitJobPerUserLimit\n")
        driven.drive(driven.finish)
        assert driven.slurm.num_submitted() == 0

    def test_a_refusal_that_does_not_pass_ends_the_driver(self, driven: DrivenRun) -> None:
        driven.slurm.set_flag("refused", "sbatch: error: invalid partition")
        with pytest.raises(LaunchError, match="invalid partition"):
            driven.drive(lambda: None)

    def test_without_slurm_the_driver_fails(self, driven: DrivenRun, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("PATH", str(driven.folder))
        with pytest.raises(LaunchError, match="run: no squeue on PATH"):
            driven.drive()

    def test_another_launcher_leaves_a_run_of_slurm_alone(self, driven: DrivenRun) -> None:
        driven.drive(lambda: driven.slurm.set_state("7", "FAILED"), driven.finish)
        (driven.folder / DONE_NAME).unlink()
        with pytest.raises(LaunchError, match=r"Slurm job 8 .*`--launcher slurm`"):
            drive(driven.request, launcher="local", record_path=driven.record_path)
        with pytest.raises(LaunchError, match=r"Slurm job 8 .*`--fresh`"):
            driven.drive(fresh=True)
        driven.slurm.set_flag("down")
        with pytest.raises(LaunchError, match=r"Slurm job 8 .*slurm_load_jobs error"):
            drive(driven.request, launcher="local", record_path=driven.record_path)

    def test_a_job_of_the_same_name_in_another_folder_does_not_prevent_a_fresh_start(self, driven: DrivenRun) -> None:
        driven.drive(driven.finish)
        driven.slurm.set_queue(f"9|RUNNING|n1|1:00|{ELSEWHERE}")
        driven.drive(driven.finish, fresh=True)
        assert (driven.folder / "aside-1" / DONE_NAME).exists()


@pytest.mark.parametrize(
    ("number", "error"), [(signal.SIGINT, KeyboardInterrupt), (signal.SIGTERM, RunError), (signal.SIGHUP, RunError)]
)
def test_a_signal_ends_the_driver_at_once_and_the_job_runs_on(
    number: signal.Signals, error: type[BaseException], driven: DrivenRun, slurm: FakeSlurm,
    caplog: pytest.LogCaptureFixture,
) -> None:  # fmt: skip
    handler = signal.getsignal(number)
    with caplog.at_level("INFO"), pytest.raises(error):
        driven.drive(lambda: os.kill(os.getpid(), number))
    assert signal.getsignal(number) is handler
    assert "`aiayn train --s" in caplog.text
    assert "`aiayn cancel run`, or `scancel --name=run`" in caplog.text
    assert slurm.num_submitted() == 1
    assert slurm.calls("scancel") == []


def test_a_pause_is_as_long_as_it_says_and_ends_early_by_its_check() -> None:
    began = time.monotonic()
    Clock().pause(0.7)
    assert 0.7 <= time.monotonic() - began < 5

    def check() -> None:
        raise RunError("ended by SIGTERM")

    with pytest.raises(RunError):
        Clock().pause(3600.0, check)
