"""What a driver does, as one table: the queue's answers and the run's events, then jobs, outcome
and words.

Slurm's commands are stand-ins, and each wait of the driver is a step in which something happens; so
is each job of this machine. The first job is 7.
"""

import functools
import os
import pickle
import re
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import msgspec
import pytest

import aiayn.launch.driver
import aiayn.runs.run_folder
from aiayn.errors import LaunchError, RunError
from aiayn.launch.code_snapshot import snapshot_folder, take_snapshot
from aiayn.records import TrainRecord, read_record
from aiayn.runs.attempts import DONE_NAME, Outcome
from aiayn.runs.clock import Clock
from aiayn.runs.run_folder import RunFolder
from tests.driven_run import DrivenRun
from tests.fake_slurm import FakeSlurm
from tests.run_folders import job_output, submitted, training_process, write_log

Step = Callable[[DrivenRun], object]
# a job of the same name of another copy of the project
ELSEWHERE = "run|None|/elsewhere/runs/run/submitit/a.sh"


def nothing(driven: DrivenRun) -> None: ...


def finish(driven: DrivenRun) -> None:
    driven.finish()


def together(*steps: Step) -> Step:
    return lambda driven: [step(driven) for step in steps]


def squeue(state: str, reason: str = "None", job: str = "7") -> Step:  # '': it forgets the job
    node = "" if state == "PENDING" else "n1"
    return lambda driven: driven.slurm.set_state(job, state, reason, node)


def begin(job: str = "7", *saved: int) -> Step:  # an attempt for each checkpoint
    return lambda driven: [
        (driven.start(job), update and driven.save(update)) for update in saved or (0,)
    ]  # type: ignore[func-returns-value]


def save(update: int) -> Step:
    return lambda driven: driven.save(update)


def attempt(outcome: Outcome, reason: str = "", *, update: int = 0) -> Step:
    return lambda driven: driven.stop(outcome, reason, update=update)


def flag(name: str, text: str = "") -> Step:
    return lambda driven: driven.slurm.set_flag(name, text)


def clear(name: str) -> Step:
    return lambda driven: driven.slurm.clear_flag(name)


def cluster(**changes: object) -> Step:  # of three jobs of 1440 minutes
    return lambda driven: driven.change_cluster(**changes)


def queue(*lines: str) -> Step:
    return lambda driven: driven.slurm.set_queue(*lines)


def in_queue(job: str, state: str) -> Step:
    return lambda driven: driven.slurm.put(
        job, state, "run", script=f"{driven.folder}/submitit/a.sh"
    )


def rank_error(driven: DrivenRun) -> None:
    driven.request.folder.record_rank_error(5, LaunchError("n2: torch sees 7 GPUs, expected 8"))


def prints(job: str) -> Step:  # its batch script
    return lambda driven: job_output(driven.folder, job, f"srun: job {job}: python3: not found\n")


def log(*lines: str) -> Step:
    return lambda driven: write_log(driven.folder, lines)


def beat(driven: DrivenRun) -> None:  # at each look from now on
    driven.clock.at_each_look = lambda: driven.set_heartbeat(driven.clock.now())


def reappear(driven: DrivenRun) -> None:
    lines = (driven.slurm.folder / "queue").read_text(encoding="utf-8").strip()
    driven.slurm.set_queue()
    driven.clock.at_each_look = lambda: driven.slurm.set_queue(lines)


def unnumbered_pickle(driven: DrivenRun) -> None:  # of a driver that was killed within sbatch
    (driven.folder / "submitit").mkdir()
    (driven.folder / "submitit" / "0123456789abcdef.pkl").write_bytes(b"the request")


def has_two_files(driven: DrivenRun) -> None:  # a driver may try for days
    assert len(list((driven.folder / "submitit").iterdir())) == 2


class Case(NamedTuple):
    """What happens before the driver and at its waits; the jobs that it records, its error and what
    it logs, once each.

    Without an error the run is done and its record copied. `outcome` is that of the newest attempt.
    """

    steps: tuple[Step, ...]
    jobs: tuple[str, ...] = ("7",)
    error: str = ""
    logged: tuple[str, ...] = ()
    before: Step = nothing
    outcome: str = ""
    released: int = 0
    launcher: str = "slurm"


CANCELLED = r"run: Slurm job 7 was cancelled at update 30 of 3000; the same command resumes it$"
CASES = {
    # How a job can end, and what follows.
    "it runs and is done": Case((squeue("RUNNING"), finish), logged=("job 7 runs on n1", "Slurm job 7, 1 rank, log")),
    "a finished run asks no queue": Case((), (), before=finish),
    "a cancelled job": Case((together(begin("7", 30), squeue("CANCELLED")),), error=CANCELLED, outcome="cancelled"),
    "a cancelled job of an earlier driver": Case((finish,), before=in_queue("6", "CANCELLED")),
    "a failed training": Case(
        (together(attempt("failed", "SpaceError: the disk is full"), squeue("FAILED", "NonZeroExitCode")),),
        error="run: SpaceError: the disk is full", outcome="failed",
    ),
    "a rank's error where rank 0 was killed first": Case(
        (together(begin(), rank_error, squeue("FAILED", "NonZeroExitCode")),),
        error=r"run: rank 5 on .*: n2: torch sees 7 GPUs", outcome="failed",
    ),
    "a rank's error of an earlier job": Case((squeue("TIMEOUT"), finish), ("7", "8"), before=rank_error),
    **{
        f"a job that ended as {state}": Case((together(begin(), squeue(state)), finish), ("7", "8"))
        for state in ("TIMEOUT", "PREEMPTED", "FAILED")
    },
    "saved at its time limit": Case(
        (together(attempt("stopped", "asked by SIGUSR2", update=100), squeue("COMPLETED")), finish), ("7", "8"),
    ),
    "no more jobs than allowed, of which Slurm started one twice": Case(
        (together(begin("7", 100, 200), squeue("TIMEOUT")), together(begin("8", 300), squeue("TIMEOUT", job="8"))),
        ("7", "8"), error=r"run: update 300 of 3000 after 3 jobs of 1440 minutes",
    ),
    "three ends without a new checkpoint": Case(
        tuple(together(begin(job), squeue(state, job=job)) for job, state in
              (("7", "FAILED"), ("8", "FAILED"), ("9", "NODE_FAIL"))),
        ("7", "8", "9"), error=r"run: 3 jobs ended .*checkpoint.* job 9, ended as NODE_FAIL\n",
        before=cluster(max_num_jobs=20),
    ),
    "three failures before an attempt, as without Python on the node": Case(
        tuple(together(prints(job), squeue("FAILED", "NonZeroExitCode", job)) for job in ("7", "8", "9")),
        ("7", "8", "9"), before=cluster(max_num_jobs=20),
        error=r"^run: 3 jobs ended .* job 9, ended as FAILED\n[\s\S]*\n  srun: job 9: python3: not found$",
    ),
    "it lacked memory twice at one checkpoint": Case(
        tuple(together(begin(job, 100), squeue("OUT_OF_MEMORY", job=job)) for job in ("7", "8")),
        ("7", "8"), error=r"run: 1 job ended .* job 8, ended as OUT_OF_MEMORY; .*memory_gb_per_node .* 16\n",
        before=cluster(memory_gb_per_node=16),
    ),
    # A job that may be alive is waited for, whoever submitted it and whatever squeue shows.
    "an alive job, whose driver was killed before it recorded it": Case(
        (finish,), ("5",), before=in_queue("5", "RUNNING"), logged=("run: attached to Slurm job 5",)
    ),
    "a job of the same name in another folder": Case((finish,), before=queue(f"5|RUNNING|n1|1:00|{ELSEWHERE}")),
    "a requeued job is the same job": Case(
        (squeue("COMPLETING"), squeue("PENDING", "BeginTime"), squeue("RUNNING"), finish),
        logged=(r"job 7 COMPLETING$", r"job 7 PENDING \(BeginTime\)$"),
    ),
    "why it waits is logged once, and the user's own hold left alone": Case(
        (squeue("PENDING", "Resources"), nothing, squeue("PENDING", "JobHeldUser"), finish),
        logged=(r"PENDING \(Resources\)$", r"\(JobHeldUser\); it waits for you: `scontrol release 7`, or `aiayn"),
    ),
    "Slurm's own hold is released three times": Case(
        (*[squeue("PENDING", "launch failed requeued held")] * 5, finish), released=3,
        logged=("job 7 and holds it: released, 3 of 3", "it waits for you: `scontrol release 7`"),
    ),
    "it will never start by itself": Case(
        (squeue("PENDING", "PartitionTimeLimit"), squeue("PENDING", "Dependency"), finish),
        before=queue(f"5|RUNNING|n1|1:00|{ELSEWHERE}"),
        logged=(
            r"PENDING \(PartitionTimeLimit\); .*time_limit_minutes",
            r"PENDING \(Dependency\); .*5 \(/elsewhere/runs/run/submitit/a.sh\), of the same name, or `aiayn",
        ),
    ),
    "while squeue does not answer no job counts as ended": Case(
        (flag("down"), nothing, together(clear("down"), squeue("RUNNING")), finish),
        logged=("squeue does not answer: slurm_load_jobs error: Unable to contact slurm controller",),
    ),
    "done while squeue does not answer": Case((flag("down"), nothing, finish)),
    "a heartbeat of a job that squeue has lost": Case(
        (together(begin(), squeue(""), beat), nothing, finish), logged=("no longer knows job 7; looking",)
    ),
    "a job that reappears in the queue": Case(
        (together(begin(), reappear), nothing, finish), before=cluster(max_num_jobs=1)
    ),
    "a lost job without a heartbeat": Case((together(begin(), squeue("")), finish), ("7", "8")),
    "a job lost before its attempt": Case((squeue(""), finish), ("7", "8"), logged=("no longer knows job 7; looking",)),
    "saved at its time limit, and lost": Case(
        (together(attempt("stopped", "asked by SIGUSR2"), queue()), finish), ("7", "8")
    ),
    "saved on TERM, and lost: most likely cancelled": Case(
        (together(attempt("stopped", "asked by SIGTERM"), queue()),), error="stopped at update 0 of 3000, asked by SI"
    ),
    # What can go wrong between a driver and sbatch.
    "an sbatch without an answer may have submitted all the same": Case((nothing, finish), before=flag("unanswered")),
    "a job whose driver was killed within sbatch": Case(
        (finish,), ("5",), before=together(unnumbered_pickle, in_queue("5", "PENDING"))
    ),
    "a refusal that may pass": Case(
        (has_two_files, has_two_files, clear("refused"), finish),
        before=flag("refused", "sbatch: error: QOSMaxSubmitJobPerUserLimit\n"),
        logged=("run: sbatch failed: sbatch: error: QOSMaxSubmitJobPerUserLimit; that may pass: the next .* in 60 s",),
    ),
    "done by another machine's job while sbatch refuses": Case(
        (finish,), (), before=flag("refused", "sbatch: error: QOSMaxSubmitJobPerUserLimit\n")
    ),
    "a refusal that does not pass": Case(
        (nothing,), (), error="invalid partition", before=flag("refused", "sbatch: error: invalid partition")
    ),
    # Jobs of this machine, of which no queue knows how they ended.
    "local: it runs and is done": Case((finish,), launcher="local"),
    "local: never three ends without a new checkpoint": Case(
        (nothing, nothing, save(10), nothing, nothing, finish), ("7", "8", "9", "10", "11", "12"), launcher="local"
    ),
    "local: three ends without a new checkpoint, of which update 10's is new once": Case(
        (save(10), nothing, nothing, together(save(10), prints("10"))), ("7", "8", "9", "10"), launcher="local",
        error=r"run: 3 jobs ended without a new checkpoint\n[\s\S]*\n  srun: job 10: python3: not found$",
    ),
    "local: a failed training": Case(
        (together(log("epoch 1", "CUDA out of memory"), attempt("failed", "RuntimeError: out of memory")),),
        error=r"run: RuntimeError: out of memory\n[\s\S]*epoch 1\n  CUDA out of memory$", launcher="local",
    ),
    "local: the failure before this driver is no failure of its job": Case(
        (nothing, finish), ("7", "8"), before=attempt("failed", "yesterday"), launcher="local"
    ),
    **{
        f"local: saved on {name}, which no other job follows": Case(
            (attempt("stopped", f"asked by {name}", update=30),), launcher="local",
            error=rf"^run: stopped at update 30 of 3000, asked by {name}; the same command resumes it$",
        )
        for name in ("SIGTERM", "SIGUSR2")
    },
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_a_driver_does_with_a_job_as_its_queue_and_its_run_say(
    name: str, driven: DrivenRun, caplog: pytest.LogCaptureFixture
) -> None:
    case = CASES[name]
    case.before(driven)
    steps = [functools.partial(step, driven) for step in case.steps]
    with caplog.at_level("INFO"):
        if case.error:
            with pytest.raises((RunError, LaunchError)) as raised:
                driven.drive(*steps, launcher=case.launcher)
            assert re.search(case.error, str(raised.value)), raised.value
            assert raised.value.exit_code == 3
        else:
            driven.drive(*steps, launcher=case.launcher)
            assert read_record(driven.record_path, TrainRecord).run_folder == driven.folder
    assert driven.record_path.exists() is not bool(case.error)
    assert tuple(driven.jobs) == case.jobs
    assert driven.slurm.num_submitted() == (
        len(set(case.jobs) - {"5"}) if case.launcher == "slurm" else 0
    )
    assert (
        len([call for call in driven.slurm.calls("scontrol") if "release" in call]) == case.released
    )
    for pattern in case.logged:
        assert len([message for message in caplog.messages if re.search(pattern, message)]) == 1, (
            pattern
        )
    if case.outcome:
        assert (driven.last_end.outcome, driven.last_end.update) == (
            case.outcome,
            driven.request.folder.newest_update(),
        )
    for job in driven.jobs:  # without it a job would fail
        has_pickle = (driven.folder / "submitit" / f"{job}_submitted.pkl").exists()
        assert has_pickle or name.startswith(("an alive job", "local"))
    assert name != "a finished run asks no queue" or driven.slurm.calls("squeue") == []


def test_a_recorded_job_has_its_code_chosen_once_and_where_it_resumes(
    driven: DrivenRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However the checkout changes, a driver's later jobs run the code of its first."""
    copied: list[Path] = []
    monkeypatch.setattr(
        aiayn.launch.driver,
        "take_snapshot",
        lambda folder: (copied.append(folder), take_snapshot(folder))[1],
    )
    driven.drive(
        lambda: together(attempt("stopped", "asked by SIGUSR2", update=100), squeue("COMPLETED"))(
            driven
        ),
        driven.finish,
    )
    first, second = driven.request.folder.jobs()
    assert (first.launcher, first.num_ranks, first.update, second.update) == (
        "slurm",
        driven.request.num_ranks,
        0,
        100,
    )
    assert Path(first.code_folder, "aiayn", "launch", "job.py").is_file()
    assert copied == [driven.folder.parent]
    assert second.code_folder == first.code_folder


def test_a_run_with_a_checkpoint_runs_the_present_code_and_names_its_commit(
    driven: DrivenRun, tmp_path: Path
) -> None:
    (driven.folder / "checkpoints").mkdir(exist_ok=True)
    driven.save(30)
    RunFolder(driven.folder).append_job(
        msgspec.structs.replace(
            submitted("slurm", "6"), commit="old", code_folder=str(tmp_path / "code of job 6")
        )
    )
    driven.drive(driven.finish)
    job = driven.request.folder.jobs()[-1]
    assert (job.job, job.commit) == ("7", driven.request.commit)
    assert job.code_folder == str(snapshot_folder(driven.folder.parent))
    script = (driven.slurm.folder / "7.sh").read_text(encoding="utf-8")
    assert f"export AIAYN_COMMIT={driven.request.commit}\n" in script
    assert f"export PYTHONPATH={job.code_folder}" in script.replace("'", "")
    pickled = pickle.loads((driven.folder / "submitit" / "7_submitted.pkl").read_bytes()).function
    assert pickled.request.code_folder == job.code_folder


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

    monkeypatch.setattr(aiayn.runs.run_folder.os, "listdir", list_late)


def test_a_late_record_is_awaited(driven: DrivenRun, monkeypatch: pytest.MonkeyPatch) -> None:
    driven.drive(lambda: (end_without_record(driven), hide_record(driven, 4, monkeypatch)))
    assert driven.slurm.num_submitted() == 1


def test_a_record_that_does_not_appear_is_written_by_another_job(driven: DrivenRun) -> None:
    """Rank 0 was killed between the end of its attempt and its record."""
    driven.drive(lambda: end_without_record(driven), driven.finish)
    assert driven.slurm.num_submitted() == 2


def test_no_job_is_submitted_while_rank_0_holds_its_lock_and_touches_it(driven: DrivenRun) -> None:
    driven.clock.at_each_look = lambda: driven.set_heartbeat(driven.clock.now() // 40)
    with training_process(driven.folder):
        driven.drive(lambda: None, driven.finish)
    assert driven.slurm.num_submitted() == 0


def test_a_held_lock_without_a_heartbeat_is_of_a_machine_that_went_down(driven: DrivenRun) -> None:
    """NFS 3 keeps it until that machine has booted, which may be never."""
    with training_process(driven.folder):
        driven.drive(driven.finish)
    assert 60 <= driven.clock.now() < 100
    assert driven.slurm.num_submitted() == 1


def test_a_squeue_that_is_missing_ends_the_driver(
    driven: DrivenRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(driven.folder))
    with pytest.raises(
        LaunchError,
        match=r"run: no squeue on PATH: this machine has no Slurm; .* `--launcher local`",
    ):
        driven.drive()
    assert driven.slurm.num_submitted() == 0


@pytest.mark.parametrize("launcher", ["slurm", "local"])
@pytest.mark.parametrize(
    ("number", "error"),
    [(signal.SIGINT, KeyboardInterrupt), (signal.SIGTERM, RunError), (signal.SIGHUP, RunError)],
)
def test_a_signal_ends_the_driver_after_its_job_here_and_at_once_where_that_runs_on(
    number: signal.Signals,
    error: type[BaseException],
    launcher: str,
    driven: DrivenRun,
    slurm: FakeSlurm,
    caplog: pytest.LogCaptureFixture,
) -> None:
    handler = signal.getsignal(number)
    with caplog.at_level("INFO"), pytest.raises(error):
        driven.drive(lambda: os.kill(os.getpid(), number), launcher=launcher)
    assert signal.getsignal(number) is handler
    if launcher == "local":
        return
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
